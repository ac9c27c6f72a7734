"""The stack where permissions are enforced: the story still runs, and what nobody needs is denied.

A probe takes the role of each function in turn and tries what the function never does.
"""

import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakefs
import pytest
import yaml
from lakefs.client import Client

from scripts import deploy
from scripts.deploy import OURS
from tests.aws.deployment.conftest import Stack, deployed

pytestmark = pytest.mark.xdist_group("stack")

PROBE = """
import boto3

def attempt(call, **arguments):
    try:
        call(**arguments)
    except Exception as error:
        return getattr(error, "response", {}).get("Error", {}).get("Code", repr(error))
    return "allowed"

def handle(event, context):
    table, objects = boto3.client("dynamodb"), boto3.client("s3")
    queues, secrets = boto3.client("sqs"), boto3.client("secretsmanager")
    functions = boto3.client("lambda")
    name, bucket, key = event["table"], event["bucket"], {"p": {"B": b"x"}, "s": {"B": b"y"}}
    return {
        "get item": attempt(table.get_item, TableName=name, Key=key),
        "scan": attempt(table.scan, TableName=name),
        "drop table": attempt(table.delete_table, TableName=name),
        "put object": attempt(objects.put_object, Bucket=bucket, Key="probe", Body=b"x"),
        "delete object": attempt(objects.delete_object, Bucket=bucket, Key=event["object"]),
        "delete table": attempt(objects.delete_object, Bucket=bucket, Key="lake/_lakefs/table"),
        "delete step": attempt(objects.delete_object, Bucket=bucket, Key=event["step"]),
        "delete list": attempt(objects.delete_object, Bucket=bucket, Key="lake/_graveler/gc/x"),
        "delete other object": attempt(objects.delete_object, Bucket=bucket, Key="lake/data/x"),
        "delete what arrived": attempt(objects.delete_object, Bucket=bucket, Key="probe"),
        "other bucket": attempt(objects.get_object, Bucket="another", Key="x"),
        "read secret": attempt(secrets.get_secret_value, SecretId=name),
        "invoke": attempt(functions.invoke, FunctionName=name + "-janitor", Payload=b"{}"),
        "send hook": attempt(functions.invoke, FunctionName=name + "-hooks", Payload=b"{}"),
        "send event": attempt(queues.send_message, QueueUrl=event["events"], MessageBody="{}"),
    }
"""
NEVER = (
    "invoke",
    "scan",
    "drop table",
    "other bucket",
    "send event",
    "delete other object",
    "delete what arrived",
)
OBJECT = f"lake/data/{'0' * 20}/{'1' * 20}"
STEP = "lake/_graveler/steps/gc-1/uses-00000.json.gz"
MAY_PUT = {"api", "events", "worker"}
MAY_DELETE = {"worker"}
MAY_SEND = {"api", "worker"}


@pytest.fixture(scope="module")
def strict(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Deployed with permissions on; but over plain HTTP, which the bucket's policy would deny: its
    other statements are in force."""
    folder = tmp_path_factory.mktemp("strict")
    shutil.copytree(built.parent, folder / "build")
    template = folder / "build" / "template.yaml"
    described = yaml.safe_load(template.read_text())
    document = described["Resources"]["DataOverTlsOnly"]["Properties"]["PolicyDocument"]
    assert document["Statement"].pop(0)["Sid"] == "TlsOnly"
    template.write_text(yaml.safe_dump(described))
    with deploy.engine(folder / "log", {"AUTH": "true"}) as url:
        deploy.client("s3", url).create_bucket(Bucket="another")
        yield deployed(template, url)


def probed(stack: Stack, function: str) -> dict[str, str]:
    """What happens to each attempt under the role of `function`."""
    functions: Any = stack.aws("lambda")
    role = functions.get_function_configuration(FunctionName=f"lake-{function}")["Role"]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as code:
        code.writestr("probe.py", PROBE)
    functions.create_function(
        FunctionName=f"probe-{function}",
        Runtime=OURS,
        Role=role,
        Handler="probe.handle",
        Code={"ZipFile": archive.getvalue()},
        Timeout=60,
    )
    queue = stack.told["EventsQueueUrl"]
    names = {"table": "lake", "bucket": stack.told["Bucket"], "events": queue, "object": OBJECT}
    names["step"] = STEP
    answer = functions.invoke(FunctionName=f"probe-{function}", Payload=json.dumps(names))
    found: dict[str, str] = json.loads(answer["Payload"].read())
    return found


def test_the_story_needs_no_more_than_is_granted(strict: Stack) -> None:
    client = Client(
        host=strict.url, username=strict.access_key_id, password=strict.secret_access_key
    )
    repo = lakefs.Repository("lake", client=client).create(f"{strict.namespace}/lake")
    main = repo.branch("main")
    main.object("by function").upload(data=b"x", pre_sign=False)
    main.object("by url").upload(data=b"y" * 100_000, pre_sign=True)
    main.commit("both")
    assert main.object("by url").reader(mode="rb", pre_sign=True).read() == b"y" * 100_000
    main.object("by url").delete()
    main.commit("one")
    assert [each.path for each in main.objects()] == ["by function"]


@pytest.mark.parametrize("function", ["api", "events", "worker", "janitor"])
def test_what_nobody_needs_is_denied(strict: Stack, function: str) -> None:
    found = probed(strict, function)
    for name in NEVER:
        assert "Denied" in found[name], found
    assert found["get item"] == found["read secret"] == "allowed"
    assert (found["put object"] == "allowed") is (function in MAY_PUT), found
    for name in ("delete object", "delete table", "delete step", "delete list"):
        assert (found[name] == "allowed") is (function in MAY_DELETE), found
    assert (found["send hook"] == "allowed") is (function in MAY_SEND), found


def test_the_function_of_hooks_may_nothing(strict: Stack) -> None:
    found = probed(strict, "hooks")
    assert len(found) > 12 and all("Denied" in said for said in found.values()), found
