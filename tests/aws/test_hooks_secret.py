"""A function reads the secret of hooks from Secrets Manager, not from its environment."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.core.aws import AwsSession
from tests.aws.lake import ask, build, make_lake, sandboxes, told

pytestmark = pytest.mark.xdist_group("sandboxes")
ACTION = b"on: {pre-create-tag: }\nhooks: [{id: a, type: lua}]\n"


def test_a_function_runs_hooks_with_the_secret_of_the_secrets_manager(
    engine: str, session: AwsSession, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    lake = make_lake(session, fresh_name())
    name = f"{lake.name}-hooks"
    text = json.dumps({"GRAVELER_HOOKS_SECRET": "s" * 32, "LAKEFSACTION_TOKEN": "t"})
    session.client("secretsmanager").create_secret(Name=name, SecretString=text)
    more = {"GRAVELER_HOOKS_ALLOW": "hooks.example.com", "GRAVELER_HOOKS_SECRET_NAME": name}
    more["GRAVELER_HOOKS_FUNCTION"] = f"{lake.name}-hooks"
    with sandboxes(lake, build("api", tmp_path / "api"), engine, 1, more=more) as (sandbox,):
        body = {"name": "lake", "storage_namespace": f"s3://{lake.name}/lake"}
        told(lake, sandbox, "POST", "/repositories", body)
        main = "/repositories/lake/branches/main"
        path = {"path": "_lakefs_actions/a.yaml"}
        assert ask(lake, sandbox, "POST", f"{main}/objects", path, ACTION).status == 201
        told(lake, sandbox, "POST", f"{main}/commits", {"message": "gate"})
        tag = json.dumps({"id": "v1", "ref": "main"}).encode()
        vetoed = ask(lake, sandbox, "POST", "/repositories/lake/tags", body=tag)
        assert (vetoed.status, b"lua hooks are not supported" in vetoed.body) == (412, True)
