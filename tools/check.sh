#!/bin/sh
# Everything beside the tests themselves: clang's warnings, ASan+UBSan and TSan runs of the in-process tests, format, lint, floors, fuzzing.
set -eu
cd "$(dirname "$0")/.."
quick='unit|property|golden|fault|integration|sim'
cmake --preset clang >/dev/null && ninja --quiet -C build/clang all
for preset in asan tsan; do
    cmake --preset $preset >/dev/null
    ninja --quiet -C build/$preset all
    ctest --test-dir build/$preset --output-on-failure -L "$quick" -j"$(nproc)"
done
tools/config_docs.py --check
tools/metrics_docs.py --check
ninja --quiet -C build/clang format-check lint layers
FUZZ_RUNS=${FUZZ_RUNS:-20000} tests/fuzz/run.sh "${FUZZ_SECONDS:-5}"
