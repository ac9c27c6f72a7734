"""What outlives a stack, and how a later stack takes it over: docs/how-to/back-up.md.

The engine gets the stores of the template alone, so that no function is built.
"""

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any, NamedTuple

import boto3
import pytest

from graveler.core.aws import AwsSession
from graveler.kv.dynamodb import DynamoStore
from scripts.deploy import LOCAL_CREDENTIALS, ROOT
from tests.aws.deployment.templates import loaded

KEPT = {"Table", "Data", "Secret", "ApiLog"}
LEFT = {"DataBucket": "existing", "StoreSecret": "existing", "ApiLogGroup": "existing"}
PAGE = ROOT / "docs" / "how-to" / "back-up.md"
_AWS = """
import shlex, sys
from awscli.clidriver import create_clidriver
for line in sys.stdin:
    if code := create_clidriver().main(shlex.split(line)[1:]):
        sys.exit(code)
"""


def _long(value: Any) -> Any:
    """The long form of the functions of a template."""
    if isinstance(value, list):
        return [_long(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key if key[0] != "!" else key[1:] if key in ("!Ref", "!Condition") else f"Fn::{key[1:]}": (
            _long(inner)
        )
        for key, inner in value.items()
    }


class Account(NamedTuple):
    """An engine, and one stack's name."""

    engine: str
    name: str

    def aws(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.engine,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    def deploy(self, verb: str = "create", **parameters: str) -> str:
        """The state of the stack after it was created or updated."""
        whole = loaded(ROOT / "template.yaml")
        template = {
            "Parameters": whole["Parameters"],
            "Conditions": whole["Conditions"],
            "Resources": {name: whole["Resources"][name] for name in sorted(KEPT)},
        }
        stacks = self.aws("cloudformation")
        getattr(stacks, f"{verb}_stack")(
            StackName=self.name,
            TemplateBody=json.dumps(_long(template), default=str),
            Parameters=[
                {"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()
            ],
        )
        stacks.get_waiter(f"stack_{verb}_complete").wait(
            StackName=self.name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
        (stack,) = stacks.describe_stacks(StackName=self.name)["Stacks"]
        return str(stack["StackStatus"])

    def delete(self) -> None:
        stacks = self.aws("cloudformation")
        stacks.delete_stack(StackName=self.name)
        stacks.get_waiter("stack_delete_complete").wait(
            StackName=self.name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )

    def resources(self) -> set[str]:
        found = self.aws("cloudformation").list_stack_resources(StackName=self.name)
        return {each["LogicalResourceId"] for each in found["StackResourceSummaries"]}

    def table(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.aws("dynamodb").describe_table(TableName=name)["Table"]
        return found


@pytest.fixture
def account(engine: str, fresh_name: Callable[[], str]) -> Account:
    return Account(engine, fresh_name())


def test_a_new_stack_takes_over_what_a_deleted_one_left(
    account: Account, session: AwsSession
) -> None:
    name = account.name
    assert account.deploy() == "CREATE_COMPLETE"
    assert account.resources() == KEPT
    with_row = DynamoStore(session, name)
    with_row.set(b"p", b"s", b"kept", b"1" * 16)
    with_row.close()
    secrets = account.aws("secretsmanager")
    secret = secrets.get_secret_value(SecretId=name)["SecretString"]
    account.delete()
    assert account.deploy(ExistingTable=name, **LEFT) == "CREATE_COMPLETE"
    assert account.resources() == set()
    assert secrets.get_secret_value(SecretId=name)["SecretString"] == secret
    groups = account.aws("logs").describe_log_groups(logGroupNamePrefix=f"/aws/lambda/{name}-api")
    assert len(groups["logGroups"]) == 1
    account.aws("s3").head_bucket(Bucket=f"{name}-data-000000000000-us-east-1")
    account.delete()
    assert account.table(name)["TableStatus"] == "ACTIVE"


def test_the_table_is_protected_if_a_parameter_says_so(account: Account) -> None:
    account.deploy()
    assert not account.table(account.name)["DeletionProtectionEnabled"]
    account.deploy("update", TableDeletionProtection="on")
    assert account.table(account.name)["DeletionProtectionEnabled"]


def _runbook(name: str) -> list[str]:
    """The commands of the page for a restored table."""
    text = PAGE.read_text(encoding="utf-8").partition("### A restored table")[2]
    commands = re.findall(r"^    (aws dynamodb .*)$", text.partition("\n#")[0], re.MULTILINE)
    return [re.sub(r"\bgraveler\b", name, command) for command in commands]


def _settings(account: Account, table: str) -> dict[str, Any]:
    """What a restore does not bring along."""
    dynamo = account.aws("dynamodb")
    described = account.table(table)
    live = dynamo.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    backups = dynamo.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
    tags = dynamo.list_tags_of_resource(ResourceArn=described["TableArn"])["Tags"]
    return {
        "ttl": live.get("AttributeName") if live["TimeToLiveStatus"] == "ENABLED" else None,
        "recovery": backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"],
        "billing": described["BillingModeSummary"]["BillingMode"],
        "protected": described["DeletionProtectionEnabled"],
        "tags": {each["Key"] for each in tags},
    }


def test_a_restored_table_gets_what_the_stack_gave_to_the_old_one(
    account: Account, session: AwsSession
) -> None:
    """The runbook, with the programs of AWS; then the stack lets go of the old table."""
    name, restored = account.name, f"{account.name}-restored"
    account.deploy()
    store = DynamoStore(session, name)
    store.set(b"p", b"s", b"kept", b"1" * 16)
    commands = _runbook(name)
    _run(account, commands[:2])
    before = _settings(account, restored)
    assert (before["ttl"], before["tags"], before["protected"]) == (None, set(), False)
    _run(account, commands[2:])
    of_stack = loaded(ROOT / "template.yaml")["Resources"]["Table"]["Properties"]
    assert of_stack["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
    assert _settings(account, restored) == {
        "ttl": of_stack["TimeToLiveSpecification"]["AttributeName"],
        "recovery": "ENABLED",
        "billing": of_stack["BillingMode"],
        "protected": True,
        "tags": {"team"},
    }
    account.deploy("update", ExistingTable=restored, TableDeletionProtection="on")
    assert account.resources() == KEPT - {"Table"}
    assert account.table(name)["TableStatus"] == "ACTIVE"
    copy = DynamoStore(session, restored)
    row = store.get(b"p", b"s")
    assert copy.get(b"p", b"s") == row
    store.close()
    copy.close()


def _run(account: Account, commands: list[str]) -> None:
    assert commands
    ran = subprocess.run(
        [str(ROOT / ".venv-clients" / "bin" / "python"), "-c", _AWS],
        input="\n".join(commands),
        env={**LOCAL_CREDENTIALS, "AWS_ENDPOINT_URL": account.engine, "AWS_PAGER": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
