#!/bin/sh
# Writes requirements/*.txt from pyproject.toml: every version pinned, with the
# hashes of all files of the release, so that one lock serves every platform.
# Resolved on Python 3.11, the oldest supported version. The pip settings of the machine are
# ignored, so that the lock contains no address of a private index or folder.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
set -eu
python=${PYTHON:-python3.11}
tool=build/lock
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
    echo "make lock: $python is not Python 3.11; set PYTHON= to a Python 3.11" >&2
    exit 1
}
export PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS= PIP_EXTRA_INDEX_URL=
export CUSTOM_COMPILE_COMMAND="make lock"

[ -x "$tool/bin/pip-compile" ] || {
    "$python" -m venv "$tool"
    "$tool/bin/python" -m pip install -q pip-tools==7.6.2
}

# Writes requirements/$1.txt from the sources that the other arguments name.
lock() {
    name=$1
    shift
    "$tool/bin/pip-compile" --quiet --generate-hashes --strip-extras --no-annotate \
        --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
        --unsafe-package graveler ${UPGRADE:+--upgrade} \
        --output-file "requirements/$name.txt" "$@"
    awk '/^# WARNING: The following packages were not pinned/ { exit } NF { print }' \
        "requirements/$name.txt" >"$tool/$name.txt"
    mv "$tool/$name.txt" "requirements/$name.txt"
    echo "wrote requirements/$name.txt"
}

# `dev` names the project's own extras. `--unsafe-package graveler` keeps the project out of the
# lock (and setuptools in); `lock` removes the warning about that at the end of the file.
for name in ${LOCKS:-pip server aws layer gateway dev tools docs clients ui spark3 spark4}; do
    case $name in
    pip | tools | docs | clients | ui) lock "$name" "requirements/$name.in" ;;
    spark*) lock "$name" --extra server --extra aws --extra spark pyproject.toml "requirements/$name.in" ;;
    *) lock "$name" --extra "$name" pyproject.toml ;;
    esac
done
