"""`graveler credentials`: new credentials for the administrator of a store or a stack, and new keys
for its sessions and secrets."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NotRequired, TypedDict

from graveler.assembly.embedded import rotate_key
from graveler.auth import accounts, credentials
from graveler.auth.credentials import NewCredential, Rotation
from graveler.cli import administrator
from graveler.cli.administrator import SavedCredential
from graveler.cli.options import CredentialsOptions
from graveler.cli.output import Output
from graveler.cli.stores import opened
from graveler.clock import SystemClock, SystemIds
from graveler.records import ABSENT
from graveler.settings import endpoint_url


class NewKey(TypedDict):
    """The administrator's new access key.  `file`: where it was kept, if it was."""

    access_key_id: str
    secret_access_key: str
    file: NotRequired[str]


class Rotated(TypedDict):
    """How many access keys are encrypted under the new key, or will be at their next use."""

    renewed: int
    waiting: int


def reset(output: Output, options: CredentialsOptions, confirm: Callable[[], None]) -> int:
    """Make new credentials and print them once.  A file with the old ones is replaced.  `confirm`:
    raises if the old ones are to stay."""
    remedy = "graveler user key create USER, or stop the service first"
    with opened(options.store, remedy=remedy) as store:
        saved = administrator.read(options.store)
        if administrator.account(store) is not ABSENT:
            confirm()
        credential = administrator.renew(store)
        path: Path | None = None
        try:
            if options.save or saved is not ABSENT:
                url = saved.url if saved is not ABSENT else ""
                path = administrator.write(options.store, SavedCredential(url, credential))
        finally:  # the old ones have ended: nobody could sign in if these were not shown
            _print(output, credential, path)
    return 0


def reset_stack(output: Output, name: str, table: str, confirm: Callable[[], None]) -> int:
    """`reset` for a deployment on AWS, whose secret has the name of the stack.

    The functions accept the new credentials immediately, and the old ones for up to 5 seconds.
    Errors: `NotFound` if the stack has not served a request yet, `Unavailable`.
    """
    from graveler.assembly.secret import read_secret
    from graveler.aws import AwsSession, AwsSettings
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
    _print(output, credential, None)
    return 0


def rotate(output: Output, folder: Path, *, ends_sessions: bool, store_key: bool = False) -> int:
    """Replace the keys that sign sessions and encrypt secrets.

    `store_key`: the secret of the store as well.  First everything is renewed under the present
    secret, because the one before it is forgotten then.  So the call may be repeated after a crash.
    """
    with opened(folder) as store:
        done = credentials.rotate(administrator.keeper(store), ends_sessions=ends_sessions)
        if store_key:
            rotate_key(folder)  # while no other process can open the store
    if store_key:
        with opened(folder) as store:
            done = credentials.rotate(administrator.keeper(store))
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
    from graveler.assembly.kms import KmsWrapper
    from graveler.assembly.secret import read_secret
    from graveler.aws import AwsSession, AwsSettings
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


def _print(output: Output, credential: NewCredential, file: Path | None) -> None:
    record: NewKey = {
        "access_key_id": credential.access_key_id,
        "secret_access_key": credential.secret_access_key,
    }
    lines = [f"{name}: {value}" for name, value in record.items()]
    if file is not None:
        record["file"] = str(file)
        lines.append(f"kept in {file}")
    output.record(record, lines)
