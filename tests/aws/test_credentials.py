"""Credentials of a stack: reset by a command, and accepted across a rotation of the secret."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graveler.assembly.aws import open_aws, read_secret
from graveler.auth import accounts
from graveler.auth.authenticator import Authenticator
from graveler.auth.credentials import NewCredential
from graveler.cli.main import main
from graveler.core.aws import AwsSession, AwsSettings, Client
from graveler.core.clock import SystemIds
from graveler.core.errors import Corrupt, Unauthenticated, Unavailable
from graveler.core.settings import Deployment
from graveler.engine.objects import addresses
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from tests.aws.lake import make_lake
from tests.fault_proxy import fault_proxy


class CountingSession(AwsSession):
    """Tells which clients were made."""

    def __init__(self, settings: AwsSettings) -> None:
        super().__init__(settings)
        self.made: list[str] = []

    def client(self, service: str, *given: Any, **named: Any) -> Client:
        self.made.append(service)
        return super().client(service, *given, **named)


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


def test_a_rotation_without_a_reset_is_mended_by_one(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    first, ids = made.first(), SystemIds()
    assert accepts(made.authenticator(), first)
    for _ in range(2):
        made.rotate(ids.unique(120))
    assert not accepts(made.authenticator(), first)
    assert main(("credentials", "reset", "--yes", "--stack", made.name)) == 0
    assert accepts(made.authenticator(), printed(capsys.readouterr().out))


def test_after_new_keys_nothing_needs_a_reset(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    first, ids = made.first(), SystemIds()
    token = made.authenticator().login(first.access_key_id, first.secret_access_key).token.encode()
    for _ in range(3):
        made.rotate(ids.unique(120))
        assert main(("credentials", "rotate", "--stack", made.name)) == 0
        assert capsys.readouterr().out == "access keys encrypted anew: 1\n"
    assert accepts(made.authenticator(), first)
    assert made.authenticator().identify(b"Bearer " + token, "").user


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


def test_a_cold_start_reads_both_versions_by_one_client(made: Made, engine: str) -> None:
    made.rotate(SystemIds().unique(120))
    with fault_proxy(engine) as proxy:
        session = CountingSession(AwsSettings("us-east-1", proxy.url, "test", "test"))
        assert read_secret(session, made.name).before
        assert session.made == ["secretsmanager"]
        assert proxy.operations == ["GetSecretValue"] * 2
