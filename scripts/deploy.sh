#!/bin/sh
# Deploys the template with stock SAM.
#   LOCAL=1         into an engine on this machine, which then serves until it is interrupted
#   STACK=          name of the stack
#   RUNTIME=        Python runtime of the functions
#   ARCHITECTURE=   architecture of the functions
#   LAYER_PYTHON=   an interpreter of the version in RUNTIME
#   ARGS=           parameters of the template (Name=value), listed in docs/reference/configuration.md
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
set -eu
python=${1:-.venv/bin/python}
[ -x "$python" ] || {
    echo "deploy: $python is missing; run make setup" >&2
    exit 1
}
set -- --stack "${STACK:-graveler}"
[ -n "${LOCAL:-}" ] && set -- "$@" --local
[ -n "${RUNTIME:-}" ] && set -- "$@" --runtime "$RUNTIME"
[ -n "${ARCHITECTURE:-}" ] && set -- "$@" --architecture "$ARCHITECTURE"
[ -n "${LAYER_PYTHON:-}" ] && set -- "$@" --layer-python "$LAYER_PYTHON"
# shellcheck disable=SC2086 # ARGS is a list of words
exec "$python" scripts/deploy.py "$@" ${ARGS:-}
