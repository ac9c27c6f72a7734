"""The template is valid, and grants no more than it should."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from graveler.kv.dynamodb_items import PARTITION, SORT, TTL
from scripts.deploy import ROOT, tool

TEMPLATE = ROOT / "template.yaml"


class _Loader(yaml.SafeLoader):
    """Reads `!Ref x` as {"!Ref": x}, and so on."""


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {f"!{suffix}": loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {f"!{suffix}": loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {f"!{suffix}": loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _tagged)


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(TEMPLATE.read_text(), _Loader)["Resources"]
    return found


def of_type(resources: dict[str, Any], kind: str) -> dict[str, Any]:
    return {name: each["Properties"] for name, each in resources.items() if each["Type"] == kind}


def statements(properties: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The statements of a role's own policies, or of a managed policy."""
    policies = [each["PolicyDocument"] for each in properties.get("Policies", [])]
    if "ManagedPolicyName" in properties or "Description" in properties:
        policies.append(properties["PolicyDocument"])
    for policy in policies:
        for each in policy["Statement"]:
            yield each["!If"][1] if "!If" in each else each


def actions(properties: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for each in statements(properties):
        found |= {each["Action"]} if isinstance(each["Action"], str) else set(each["Action"])
    return found


def granting(resources: dict[str, Any]) -> dict[str, dict[str, Any]]:
    roles = of_type(resources, "AWS::IAM::Role")
    return roles | of_type(resources, "AWS::IAM::ManagedPolicy")


@pytest.mark.parametrize(
    "command", [["cfn-lint", str(TEMPLATE)], ["sam", "validate", "--lint", "-t", str(TEMPLATE)]]
)
def test_linters_find_nothing(command: list[str]) -> None:
    ran = subprocess.run(
        [tool(command[0]), *command[1:]],
        env={"PATH": "/usr/bin:/bin", "SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_table_is_what_the_driver_expects(resources: dict[str, Any]) -> None:
    [table] = of_type(resources, "AWS::DynamoDB::Table").values()
    keys = {each["KeyType"]: each["AttributeName"] for each in table["KeySchema"]}
    assert keys == {"HASH": PARTITION, "RANGE": SORT}
    assert {each["AttributeType"] for each in table["AttributeDefinitions"]} == {"B"}
    assert table["TimeToLiveSpecification"] == {"AttributeName": TTL, "Enabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
    assert table["SSESpecification"]["SSEEnabled"]


def test_what_is_kept_outlives_the_stack(resources: dict[str, Any]) -> None:
    kept = {name for name, each in resources.items() if each.get("DeletionPolicy") == "Retain"}
    assert kept == {"Table", "Data", "Secret"}


def test_buckets_are_versioned_private_and_behind_tls(resources: dict[str, Any]) -> None:
    buckets = of_type(resources, "AWS::S3::Bucket")
    for bucket in buckets.values():
        assert bucket["VersioningConfiguration"]["Status"] == "Enabled"
        assert len(bucket["PublicAccessBlockConfiguration"]) == 4
        assert all(bucket["PublicAccessBlockConfiguration"].values())
    policies = of_type(resources, "AWS::S3::BucketPolicy")
    assert {each["Bucket"]["!Ref"] for each in policies.values()} == set(buckets)
    for each in policies.values():
        [statement] = each["PolicyDocument"]["Statement"]
        assert statement["Effect"] == "Deny"
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_everything_is_built_by_our_makefile(resources: dict[str, Any]) -> None:
    built = [
        each
        for each in resources.values()
        if each["Type"] in ("AWS::Serverless::Function", "AWS::Serverless::LayerVersion")
    ]
    assert len(built) == 5
    assert {each["Metadata"]["BuildMethod"] for each in built} == {"makefile"}


def test_each_function_has_a_role_and_a_log_of_its_own(resources: dict[str, Any]) -> None:
    functions = of_type(resources, "AWS::Serverless::Function")
    assert set(functions) == {"ApiFunction", "EventsFunction", "WorkerFunction", "JanitorFunction"}
    assert len({json.dumps(each["Role"]) for each in functions.values()}) == len(functions)
    assert len({json.dumps(each["LoggingConfig"]) for each in functions.values()}) == len(functions)
    for log in of_type(resources, "AWS::Logs::LogGroup").values():
        assert "RetentionInDays" in log


def test_only_the_worker_deletes_objects_and_nobody_scans(resources: dict[str, Any]) -> None:
    granted = {name: actions(each) for name, each in granting(resources).items()}
    assert granted["KeepRecords"] and granted["KeepObjects"]
    deleting = {n for n, of in granted.items() if any(a.startswith("s3:DeleteObj") for a in of)}
    assert deleting == {"WorkerRole"}
    every = set().union(*granted.values())
    assert not every & {"dynamodb:Scan", "dynamodb:DeleteTable", "s3:DeleteBucket"}
    assert not [action for action in every if "*" in action]


def test_no_grant_is_for_everything(resources: dict[str, Any]) -> None:
    wide = {
        (name, action)
        for name, each in granting(resources).items()
        for statement in statements(each)
        if statement["Resource"] == "*"
        for action in statement["Action"]
    }
    # EC2 knows no narrower resource for the network interfaces of functions in a VPC.
    assert all(name == "UseCache" and action.startswith("ec2:") for name, action in wide), wide


def test_every_partition_of_aws_is_served(resources: dict[str, Any]) -> None:
    """That of China is aws-cn, that of GovCloud aws-us-gov."""
    assert "arn:aws:" not in json.dumps(resources)


def test_messages_that_fail_are_kept(resources: dict[str, Any]) -> None:
    queues = of_type(resources, "AWS::SQS::Queue")
    for name in ("Events", "Jobs"):
        assert queues[name]["RedrivePolicy"]["deadLetterTargetArn"] == {
            "!GetAtt": f"{name}Dead.Arn"
        }
    functions = of_type(resources, "AWS::Serverless::Function")
    for function, queue in (("EventsFunction", "Events"), ("WorkerFunction", "Jobs")):
        sources = functions[function]["Events"].values()
        [source] = [each for each in sources if each["Type"] == "SQS"]
        assert source["Properties"]["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert queues[queue]["VisibilityTimeout"] >= 6 * functions[function]["Timeout"]
