"""Each parameter of the template that switches something on reaches exactly that."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from scripts.deploy import ROOT
from tests.aws.deployment.templates import loaded, of_type

ENDPOINTS = {
    "TableEndpoint": "dynamodb",
    "BucketsEndpoint": "s3",
    "QueuesEndpoint": "sqs",
    "SecretsEndpoint": "secretsmanager",
    "FunctionsEndpoint": "lambda",
}
RESERVED = {
    "ApiReserved": "ApiFunction",
    "WorkerReserved": "WorkerFunction",
    "HooksReserved": "HooksFunction",
}
NOTHING = {"!Ref": "AWS::NoValue"}


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return loaded(ROOT / "template.yaml")


def _holds(template: dict[str, Any], expression: Any, given: dict[str, str]) -> bool:
    """Whether a condition holds if these parameters are given and all others have their default."""
    ((function, operand),) = expression.items()
    match function:
        case "!Condition":
            return _holds(template, template["Conditions"][operand], given)
        case "!And":
            return all(_holds(template, each, given) for each in operand)
        case "!Not":
            (inner,) = operand
            return not _holds(template, inner, given)
        case "!Equals":
            left, right = (_value(template, each, given) for each in operand)
            return left == right
    raise AssertionError(f"the tests do not know {function}")


def _value(template: dict[str, Any], value: Any, given: dict[str, str]) -> str:
    if isinstance(value, str):
        return value
    ((function, operand),) = value.items()
    if function == "!Join":  # of one list, which is a parameter
        return _value(template, operand[1], given)
    assert function == "!Ref"
    return str(given.get(operand, template["Parameters"][operand]["Default"]))


def _conditions(template: dict[str, Any], given: dict[str, str]) -> set[str]:
    """The names of all conditions that hold."""
    return {
        name
        for name, condition in template["Conditions"].items()
        if _holds(template, condition, given)
    }


def _granted(value: Any, under: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All statements below `value`, each with the conditions that it needs."""
    if isinstance(value, list):
        for each in value:
            yield from _granted(each, under)
    elif isinstance(value, dict) and "!If" in value:
        condition, then, other = value["!If"]
        assert other == NOTHING
        yield from _granted(then, (*under, condition))
    elif isinstance(value, dict) and "Effect" in value:
        yield under, value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _granted(each, under)


def _services(template: dict[str, Any], given: dict[str, str]) -> set[str]:
    """The services to which the stack makes an endpoint."""
    holding = _conditions(template, given)
    return {
        each["Properties"]["ServiceName"]["!Sub"].rpartition(".")[2]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::EC2::VPCEndpoint" and each["Condition"] in holding
    }


def test_each_endpoint_exists_unless_its_own_parameter_says_that_there_is_one(
    template: dict[str, Any],
) -> None:
    every = {"Efs": "on", "HooksAllow": "example.org"}
    assert _services(template, every) == set(ENDPOINTS.values())
    for parameter, service in ENDPOINTS.items():
        assert template["Parameters"][parameter]["AllowedValues"] == ["create", "existing"]
        left = _services(template, every | {parameter: "existing"})
        assert left == set(ENDPOINTS.values()) - {service}, parameter
    assert _services(template, {"Efs": "on"}) == set(ENDPOINTS.values()) - {"lambda"}
    assert _services(template, {"HooksAllow": "example.org"}) == set()


def test_each_endpoint_has_a_condition_of_its_own(template: dict[str, Any]) -> None:
    for parameter in ENDPOINTS:
        condition = f"Create{parameter}"
        guarded = [
            each["Type"]
            for each in template["Resources"].values()
            if each.get("Condition") == condition
        ]
        assert guarded == ["AWS::EC2::VPCEndpoint"]
        assert json.dumps(template["Resources"]).count(f'"{condition}"') == 1


def test_keys_are_used_only_if_they_are_named(template: dict[str, Any]) -> None:
    """Those of buckets by what reads and writes objects, those of sessions by the API."""
    granting = {
        name: each
        for name, each in template["Resources"].items()
        if each["Type"] in ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy")
    }
    found = [
        (name, under, statement["Action"], statement["Resource"])
        for name, each in granting.items()
        for under, statement in _granted(each["Properties"])
        if "kms:" in json.dumps(statement["Action"]) and "key/*" not in str(statement["Resource"])
    ]
    objects = ["kms:Decrypt", "kms:GenerateDataKey"]
    sessions = ["kms:Encrypt", "kms:Decrypt"]
    assert sorted(found, key=lambda each: each[0]) == [
        ("ApiRole", ("HasKeysKmsKey",), sessions, {"!Ref": "KeysKmsKeyArn"}),
        ("KeepObjects", ("HasKmsKeys",), objects, {"!Split": [",", {"!Ref": "KmsKeyArns"}]}),
    ]
    keys = {"HasKmsKeys", "HasKeysKmsKey"}
    assert not _conditions(template, {}) & keys
    assert _conditions(template, {"KmsKeyArns": "arn:key"}) & keys == {"HasKmsKeys"}
    assert _conditions(template, {"KeysKmsKeyArn": "arn:key"}) & keys == {"HasKeysKmsKey"}


def test_only_named_topics_and_rules_may_send_to_the_queue_of_events(
    template: dict[str, Any],
) -> None:
    policy = template["Resources"]["EventsFromBuckets"]["Properties"]["PolicyDocument"]
    buckets, named = policy["Statement"]
    assert buckets["Principal"] == {"Service": "s3.amazonaws.com"}
    condition, sources, other = named["!If"]
    named_arns = {"!Split": [",", {"!Ref": "EventSourceArns"}]}
    assert sources["Condition"] == {"ArnEquals": {"aws:SourceArn": named_arns}}
    assert other == NOTHING
    assert condition not in _conditions(template, {})
    assert condition in _conditions(template, {"EventSourceArns": "arn:topic"})


@pytest.mark.parametrize(("parameter", "function"), RESERVED.items())
def test_a_reservation_of_0_is_none(
    template: dict[str, Any], parameter: str, function: str
) -> None:
    """Lambda would take 0 as a function that never runs."""
    reserved = template["Resources"][function]["Properties"]["ReservedConcurrentExecutions"]
    condition, then, other = reserved["!If"]
    assert (then, other) == ({"!Ref": parameter}, NOTHING)
    assert template["Parameters"][parameter]["Default"] == 0
    for number in ("0", "1", "20"):
        assert (condition in _conditions(template, {parameter: number})) == (number != "0")
    others = {name: "20" for name in RESERVED if name != parameter}
    assert condition not in _conditions(template, others)


def test_the_dashboard_shows_throttled_reads_and_writes(template: dict[str, Any]) -> None:
    (dashboard,) = of_type(template["Resources"], "AWS::CloudWatch::Dashboard").values()
    body = json.loads(re.sub(r"\$\{[A-Za-z:]+\}", "x", dashboard["DashboardBody"]["!Sub"][0]))
    (table,) = (e["properties"] for e in body["widgets"] if e["properties"]["title"] == "Table")
    names = {metric[1] for metric in table["metrics"]}
    assert {"ReadThrottleEvents", "WriteThrottleEvents"} <= names
    assert table["metrics"][0][0] == "AWS/DynamoDB"


def test_the_bucket_expires_old_versions_and_the_markers_that_they_leave(
    template: dict[str, Any],
) -> None:
    (bucket,) = of_type(template["Resources"], "AWS::S3::Bucket").values()
    rules = bucket["LifecycleConfiguration"]["Rules"]
    assert {rule["Status"] for rule in rules} == {"Enabled"}
    assert not [rule for rule in rules if "Prefix" in rule or "Filter" in rule]  # of all objects
    assert any("NoncurrentVersionExpiration" in rule for rule in rules)
    assert any(rule.get("ExpiredObjectDeleteMarker") is True for rule in rules)
    current = {"ExpirationInDays", "ExpirationDate", "Transition", "Transitions"}
    assert not any(current & set(rule) for rule in rules)
