"""`graveler credentials`: new credentials for the administrator of a store or a stack, and new keys
for its sessions and secrets."""

from importlib import import_module
from pathlib import Path

from graveler.auth import accounts, credentials, rotation
from graveler.auth.credentials import NewCredential
from graveler.auth.rotation import Rotation
from graveler.cli import administrator
from graveler.cli.administrator import SavedCredential
from graveler.cli.options import CredentialsOptions
from graveler.cli.stores import opened
from graveler.clock import SystemClock, SystemIds
from graveler.records import ABSENT
from graveler.settings import endpoint_url


def reset(options: CredentialsOptions) -> int:
    """Make new credentials and print them once.  A file with the old ones is replaced."""
    with opened(options.store) as store:
        saved = administrator.read(options.store)
        credential = administrator.renew(store)
        _print(credential)
        if options.save or saved is not ABSENT:
            url = saved.url if saved is not ABSENT else ""
            path = administrator.write(options.store, SavedCredential(url, credential))
            print(f"kept in {path}")
    return 0


def reset_stack(name: str) -> int:
    """`reset` for a deployment on AWS, whose table and secret have the name of the stack.

    The functions accept the new credentials immediately, and the old ones for up to 5 seconds.
    Errors: `NotFound` if the stack has not served a request yet, `Unavailable`.
    """
    from graveler.assembly.secret import read_secret
    from graveler.aws import AwsSession, AwsSettings
    from graveler.kv.dynamodb import DynamoStore

    session = AwsSession(AwsSettings(endpoint_url=endpoint_url()))
    store, ids = DynamoStore(session, name), SystemIds()
    try:
        key = read_secret(session, name).key
        keeper = accounts.keeper(store, SystemClock(), ids, key, opens_keys=False)
        credential = credentials.fresh(ids)
        accounts.reset(keeper, credential)
    finally:
        store.close()
    _print(credential)
    return 0


def rotate(folder: Path, *, ends_sessions: bool) -> int:
    """Replace the keys that sign sessions and encrypt secrets."""
    with opened(folder) as store:
        _report(rotation.rotate(administrator.keeper(store), ends_sessions=ends_sessions))
    return 0


def rotate_stack(name: str, kms_key: str, *, ends_sessions: bool) -> int:
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
    store, ids = DynamoStore(session, name), SystemIds()
    try:
        secret = read_secret(session, name)
        wrapper = KmsWrapper(session, kms_key, name) if kms_key else ABSENT
        clock, before = SystemClock(), secret.before
        keeper = accounts.keeper(store, clock, ids, secret.key, before=before, wrapper=wrapper)
        _report(rotation.rotate(keeper, ends_sessions=ends_sessions))
    finally:
        store.close()
    return 0


def _report(done: Rotation) -> None:
    print(f"access keys encrypted anew: {done.renewed}")
    if done.waiting:
        print(f"access keys that wait for their next use: {done.waiting}")


def _print(credential: NewCredential) -> None:
    print(f"access_key_id: {credential.access_key_id}")
    print(f"secret_access_key: {credential.secret_access_key}")
