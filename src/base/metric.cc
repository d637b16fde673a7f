#include "base/metric.h"

#include <bit>
#include <cmath>
#include <cstdio>

#include "base/check.h"
#include "base/text.h"

namespace dfkv {
namespace {

std::string RenderLabels(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    if (!text.empty()) text += ',';
    text += Cat(name, "=\"");
    for (char c : value) {
      if (c == '\\' || c == '"') text += '\\';
      if (c == '\n') {
        text += "\\n";
      } else {
        text += c;
      }
    }
    text += '"';
  }
  return text;
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return Cat(value);
}

void AppendSample(std::string& out, const std::string& name, const std::string& labels,
                  const std::string& value) {
  out += name;
  if (!labels.empty()) out += Cat("{", labels, "}");
  out += Cat(" ", value, "\n");
}

void AppendHistogram(std::string& out, const std::string& name, const std::string& labels,
                     const Histogram& h) {
  const std::string prefix = labels.empty() ? "" : labels + ",";
  uint64_t below = 0;
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    below += h.bucket(i);
    AppendSample(out, name + "_bucket",
                 Cat(prefix, "le=\"", NumberText(Histogram::UpperBoundSeconds(i)), "\""), Cat(below));
  }
  AppendSample(out, name + "_bucket", prefix + "le=\"+Inf\"", Cat(h.count() > below ? h.count() : below));
  AppendSample(out, name + "_sum", labels, NumberText(h.sum_seconds()));
  AppendSample(out, name + "_count", labels, Cat(h.count() > below ? h.count() : below));
}

}  // namespace

void Histogram::Observe(Nanos latency) {
  const uint64_t micros = latency <= 1000 ? 1 : static_cast<uint64_t>((latency + 999) / 1000);
  const size_t bucket = static_cast<size_t>(std::bit_width(micros - 1));
  if (bucket < kBuckets) buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(latency, std::memory_order_relaxed);
  int64_t max = max_ns_.load(std::memory_order_relaxed);
  while (latency > max && !max_ns_.compare_exchange_weak(max, latency, std::memory_order_relaxed)) {
  }
}

double Histogram::UpperBoundSeconds(size_t bucket) {
  return std::ldexp(1e-6, static_cast<int>(bucket));
}

MetricRegistry::Family& MetricRegistry::FamilyOf(const std::string& name, const std::string& help,
                                                 const char* type) {
  Family& family = families_[name];
  if (family.type.empty()) {
    family.type = type;
    family.help = help;
  }
  DFKV_CHECK(family.type == type);
  return family;
}

MetricRegistry::Series& MetricRegistry::Find(const std::string& name, const std::string& help,
                                             const char* type, const Labels& labels) {
  Family& family = FamilyOf(name, help, type);
  std::string rendered = RenderLabels(labels);
  for (Series& series : family.series) {
    if (series.labels == rendered) return series;
  }
  family.series.push_back({});
  family.series.back().labels = std::move(rendered);
  return family.series.back();
}

Counter& MetricRegistry::AddCounter(const std::string& name, const std::string& help, Labels labels) {
  MutexLock lock(mutex_);
  Series& series = Find(name, help, "counter", labels);
  if (series.counter == nullptr) series.counter = &counters_.emplace_back();
  return *series.counter;
}

Gauge& MetricRegistry::AddGauge(const std::string& name, const std::string& help, Labels labels) {
  MutexLock lock(mutex_);
  Series& series = Find(name, help, "gauge", labels);
  if (series.gauge == nullptr) series.gauge = &gauges_.emplace_back();
  return *series.gauge;
}

Histogram& MetricRegistry::AddHistogram(const std::string& name, const std::string& help, Labels labels) {
  MutexLock lock(mutex_);
  Series& series = Find(name, help, "histogram", labels);
  if (series.histogram == nullptr) series.histogram = &histograms_.emplace_back();
  return *series.histogram;
}

void MetricRegistry::AddCallback(const std::string& name, const std::string& help, const char* type,
                                 Labels labels, std::function<double()> read) {
  MutexLock lock(mutex_);
  Find(name, help, type, labels).read = std::move(read);
}

void MetricRegistry::AddCollector(const std::string& name, const std::string& help, const char* type,
                                  std::function<Collected()> collect) {
  MutexLock lock(mutex_);
  FamilyOf(name, help, type).collect = std::move(collect);
}

std::string MetricRegistry::Render() const {
  MutexLock lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    out += Cat("# HELP ", name, " ", family.help, "\n# TYPE ", name, " ", family.type, "\n");
    for (const Series& series : family.series) {
      if (series.histogram != nullptr) {
        AppendHistogram(out, name, series.labels, *series.histogram);
      } else if (series.counter != nullptr) {
        AppendSample(out, name, series.labels, Cat(series.counter->value()));
      } else if (series.gauge != nullptr) {
        AppendSample(out, name, series.labels, Cat(series.gauge->value()));
      } else if (series.read) {
        AppendSample(out, name, series.labels, NumberText(series.read()));
      }
    }
    if (!family.collect) continue;
    for (const auto& [labels, value] : family.collect()) {
      AppendSample(out, name, RenderLabels(labels), NumberText(value));
    }
  }
  return out;
}

std::vector<std::pair<std::string, double>> MetricRegistry::Snapshot() const {
  MutexLock lock(mutex_);
  std::vector<std::pair<std::string, double>> values;
  for (const auto& [name, family] : families_) {
    for (const Series& series : family.series) {
      const std::string suffix = series.labels.empty() ? "" : Cat("{", series.labels, "}");
      if (series.histogram != nullptr) {
        values.emplace_back(Cat(name, "_count", suffix), static_cast<double>(series.histogram->count()));
        values.emplace_back(Cat(name, "_sum", suffix), series.histogram->sum_seconds());
      } else if (series.counter != nullptr) {
        values.emplace_back(name + suffix, static_cast<double>(series.counter->value()));
      } else if (series.gauge != nullptr) {
        values.emplace_back(name + suffix, static_cast<double>(series.gauge->value()));
      } else if (series.read) {
        values.emplace_back(name + suffix, series.read());
      }
    }
    if (!family.collect) continue;
    for (const auto& [labels, value] : family.collect()) {
      values.emplace_back(Cat(name, "{", RenderLabels(labels), "}"), value);
    }
  }
  return values;
}

std::vector<MetricRegistry::Description> MetricRegistry::Describe() const {
  MutexLock lock(mutex_);
  std::vector<Description> all;
  for (const auto& [name, family] : families_) all.push_back({name, family.type, family.help});
  return all;
}

}  // namespace dfkv
