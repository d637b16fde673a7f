// ConnectionTable: who counts, and who makes room.
#include <gtest/gtest.h>

#include "net/tcp/shared.h"

namespace dfkv::net {
namespace {

class TableTest : public ::testing::Test {
 protected:
  // A connection that was quiet since `last_active`.
  void Arrive(ConnectionInfo& info, uint64_t id, Nanos last_active, bool refused = false) {
    info.id = id;
    info.refused = refused;
    info.last_active = last_active;
    table_.Reserve(refused);
    table_.Add(&info);
  }
  ConnectionTable table_;
  ConnectionInfo a_, b_, c_;
};

TEST_F(TableTest, CountsThoseOnTheirWay) {
  table_.Reserve(false);
  table_.Reserve(true);
  EXPECT_EQ(table_.counts().serving, 1u);
  EXPECT_EQ(table_.counts().pending, 2u);
  EXPECT_EQ(table_.counts().refused, 1u);
}

TEST_F(TableTest, TheIdlestLeavesOnceAndItsPlaceIsFree) {
  Arrive(a_, 1, 30);
  Arrive(b_, 2, 10);
  Arrive(c_, 3, 20);
  EXPECT_EQ(table_.TakeIdlest()->id, 2u);
  EXPECT_EQ(table_.counts().serving, 2u);
  EXPECT_EQ(table_.TakeIdlest()->id, 3u) << "the one that leaves is not asked twice";
  EXPECT_EQ(table_.counts().serving, 1u);
  table_.Remove(&b_);
  table_.Remove(&c_);
  EXPECT_EQ(table_.counts().serving, 1u);
  table_.Remove(&a_);
  EXPECT_EQ(table_.counts().serving, 0u);
  EXPECT_FALSE(table_.TakeIdlest().has_value());
}

TEST_F(TableTest, OneThatBecameBusyStays) {
  Arrive(a_, 1, 10);
  ASSERT_TRUE(table_.TakeIdlest().has_value());
  EXPECT_EQ(table_.counts().serving, 0u);
  table_.Keep(&a_);
  EXPECT_EQ(table_.counts().serving, 1u);
  table_.Keep(&a_);
  EXPECT_EQ(table_.counts().serving, 1u);
  EXPECT_EQ(table_.TakeIdlest()->id, 1u) << "and may leave another time";
  table_.Remove(&a_);
  EXPECT_EQ(table_.counts().serving, 0u);
}

TEST_F(TableTest, BusyAndRefusedOnesDoNotMakeRoom) {
  Arrive(a_, 1, 10);
  a_.evictable = false;
  Arrive(b_, 2, 20, true);
  EXPECT_FALSE(table_.TakeIdlest().has_value());
  EXPECT_EQ(table_.counts().serving, 1u);
  table_.Remove(&b_);
  EXPECT_EQ(table_.counts().refused, 0u);
  EXPECT_EQ(table_.counts().serving, 1u);
  table_.Remove(&a_);
}

TEST_F(TableTest, WaitsUntilItIsEmpty) {
  EXPECT_TRUE(table_.WaitEmptyBlocking(0));
  Arrive(a_, 1, 10);
  EXPECT_FALSE(table_.WaitEmptyBlocking(SystemClock().Now()));
  Thread remover("remover", [&] { table_.Remove(&a_); });
  EXPECT_TRUE(table_.WaitEmptyBlocking(SystemClock().Now() + 20 * kSecond));
}

}  // namespace
}  // namespace dfkv::net
