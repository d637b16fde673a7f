// The command line and the config file: how a program fills its OptionSet. Not for libdfkv.so, whose options
// come from the environment alone.
//
//   int main(int argc, char** argv) {
//     OptionSet set;
//     ServerOptions options;
//     RegisterServerOptions(&set, &options);
//     const ProgramText text = {"dfkv_server", "One node of dfkv."};
//     if (std::optional<int> exit_status = LoadProgramOptions(text, &set, argc, argv)) return *exit_status;
//     ...
//   }
#pragma once

#include <optional>
#include <string>

#include "base/option.h"

namespace dfkv {

// What the standard flags asked for.
struct StandardFlags {
  bool help = false;
  bool version = false;
  bool print_config = false;
  bool print_options_markdown = false;
  std::string config;  // a path; empty for none
};

// Reads flags (--name value, --name=value; a bool also as --name alone; a list repeated or comma-separated)
// and words into the set. kInvalid names what is wrong; nothing is printed.
Status ParseArgs(OptionSet* set, int argc, const char* const* argv, StandardFlags* flags);

// Reads a TOML file: keys are option names, '_' equals '-', and a table's name is the front of its keys'
// names
// ([tcp] max-conns is tcp-max-conns). kInvalid names file, line and what is allowed, a line each problem;
// kIoError when the file cannot be read.
Status LoadToml(OptionSet* set, const std::string& path);
Status LoadTomlText(OptionSet* set, std::string_view text, const std::string& path);  // path: for messages

struct ProgramText {
  std::string name;
  std::string summary;
};

// All of a main's option work: flags, environment, config file (--config or DFKV_CONFIG), required rows.
// Returns nothing when the program shall run, else its exit status: 0 after --help, --version, --print-config
// or
// --print-options-markdown (printed to stdout), 2 after an error (printed to stderr).
std::optional<int> LoadProgramOptions(const ProgramText& program, OptionSet* set, int argc,
                                      const char* const* argv);

}  // namespace dfkv
