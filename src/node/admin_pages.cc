// The pages of the admin port. They look into the store, so they tell nothing before the node is ready.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "node/node.h"

namespace dfkv::node {
namespace {

constexpr int kOk = 200;
constexpr int kUnavailable = 503;

// Counts without a fraction.
nlohmann::ordered_json JsonNumber(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value == std::floor(value) && std::abs(value) < kExact) return static_cast<int64_t>(value);
  return value;
}

}  // namespace

Status Node::StartAdminBlocking() {
  if (!config_.http) return Ok();
  admin_ = std::make_unique<admin::HttpServer>(*config_.http);
  admin_->Handle("/metrics", [this](const admin::Request&) {
    if (!ready())
      return admin::Response{kUnavailable, admin::kMetricsContentType, "# starting or stopping\n"};
    return admin::Response{kOk, admin::kMetricsContentType, metrics_.Render()};
  });
  admin_->Handle("/healthz", [this](const admin::Request&) {
    const bool well = !ready() || healthy();
    return admin::Response{well ? kOk : kUnavailable, "text/plain",
                           well ? "ok\n" : "every disk has failed\n"};
  });
  admin_->Handle("/readyz", [this](const admin::Request&) {
    if (!ready()) return admin::Response{kUnavailable, "text/plain", "starting or stopping\n"};
    const bool well = healthy();
    return admin::Response{well ? kOk : kUnavailable, "text/plain",
                           well ? "ok\n" : "every disk has failed\n"};
  });
  admin_->Handle("/stats", [this](const admin::Request&) {
    return admin::Response{ready() ? kOk : kUnavailable, admin::kJsonContentType, StatsJson()};
  });
  return admin_->Start();
}

std::string Node::StatsJson() const {
  nlohmann::ordered_json page = {
      {"id", config_.id}, {"group", config_.group}, {"version", DFKV_VERSION}, {"ready", ready()}};
  if (ready()) {
    page["address"] = address();
    page["io"] = io_kind();
    page["threads"] = config_.threads;
    page["healthy"] = healthy();
    page["objects"] = object_count();
    page["ram_tier_bytes"] = config_.store.ram_bytes;
    page["capacity_bytes"] = config_.store.capacity_bytes;
    page["directories"] = config_.store.directories;
    nlohmann::ordered_json& metrics = page["metrics"];
    for (const auto& [name, value] : metrics_.Snapshot()) metrics[name] = JsonNumber(value);
  }
  return page.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace dfkv::node
