#!/bin/sh
# Puts the jars of S3A, from the package that the lock $2 names, beside those of the PySpark in the
# environment $1.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
set -u
venv=$1
lock=$2
aws=aws-java-sdk-bundle-1.11.901.jar
hadoop=hadoop-aws-3.3.1.jar

jars=$("$venv/bin/python" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')
[ -f "$jars/$aws" ] && [ -f "$jars/$hadoop" ] && exit 0

fail() {
    rm -rf "$venv/.ready" "$folder" # the environment is incomplete
    printf 'make setup: %s\n  remedy: %s\n' "$1" "$2" >&2
    exit 1
}

started=$(date +%s)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$venv/bin/python" -m pip download -q --require-hashes --no-deps --no-build-isolation \
    -d "$folder" -r "$lock" || fail \
    "pip could not fetch the jars of S3A" \
    "see the message above; pip needs a package index (behind a proxy, set HTTPS_PROXY)"
# The smaller jar last and at once: it marks that both are there.
tar -xzf "$folder"/*.tar.gz -C "$folder" --strip-components=3 \
    "sagemaker_pyspark-1.4.5/deps/jars/$aws" "sagemaker_pyspark-1.4.5/deps/jars/$hadoop" &&
    mv "$folder/$aws" "$jars/$aws.new" && mv "$jars/$aws.new" "$jars/$aws" &&
    mv "$folder/$hadoop" "$jars/$hadoop.new" && mv "$jars/$hadoop.new" "$jars/$hadoop" || fail \
    "could not unpack the jars of S3A" "see the message above; is there space on the disk?"
echo "make setup: S3A is in $venv after $(($(date +%s) - started)) s"
