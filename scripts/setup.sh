#!/bin/sh
# Makes the environment $1 from the lock $2, and checks every file by its hash.
# With a third argument, it also installs the package in that folder in place.
# The stamp $1/.ready is written last, so that an interrupted set-up starts again.  With UNFINISHED=1
# the caller writes it, after what it adds.
# PYTHON= names the Python; NEWEST= the newest version that the lock has wheels for (3.12).
#
# The pip of the environment .venv-pip installs into all of them; it is made first, by the pip that
# Python brings.  That of Python 3.11 takes more than twice the time to search an index.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
set -u
venv=$1
lock=$2
package=${3:-}
installer=.venv-pip
newest=${NEWEST:-3.99}
space_needed_kib=1048576

fail() {
    printf 'make setup: %s\n  remedy: %s\n' "$1" "$2" >&2
    exit 1
}

fits() {
    "$1" -c 'import sys; newest = tuple(map(int, sys.argv[1].split(".")))
sys.exit(not (3, 11) <= sys.version_info[:2] <= newest)' "$newest" 2>/dev/null
}

if [ -n "${PYTHON:-}" ] && { fits "$PYTHON" || [ "$newest" = 3.99 ]; }; then
    fits "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.11 or newer" \
        "set another one, for example: make setup PYTHON=python3.12"
    python=$PYTHON
else
    python=
    for candidate in python3 python3.11 python3.12 python3.13 python3.14; do
        if fits "$candidate"; then
            python=$candidate
            break
        fi
    done
    [ -n "$python" ] || [ "$newest" = 3.99 ] || fail "$venv needs a Python from 3.11 to $newest" \
        "install one (Debian, Ubuntu: apt-get install python3.11 python3.11-venv)"
    [ -n "$python" ] || fail "no Python 3.11 or newer found" \
        "install one (Debian, Ubuntu: apt-get install python3 python3-venv), or set PYTHON="
fi

"$python" -c 'import venv, ensurepip' 2>/dev/null || fail "$python has no venv module" \
    "install it (Debian, Ubuntu: apt-get install python3-venv), or set PYTHON= to another Python"

space_kib=$(df -Pk . | awk 'NR == 2 { print $4 }')
[ "$space_kib" -ge "$space_needed_kib" ] || fail \
    "the disk has $((space_kib / 1024)) MiB free, but the environment needs $((space_needed_kib / 1024)) MiB" \
    "free some space, or move the checkout to another disk"

started=$(date +%s)
if [ -z "${PYTHON:-}" ] && [ "$(cat "$venv/.ready" 2>/dev/null)" = "$(pwd)" ] && fits "$venv/bin/python"; then
    echo "make setup: updating $venv"
else
    echo "make setup: creating $venv with $("$python" --version) (under a minute, once)"
    rm -rf "$venv"
    "$python" -m venv $([ "$venv" = "$installer" ] || echo --without-pip) "$venv" || fail \
        "$python could not create $venv" "see the message above; is this folder writable?"
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
export PYTHONWARNINGS=ignore # what tools of builds advise
pip() {
    "$installer/bin/python" -m pip --python "$venv/bin/python" "$@"
}
# Python compiles a module when it is first imported; most modules never are.  PySpark comes as
# source, and packing its archives into a wheel takes half a minute if they are compressed again.
pip install -q --no-compile --require-hashes --no-deps \
    --config-settings=--build-option=--compression=stored -r requirements/pip.txt -r "$lock" || fail \
    "pip could not install the locked packages" \
    "see the message above; pip needs a package index (behind a proxy, set HTTPS_PROXY)"
if [ -n "$package" ]; then
    pip install -q --no-compile --no-deps --no-build-isolation -e "$package" || fail \
        "pip could not install the package itself" "see the message above; did pyproject.toml change?"
fi

[ -n "${UNFINISHED:-}" ] || pwd >"$venv/.ready"
echo "make setup: $venv is ready after $(($(date +%s) - started)) s"
