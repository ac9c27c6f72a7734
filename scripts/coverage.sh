#!/bin/sh
# Runs the tests with the programs in $1 and $2 processes under branch coverage, served
# processes included, and prints what each folder of the package reached.  Ends with 1 if
# a test fails or a folder is under its bound (coverage_totals.py).  $3...: further options
# of pytest.
#
# Tracing makes the simulation many times slower, so the long runs are left out: the broken
# protocols (they run patched copies of the modules, which nothing can count), all but two
# profiles of the random schedules, and all but two programs of the exhaustive search.  What
# reads the syntax trees only is left out as well: it runs none of the package.
set -u
bin=$1
jobs=$2
shift 2
here=$(dirname "$0")
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
COVERAGE_FILE=$folder/data
export COVERAGE_FILE
: "${GRAVELER_PROGRAMS:=300}"
export GRAVELER_PROGRAMS

schedules=tests/simulation/test_schedules.py::test_nothing_acknowledged_is_lost
exhaustive=tests/simulation/test_exhaustive.py::test_no_schedule_loses_anything
set -- --ignore tests/architecture --ignore tests/simulation/test_mutants.py \
    --ignore tests/simulation/test_exhaustive.py "$@"
for profile in clean crash amb delay aging; do
    set -- --deselect "$schedules[$profile" "$@"
done

"$bin/coverage" run -m pytest -q -n "$jobs" --dist loadgroup "$@"
tests=$?
"$bin/coverage" run -m pytest -q \
    "$exhaustive[w c|w c-2 preemptions]" "$exhaustive[e|e|w c-1 preemption, 1 fault]" || tests=1
"$bin/coverage" combine -q "$folder" || exit 1
"$bin/coverage" json -q -o "$folder/coverage.json" || exit 1
"$bin/coverage" report --skip-covered --show-missing --sort=cover | head -60
"$bin/python" "$here/coverage_totals.py" "$folder/coverage.json"
totals=$?
[ "$tests" -eq 0 ] || echo "tests failed: the totals are of what ran" >&2
[ "$tests" -eq 0 ] && [ "$totals" -eq 0 ]
