"""The release step against AWS: what of it can be tried without AWS.

The script itself never runs here; its commands are read in its dry run, and what it does with a
deployed stack is done with the one of these tests.
"""

import os
import subprocess

import pytest

from scripts import deploy, real_aws
from scripts.deploy import ROOT, Target
from tests.aws.deployment.conftest import TARGET, Stack

pytestmark = pytest.mark.xdist_group("stack")
SCRIPT = ROOT / "scripts" / "real_aws.sh"


def dry_run(**variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    return subprocess.run(
        ["sh", str(SCRIPT)],
        env={**environment, "DRY_RUN": "1", "STACK": "released", **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_runs_all_and_removes_all() -> None:
    subprocess.run(["sh", "-n", str(SCRIPT)], check=True)
    ran = dry_run()
    assert ran.returncode == 0, ran.stderr
    commands = [line for line in ran.stdout.splitlines() if line.startswith("+ ")]
    assert "GRAVELER_REAL_AWS=1" in commands[0] and "-k OnAws" in commands[0]
    assert "scripts/deploy.sh" in commands[1] and "STACK=released" in commands[1]
    assert commands[2].endswith("scripts.real_aws story released")
    assert "sam delete --stack-name released --no-prompts" in commands[3]
    assert commands[4].endswith("scripts.real_aws remove released") and len(commands) == 5
    assert "delete-stack --stack-name aws-sam-cli-managed-default" in ran.stdout  # kept, and told


def test_it_does_not_take_an_engine_for_aws() -> None:
    ran = dry_run(AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert ran.returncode == 1 and "AWS_ENDPOINT_URL" in ran.stderr


def test_its_story_holds(stack: Stack) -> None:
    real_aws.story(TARGET.stack, stack.engine)


def test_what_a_stack_keeps_is_removed(stack: Stack) -> None:
    """Of another stack, whose parts are made by hand; twice, as after a failure."""
    name = "kept"
    account = stack.aws("sts").get_caller_identity()["Account"]
    bucket = f"{name}-data-{account}-us-east-1"
    objects = stack.aws("s3")
    objects.create_bucket(Bucket=bucket)
    objects.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"one", b"two"):
        objects.put_object(Bucket=bucket, Key="key", Body=body)
    objects.delete_object(Bucket=bucket, Key="key")
    stack.aws("secretsmanager").create_secret(Name=name, SecretString="x")
    for _ in range(2):
        real_aws.remove(name, stack.engine)
    assert bucket not in [each["Name"] for each in objects.list_buckets()["Buckets"]]
    assert name not in [e["Name"] for e in stack.aws("secretsmanager").list_secrets()["SecretList"]]


def test_only_the_remains_of_a_creation_are_cleared(stack: Stack) -> None:
    assert not deploy.clear_failed(TARGET.stack, stack.engine)
    assert not deploy.clear_failed("no-such-stack", stack.engine)
    assert Target().declared in deploy.RUNTIMES
