#!/bin/sh
# The release step that needs an AWS account. It runs the contract suites, one multipart upload,
# the deployment and its story against AWS itself. At the end, also after a failure, it removes
# everything that it created. Only the bucket that SAM keeps for all deployments of an account and
# region stays (stack aws-sam-cli-managed-default), because others may use it. The step costs some
# cents and takes about a quarter of an hour.
#
#   AWS_PROFILE=… AWS_DEFAULT_REGION=… scripts/real_aws.sh
#   DRY_RUN=1 scripts/real_aws.sh        prints the commands and runs none
#
# RUNTIME=, ARCHITECTURE= and LAYER_PYTHON= as in scripts/deploy.sh.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
tools=${GRAVELER_TOOLS:-.venv-tools/bin}
stack=${STACK:-graveler-release-$(date +%H%M%S)}

run() {
    echo "+ $*"
    [ -n "${DRY_RUN:-}" ] || "$@"
}

[ -x "$python" ] || { echo "real_aws: $python is missing; run make setup" >&2; exit 1; }
if [ -n "${AWS_ENDPOINT_URL:-}" ]; then
    echo "real_aws: AWS_ENDPOINT_URL is set, but this step needs AWS itself; unset it" >&2
    exit 1
fi

deployed=
remove() {
    status=$?
    trap - EXIT INT TERM
    if [ -n "$deployed" ]; then
        run "$tools/sam" delete --stack-name "$stack" --no-prompts || status=1
        run "$python" -m scripts.real_aws remove "$stack" || status=1
    fi
    if [ -n "$deployed" ]; then
        echo "real_aws: SAM's own bucket stays, because all deployments of this account and region"
        echo "real_aws: share it; if no other deployment uses it, empty it and delete its stack:"
        echo "real_aws: aws cloudformation delete-stack --stack-name aws-sam-cli-managed-default"
    fi
    [ "$status" = 0 ] && echo "real_aws: all passed; everything else is removed"
    exit "$status"
}
trap remove EXIT
trap 'exit 130' INT TERM

run env GRAVELER_REAL_AWS=1 "$python" -m pytest -q -k OnAws \
    tests/aws/test_dynamodb.py tests/aws/test_s3.py
deployed=yes
run env STACK="$stack" sh scripts/deploy.sh "$python"
run "$python" -m scripts.real_aws story "$stack"
