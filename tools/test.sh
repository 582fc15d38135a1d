#!/usr/bin/env bash
# Runs all tests and prints the wall time of each part, also when one fails. Called by `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."

make=${MAKE:-make}
times=()
left_out=""
failed=0

timed() {
  local name=$1 start=$SECONDS result="" status=0
  shift
  echo "== $name"
  "$@" || status=$?
  ((status == 0)) || result="FAILED"
  times+=("$(printf '%-28s %5d s  %s' "$name" $((SECONDS - start)) "$result")")
  return "$status"
}

warn_left_out() {
  [[ -n $left_out ]] || return 0
  printf '\n%s\n' "************************************************************************"
  printf '**  LEFT OUT: %s\n' "$left_out"
  printf '%s\n\n' "************************************************************************"
}

summary() {
  printf '\nWall times\n'
  printf '  %s\n' "${times[@]}" "$(printf '%-28s %5d s' "in all" "$SECONDS")"
  warn_left_out
}
trap summary EXIT

if ! tools/ensure_gtest.sh; then
  left_out="the C++ tests. GoogleTest is missing and may not be installed here; try: apt-get install libgtest-dev"
  warn_left_out
fi

if ! tools/ensure_chromium.sh; then
  echo "No browser, and it may not be installed here: the test that looks at the report will fail." >&2
  echo "Try: apt-get install chromium" >&2
fi

timed "set-up" "$make" setup
timed "Python package" "$make" package
if [[ -z $left_out ]]; then
  timed "C++ build, with sanitizers" "$make" test-cpp-build
  timed "C++ tests" "$make" test-cpp || failed=1
fi
timed "Python tests" "$make" test-python || failed=1
[[ $failed -eq 0 ]]
