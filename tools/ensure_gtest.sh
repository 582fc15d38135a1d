#!/usr/bin/env bash
# Succeeds if GoogleTest can be compiled against; installs Debian's package if it is missing and that is allowed.
set -euo pipefail

has_gtest() {
  echo '#include <gtest/gtest.h>' | "${CXX:-c++}" -std=c++20 -E -x c++ - >/dev/null 2>&1
}

has_gtest || { "$(dirname "$0")/install_debian.sh" GoogleTest libgtest-dev && has_gtest; }
