#!/bin/sh
# Measures branch coverage: runs the tests with the programs in folder $1 and $2 processes,
# and prints the coverage of each folder of the package.  Processes that the tests start are
# measured too.  Exits with 1 if a test fails or a folder is below its minimum
# (coverage_totals.py).  $3...: more options of pytest.
#
# Tracing makes everything many times slower, so these long tests are left out:
#   - most of the random schedules and programs, and of the exhaustive search
#   - broken protocols and recipes: they run patched copies of modules, which cannot be counted
#   - the replayed history: it repeats the tests of the verbs
#   - the stack in a local engine: its functions run in the engine's own interpreters
#   - tests that only read syntax trees
# At the end the soak runs for a short time, because no test runs its tracks.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
set -u
bin=$1
jobs=$2
shift 2
here=$(dirname "$0")
folder=build/coverage # kept, so that further reports need no new measurement
rm -rf "$folder"
mkdir -p "$folder" || exit 1
folder=$(cd "$folder" && pwd)
COVERAGE_FILE=$folder/data
export COVERAGE_FILE
: "${GRAVELER_PROGRAMS:=200}" "${GRAVELER_SCHEDULES:=50}"
export GRAVELER_PROGRAMS GRAVELER_SCHEDULES

# Only the simulator has greenlets.  Its tests run apart, because coverage asks each traced thread
# for its greenlet where it knows of them.  Such a thread leaves the interpreter a call to make when
# it ends, and CPython 3.11 can hang in that call while it traces.
simulated="tests/simulation tests/fuzz/test_kept_seeds.py tests/fuzz/test_soak.py"
simulated="$simulated tests/fuzz/test_soak_ended.py"
apart=
for each in $simulated; do apart="$apart --ignore $each"; done
# shellcheck disable=SC2086  # lists of words
"$bin/coverage" run --concurrency=thread -m pytest -q -n "$jobs" --dist loadgroup \
    --max-worker-restart 0 \
    --ignore tests/architecture --ignore tests/replay --ignore tests/spark \
    --ignore tests/aws/deployment $apart "$@"
tests=$?
# shellcheck disable=SC2086
"$bin/coverage" run -m pytest -q -n "$jobs" --dist loadgroup \
    --max-worker-restart 0 $simulated \
    --ignore tests/simulation/test_faults.py --ignore tests/simulation/test_exhaustive.py \
    "$@" || tests=1
search=tests/simulation/test_exhaustive.py::test_no_schedule_loses_anything
"$bin/coverage" run -m pytest -q \
    "$search[w|c|m-2 preemptions]" "$search[n|w c-1 preemption, 1 fault]" || tests=1
# The soak's figures of memory and latency are ignored here, because tracing changes both.
"$bin/coverage" run -m simulator.soak.run --minutes "${MINUTES:-0.3}" --cores 1 \
    >"$folder/soak.log" 2>&1 || tail -n 5 "$folder/soak.log" >&2
"$bin/coverage" combine -q "$folder" || exit 1
"$bin/coverage" json -q -o "$folder/coverage.json" || exit 1
"$bin/coverage" report --skip-covered --show-missing --sort=cover >"$folder/report.txt" || exit 1
head -n 60 "$folder/report.txt"
"$bin/python" "$here/coverage_totals.py" "$folder/coverage.json"
totals=$?
[ "$tests" -eq 0 ] || echo "tests failed: the totals count only the code that ran" >&2
[ "$tests" -eq 0 ] && [ "$totals" -eq 0 ]
