#!/bin/sh
# Runs the named groups of checks ($3...) with the programs in $1 and $2 test
# processes. Stops at the first that fails, and says which and what to do.
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

for group in "$@"; do
    case $group in
    lint)
        check "style (ruff check)" "$bin/ruff check --fix . repairs what can be repaired by itself" \
            "$bin/ruff" check -q .
        check "format (ruff format)" "$bin/ruff format ." \
            "$bin/ruff" format -q --check .
        ;;
    types)
        check "types (mypy --strict graveler)" "the messages above name file and line" \
            "$bin/mypy" --strict graveler
        ;;
    tests)
        check "tests (pytest, $jobs processes)" \
            "run one alone with: $bin/python -m pytest tests/FILE.py -k NAME" \
            "$bin/python" -m pytest -q -n "$jobs" --dist loadgroup --ignore tests/spark
        ;;
    spark) # one session a process, and a session uses two cores: one version after the other
        for version in 3 4; do
            check "tests on PySpark $version" \
                "run one alone with: .venv-spark$version/bin/python -m pytest tests/spark -k NAME" \
                ".venv-spark$version/bin/python" -m pytest -q tests/spark
        done
        ;;
    *)
        echo "unknown group of checks: $group" >&2
        exit 2
        ;;
    esac
done
echo "== all passed"
