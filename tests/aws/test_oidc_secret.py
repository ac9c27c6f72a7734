"""A function reads the secret of its client of an identity provider from Secrets Manager, not from
its environment."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.core.aws import AwsSession
from tests.auth.provider import AUDIENCE, CLIENT, CLIENT_SECRET, ISSUER, REDIRECT, key_set
from tests.aws.lake import ask, build, make_lake, sandboxes

pytestmark = pytest.mark.xdist_group("sandboxes")


def test_a_function_accepts_codes_with_the_secret_of_the_secrets_manager(
    engine: str, session: AwsSession, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    """Without the secret the function would not start, and without a client id it would answer
    501."""
    lake = make_lake(session, fresh_name())
    name = f"{lake.name}-oidc"
    text = json.dumps({"GRAVELER_OIDC_CLIENT_SECRET": CLIENT_SECRET})
    session.client("secretsmanager").create_secret(Name=name, SecretString=text)
    more = {
        "GRAVELER_OIDC_ISSUER": ISSUER,
        "GRAVELER_OIDC_AUDIENCE": AUDIENCE,
        "GRAVELER_OIDC_KEYS": key_set().decode(),
        "GRAVELER_OIDC_CLIENT_ID": CLIENT,
        "GRAVELER_OIDC_SECRET_NAME": name,
        "GRAVELER_OIDC_REDIRECTS": REDIRECT,
    }
    body = {"code": "c", "state": "s", "redirect_uri": REDIRECT + "/other"}
    with sandboxes(lake, build("api", tmp_path / "api"), engine, 1, more=more) as (sandbox,):
        refused = ask(lake, sandbox, "POST", "/sts/login", body=json.dumps(body).encode())
    assert refused.status == 400 and b"GRAVELER_OIDC_REDIRECTS" in refused.body
