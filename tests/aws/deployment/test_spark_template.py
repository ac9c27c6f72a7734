"""The template of Spark jobs is valid, and each role may do what its job does."""

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

import boto3
import pytest

import graveler
from scripts.deploy import ROOT
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
from tests.waiting import until

TEMPLATE = ROOT / "infra" / "spark.yaml"
KEY_USES = ("Decrypt", "GenerateDataKey")
ROLES = ("ImportRole", "CommitRole", "CollectRole")


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    return resources_of(TEMPLATE)


def everything(resources: dict[str, Any], role: str) -> list[dict[str, Any]]:
    """All that a role may do, by policies of its own and managed ones."""
    found = list(statements(resources[role]["Properties"]))
    for each in resources[role]["Properties"]["ManagedPolicyArns"]:
        found += statements(resources[each["!Ref"]]["Properties"])
    return found


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def may(resources: dict[str, Any], role: str, action: str, where: str) -> bool:
    """Whether the role may do this to an object, `DataBucket/key` for one in that bucket."""
    verdicts = {
        each["Effect"]
        for each in everything(resources, role)
        if action in listed(each["Action"])
        for resource in listed(each["Resource"])
        if matches(pattern(resource), f"arn:aws:s3:::{where}")
    }
    return verdicts == {"Allow"}


def pattern(resource: Any) -> str:
    """With the names of parameters as their values."""
    text = resource if isinstance(resource, str) else resource.get("!Sub", "")
    text = str(text).replace("${AWS::Partition}", "aws")
    return text.replace("${", "").replace("}", "")


def test_no_statement_grants_everything(resources: dict[str, Any]) -> None:
    policies = of_type(resources, "AWS::IAM::ManagedPolicy")
    for properties in (*policies.values(), *of_type(resources, "AWS::IAM::Role").values()):
        for each in statements(properties):
            assert "*" not in "".join(listed(each["Action"]))
            for resource in listed(each["Resource"]) if each["Effect"] == "Allow" else []:
                assert set(resource) <= {"!Sub", "!Ref"} and resource != {"!Sub": "*"}
        assert "s3:PutObject" not in actions(properties) or properties is policies["WriteRanges"]
    trusted = {
        service
        for name in ROLES
        for each in resources[name]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        for service in each["Principal"]["Service"]
    }
    assert trusted == {"glue.amazonaws.com", "emr-serverless.amazonaws.com"}


RANGE, OBJECT = (
    "DataBucket/lake/_lakefs/0a",
    "DataBucket/lake/data/gqmsl4kpdnzqvbmc0000/gqmsl4kpdnzqvbmc0001",
)
MARK, KEPT = "DataBucket/lake/_graveler/jobs/j/part-1", "DataBucket/_graveler/gc/cluster/r/s.json"


@pytest.mark.parametrize(
    ("action", "where", "roles"),
    [
        ("s3:GetObject", RANGE, ROLES),
        ("s3:PutObject", RANGE, ROLES),
        ("s3:PutObject", MARK, ROLES),
        ("s3:DeleteObject", MARK, ["CommitRole", "CollectRole"]),
        ("s3:DeleteObject", KEPT, ["CollectRole"]),
        ("s3:DeleteObjectVersion", RANGE, ["CollectRole"]),
        ("s3:DeleteObjectVersion", OBJECT, ["CollectRole"]),
        ("s3:DeleteObjectVersion", "DataBucket/lake/data/of-mine/x", []),
        ("s3:DeleteObject", "DataBucket/lake/x", []),
        ("s3:DeleteObject", "DataBucket/metadata/table=x/day=2026-01-01/part-0", []),
        ("s3:DeleteObject", "DataBucket/my_lakefs/x", []),
        ("s3:PutObject", "DataBucket/my_lakefs/x", []),
        ("s3:GetObject", "DataBucket/lake/my_graveler/x", []),
        ("s3:PutObject", "DataBucket/_graveler/gc/hashes/x", ROLES),
        ("s3:PutObject", "DataBucket/_lakefs/x", ROLES),
        ("s3:DeleteObject", "DataBucket/my_graveler/jobs/x", []),
        ("s3:DeleteObject", "DataBucket/_graveler/jobs/j/part-1", ["CommitRole", "CollectRole"]),
        ("s3:PutObject", OBJECT, []),
        ("s3:GetObject", OBJECT, []),
        ("s3:GetObject", "SourceBucket/rows/part-1", ["ImportRole"]),
        ("s3:PutObject", "SourceBucket/rows/part-1", []),
        ("s3:GetObject", "CodeBucket/graveler/spark_job.py", ROLES),
        ("s3:GetObject", "CodeBucket/other", []),
    ],
)
def test_a_role_may_do_what_its_job_does(
    resources: dict[str, Any], action: str, where: str, roles: list[str]
) -> None:
    assert [role for role in ROLES if may(resources, role, action, where)] == list(roles)


def test_a_collection_deletes_only_names_of_our_layout(resources: dict[str, Any]) -> None:
    for action in ("s3:DeleteObject", "s3:DeleteObjectVersion"):
        for key in OURS:
            assert may(resources, "CollectRole", action, f"DataBucket/{key}"), key
        for key in NOT_OURS:
            assert not may(resources, "CollectRole", action, f"DataBucket/{key}"), key


def test_managed_policies_fit(resources: dict[str, Any]) -> None:
    """IAM takes 6,144 characters, white space apart."""
    for name, each in of_type(resources, "AWS::IAM::ManagedPolicy").items():
        written = json.dumps(each["PolicyDocument"], separators=(",", ":"))
        assert len(written) < 6_144, name


def test_the_template_may_be_deployed_without_a_bucket() -> None:
    """CloudFormation takes 51,200 bytes of a template that is not in a bucket."""
    assert TEMPLATE.stat().st_size <= 51_200


def test_denials_are_those_of_the_worker(resources: dict[str, Any]) -> None:
    worker = resources_of(ROOT / "template.yaml")
    for name in ("NothingElse", "NothingElseSigned", "NothingElseInSignatures"):
        assert resources[name] == worker[name]


def test_one_role_reads_the_table_and_none_writes_it(resources: dict[str, Any]) -> None:
    found = {
        (role, action)
        for role in ROLES
        for each in everything(resources, role)
        for action in listed(each["Action"])
        if action.startswith("dynamodb:")
    }
    assert found == {("CommitRole", "dynamodb:Query")}


def test_the_only_secret_is_the_one_that_is_named(resources: dict[str, Any]) -> None:
    for role in ROLES:
        read = [
            each["Resource"]
            for each in everything(resources, role)
            if each["Action"] == "secretsmanager:GetSecretValue"
        ]
        assert read == [{"!Ref": "ApiSecret"}]
        # It may be under a key of its own, which is used in the context of this secret alone.
        (key,) = [each for each in everything(resources, role) if "key/*" in str(each["Resource"])]
        equal = key["Condition"]["StringEquals"]
        assert key["Action"] == "kms:Decrypt" and set(key["Condition"]) == {"StringEquals"}
        assert equal["kms:ViaService"]["!Sub"].startswith("secretsmanager.")
        assert equal["kms:EncryptionContext:SecretARN"] == {"!Ref": "ApiSecret"}


def test_each_job_has_its_role_and_no_secret_among_its_words(resources: dict[str, Any]) -> None:
    jobs = of_type(resources, "AWS::Glue::Job")
    assert {name: each["Role"]["!GetAtt"] for name, each in jobs.items()} == {
        role.replace("Role", "Job"): f"{role}.Arn" for role in ROLES
    }
    for each in jobs.values():
        script = each["Command"]["ScriptLocation"]["!Sub"]
        assert script.endswith("/graveler/spark_job.py")
        assert set(each["DefaultArguments"]) == {
            *("--additional-python-modules", "--enable-continuous-cloudwatch-log")
        }


def test_keys_of_buckets_are_used_only_where_they_are_named(resources: dict[str, Any]) -> None:
    found = {
        (role, action, each["Resource"]["!Ref"])
        for role in ROLES
        for each in everything(resources, role)
        for action in listed(each["Action"])
        if action.startswith("kms:") and "!Ref" in each["Resource"]  # that of the secret apart
    }
    written = {(role, f"kms:{name}", "DataKey") for role in ROLES for name in KEY_USES}
    assert found == {*written, ("ImportRole", "kms:Decrypt", "SourceKey")}


def test_glue_installs_what_the_extra_of_spark_names_at_versions_of_the_lock(
    resources: dict[str, Any],
) -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split("[<>=]", each)[0] for each in extra["optional-dependencies"]["spark"]}
    mapped = loaded(TEMPLATE)["Mappings"]["Packages"]
    for version, lock in (("5.0", 3), ("5.1", 3), ("6.0", 4)):
        text = (ROOT / "requirements" / f"spark{lock}.txt").read_text()
        pins = {pin for name in names for pin in re.findall(rf"^{name}==\S+", text, re.M)}
        assert len(pins) == len(names) and set(mapped[version]["Pins"].split(",")) == pins
    page = (ROOT / "docs" / "how-to" / "spark-platforms.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"graveler-(\S+)-py3-none-any\.whl,(\S+)\"}", page)
    assert shown == (graveler.__version__, mapped["5.1"]["Pins"]) and "--glue-version 5.1" in page
    jobs = of_type(resources, "AWS::Glue::Job")
    assert len(jobs) == 3
    for job in jobs.values():
        text, values = job["DefaultArguments"]["--additional-python-modules"]["!Sub"]
        assert text.endswith("/${Wheel},${Pins}") and values.keys() == {"Pins"}


def test_the_jobs_of_glue_are_deployed(engine: str, fresh_name: Callable[[], str]) -> None:
    """Into the local engine, which does not know applications of EMR Serverless."""
    template = TEMPLATE.read_text(encoding="utf-8")
    head, _, rest = template.partition("  # --- EMR Serverless")
    outputs = rest.partition("Outputs:")[2].replace(
        "  ApplicationId:\n    Value: !Ref Application\n", ""
    )
    name = fresh_name()
    values = {
        "DataBucket": "data-bucket",
        "SourceBucket": "source-bucket",
        "CodeBucket": "code-bucket",
        "Table": "graveler",
        "Wheel": "graveler-0.1.0-py3-none-any.whl",
        "ApiSecret": "arn:aws:secretsmanager:us-east-1:000000000000:secret:api-x",
        "GlueVersion": "6.0",
    }
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    at = {"endpoint_url": engine, "region_name": "us-east-1", **keys}
    stacks = boto3.client("cloudformation", **at)
    stacks.create_stack(
        StackName=name,
        TemplateBody=f"{head}Outputs:{outputs}",
        Capabilities=["CAPABILITY_IAM"],
        Parameters=[{"ParameterKey": key, "ParameterValue": each} for key, each in values.items()],
    )
    until(lambda: state_of(stacks, name) == "CREATE_COMPLETE", "the stack is deployed")
    jobs = boto3.client("glue", **at).get_job(JobName=f"{name}-import")["Job"]
    modules = jobs["DefaultArguments"]["--additional-python-modules"].split(",")
    assert modules[0] == f"s3://code-bucket/graveler/{values['Wheel']}"
    assert "pyarrow==26.0.1" in modules and jobs["GlueVersion"] == "6.0"
    stacks.delete_stack(StackName=name)


def state_of(stacks: Any, name: str) -> str:
    found: str = stacks.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
    assert "FAILED" not in found and "ROLLBACK" not in found, found
    return found
