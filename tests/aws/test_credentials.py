"""Credentials of a stack: reset by a command, and accepted across a rotation of the secret."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from graveler.assembly.aws import open_aws, read_secret
from graveler.auth import accounts
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.cli.main import main
from graveler.core.aws import AwsSession, AwsSettings
from graveler.core.clock import SystemIds
from graveler.core.errors import Corrupt, Unauthenticated, Unavailable
from graveler.core.settings import Deployment
from graveler.engine.objects import addresses
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from tests.aws.lake import make_lake


class Made(NamedTuple):
    """A stack as its parts, in an engine."""

    name: str
    deployment: Deployment
    session: AwsSession

    def rotate(self, text: str) -> None:
        client = self.session.client("secretsmanager")
        client.put_secret_value(SecretId=self.name, SecretString=text)
        client.close()

    def authenticator(self) -> Authenticator:
        """Of a function that starts now."""
        aws = open_aws(self.deployment)
        kv, clock, ids = aws.ports.kv, aws.ports.clock, aws.ids
        secret = aws.secret
        keeper = accounts.keeper(kv, clock, ids, secret.key, before=secret.before)
        return Authenticator(keeper, secret.first)

    def first(self) -> NewCredential:
        return read_secret(self.session, self.name).first


@pytest.fixture
def made(
    engine: str,
    session: AwsSession,
    fresh_name: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Made:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", engine)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    lake = make_lake(session, fresh_name())
    cache = str(tmp_path / "cache")
    deployment = Deployment(
        lake.name, lake.name, (lake.name,), cache_folder=cache, endpoint_url=engine
    )
    return Made(lake.name, deployment, session)


def accepts(authenticator: Authenticator, credential: NewCredential) -> bool:
    try:
        authenticator.login(credential.access_key_id, credential.secret_access_key)
    except Unauthenticated:
        return False
    return True


def printed(text: str) -> NewCredential:
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return NewCredential(lines["access_key_id"], lines["secret_access_key"])


def test_the_credentials_of_a_stack_are_reset(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(("credentials", "reset", "--yes", "--stack", made.name)) == 3
    )  # nobody was there yet
    assert "set the service up first" in capsys.readouterr().err
    first = made.first()
    assert accepts(made.authenticator(), first)
    assert main(("credentials", "reset", "--yes", "--stack", made.name)) == 0
    fresh = printed(capsys.readouterr().out)
    assert accepts(made.authenticator(), fresh) and not accepts(made.authenticator(), first)
    assert main(("credentials", "reset", "--yes", "--stack", "no-such-stack")) == 6
    assert main(("credentials", "reset", "--yes", "--stack", made.name, "--save")) == 1


def test_a_rotation_locks_nobody_out(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    first, ids = made.first(), SystemIds()
    early = made.authenticator()
    token = early.login(first.access_key_id, first.secret_access_key).token
    before = open_aws(made.deployment).ports
    repo = repository.create(before, NewRepository("lake", f"s3://{made.name}/lake"))
    address = addresses.hand_out(open_repository(before, repo), "main", "path")
    made.rotate(ids.unique(120))
    late = made.authenticator()
    fresh_token = late.login(first.access_key_id, first.secret_access_key).token
    for process in (early, late):  # functions of both secrets run side by side
        for each in (token, fresh_token):
            assert process.identify(b"Bearer " + each.encode(), "").user
    after = open_aws(made.deployment).ports
    assert addresses.check_address(open_repository(after, repo), "main", "path", address)
    assert main(("credentials", "reset", "--yes", "--stack", made.name)) == 0
    fresh = printed(capsys.readouterr().out)
    made.rotate(ids.unique(120))
    assert accepts(made.authenticator(), fresh) and not accepts(made.authenticator(), first)


def test_a_secret_that_is_none_is_told(made: Made) -> None:
    assert read_secret(made.session, made.name).before == b""
    made.rotate("too short")
    with pytest.raises(Corrupt):
        read_secret(made.session, made.name)
    made.rotate(SystemIds().unique(120))
    assert read_secret(made.session, made.name).before == b""  # the one before was none
    with pytest.raises(Unavailable):
        read_secret(made.session, "no-such-secret")
    with pytest.raises(Unavailable):
        read_secret(AwsSession(AwsSettings("us-east-1", "http://127.0.0.1:9", "a", "b")), "x")
