"""Opens the store on AWS that a template has created: its table, its buckets, folders for caches.

Opening reads the deployment's secret, 120 random characters in Secrets Manager; no other request is
sent before the first verb.  There is one session and one client of each kind.

    0       16            56                   120
    ├───────┼─────────────┼────────────────────┤
     suffix  secret access  the store's key is
     of the  key            the hash of these
     first access key id

What was made under the previous key is accepted as long as Secrets Manager keeps that version.
With a key of KMS, which wraps the keys of keyrings under the context graveler, ring, key, whoever
reads the table and the secret still cannot unwrap them.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from graveler.assembly.drivers import (
    Drivers,
    FetchThreads,
    RewriterThreads,
    ThreadFanout,
    Threads,
    WriteThreads,
    ports_of,
    rest,
)
from graveler.auth.credentials import NewCredential
from graveler.auth.keyrings import Wrapper
from graveler.block.open_files import kept_max
from graveler.block.retry import retrying_blocks
from graveler.block.s3 import S3Blocks, S3Options
from graveler.block.s3_calls import Places
from graveler.block.signature import Grant
from graveler.committed.ranges import RangeStore
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import COPIES_OPEN_MAX, TieredFiles
from graveler.core import limits
from graveler.core.aws import FAILURES, AwsSession, AwsSettings, Client, failure_of, unavailable
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Corrupt, NotFound, Unauthenticated, Unavailable
from graveler.core.records import ABSENT, Absent, without
from graveler.core.requests import THROTTLED_STORE, RetryPolicy
from graveler.core.settings import Deployment
from graveler.engine.ports import Ports
from graveler.kv.dynamodb import DynamoStore
from graveler.kv.retry import retrying_store

# ---- secret ----------------------------------------------------------------------------------

_FORM: Final = re.compile(r"[0-9A-Za-z]{120}")
_KEY_ID_END: Final = 16
_SECRET_KEY_END: Final = 56
_KEY_ID_PREFIX: Final = "GRVL"
_CURRENT: Final = "AWSCURRENT"
_PREVIOUS: Final = "AWSPREVIOUS"


class Secret(NamedTuple):
    """The first credentials of the administrator, and the key from which all others are derived.

    `before`: the key before the last rotation; empty if there was none."""

    first: NewCredential
    key: bytes
    before: bytes = b""

    def __repr__(self) -> str:
        return without(self, "key", "before")


def read_secret(session: AwsSession, name: str) -> Secret:
    """The secret `name`, with the key of its previous version.

    Errors: `Unavailable` if AWS does not return it; those of `parse_secret`.  Cost: two requests,
    because Secrets Manager returns one version per request.
    """
    with closing(session.client("secretsmanager")) as client:
        secret = parse_secret(_current(client, name))
        try:
            before = parse_secret(_text(client, name, _PREVIOUS))
        except (NotFound, Corrupt):  # never rotated, or the previous version has another form
            return secret
    return secret if before.key == secret.key else secret._replace(before=before.key)


def secret_text(session: AwsSession, name: str) -> str:
    """The text of a secret in Secrets Manager; empty if the secret is binary.  One request.
    `Unavailable` if AWS does not return it."""
    with closing(session.client("secretsmanager")) as client:
        return _current(client, name)


def _current(client: Client, name: str) -> str:
    try:
        return _text(client, name, _CURRENT)
    except NotFound as error:
        raise Unavailable(str(error)) from error


def _text(client: Client, name: str, stage: str) -> str:
    """Raises `NotFound`, `Unavailable`."""
    try:
        answer = client.get_secret_value(SecretId=name, VersionStage=stage)
        return str(answer.get("SecretString", ""))
    except FAILURES as error:
        failure = failure_of(error)
        if failure.code == "ResourceNotFoundException":
            raise NotFound(f"read secret {name=} {stage=}: not found") from error
        raise unavailable(failure, f"read secret {name=}", write=False) from error


def parse_secret(text: str) -> Secret:
    """Parses the 120 characters.  `Corrupt` for any form other than the one above."""
    if not _FORM.fullmatch(text):
        raise Corrupt("secret must have 120 letters and digits; restore it")
    first = NewCredential(_KEY_ID_PREFIX + text[:_KEY_ID_END], text[_KEY_ID_END:_SECRET_KEY_END])
    return Secret(first, hashlib.sha256(text[_SECRET_KEY_END:].encode()).digest())


# ---- kms -------------------------------------------------------------------------------------

_WRONG: Final = ("InvalidCiphertextException", "IncorrectKeyException")


class KmsWrapper:
    """Wraps by the key `key` (an ARN) of KMS.  `deployment` is part of the context."""

    id: Final = "kms"

    def __init__(self, session: AwsSession, key: str, deployment: str) -> None:
        self._session = session
        self._key = key
        self._deployment = deployment
        self._client: Client = None  # made at the first call

    def wrap(self, key: bytes, ring: str, id: str) -> bytes:
        """One request.  Raises `Unavailable`."""
        try:
            answer = self._opened().encrypt(
                KeyId=self._key, Plaintext=key, EncryptionContext=self._context(ring, id)
            )
        except FAILURES as error:
            raise unavailable(failure_of(error), f"wrap key {ring=} {id=}", write=False) from error
        return bytes(answer["CiphertextBlob"])

    def unwrap(self, wrapped: bytes, ring: str, id: str) -> bytes:
        """One request.  Raises `Corrupt` for another key or context, `Unavailable`."""
        try:
            answer = self._opened().decrypt(
                KeyId=self._key, CiphertextBlob=wrapped, EncryptionContext=self._context(ring, id)
            )
        except FAILURES as error:
            failure = failure_of(error)
            if failure.code in _WRONG:
                raise Corrupt(f"unwrap key {ring=} {id=}: code={failure.code}") from error
            raise unavailable(failure, f"unwrap key {ring=} {id=}", write=False) from error
        return bytes(answer["Plaintext"])

    def _context(self, ring: str, id: str) -> dict[str, str]:
        return {"graveler": self._deployment, "ring": ring, "key": id}

    def _opened(self) -> Client:
        if self._client is None:
            self._client = self._session.client("kms")
        return self._client


# ---- aws drivers -----------------------------------------------------------------------------

_BLOCK_SHARE: Final = 4  # 1/4 of the memory caches blocks of tables
_REWRITE_SHARE: Final = 256  # 1/256 holds the records of a range that a thread rewrites
_TABLE_SHARE: Final = 16  # 1/16 of the memory caches indexes, and 1/16 metaranges


def aws_drivers(session: AwsSession, deployment: Deployment, ids: SystemIds) -> Drivers:
    """The drivers for the resources of a deployment."""
    clock = SystemClock()
    table = DynamoStore(session, deployment.table, clock=clock, ids=ids)
    kv = retrying_store(table, clock, THROTTLED_STORE)
    options = S3Options(read_only=deployment.read_only_buckets)
    buckets = S3Blocks(session, clock, deployment.buckets, options)
    blocks = retrying_blocks(buckets, clock, RetryPolicy())
    shared = Path(deployment.shared_folder) if deployment.shared_folder else ABSENT
    folder, budget = Path(deployment.cache_folder), deployment.cache_bytes
    open_max = kept_max(COPIES_OPEN_MAX)
    memory = deployment.memory_bytes
    fetchers, waiters = FetchThreads(), WriteThreads()
    rewriters = RewriterThreads(lambda: ranges, memory // _REWRITE_SHARE)
    files = TieredFiles(
        *(blocks, folder, budget, shared, deployment.shared_bytes),
        open_max=open_max,
        fetchers=fetchers,
    )
    ranges: RangeStore = SstRangeStore(
        files,
        memory // _BLOCK_SHARE,
        memory // _TABLE_SHARE,
        rewriters=rewriters,
        waiters=waiters,
    )
    # One partition key of the table takes 1/40 of the load that the whole table takes.
    shards_max = limits.staging_shard_count_max
    rows_max = deployment.commit_rows_max
    return Drivers(
        kv,
        blocks,
        ranges,
        clock,
        ids,
        ThreadFanout(),
        shards_max,
        rows_max,
        repository_cached_seconds=limits.repository_cache_seconds_max,
        threads=(rewriters, waiters, fetchers),
    )


# ---- aws -------------------------------------------------------------------------------------


def storage_origins(deployment: Deployment, region: str) -> tuple[str, ...]:
    """The origins to which signed URLs of the buckets of this region lead.  Pure."""
    places = Places(deployment.buckets, deployment.endpoint_url)
    urls = (urlsplit(places.origin(bucket, region)) for bucket in deployment.buckets)
    return tuple(sorted({f"{url.scheme}://{url.netloc}" for url in urls}))


class Aws(NamedTuple):
    """An open store on AWS.  All keys are derived from `secret.key`, or wrapped under it.

    `secret_name`: of the secret in Secrets Manager, which may be rotated while the process runs.
    `wrapper`: wraps the keys instead, if the deployment has a key of KMS for that.
    `threads`: see `Drivers`.
    """

    ports: Ports
    session: AwsSession
    secret: Secret
    ids: SystemIds
    secret_name: str
    wrapper: Wrapper | Literal[Absent.ABSENT] = ABSENT
    threads: Sequence[Threads] = ()

    def read_again(self) -> tuple[bytes, bytes]:
        """The key of the secret as it is now, and the one before its rotation.  The errors and the
        cost of `read_secret`."""
        secret = read_secret(self.session, self.secret_name)
        return secret.key, secret.before

    def thaw(self) -> None:
        """Discard random bytes that were fetched before.  Each process that starts as a copy of
        another (a restored snapshot) must call this, so that two copies never draw the same
        ids."""
        self.ids.forget()

    def rest(self) -> None:
        """Let what threads do for ranges come to its end, half a second at most.  A process that
        may be frozen must call this before: what is under way would be found dead later, and
        whoever needs it would wait for that."""
        rest(self.threads)


class StorageSigns:
    """Verifies no presigned request: on AWS, S3 serves and verifies them."""

    def verify(self, method: str, name: str, query: Mapping[str, str], content_type: str) -> Grant:
        """Always raises `Unauthenticated`."""
        raise Unauthenticated("presigned url is not valid here")


def open_aws(deployment: Deployment) -> Aws:
    """Open the store of a deployment.  Errors: those of `read_secret`."""
    session, ids = AwsSession(AwsSettings(endpoint_url=deployment.endpoint_url)), SystemIds()
    secret = read_secret(session, deployment.secret)
    drivers = aws_drivers(session, deployment, ids)
    ports = ports_of(drivers, secret.key, secret.before)
    key = deployment.keys_kms_key
    wrapper = KmsWrapper(session, key, deployment.secret) if key else ABSENT
    return Aws(ports, session, secret, ids, deployment.secret, wrapper, drivers.threads)
