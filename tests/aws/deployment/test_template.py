"""The template is valid, and grants no more than it should."""

import fnmatch
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from graveler.assembly import open_memory
from graveler.core import limits, settings
from graveler.engine import snapshots
from graveler.engine.objects import addresses, multipart
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.kv.dynamodb_items import PARTITION, SORT, TTL
from scripts import deploy
from scripts.deploy import ROOT, RUNTIME, RUNTIMES, tool
from tests.aws.deployment.templates import (
    NOT_OURS,
    OURS,
    actions,
    loaded,
    matches,
    of_type,
    resources_of,
    statements,
)
from tests.support.clockwork import SeededIds, TickingClock
from tests.test_settings import GIVEN

NOTHING = {"!Ref": "AWS::NoValue"}
TEMPLATE = ROOT / "template.yaml"
DATA = "arn:${AWS::Partition}:s3:::${AWS::StackName}-data-${AWS::AccountId}-${AWS::Region}"
TEMPLATES = [str(TEMPLATE), *map(str, sorted((ROOT / "infra").glob("*.yaml")))]


@pytest.fixture(scope="module")
def parameters() -> dict[str, Any]:
    found: dict[str, Any] = loaded(TEMPLATE)["Parameters"]
    return found


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    return resources_of(TEMPLATE)


def granting(resources: dict[str, Any]) -> dict[str, dict[str, Any]]:
    roles = of_type(resources, "AWS::IAM::Role")
    return roles | of_type(resources, "AWS::IAM::ManagedPolicy")


def test_the_linter_finds_nothing() -> None:
    """It takes all templates at once, because its start takes longest.  `sam validate --lint` calls
    the same linter."""
    named = {Path(each) for each in TEMPLATES}
    written = set(ROOT.glob("*.yaml")) | set((ROOT / "infra").rglob("*.y*ml"))
    assert {each for each in written if "AWSTemplateFormatVersion" in each.read_text()} == named
    ran = subprocess.run(
        [tool("cfn-lint"), *TEMPLATES],
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
    assert "SSESpecification" not in table  # the key of DynamoDB costs nothing for each request


def test_what_is_kept_outlives_the_stack(resources: dict[str, Any]) -> None:
    replaced = {n for n, each in resources.items() if each.get("UpdateReplacePolicy") == "Retain"}
    assert replaced == {"Table", "Data", "Secret", "ApiLog"}
    # A creation that is rolled back leaves no name behind, which would block the next.
    assert {resources[name]["DeletionPolicy"] for name in replaced} == {"RetainExceptOnCreate"}
    policies = {each.get("DeletionPolicy", "Delete") for each in resources.values()}
    assert policies == {"RetainExceptOnCreate", "Delete"}


def test_the_name_of_the_bucket_holds_stack_account_and_region(resources: dict[str, Any]) -> None:
    """Names of buckets are global: the same stack in another region needs another one."""
    name = resources["Data"]["Properties"]["BucketName"]["!Sub"]
    for part in ("${AWS::StackName}", "${AWS::AccountId}", "${AWS::Region}"):
        assert part in name


def test_the_longest_name_of_a_bucket_is_one() -> None:
    longest = "a" * 30
    deploy.check_name(longest)
    with pytest.raises(deploy.Failed):
        deploy.check_name(longest + "a")
    assert len(f"{longest}-data-123456789012-ap-northeast-1") <= 63


def test_runtimes_have_the_libc_of_the_wheels(parameters: dict[str, Any]) -> None:
    """Which platforms' wheels the layer takes, and which libc each runtime of Lambda has."""
    libc = {"python3.11": (2, 26), **dict.fromkeys(RUNTIMES, (2, 34))}  # Amazon Linux 2, 2023
    source = (ROOT / "layers" / "build.py").read_text()
    tags = re.findall(r"manylinux(?:_(\d+)_(\d+)|2014)_\{machine\}", source)
    needed = [(int(major), int(minor)) if major else (2, 17) for major, minor in tags]
    assert len(needed) >= 2 and max(needed) > libc["python3.11"]
    allowed = parameters["Runtime"]["AllowedValues"]
    assert tuple(allowed) == RUNTIMES and parameters["Runtime"]["Default"] == RUNTIME
    assert min(libc[runtime] for runtime in allowed) >= max(needed)


def test_every_allowed_runtime_can_start_from_a_snapshot(parameters: dict[str, Any]) -> None:
    """SnapStart begins with Python 3.12."""
    versions = [int(name.partition(".")[2]) for name in parameters["Runtime"]["AllowedValues"]]
    assert min(versions) >= 12


def test_alarms_watch_what_has_data(resources: dict[str, Any]) -> None:
    alarms = of_type(resources, "AWS::CloudWatch::Alarm")
    table = {
        each["MetricName"] for each in alarms.values() if each.get("Namespace") == "AWS/DynamoDB"
    }
    assert table == {"ReadThrottleEvents", "WriteThrottleEvents"}
    assert '"ThrottledRequests"' not in TEMPLATE.read_text()
    functions = of_type(resources, "AWS::Serverless::Function")
    failing = [each for each in alarms.values() if each.get("MetricName") == "Errors"]
    watched = {each["Dimensions"][0]["Value"]["!Sub"] for each in failing}
    assert watched == {each["FunctionName"]["!Sub"] for each in functions.values()}
    for name in ("JobsWaiting", "EventsWaiting"):
        assert alarms[name]["MetricName"] == "ApproximateAgeOfOldestMessage"
    assert alarms["JanitorLate"]["TreatMissingData"] == "missing"  # quiet while it is new
    assert "InsufficientDataActions" in alarms["JanitorLate"]


def test_alarms_on_dead_letters_tell_of_arrivals(resources: dict[str, Any]) -> None:
    """Messages stay for 14 days: an alarm on their number would stay too, and tell of no other."""
    alarms = of_type(resources, "AWS::CloudWatch::Alarm")
    levels = [
        name
        for name, each in alarms.items()
        if each.get("MetricName") == "ApproximateNumberOfMessagesVisible"
    ]
    assert not levels
    for name, queue in (("EventsUnanswered", "events-dead"), ("JobsUnanswered", "jobs-dead")):
        arrived, waiting = alarms[name]["Metrics"]
        # Where nothing happens there are no data, and a difference needs two figures.
        assert arrived["Expression"] == f"DIFF(FILL({waiting['Id']}, 0))"
        assert not waiting["ReturnData"]
        metric = waiting["MetricStat"]["Metric"]
        assert metric["MetricName"] == "ApproximateNumberOfMessagesVisible"
        (dimension,) = metric["Dimensions"]
        assert dimension["Value"]["!Sub"].endswith(f"-{queue}")
        # The newest figure may be late, and stands for 0 until it comes.
        assert (alarms[name]["EvaluationPeriods"], alarms[name]["DatapointsToAlarm"]) == (3, 1)
    # Lambda and the scheduler send these messages; SQS itself moves the others, and counts none.
    assert alarms["TicksUnanswered"]["MetricName"] == "NumberOfMessagesSent"


def test_the_worker_may_send_to_its_own_queue_again_and_again(resources: dict[str, Any]) -> None:
    """Otherwise Lambda ends a job that has gone from worker to worker sixteen times."""
    functions = of_type(resources, "AWS::Serverless::Function")
    allowed = {name for name, each in functions.items() if each.get("RecursiveLoop") == "Allow"}
    assert allowed == {"WorkerFunction"}


def test_every_queue_keeps_its_messages_for_14_days_where_nothing_else_knows_them(
    resources: dict[str, Any],
) -> None:
    """A job is also a record, which the janitor sends again; a notification is not."""
    queues = of_type(resources, "AWS::SQS::Queue")
    short = {name for name, each in queues.items() if "MessageRetentionPeriod" not in each}
    assert short == {"Jobs"}
    kept = {each.get("MessageRetentionPeriod", 1_209_600) for each in queues.values()}
    assert kept == {14 * 24 * 3600}


@pytest.mark.parametrize(("name", "count"), [("template", 7), ("gateway", 2), ("spark", 3)])
def test_every_role_of_every_template_has_the_boundary(name: str, count: int) -> None:
    [path] = [Path(each) for each in TEMPLATES if Path(each).stem == name]
    template = loaded(path)
    roles = of_type(template["Resources"], "AWS::IAM::Role")
    boundary = {"!If": ["HasBoundary", {"!Ref": "PermissionsBoundaryArn"}, NOTHING]}
    assert [each["PermissionsBoundary"] for each in roles.values()] == [boundary] * count
    given = {"!Not": [{"!Equals": [{"!Ref": "PermissionsBoundaryArn"}, ""]}]}
    assert template["Conditions"]["HasBoundary"] == given
    parameter = template["Parameters"]["PermissionsBoundaryArn"]
    assert parameter == loaded(TEMPLATE)["Parameters"]["PermissionsBoundaryArn"]
    assert parameter["Default"] == ""
    allowed = re.compile(parameter["AllowedPattern"])
    assert allowed.fullmatch("arn:aws-cn:iam::123456789012:policy/bounds/lake")
    assert not allowed.fullmatch("arn:aws:iam::123456789012:role/x")


def test_sam_makes_no_role_of_its_own(resources: dict[str, Any]) -> None:
    """It would have no boundary."""
    for each in of_type(resources, "AWS::Serverless::Function").values():
        assert "Role" in each and "Policies" not in each
        for event in each.get("Events", {}).values():
            assert event["Type"] == "SQS" or "RoleArn" in event["Properties"]


def test_requests_move_back_from_a_version_that_fails(
    resources: dict[str, Any], parameters: dict[str, Any]
) -> None:
    told = resources["ApiFunction"]["Properties"]["DeploymentPreference"]
    assert told == {
        "Enabled": {"!FindInMap": ["Rollouts", {"!Ref": "Rollout"}, "Shifts"]},
        "Type": {"!Ref": "Rollout"},
        "Role": {"!If": ["UseRollout", {"!GetAtt": "RolloutRole.Arn"}, NOTHING]},
        "Alarms": [{"!If": ["UseRollout", {"!Ref": "RolloutFails"}, NOTHING]}],
    }
    shifts = {
        name: each["Shifts"] for name, each in loaded(TEMPLATE)["Mappings"]["Rollouts"].items()
    }
    assert list(shifts) == parameters["Rollout"]["AllowedValues"]
    assert shifts.pop(parameters["Rollout"]["Default"]) == "false"
    assert set(shifts.values()) == {"true"}
    for name in ("RolloutRole", "RolloutFails"):
        assert resources[name]["Condition"] == "UseRollout"


def test_a_rollout_fails_by_what_a_broken_version_causes(resources: dict[str, Any]) -> None:
    """Not by 503, which load causes, nor by 501, which S3 clients get at the API."""
    alarm = resources["RolloutFails"]["Properties"]
    assert resources["RequestsFailed"]["Condition"] == "UseRollout"
    counted = resources["RequestsFailed"]["Properties"]
    [metric] = counted["MetricTransformations"]
    for name, given in (("Namespace", "MetricNamespace"), ("MetricName", "MetricName")):
        assert alarm[name] == metric[given]
    assert "${AWS::StackName}" in metric["MetricName"]["!Sub"]
    assert "Dimensions" not in alarm and metric["MetricValue"] == "1"
    assert counted["LogGroupName"] == {"!Ref": "AccessLog"}
    [stage] = of_type(resources, "AWS::ApiGatewayV2::Stage").values()
    line = stage["AccessLogSettings"]["Format"]
    assert '"status": "$context.status"' in line  # a text
    assert counted["FilterPattern"] == '{ $.status = "500" }'


def test_the_gateway_logs_each_request_without_its_query(resources: dict[str, Any]) -> None:
    [stage] = of_type(resources, "AWS::ApiGatewayV2::Stage").values()
    settings = stage["AccessLogSettings"]
    assert settings["DestinationArn"] == {"!GetAtt": "AccessLog.Arn"}
    line = json.loads(settings["Format"])
    assert "\n" not in settings["Format"]
    for name, variable in (
        ("request_id", "$context.requestId"),
        ("route", "$context.routeKey"),
        ("status", "$context.status"),
        ("milliseconds", "$context.responseLatency"),
        ("integration_error", "$context.integrationErrorMessage"),
    ):
        assert line[name] == variable
    assert not [each for each in line.values() if not each.startswith("$context.")]
    assert "query" not in settings["Format"].lower() and "header" not in settings["Format"].lower()


def test_traces_are_sent_by_the_functions_with_a_role_for_it(resources: dict[str, Any]) -> None:
    assert loaded(TEMPLATE)["Globals"]["Function"]["Tracing"] == {"!Ref": "Tracing"}
    attached = {"!If": ["UseTracing", {"!Ref": "SendTraces"}, NOTHING]}
    roles = of_type(resources, "AWS::IAM::Role")
    tracing = {n for n, each in roles.items() if attached in each.get("ManagedPolicyArns", ())}
    assert tracing == {f"{name}Role" for name in ("Api", "Events", "Worker", "Janitor")}
    assert resources["SendTraces"]["Condition"] == "UseTracing"


def test_secrets_under_keys_of_their_own_are_read_by_who_reads_them(
    resources: dict[str, Any],
) -> None:
    """Each grant of a given secret has one of its key, in the context of this secret alone."""
    granted: dict[str, list[tuple[str, str]]] = {"secretsmanager": [], "kms": []}
    for name, each in granting(resources).items():
        for statement in statements(each):
            if statement["Action"] == "secretsmanager:GetSecretValue":
                secret = statement["Resource"]
                if "!Ref" in secret:
                    granted["secretsmanager"].append((name, secret["!Ref"]))
            elif statement["Action"] == "kms:Decrypt":
                equal = statement["Condition"]["StringEquals"]
                assert equal["kms:ViaService"]["!Sub"].startswith("secretsmanager.")
                granted["kms"].append((name, equal["kms:EncryptionContext:SecretARN"]["!Ref"]))
    assert granted["kms"] == granted["secretsmanager"]
    assert sorted(granted["kms"]) == [
        ("ApiRole", "OidcSecretArn"),
        ("KeepRecords", "HooksSecretArn"),
    ]


def test_ticks_that_fail_are_kept(resources: dict[str, Any]) -> None:
    dead = {"!GetAtt": "TicksDead.Arn"}
    functions = of_type(resources, "AWS::Serverless::Function")
    for name in ("EventsFunction", "JanitorFunction"):
        assert functions[name]["DeadLetterQueue"]["TargetArn"] == dead
        [tick] = [e for e in functions[name]["Events"].values() if e["Type"] == "ScheduleV2"]
        assert tick["Properties"]["DeadLetterConfig"]["Arn"] == dead
    for role in ("EventsRole", "JanitorRole", "ScheduleRole"):
        sent = [each for each in statements(resources[role]["Properties"])]
        assert dead in [each["Resource"] for each in sent if each["Action"] == "sqs:SendMessage"]


def test_the_stage_is_throttled(resources: dict[str, Any]) -> None:
    [stage] = of_type(resources, "AWS::ApiGatewayV2::Stage").values()
    assert stage["DefaultRouteSettings"] == {
        "ThrottlingRateLimit": {"!Ref": "RequestsPerSecond"},
        "ThrottlingBurstLimit": {"!Ref": "RequestsBurst"},
    }


def test_the_api_knows_the_rate_of_a_user(
    resources: dict[str, Any], parameters: dict[str, Any]
) -> None:
    variables = resources["ApiFunction"]["Properties"]["Environment"]["Variables"]
    rate = variables["GRAVELER_USER_REQUESTS_PER_SECOND"]
    assert rate == {"!Sub": "${UserRequestsPerSecond}"}
    assert parameters["UserRequestsPerSecond"]["Default"] == 0
    assert settings.deployment(GIVEN).user_requests_per_second == 0
    given = {**GIVEN, "GRAVELER_USER_REQUESTS_PER_SECOND": "7"}
    assert settings.deployment(given).user_requests_per_second == 7


def test_functions_know_what_is_only_read() -> None:
    variables = loaded(TEMPLATE)["Globals"]["Function"]["Environment"]
    names = variables["Variables"]["GRAVELER_READ_ONLY_BUCKETS"]
    assert names == {"!Ref": "ReadOnlyBuckets"}


def test_the_api_knows_the_names_that_callers_sign(resources: dict[str, Any]) -> None:
    variables = resources["ApiFunction"]["Properties"]["Environment"]["Variables"]
    own = {"!Sub": "${Api}.execute-api.${AWS::Region}.${AWS::URLSuffix}"}
    cdn = {"!If": ["UseCdn", {"!GetAtt": "Distribution.DomainName"}, ""]}
    names = {"!Join": [",", [own, {"!Ref": "DomainName"}, cdn]]}
    assert variables["GRAVELER_LOGIN_HOSTS"] == names
    accounts = {"!Join": [",", {"!Ref": "AwsLoginAccounts"}]}
    assert variables["GRAVELER_AWS_LOGIN_ACCOUNTS"] == accounts
    for name in ("Issuer", "Audience", "Keys", "Groups"):
        assert variables[f"GRAVELER_OIDC_{name.upper()}"] == {"!Ref": f"Oidc{name}"}
    assert variables["GRAVELER_OIDC_CLIENT_ID"] == {"!Ref": "OidcClientId"}
    for name in ("Redirects", "Hosts"):
        joined = {"!Join": [",", {"!Ref": f"Oidc{name}"}]}
        assert variables[f"GRAVELER_OIDC_{name.upper()}"] == joined
    for name in ("User", "Groups"):
        assert variables[f"GRAVELER_OIDC_{name.upper()}_CLAIM"] == {"!Ref": f"Oidc{name}Claim"}


def test_the_api_knows_the_endpoint_of_s3_clients(
    resources: dict[str, Any], parameters: dict[str, Any]
) -> None:
    variables = resources["ApiFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["GRAVELER_S3_ENDPOINT"] == {"!Ref": "S3Endpoint"}
    allowed = re.compile(parameters["S3Endpoint"]["AllowedPattern"])
    assert parameters["S3Endpoint"]["Default"] == ""
    for named in ("", "https://s3.lake.example.org", "http://10.0.0.1:9000"):
        assert allowed.fullmatch(named)
        found = settings.deployment({**GIVEN, "GRAVELER_S3_ENDPOINT": named})
        assert found.s3_endpoint == named
    for wrong in ("s3.lake.example.org", "https://a/b", "https://a<b"):
        assert not allowed.fullmatch(wrong)


def test_what_is_only_read_is_never_written(resources: dict[str, Any]) -> None:
    for name, each in granting(resources).items():
        for statement in statements(each):
            if "ReadOnlyBuckets" in json.dumps(statement["Resource"]):
                verbs = {action.partition(":")[2] for action in statement["Action"]}
                assert all(verb.startswith(("Get", "List")) for verb in verbs), name


def deletes(
    resources: dict[str, Any], key: str, action: str = "s3:DeleteObject", role: str = "WorkerRole"
) -> bool:
    """Whether the role may delete that object, or version, of the stack's bucket."""
    names = [role, *(p["!Ref"] for p in policies_of(resources, role) if "!Ref" in p)]
    verdicts = [
        statement["Effect"]
        for name in names
        for statement in statements(resources[name]["Properties"])
        if action in [statement["Action"], *statement["Action"]]
        for pattern in patterns(statement["Resource"])
        if matches(pattern, f"arn:aws:s3:::bucket/{key}")
    ]
    return "Allow" in verdicts and "Deny" not in verdicts


def policies_of(resources: dict[str, Any], role: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = resources[role]["Properties"]["ManagedPolicyArns"]
    return found


def patterns(resource: Any) -> list[str]:
    if not isinstance(resource, list):
        return []  # of existing buckets: the same, joined
    found = [each if isinstance(each, str) else each["!Sub"] for each in resource]
    return [each.replace(DATA, "arn:aws:s3:::bucket") for each in found]


KEPT = (
    "lake/_graveler/steps/gc-1/uses-00000.json.gz",
    # What the purge of a deleted repository removes.
    "_graveler/gc/01/condemned-00000.jsonl",
    "lake/_graveler/gc/01/deleted-00000.jsonl",
    "lake/_graveler/gc/hashes/" + "0" * 64,
    "lake/_graveler/dumps/01.json",
    "lake/_graveler/jobs/job/part-1-0",
)


def test_only_names_of_our_layout_can_be_deleted(resources: dict[str, Any]) -> None:
    for key in (*OURS, *KEPT):
        assert deletes(resources, key), key
        # Purges and collections delete the version that was listed.
        assert deletes(resources, key, "s3:DeleteObjectVersion"), key
    for key in NOT_OURS:
        assert not deletes(resources, key), key


LOG = f"_graveler/snapshots/prod/visits/_delta_log/{3:020}.json"
NO_LOGS = (
    f"lake/_graveler/snapshots/a/{3:020}.json",
    f"lake/_graveler/jobs/a/_delta_log/{3:020}.json",
    f"lake/snapshots/a/_delta_log/{3:020}.json",
)


def test_the_api_deletes_logs_of_snapshots_alone(resources: dict[str, Any]) -> None:
    for key in (LOG, f"lake/{LOG}", "a/_graveler/snapshots/b/_delta_log/_last_checkpoint"):
        assert deletes(resources, key, role="ApiRole"), key
        assert not deletes(resources, key, "s3:DeleteObjectVersion", "ApiRole"), key
    for key in (*OURS, *KEPT, *NOT_OURS, *NO_LOGS):
        assert not deletes(resources, key, role="ApiRole"), key


@pytest.mark.parametrize("role", ["WorkerRole", "ApiRole"])
def test_existing_buckets_have_the_same_patterns(resources: dict[str, Any], role: str) -> None:
    allowed = [
        statement["Resource"]
        for statement in statements(resources[role]["Properties"])
        if "s3:DeleteObject" in statement["Action"]
    ]
    own = {p.removeprefix("arn:aws:s3:::bucket/") for each in allowed for p in patterns(each)}
    joined = [each["!Split"][1]["!Join"][1] for each in allowed if isinstance(each, dict)]
    assert {each[-1].removeprefix("/") for each in joined} == own and len(joined) == len(own)


def test_managed_policies_fit(resources: dict[str, Any]) -> None:
    """IAM takes 6,144 characters, white space apart."""
    for name, each in of_type(resources, "AWS::IAM::ManagedPolicy").items():
        written = json.dumps(each["PolicyDocument"], separators=(",", ":"))
        assert len(written) < 6_144, name


LONGEST = {  # names of buckets, and ARNs of keys
    "ExistingBuckets": ("b" * 63, 7),
    "ReadOnlyBuckets": ("r" * 63, 15),
    "KmsKeyArns": ("arn:aws-us-gov:kms:ap-southeast-99:123456789012:key/mrk-" + "0" * 32, 10),
}


def test_policies_fit_with_as_many_buckets_as_are_allowed(
    resources: dict[str, Any], parameters: dict[str, Any]
) -> None:
    """IAM takes 10,240 characters of the policies of a role's own."""
    refs = {"AWS::Partition": "aws-us-gov", "AWS::Region": "ap-southeast-99"}
    refs |= {"AWS::AccountId": "1" * 12, "AWS::StackName": "s" * 30}
    for name, (each, number) in LONGEST.items():
        refs[name] = ",".join([each] * number)
        pattern = parameters[name]["AllowedPattern"]
        assert re.fullmatch(pattern, refs[name])
        assert not re.fullmatch(pattern, f"{refs[name]},{each}")
        assert re.fullmatch(pattern, "") and not re.fullmatch(pattern, f"{each}, {each}")
    for name, most in (("KeepObjects", 6_144), ("WorkerRole", 10_240), ("ApiRole", 10_240)):
        length = sum(
            len(json.dumps(_written(each, refs), separators=(",", ":")))
            for each in statements(resources[name]["Properties"])
        )
        print(f"policy: name={name} length={length}")
        assert length + 200 < most, name


def _written(value: Any, refs: dict[str, str]) -> Any:
    """What CloudFormation makes of a statement, where every condition holds."""
    if isinstance(value, list):
        return [_written(each, refs) for each in value]
    if not isinstance(value, dict):
        return value
    if "!Ref" in value:
        return refs.get(value["!Ref"], "x" * 120)
    if "!GetAtt" in value:
        return "x" * 120
    if "!Sub" in value:
        return re.sub(r"\$\{([\w.:]+)\}", lambda m: refs.get(m[1], "x" * 120), value["!Sub"])
    if "!Join" in value:
        separator, members = _written(value["!Join"], refs)
        return separator.join(members)
    if "!Split" in value:
        separator, text = _written(value["!Split"], refs)
        return text.split(separator)
    return {name: _written(each, refs) for name, each in value.items()}


def test_buckets_are_versioned_private_and_behind_tls(resources: dict[str, Any]) -> None:
    buckets = of_type(resources, "AWS::S3::Bucket")
    for bucket in buckets.values():
        assert bucket["VersioningConfiguration"]["Status"] == "Enabled"
        assert len(bucket["PublicAccessBlockConfiguration"]) == 4
        assert all(bucket["PublicAccessBlockConfiguration"].values())
    policies = of_type(resources, "AWS::S3::BucketPolicy")
    assert {first_choice(each["Bucket"])["!Ref"] for each in policies.values()} == set(buckets)
    for each in policies.values():
        statements = each["PolicyDocument"]["Statement"]
        assert {statement["Effect"] for statement in statements} == {"Deny"}
        tls = statements[0]
        assert (tls["Principal"], tls["Action"]) == ("*", "s3:*")
        assert tls["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_bucket_bounds_what_roles_sign(resources: dict[str, Any]) -> None:
    """No engine that tests use knows these conditions; so what they say is compared with the code.
    That they stop nothing that the functions do, the tests of deployments show."""
    _, age, places = resources["DataOverTlsOnly"]["Properties"]["PolicyDocument"]["Statement"]
    roles = {f"{name}Role.Arn" for name in ("Api", "Events", "Worker", "Janitor")}
    for statement in (age, places):
        assert {each["!GetAtt"] for each in statement["Principal"]["AWS"]} == roles
    milliseconds = str(limits.presign_seconds_max * 1_000)
    assert age["Condition"] == {"NumericGreaterThan": {"s3:signatureAge": milliseconds}}
    assert age["Resource"] == {"!Sub": f"{DATA}/*"}
    assert places["Condition"] == {"StringEquals": {"s3:authType": "REST-QUERY-STRING"}}
    patterns = [each["!Sub"].removeprefix(f"{DATA}/") for each in places["NotResource"]]

    def is_writable(key: str) -> bool:
        return any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)

    for namespace in ("mem://bucket", "mem://bucket/a/b"):
        ports = open_memory(TickingClock(), SeededIds(1))
        made = repository.create(ports, NewRepository("lake", namespace))
        repo = open_repository(ports, made)
        handed = addresses.hand_out(repo, "main", "a/b")
        begun = multipart.begin_signed(repo, "main", "c", 1).upload.address
        log = f"{snapshots.table_address(repo, 'prod/visits')}/_delta_log/{3:020}.json"
        for address in (handed, begun, log):
            assert is_writable(address.removeprefix("mem://bucket/")), address
    wrong = ("_lakefs/range", "a/b/_lakefs/range", "a/_graveler/steps/x", "landing/x", *NO_LOGS)
    for key in wrong:
        assert not is_writable(key), key


def test_everything_is_built_by_our_makefile(resources: dict[str, Any]) -> None:
    built = [
        each
        for each in resources.values()
        if each["Type"] in ("AWS::Serverless::Function", "AWS::Serverless::LayerVersion")
    ]
    assert len(built) == 6
    assert {each["Metadata"]["BuildMethod"] for each in built} == {"makefile"}


def test_each_function_has_a_role_and_a_log_of_its_own(resources: dict[str, Any]) -> None:
    functions = of_type(resources, "AWS::Serverless::Function")
    names = ("Api", "Events", "Worker", "Janitor", "Hooks")
    assert set(functions) == {f"{name}Function" for name in names}
    assert len({json.dumps(each["Role"]) for each in functions.values()}) == len(functions)
    assert len({json.dumps(each["LoggingConfig"]) for each in functions.values()}) == len(functions)
    for log in of_type(resources, "AWS::Logs::LogGroup").values():
        assert "RetentionInDays" in log


def test_worker_and_api_delete_objects_and_nobody_scans(resources: dict[str, Any]) -> None:
    granted = {name: actions(each) for name, each in granting(resources).items()}
    assert granted["KeepRecords"] and granted["KeepObjects"]
    deleting = {n for n, of in granted.items() if any(a.startswith("s3:DeleteObj") for a in of)}
    assert deleting == {"WorkerRole", "ApiRole"}  # what, the tests above say
    every = set().union(*granted.values())
    assert not every & {"dynamodb:Scan", "dynamodb:DeleteTable", "s3:DeleteBucket"}
    assert not [action for action in every if "*" in action]


def test_hooks_are_sent_by_a_function_that_may_only_write_its_log(
    resources: dict[str, Any],
) -> None:
    """It has neither the network of the others, nor what they know, nor their packages."""
    role = resources["HooksRole"]["Properties"]
    assert "ManagedPolicyArns" not in role
    assert actions(role) == {"logs:CreateLogStream", "logs:PutLogEvents"}
    log = resources["HooksLog"]["Properties"]["LogGroupName"]["!Sub"]
    (statement,) = statements(role)
    assert statement["Resource"]["!Sub"].endswith(f":log-group:{log}:*")
    function = resources["HooksFunction"]
    given = loaded(TEMPLATE)["Globals"]["Function"]
    own = {"Runtime", "Architectures", "Handler"}
    assert set(function["IgnoreGlobals"]) == set(given) - own
    assert not set(function["Properties"]) & {"Layers", "VpcConfig", "FileSystemConfigs"}
    variables = function["Properties"]["Environment"]["Variables"]
    assert variables == {"GRAVELER_HOOKS_ALLOW": {"!Ref": "HooksAllow"}}
    assert function["Properties"]["Timeout"] > limits.hook_seconds_max
    for name in ("HooksFunction", "HooksRole", "HooksLog"):
        assert resources[name]["Condition"] == "HasHooks"


def test_only_who_runs_hooks_invokes_this_function(resources: dict[str, Any]) -> None:
    """And nobody invokes any other but the schedules theirs."""
    invoking = [
        (name, each)
        for name, properties in granting(resources).items()
        for policy in properties.get("Policies", [properties])
        for each in policy["PolicyDocument"]["Statement"]
        if "lambda:" in json.dumps(each) and name not in ("ScheduleRole", "RolloutRole")
    ]
    assert sorted(name for name, _ in invoking) == ["ApiRole", "WorkerRole"]
    function = resources["HooksFunction"]["Properties"]["FunctionName"]["!Sub"]
    for _, each in invoking:
        condition, granted, _ = each["!If"]
        assert (condition, granted["Action"]) == ("HasHooks", "lambda:InvokeFunction")
        assert granted["Resource"]["!Sub"].endswith(f":function:{function}")


def test_only_the_api_reads_a_log_and_only_its_own(resources: dict[str, Any]) -> None:
    reading = [
        (name, statement)
        for name, each in granting(resources).items()
        for statement in statements(each)
        if any(text.startswith("logs:Filter") for text in _listed(statement["Action"]))
    ]
    ((name, statement),) = reading
    log = resources["ApiLog"]["Properties"]["LogGroupName"]["!Sub"]
    assert (name, statement["Action"]) == ("ApiRole", "logs:FilterLogEvents")
    assert statement["Resource"]["!Sub"].endswith(f":log-group:{log}:*")
    variables = resources["ApiFunction"]["Properties"]["Environment"]["Variables"]
    assert variables["GRAVELER_AUDIT_LOG"]["!If"] == ["UseEfs", "", {"!Sub": log}]


def _listed(actions: Any) -> list[str]:
    return [actions] if isinstance(actions, str) else list(actions)


def test_no_grant_is_for_everything(resources: dict[str, Any]) -> None:
    wide = {
        (name, action)
        for name, each in granting(resources).items()
        for statement in statements(each)
        if statement["Resource"] == "*"
        for action in statement["Action"]
    }
    # EC2 knows no narrower resource for the network interfaces of functions in a VPC, X-Ray none
    # at all.
    known = {("UseCache", "ec2"), ("SendTraces", "xray")}
    assert {(name, action.partition(":")[0]) for name, action in wide} == known, wide


def test_no_secret_is_in_the_environment_of_a_function(
    parameters: dict[str, Any], resources: dict[str, Any]
) -> None:
    """Many may read it.  A function knows the names of secrets, and what its role grants."""
    assert not [name for name, each in parameters.items() if each.get("NoEcho")]
    text = TEMPLATE.read_text()
    assert "{{resolve:" not in text
    variables = loaded(TEMPLATE)["Globals"]["Function"]["Environment"]["Variables"]
    secrets = {name: value for name, value in variables.items() if "SECRET" in name}
    assert secrets.pop("GRAVELER_HOOKS_SECRET_NAME") == {"!Ref": "HooksSecretArn"}
    assert set(secrets) == {"GRAVELER_SECRET", "GRAVELER_SECRET_GENERATION"}
    variables = resources["ApiFunction"]["Properties"]["Environment"]["Variables"]
    own = {name: value for name, value in variables.items() if "SECRET" in name}
    assert own == {"GRAVELER_OIDC_SECRET_NAME": {"!Ref": "OidcSecretArn"}}


def first_choice(value: Any) -> Any:
    """What a resource is if the stack creates it."""
    return value["!If"][1] if "!If" in value else value


def test_functions_read_these_secrets_and_no_other(resources: dict[str, Any]) -> None:
    """That of the identity provider is for the API alone."""
    readable = [
        (name if name == "ApiRole" else "", first_choice(statement["Resource"]))
        for name, each in granting(resources).items()
        for statement in statements(each)
        if "secretsmanager:GetSecretValue" in json.dumps(statement["Action"])
    ]
    assert sorted(readable, key=str) == [
        ("", {"!GetAtt": "Secret.Id"}),
        ("", {"!Ref": "HooksSecretArn"}),
        ("ApiRole", {"!Ref": "OidcSecretArn"}),
    ]


def test_only_the_api_uses_the_key_of_keys_and_only_in_the_context_of_its_stack(
    resources: dict[str, Any],
) -> None:
    users = [
        (name, statement)
        for name, each in granting(resources).items()
        for statement in statements(each)
        if statement["Resource"] == {"!Ref": "KeysKmsKeyArn"}
    ]
    [(name, statement)] = users
    assert name == "ApiRole"
    assert statement["Action"] == ["kms:Encrypt", "kms:Decrypt"]
    context = {"kms:EncryptionContext:graveler": {"!Ref": "AWS::StackName"}}
    assert statement["Condition"] == {"StringEquals": context}


def test_every_partition_of_aws_is_served(resources: dict[str, Any]) -> None:
    """That of China is aws-cn, that of GovCloud aws-us-gov."""
    assert "arn:aws:" not in json.dumps(resources)


@pytest.mark.parametrize("queue", ["Jobs", "Events"])
def test_an_outage_of_two_hours_sends_nothing_to_the_dead_letters(
    resources: dict[str, Any], queue: str
) -> None:
    """What could not be done is delivered again after two minutes, sixty times."""
    deliveries = resources[queue]["Properties"]["RedrivePolicy"]["maxReceiveCount"]
    assert deliveries == 60
    assert deliveries * limits.job_again_seconds == 2 * 3600


def test_alarms_of_the_service_s_own_metrics_watch_what_functions_write(
    resources: dict[str, Any],
) -> None:
    alarms = of_type(resources, "AWS::CloudWatch::Alarm")
    own = {
        name: each
        for name, each in alarms.items()
        if each.get("Namespace") == "Graveler" and name != "RolloutFails"  # from a log
    }
    assert {name: each["MetricName"] for name, each in own.items()} == {
        "JobsFailing": "JobsFailed",
        "CommitsFailing": "CommitsFailed",
        "CommitsSlow": "CommitMilliseconds",
        "TokensWaiting": "SealedTokens",
        "JanitorLate": "RoundsEnded",
    }
    code = "".join(path.read_text() for path in (ROOT / "functions").glob("*/handler.py"))
    variables = loaded(TEMPLATE)["Globals"]["Function"]["Environment"]["Variables"]
    for each in own.values():
        assert f'add_metric("{each["MetricName"]}"' in code
        assert each["Namespace"] == variables["POWERTOOLS_METRICS_NAMESPACE"]
        service = {"Name": "service", "Value": variables["POWERTOOLS_SERVICE_NAME"]}
        assert each["Dimensions"] == [service]


def test_the_function_of_events_knows_its_queue(resources: dict[str, Any]) -> None:
    """It asks for what failed to be delivered again soon."""
    function = resources["EventsFunction"]["Properties"]
    assert function["Environment"]["Variables"] == {"GRAVELER_EVENTS_QUEUE": {"!Ref": "Events"}}


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
