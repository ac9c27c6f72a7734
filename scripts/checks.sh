#!/bin/sh
# Runs the groups of checks named by $3..., with the programs in folder $1 and $2 test
# processes. Stops at the first failure, and prints the failed check and its remedy.
set -u
bin=$1
jobs=$2
shift 2

check() {
    name=$1
    remedy=$2
    shift 2
    printf '== %s\n' "$name"
    "$@" || {
        printf '\n%s failed.\n  remedy: %s\n' "$name" "$remedy" >&2
        exit 1
    }
}

# All tests except the tests on Spark.
tests() {
    check "tests (pytest, $jobs processes)" \
        "run one alone with: $bin/python -m pytest tests/FILE.py -k NAME" \
        "$bin/python" -m pytest -q -n "$jobs" --dist loadgroup --ignore tests/spark
}

# The unit tests: no drivers and no processes, for a run after every edit.
units() {
    folders=$("$bin/python" -m tests.units) && [ -n "$folders" ] || {
        echo "python -m tests.units names no folder; its message is above" >&2
        exit 1
    }
    check "units (pytest, $jobs processes)" \
        "run one alone with: $bin/python -m pytest tests/FILE.py -k NAME" \
        "$bin/python" -m pytest -q -n "$jobs" --dist worksteal -m "not slow" \
        $folders
}

types() {
    "$bin/mypy" --strict graveler simulator benchmarks
}

site() {
    check "site (sphinx, strict)" "the messages above name file and line" \
        .venv-docs/bin/sphinx-build -q -n -W --keep-going -d "${SITE:-build/site}/.doctrees" \
        docs "${SITE:-build/site}"
}

# Starts the tests on both versions of PySpark; their output goes into files.  The priorities let
# them end with the tests beside them, the older version first, which runs fewer.
start_spark() {
    output=$(mktemp -d)
    nice -n 5 .venv-spark3/bin/python -m pytest -q tests/spark >"$output/3" 2>&1 &
    spark3=$!
    nice -n 3 .venv-spark4/bin/python -m pytest -q tests/spark >"$output/4" 2>&1 &
    spark4=$!
    trap stop_spark EXIT
    trap 'exit 130' HUP INT TERM
}

# Stops both after another check has failed, and prints how far they came.
stop_spark() {
    kill "$spark3" "$spark4" 2>/dev/null
    wait "$spark3" "$spark4" 2>/dev/null
    tail -n 3 "$output/3" "$output/4"
    rm -rf "$output"
}

# Waits for both, and prints their output.
finish_spark() {
    remedy="run one alone with: .venv-spark4/bin/python -m pytest tests/spark -k NAME"
    check "tests on PySpark 4" "$remedy" wait_for "$spark4" "$output/4"
    check "tests on PySpark 3" "$(echo "$remedy" | sed s/spark4/spark3/)" wait_for "$spark3" "$output/3"
    trap - EXIT HUP INT TERM
    rm -rf "$output"
}

# Waits for process $1 and prints its output from file $2.
wait_for() {
    wait "$1"
    code=$?
    cat "$2"
    return $code
}

for group in "$@"; do
    case $group in
    lint)
        check "style (ruff check)" "run $bin/ruff check --fix . (it repairs some of them)" \
            "$bin/ruff" check -q .
        check "format (ruff format)" "run $bin/ruff format ." \
            "$bin/ruff" format -q --check .
        ;;
    types)
        check "types (mypy --strict)" "the messages above name file and line" \
            types
        ;;
    site)
        site
        ;;
    units)
        units
        ;;
    quick) # mypy uses one core at a time, so the units run beside it
        output=$(mktemp)
        trap 'rm -f "$output"' EXIT
        types >"$output" 2>&1 &
        typed=$!
        units
        check "types (mypy --strict)" "the messages above name file and line" \
            wait_for "$typed" "$output"
        ;;
    tests)
        tests
        ;;
    spark)
        start_spark
        finish_spark
        ;;
    all) # the tests on Spark run beside the site and the other tests
        start_spark
        site
        tests
        finish_spark
        ;;
    *)
        echo "unknown group of checks: $group" >&2
        exit 2
        ;;
    esac
done
echo "== passed: $*"
