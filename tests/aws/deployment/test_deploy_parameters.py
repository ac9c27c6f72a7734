"""Parameters reach the template as they are written, and wrong ones are refused before a build."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts import account, deploy, parameters
from scripts.deploy import ROOT, Target, tool
from scripts.parameters import Failed

GROUPS = '{"lake admins": "Admins", "o\'neil": "a\\\\", "b": "c\\"d"}'
TOKENS = ("OidcIssuer=https://id.example.org", "OidcAudience=lake", "OidcKeys=https://id/keys")
NETWORK = ("Efs=on", "VpcId=vpc-1", "SubnetA=subnet-a", "SubnetB=subnet-b")


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return parameters.read(ROOT / "template.yaml")


def refused(*given: str, previous: dict[str, str] | None = None) -> str:
    with pytest.raises(Failed) as caught:
        Target("s", parameters=given).checked(previous or {})
    return str(caught.value)


def taken(*given: str, previous: dict[str, str] | None = None) -> dict[str, str]:
    return Target("s", parameters=given).checked(previous or {})


def test_a_text_of_parameters_needs_no_quotes() -> None:
    text = f"ExistingBuckets=a,b OidcGroups={GROUPS} HooksAllow= --once  Tracing='Active' "
    assert parameters.words(text) == [
        "ExistingBuckets=a,b",
        f"OidcGroups={GROUPS}",
        "HooksAllow=",
        "--once",
        "Tracing=Active",
    ]
    named = '{"CN=lake, OU=Data --x": "Admins Efs=on"}'
    assert parameters.words(f"Efs=off OidcGroups={named}\n  ApiMemory=512 Other=1") == [
        *("Efs=off", f"OidcGroups={named}", "ApiMemory=512", "Other=1"),
    ]
    assert parameters.words("OidcGroups={a Efs=on") == ["OidcGroups={a", "Efs=on"]
    assert parameters.words("") == [] and parameters.words(" x ") == ["x"]


def test_sam_reads_every_value_as_it_is_written(tmp_path: Path) -> None:
    values = {
        "A": GROUPS,
        "B": "it's é 😀",
        "C": "",
        "D": "yes",
        "E": "1.10",
        "F": "a=b c=d",
    }
    code = (
        "import json, sys; from samcli.cli.types import CfnParameterOverridesType as T\n"
        "print(json.dumps(T().convert((sys.argv[1],), None, None)))"
    )
    given = parameters.written(values, tmp_path / "parameters.yaml")
    python = Path(tool("sam")).parent / "python"
    ran = subprocess.run([python, "-c", code, given], capture_output=True, text=True, check=True)
    read = json.loads(ran.stdout)
    assert json.loads(read.pop("A")) == json.loads(values.pop("A"))
    assert read == values


def test_an_empty_value_switches_a_parameter_off() -> None:
    """SAM itself keeps the old value where none is given."""
    previous = {"HooksAllow": "example.org", "HooksSecretArn": "arn", "Efs": "on"}
    found = taken("HooksAllow=", "HooksSecretArn=", "Efs=", "ApiMemory=", previous=previous)
    assert (found["HooksAllow"], found["HooksSecretArn"]) == ("", "")
    assert (found["Efs"], found["ApiMemory"]) == ("off", "1024")
    assert "ExistingBuckets" not in found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("ExistingBucket=a",), "ExistingBucket is not a parameter of the template; Existing"),
        (("OidcGroups",), "'OidcGroups' is not Name=value"),
        (("Runtime=python3.12",), "Runtime is set by RUNTIME="),
        (("Efs=on", "Efs=off"), "Efs is given twice"),
        (("Efs=true",), "Efs=true is not one of on, off"),
        (("ApiMemory=1GB",), "ApiMemory=1GB is not a number"),
        (("ApiMemory=64",), "ApiMemory=64 is not between 256 and 10240"),
        (("DomainName=https://lake.example.org",), "must be a host name"),
        (("AlarmTopicArn=alarms",), "must be the ARN of an SNS topic"),
        (("AwsLoginAccounts=123456789012,12",), "of 12 digits each"),
        (("HooksAllow=https://example.org",), "must be HOST, HOST:PORT or HOST:*"),
        (("OidcHosts=id.example.org,https://x",), "must be HOST or HOST:PORT"),
        (("OidcRedirects=http://example.org/",), "must be https URIs"),
        (("ExistingBuckets=s3://a",), "must be at most 7 names of buckets"),
        ((f"ExistingBuckets={','.join(['abc'] * 8)}",), "must be at most 7 names of buckets"),
        (("OidcGroups={",), "must be a JSON object"),
        (("OidcGroups={lake: Admins}",), "is not JSON"),
        (("OidcUserClaim=a\\'b",), "has a backslash before one"),
        (("OidcIssuer=https://id",), "OidcIssuer, OidcAudience and OidcKeys are given together"),
        (("OidcClientId=x", *TOKENS), "OidcClientId needs OidcSecretArn and OidcRedirects"),
        ((f"OidcGroups={GROUPS}", *TOKENS), "OidcGroups needs OidcGroupsClaim"),
        (("DomainName=lake.example.org",), "DomainName needs CertificateArn"),
        (("HooksAllow=example.org",), "HooksAllow needs HooksSecretArn"),
        (("Efs=on", "SnapStart=on"), "SnapStart and Efs exclude each other"),
        (("WorkerReserved=15",), "WorkerReserved=15 is below the 16 jobs of Concurrency=usual"),
        (("Efs=on",), "Efs needs VpcId, SubnetA and SubnetB"),
        (NETWORK, "Efs needs RouteTableIds, unless"),
        ((*NETWORK[:3], "SubnetB=subnet-a", "RouteTableIds=rtb-1"), "must be two subnets"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_built(
    given: tuple[str, ...], said: str
) -> None:
    assert said in refused(*given)


def test_what_the_functions_accept_passes() -> None:
    secret = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:x-AbCdEf"
    hooks = ("HooksAllow=example.org, 10.0.0.1:8080,localhost:*", f"HooksSecretArn={secret}")
    codes = ("OidcClientId=lake", f"OidcSecretArn={secret}", "OidcHosts=a.example.org:443,b")
    redirects = "OidcRedirects=https://lake.example.org/x?y=1,http://localhost:8000/,http://[::1]/"
    assert taken(*hooks, *TOKENS, *codes, redirects)


def test_all_faults_are_told_at_once() -> None:
    told = refused("Efs=true", "Other=1", "ApiMemory=x")
    assert len(told.splitlines()) == 4 and told.startswith("nothing was deployed:")


def test_what_the_stack_has_counts() -> None:
    previous = dict(each.split("=") for each in TOKENS)
    found = taken("OidcGroupsClaim=groups", f"OidcGroups={GROUPS}", previous=previous)
    assert found["OidcGroups"] == GROUPS
    assert "together" in refused("OidcIssuer=", previous=previous)
    assert taken(*NETWORK, "TableEndpoint=existing", "BucketsEndpoint=existing")
    assert taken(*NETWORK, "RouteTableIds=rtb-1,rtb-2")


def test_values_that_the_stack_has_are_checked_before_anything_is_built() -> None:
    """CloudFormation would refuse them after the build, with the pattern of the new template."""
    eight = {"ExistingBuckets": ",".join(["abc"] * 8), "Runtime": "python3.8", "Gone": "x"}
    told = refused("ApiMemory=512", previous=eight)
    assert "the stack has ExistingBuckets=abc," in told and "at most 7 names of buckets" in told
    assert "Runtime" not in told and "Gone" not in told
    assert taken("ExistingBuckets=abc", previous=eight)["ExistingBuckets"] == "abc"


def test_blanks_after_commas_are_removed_where_the_template_refuses_them() -> None:
    previous = {"ExistingBuckets": "abc, def ,ghi", "OidcGroups": "", "HooksAllow": ""}
    assert taken(previous=previous)["ExistingBuckets"] == "abc,def,ghi"
    assert taken("ReadOnlyBuckets=abc, def")["ReadOnlyBuckets"] == "abc,def"
    tidy = {"ExistingBuckets": "abc,def"}
    assert "ExistingBuckets" not in taken(previous=tidy)  # SAM keeps it


@pytest.mark.parametrize(
    ("given", "previous"),
    [
        ((), None),
        (("ExistingTable=",), {"ApiMemory": "1024", "ExistingTable": "old"}),
    ],
)
def test_a_table_is_protected_only_after_the_deployment_that_makes_it(
    given: tuple[str, ...], previous: dict[str, str] | None
) -> None:
    """A deployment that is rolled back deletes the table that it has made."""
    protected = ("TableDeletionProtection=on", *given)
    assert "then once more with on" in refused(*protected, previous=previous)
    assert taken(*protected, previous={"ApiMemory": "1024"})
    assert taken("TableDeletionProtection=on", "ExistingTable=old")


def test_defaults_break_no_rule(template: dict[str, Any]) -> None:
    assert taken() == {"Runtime": Target().declared, "Architecture": Target().architecture}
    for name, each in template["Parameters"].items():
        if name not in parameters.OF_THE_LAYER:
            assert taken(f"{name}=")[name] == str(each["Default"])


def test_the_template_itself_refuses_the_same(template: dict[str, Any]) -> None:
    """Somebody may call SAM without the script: rules use only functions that they may have."""
    allowed = {"!And", "!Or", "!Not", "!Equals", "!Ref", "Fn::EachMemberEquals"}

    def functions(value: Any) -> set[str]:
        if isinstance(value, list):
            return set().union(*map(functions, value))
        if not isinstance(value, dict):
            return set()
        return set(value) | set().union(*map(functions, value.values()))

    for rule in template["Rules"].values():
        assert functions(rule.get("RuleCondition", "")) <= allowed
        for each in rule["Assertions"]:
            assert functions(each["Assert"]) <= allowed


def test_the_examples_of_the_documents_are_taken() -> None:
    """Those with an ellipsis name parameters that exist."""
    texts: list[str] = []
    for page in sorted((ROOT / "docs" / "how-to").glob("*.md")):
        found = re.findall(r"make deploy [^`]*?ARGS=([\"'])(.*?)\1", page.read_text(), re.S)
        texts += [text for _, text in found]
    assert len(texts) > 4
    whole = [text for text in texts if "…" not in text and "HooksAllow" not in text]
    for text in whole:
        assert taken(*parameters.words(text))
    declared = parameters.read(ROOT / "template.yaml")["Parameters"]
    names = {word.partition("=")[0] for text in texts for word in parameters.words(text)}
    assert names <= set(declared) and {"OidcGroups", "SecretGeneration"} <= names


def test_sam_is_told_of_the_rules_of_an_account() -> None:
    given = ["--tags", "team=data 'owner=a b'", "--role", "arn:role", "--bucket", "ours"]
    found = deploy.sam_options(deploy.options_of([*given, "--confirm"]))
    assert found == (
        *("--s3-bucket", "ours", "--role-arn", "arn:role"),
        *("--tags", "team=data", "owner=a b", "--confirm-changeset"),
    )
    plain = deploy.sam_options(deploy.options_of([]))
    assert plain == ("--resolve-s3", "--no-confirm-changeset")
    with pytest.raises(Failed, match="'team'"):
        deploy.sam_options(deploy.options_of(["--tags", "team"]))


def test_the_command_hands_on_its_variables(tmp_path: Path) -> None:
    """As make calls it: JSON arrives whole, and without an environment of its own it says which."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "$ARGS"\n')
    python.chmod(0o755)
    variables = {"PATH": "/usr/bin:/bin", "ARGS": f"OidcGroups={GROUPS}", "TAGS": "a=b c=d"}
    variables |= {"ROLE": "arn:r", "BUCKET": "b", "CONFIRM": "1", "STACK": "s"}
    command = ["sh", str(ROOT / "scripts" / "deploy.sh")]
    ran = subprocess.run(
        [*command, str(python)], env=variables, capture_output=True, text=True, check=True
    )
    words = ["-m", "scripts.deploy", "--stack", "s", "--tags", "a=b c=d", "--role", "arn:r"]
    assert ran.stdout.splitlines() == [
        *(*words, "--bucket", "b", "--confirm"),
        f"OidcGroups={GROUPS}",
    ]
    missing = subprocess.run(
        [*command, str(tmp_path / "none")], env=variables, capture_output=True, text=True
    )
    assert missing.returncode == 1 and "make setup" in missing.stderr


class Account:
    """Answers as the services that are asked before a deployment."""

    def __init__(self, limit: int = 1_000, zones: str = "ab", main: str = "rtb-2") -> None:
        self._limit, self._zones, self._main = limit, zones, main

    def __call__(self, _service: str, _url: str) -> "Account":
        return self

    def get_account_settings(self) -> Any:
        return {"AccountLimit": {"ConcurrentExecutions": self._limit}}

    def describe_subnets(self, SubnetIds: list[str]) -> Any:
        return {
            "Subnets": [
                {"SubnetId": name, "VpcId": "vpc-1", "AvailabilityZone": zone}
                for name, zone in zip(SubnetIds, self._zones, strict=True)
            ]
        }

    def describe_route_tables(self, **_: Any) -> Any:
        own = {"RouteTableId": "rtb-1", "Associations": [{"SubnetId": "subnet-a", "Main": False}]}
        return {
            "RouteTables": [{"RouteTableId": self._main, "Associations": [{"Main": True}]}, own]
        }


class Denied(Account):
    def get_account_settings(self) -> Any:
        from botocore.exceptions import ClientError

        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "x")

    def describe_subnets(self, SubnetIds: list[str]) -> Any:
        return self.get_account_settings()


def warned(template: dict[str, Any], asked: Account, *given: str) -> list[str]:
    return account.check(parameters.in_force(template, taken(*given)), asked)


def test_an_account_with_few_functions_at_once_is_warned(template: dict[str, Any]) -> None:
    assert warned(template, Account()) == []
    [told] = warned(template, Account(limit=10))
    assert "10 functions at the same time" in told and "Concurrency=few" in told
    assert warned(template, Account(limit=50), "Concurrency=few") == []
    [told] = warned(template, Account(limit=110), "ApiReserved=10", "WorkerReserved=16")
    assert "26 reserved of 110" in told
    assert set(account.AT_ONCE) == set(template["Mappings"]["AtOnce"])
    for name, each in template["Mappings"]["AtOnce"].items():
        assert account.AT_ONCE[name] == each["Events"] + each["Jobs"]


def test_a_network_in_which_functions_cannot_work_is_refused(template: dict[str, Any]) -> None:
    network = (*NETWORK, "RouteTableIds=rtb-1,rtb-2")
    assert warned(template, Account(), *network) == []
    with pytest.raises(Failed, match="in one zone"):
        warned(template, Account(zones="aa"), *network)
    with pytest.raises(Failed, match="not both in VpcId=vpc-2"):
        warned(template, Account(), NETWORK[0], "VpcId=vpc-2", *network[2:])
    with pytest.raises(Failed, match="subnet-b are in rtb-3"):
        warned(template, Account(main="rtb-3"), *network)
    existing = ("TableEndpoint=existing", "BucketsEndpoint=existing")
    assert warned(template, Account(main="rtb-3"), *network, *existing) == []


def test_what_may_not_be_asked_is_told(template: dict[str, Any]) -> None:
    told = warned(template, Denied(), *NETWORK, "RouteTableIds=rtb-1,rtb-2")
    assert len(told) == 2 and all("could not be checked" in each for each in told)


def test_the_script_needs_only_the_environment_of_its_tools() -> None:
    """`make deploy` makes no other: its program must find all that it imports there."""
    python = Path(tool("sam")).parent / "python"
    code = "import scripts.deploy, boto3, botocore, pip; print('found')"
    ran = subprocess.run([python, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.stdout == "found\n", ran.stderr
    rule = next(
        each for each in (ROOT / "Makefile").read_text().splitlines() if each.startswith("deploy:")
    )
    assert rule.partition("##")[0].split() == ["deploy:", "$(TOOLED)"]
