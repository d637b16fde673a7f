#include "io/deadline_wheel.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "base/random.h"

namespace dfkv::io {
namespace {

constexpr Nanos kTick = Nanos{1} << DeadlineWheel::kTickShift;

// Against a map: an op fires once, not before its deadline, at most a tick after it, unless it was removed.
TEST(DeadlineWheelTest, FiresWhatAMapWouldFire) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  DeadlineWheel wheel;
  Nanos now = static_cast<Nanos>(random.Below(uint64_t{1} << 50));
  wheel.Advance(now, [](Op*) { FAIL(); });
  std::deque<Op> ops(3000);
  std::map<Op*, Nanos> model;
  for (int step = 0; step < 20'000; ++step) {
    Op* op = &ops[random.Below(ops.size())];
    if (model.erase(op) != 0) {
      wheel.Remove(op);
    } else {
      op->deadline = now + static_cast<Nanos>(random.Below(uint64_t{1} << (20 + random.Below(33)))) - kTick;
      wheel.Add(op);
      model[op] = op->deadline;
    }
    wheel.Remove(&ops[0]);  // at will, also when it is not there
    model.erase(&ops[0]);
    if (!random.OneIn(4)) continue;
    const Nanos due = wheel.NextDue();
    ASSERT_EQ(due == kNever, model.empty());
    for (const auto& [other, deadline] : model) ASSERT_LE(due, std::max(deadline, now) + 2 * kTick);
    now = random.OneIn(2) && due != kNever ? std::max(due, now)
                                           : now + static_cast<Nanos>(random.Below(1 << 24));
    wheel.Advance(now, [&](Op* fired) {
      ASSERT_EQ(model.count(fired), 1u);
      ASSERT_LE(fired->deadline, now);
      model.erase(fired);
    });
    for (const auto& [other, deadline] : model) ASSERT_GT(deadline + 2 * kTick, now);
  }
}

TEST(DeadlineWheelTest, NeverIsNotKept) {
  DeadlineWheel wheel;
  Op op;
  wheel.Add(&op);
  EXPECT_EQ(wheel.NextDue(), kNever);
  wheel.Remove(&op);
}

TEST(DeadlineWheelTest, ACallbackMayRemoveAndAdd) {
  DeadlineWheel wheel;
  std::deque<Op> ops(4);
  for (Op& op : ops) {
    op.deadline = 5 * kTick;
    wheel.Add(&op);
  }
  int fired = 0;
  wheel.Advance(10 * kTick, [&](Op*) {
    for (Op& op : ops) wheel.Remove(&op);
    wheel.Add(&ops[0]);  // due already: fires on a later tick
    ++fired;
  });
  EXPECT_EQ(fired, 1 + 4);  // the ticks 6 to 10
  wheel.Remove(&ops[0]);
  EXPECT_EQ(wheel.NextDue(), kNever);
}

}  // namespace
}  // namespace dfkv::io
