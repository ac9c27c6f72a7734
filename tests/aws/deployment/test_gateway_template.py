"""The template of the S3 gateway is valid, and its role may do what the process does."""

import re
from typing import Any

import pytest

from graveler.api.pages import HEALTH_PATH
from graveler.cli.commands.serve import gateway, options_of
from graveler.cli.support.serve_options import GatewayOptions
from graveler.http.server import make_server
from scripts.deploy import ROOT
from tests.aws.deployment.templates import (
    actions,
    loaded,
    of_type,
    resources_of,
    statements,
)
from tests.aws.test_gateway_image import only

TEMPLATE = ROOT / "infra" / "gateway.yaml"
SERVICE = ROOT / "template.yaml"
STACK, DOMAIN = "lake", "s3.lake.example.org"


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """An application that nobody asks."""


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    return resources_of(TEMPLATE)


@pytest.fixture(scope="module")
def container(resources: dict[str, Any]) -> dict[str, Any]:
    [found] = resources["Task"]["Properties"]["ContainerDefinitions"]
    assert isinstance(found, dict)
    return found


def test_the_process_may_do_what_the_api_does_with_records_and_objects(
    resources: dict[str, Any],
) -> None:
    """But what only garbage collection and jobs need."""
    service = loaded(SERVICE)["Resources"]
    of_api = {"kms:Encrypt", "kms:Decrypt"}
    for name in ("KeepRecords", "KeepObjects"):
        of_api |= actions(service[name]["Properties"])
    of_api -= {"s3:ListBucketVersions", "s3:GetBucketVersioning"}
    assert actions(resources["TaskRole"]["Properties"]) == of_api


def test_no_grant_is_for_everything_and_none_deletes_an_object(resources: dict[str, Any]) -> None:
    roles = of_type(resources, "AWS::IAM::Role")
    assert set(roles) == {"TaskRole", "ExecutionRole"}
    for properties in roles.values():
        granted = actions(properties)
        assert not any(
            "*" in action or ("Delete" in action and "s3" in action) for action in granted
        )
        assert "dynamodb:Scan" not in granted
        for each in statements(properties):
            assert each["Resource"] != "*" or each["Action"] == "ecr:GetAuthorizationToken"
        [trust] = properties["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "ecs-tasks.amazonaws.com"}
        assert trust["Action"] == "sts:AssumeRole"
    [trust] = roles["TaskRole"]["AssumeRolePolicyDocument"]["Statement"]
    account = {"StringEquals": {"aws:SourceAccount": {"!Ref": "AWS::AccountId"}}}
    assert trust["Condition"] == account
    [trust] = roles["ExecutionRole"]["AssumeRolePolicyDocument"]["Statement"]
    assert "Condition" not in trust, "AWS documents none; with one, perhaps no task would start"


def test_read_only_buckets_are_only_read(resources: dict[str, Any]) -> None:
    written = [
        each["Resource"]
        for each in statements(resources["TaskRole"]["Properties"])
        if "s3:PutObject" in each["Action"]
    ]
    assert len(written) == 1 and "ReadOnlyBuckets" not in str(written)


def valued(value: Any) -> str:
    """The text of a value of the template, for one stack."""
    texts = {"Stack": STACK, "Buckets": "data,landing", "ReadOnlyBuckets": "seen", "Memory": "2048"}
    texts |= {"Domain": DOMAIN, "KeysKmsKeyArn": "", "UserRequestsPerSecond": "7"}
    if isinstance(value, str):
        return value
    if "!Ref" in value:
        return texts[value["!Ref"]]
    if "!Sub" in value:
        text: str = value["!Sub"]
        for name, each in texts.items():
            text = text.replace("${" + name + "}", each)
        return text
    if "!If" in value:  # parameters that are not given
        return valued(value["!If"][2])
    separator, parts = value["!Join"]
    inner = [parts] if isinstance(parts, dict) else parts
    return str(separator).join(valued(part) for part in inner)


def started(container: dict[str, Any]) -> GatewayOptions:
    """The options with which the container runs."""
    words = only("ENTRYPOINT").command[4:] + [valued(word) for word in container["Command"]]
    variables = {each["Name"]: valued(each["Value"]) for each in container["Environment"]}
    return options_of(gateway.make_context("gateway", words[1:]).params, variables)


def test_the_container_names_the_deployment_by_its_variables(container: dict[str, Any]) -> None:
    options = started(container)
    named = options.deployment
    assert (named.table, named.secret) == (STACK, STACK)
    assert named.buckets == ("data", "landing", "seen") and named.read_only_buckets == ("seen",)
    assert options.s3.domains == (DOMAIN,) and options.front.public_url == f"https://{DOMAIN}"
    assert named.memory_bytes == 2048 << 20 and named.user_requests_per_second == 7


def accepted(processors: int) -> list[int]:
    """The values of `Memory` with one of `Cpu`."""
    template = loaded(TEMPLATE)
    parameter = template["Parameters"]["Memory"]
    [rule] = [
        each
        for each in template["Rules"].values()
        if each["RuleCondition"] == {"!Equals": [{"!Ref": "Cpu"}, str(processors)]}
    ]
    [assertion] = rule["Assertions"]
    values, tested = assertion["Assert"]["Fn::Contains"]
    assert tested == {"!Ref": "Memory"}
    found = [int(each) for each in values]
    assert parameter["MinValue"] <= found[0] and found[-1] <= parameter["MaxValue"]
    return found


def test_memory_is_what_bodies_need_and_fargate_offers() -> None:
    """16 bodies at a time need 2,048 MiB beside the caches; Fargate offers steps of a GiB."""
    offered = {256: (2, 2), 512: (2, 4), 1024: (2, 8), 2048: (4, 16), 4096: (8, 30)}
    parameters = loaded(TEMPLATE)["Parameters"]
    assert parameters["Cpu"]["AllowedValues"] == [str(each) for each in offered]
    assert parameters["Memory"]["Default"] in accepted(int(parameters["Cpu"]["Default"]))
    for processors, (least, most) in offered.items():
        assert accepted(processors) == [gib << 10 for gib in range(least, most + 1)]


def test_parts_that_arrive_have_a_disk_of_a_size_of_choice(resources: dict[str, Any]) -> None:
    size = loaded(TEMPLATE)["Parameters"]["EphemeralStorage"]
    assert (size["Default"], size["MinValue"], size["MaxValue"]) == (21, 21, 200)
    storage = resources["Task"]["Properties"]["EphemeralStorage"]
    assert storage == {"SizeInGiB": {"!Ref": "EphemeralStorage"}}


def test_the_container_has_no_rights_on_its_machine(container: dict[str, Any]) -> None:
    assert container["User"] == only("USER").rest and container["ReadonlyRootFilesystem"]
    linux = container["LinuxParameters"]
    assert linux == {"Capabilities": {"Drop": ["ALL"]}, "InitProcessEnabled": True}
    [mounted] = container["MountPoints"]
    assert [mounted["ContainerPath"]] == only("VOLUME").command


def test_health_and_ports_are_those_of_the_process(
    resources: dict[str, Any], container: dict[str, Any]
) -> None:
    port = started(container).listen.port
    assert container["PortMappings"] == [{"ContainerPort": port, "Protocol": "tcp"}]
    targets = resources["Targets"]["Properties"]
    assert targets["Port"] == port
    assert {"Key": "preserve_client_ip.enabled", "Value": "true"} in targets[
        "TargetGroupAttributes"
    ]
    [into] = resources["Containers"]["Properties"]["SecurityGroupIngress"]
    assert (into["FromPort"], into["SourceSecurityGroupId"]) == (port, {"!Ref": "Doors"})


def test_a_table_that_does_not_answer_replaces_no_container(
    resources: dict[str, Any], container: dict[str, Any]
) -> None:
    """Both checks ask whether the process lives.  Its successor would not start."""
    targets = resources["Targets"]["Properties"]
    assert (targets["HealthCheckProtocol"], targets["HealthCheckPath"]) == ("HTTP", HEALTH_PATH)
    asked = container["HealthCheck"]["Command"]
    assert asked == ["CMD", *only("HEALTHCHECK").command]
    assert f":8000{HEALTH_PATH}'" in asked[-1]


def test_a_stop_gives_requests_their_time(
    resources: dict[str, Any], container: dict[str, Any]
) -> None:
    """Two minutes while connections drain, then two from SIGTERM to the kill, of which the server
    gives requests its own seconds; and the page says so."""
    delay = {"Key": "deregistration_delay.timeout_seconds", "Value": "120"}
    assert delay in resources["Targets"]["Properties"]["TargetGroupAttributes"]
    server = make_server(bare, "127.0.0.1", 0, lambda port: None)
    seconds = server.config.timeout_graceful_shutdown
    assert seconds is not None and seconds < container["StopTimeout"] == 120
    page = (ROOT / "docs" / "how-to" / "gateway-on-aws.md").read_text(encoding="utf-8")
    assert f"120 seconds before SIGTERM and {seconds} seconds after it" in " ".join(page.split())


def test_clients_reach_it_by_tls_alone(resources: dict[str, Any]) -> None:
    [listener] = of_type(resources, "AWS::ElasticLoadBalancingV2::Listener").values()
    assert (listener["Protocol"], listener["Port"]) == ("TLS", 443)
    [into] = resources["Doors"]["Properties"]["SecurityGroupIngress"]
    assert (into["FromPort"], into["ToPort"]) == (443, 443)
    assert into["CidrIp"] == {"!Ref": "ClientCidr"}


def test_its_audit_trail_is_where_the_api_reads_it(
    resources: dict[str, Any], container: dict[str, Any]
) -> None:
    options = container["LogConfiguration"]["Options"]
    assert (options["mode"], options["max-buffer-size"]) == ("non-blocking", "25m")
    variables = loaded(SERVICE)["Resources"]["ApiFunction"]["Properties"]["Environment"]
    of_api = variables["Variables"]["GRAVELER_AUDIT_LOG"]["!If"][2]["!Sub"]
    assert options["awslogs-group"]["!Sub"] == of_api.replace("AWS::StackName", "Stack")
    written = [
        each["Resource"]["!Sub"]
        for each in statements(resources["ExecutionRole"]["Properties"])
        if "logs:PutLogEvents" in each["Action"]
    ]
    stream = (
        f":log-group:/aws/lambda/${{Stack}}-api:log-stream:{options['awslogs-stream-prefix']}/*"
    )
    assert len(written) == 1 and written[0].endswith(stream)


def test_the_endpoint_is_one_that_the_service_may_name() -> None:
    """The output is what `S3Endpoint` of the service takes, and the API tells to S3 clients."""
    templates = loaded(TEMPLATE), loaded(SERVICE)
    endpoint = valued(templates[0]["Outputs"]["Endpoint"]["Value"])
    assert re.fullmatch(templates[1]["Parameters"]["S3Endpoint"]["AllowedPattern"], endpoint)
