# Every target sets up what it needs, and does again only what has changed.
#   make test PYTHON=python3.12     which interpreter the virtual environment is made with
#   make test JOBS=8                how many compilers run at a time
#   make run ARGS="--help"          options of the experiment

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
JOBS ?= 2
ARGS ?=
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

DEV := .venv/.ready-dev
DOCS := .venv/.ready-docs
PACKAGE := .venv/.ready-package
PEERS := .venv-peers/.ready
SITE_PACKAGES = $(shell .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# Directories are listed too: their time changes when a file is added or deleted.
SOURCES := $(shell find include src python cmake -not -path '*/.*' -not -path '*/__pycache__*' 2>/dev/null) CMakeLists.txt pyproject.toml
CPP := $(shell find src python/src -name '*.cpp' 2>/dev/null)
CPP_ALL := $(shell find include src python/src tests benchmarks examples -name '*.[ch]pp' 2>/dev/null)
HEADERS := $(filter %.hpp,$(CPP_ALL))
PYTHON_DIRS := $(wildcard python benchmarks docs examples experiments tests tools)
MYPY_DIRS := $(wildcard python/altdiff benchmarks examples experiments tests/python tests/stress tools)
SHELL_FILES := .ci/run $(wildcard tools/*.sh tests/find_package/*.sh)

.PHONY: help run experiments report test format lint docs bench bench-cpp bench-overhead soak leaks hostile stress stress-quick tsan release clean setup package test-cpp-build test-cpp test-python
.PHONY: lint-format lint-python lint-types lint-shell lint-tree lint-tidy

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(PACKAGE) ## train a network through an optimisation layer; writes out/report.html
	@python -m experiments.energy $(ARGS)

experiments: $(PEERS) ## the paper's tables and figures beside other libraries: about 70 minutes; ARGS=--quick: a few
	@.venv-peers/bin/python -m experiments $(ARGS)

report: $(PACKAGE) ## all of the paper's experiments on one page, from their saved results: out/experiments.html
	@python -m experiments.report $(ARGS)

test: ## all tests, C++ (address and undefined-behaviour sanitizers) and Python, with wall times
	@+MAKE="$(MAKE)" tools/test.sh

format: $(DEV) ## format C++ and Python in place
	@clang-format -i $(CPP_ALL)
	@ruff check --quiet --select I --fix $(PYTHON_DIRS)
	@ruff format --quiet $(PYTHON_DIRS)

lint: $(PACKAGE) ## formatting, clang-tidy, ruff, mypy, shellcheck, equation tags, shape of the tree
	@$(MAKE) -k -j$(JOBS) -O lint-format lint-python lint-types lint-shell lint-tree lint-tidy
	@echo "lint: clean"

docs: $(PACKAGE) $(DOCS) ## the documentation, into docs/_build/html; a warning is an error
	@sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(PEERS) ## time, memory and error beside other differentiable QP layers, which get a venv of their own
	@.venv-peers/bin/python -m benchmarks.peers $(ARGS)

bench-overhead: build/bench/build.ninja $(PACKAGE) ## what a call through torch adds to the core's time
	@cmake --build build/bench --target altdiff_call
	@.venv/bin/python -m benchmarks.overhead build/bench/benchmarks/cpp/altdiff_call $(ARGS)

soak: $(PACKAGE) ## 100,000 passes of changing shapes: memory must not grow
	@.venv/bin/python -m benchmarks.soak $(ARGS)

leaks: $(PACKAGE) ## some of these passes under LeakSanitizer
	@tools/check_leaks.sh $(ARGS)

bench-cpp: build/bench/build.ninja ## kernels and batches without Python (needs Google Benchmark)
	@cmake --build build/bench --target altdiff_benchmarks
	@build/bench/benchmarks/cpp/altdiff_benchmarks $(ARGS)

hostile: $(PACKAGE) ## 10,000 hostile problems, judged by an independent check
	@python -m benchmarks.hostile --workers $(JOBS) $(ARGS)

stress: $(PACKAGE) ## the stress suite: 500,000 tiny programs and the rest; ARGS="tiny --count 10000": a part of it
	@python -m tests.stress $(or $(ARGS),all --workers $(JOBS))

stress-quick: $(PACKAGE) ## the seeded part of it that every change must pass, under two minutes
	@python -m tests.stress quick --workers $(JOBS)

tsan: build/tsan/build.ninja ## the C++ tests under the thread sanitizer
release: build/release/build.ninja ## the C++ tests, optimised; build/release can then be installed
tsan release:
	@cmake --build --preset $@
	@ctest --preset $@ --no-tests=error -j$(JOBS)

clean: ## remove everything built; keeps the virtual environment
	@rm -rf build out docs/_build .mypy_cache .pytest_cache .ruff_cache

# The parts of `make test`.
setup: $(DEV) ; @:
package: $(PACKAGE) ; @:
test-cpp-build: build/dev/build.ninja
	@cmake --build --preset dev
test-cpp:
	@ctest --preset dev --no-tests=error -j$(JOBS)
test-python: $(PACKAGE)
	@python -m pytest $(ARGS)

$(DEV): requirements/dev.txt
	@echo "Setting up .venv: about 1 GB, a minute or more the first time ..."
	@test -x .venv/bin/python || $(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install -q -r $<
	@touch $@

$(DOCS): requirements/docs.txt $(DEV)
	@.venv/bin/python -m pip install -q -r $<
	@touch $@

$(PACKAGE): $(SOURCES) $(DEV)
	@echo "Building and installing the Python package ..."
	@.venv/bin/python -m pip install -q --no-build-isolation --no-deps -Cbuild-dir=build/python .
	@touch $@

$(PEERS): requirements/peers.txt $(PACKAGE)
	@echo "Setting up .venv-peers with the other libraries: about 2 GB the first time ..."
	@test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip install -q --no-deps -r $<
	@rm -rf build/wheels
	@.venv/bin/python -m pip wheel -q --no-build-isolation --no-deps -Cbuild-dir=build/python -w build/wheels .
	@.venv-peers/bin/python -m pip install -q --no-deps --force-reinstall build/wheels/*.whl
	@touch $@

build/bench/build.ninja: CMakeLists.txt $(DEV)
	@cmake -S . -B build/bench -G Ninja -DCMAKE_BUILD_TYPE=Release -DALTDIFF_BUILD_BENCHMARKS=ON -DALTDIFF_INSTALL=OFF \
	  -DCMAKE_PREFIX_PATH="$(SITE_PACKAGES)"
	@touch $@

$(foreach preset,dev tsan release,build/$(preset)/build.ninja): build/%/build.ninja: CMakePresets.json $(DEV)
	@cmake --preset $* -DCMAKE_PREFIX_PATH="$(SITE_PACKAGES)"
	@touch $@

# The parts of `make lint`.
lint-format: $(DEV)
	@clang-format --dry-run -Werror $(CPP_ALL)
	@ruff format --quiet --check $(PYTHON_DIRS)
lint-python: $(DEV)
	@ruff check --quiet $(PYTHON_DIRS)
lint-types: $(PACKAGE)
	@MYPYPATH=tests/python mypy --strict --no-error-summary $(MYPY_DIRS)
lint-shell: $(DEV)
	@shellcheck $(SHELL_FILES)
lint-tree: $(DEV)
	@python tools/check_tags.py
	@python tools/check_tree.py

# One stamp a file, so that only what changed is checked again; a build tree of its own, which is only configured.
# Debug, because without Eigen's assertions the analyzer follows paths that cannot be.
TIDY := $(CPP:%=build/lint/checked/%)
lint-tidy: $(TIDY)
build/lint/checked/python/%: DATABASE := build/python
build/lint/checked/src/%: DATABASE := build/lint
$(TIDY): build/lint/checked/%: % $(HEADERS) .clang-tidy | build/lint/build.ninja $(PACKAGE)
	@mkdir -p $(@D)
	@echo "clang-tidy $<"
	@clang-tidy --quiet -p $(DATABASE) $< 2>$@.log || { cat $@.log; exit 1; }
	@touch $@
build/lint/build.ninja: CMakeLists.txt $(wildcard cmake/*) $(DEV)
	@cmake --preset release -B build/lint -DCMAKE_BUILD_TYPE=Debug -DALTDIFF_BUILD_TESTS=OFF \
	  -DCMAKE_PREFIX_PATH="$(SITE_PACKAGES)" >/dev/null
	@touch $@
