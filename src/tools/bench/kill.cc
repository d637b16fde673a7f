#include "tools/bench/kill.h"

#include <algorithm>

#include "base/sync.h"

namespace dfkv::tools {

void Killer::NoteAcknowledged(std::span<const uint64_t> blocks, std::span<const Code> codes) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (codes[i] == Code::kOk) acknowledged_.insert(blocks[i]);
  }
}

std::vector<uint64_t> Killer::PresentNow(const NodeControl& control, client::Client& client,
                                         BlockIo& io) const {
  std::vector<uint64_t> blocks(acknowledged_.begin(), acknowledged_.end());
  std::sort(blocks.begin(), blocks.end());
  if (!control.evicts) return blocks;
  std::vector<Code> codes;
  io.Exist(client, blocks, codes);
  size_t kept = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (codes[i] == Code::kOk) blocks[kept++] = blocks[i];
  }
  blocks.resize(kept);
  return blocks;
}

Result<KillReport> Killer::Kill(const NodeControl& control, client::Client*& client, BlockIo& io,
                                std::span<const uint64_t> blocks, uint64_t depth, Nanos delay) {
  KillReport report;
  const std::vector<uint64_t> present = PresentNow(control, *client, io);

  Tally cut;
  std::vector<Code> codes;
  {
    Thread killer;
    bool sent = false;  // a PUT of several calls is cut in its first
    const auto strike_later = [&] {
      if (std::exchange(sent, true)) return;
      killer = Thread("killer", [&control, delay] {
        Mutex mutex;
        CondVar never;
        {
          MutexLock lock(mutex);
          never.WaitFor(mutex, std::max<Nanos>(delay, 1));
        }
        control.kill();
      });
    };
    io.OnPut(strike_later);
    io.Put(*client, blocks, depth, cut, codes);
    io.OnPut({});
  }
  NoteAcknowledged(blocks, codes);
  report.batch_blocks = blocks.size();
  report.batch_acknowledged = cut.of(Code::kOk);
  report.acknowledged = acknowledged_.size();

  const Nanos restart_start = SystemClock().Now();
  const Result<client::Client*> restarted = control.restart();
  if (!restarted.ok()) return restarted.status();
  client = *restarted;
  report.restart_seconds = static_cast<double>(SystemClock().Now() - restart_start) * 1e-9;

  Tally after;
  std::vector<Code> found;
  io.Get(*client, present, after, found);
  const auto is_missing = [](Code code) { return code != Code::kOk; };
  report.checked = present.size();
  report.missing = static_cast<uint64_t>(std::count_if(found.begin(), found.end(), is_missing));
  io.Get(*client, blocks, after, found);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (codes[i] != Code::kOk || std::binary_search(present.begin(), present.end(), blocks[i])) continue;
    ++report.checked;
    if (is_missing(found[i])) ++report.missing;
  }
  report.missing_allowed = control.evicts ? blocks.size() + control.missing_max : 0;
  report.wrong = after.wrong;
  io.TakeCallTime();  // not the request's
  return report;
}

}  // namespace dfkv::tools
