#!/usr/bin/env bash
# Configures the project with the oldest CMake that is supported; the newest is the one that everything else uses.
set -euo pipefail
cd "$(dirname "$0")/.."

oldest=3.25
venv=build/cmake-$oldest
make --no-print-directory setup
if [[ ! -x $venv/bin/cmake ]]; then
  .venv/bin/python -m venv "$venv"
  "$venv/bin/python" -m pip install -q "cmake==$oldest.*"
fi

site_packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
export PATH=$PWD/$venv/bin:$PWD/.venv/bin:$PATH
with_tests=ON
tools/ensure_gtest.sh || with_tests=OFF
cmake --preset release -B "$venv/build" --fresh -DALTDIFF_BUILD_TESTS=$with_tests \
  -DCMAKE_PREFIX_PATH="$site_packages" >"$venv/log" 2>&1 || { cat "$venv/log" && exit 1; }
echo "The project configures with $(cmake --version | head -n 1)."
