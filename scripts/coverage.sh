#!/bin/sh
# Runs the tests with the programs in $1 and $2 processes under branch coverage, served
# processes included, and prints what each folder of the package reached.  Ends with 1 if
# a test fails or a folder is under its bound (coverage_totals.py).  $3...: further options
# of pytest.
#
# Tracing makes everything many times slower, so what runs long is left out: most of the
# random schedules and programs and of the exhaustive search, the broken protocols and
# recipes (they run patched copies of the modules, which nothing can count), the replayed
# history (it repeats what the tests of the verbs do), the stack in a local engine (its
# functions run in interpreters of the engine's own) and what reads the syntax trees only.
# At the end everything runs at once for a moment, as in the soak, whose tracks no test runs.
set -u
bin=$1
jobs=$2
shift 2
here=$(dirname "$0")
folder=build/coverage # stays, so that more can be asked of what took long to measure
rm -rf "$folder"
mkdir -p "$folder" || exit 1
folder=$(cd "$folder" && pwd)
COVERAGE_FILE=$folder/data
export COVERAGE_FILE
: "${GRAVELER_PROGRAMS:=200}" "${GRAVELER_SCHEDULES:=50}"
export GRAVELER_PROGRAMS GRAVELER_SCHEDULES

"$bin/coverage" run -m pytest -q -n "$jobs" --dist loadgroup \
    --ignore tests/architecture --ignore tests/replay --ignore tests/spark \
    --ignore tests/aws/deployment \
    --ignore tests/simulation/test_mutants.py --ignore tests/simulation/test_exhaustive.py \
    --deselect tests/simulation/test_gc.py::test_a_broken_recipe_is_caught "$@"
tests=$?
search=tests/simulation/test_exhaustive.py::test_no_schedule_loses_anything
"$bin/coverage" run -m pytest -q \
    "$search[w|c|m-2 preemptions]" "$search[n|w c-1 preemption, 1 fault]" || tests=1
# What it says of memory and latency is not judged here: tracing changes both.
"$bin/coverage" run -m simulator.soak.run --minutes "${MINUTES:-0.3}" --cores 1 \
    >"$folder/soak.log" 2>&1 || tail -n 5 "$folder/soak.log" >&2
"$bin/coverage" combine -q "$folder" || exit 1
"$bin/coverage" json -q -o "$folder/coverage.json" || exit 1
"$bin/coverage" report --skip-covered --show-missing --sort=cover >"$folder/report.txt" || exit 1
head -n 60 "$folder/report.txt"
"$bin/python" "$here/coverage_totals.py" "$folder/coverage.json"
totals=$?
[ "$tests" -eq 0 ] || echo "tests failed: the totals are of what ran" >&2
[ "$tests" -eq 0 ] && [ "$totals" -eq 0 ]
