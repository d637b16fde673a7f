# The front door; `make` alone lists what there is. Each target installs the Debian packages it lacks
# (deploy/debian-packages.txt; NO_DEPS=1 skips that) and builds what it needs under build/.
SHELL := /bin/bash
PYTHON := $(shell test -x /usr/bin/python3 && echo /usr/bin/python3 || echo python3)
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 600
DEMO_SECONDS ?=
DEPS = $(if $(NO_DEPS),@:,@deploy/install_packages.sh)
BUILD = cmake --preset $(1) && cmake --build --preset $(1) -j $(JOBS)
.DEFAULT_GOAL := help
.PHONY: help deps run build test tidy fmt docs asan tsan replay soak vm bench bench-peers fuzz python ci clean

help:  ## this list
	@echo "dfkv: a distributed KV cache for LLM inference"
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target text; do \
	  printf '  make %-11s %s\n' "$$target" "$$text"; done

deps:  ## install every Debian package: to build, to test, to measure
	$(DEPS) build test bench vm

run:  ## build, start one node on loopback, run a verified demo on it, serve until Ctrl-C (DEMO_SECONDS=10 ends)
	$(DEPS) build
	cmake --preset release >/dev/null
	cmake --build --preset release -j $(JOBS) --target programs
	@DEMO_SECONDS="$(DEMO_SECONDS)" deploy/demo.sh

build:  ## build everything optimised, into build/release
	$(DEPS) build
	$(call BUILD,release)

test: build  ## build and run every test
	$(DEPS) test
	ctest --preset release -j $(JOBS)
	@tests/ci/python_tests.sh

tidy:  ## check layers, budgets, banned tokens, documents, format, headers, clang's warnings, clang-tidy
	$(DEPS) build test
	@$(PYTHON) tests/tidy/tidy.py

fmt:  ## write every C++ file as clang-format-16 wants it
	$(DEPS) test
	@git ls-files -z --cached --others --exclude-standard '*.h' '*.cc' '*.c' | xargs -0 clang-format-16 -i

docs: build  ## write the pages that are generated from the programs
	@$(PYTHON) tests/tidy/options_page.py --write

asan:  ## build with address and undefined-behaviour sanitizers and run every C++ test
	$(DEPS) build test
	@$(PYTHON) tests/ci/ci.py --only asan

tsan:  ## build with the thread sanitizer and run every C++ test
	$(DEPS) build test
	@$(PYTHON) tests/ci/ci.py --only tsan

fuzz:  ## fuzz every decoder for FUZZ_SECONDS (60) each
	$(DEPS) build test
	@$(PYTHON) tests/ci/ci.py --only fuzz --fuzz-seconds $(FUZZ_SECONDS)

python: build  ## build the Python wheel into build/wheel, install it into build/venv, run its tests
	$(DEPS) test
	@tests/ci/python_tests.sh

replay: build  ## replay the published traces, also with kill -9, against the bars (DFKV_TRACES names their folder)
	@$(PYTHON) -B tests/system/replay_traces.py || [ $$? = 77 ]

soak: build  ## ten minutes of churn, in which memory, descriptors and threads must stay flat (SOAK_SECONDS=600)
	@cd tests/system && DFKV_PROGRAMS=$(CURDIR)/build/release/bin $(PYTHON) -B soak.py --seconds $(SOAK_SECONDS)

vm: build  ## power cuts and failing disks under a real kernel, in a guest
	$(DEPS) test vm
	@tests/vm/storage_test.sh

bench: build  ## measure dfkv beside its floors, iperf3, fio and redis-server; says which bars are met
	$(DEPS) bench
	@$(PYTHON) -B bench/run.py

bench-peers: build  ## measure dfkv beside redis, memcached, Mooncake Store and LMCache, each with its own Python client
	$(DEPS) bench
	@$(PYTHON) -B bench/bench_peers.py

ci:  ## all that must pass before a change lands; the last line counts passed, failed and skipped
	$(DEPS) build test vm
	@$(PYTHON) tests/ci/ci.py --fuzz-seconds $(FUZZ_SECONDS)

clean:  ## remove what was built
	rm -rf build
