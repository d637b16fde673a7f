// When a peer is avoided and probed, on an invented clock.
#include "client/peer.h"

#include <gtest/gtest.h>

#include "base/log.h"

namespace dfkv::client {
namespace {

class PeerTest : public ::testing::Test {
 protected:
  PeerTest() : peer_(MemberOf(), {kSecond, 2 * kSecond, 10 * kSecond}, metrics_) {
    SetLogSink([](LogLevel, std::string_view) {});
  }
  ~PeerTest() override { SetLogSink(nullptr); }
  static cluster::Member MemberOf() {
    cluster::Member member;
    member.name = "a";
    return member;
  }
  ClientMetrics metrics_;
  Peer peer_;
  Nanos now_ = 1000 * kSecond;
};

TEST_F(PeerTest, AFailureIsAvoidedUntilTheCooldownThenOneCallProbes) {
  EXPECT_EQ(peer_.Ask(now_), Peer::Access::kUse);
  peer_.ReportFailure(now_, Code::kUnavailable);
  EXPECT_EQ(peer_.Ask(now_), Peer::Access::kAvoid);
  EXPECT_EQ(peer_.Ask(now_ + 2 * kSecond - 1), Peer::Access::kAvoid);
  EXPECT_EQ(peer_.Ask(now_ + 2 * kSecond), Peer::Access::kProbe);
  EXPECT_EQ(peer_.Ask(now_ + 2 * kSecond), Peer::Access::kAvoid);  // one at a time
  EXPECT_EQ(metrics_.marked_bad.value(), 1u);
  EXPECT_EQ(metrics_.health_checks.value(), 1u);
  EXPECT_EQ(metrics_.peers_avoided.value(), 1);
}

TEST_F(PeerTest, TheCooldownDoublesWithEveryProbeUpToItsMaximum) {
  peer_.ReportFailure(now_, Code::kUnavailable);
  now_ += 2 * kSecond;
  for (const Nanos wait : {4 * kSecond, 8 * kSecond, 10 * kSecond, 10 * kSecond}) {
    ASSERT_EQ(peer_.Ask(now_), Peer::Access::kProbe);
    peer_.ReportFailure(now_, Code::kUnavailable);  // the probe fails
    ASSERT_EQ(peer_.Ask(now_ + wait - 1), Peer::Access::kAvoid);
    now_ += wait;
  }
  EXPECT_EQ(metrics_.marked_bad.value(), 1u);
}

TEST_F(PeerTest, AByteHeardEndsIt) {
  peer_.ReportFailure(now_, Code::kUnavailable);
  peer_.ReportHeard(now_ + 1);
  EXPECT_EQ(peer_.Ask(now_ + 2), Peer::Access::kUse);
  EXPECT_EQ(metrics_.recovered.value(), 1u);
  EXPECT_EQ(metrics_.peers_avoided.value(), 0);
  peer_.ReportHeard(now_ + 3);
  EXPECT_EQ(metrics_.recovered.value(), 1u);
}

TEST_F(PeerTest, FailingAgainSoonKeepsTheLongerCooldown) {
  peer_.ReportFailure(now_, Code::kUnavailable);
  now_ += 2 * kSecond;
  ASSERT_EQ(peer_.Ask(now_), Peer::Access::kProbe);
  peer_.ReportHeard(now_);
  peer_.ReportFailure(now_ + kSecond, Code::kUnavailable);
  EXPECT_EQ(peer_.Ask(now_ + 4 * kSecond), Peer::Access::kAvoid);
  EXPECT_EQ(peer_.Ask(now_ + 5 * kSecond), Peer::Access::kProbe);
  peer_.ReportHeard(now_ + 5 * kSecond);
  now_ += 100 * kSecond;  // long good: from the start
  peer_.ReportFailure(now_, Code::kUnavailable);
  EXPECT_EQ(peer_.Ask(now_ + 2 * kSecond), Peer::Access::kProbe);
}

TEST_F(PeerTest, ShortSilencesAddUp) {
  for (int i = 0; i < 3; ++i) {
    peer_.ReportSilence(now_, now_ + 300 * kMillisecond);
    now_ += kSecond;
    ASSERT_EQ(peer_.Ask(now_), Peer::Access::kUse);
  }
  peer_.ReportSilence(now_, now_ + 300 * kMillisecond);
  EXPECT_EQ(peer_.Ask(now_ + 300 * kMillisecond), Peer::Access::kAvoid);
}

TEST_F(PeerTest, OverlappingSilencesCountOnce) {
  for (int i = 0; i < 50; ++i) peer_.ReportSilence(now_, now_ + 300 * kMillisecond);
  EXPECT_EQ(peer_.Ask(now_), Peer::Access::kUse);
  peer_.ReportSilence(now_ + 200 * kMillisecond, now_ + 400 * kMillisecond);
  EXPECT_EQ(peer_.Ask(now_), Peer::Access::kUse);
}

TEST_F(PeerTest, AByteHeardForgetsTheSilence) {
  for (int i = 0; i < 10; ++i) {
    peer_.ReportSilence(now_, now_ + 900 * kMillisecond);
    now_ += kSecond;
    peer_.ReportHeard(now_);
  }
  EXPECT_EQ(peer_.Ask(now_), Peer::Access::kUse);
}

}  // namespace
}  // namespace dfkv::client
