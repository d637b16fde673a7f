// Replays a corpus folder, then seeded mutations of it, where libFuzzer is not linked: `fuzz_x FOLDER
// [SEED]`.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutationsOfEach = 200;

void RunOne(const std::string& input) {
  // A copy of exactly that size, so that a sanitizer sees a read past the end.
  const std::vector<uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::string Mutate(std::string input, const std::vector<std::string>& all, dfkv::Random* random) {
  for (uint64_t edits = 1 + random->Below(8); edits > 0; --edits) {
    const uint64_t at = random->Below(input.size() + 1);
    switch (random->Below(5)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(random->Next());
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << random->Below(8)));
        break;
      case 2:
        input.insert(at, 1, static_cast<char>(random->Next()));
        break;
      case 3:
        input.erase(at, random->Below(9));
        break;
      default: {
        const std::string& other = all[random->Below(all.size())];
        input.insert(at, other.substr(random->Below(other.size() + 1), random->Below(33)));
      }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> corpus = {""};
  if (argc > 1 && std::filesystem::is_directory(argv[1])) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
      std::ifstream file(entry.path(), std::ios::binary);
      corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  uint64_t seed = dfkv::SeedFromSystem();
  if (argc > 2) seed = dfkv::ParseUint(argv[2]).ok() ? *dfkv::ParseUint(argv[2]) : seed;
  std::printf("%zu inputs, seed %llu\n", corpus.size(), static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  dfkv::Random random(seed);
  for (const std::string& input : corpus) {
    RunOne(input);
    for (int i = 0; i < kMutationsOfEach; ++i) RunOne(Mutate(input, corpus, &random));
  }
  return 0;
}
