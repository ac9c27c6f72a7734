"""What `scripts/deploy.py` tells SAM, and what it tells the user."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from scripts import deploy
from scripts.deploy import ROOT, RUNTIMES
from tests.aws.deployment.templates import loaded, of_type


def test_the_output_of_sam_is_not_held_back(capfd: pytest.CaptureFixture[str]) -> None:
    """A deployment takes minutes, and asks a question."""
    code = "import sys; print('progress'); print('reason', file=sys.stderr); sys.exit({})"
    deploy.run_sam([sys.executable, "-c", code.format(0)], {}, "deploy")
    assert capfd.readouterr() == ("progress\n", "reason\n")
    with pytest.raises(deploy.Failed, match="sam deploy failed"):
        deploy.run_sam([sys.executable, "-c", code.format(1)], {}, "deploy")
    assert capfd.readouterr() == ("progress\n", "reason\n")


def test_no_role_has_a_name() -> None:
    """Roles with names would need CAPABILITY_NAMED_IAM."""
    resources = loaded(ROOT / "template.yaml")["Resources"]
    roles = of_type(resources, "AWS::IAM::Role")
    assert roles and not [name for name, each in roles.items() if "RoleName" in each]
    policies = of_type(resources, "AWS::IAM::ManagedPolicy")
    assert not [name for name, each in policies.items() if "ManagedPolicyName" in each]


def test_the_rights_of_a_deployer_cover_what_the_template_makes() -> None:
    text = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
    caller, role = (json.loads(each) for each in re.findall(r"```json\n(.*?)```", text, re.S))
    granted = {
        action.partition(":")[0]
        for statement in role["Statement"]
        for action in statement["Action"]
    }
    resources = loaded(ROOT / "template.yaml")["Resources"]
    kinds = {each["Type"].split("::")[1].lower() for each in resources.values()}
    prefixes = {"apigatewayv2": "apigateway", "efs": "elasticfilesystem", "serverless": "lambda"}
    assert {prefixes.get(kind, kind) for kind in kinds} <= granted
    assert "scheduler" in granted and "codedeploy" in granted  # which SAM adds
    linked = [e for e in role["Statement"] if "iam:CreateServiceLinkedRole" in e["Action"]]
    assert [each["Resource"] for each in linked] == ["arn:*:iam::*:role/aws-service-role/*"]
    asked = {action for each in caller["Statement"] for action in each["Action"]}
    assert {"lambda:InvokeFunction", "lambda:GetAccountSettings", "ec2:DescribeSubnets"} <= asked
    assert "cloudformation:ListChangeSets" in asked  # whether changes were declined
    assert {"lambda:ListVersionsByFunction", "lambda:ListAliases", "lambda:DeleteFunction"} <= asked


ABSENT = ("ValidationError", "Stack with id s does not exist")


class CloudFormation(BaseHTTPRequestHandler):
    """Answers as CloudFormation, for one stack with the status of its server."""

    server: "Stacks"

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        action = parse_qs(self.rfile.read(length).decode())["Action"][0]
        self.server.actions.append(action)
        if action == "DeleteStack":
            self.server.status = ""
        status, body = self._answer(action)
        self.send_response(status)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, action: str) -> tuple[int, bytes]:
        if action == "DescribeStacks" and not self.server.status:
            code, message = self.server.refusal
            error = f"<Code>{code}</Code><Message>{message}</Message>"
            return 400, f"<ErrorResponse><Error>{error}</Error></ErrorResponse>".encode()
        pair = "<ParameterKey>Efs</ParameterKey><ParameterValue>on</ParameterValue>"
        member = (
            "<member><StackName>s</StackName><CreationTime>2026-01-01T00:00:00Z</CreationTime>"
            f"<Parameters><member>{pair}</member></Parameters>"
            f"<StackStatus>{self.server.status}</StackStatus></member>"
        )
        result = f"<{action}Result><Stacks>{member}</Stacks></{action}Result>"
        return 200, f"<{action}Response>{result}</{action}Response>".encode()

    def log_message(self, *_: object) -> None:
        pass


class Stacks(ThreadingHTTPServer):
    def __init__(self, status: str) -> None:
        super().__init__(("127.0.0.1", 0), CloudFormation)
        self.status = status
        self.refusal = ABSENT
        self.actions: list[str] = []


@contextmanager
def stacks(status: str) -> Iterator[tuple[Stacks, str]]:
    with Stacks(status) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_the_remains_of_a_creation_that_was_rolled_back_are_deleted() -> None:
    with stacks("ROLLBACK_COMPLETE") as (server, url):
        assert deploy.clear_failed("s", url)
    assert server.actions == ["DescribeStacks", "DeleteStack", "DescribeStacks"]


@pytest.mark.parametrize(
    "status", ["", "CREATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "ROLLBACK_IN_PROGRESS"]
)
def test_no_other_stack_is_deleted(status: str) -> None:
    with stacks(status) as (server, url):
        assert not deploy.clear_failed("s", url)
    assert server.actions == ["DescribeStacks"]


@pytest.mark.parametrize(
    ("status", "found"),
    [("", {}), ("ROLLBACK_COMPLETE", {}), ("UPDATE_COMPLETE", {"Efs": "on"})],
)
def test_a_stack_s_parameters_are_read(status: str, found: dict[str, str]) -> None:
    with stacks(status) as (_, url):
        assert deploy.previous_parameters("s", url) == found


@pytest.mark.parametrize(
    "refusal",
    [
        ("AccessDenied", "not authorized to perform cloudformation:DescribeStacks"),
        ("ExpiredToken", "The security token included in the request is expired"),
        ("ValidationError", "1 validation error detected: stackName"),
    ],
)
def test_only_a_stack_that_does_not_exist_has_no_parameters(refusal: tuple[str, str]) -> None:
    """Without the parameters of a stack that exists, checks and warnings would be about another."""
    with stacks("") as (server, url):
        server.refusal = refusal
        for read in (deploy.previous_parameters, deploy.clear_failed, deploy.outputs):
            with pytest.raises(deploy.Failed, match=refusal[1]):
                read("s", url)


TINY = """
Parameters: {ApiMemory: {Type: Number, Default: 1024}}
Resources:
  Queue: {Type: "AWS::SQS::Queue", Properties: {VisibilityTimeout: !Ref ApiMemory}}
"""
CONFIRMED = """
import sys
from pathlib import Path
from scripts import deploy
target = deploy.Target(sys.argv[1], options=deploy.sam_options(deploy.options_of(["--confirm"])))
target = target._replace(parameters=tuple(sys.argv[4:]))
variables = {**deploy.LOCAL_CREDENTIALS, deploy.ENDPOINT: sys.argv[3]}
try:
    deploy.deploy(target, Path(sys.argv[2]), variables, {"ApiMemory": "1024"})
except deploy.Failed as failure:
    sys.exit(str(failure))
"""


def test_declined_changes_are_no_deployment(
    tmp_path: Path, engine: str, fresh_name: Callable[[], str]
) -> None:
    """SAM ends with 0 if the answer is no, as if there were no changes."""
    name, template = fresh_name(), tmp_path / "template.yaml"
    template.write_text(TINY)

    def run(answer: str, *given: str) -> tuple[int, str]:
        ran = subprocess.run(
            [sys.executable, "-c", CONFIRMED, name, str(template), engine, *given],
            input=answer,
            cwd=ROOT,
            env={**os.environ, "SAM_CLI_POLL_DELAY": "0.2"},
            capture_output=True,
            text=True,
        )
        print(ran.stdout, ran.stderr)
        return ran.returncode, ran.stdout + ran.stderr

    declined = f"nothing was deployed: you declined the changes of the stack {name}"
    for answer, given, expected, said in (
        ("n\n", "", 1, declined),  # the creation
        ("y\n", "", 0, "Successfully created/updated stack"),
        ("n\n", "ApiMemory=300", 1, declined),
        ("", "", 0, "No changes to deploy"),  # nothing is asked
    ):
        status, told = run(answer, *given.split())
        assert (status, said in told) == (expected, True)


def _interpreters(folder: Path, *versions: str) -> None:
    for version in versions:
        program = folder / version
        program.write_text(f"#!/bin/sh\necho {version}\n")
        program.chmod(0o755)


@pytest.mark.parametrize(
    ("present", "named"),
    [
        (("python3.11", "python3.12", "python3.13"), "python3.13"),
        (("python3.12",), "python3.12"),
        (("python3.10", "python3.11"), ""),
    ],
)
def test_a_missing_interpreter_is_answered_with_a_runtime_that_can_be_deployed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: tuple[str, ...], named: str
) -> None:
    allowed = loaded(ROOT / "template.yaml")["Parameters"]["Runtime"]["AllowedValues"]
    _interpreters(tmp_path, *present)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / present[-1]))
    with pytest.raises(deploy.Failed, match="LAYER_PYTHON=") as caught:
        deploy.interpreter(RUNTIMES[-1])
    assert re.findall(r"\bRUNTIME=(\S+)", str(caught.value)) == ([named] if named else [])
    assert not named or named in allowed


def test_an_interpreter_that_pyenv_made_is_found_although_its_shim_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shims, made = tmp_path / "shims", tmp_path / "versions" / "3.99.1" / "bin"
    shims.mkdir()
    made.mkdir(parents=True)
    (shims / "python3.99").write_text("#!/bin/sh\nexit 127\n")
    (shims / "python3.99").chmod(0o755)
    _interpreters(made, "python3.99")
    monkeypatch.setenv("PATH", str(shims))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert deploy.found("python3.99") == str(made / "python3.99")
