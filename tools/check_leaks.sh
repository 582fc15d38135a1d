#!/bin/sh
# Runs passes of changing shapes under LeakSanitizer, and fails if a block that the core allocated is lost.
# Python and torch keep blocks of their own until the end: only stacks that go through the core count. An object
# of the core's that Python forgot is not lost, because the binding knows it: `make soak` sees those.
# usage: tools/check_leaks.sh [CALLS]
set -eu
cd "$(dirname "$0")/.."
calls=${1:-300}
report=$(mktemp)
trap 'rm -f "$report"' EXIT
LD_PRELOAD=$(gcc -print-file-name=liblsan.so) PYTHONMALLOC=malloc \
  LSAN_OPTIONS=fast_unwind_on_malloc=0:malloc_context_size=12:exitcode=0:log_path=stderr \
  .venv/bin/python -m benchmarks.soak --calls "$calls" --largest 12 2>"$report" ||
  test $? -eq 1  # so few passes still fill caches, which counts as growth
if ! grep -q "LeakSanitizer: detected\|SUMMARY: LeakSanitizer" "$report"; then
  grep -v "it/s" "$report" | tail -5 >&2
  echo "LeakSanitizer said nothing of the run" >&2
  exit 1
fi
lost=$(awk '/leak of/ {block = $0; next} /_core_(v3|base)/ && block != "" {print block; block = ""}' "$report")
if [ -n "$lost" ]; then
  echo "$lost"
  echo "the core lost these blocks" >&2
  exit 1
fi
echo "$calls passes under LeakSanitizer: no block of the core's is lost"
