#!/bin/sh
# Deploys the template with stock SAM.
#   LOCAL=1         into an engine on this machine, which then serves until it is interrupted
#   STACK=          name of the stack
#   RUNTIME=        Python runtime of the functions
#   ARCHITECTURE=   architecture of the functions
#   LAYER_PYTHON=   an interpreter of the version in RUNTIME
#   ARGS=           parameters of the template (Name=value), listed in docs/reference/configuration.md
#   TAGS=           tags of all resources (KEY=VALUE)
#   ROLE=           ARN of the role that CloudFormation takes
#   BUCKET=         a bucket for the code, instead of one that SAM makes
#   CONFIRM=1       shows the changes and asks before they are made
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
set -eu
python=${1:-.venv-tools/bin/python}
[ -x "$python" ] || {
    echo "deploy: $python is missing; run make setup" >&2
    exit 1
}
set -- --stack "${STACK:-graveler}"
[ -n "${LOCAL:-}" ] && set -- "$@" --local
[ -n "${RUNTIME:-}" ] && set -- "$@" --runtime "$RUNTIME"
[ -n "${ARCHITECTURE:-}" ] && set -- "$@" --architecture "$ARCHITECTURE"
[ -n "${LAYER_PYTHON:-}" ] && set -- "$@" --layer-python "$LAYER_PYTHON"
[ -n "${TAGS:-}" ] && set -- "$@" --tags "$TAGS"
[ -n "${ROLE:-}" ] && set -- "$@" --role "$ROLE"
[ -n "${BUCKET:-}" ] && set -- "$@" --bucket "$BUCKET"
[ -n "${CONFIRM:-}" ] && set -- "$@" --confirm
exec "$python" -m scripts.deploy "$@" # which reads ARGS, because a shell would cut JSON into words
