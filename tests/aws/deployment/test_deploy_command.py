"""What `scripts/deploy.py` and `samconfig.toml` tell SAM, and what they tell the user."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from scripts import deploy
from scripts.deploy import ROOT, RUNTIMES
from tests.aws.deployment.templates import loaded, of_type


def test_the_output_of_sam_is_not_held_back(capfd: pytest.CaptureFixture[str]) -> None:
    """A deployment takes minutes, and asks a question."""
    code = "import sys; print('progress'); print('reason', file=sys.stderr); sys.exit({})"
    deploy._sam([sys.executable, "-c", code.format(0)], {}, "deploy")
    assert capfd.readouterr() == ("progress\n", "reason\n")
    with pytest.raises(deploy.Failed, match="sam deploy failed"):
        deploy._sam([sys.executable, "-c", code.format(1)], {}, "deploy")
    assert capfd.readouterr() == ("progress\n", "reason\n")


def test_sam_itself_may_make_the_roles() -> None:
    """`sam deploy` without the script.  Roles with names would need CAPABILITY_NAMED_IAM."""
    given = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
    assert given["version"] == 0.1
    parameters = given["default"]["deploy"]["parameters"]
    assert parameters["capabilities"] == "CAPABILITY_IAM"
    resources = loaded(ROOT / "template.yaml")["Resources"]
    roles = of_type(resources, "AWS::IAM::Role")
    assert roles and not [name for name, each in roles.items() if "RoleName" in each]
    policies = of_type(resources, "AWS::IAM::ManagedPolicy")
    assert not [name for name, each in policies.items() if "ManagedPolicyName" in each]


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
    monkeypatch.setattr(sys, "executable", str(tmp_path / present[-1]))
    with pytest.raises(deploy.Failed, match="LAYER_PYTHON=") as caught:
        deploy._interpreter(RUNTIMES[-1])
    assert re.findall(r"\bRUNTIME=(\S+)", str(caught.value)) == ([named] if named else [])
    assert not named or named in allowed
