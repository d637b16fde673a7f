// The floor of copies: memcpy, and a copy with non-temporal stores, which does not read the destination
// first, of blocks that go through far more memory than the caches hold.
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/option_cli.h"
#include "base/sync.h"
#include "base/text.h"
#include "bench/floor/common.h"

namespace dfkv::floor {
namespace {

enum class CopyKind : uint8_t { kPlain, kNonTemporal };

struct Options {
  CopyKind kind = CopyKind::kPlain;
  uint32_t threads = 1;
  uint64_t size = 1 << 20;
  uint64_t memory = 256 << 20;
  TimeOptions time;
};

using Copy = void (*)(std::byte* to, const std::byte* from, uint64_t size);

void CopyPlain(std::byte* to, const std::byte* from, uint64_t size) {
  std::memcpy(to, from, size);
}

constexpr uint64_t kAhead = 1024;  // bytes fetched before they are copied

[[gnu::target("avx512f")]] void CopyAvx512(std::byte* to, const std::byte* from, uint64_t size) {
  for (uint64_t at = 0; at < size; at += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kAhead), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kAhead + 64), _MM_HINT_T0);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_loadu_si512(from + at));
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + 64), _mm512_loadu_si512(from + at + 64));
  }
  _mm_sfence();
}

[[gnu::target("avx2")]] void CopyAvx2(std::byte* to, const std::byte* from, uint64_t size) {
  for (uint64_t at = 0; at < size; at += 32) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kAhead), _MM_HINT_T0);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
  }
  _mm_sfence();
}

void CopySse(std::byte* to, const std::byte* from, uint64_t size) {
  for (uint64_t at = 0; at < size; at += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
  _mm_sfence();
}

Copy ChooseCopy(CopyKind kind, std::string_view* name) {
  if (kind == CopyKind::kPlain) return *name = "memcpy", CopyPlain;
  if (__builtin_cpu_supports("avx512f")) return *name = "avx512", CopyAvx512;
  if (__builtin_cpu_supports("avx2")) return *name = "avx2", CopyAvx2;
  return *name = "sse2", CopySse;
}

int Main(int argc, char** argv) {
  Options options;
  OptionSet set;
  set.AddEnum("kind", &options.kind, {{"plain", CopyKind::kPlain}, {"non-temporal", CopyKind::kNonTemporal}},
              "memcpy, or stores that go around the caches.");
  set.Add("threads", &options.threads, "Threads that copy.").Range(1, 256);
  set.AddBytes("size", &options.size, "Bytes of a copy, a multiple of 128.").Range(128, 1 << 30);
  set.AddBytes("memory", &options.memory, "Memory that each thread copies from, and to.")
      .Range(128, 1ll << 34);
  RegisterTime(&set, &options.time);
  const ProgramText text = {"floor_copy", "Copies of memory to memory."};
  if (const auto status = LoadProgramOptions(text, &set, argc, argv)) return *status;
  options.size = AlignUp(options.size, 128);
  options.memory = std::max(options.memory / options.size, uint64_t{1}) * options.size;

  std::string_view name;
  const Copy copy = ChooseCopy(options.kind, &name);
  Shared& shared = MakeShared();
  std::atomic<uint64_t> copies{0};
  std::vector<std::pair<Memory, Memory>> memory;
  for (uint32_t i = 0; i < options.threads; ++i) {
    memory.emplace_back(Memory(options.memory + kAhead + 128), Memory(options.memory));
  }
  std::vector<Thread> threads;
  for (uint32_t i = 0; i < options.threads; ++i) {
    threads.emplace_back(Cat("copy-", i), [&, i] {
      const auto& [from, to] = memory[i];
      uint64_t done = 0;
      for (uint64_t at = 0; !shared.stop.load(std::memory_order_relaxed);
           at = at + 2 * options.size <= options.memory ? at + options.size : 0) {
        copy(to.data() + at, from.data() + at, options.size);
        done += shared.go.load(std::memory_order_relaxed);
      }
      copies += done;
    });
  }
  CpuMeter cpu;
  const double seconds = KeepTime(options.time, shared, cpu);
  const Nanos used = cpu.Used();
  for (Thread& thread : threads) thread.Join();
  const double bytes = static_cast<double>(copies.load()) * static_cast<double>(options.size);
  Json()
      .Add("program", "floor_copy")
      .Add("kind", name)
      .Add("threads", options.threads)
      .Add("size", static_cast<double>(options.size))
      .Add("seconds", seconds)
      .Add("gb_per_s", bytes / seconds / 1e9)
      .Add("cpu_s_per_gb", static_cast<double>(used) / bytes)
      .Print();
  return 0;
}

}  // namespace
}  // namespace dfkv::floor

int main(int argc, char** argv) {
  return dfkv::floor::Main(argc, argv);
}
