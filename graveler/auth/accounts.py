"""The administrator's record: one row in the KV partition `auth`, so set-up is atomic.

    auth / administrator -> pairs: user, email, access_key_id, check, epoch, created_ns

`check` is the keyed hash of the secret access key (auth/secrets.py).  The secret itself is shown
once and never stored.  `epoch` is fresh with every new credential; sessions contain it, so a new
credential ends them.  For auth, assembly and the commands.
"""

from dataclasses import dataclass
from typing import Literal

from graveler import limits, wire
from graveler.auth import secrets
from graveler.clock import Clock, Ids
from graveler.errors import AlreadyExists, Code, Corrupt, Invalid, NotFound
from graveler.kv.replace import replace_row
from graveler.kv.store import Store, landed
from graveler.records import ABSENT, Absent

PARTITION = b"auth"
ADMINISTRATOR = b"administrator"
PURPOSE = "credentials"  # the purpose of the key that hashes secrets
USER_DEFAULT = "admin"
SECRET_LENGTH_MIN = 32


@dataclass(frozen=True, slots=True)
class Account:
    """A user with its one credential, as stored."""

    user: str
    email: str
    access_key_id: str
    check: str
    epoch: str
    created_ns: int


@dataclass(frozen=True, slots=True)
class NewCredential:
    """A credential in clear text, for its owner.  The secret is not stored."""

    access_key_id: str
    secret_access_key: str


@dataclass(frozen=True, slots=True)
class Keeper:
    """The ports and the key that reading and writing accounts needs.  `key` is derived for
    `PURPOSE`."""

    kv: Store
    clock: Clock
    ids: Ids
    key: bytes


def keeper(kv: Store, clock: Clock, ids: Ids, secret: bytes) -> Keeper:
    """A keeper whose key is derived from the store's secret."""
    return Keeper(kv, clock, ids, secrets.derive(secret, PURPOSE))


def check(credential: NewCredential) -> None:
    """Raises `Invalid` for a credential that is not allowed.  The hash of secrets is fast, so they
    must be too long to guess."""
    _check(USER_DEFAULT, credential)


def find(kv: Store) -> Account | Literal[Absent.ABSENT]:
    """The administrator; `ABSENT` before the set-up.  Raises `Corrupt`.  One KV request."""
    row = kv.get(PARTITION, ADMINISTRATOR)
    if row is ABSENT:
        return ABSENT
    pairs = wire.decode_pairs(row.value)
    try:
        return Account(
            pairs["user"],
            pairs["email"],
            pairs["access_key_id"],
            pairs["check"],
            pairs["epoch"],
            int(pairs["created_ns"]),
        )
    except (KeyError, ValueError) as error:
        raise Corrupt("administrator record lacks fields") from error


def create(keeper: Keeper, user: str, email: str, credential: NewCredential) -> Account:
    """Create the administrator atomically; only the first call succeeds.  Raises `AlreadyExists`,
    `Invalid`.  One conditional write."""
    _check(user, credential)
    account = _account(keeper, user, email, credential)
    stamp = keeper.ids.stamp()
    outcome = keeper.kv.set_if(PARTITION, ADMINISTRATOR, _encode(account), stamp, ABSENT)
    if not landed(outcome, stamp):
        raise AlreadyExists("already initialized", Code.ADMINISTRATOR_EXISTS)
    return account


def reset(keeper: Keeper, credential: NewCredential) -> Account:
    """Replace the administrator's credential.  The old credential and all sessions end.

    Raises `NotFound` before the set-up, `Invalid`.  Three requests.  A late duplicate of an earlier
    reset has no effect.
    """
    known = find(keeper.kv)
    if known is ABSENT:
        raise NotFound("administrator not found: set the service up first")
    _check(known.user, credential)
    account = _account(keeper, known.user, known.email, credential)
    raw = _encode(account)
    replace_row(keeper.kv, (PARTITION, ADMINISTRATOR), keeper.ids, lambda row, lost: raw)
    return account


def fresh_credential(ids: Ids) -> NewCredential:
    """A random credential: a key id of 20 characters and a secret of 40 with 200 random bits."""
    return NewCredential("GRVL" + ids.unique(16).upper(), ids.unique(40))


def _account(keeper: Keeper, user: str, email: str, credential: NewCredential) -> Account:
    check = secrets.check_value(keeper.key, credential.secret_access_key)
    epoch = keeper.ids.stamp().hex()
    return Account(user, email, credential.access_key_id, check, epoch, keeper.clock.now_ns())


def _encode(account: Account) -> bytes:
    return wire.encode_pairs(
        {
            "user": account.user,
            "email": account.email,
            "access_key_id": account.access_key_id,
            "check": account.check,
            "epoch": account.epoch,
            "created_ns": str(account.created_ns),
        }
    )


def _check(user: str, credential: NewCredential) -> None:
    if not user or len(user) > limits.name_length_max or not user.isprintable():
        raise Invalid(
            f"username invalid: it must be 1 to {limits.name_length_max} printable characters"
        )
    if set(user) & set("*?${}:/"):
        raise Invalid("username invalid: it must not contain any of * ? $ { } : /")
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
