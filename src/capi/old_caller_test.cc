// Callers compiled against an older or a newer header than the library: struct_size says what they know.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "capi/dfkv_c_api.h"
#include "capi/sized.h"
#include "client/fake_node.h"

namespace dfkv::capi {
namespace {

// FROZEN: what callers of the first header have. Not sizeof: the structs may grow.
constexpr uint32_t kClientOptionsV2Bytes = 88;
constexpr uint32_t kOpenOptions3Bytes = 72;
constexpr uint32_t kCallOptions3Bytes = 16;

// The first `size` bytes of a T, zero, so that reading one byte more is fatal.
template <typename T>
class Truncated {
 public:
  explicit Truncated(uint32_t size) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    memory_ = static_cast<char*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(memory_, MAP_FAILED);
    EXPECT_EQ(mprotect(memory_ + page_, page_, PROT_NONE), 0);
    std::memcpy(at(page_ - size), &size, sizeof size);  // struct_size is the first field
    get_ = reinterpret_cast<T*>(at(page_ - size));
  }
  ~Truncated() { munmap(memory_, 2 * page_); }
  Truncated(const Truncated&) = delete;
  Truncated& operator=(const Truncated&) = delete;
  T* operator->() { return get_; }
  T* get() { return get_; }
  char* last_byte() { return at(page_ - 1); }

 private:
  char* at(size_t offset) { return memory_ + offset; }
  size_t page_;
  char* memory_ = nullptr;
  T* get_ = nullptr;
};

class OldCaller : public ::testing::Test {
 protected:
  int Open(Truncated<dfkv_open_options3>& options, dfkv_client_t* client) {
    options->members = members_.c_str();
    options->key_namespace = "n";
    options->key_namespace_len = 1;
    return dfkv_open3(options.get(), client);
  }
  client::FakeNode node_;
  std::string members_ = "a=" + node_.address();
};

TEST_F(OldCaller, OfTheFirstHeaderWorks) {
  Truncated<dfkv_client_options_v2> v2(kClientOptionsV2Bytes);
  v2->abi_version = DFKV_CLIENT_ABI_VERSION_V2;
  v2->members = members_.c_str();
  v2->key_namespace = "n";
  v2->key_namespace_len = 1;
  const dfkv_client_t old = dfkv_open_v2(v2.get());
  ASSERT_NE(old, nullptr) << dfkv_last_error();
  EXPECT_EQ(dfkv_put(old, "k", 1, "value", 5), 0);

  Truncated<dfkv_open_options3> open(kOpenOptions3Bytes);
  dfkv_client_t client = nullptr;
  ASSERT_EQ(Open(open, &client), DFKV_OK) << dfkv_last_error();
  Truncated<dfkv_call_options3> call(kCallOptions3Bytes);
  call->deadline_ms = 20'000;
  char value[5];
  uint64_t length = 0;
  EXPECT_EQ(dfkv_get3(client, "k", 1, value, sizeof value, &length, call.get()), DFKV_OK);
  EXPECT_EQ(std::string(value, length), "value");
  dfkv_close(client);
  dfkv_close(old);
}

TEST_F(OldCaller, OfALaterHeaderWorksUnlessItAsksForWhatIsUnknown) {
  dfkv_client_t client = nullptr;
  Truncated<dfkv_open_options3> open(kOpenOptions3Bytes + 24);
  ASSERT_EQ(Open(open, &client), DFKV_OK) << dfkv_last_error();
  Truncated<dfkv_call_options3> call(kCallOptions3Bytes + 8);
  EXPECT_EQ(dfkv_exist3(client, "k", 1, call.get()), DFKV_NOT_FOUND);
  *call.last_byte() = 1;
  EXPECT_EQ(dfkv_exist3(client, "k", 1, call.get()), DFKV_INVALID);
  EXPECT_STREQ(
      dfkv_last_error(),
      "dfkv_exist3: Invalid: dfkv_call_options3 sets a field that this version of the library does not "
      "know");
  dfkv_close(client);
  *open.last_byte() = 1;
  EXPECT_EQ(Open(open, &client), DFKV_INVALID);
  EXPECT_EQ(client, nullptr);
}

TEST_F(OldCaller, SizesBelowTheFirstHeaderAreRefused) {
  dfkv_client_t client = nullptr;
  Truncated<dfkv_open_options3> open(kOpenOptions3Bytes);
  open->struct_size = kOpenOptions3Bytes - 1;
  EXPECT_EQ(Open(open, &client), DFKV_INVALID);
  open->struct_size = kOpenOptions3Bytes;
  ASSERT_EQ(Open(open, &client), DFKV_OK);
  Truncated<dfkv_call_options3> call(kCallOptions3Bytes);
  call->struct_size = kCallOptions3Bytes - 1;
  EXPECT_EQ(dfkv_exist3(client, "k", 1, call.get()), DFKV_INVALID);
  dfkv_close(client);
}

// A struct that has grown since: what the library will do once one of its own has.
struct Grown {
  uint32_t struct_size;
  uint32_t first;
  uint64_t later;
};
constexpr uint32_t kGrownFirstBytes = 8;

TEST(ReadSized, FieldsThatTheCallerDoesNotKnowAreZero) {
  Truncated<Grown> old(kGrownFirstBytes);
  old->first = 5;
  Grown read{1, 2, 3};
  ASSERT_TRUE(ReadSized(old.get(), kGrownFirstBytes, "grown", &read).ok());
  EXPECT_EQ(read.first, 5u);
  EXPECT_EQ(read.later, 0u);
  Truncated<Grown> current(sizeof(Grown));
  current->later = 7;
  ASSERT_TRUE(ReadSized(current.get(), kGrownFirstBytes, "grown", &read).ok());
  EXPECT_EQ(read.later, 7u);
}

TEST(ReadSized, WritesNothingWhenItRefuses) {
  Grown read{1, 2, 3};
  Truncated<Grown> given(sizeof(Grown) + 8);
  *given.last_byte() = 1;
  EXPECT_EQ(ReadSized(given.get(), kGrownFirstBytes, "grown", &read).code(), Code::kInvalid);
  given->struct_size = kGrownFirstBytes - 1;
  EXPECT_EQ(ReadSized(given.get(), kGrownFirstBytes, "grown", &read).code(), Code::kInvalid);
  EXPECT_EQ(read.first, 2u);
}

}  // namespace
}  // namespace dfkv::capi
