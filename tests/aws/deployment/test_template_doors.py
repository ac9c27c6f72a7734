"""What may reach the deployment from outside, and what it writes into its log, by the template."""

from pathlib import Path
from typing import Any

import pytest

from tests.aws.deployment.templates import of_type, resources_of

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "template.yaml"


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    return resources_of(TEMPLATE)


def test_functions_are_reached_through_the_gateway_alone(resources: dict[str, Any]) -> None:
    functions = of_type(resources, "AWS::Serverless::Function")
    assert len(functions) == 5
    assert not of_type(resources, "AWS::Lambda::Url")
    assert not any("FunctionUrlConfig" in each for each in functions.values())
    events = [event for each in functions.values() for event in each.get("Events", {}).values()]
    assert not {event["Type"] for event in events} & {"Api", "HttpApi"}
    (integration,) = of_type(resources, "AWS::ApiGatewayV2::Integration").values()
    assert integration["IntegrationUri"] == {"!Ref": "ApiFunction.Alias"}
    (route,) = of_type(resources, "AWS::ApiGatewayV2::Route").values()
    assert (route["RouteKey"], route["AuthorizationType"]) == ("$default", "NONE")


def test_only_buckets_of_the_account_and_named_sources_send_notifications(
    resources: dict[str, Any],
) -> None:
    named = {"!Split": [",", {"!Ref": "EventSourceArns"}]}
    for policy in of_type(resources, "AWS::SQS::QueuePolicy").values():
        own, others = policy["PolicyDocument"]["Statement"]
        source = own["Condition"]["StringEquals"]["aws:SourceAccount"]
        assert source == {"!Ref": "AWS::AccountId"}
        condition, statement, otherwise = others["!If"]
        assert (condition, otherwise) == ("HasEventSources", {"!Ref": "AWS::NoValue"})
        assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": named}}


def test_the_shared_cache_is_open_to_the_functions_alone(resources: dict[str, Any]) -> None:
    (access,) = of_type(resources, "AWS::EFS::AccessPoint").values()
    assert access["RootDirectory"]["CreationInfo"]["Permissions"] == "0700"
    assert access["PosixUser"] == {"Uid": "1000", "Gid": "1000"}


def test_no_function_logs_its_event_or_traces_bodies() -> None:
    """An event has the headers and the body of a request."""
    template = TEMPLATE.read_text()
    assert "POWERTOOLS_LOGGER_LOG_EVENT" not in template
    handlers = [*ROOT.glob("functions/*/handler.py"), *ROOT.glob("functions/shared/*.py")]
    assert len(handlers) > 4
    for handler in handlers:
        text = handler.read_text(encoding="utf-8")
        assert "log_event" not in text and "Tracer" not in text, handler
