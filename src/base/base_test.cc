#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/identity.h"
#include "base/metric.h"
#include "base/random.h"
#include "base/text.h"

namespace dfkv {
namespace {

TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(Crc32c(AsBytes("123456789")), 0xE3069283u);
  const std::vector<std::byte> zeros(32);
  EXPECT_EQ(Crc32c(zeros), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c({}), 0u);
}

TEST(Crc32c, ImplementationsAgree) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<std::byte> data(70000);
  random.Fill(data);
  for (size_t i = 0; i < 3000; ++i) {
    const size_t size =
        i < 2500 ? i : random.Below(data.size() - 64);  // every size near the bounds of a path
    const ByteSpan bytes = ByteSpan(data).subspan(random.Below(64), size);
    const auto before = static_cast<uint32_t>(random.Below(uint64_t{1} << 32));
    const uint32_t crc = Crc32cExtendPortable(before, bytes);
    for (const Crc32cFunction extend : Crc32cImplementations()) ASSERT_EQ(extend(before, bytes), crc) << size;
  }
}

TEST(Crc32c, FastEqualsPortableAndConcatenates) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<std::byte> data(70000);
  random.Fill(data);
  for (int i = 0; i < 300; ++i) {
    const size_t begin = random.Below(64);
    const size_t size = random.OneIn(3) ? random.Below(data.size() - begin) : random.Below(1500);
    const ByteSpan bytes = ByteSpan(data).subspan(begin, size);
    const uint32_t crc = Crc32cExtendPortable(0, bytes);
    ASSERT_EQ(Crc32c(bytes), crc) << size;
    const size_t cut = size == 0 ? 0 : random.Below(size);
    const ByteSpan a = bytes.first(cut);
    const ByteSpan b = bytes.subspan(cut);
    ASSERT_EQ(Crc32cExtend(Crc32c(a), b), crc);
    ASSERT_EQ(Crc32cConcat(Crc32c(a), Crc32c(b), b.size()), crc);
    std::vector<std::byte> copy(size);
    ASSERT_EQ(Crc32cCopy(0, copy, bytes), crc);
    ASSERT_EQ(Crc32c(copy), crc);
  }
}

// Computed with Python's hashlib from the byte strings of the contract.
TEST(Identity, GoldenVectors) {
  const KeyHasher hasher(AsBytes(std::string_view("model\0x", 7)));
  EXPECT_EQ(hasher.Hash(AsBytes("key-1")).ToHex(), "5374db30d45d42abf3bb57fae2434d2e");
  EXPECT_EQ(hasher.tenant().value(), 0x5dfe896ad75a0165ull);
  std::string canonical("DFKVNS\0\2", 8);
  canonical += std::string("\4\0\0\0acme", 8) + "rest";
  EXPECT_EQ(KeyHasher(AsBytes(canonical)).tenant(), HashTenantId(AsBytes("acme")));
  EXPECT_EQ(HashTenantId(AsBytes("acme")).value(), 0xc60d41cfce5eb80full);
}

TEST(Identity, TruncatedCanonicalNamespaceIsItsOwnTenant) {
  const std::string broken = std::string("DFKVNS\0\2", 8) + std::string(
                                                                "\xFF\xFF\xFF\xFF"
                                                                "abc",
                                                                7);
  EXPECT_EQ(KeyHasher(AsBytes(broken)).tenant(), HashTenantId(AsBytes(broken)));
}

TEST(Text, BytesRoundTrip) {
  EXPECT_EQ(*ParseBytes("100GB"), 100'000'000'000ull);
  EXPECT_EQ(*ParseBytes("100GiB"), 100ull << 30);
  EXPECT_EQ(*ParseBytes(" 1.5 kib "), 1536ull);
  EXPECT_EQ(*ParseBytes("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", "x", "-1", "1XB", "99999999999TiB", "nan", "1e400"}) {
    EXPECT_EQ(ParseBytes(bad).code(), Code::kInvalid) << bad;
  }
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(64ull << 20), "64 MiB");
}

TEST(Bytes, ReaderRefusesToReadPastTheEnd) {
  std::byte raw[6] = {};
  StoreLe<uint32_t>(raw, 7);
  ByteReader reader(raw);
  EXPECT_EQ(reader.Read<uint32_t>(), 7u);
  EXPECT_EQ(reader.Read<uint32_t>(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.Read<uint8_t>(), 0u);
  ByteReader huge(raw);
  EXPECT_TRUE(huge.ReadBytes(UINT64_MAX).empty());
  EXPECT_FALSE(huge.ok());
}

TEST(Random, PatternIsCheckedByteForByte) {
  std::vector<std::byte> data(1003);
  FillPattern(42, 0, data);
  EXPECT_TRUE(PatternMatches(42, 0, data));
  EXPECT_TRUE(PatternMatches(42, 512, ByteSpan(data).subspan(512)));
  EXPECT_FALSE(PatternMatches(43, 0, data));
  for (size_t i : {size_t{0}, size_t{500}, data.size() - 1}) {
    data[i] ^= std::byte{1};
    EXPECT_FALSE(PatternMatches(42, 0, data)) << i;
    data[i] ^= std::byte{1};
  }
}

TEST(Metric, PrometheusText) {
  MetricRegistry registry;
  registry.AddCounter("dfkv_a_total", "A.", {{"op", "x\"y"}}).Add(3);
  registry.AddHistogram("dfkv_b_seconds", "B.").Observe(3 * kMillisecond);
  registry.AddCallback("dfkv_c", "C.", "gauge", {}, [] { return 1.5; });
  registry.AddCollector("dfkv_d", "D.", "gauge", [] {
    return MetricRegistry::Collected{{{{"tenant", "1"}}, 2}, {{{"tenant", "2"}}, 3}};
  });
  const std::string text = registry.Render();
  EXPECT_NE(text.find("# TYPE dfkv_d gauge\ndfkv_d{tenant=\"1\"} 2\ndfkv_d{tenant=\"2\"} 3\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(registry.Snapshot().back().first, "dfkv_d{tenant=\"2\"}");
  EXPECT_NE(text.find("# TYPE dfkv_a_total counter\ndfkv_a_total{op=\"x\\\"y\"} 3\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("dfkv_b_seconds_bucket{le=\"0.002048\"} 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("dfkv_b_seconds_bucket{le=\"0.004096\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("dfkv_b_seconds_count 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("dfkv_c 1.5\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace dfkv
