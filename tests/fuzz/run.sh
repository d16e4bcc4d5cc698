#!/bin/sh
# run.sh SECONDS_EACH [TARGET...] - builds the fuzz targets and runs each for some seconds, from the
# committed corpus. New inputs go to build/fuzz/corpus/<target>; a crash is left in
# build/fuzz/crash-<target>-* and ends the script with 1.
# With FUZZ_RUNS=N: at most N inputs each, from a fixed seed, and nothing kept from runs before.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:?usage: run.sh SECONDS_EACH [TARGET...]}
shift
build=${BARNABAS_FUZZ_BUILD:-build/fuzz}
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang \
    -DBARNABAS_FUZZ=ON >/dev/null
targets=${*:-$(cd tests/fuzz && ls ./*_fuzz.c | sed 's|^\./||; s|_fuzz\.c$||')}
for t in $targets; do
    ninja -C "$build" "fuzz_$t" >"$build/build.log" 2>&1 || { cat "$build/build.log"; exit 1; }
done
failed=0
for t in $targets; do
    echo "fuzz $t: $seconds s${FUZZ_RUNS:+, at most $FUZZ_RUNS inputs}"
    if [ -n "${FUZZ_RUNS:-}" ]; then
        # In the order of their names: that of a directory is no order.
        find "tests/fuzz/corpus/$t" -type f | LC_ALL=C sort | paste -sd, | tr -d '\n' >"$build/inputs-$t"
        set -- -seed=1 -runs="$FUZZ_RUNS" -seed_inputs="@$build/inputs-$t"
    else
        mkdir -p "$build/corpus/$t"
        set -- "$build/corpus/$t" "tests/fuzz/corpus/$t"
    fi
    if ! "$build/tests/fuzz/fuzz_$t" -max_total_time="$seconds" -max_len=8192 -timeout=10 \
        -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$build/crash-$t-" \
        "$@" >"$build/fuzz-$t.log" 2>&1; then
        tail -40 "$build/fuzz-$t.log"
        failed=1
    fi
    grep -E "stat::number_of_executed_units|stat::peak_rss_mb" "$build/fuzz-$t.log" || true
done
exit $failed
