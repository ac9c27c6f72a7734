#!/bin/sh
# Runs the groups of checks named by $3..., with the programs in folder $1 and $2 test
# processes. Stops at the first failure, and prints the failed check and its remedy.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
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

# All tests except the tests on Spark, which run beside them.  Each process collects all tests and
# starts engines of its own, so there are not more of them than cores.  A process that dies ends
# the run once the others have run the modules that they have: pytest-xdist can replace it, but
# waits forever for one that comes when the others have ended.
tests() {
    check "tests (pytest, $jobs processes)" \
        "run one alone with: $bin/python -m pytest tests/FILE.py -k NAME" \
        "$bin/python" -m pytest -q -n "$jobs" --dist loadgroup --max-worker-restart 0 \
        --ignore tests/spark
}

# The unit tests: no drivers and no processes, for a run after every edit.
units() {
    folders=$("$bin/python" -m tests.units) && [ -n "$folders" ] || {
        echo "python -m tests.units names no folder; its message is above" >&2
        exit 1
    }
    check "units (pytest, $jobs processes)" \
        "run one alone with: $bin/python -m pytest tests/FILE.py -k NAME" \
        "$bin/python" -m pytest -q -n "$jobs" --dist worksteal --max-worker-restart 0 \
        -m "not slow" $folders
}

# Imports all tests.  That leaves bytecode on disk, of the tests and of what they import: the test
# processes, which start together, would each compile all of it.
collect() {
    "$bin/python" -m pytest --collect-only -q --ignore tests/spark >"$output/collected" 2>&1 || {
        cat "$output/collected"
        return 1
    }
}

collection() {
    check "collection (pytest)" "the messages above name file and line" collect
}

types() {
    "$bin/mypy" --strict graveler simulator benchmarks tests/lake/every_verb.py
}

strict() {
    check "types (mypy --strict)" "the messages above name file and line" types
}

# Runs the checks $1 while mypy runs, which uses one core at a time.
beside_types() {
    types >"$output/types" 2>&1 &
    typed=$!
    "$1"
    check "types (mypy --strict)" "the messages above name file and line" \
        wait_for "$typed" "$output/types"
    typed=
}

style() {
    check "style (ruff check)" "run $bin/ruff check --fix . (it repairs some of them)" \
        "$bin/ruff" check -q .
    check "format (ruff format)" "run $bin/ruff format ." \
        "$bin/ruff" format -q --check .
}

page() {
    check "page (tsc, biome)" "the messages above name file and line; in ui/: npm run format" \
        sh scripts/page.sh check "$bin/python"
    check "types of a user's script (pyright)" "the messages above name file and line" \
        sh scripts/page.sh pyright "$bin/python"
}

site() {
    check "site (sphinx, strict)" "the messages above name file and line" \
        .venv-docs/bin/sphinx-build -q -n -W --keep-going -d "${SITE:-build/site}/.doctrees" \
        docs "${SITE:-build/site}"
}

# Each starts the tests on one version of PySpark; their output goes into a file.  Their low priority
# makes them take what the checks beside them leave, which often wait for engines and processes: so
# no core is idle before all have ended.  The older version runs fewer, so it gets less.
# The newer one is to end before the tests beside it: alone it is one process, and a core is idle.
start_spark3() {
    nice -n 13 .venv-spark3/bin/python -m pytest -q tests/spark >"$output/3" 2>&1 &
    spark3=$!
}

start_spark4() {
    nice -n 8 .venv-spark4/bin/python -m pytest -q tests/spark >"$output/4" 2>&1 &
    spark4=$!
}

# Stops the tests on PySpark $1, whose process is $2, and prints how far they came.
stop_spark() {
    [ -n "$2" ] || return 0
    kill "$2" 2>/dev/null
    wait "$2" 2>/dev/null
    printf '== tests on PySpark %s, stopped\n' "$1"
    tail -n 60 "$output/$1"
}

# Stops what still runs if a check has failed, and removes what is left.
tidy() {
    stop_spark 4 "$spark4"
    stop_spark 3 "$spark3"
    [ -z "$typed" ] || kill "$typed" 2>/dev/null
    rm -rf "$output" ${memory:+"$memory"}
}

# Waits for both, and prints their output.
finish_spark() {
    remedy="run one alone with: .venv-spark4/bin/python -m pytest tests/spark -k NAME"
    check "tests on PySpark 4" "$remedy" wait_for "$spark4" "$output/4"
    spark4=
    check "tests on PySpark 3" "$(echo "$remedy" | sed s/spark4/spark3/)" wait_for "$spark3" "$output/3"
    spark3=
}

# Waits for process $1 and prints its output from file $2.
wait_for() {
    wait "$1"
    code=$?
    cat "$2"
    return $code
}

# Puts temporary files into memory where there is plenty: half of the time of a test of files is
# waiting for the disk.  The files of a whole run take 3 GiB at most, and all its processes with
# them 10 GiB.  Where memory is scarce, where nothing there may be run, or where TMPDIR names a
# folder, everything stays as it is.
use_memory() {
    [ -z "${TMPDIR:-}" ] && [ -d /dev/shm ] || return
    free_kib=$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')
    left_kib=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null)
    [ "${free_kib:-0}" -ge 4194304 ] && [ "${left_kib:-0}" -ge 12582912 ] || return
    for limit in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
        bound=$(cat "$limit" 2>/dev/null)
        case $bound in
        '' | max) ;;
        *) [ "$bound" -ge 15032385536 ] || return ;; # what this container may use, in bytes
        esac
    done
    memory=$(mktemp -d /dev/shm/graveler.XXXXXX 2>/dev/null) || return
    printf '#!/bin/sh\n' >"$memory/runs" && chmod +x "$memory/runs" && "$memory/runs" 2>/dev/null && rm "$memory/runs" || return
    chmod 711 "$memory" # some tests look at their files as another user
    export TMPDIR="$memory"
}

# Installs the browser of the tests before they begin: it takes longer than a test may.
browser() {
    check "browser (Chromium)" "the message above says what to install" \
        sh scripts/page.sh browser "$bin/python"
}

# Makes what the target $1 of the Makefile needs.
made() {
    "${MAKE:-make}" --no-print-directory "$1" || exit
}

spark3=
spark4=
typed=
memory=
output=$(mktemp -d)
trap tidy EXIT
trap 'exit 130' HUP INT TERM
use_memory

for group in "$@"; do
    case $group in
    lint)
        style
        ;;
    types)
        strict
        ;;
    site)
        site
        ;;
    units)
        units
        ;;
    page)
        page
        ;;
    quick)
        beside_types units
        ;;
    static)
        beside_types collection
        ;;
    tests)
        tests
        ;;
    spark)
        start_spark4
        start_spark3
        finish_spark
        ;;
    all) # the tests on Spark run beside all else
        made first
        start_spark4
        made rest
        start_spark3
        browser
        page
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
