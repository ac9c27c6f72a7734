#!/bin/sh
# Fetches the wheels of the functions' layer, for the Python in $1 and both architectures; and those
# of the runtime that is deployed, for this machine, if an interpreter of it is here.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
set -eu
python=$1
version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
for architecture in x86_64 arm64; do
    "$python" layers/build.py --runtime "$version" --architecture "$architecture" warm || {
        printf 'make setup: could not build the layer for %s\n' "$architecture" >&2
        printf '  remedy: see the message above; the build needs a package index\n' >&2
        exit 1
    }
done

given=$("$python" -c 'from scripts.deploy import *; print(found(RUNTIME), RUNTIME, Target().architecture)')
# shellcheck disable=SC2086 # three words, or two without an interpreter
set -- $given
[ $# != 3 ] || "$1" layers/build.py --runtime "$2" --architecture "$3" warm --pip "$python"
