#!/usr/bin/env bash
# Installs a build tree into a folder of its own, then configures, builds and runs the consumer against it.
#   run.sh BUILD_DIR SOURCE_DIR CMAKE PREFIX_PATH
set -euo pipefail

build_dir=$1
source_dir=$2
cmake=$3
prefix_path=$4

# The consumer is built by the same compiler as the library; a sanitizer comes with the target.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build_dir/CMakeCache.txt"; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$cmake" --install "$build_dir" --prefix "$scratch/prefix" >"$scratch/install.log"
"$cmake" -S "$source_dir" -B "$scratch/build" -G "$(cached CMAKE_GENERATOR)" \
  -DCMAKE_MAKE_PROGRAM="$(cached CMAKE_MAKE_PROGRAM)" \
  -DCMAKE_CXX_COMPILER="$(cached CMAKE_CXX_COMPILER)" \
  -DCMAKE_BUILD_TYPE="$(cached CMAKE_BUILD_TYPE)" \
  -DCMAKE_PREFIX_PATH="$scratch/prefix;$prefix_path"
"$cmake" --build "$scratch/build"
"$scratch/build/consumer"
