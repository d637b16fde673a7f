#include "base/option.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "base/log.h"
#include "base/option_cli.h"
#include "base/text.h"

namespace dfkv {
namespace {

enum class Engine { kSlab, kFile };

struct Fields {
  bool ram_tier = true;
  bool json = false;
  uint32_t tcp_max_conns = 512;
  int64_t offset = 0;
  uint64_t seed = 7;
  uint64_t cap_bytes = 16ull << 30;
  int64_t io_timeout_s = 60;
  uint32_t first_req_ms = 30000;
  double rate = 0.5;
  std::string group = "default";
  std::vector<std::string> dir = {"/a"};
  Engine engine = Engine::kSlab;
  LogLevel log = LogLevel::kInfo;
  std::optional<uint16_t> metrics_port;
};

class OptionTest : public testing::Test {
 protected:
  OptionTest() {
    set.Group("Network");
    set.Add("tcp-max-conns", &f.tcp_max_conns, "Open connections.").Range(1, 4096).Env("DFKV_T_CONNS");
    set.Add("tcp-io-timeout-s", &f.io_timeout_s, "Idle time.").Range(1, 3600).Live();
    set.Add("tcp-first-req-ms", &f.first_req_ms, "First request.");
    set.Add("metrics-port", &f.metrics_port, "Admin port.");
    set.Group("Storage");
    set.AddBytes("cap", &f.cap_bytes, "Space.").AtLeast(1 << 20).DefaultText("all of it");
    set.Add("ram-tier", &f.ram_tier, "RAM tier.");
    set.Add("dir", &f.dir, "Directories.");
    set.AddEnum("store-engine", &f.engine, {{"slab", Engine::kSlab}, {"file", Engine::kFile}}, "Engine.");
    set.Group("Other");
    set.Add("json", &f.json, "JSON.").Switch();
    set.Add("offset", &f.offset, "Offset.");
    set.Add("key-seed", &f.seed, "Seed.");
    set.Add("rate", &f.rate, "Rate.").RealRange(0, 1);
    set.Add("group", &f.group, "Group | name.").Check([](std::string_view text) {
      return text.find(' ') == std::string_view::npos ? Ok() : Status(Code::kInvalid, "no spaces");
    });
    set.AddEnum("log", &f.log,
                {{"debug", LogLevel::kDebug},
                 {"info", LogLevel::kInfo},
                 {"warn", LogLevel::kWarn},
                 {"warning", LogLevel::kWarn}},
                "Level.");
  }
  ~OptionTest() override {
    for (const Option& option : set.options()) unsetenv(option.info().env.c_str());
  }

  Status Parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return ParseArgs(&set, static_cast<int>(arguments.size()), arguments.data(), &flags);
  }
  std::string Refused(std::vector<const char*> arguments) {
    const Status status = Parse(std::move(arguments));
    EXPECT_EQ(status.code(), Code::kInvalid);
    return status.message();
  }

  Fields f;
  OptionSet set;
  StandardFlags flags;
};

TEST_F(OptionTest, FlagsOfEveryType) {
  ASSERT_EQ(Parse({"--tcp-max-conns",
                   "9",
                   "--tcp-io-timeout-s=2m",
                   "--tcp-first-req-ms",
                   "2s",
                   "--cap",
                   "100GB",
                   "--ram-tier",
                   "off",
                   "--dir",
                   "/b,/c",
                   "--dir=/d",
                   "--store-engine",
                   "FILE",
                   "--json",
                   "--offset",
                   "-5",
                   "--key-seed",
                   "18446744073709551615",
                   "--rate",
                   "0.25",
                   "--group=",
                   "--log",
                   "WARNING",
                   "--metrics-port",
                   "0"})
                .message(),
            "");
  EXPECT_EQ(f.tcp_max_conns, 9u);
  EXPECT_EQ(f.io_timeout_s, 120);
  EXPECT_EQ(f.first_req_ms, 2000u);
  EXPECT_EQ(f.cap_bytes, 100'000'000'000u);
  EXPECT_FALSE(f.ram_tier);
  EXPECT_EQ(f.dir, (std::vector<std::string>{"/b", "/c", "/d"}));
  EXPECT_EQ(f.engine, Engine::kFile);
  EXPECT_TRUE(f.json);
  EXPECT_EQ(f.offset, -5);
  EXPECT_EQ(f.seed, UINT64_MAX);
  EXPECT_EQ(f.rate, 0.25);
  EXPECT_EQ(f.group, "");
  EXPECT_EQ(f.log, LogLevel::kWarn);
  EXPECT_EQ(f.metrics_port, 0);
}

TEST_F(OptionTest, LastFlagWinsAndBoolStandsAlone) {
  f.ram_tier = false;
  ASSERT_TRUE(Parse({"--key-seed", "1", "--ram-tier", "--key-seed", "2"}).ok());
  EXPECT_EQ(f.seed, 2u);
  EXPECT_TRUE(f.ram_tier);
}

TEST_F(OptionTest, WordsStayWords) {
  set.TakeWords("COMMAND [KEY]", 1, 5);
  ASSERT_EQ(Parse({"get", "--json", "on", "-1", "--", "--key", "[a]"}).message(), "");
  EXPECT_EQ(set.words(), (std::vector<std::string>{"get", "on", "-1", "--key", "[a]"}));
  EXPECT_EQ(Refused({"a", "b", "c", "d", "e", "f"}), "unexpected argument 'f'");
  EXPECT_EQ(Refused({}), "missing argument: COMMAND [KEY]");
}

TEST_F(OptionTest, WordsAreRefusedWhereNoneAreTaken) {
  EXPECT_EQ(Refused({"extra"}), "unexpected argument 'extra'");
}

TEST_F(OptionTest, RefusalsNameOptionValueSourceAndWhatIsAllowed) {
  EXPECT_EQ(
      Refused({"--tcp-max-conns", "4097"}),
      "tcp-max-conns: '4097' (flag --tcp-max-conns) is out of range; allowed: a whole number from 1 to 4096");
  EXPECT_EQ(Refused({"--tcp-max-conns=x"}),
            "tcp-max-conns: 'x' (flag --tcp-max-conns) is not valid; allowed: a whole number from 1 to 4096");
  EXPECT_EQ(Refused({"--store-engine", "cow"}),
            "store-engine: 'cow' (flag --store-engine) is not valid; allowed: one of slab, file");
  EXPECT_EQ(Refused({"--group", "a b"}), "group: 'a b' (flag --group) is not allowed: no spaces");
  EXPECT_EQ(Refused({"--tcp-max-con", "1"}), "unknown flag --tcp-max-con; did you mean --tcp-max-conns?");
  EXPECT_EQ(Refused({"--zebra=1"}), "unknown flag --zebra");
  EXPECT_EQ(Refused({"-x"}), "unknown flag -x");
  EXPECT_EQ(Refused({"--key-seed"}), "flag --key-seed needs a value");
  EXPECT_EQ(Refused({"--key-seed", "--json"}), "flag --key-seed needs a value");
  EXPECT_EQ(Refused({"--config"}), "flag --config needs a value");
  EXPECT_EQ(f.tcp_max_conns, 512u);
}

TEST_F(OptionTest, NumbersBeyondTheFieldAreRefused) {
  for (const auto& [flag, value] :
       std::vector<std::pair<const char*, const char*>>{{"--metrics-port", "65536"},
                                                        {"--metrics-port", "-1"},
                                                        {"--key-seed", "18446744073709551616"},
                                                        {"--key-seed", "-1"},
                                                        {"--offset", "9223372036854775808"},
                                                        {"--tcp-first-req-ms", "4294967296"},
                                                        {"--tcp-first-req-ms", "9223372036854775807h"},
                                                        {"--tcp-io-timeout-s", "500ms"},
                                                        {"--cap", "1e400"},
                                                        {"--cap", "1023"},
                                                        {"--tcp-first-req-ms", "5 parsecs"},
                                                        {"--rate", "nan"},
                                                        {"--rate", "1.5"},
                                                        {"--offset", ""},
                                                        {"--ram-tier", "--ram-tier=maybe"},
                                                        {"--tcp-first-req-ms", "--"}}) {
    EXPECT_EQ(Parse({flag, value}).code(), Code::kInvalid) << flag << " " << value;
  }
}

TEST_F(OptionTest, PrecedenceDoesNotDependOnOrder) {
  setenv("DFKV_T_CONNS", "20", 1);
  setenv("DFKV_GROUP", "env", 1);
  const std::string toml = "tcp-max-conns = 30\ngroup = 'file'\nrate = 0.75\n";
  ASSERT_TRUE(Parse({"--tcp-max-conns=10"}).ok());
  ASSERT_TRUE(set.LoadEnvironment().ok());
  ASSERT_TRUE(LoadTomlText(&set, toml, "c.toml").ok());
  EXPECT_EQ(f.tcp_max_conns, 10u);
  EXPECT_EQ(f.group, "env");
  EXPECT_EQ(f.rate, 0.75);
  EXPECT_EQ(set.Find("tcp-max-conns")->where(), "flag --tcp-max-conns");
  EXPECT_EQ(set.Find("group")->where(), "environment DFKV_GROUP");
  EXPECT_EQ(set.Find("rate")->where(), "c.toml:3");
  EXPECT_EQ(set.Find("json")->source(), OptionSource::kDefault);
}

TEST_F(OptionTest, EnvironmentTakesTheGoodAndNamesTheBad) {
  setenv("DFKV_T_CONNS", "many", 1);
  setenv("DFKV_RAM_TIER", "1", 1);
  setenv("DFKV_CAP", "1KiB", 1);
  setenv("DFKV_GROUP", "", 1);
  f.ram_tier = false;
  const Status status = set.LoadEnvironment();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_EQ(
      status.message(),
      "tcp-max-conns: 'many' (environment DFKV_T_CONNS) is not valid; allowed: a whole number from 1 to "
      "4096\n"
      "cap: '1KiB' (environment DFKV_CAP) is out of range; allowed: a size (as 4096, 64KiB or 100GB), at "
      "least 1MiB");
  EXPECT_TRUE(f.ram_tier);
  EXPECT_EQ(f.group, "default");
  EXPECT_EQ(f.tcp_max_conns, 512u);
}

TEST_F(OptionTest, TomlOfEveryTypeAndTables) {
  const Status status = LoadTomlText(&set,
                                     "ram_tier = false\ncap = '64MiB'\ndir = ['/x', '/y']\nrate = 1\n"
                                     "store-engine = 'file'\n[tcp]\nmax-conns = 7\nfirst.req.ms = '3s'\n",
                                     "c.toml");
  ASSERT_EQ(status.message(), "");
  EXPECT_FALSE(f.ram_tier);
  EXPECT_EQ(f.cap_bytes, 64u << 20);
  EXPECT_EQ(f.dir, (std::vector<std::string>{"/x", "/y"}));
  EXPECT_EQ(f.engine, Engine::kFile);
  EXPECT_EQ(f.tcp_max_conns, 7u);
  EXPECT_EQ(f.first_req_ms, 3000u);
}

TEST_F(OptionTest, TomlRefusalsNameFileAndLine) {
  const Status status = LoadTomlText(
      &set, "rate = 2.0\n\ntcp-max-cons = 1\ncap = [1, 2]\n[tcp]\nmax_conns = 1979-05-27\n", "c.toml");
  EXPECT_EQ(status.code(), Code::kInvalid);
  for (const char* expected :
       {"rate: '2' (c.toml:1) is out of range; allowed: a number from 0 to 1",
        "unknown option 'tcp-max-cons' (c.toml:3); did you mean --tcp-max-conns?",
        "cap: the value (c.toml:4) is not valid; allowed: a size",
        "tcp-max_conns: the value (c.toml:6) is not valid; allowed: a whole number from 1 to 4096"}) {
    EXPECT_NE(status.message().find(expected), std::string::npos) << status.message();
  }
  EXPECT_EQ(LoadTomlText(&set, "a = \n", "c.toml").message().substr(0, 9), "c.toml:1:");
  EXPECT_EQ(LoadTomlText(&set, "[tcp]\nmax-conns=1\n[tcp-max]\nconns=2", "c").message(),
            "tcp-max-conns: set twice (c:4)");
  EXPECT_EQ(LoadToml(&set, "/nonexistent/x.toml").code(), Code::kIoError);
  EXPECT_EQ(LoadToml(&set, "/").code(), Code::kIoError);
}

TEST_F(OptionTest, TomlBeyondAscii) {
  ASSERT_EQ(
      LoadTomlText(&set,
                   "# d\xC3\xA9j\xC3\xA0\ngroup = 'byte0_c3\xC3\xA9\\'\ndir = ['/\xE6\x97\xA5', \"\\u65e5\"]",
                   "c")
          .message(),
      "");
  EXPECT_EQ(f.group, "byte0_c3\xC3\xA9\\");
  EXPECT_EQ(f.dir, (std::vector<std::string>{"/\xE6\x97\xA5", "\xE6\x97\xA5"}));
  EXPECT_EQ(LoadTomlText(&set, "caf\xC3\xA9 = 1", "c").message(), "unknown option 'caf\xC3\xA9' (c:1)");
  EXPECT_EQ(LoadTomlText(&set, "group = \xC3\xA9", "c").code(), Code::kInvalid);
}

TEST_F(OptionTest, PrintCanBeReadBack) {
  ASSERT_TRUE(Parse({"--cap=1234567", "--group=a\"\\\x01z", "--dir=/p,/q", "--metrics-port=80"}).ok());
  const std::string printed = set.Print();
  EXPECT_NE(printed.find("cap = \"1234567\""), std::string::npos) << printed;
  EXPECT_NE(printed.find("  # flag --cap\n"), std::string::npos) << printed;
  const Fields before = f;
  f = Fields();
  f.tcp_max_conns = 1;
  OptionSet other;
  Fields g;
  other.AddBytes("cap", &g.cap_bytes, "");
  other.Add("group", &g.group, "");
  std::string part;
  for (const std::string& line : SplitTrimmed(printed, '\n')) {
    if (line.starts_with("cap") || line.starts_with("group")) part += line + "\n";
  }
  ASSERT_EQ(LoadTomlText(&other, part, "printed").message(), "");
  EXPECT_EQ(g.cap_bytes, 1234567u);
  EXPECT_EQ(g.group, before.group);
  EXPECT_EQ(LoadTomlText(&set, printed, "printed").message(), "");  // all of it parses
}

TEST_F(OptionTest, HelpAndMarkdownDeriveFromTheRows) {
  const std::string help = set.Help("dfkv_x", "Does x.");
  EXPECT_NE(help.find("Usage: dfkv_x [options]\n\nDoes x.\n"), std::string::npos) << help;
  EXPECT_NE(
      help.find("\nStorage:\n  --cap SIZE                      Space. Default: all of it. [DFKV_CAP]\n"),
      std::string::npos)
      << help;
  EXPECT_NE(help.find("Idle time. Default: 60 s. [DFKV_TCP_IO_TIMEOUT_S]"), std::string::npos) << help;
  for (const std::string& line : SplitTrimmed(help, '\n')) EXPECT_LE(line.size(), 110u) << line;
  const std::string markdown = set.Markdown();
  EXPECT_NE(markdown.find("| `--group` | `DFKV_GROUP` | `default` | text | yes | Group \\| name. |\n"),
            std::string::npos)
      << markdown;
  EXPECT_NE(markdown.find("| `--tcp-io-timeout-s` | `DFKV_TCP_IO_TIMEOUT_S` | `60` |"), std::string::npos);
}

TEST_F(OptionTest, RequiredRowsAreAskedFor) {
  std::string members;
  set.Add("members", &members, "The nodes.").Required();
  EXPECT_EQ(set.CheckRequired().message(), "missing --members (or DFKV_MEMBERS): The nodes.");
  ASSERT_TRUE(Parse({"--members=a"}).ok());
  EXPECT_TRUE(set.CheckRequired().ok());
}

TEST_F(OptionTest, ProgramExitStatuses) {
  const ProgramText text = {"dfkv_x", "Does x."};
  const auto run = [&](const char* flag) {
    const char* arguments[] = {"dfkv_x", flag};
    return LoadProgramOptions(text, &set, 2, arguments);
  };
  testing::internal::CaptureStdout();
  EXPECT_EQ(run("--help"), 0);
  EXPECT_EQ(run("--version"), 0);
  EXPECT_EQ(run("--print-config"), 0);
  EXPECT_EQ(run("--print-options-markdown"), 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("dfkv_x 0."), std::string::npos);
  testing::internal::CaptureStderr();
  EXPECT_EQ(run("--nope"), 2);
  EXPECT_EQ(run("--config=/nonexistent"), 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("unknown flag --nope"), std::string::npos);
  EXPECT_EQ(run("--json"), std::nullopt);
}

}  // namespace
}  // namespace dfkv
