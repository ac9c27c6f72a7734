"""Sets the administrator's credentials of a store, and saves them in a file.

    <store>/credentials    mode 0600, lines that a shell can source:
        export LAKECTL_SERVER_ENDPOINT_URL=http://127.0.0.1:8000
        export LAKECTL_CREDENTIALS_ACCESS_KEY_ID=…
        export LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=…
        export GRAVELER_API=http://127.0.0.1:8000/api/v1
        export GRAVELER_AUTH=…:…

Clients of lakeFS read the first three variables; the other two are for curl.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple, NotRequired, TypedDict

from graveler.assembly import Embedded, open_embedded, open_to_read
from graveler.assembly.embedded import rotate_key
from graveler.auth import accounts, credentials
from graveler.auth.accounts import Account
from graveler.auth.credentials import NewCredential, Rotation
from graveler.auth.entities import Keeper
from graveler.cli.support.output import Output
from graveler.core import private_files
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Conflict, Invalid, NotFound, Unavailable
from graveler.core.records import ABSENT, Absent
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE, URL_VARIABLE, endpoint_url
from graveler.lake import profiles

FILE = "credentials"
_API = "GRAVELER_API"
_AUTH = "GRAVELER_AUTH"


class SavedCredential(NamedTuple):
    """The content of the credentials file."""

    url: str
    credential: NewCredential


def ensure(store: Embedded, credential: NewCredential) -> bool:
    """Give the administrator this credential.  Returns whether it replaced another one.

    Raises `Invalid` for a credential that is not allowed, even if an earlier version stored it.
    """
    return accounts.ensure(keeper(store), credential)


def account(store: Embedded) -> Account | Literal[Absent.ABSENT]:
    """The administrator; `ABSENT` before the set-up."""
    return accounts.find(store.ports.kv)


def matches(store: Embedded, credential: NewCredential) -> bool:
    """Whether this is a key of the administrator."""
    return accounts.accepts(keeper(store), credential)


def renew(store: Embedded) -> NewCredential:
    """Give the administrator a fresh credential.  Raises `NotFound` before the set-up."""
    fresh = credentials.fresh(store.ports.ids)
    accounts.reset(keeper(store), fresh)
    return fresh


def read(folder: Path) -> SavedCredential | Literal[Absent.ABSENT]:
    """The content of a store's credentials file; `ABSENT` without a file.  Raises `Invalid` if the
    file has no credential or is not what a shell can source, `Unavailable` if it cannot be read."""
    saved = profiles.of_store(folder)
    if saved is None:
        return ABSENT
    if not saved.access_key_id or not saved.secret_access_key:
        reason = "credentials file has no credentials: delete it and reset them"
        raise Invalid(f"{reason}: path={folder / FILE}")
    return SavedCredential(
        saved.server, NewCredential(saved.access_key_id, saved.secret_access_key)
    )


def write(folder: Path, saved: SavedCredential) -> Path:
    """Write the credentials file atomically and return its path.  Raises `Unavailable`."""
    path = folder / FILE
    key, secret = saved.credential.access_key_id, saved.credential.secret_access_key
    pairs = (
        (URL_VARIABLE, saved.url),
        (KEY_VARIABLE, key),
        (SECRET_VARIABLE, secret),
        (_API, f"{saved.url}/api/v1"),
        (_AUTH, f"{key}:{secret}"),
    )
    text = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in pairs)
    try:
        private_files.replace(path, text.encode())
    except OSError as error:
        raise Unavailable(f"credentials cannot be kept: {path=!s} {error.strerror}") from error
    return path


def kept(
    store: Embedded, folder: Path, url: str, chosen: NewCredential | Literal[Absent.ABSENT]
) -> NewCredential:
    """Set the administrator's credential and save it, with `url`, in the file: `chosen`, else the
    one in the file, else a fresh one.

    Raises `Conflict` if nothing is given and the administrator has another credential.
    """
    saved, known = read(folder), account(store)
    if chosen is not ABSENT:
        ensure(store, chosen)
        credential = chosen
    elif saved is not ABSENT:
        credential = saved.credential
    elif known is ABSENT:
        credential = credentials.fresh(store.ports.ids)
    else:
        raise Conflict(_LOST.format(folder=folder, what="are not kept in the store's folder"))
    if known is not ABSENT and chosen is ABSENT and not matches(store, credential):
        raise Conflict(_LOST.format(folder=folder, what=f"are not those of {folder / FILE}"))
    # The file is written before the account is made, so a crash between the two loses no secret.
    write(folder, SavedCredential(url, credential))
    ensure(store, credential)
    return credential


_LOST = (
    "the administrator's credentials {what}; make new ones: "
    "graveler credentials reset --store {folder} --save"
)


def keeper(store: Embedded) -> Keeper:
    """What changes credentials and keys of the store."""
    ports = store.ports
    return accounts.keeper(ports.kv, ports.clock, ports.ids, store.secret, before=store.before)


@contextmanager
def opened(
    folder: Path, import_roots: Sequence[Path] = (), *, remedy: str = "", read_only: bool = False
) -> Iterator[Embedded]:
    """The open store; it is closed at the end of the block.  `remedy`: what to do instead while a
    service has the store open.  `read_only`: see `open_to_read`.  Errors: `NotFound` if the folder
    has no store, `Unavailable` if another process has it open; those of `open_embedded`."""
    if not any((folder / part).exists() for part in ("kv", "key", "objects")):
        raise NotFound(
            f"no store in this folder: start `graveler serve` once to create it: store={folder}"
        )
    try:
        opening = open_to_read if read_only else open_embedded
        store = opening(folder, import_roots=import_roots)
    except Conflict as error:
        raise Unavailable(
            f"another process has this store open, for example `graveler serve`: store={folder}",
            remedy=remedy or "stop that process first",
        ) from error
    try:
        yield store
    finally:
        store.close()


class NewKey(TypedDict):
    """The administrator's new access key.  `file`: where it was kept, if it was."""

    access_key_id: str
    secret_access_key: str
    file: NotRequired[str]


class Rotated(TypedDict):
    """How many access keys are encrypted under the new key, or will be at their next use."""

    renewed: int
    waiting: int


def reset(output: Output, folder: Path, confirm: Callable[[], None], *, save: bool) -> int:
    """Make new credentials and print them once.  A file with the old ones is replaced.  `confirm`:
    raises if the old ones are to stay."""
    remedy = "graveler user key create USER, or stop the service first"
    with opened(folder, remedy=remedy) as store:
        saved = read(folder)
        if account(store) is not ABSENT:
            confirm()
        credential = renew(store)
        path: Path | None = None
        try:
            if save or saved is not ABSENT:
                url = saved.url if saved is not ABSENT else ""
                path = write(folder, SavedCredential(url, credential))
        finally:  # the old ones have ended: nobody could sign in if these were not shown
            _print_key(output, credential, path)
    return 0


def reset_stack(output: Output, name: str, table: str, confirm: Callable[[], None]) -> int:
    """`reset` for a deployment on AWS, whose secret has the name of the stack.

    The functions accept the new credentials immediately, and the old ones for up to 5 seconds.
    Errors: `NotFound` if the stack has not served a request yet, `Unavailable`.
    """
    from graveler.assembly.aws import read_secret
    from graveler.core.aws import AwsSession, AwsSettings
    from graveler.kv.dynamodb import DynamoStore

    session = AwsSession(AwsSettings(endpoint_url=endpoint_url()))
    store, ids = DynamoStore(session, table), SystemIds()
    try:
        key = read_secret(session, name).key
        keeper = accounts.keeper(store, SystemClock(), ids, key, opens_keys=False)
        if accounts.find(store) is not ABSENT:
            confirm()
        credential = credentials.fresh(ids)
        accounts.reset(keeper, credential)
    finally:
        store.close()
    _print_key(output, credential, None)
    return 0


def rotate(output: Output, folder: Path, *, ends_sessions: bool, store_key: bool = False) -> int:
    """Replace the keys that sign sessions and encrypt secrets.

    `store_key`: the secret of the store as well.  First everything is renewed under the present
    secret, because the one before it is forgotten then.  So the call may be repeated after a crash.
    """
    with opened(folder) as store:
        done = credentials.rotate(keeper(store), ends_sessions=ends_sessions)
        if store_key:
            rotate_key(folder)  # while no other process can open the store
    if store_key:
        with opened(folder) as store:
            done = credentials.rotate(keeper(store))
    _report(output, done)
    return 0


def rotate_stack(
    output: Output, name: str, table: str, kms_key: str, *, ends_sessions: bool
) -> int:
    """`rotate` for a deployment on AWS.  The functions use the new keys within 5 seconds.

    `kms_key`: the ARN of the KMS key of the deployment; empty if it has none.  Raises
    `ModuleNotFoundError` before anything is changed if a package is missing, as the cipher is in an
    installation with the extra `aws` alone.
    """
    import_module("cryptography")
    from graveler.assembly.aws import KmsWrapper, read_secret
    from graveler.core.aws import AwsSession, AwsSettings
    from graveler.kv.dynamodb import DynamoStore

    session = AwsSession(AwsSettings(endpoint_url=endpoint_url()))
    store, ids = DynamoStore(session, table), SystemIds()
    try:
        secret = read_secret(session, name)
        wrapper = KmsWrapper(session, kms_key, name) if kms_key else ABSENT
        clock, before = SystemClock(), secret.before
        keeper = accounts.keeper(store, clock, ids, secret.key, before=before, wrapper=wrapper)
        _report(output, credentials.rotate(keeper, ends_sessions=ends_sessions))
    finally:
        store.close()
    return 0


def _report(output: Output, done: Rotation) -> None:
    record: Rotated = {"renewed": done.renewed, "waiting": done.waiting}
    lines = [f"access keys encrypted anew: {done.renewed}"]
    if done.waiting:
        lines.append(f"access keys that wait for their next use: {done.waiting}")
    output.record(record, lines)


def _print_key(output: Output, credential: NewCredential, file: Path | None) -> None:
    record: NewKey = {
        "access_key_id": credential.access_key_id,
        "secret_access_key": credential.secret_access_key,
    }
    lines = [f"{name}: {value}" for name, value in record.items()]
    if file is not None:
        record["file"] = str(file)
        lines.append(f"kept in {file}")
    output.record(record, lines)
