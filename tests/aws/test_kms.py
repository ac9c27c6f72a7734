"""Keys that KMS wraps: readable only with its key, and only in their context."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from graveler.assembly.aws import Aws, KmsWrapper, open_aws
from graveler.auth import accounts
from graveler.auth.authenticator import Authenticator
from graveler.auth.keyrings import PARTITION
from graveler.cli.main import main
from graveler.core import wire
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemIds
from graveler.core.errors import Corrupt, Unavailable
from graveler.core.records import ABSENT
from graveler.core.settings import Deployment
from tests.aws.conftest import local
from tests.aws.lake import make_lake

pytestmark = pytest.mark.xdist_group("moto")

KEY = b"k" * 32


class Made(NamedTuple):
    """A stack with a key of KMS, in an engine that verifies contexts."""

    deployment: Deployment
    session: AwsSession
    arn: str

    @property
    def name(self) -> str:
        return self.deployment.table

    def function(self, arn: str, table: str = "") -> tuple[Aws, Authenticator]:
        """The API, as it starts with this key; empty: with none.  `table`: a restored one."""
        own = Deployment(
            table or self.name,
            self.name,
            self.deployment.buckets,
            cache_folder=self.deployment.cache_folder,
            endpoint_url=self.deployment.endpoint_url,
            keys_kms_key=arn,
        )
        aws = open_aws(own)
        kv, clock = aws.ports.kv, aws.ports.clock
        secret, wrapper = aws.secret, aws.wrapper
        keeper = accounts.keeper(
            kv, clock, aws.ids, secret.key, before=secret.before, wrapper=wrapper
        )
        return aws, Authenticator(keeper, secret.first)


@pytest.fixture
def made(moto_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Made:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    session = AwsSession(local(moto_url))
    lake = make_lake(session, f"t{SystemIds().unique(20)}")
    arn = session.client("kms").create_key()["KeyMetadata"]["Arn"]
    cache = str(tmp_path / "cache")
    deployment = Deployment(
        lake.name, lake.name, (lake.name,), cache_folder=cache, endpoint_url=moto_url
    )
    return Made(deployment, session, arn)


def wrappers_of(aws: Aws, ring: bytes) -> list[set[str]]:
    """The wrappers of each key on a ring, oldest first; the stack's own secret is `secret`."""
    row = aws.ports.kv.get(PARTITION, ring)
    assert row is not ABSENT
    keys = json.loads(wire.decode_pairs(row.value)["keys"])
    return [{"kms" if id == "kms" else "secret" for id in wrapped} for _id, _ns, wrapped in keys]


def test_a_key_is_unwrapped_only_in_its_context(made: Made) -> None:
    wrapper = KmsWrapper(made.session, made.arn, "stack")
    wrapped = wrapper.wrap(KEY, "secrets", "id")
    assert KEY not in wrapped and wrapper.unwrap(wrapped, "secrets", "id") == KEY
    for ring, id in (("sessions", "id"), ("secrets", "other")):
        with pytest.raises(Corrupt):
            wrapper.unwrap(wrapped, ring, id)
    with pytest.raises(Corrupt):
        KmsWrapper(made.session, made.arn, "another").unwrap(wrapped, "secrets", "id")
    with pytest.raises(Corrupt):
        wrapper.unwrap(b"no ciphertext", "secrets", "id")


def test_a_service_of_keys_that_fails_is_unavailable(made: Made) -> None:
    unknown = KmsWrapper(made.session, made.arn[:-12] + "000000000000", "stack")
    with pytest.raises(Unavailable):
        unknown.wrap(KEY, "secrets", "id")
    with pytest.raises(Unavailable):
        KmsWrapper(AwsSession(local("http://127.0.0.1:9")), made.arn, "stack").unwrap(KEY, "a", "b")


def test_only_a_process_with_the_key_of_kms_reads_the_keys(made: Made) -> None:
    aws, auth = made.function(made.arn)
    first = aws.secret.first
    token = auth.login(first.access_key_id, first.secret_access_key).token.encode()
    assert wrappers_of(aws, b"sessions") == wrappers_of(aws, b"secrets") == [{"kms"}]
    _other, beside = made.function(made.arn)
    assert beside.identify(b"Bearer " + token, "").user
    key = auth.keeper.sessions.current()
    _aws, without = made.function("")
    assert without.keeper.sessions.find(key.id) is ABSENT


def test_a_deployment_gets_its_key_later_and_nobody_is_logged_out(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    aws, auth = made.function("")
    first = aws.secret.first
    token = auth.login(first.access_key_id, first.secret_access_key).token.encode()
    _aws, later = made.function(made.arn)
    fresh = later.login(first.access_key_id, first.secret_access_key).token.encode()
    assert wrappers_of(aws, b"sessions") == [{"secret", "kms"}]
    for process in (auth, later):
        for each in (token, fresh):
            assert process.identify(b"Bearer " + each, "").user
    rotate = ("credentials", "rotate", "--stack", made.name)
    assert main((*rotate, "--kms-key", made.arn)) == 0
    assert capsys.readouterr().out == "access keys encrypted anew: 1\n"
    assert wrappers_of(aws, b"sessions")[-1] == wrappers_of(aws, b"secrets")[-1] == {"kms"}
    _aws, latest = made.function(made.arn)
    assert latest.identify(b"Bearer " + token, "").user
    assert latest.login(first.access_key_id, first.secret_access_key)
    assert main(rotate) == 1
    assert "--kms-key" in capsys.readouterr().err
    assert main(("credentials", "rotate", "--store", "x", "--kms-key", made.arn)) == 1


def test_a_restored_table_of_another_name_is_read_with_the_same_key(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    before, auth = made.function(made.arn)
    first = before.secret.first
    token = auth.login(first.access_key_id, first.secret_access_key).token.encode()
    restored = f"{made.name}-restored"
    made.session.client("dynamodb").restore_table_to_point_in_time(
        SourceTableName=made.name, TargetTableName=restored, UseLatestRestorableTime=True
    )
    aws, later = made.function(made.arn, restored)
    assert later.identify(b"Bearer " + token, "").user
    rotate = ("credentials", "rotate", "--stack", made.name, "--kms-key", made.arn)
    assert main((*rotate, "--table", restored)) == 0
    assert capsys.readouterr().out == "access keys encrypted anew: 1\n"
    assert len(wrappers_of(aws, b"sessions")) == 2
    assert main(("credentials", "rotate", "--store", "x", "--table", restored)) == 1
    assert "--table needs a stack" in capsys.readouterr().err
