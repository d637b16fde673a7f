"""Each tidy check must catch a planted violation and stay silent on a clean tree."""

import contextlib
import io
import subprocess
import tempfile
import unittest
from pathlib import Path

import check_banned
import check_budgets
import check_clang
import check_docs
import check_layers
import options_page
from common import PassedCache, Tree, strip_comments_and_strings

LAYERS = """set(DFKV_LAYERS base io net)
set(DFKV_LAYER_base "")
set(DFKV_LAYER_io base)
set(DFKV_LAYER_net io base)
set(DFKV_LAYER_base_EXTERNAL CLI)
set(DFKV_LAYER_io_EXTERNAL liburing)
set(DFKV_LAYER_net_EXTERNAL "")
"""
BODY = "  x = 1;\n"


class Planted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.git("init", "-q")
        self.write("src/layers.cmake", LAYERS)

    def git(self, *arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        subprocess.run(["git", "-C", str(self.root), *identity, *arguments], check=True,
                       stdout=subprocess.DEVNULL)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def problems(self, run):
        with contextlib.redirect_stdout(io.StringIO()):
            return "\n".join(run(Tree(self.root)))

    def assert_planted(self, run, path, text, expected):
        self.write(path, text)
        self.assertIn(expected, self.problems(run))
        self.write(path, "# clean\n" if path.endswith(".py") else "// clean\n")
        self.assertEqual(self.problems(run), "")


class Layers(Planted):
    def test_upward_include(self):
        self.assert_planted(check_layers.run, "src/io/a.h", '#include "net/b.h"\n', 'may not include "net/b.h"')

    def test_granted_include(self):
        self.write("src/net/a.cc", '#include <sys/uio.h>\n#include <vector>\n#include "io/b.h"\n#include "net/c.h"\n')
        self.assertEqual(self.problems(check_layers.run), "")

    def test_relative_include(self):
        for name in ("../base/b.h", "b.h", "./b.h"):
            self.assert_planted(check_layers.run, "src/io/a.h", f'#include "{name}"\n', "is not a path from src/")

    def test_unknown_layer(self):
        self.assert_planted(check_layers.run, "src/io/a.h", '#include "gui/b.h"\n', "names no layer")

    def test_folder_outside_the_table(self):
        self.write("src/gui/a.h", "")
        self.assertIn("src/gui is no layer", self.problems(check_layers.run))

    def test_package_of_another_layer(self):
        self.assert_planted(check_layers.run, "src/net/a.cc", "#include <liburing.h>\n", "does not grant it liburing")

    def test_package_outside_its_file(self):
        self.assert_planted(check_layers.run, "src/base/a.cc", "#include <CLI/CLI.hpp>\n", "confined to")

    def test_unknown_package(self):
        self.assert_planted(check_layers.run, "src/base/a.cc", "#include <boost/asio.hpp>\n", "is unknown")

    def test_test_framework_only_in_tests(self):
        self.assert_planted(check_layers.run, "src/io/a.cc", "#include <gtest/gtest.h>\n", "does not grant it gtest")
        self.write("src/io/a_test.cc", "#include <gtest/gtest.h>\n")
        self.assertEqual(self.problems(check_layers.run), "")


class Banned(Planted):
    def test_each_token(self):
        for line in ('getenv("X");', "secure_getenv(name);", "std::thread t;", "std::async(f);", "std::jthread t;",
                     "clock_gettime(CLOCK_MONOTONIC, &t);", "gettimeofday(&t, 0);", "Clock::now();",
                     "std::chrono::steady_clock c;", "time(nullptr);", "std::time(0);", "sleep(1);", "usleep(9);",
                     "nanosleep(&t, 0);", "std::this_thread::sleep_for(x);", "poll(nullptr, 0, 5);",
                     "std::random_device d;", "rand();", "throw 1;", "using namespace std;",
                     "WallMicros();", "f(CLOCK_REALTIME);"):
            self.assert_planted(check_banned.run, "src/io/a.cc", f"void F() {{ {line} }}\n", "is banned here")

    def test_sleep_is_banned_in_tests_too(self):
        self.assert_planted(check_banned.run, "src/io/a_test.cc", "void F() { usleep(1); }\n", "is banned here")
        self.assert_planted(check_banned.run, "tests/system/a.cc", "void F() { sleep(1); }\n", "is banned here")

    def test_python_and_shell(self):
        self.write("python/a.py", "import time\ntime.sleep(1)\n")
        self.write("deploy/a.sh", "sleep 1\n")
        problems = self.problems(check_banned.run)
        self.assertIn("python/a.py:2", problems)
        self.assertIn("deploy/a.sh:1", problems)

    def test_unfinished_work_in_comments_and_documents(self):
        word = "TO" + "DO"
        self.write("src/io/a.h", f"// {word}: later\n")
        self.write("docs/a.md", f"{word}\n")
        problems = self.problems(check_banned.run)
        self.assertIn("src/io/a.h:1", problems)
        self.assertIn("docs/a.md:1", problems)

    def test_owners_comments_and_lookalikes_pass(self):
        self.write("src/base/option.cc", 'const char* v = getenv("X");\n')
        self.write("src/base/sync.h", "std::thread t;\n")
        self.write("src/base/clock.cc", "clock_gettime(id, &now);\n")
        self.write("src/io/a.cc", "// sleep(1)\nconst char* k = \"getenv(\";\nint run_time(int);\nRandom random(seed);\n"
                   "int64_t t = clock->Now();\nx.time(0);\n")
        self.assertEqual(self.problems(check_banned.run), "")


class Budgets(Planted):
    def test_long_file(self):
        self.assert_planted(check_budgets.run, "src/io/a.cc", "int x;\n" * 801, "the file has 801 lines")

    def test_long_functions_of_every_shape(self):
        for head in ("void F() {", "int A::F(int x) const noexcept {", "A::A(int x) : x_{1}, y_(2) {",
                     "template <typename T>\n  requires Small<T>\nvoid F(T t) {", "TEST(A, B) {", 'extern "C" int F() {',
                     "const auto kF = [](int x) {", "auto F() -> std::vector<int> {"):
            text = "namespace a {\n" + head + "\n" + BODY * 70 + "}\n}\n"
            self.assert_planted(check_budgets.run, "src/io/a.cc", text, "the budget is 70")

    def test_method_in_class(self):
        text = "class A : public B {\n public:\n  void F() {\n" + BODY * 70 + "  }\n  int x_ = 0;\n};\n"
        self.write("src/io/a.h", text)
        self.assertEqual(self.problems(check_budgets.run),
                         "src/io/a.h: function F has 72 lines, the budget is 70: split it")

    def test_what_is_no_function(self):
        self.write("src/io/a.h", "class A {\n" + "  int F() { return 1; }\n" * 80 + "};\n"
                   "const int kTable[] = {\n" + "  F(1),\n" * 80 + "};\nenum class E {\n" + "  kA,\n" * 80 + "};\n"
                   "#define F(x) \\\n" + "  x {     \\\n" * 80 + "  }\n")
        self.assertEqual(self.problems(check_budgets.run), "")

    def test_exactly_seventy_lines_pass(self):
        self.write("src/io/a.cc", "void F() {\n" + BODY * 68 + "}\n")
        self.assertEqual(self.problems(check_budgets.run), "")

    def test_python_function(self):
        self.assert_planted(check_budgets.run, "python/a.py", "def f():\n" + "    x = 1\n" * 70, "function f has 71")

    def test_list_may_only_shrink(self):
        self.write("src/io/a.cc", "void F() {\n" + BODY * 78 + "}\n")
        self.write(check_budgets.LIST, "src/io/a.cc F 80\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "first")
        self.assertEqual(self.problems(check_budgets.run), "")
        self.write("src/io/a.cc", "void F() {\n" + BODY * 79 + "}\n")
        self.assertIn("has grown to 81", self.problems(check_budgets.run))
        self.write(check_budgets.LIST, "src/io/a.cc F 81\n")
        self.assertIn("the list may only shrink", self.problems(check_budgets.run))
        self.write("src/io/a.cc", "void F() {\n" + BODY * 75 + "}\n")
        self.write(check_budgets.LIST, "src/io/a.cc F 80\n")
        self.assertIn("lower the entry", self.problems(check_budgets.run))
        self.write("src/io/a.cc", "void F() {\n}\n")
        self.assertIn("remove the entry", self.problems(check_budgets.run))


class Docs(Planted):
    PAGE = "| name | what | layers |\n|---|---|---|\n| `CLI` | flags | base |\n| `liburing` | io | io |\n"

    def setUp(self):
        super().setUp()
        self.write("docs/DEPENDENCIES.md", self.PAGE)

    def test_missing_and_long_readme(self):
        self.write("src/io/a.cc", "")
        self.assertIn("src/io/README.md: missing", self.problems(check_docs.run))
        self.write("src/io/README.md", "x\n" * 41)
        self.assertIn("over 40 lines", self.problems(check_docs.run))
        self.write("src/io/README.md", "x\n" * 40)
        self.assertEqual(self.problems(check_docs.run), "")

    def test_dependency_without_row_or_layer(self):
        self.write("docs/DEPENDENCIES.md", self.PAGE.replace("| `CLI` | flags | base |\n", ""))
        self.assertIn("no row for `CLI`", self.problems(check_docs.run))
        self.write("docs/DEPENDENCIES.md", self.PAGE.replace("| io | io |", "| io | net |"))
        self.assertIn("does not name its layer io", self.problems(check_docs.run))

    def test_dead_link(self):
        self.assert_planted(check_docs.run, "docs/a.md", "[x](b.md)\n", "leads nowhere")

    def test_options_page_out_of_date(self):
        self.write(".gitignore", "/build/\n")
        for name in {program.split()[0] for program in options_page.PROGRAMS}:
            program = f"{options_page.BINARIES}/{name}"
            self.write(program, "#!/bin/sh\nprintf '### Disk\\n\\n| `--a` |\\n'\n")
            (self.root / program).chmod(0o755)
        self.assertIn("OPTIONS.md: out of date", self.problems(check_docs.run))
        self.write(options_page.PAGE, options_page.generate(self.root))
        self.assertEqual(self.problems(check_docs.run), "")


class Clang(Planted):
    """The compiling checks, with the commands that a compile database would give."""

    def setUp(self):
        super().setUp()
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write("src/base/a_test.cc", "")
        self.write(".clang-tidy", "Checks: '-*,clang-diagnostic-*,google-explicit-constructor'\n")
        words = ["clang++-16", "-std=c++20", "-Isrc", "-Wall", "-Wthread-safety", "-Werror"]
        self.commands = {"src/base/a.cc": words, "src/base/a_test.cc": words}

    def run_check(self, check):
        tree = Tree(self.root)
        return "\n".join(check(tree, PassedCache(self.root / "cache"), self.commands))

    def test_header_that_does_not_compile_alone(self):
        self.write("src/base/a.h", "#pragma once\ninline std::vector<int> F() { return {}; }\n")
        self.assertIn("src/base/a.h: does not compile alone", self.run_check(check_clang.check_headers))
        self.write("src/base/a.h", "#pragma once\n#include <vector>\ninline std::vector<int> F() { return {}; }\n")
        self.assertEqual(self.run_check(check_clang.check_headers), "")

    def test_header_without_guard(self):
        self.write("src/base/a.h", "struct A {};\n")
        self.assertIn("does not compile alone", self.run_check(check_clang.check_headers))

    def test_warning_and_cache(self):
        for path, check in (("src/base/a.cc", check_clang.check_tidy), ("src/base/a_test.cc", check_clang.check_warnings)):
            self.write("src/base/a.cc", "")
            self.write("src/base/b.h", "inline int F() { return 1; }\n")
            self.write(path, '#include "base/b.h"\nint G() { return F(); }\n')
            self.assertEqual(self.run_check(check), "")
            self.write("src/base/b.h", "inline int F() { int unused; return 1; }\n")  # seen through the include
            self.assertIn("unused variable", self.run_check(check))

    def test_unguarded_access(self):
        source = Path(__file__).resolve().parents[2] / "src/base/sync.h"
        self.write("src/base/sync.h", source.read_text())
        self.write("src/base/a.cc", '#include "base/sync.h"\nclass A {\n int F() { return x_; }\n dfkv::Mutex m_;\n'
                   " int x_ GUARDED_BY(m_) = 0;\n};\n")
        self.assertIn("requires holding mutex", self.run_check(check_clang.check_tidy))

    def test_clang_tidy(self):
        self.write("src/base/a.cc", "struct A { A(int x); };\n")
        self.assertIn("google-explicit-constructor", self.run_check(check_clang.check_tidy))
        self.write("src/base/a.cc", "struct A { explicit A(int x); };\n")
        self.assertEqual(self.run_check(check_clang.check_tidy), "")

    def test_format(self):
        self.write("src/base/a.cc", "int   x;\n")
        self.assertIn("src/base/a.cc: not as clang-format-16", self.problems(check_clang.check_format))
        self.write("src/base/a.cc", "int x;\n")
        self.assertEqual(self.problems(check_clang.check_format), "")


class Stripping(unittest.TestCase):
    def test_comments_strings_and_separators(self):
        text = 'int a = 1\'000; // x\n/* y\n z */ char c = \'"\'; auto s = R"(a"b)" "q\\"r";\n'
        code = strip_comments_and_strings(text)
        self.assertEqual(len(code), len(text))
        self.assertEqual(code.count("\n"), 3)
        for gone in ("x", "y", "z", "b", "q", "r"):
            self.assertNotIn(gone, code.replace("char", ""))
        self.assertIn("1'000;", code)


if __name__ == "__main__":
    unittest.main()
