#include "tools/bench/node_process.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/text.h"

namespace dfkv::tools {
namespace {

// Programs that behave as a node does, or does not.
class NodeProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dfkv_node_process_test.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  Result<std::unique_ptr<NodeProcess>> Start(const std::string& script, NodeOptions options = {}) {
    options.binary = directory_ + "/node";
    std::ofstream(options.binary) << "#!/bin/sh\n" << script << "\n";
    chmod(options.binary.c_str(), 0700);
    return NodeProcess::Start(options, 17);
  }
  static bool Alive(pid_t pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

  // Serves until SIGTERM, then ends with the status that is put in.
  static std::string Serving(int status) {
    return Cat("exec /usr/bin/python3 -S -c 'import os, signal\n",
               "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n",
               "os.write(1, b\"PORT 4321\\nREADY and more\\n\")\n", "signal.sigwait([signal.SIGTERM])\n",
               "os._exit(", status, ")'");
  }

  std::string directory_;
};

TEST_F(NodeProcessTest, StartsAndStopsInOrder) {
  Result<std::unique_ptr<NodeProcess>> node = Start(Serving(0));
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  EXPECT_EQ((*node)->port(), 4321);
  const pid_t pid = (*node)->pid();
  EXPECT_TRUE(Alive(pid));
  EXPECT_TRUE((*node)->Stop().ok());
  EXPECT_FALSE(Alive(pid));
}

TEST_F(NodeProcessTest, SaysHowAStopWentWrong) {
  Result<std::unique_ptr<NodeProcess>> node = Start(Serving(3));
  ASSERT_TRUE(node.ok());
  EXPECT_NE((*node)->Stop().message().find("status 3"), std::string::npos);
  node = Start(Serving(0));
  ASSERT_TRUE(node.ok());
  (*node)->Kill();
  EXPECT_NE((*node)->Stop().message().find("signal 9"), std::string::npos);
}

TEST_F(NodeProcessTest, KillsWhatDoesNotStop) {
  NodeOptions options;
  options.stop_timeout_s = 0;
  Result<std::unique_ptr<NodeProcess>> node =
      Start("trap '' TERM; echo PORT 1; exec tail -f /dev/null", options);
  ASSERT_TRUE(node.ok());
  const pid_t pid = (*node)->pid();
  EXPECT_EQ((*node)->Stop().code(), Code::kTimeout);
  EXPECT_FALSE(Alive(pid));
}

TEST_F(NodeProcessTest, DestructionLeavesNoProcess) {
  pid_t pid = 0;
  {
    Result<std::unique_ptr<NodeProcess>> node = Start(Serving(0));
    ASSERT_TRUE(node.ok());
    pid = (*node)->pid();
  }
  EXPECT_FALSE(Alive(pid));
}

TEST_F(NodeProcessTest, PassesItsFlagsAndThePort) {
  NodeOptions options;
  options.flags = {"--a=b c"};
  Result<std::unique_ptr<NodeProcess>> node =
      Start(Cat("echo \"$#|$1|$2\" >", directory_, "/seen; echo PORT 5"), options);
  ASSERT_TRUE(node.ok());
  std::ifstream file(directory_ + "/seen");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "2|--a=b c|--port=17");
}

TEST_F(NodeProcessTest, RefusesWhatIsNoNode) {
  EXPECT_EQ(Start("exit 1").code(), Code::kUnavailable);
  EXPECT_EQ(Start("echo hello").code(), Code::kUnavailable);
  EXPECT_EQ(Start("echo PORT 70000").code(), Code::kUnavailable);
  NodeOptions options;
  options.ready_timeout_s = 0;
  EXPECT_EQ(Start("exec tail -f /dev/null", options).code(), Code::kTimeout);
  EXPECT_EQ(NodeProcess::Start({directory_ + "/absent", {}}, 0).code(), Code::kIoError);
}

}  // namespace
}  // namespace dfkv::tools
