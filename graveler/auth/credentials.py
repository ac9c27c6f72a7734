"""Access keys: their secrets, by key id, and the keys of a user.

    auth/credentials    <key id> -> Pairs: user, uid, check, epoch, created_ns, sealed

A key is valid while the record of its user, with that uid, lists it with that epoch (entities.py).
A row here without it is nothing.  `check` is the keyed hash of the secret.  `sealed` is the secret,
encrypted under a key of the keyring `secrets` in the context of the uid and the key id: signatures
of requests are verified with the secret.  A key without it gets it at its first use (`renew`).
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

from graveler.auth import entities, secrets
from graveler.auth.entities import USERS, Keeper, Key, User, begun
from graveler.core import limits, wire
from graveler.core.clock import Ids
from graveler.core.errors import Code, Corrupt, Internal, Invalid, NotFound
from graveler.core.records import ABSENT, Absent
from graveler.kv.replace import Found, replace_row
from graveler.kv.store import Row, Store, Write, landed, scan_all

PARTITION: Final = b"auth/credentials"
PURPOSE: Final = "credentials"  # the purpose of the key that hashes secrets
_DOT: Final = "."
SECRET_LENGTH_MIN: Final = 32


@dataclass(frozen=True, slots=True)
class NewCredential:
    """A credential in clear text, for its owner.  The secret is not stored."""

    access_key_id: str
    secret_access_key: str = field(repr=False)


class Credential(NamedTuple):
    """What is stored of an access key."""

    user: str
    uid: str
    check: str
    epoch: str
    created_ns: int
    sealed: str = ""


def check(credential: NewCredential) -> None:
    """Raises `Invalid` for a credential that is not allowed.  The hash of secrets is fast, so they
    must be too long to guess."""
    key, secret = credential.access_key_id, credential.secret_access_key
    if not 3 <= len(key) <= 128 or not key.isascii() or not key.isalnum():
        raise Invalid("access_key_id invalid: it must be 3 to 128 letters and digits")
    if not SECRET_LENGTH_MIN <= len(secret) <= 128 or not (
        secret.isascii() and secret.isprintable()
    ):
        raise Invalid(
            f"secret_access_key invalid: it must be {SECRET_LENGTH_MIN} to 128 printable ASCII "
            "characters"
        )


def fresh(ids: Ids) -> NewCredential:
    """A random credential: a key id of 20 characters, of the form that `lakectl doctor` and other
    tools take for one, and a secret of 40 with 200 random bits."""
    return NewCredential(f"AKIAJ{ids.unique(14).upper()}Q", ids.unique(40))


def find(kv: Store, key_id: str) -> Credential | Literal[Absent.ABSENT]:
    """What is stored of a key; whether it is valid, its user's record says.  Raises `Corrupt`.  One
    request; none for a text that is no key id."""
    if not key_id.isascii() or not 3 <= len(key_id) <= 128:
        return ABSENT
    row = kv.get(PARTITION, key_id.encode())
    return ABSENT if row is ABSENT else decode(row)


def decode(row: Row) -> Credential:
    """What a row says.  Raises `Corrupt`.  Pure."""
    pairs = wire.decode_pairs(row.value)
    try:
        return Credential(
            pairs["user"],
            pairs["uid"],
            pairs["check"],
            pairs["epoch"],
            int(pairs["created_ns"]),
            pairs.get("sealed", ""),
        )
    except (KeyError, ValueError) as error:
        raise Corrupt("credential record lacks fields") from error


def is_of(credential: Credential, key_id: str, user: User) -> bool:
    """Whether the key is a valid key of `user`."""
    listed = (key_id, credential.epoch, credential.created_ns)
    return credential.uid == user.uid and any(key[:3] == listed for key in user.keys)


def create(keeper: Keeper, user: str, name: str = "") -> tuple[NewCredential, Key]:
    """Give a user a fresh key, which may have a name.  Its secret cannot be read again.  A retry
    after an unknown outcome gives another key.

    Raises `NotFound`, `Invalid` for a bad name or too many keys, `OutcomeUnknown`.  4 requests, and
    those of `Keyring.current`.
    """
    _check_name(name)
    owner = entities.get(keeper.kv, USERS, user)
    _check_room(owner)
    credential = fresh(keeper.ids)
    epoch, now = keeper.ids.stamp().hex(), keeper.clock.now_ns()
    key = Key(credential.access_key_id, epoch, now, name)
    stored = Credential(
        user,
        owner.uid,
        secrets.check_value(keeper.key, credential.secret_access_key),
        key.epoch,
        key.created_ns,
        seal(keeper, owner.uid, credential),
    )
    stamp = keeper.ids.stamp()
    outcome = keeper.kv.set_if(PARTITION, key.id.encode(), _encode(stored), stamp, ABSENT)
    if not landed(outcome, stamp):
        raise Internal("a fresh access key id is in use")

    def added(record: User) -> User:
        if record.uid != owner.uid:
            raise USERS.not_found(user)
        if key in record.keys:
            return record
        _check_room(record)
        return replace(record, keys=tuple(sorted((*record.keys, key))))

    entities.update(keeper, USERS, user, added)
    return credential, key


def seal(keeper: Keeper, uid: str, credential: NewCredential) -> str:
    """The secret of a user's key, encrypted; empty if this process opens no keys.  The requests and
    errors of `Keyring.current`."""
    if not keeper.seals.is_usable:
        return ""
    key, secret = keeper.seals.current(), credential.secret_access_key.encode()
    context = _context(uid, credential.access_key_id)
    sealed = secrets.encrypt(key.secret, secret, context, keeper.ids)
    return f"{key.id}{_DOT}{b64encode(sealed).decode()}"


def sealing_key(credential: Credential) -> str:
    """The id of the key that the secret is encrypted under; empty if it is not.  Pure."""
    return credential.sealed.partition(_DOT)[0]


def unseal(keeper: Keeper, key_id: str, credential: Credential) -> NewCredential:
    """The key with its secret.  Raises `NotFound` if the secret is not encrypted, or its key is
    gone, and `Corrupt` if it does not decrypt.  The requests of `Keyring.find`."""
    ring_key = keeper.seals.find(sealing_key(credential)) if credential.sealed else ABSENT
    if ring_key is ABSENT:
        raise NotFound("secret is not known")
    try:
        sealed = b64decode(credential.sealed.partition(_DOT)[2], validate=True)
    except ValueError as error:
        raise Corrupt("sealed secret does not decode") from error
    secret = secrets.decrypt(ring_key, sealed, _context(credential.uid, key_id))
    return NewCredential(key_id, secret.decode())


def checks(keeper: Keeper, check: str, secret: str) -> bool:
    """Whether `check` is the keyed hash of `secret`, under the present key or the one before.  It
    takes the same time whatever `check` is.  Pure."""
    keys = (keeper.key, *keeper.earlier)
    return any([secrets.same(check, secrets.check_value(key, secret)) for key in keys])


def is_current(keeper: Keeper, credential: Credential, secret: str) -> bool:
    """Whether the row of a valid key is as `create` would make it now.  Pure."""
    check = secrets.check_value(keeper.key, secret)
    sealed = bool(credential.sealed) or not keeper.seals.is_usable
    return sealed and secrets.same(credential.check, check)


def renew(keeper: Keeper, known: Credential, credential: NewCredential) -> None:
    """Check and encrypt the secret of a key under the present keys.  Does nothing if the row is no
    longer `known`.  Raises `Unavailable`, `OutcomeUnknown`, `Contended`.  Two requests, and those
    of `Keyring.current`."""
    fresh = known._replace(
        check=secrets.check_value(keeper.key, credential.secret_access_key),
        sealed=seal(keeper, known.uid, credential),
    )

    def change(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        return _encode(fresh) if row is not ABSENT and decode(row) == known else ABSENT

    replace_row(keeper.kv, (PARTITION, credential.access_key_id.encode()), keeper.ids, change)


def put(keeper: Keeper, key_id: str, credential: Credential) -> None:
    """Store what is known of a key that a user's record will list.  Idempotent.  One request."""
    write = Write(PARTITION, key_id.encode(), _encode(credential), keeper.ids.stamp())
    keeper.kv.set_many([write])


def delete(keeper: Keeper, user: str, key_id: str) -> None:
    """End a key of a user.  Raises `NotFound` for the user or the key, `OutcomeUnknown`.  At most 4
    requests."""
    key_of(entities.get(keeper.kv, USERS, user), key_id)
    ended = entities.update(
        keeper,
        USERS,
        user,
        lambda each: replace(each, keys=tuple(key for key in each.keys if key.id != key_id)),
    )
    assert all(key.id != key_id for key in ended.keys)
    with begun("deletion of a key"):
        keeper.kv.delete(PARTITION, [key_id.encode()])


def key_of(user: User, key_id: str) -> Key:
    """The key of a user.  Raises `NotFound`.  Pure."""
    for key in user.keys:
        if key.id == key_id:
            return key
    raise NotFound("access key not found", Code.KEY_NOT_FOUND)


def erase(keeper: Keeper, keys: Iterable[Key]) -> None:
    """Remove what is stored of keys.  One request; none without keys."""
    ids = [key.id.encode() for key in keys]
    if ids:
        keeper.kv.delete(PARTITION, ids)


def _check_name(name: str) -> None:
    if len(name) > limits.key_name_length_max or not (name.isprintable() or not name):
        raise Invalid(
            f"name invalid: it must have at most {limits.key_name_length_max} printable characters"
        )


def _check_room(user: User) -> None:
    if len(user.keys) >= limits.user_keys_count_max:
        raise Invalid(f"too many keys: a user has at most {limits.user_keys_count_max}")


def _context(uid: str, key_id: str) -> tuple[str, ...]:
    return (PURPOSE, uid, key_id)


def _encode(credential: Credential) -> bytes:
    pairs = {
        "user": credential.user,
        "uid": credential.uid,
        "check": credential.check,
        "epoch": credential.epoch,
        "created_ns": str(credential.created_ns),
    }
    return wire.encode_pairs({**pairs, "sealed": credential.sealed} if credential.sealed else pairs)


# ---- rotation ------------------------------------------------------------------------------------


class Rotation(NamedTuple):
    """How many access keys were stored anew, and how many wait for their next use, because their
    secrets are stored only as hashes."""

    renewed: int
    waiting: int


def rotate(keeper: Keeper, *, ends_sessions: bool = False) -> Rotation:
    """Replace the keys that sign sessions and encrypt secrets.

    `ends_sessions`: drop the old keys of sessions, so that all sessions end: in other processes
    within `limits.access_seconds_max` and two seconds more.

    Raises `Unavailable`, `OutcomeUnknown`, `Contended`.  4 requests for the keyrings; for each
    1,000 access keys 2, and for each key 2 more.
    """
    keeper.sessions.rotate(alone=ends_sessions)
    used = {sealing_key(stored) for _id, stored in _all(keeper.kv)}
    newest = keeper.seals.rotate(used)
    renewed = waiting = 0
    for key_id, stored in _all(keeper.kv):
        if sealing_key(stored) == newest.id:
            continue
        with suppress(NotFound, Corrupt):
            renew(keeper, stored, unseal(keeper, key_id, stored))
            renewed += 1
            continue
        waiting += 1
    return Rotation(renewed, waiting)


def _all(kv: Store) -> Iterator[tuple[str, Credential]]:
    for key, row in scan_all(kv, PARTITION):
        yield key.decode(), decode(row)
