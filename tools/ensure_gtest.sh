#!/usr/bin/env bash
# Succeeds if GoogleTest can be compiled against; installs Debian's package if it is missing and that is allowed.
set -euo pipefail

has_gtest() {
  echo '#include <gtest/gtest.h>' | "${CXX:-c++}" -std=c++20 -E -x c++ - >/dev/null 2>&1
}

install_gtest() {
  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    sudo -n true 2>/dev/null || return 1
    as_root=(sudo -n)
  fi
  command -v apt-get >/dev/null || return 1
  echo "GoogleTest is missing: installing libgtest-dev ..."
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y libgtest-dev >/dev/null ||
    { "${as_root[@]}" apt-get update -qq &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y libgtest-dev >/dev/null; }
}

has_gtest || { install_gtest && has_gtest; }
