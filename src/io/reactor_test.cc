// What every reactor does, without descriptors: coroutines, timers, hooks, work from other threads.
#include "io/reactor.h"

#include <atomic>

#include "base/random.h"
#include "io/reactor_testing.h"

namespace dfkv::io {
namespace {

class ReactorTest : public OnReactor {};
INSTANTIATE_TEST_SUITE_P(All, ReactorTest, testing::Values("epoll", "uring", "sim"), ReactorName);

Task<int> Value(int value) {
  co_return value;
}

Task<int64_t> SumOfSynchronousAwaits(int count) {
  int64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    sum += co_await Value(i);
  }
  co_return sum;
}

TEST_P(ReactorTest, MillionSynchronousAwaitsNeedNoStack) {
  EXPECT_EQ(reactor_->RunTask(SumOfSynchronousAwaits(1'000'000)), 499'999'500'000);
}

Task<int> ValueAfterYield(int value) {
  co_await Reactor::Current()->Yield();
  co_return value;
}

Task<int64_t> SumOfYieldingAwaits(int count) {
  int64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    sum += co_await ValueAfterYield(i);
  }
  co_return sum;
}

TEST_P(ReactorTest, AwaitsThatWait) {
  EXPECT_EQ(reactor_->RunTask(SumOfYieldingAwaits(10'000)), 49'995'000);
}

Task<int> Nested(int depth) {
  if (depth == 0) co_return co_await ValueAfterYield(1);
  const int below = co_await Nested(depth - 1);
  co_return below + 1;
}

TEST_P(ReactorTest, DeepChainsUnwindFromTheQueue) {
  EXPECT_EQ(reactor_->RunTask(Nested(500)), 501);
}

TEST_P(ReactorTest, TimersFireInOrderAndNotEarly) {
  std::vector<int> fired;
  const Nanos start = reactor_->Now();
  std::vector<Nanos> late;
  const auto add = [&](Nanos after, int name) {
    reactor_->AddTimer(start + after, [&, after, name] {
      fired.push_back(name);
      late.push_back(reactor_->Now() - (start + after));
    });
  };
  add(3 * kMillisecond, 3);
  add(1 * kMillisecond, 1);
  add(2 * kMillisecond, 2);
  add(2 * kMillisecond, 20);
  add(-kSecond, 0);
  EXPECT_TRUE(reactor_->RunUntil([&] { return fired.size() == 5; }, start + 10 * kSecond));
  EXPECT_EQ(fired, (std::vector<int>{0, 1, 2, 20, 3}));
  for (const Nanos by : late) EXPECT_GE(by, 0);
}

TEST_P(ReactorTest, CancelledTimersDoNotFire) {
  int fired = 0;
  const Nanos start = reactor_->Now();
  std::vector<uint64_t> ids;
  for (int i = 0; i < 10'000; ++i) {
    ids.push_back(reactor_->AddTimer(start + kMillisecond + i, [&] { ++fired; }));
  }
  EXPECT_NE(ids[0], 0u);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % 100 != 0) reactor_->CancelTimer(ids[i]);
  }
  reactor_->CancelTimer(ids[1]);  // twice, and an id never given: nothing happens
  reactor_->CancelTimer(1'000'000'000);
  EXPECT_TRUE(reactor_->RunUntil([&] { return fired == 100; }, start + 10 * kSecond));
  reactor_->RunUntil([] { return false; }, reactor_->Now() + kMillisecond);
  EXPECT_EQ(fired, 100);
}

TEST_P(ReactorTest, ATimerMayCancelAndAddTimers) {
  std::vector<int> fired;
  const Nanos start = reactor_->Now();
  uint64_t second = 0;
  reactor_->AddTimer(start, [&] {
    reactor_->CancelTimer(second);
    reactor_->AddTimer(start, [&] { fired.push_back(3); });
    fired.push_back(1);
  });
  second = reactor_->AddTimer(start + 1, [&] { fired.push_back(2); });
  EXPECT_TRUE(reactor_->RunUntil([&] { return fired.size() == 2; }, start + 10 * kSecond));
  EXPECT_EQ(fired, (std::vector<int>{1, 3}));
}

Task<void> WaitUntil(Nanos at, std::vector<Nanos>* late) {
  co_await Reactor::Current()->Until(at);
  late->push_back(Reactor::Current()->Now() - at);
}

TEST_P(ReactorTest, TenThousandConcurrentTimers) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<Nanos> late;
  const Nanos start = reactor_->Now();
  for (int i = 0; i < 10'000; ++i) {
    const Nanos at = start + static_cast<Nanos>(random.Below(20 * kMillisecond));
    reactor_->QueueReady(WaitUntil(at, &late).Release());
  }
  EXPECT_TRUE(reactor_->RunUntil([&] { return late.size() == 10'000; }, start + 60 * kSecond));
  for (const Nanos by : late) ASSERT_GE(by, 0);
}

TEST_P(ReactorTest, RunUntilGivesUpAtItsDeadline) {
  const Nanos start = reactor_->Now();
  EXPECT_FALSE(reactor_->RunUntil([] { return false; }, start + 2 * kMillisecond));
  EXPECT_GE(reactor_->Now(), start + 2 * kMillisecond);
  EXPECT_FALSE(reactor_->RunUntil([] { return false; }, start));  // a past one: one look, no wait
  EXPECT_TRUE(reactor_->RunUntil([] { return true; }, start));
}

Task<void> Note(std::vector<std::string>* log, std::string text) {
  log->push_back(std::move(text));
  co_return;
}

TEST_P(ReactorTest, HooksRunAfterWhatWasReadyAndBeforeThePoll) {
  std::vector<std::string> log;
  bool more = true;
  const uint64_t first = reactor_->AddTurnHook([&] {
    log.push_back("hook");
    if (std::exchange(more, false)) Note(&log, "made ready by the hook").Spawn();
  });
  reactor_->QueueReady(Note(&log, "a").Release());
  reactor_->QueueReady(Note(&log, "b").Release());
  const uint64_t turns = reactor_->stats().turns;
  EXPECT_TRUE(reactor_->RunUntil([&] { return log.size() >= 5; }, reactor_->Now() + 10 * kSecond));
  EXPECT_EQ(log, (std::vector<std::string>{"a", "b", "hook", "made ready by the hook", "hook"}));
  EXPECT_EQ(reactor_->stats().turns - turns, 1u);
  reactor_->RemoveTurnHook(first);
  log.clear();
  reactor_->RunUntil([] { return false; }, reactor_->Now());
  EXPECT_TRUE(log.empty());
}

TEST_P(ReactorTest, AHookMayRemoveAndAddHooks) {
  int first_calls = 0;
  int second_calls = 0;
  uint64_t first = 0;
  first = reactor_->AddTurnHook([&] {
    ++first_calls;
    reactor_->RemoveTurnHook(first);
    for (int i = 0; i < 20; ++i) reactor_->AddTurnHook([&] { ++second_calls; });
  });
  reactor_->RunUntil([] { return false; }, reactor_->Now());
  reactor_->RunUntil([] { return false; }, reactor_->Now());
  EXPECT_EQ(first_calls, 1);
  EXPECT_GE(second_calls, 20);
}

Task<void> YieldForEver(const bool* stop, int* rounds) {
  while (!*stop) {
    ++*rounds;
    co_await Reactor::Current()->Yield();
  }
}

TEST_P(ReactorTest, ACoroutineThatYieldsDoesNotStarveTimersOrPosts) {
  bool stop = false;
  int rounds = 0;
  reactor_->QueueReady(YieldForEver(&stop, &rounds).Release());
  reactor_->AddTimer(reactor_->Now() + kMillisecond, [&] { reactor_->Post([&] { stop = true; }); });
  const Nanos end = reactor_->Now() + 10 * kSecond;
  if (GetParam() == "sim") {
    // Virtual time stands still while something is ready.
    reactor_->RunUntil([&] { return rounds > 100; }, end);
    stop = true;
  }
  EXPECT_TRUE(reactor_->RunUntil([&] { return stop; }, end));
  reactor_->RunUntil([] { return false; }, reactor_->Now());
  EXPECT_GT(rounds, 0);
}

TEST_P(ReactorTest, PostFromThreadsLosesNothing) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 20'000;
  int64_t sum = 0;
  int count = 0;
  std::vector<Thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back("poster", [&] {
      for (int i = 0; i < kPosts; ++i) {
        reactor_->Post([&, i] {
          sum += i;
          ++count;
        });
      }
    });
  }
  EXPECT_TRUE(reactor_->RunUntil([&] { return count == kThreads * kPosts; }, InRealTime(100 * kSecond)));
  EXPECT_EQ(sum, int64_t{kThreads} * kPosts * (kPosts - 1) / 2);
  EXPECT_LE(reactor_->stats().wakes, reactor_->stats().sleeps);
}

// One post at a time, each after the reactor may have fallen asleep: a lost wake-up hangs here.
TEST_P(ReactorTest, EachPostWakesASleepingReactor) {
  std::atomic<int> seen{0};
  bool done = false;
  Thread poster("poster", [&] {
    for (int i = 0; i < 5'000; ++i) {
      reactor_->Post([&] { seen.fetch_add(1); });
      while (seen.load() <= i) CpuRelax();
    }
    reactor_->Post([&] { done = true; });
  });
  EXPECT_TRUE(reactor_->RunUntil([&] { return done; }, InRealTime(100 * kSecond)));
}

TEST_P(ReactorTest, StopEndsRunEvenWhenItComesFirst) {
  reactor_->Stop();
  reactor_->Run();
  int posted = 0;
  Thread stopper("stopper", [&] {
    reactor_->Post([&] { ++posted; });
    reactor_->Stop();
  });
  reactor_->Run();
  EXPECT_EQ(posted, 1);
}

TEST_P(ReactorTest, RunsOnAnotherThreadThanItsMaker) {
  EXPECT_EQ(reactor_->RunTask(ValueAfterYield(7)), 7);
  bool done = false;
  Thread runner("runner", [&] {
    EXPECT_EQ(Reactor::Current(), nullptr);
    EXPECT_EQ(reactor_->RunTask(ValueAfterYield(8)), 8);
    reactor_->Run();
  });
  reactor_->Post([&] { done = Reactor::Current() == reactor_.get(); });
  reactor_->Stop();
  runner.Join();
  EXPECT_TRUE(done);
  EXPECT_EQ(reactor_->RunTask(ValueAfterYield(9)), 9);
}

Task<void> WaitForEvent(Event* event, std::atomic<int>* woken, Reactor* expected) {
  co_await event->Wait();
  if (Reactor::Current() == expected) woken->fetch_add(1);
}

TEST_P(ReactorTest, AnEventWakesItsWaitersOnTheirOwnReactors) {
  Result<std::unique_ptr<Reactor>> made = Make(GetParam());
  ASSERT_TRUE(made.ok());
  Reactor* other = made->get();
  Event event;
  std::atomic<int> woken{0};
  Thread thread("other", [&] {
    other->QueueReady(WaitForEvent(&event, &woken, other).Release());
    other->RunUntil([&] { return woken.load() == 3; }, InRealTime(100 * kSecond));
  });
  reactor_->QueueReady(WaitForEvent(&event, &woken, reactor_.get()).Release());
  reactor_->QueueReady(WaitForEvent(&event, &woken, reactor_.get()).Release());
  reactor_->RunUntil([] { return false; }, reactor_->Now());
  EXPECT_FALSE(event.IsSet());
  event.Set();
  reactor_->RunUntil([&] { return woken.load() >= 2; }, InRealTime(100 * kSecond));
  while (woken.load() != 3) {
    other->Post([] {});
    reactor_->RunUntil([&] { return woken.load() == 3; }, reactor_->Now() + kMillisecond);
  }
  other->Post([] {});
  thread.Join();
  reactor_->RunTask(WaitForEvent(&event, &woken, reactor_.get()));  // set already: at once
  EXPECT_EQ(woken.load(), 4);
}

TEST_P(ReactorTest, SpinningShrinksToNothingWhenWaitsOutlastIt) {
  if (GetParam() == "sim") GTEST_SKIP() << "virtual time has nothing to spin for";
  SpinOptions spin;
  spin.max = 10'000;
  reactor_->set_spin(spin);
  for (int i = 0; i < 10; ++i) reactor_->RunUntil([] { return false; }, reactor_->Now() + 200'000);
  const Nanos spun = reactor_->stats().spin_ns;
  for (int i = 0; i < 10; ++i) reactor_->RunUntil([] { return false; }, reactor_->Now() + 200'000);
  EXPECT_EQ(reactor_->stats().spin_ns, spun);
}

TEST_P(ReactorTest, SpinningPausesWhileOthersWantTheCpu) {
  if (GetParam() == "sim") GTEST_SKIP() << "virtual time has nothing to spin for";
  std::atomic<bool> stop{false};
  std::vector<Thread> busy;
  for (unsigned i = 0; i < CpuCount() + 1; ++i) {
    busy.emplace_back("busy", [&] {
      while (!stop.load()) CpuRelax();
    });
  }
  SpinOptions spin;
  spin.max = kMillisecond;
  reactor_->set_spin(spin);
  const Nanos until = reactor_->Now() + 100 * kSecond;
  while (reactor_->stats().spin_pauses == 0 && reactor_->Now() < until) {
    reactor_->RunUntil([] { return false; }, reactor_->Now() + spin.max / 2);
  }
  EXPECT_GT(reactor_->stats().spin_pauses, 0u);
  stop = true;
}

Task<void> Ping(Reactor* peer, Reactor* self, int rounds, std::atomic<int>* done) {
  for (int i = 0; i < rounds; ++i) {
    bool answered = false;
    peer->Post([&answered, self] { self->Post([&answered] { answered = true; }); });
    while (!answered) co_await self->Yield();
  }
  done->fetch_add(1);
  peer->Post([] {});  // so that it looks at `done`
}

TEST_P(ReactorTest, TwoReactorsPostToEachOther) {
  if (GetParam() == "sim") GTEST_SKIP() << "a simulation is one thread";
  Result<std::unique_ptr<Reactor>> made = Make(GetParam());
  ASSERT_TRUE(made.ok());
  Reactor* other = made->get();
  std::atomic<int> done{0};
  Thread thread("other", [&] {
    other->QueueReady(Ping(reactor_.get(), other, 50, &done).Release());
    other->Run();
  });
  reactor_->QueueReady(Ping(other, reactor_.get(), 50, &done).Release());
  EXPECT_TRUE(reactor_->RunUntil([&] { return done.load() == 2; }, InRealTime(100 * kSecond)));
  other->Stop();
}

TEST(SimReactorTest, AYearTakesNoTimeAndTimersAreExact) {
  SimReactor reactor;
  const Nanos start = reactor.Now();
  std::vector<Nanos> late;
  for (Nanos day = 365; day >= 1; --day) {
    reactor.QueueReady(WaitUntil(start + day * 86'400 * kSecond, &late).Release());
  }
  EXPECT_TRUE(reactor.RunUntil([&] { return late.size() == 365; }, start + 400 * 86'400 * kSecond));
  EXPECT_EQ(reactor.Now(), start + 365 * 86'400 * kSecond);
  EXPECT_EQ(late, std::vector<Nanos>(365, 0));
  EXPECT_FALSE(reactor.RunUntil([] { return false; }, reactor.Now() + 5));
  EXPECT_EQ(reactor.Now(), start + 365 * 86'400 * kSecond + 5);
}

TEST(SimReactorTest, DescriptorsAreNotSupported) {
  SimReactor reactor;
  Op op;
  op.kind = Op::Kind::kReadable;
  op.fd = 0;
  const auto wait = [](Op* what) -> Task<int64_t> { co_return co_await Reactor::Current()->Await(what); };
  EXPECT_EQ(reactor.RunTask(wait(&op)), -ENOTSUP);
}

TEST(ParseReactorKindTest, NamesAndRefusals) {
  EXPECT_EQ(*ParseReactorKind("auto"), ReactorKind::kAuto);
  EXPECT_EQ(*ParseReactorKind("URING"), ReactorKind::kUring);
  EXPECT_EQ(*ParseReactorKind("epoll"), ReactorKind::kEpoll);
  EXPECT_EQ(ParseReactorKind("kqueue").code(), Code::kInvalid);
}

}  // namespace
}  // namespace dfkv::io
