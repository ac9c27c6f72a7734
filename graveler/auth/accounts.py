"""The administrator: the first user, in the group Admins, rescued by a reset.  Beside it, what a
deployment has once: wishes for mail (nothing is ever sent), and its requests by month.

    auth / administrator          Pairs: user, email, access_key_id, check, epoch, created_ns,
                                  settled
    auth / communication          Pairs: email, feature_updates, security_updates
    usage / installation          Pairs: id, a UUID, stored by the first report
    usage / <YYYY-MM>/<0 to 15>   Pairs: requests, one of the counters of a month

One write of the first row sets the lake up, or resets the key.  `settle` then makes what the row
says: built-in policies and groups, and the user with this one key.  Any process can repeat it, so a
crash in between leaves nothing half-made.  `epoch` is fresh with every set-up and reset.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from graveler.auth import credentials, directory, entities, policies, secrets, sessions
from graveler.auth.credentials import NewCredential
from graveler.auth.entities import (
    GROUPS,
    POLICIES,
    USERS,
    E,
    Group,
    Keeper,
    Key,
    Link,
    Policy,
    Table,
    User,
    begun,
)
from graveler.auth.keyrings import Keyring, SecretWrapper, Wrapper, Wrappers
from graveler.core import limits, wire
from graveler.core.clock import Clock, Ids
from graveler.core.errors import (
    AlreadyExists,
    Code,
    Corrupt,
    GravelerError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.core.records import ABSENT, Absent
from graveler.kv.replace import Found, replace_row, replace_seen
from graveler.kv.store import Place, Row, Store, landed, scan_all

PARTITION: Final = b"auth"
ADMINISTRATOR: Final = b"administrator"
PURPOSE: Final = credentials.PURPOSE
USER_DEFAULT: Final = "admin"
_SETTLED: Final = "1"
_SEAL_RETIRED_SECONDS: Final = 24 * 3600  # by then each process encrypts under a newer key
_SESSION_MARGIN_SECONDS: Final = 3600  # for clocks that differ

SecretsOfNow = Callable[[], tuple[bytes, bytes]]
"""The store's secret and the one before its rotation (empty without one), as they are stored now.
Raises `GravelerError`."""


@dataclass(frozen=True, slots=True)
class Account:
    """The administrator with the key of the last set-up or reset.  `settled`: the user exists."""

    user: str
    email: str
    access_key_id: str
    check: str
    epoch: str
    created_ns: int
    settled: bool = False


def keeper(
    kv: Store,
    clock: Clock,
    ids: Ids,
    secret: bytes,
    *,
    before: bytes = b"",
    wrapper: Wrapper | Literal[Absent.ABSENT] = ABSENT,
    read_again: SecretsOfNow | Literal[Absent.ABSENT] = ABSENT,
    opens_keys: bool = True,
) -> Keeper:
    """A keeper whose keys are derived from the store's secret, or wrapped under it.

    - `before`: the secret before its rotation; it unwraps what was wrapped under it, and hashes
      under it are accepted.
    - `wrapper`: wraps keys instead of the secret; the secrets then only unwrap.
    - `read_again`: reads both secrets again, for a process that meets a key which was wrapped after
      it started; by default the process knows only those that it was given.
    - `opens_keys`: false for a caller that may lack the rights to unwrap; it encrypts nothing.
    """

    def derived(secret: bytes, before: bytes) -> list[Wrapper]:
        own = [] if wrapper is ABSENT else [wrapper]
        return [*own, *(SecretWrapper(each, ids) for each in (secret, before) if each)]

    def derived_again() -> list[Wrapper]:
        return [] if read_again is ABSENT else derived(*read_again())

    wrappers = Wrappers(clock, derived(secret, before) if opens_keys else [], derived_again)
    ring = partial(Keyring, wrappers=wrappers, kv=kv, clock=clock, ids=ids)
    session_seconds = sessions.LIFE_SECONDS + _SESSION_MARGIN_SECONDS
    return Keeper(
        kv,
        clock,
        ids,
        secrets.derive(secret, PURPOSE),
        ring("secrets", retired_seconds=_SEAL_RETIRED_SECONDS),
        ring("sessions", retired_seconds=session_seconds),
        (secrets.derive(before, PURPOSE),) if before else (),
    )


def find(kv: Store) -> Account | Literal[Absent.ABSENT]:
    """The administrator; `ABSENT` before the set-up.  Raises `Corrupt`.  One KV request."""
    return _read(kv.get(PARTITION, ADMINISTRATOR))


def create(keeper: Keeper, user: str, email: str, credential: NewCredential) -> Account:
    """Set the lake up: make the administrator.  Only the first call succeeds; one write decides.
    Raises `AlreadyExists`, `Invalid`, `OutcomeUnknown`.  The write, and those of `settle`."""
    _check(user, credential)
    account = _account(keeper, user, email, credential)
    stamp = keeper.ids.stamp()
    outcome = keeper.kv.set_if(PARTITION, ADMINISTRATOR, _encode(account), stamp, ABSENT)
    if not landed(outcome, stamp):
        raise AlreadyExists("already initialized", Code.ADMINISTRATOR_EXISTS)
    with begun("set-up"):
        return settle(keeper, account, credential)


def ensure(keeper: Keeper, credential: NewCredential) -> bool:
    """Give the administrator this credential.  Returns whether it replaced another one.

    Raises `Invalid` for a credential that is not allowed, even if it is stored.
    """
    credentials.check(credential)
    if find(keeper.kv) is ABSENT:
        create(keeper, USER_DEFAULT, "", credential)
        return False
    if accepts(keeper, credential):
        return False
    reset(keeper, credential)
    return True


def reset(keeper: Keeper, credential: NewCredential) -> Account:
    """Give the administrator this key and no other.  Its old keys and all its sessions end.

    It is then enabled, in Admins and in no other group, and has no policy of its own.  Admins has
    the policies that are built in for it, as they were built in, and no others.  So no deny that
    somebody attached is left.

    Raises `NotFound` before the set-up, `Invalid`, `OutcomeUnknown`.  Three requests, and those of
    `settle`.  A late duplicate of an earlier reset has no effect.
    """
    known = find(keeper.kv)
    if known is ABSENT:
        raise NotFound("administrator not found: set the service up first")
    _check(known.user, credential)
    account = _account(keeper, known.user, known.email, credential)
    raw = _encode(account)
    replace_row(keeper.kv, (PARTITION, ADMINISTRATOR), keeper.ids, lambda row, lost: raw)
    with begun("reset"):
        return settle(keeper, account, credential)


def settle(
    keeper: Keeper, account: Account, credential: NewCredential | Literal[Absent.ABSENT] = ABSENT
) -> Account:
    """Make the built-in policies and groups that do not exist, and the administrator's user, as
    `account` says.  Does nothing for the user if it was made from this account before.

    `credential`: its key, if its secret is known; it is stored encrypted then.  Idempotent.  Raises
    `OutcomeUnknown`, `Contended`.  33 requests at a set-up, 7 at a reset, 2 for each policy of
    Admins that was changed, 6 for Admins itself, and those of `Keyring.current` with a credential;
    none for an account that is settled.
    """
    if account.settled:
        return account
    place = USERS.place(account.user)
    tables = ((POLICIES, policies.POLICIES), (GROUPS, policies.GROUPS))
    places = [table.place(id) for table, ids in tables for id in ids]
    rows = keeper.kv.get_many([*places, place])
    group = _settle_builtin(keeper, rows)
    stored = credentials.Credential(
        account.user, _uid(account), account.check, account.epoch, account.created_ns
    )
    row = rows.get(place, ABSENT)
    known = USERS.read(account.user, row)
    if known is not ABSENT:
        stored = stored._replace(uid=known.uid)
    if entities.settled_of(row) != account.epoch:
        if credential is not ABSENT:
            with suppress(GravelerError):  # the first use of the key encrypts it
                stored = stored._replace(sealed=credentials.seal(keeper, stored.uid, credential))
        credentials.put(keeper, account.access_key_id, stored)
    member, link = directory.MEMBER.place(group, account.user), Link(group.id, group.uid)

    def change(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        if entities.settled_of(row) == account.epoch:
            return ABSENT
        directory.index(keeper, [member])
        return USERS.encode(_user(USERS.read(account.user, row), account, link))

    replace_seen(keeper.kv, place, keeper.ids, change, row)
    return _mark_settled(keeper, account)


def accepts(keeper: Keeper, credential: NewCredential) -> bool:
    """Whether this is a valid key of the administrator, or will be when it is settled.  At most 3
    requests."""
    account, key_id = find(keeper.kv), credential.access_key_id
    if account is ABSENT:
        return False
    secret = credential.secret_access_key
    if not account.settled:
        return account.access_key_id == key_id and credentials.checks(keeper, account.check, secret)
    stored = credentials.find(keeper.kv, key_id)
    if stored is ABSENT or not credentials.checks(keeper, stored.check, secret):
        return False
    user = USERS.read(account.user, keeper.kv.get(*USERS.place(account.user)))
    return user is not ABSENT and credentials.is_of(stored, key_id, user)


# ---- settling ------------------------------------------------------------------------------------


def _settle_builtin(keeper: Keeper, rows: Mapping[Place, Row]) -> Group:
    """Make the built-in policies and groups that do not exist, and Admins and its policies what
    they were.  The result is the group Admins."""
    now = keeper.clock.now_ns()

    def uid() -> str:
        return keeper.ids.stamp().hex()

    stored = {
        id: _ensured(keeper, POLICIES, Policy(id, uid(), now, statement), rows)
        for id, statement in policies.POLICIES.items()
    }

    def attached(id: str) -> tuple[Link, ...]:
        return tuple(sorted(Link(name, stored[name].uid) for name in policies.GROUPS[id]))

    def index(id: str) -> None:
        directory.index(keeper, [directory.OF_GROUP.place(link, id) for link in attached(id)])

    groups = {}
    for id in policies.GROUPS:
        group = Group(id, uid(), now, policies=attached(id))
        groups[id] = _ensured(keeper, GROUPS, group, rows, partial(index, id))
    for name in policies.GROUPS[policies.ADMINS]:
        _restored(keeper, POLICIES, stored[name], statement=policies.POLICIES[name])
    admins: Group = groups[policies.ADMINS]
    needed, prepare = attached(policies.ADMINS), partial(index, policies.ADMINS)
    return _restored(keeper, GROUPS, admins, prepare, policies=needed)


def _ensured(
    keeper: Keeper,
    table: Table[Any],
    record: Any,
    rows: Mapping[Place, Row],
    prepare: Callable[[], None] = entities.no_preparation,
) -> Any:
    """The record with this id that exists, or else this one, stored.  `prepare` is called before
    each attempt."""
    known = table.read(record.id, rows.get(table.place(record.id), ABSENT))
    if known is not ABSENT:
        return known
    try:
        entities.create(keeper, table, record, prepare)
    except AlreadyExists:  # another process settles the same
        return entities.get(keeper.kv, table, record.id)
    return record


def _restored(
    keeper: Keeper,
    table: Table[E],
    record: E,
    prepare: Callable[[], None] = entities.no_preparation,
    **fields: Any,
) -> E:
    """The record with these fields.  No request if it has them.  `prepare` is called before each
    attempt."""

    def change(known: E) -> E:
        prepare()
        return replace(known, **fields)

    if all(getattr(record, name) == value for name, value in fields.items()):
        return record
    return entities.update(keeper, table, record.id, change)


def _user(known: User | Literal[Absent.ABSENT], account: Account, admins: Link) -> User:
    keys = (Key(account.access_key_id, account.epoch, account.created_ns),)
    if known is ABSENT:
        known = User(account.user, _uid(account), account.created_ns, account.email)
    own = replace(known, groups=(admins,), policies=(), keys=keys)
    return replace(own, settled=account.epoch, disabled=False)


def _uid(account: Account) -> str:
    """The uid of the user that is made from this account: the same in every process that settles
    it."""
    return secrets.fingerprint(f"uid {account.epoch}")


def _mark_settled(keeper: Keeper, account: Account) -> Account:
    done = replace(account, settled=True)

    def change(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        known = _read(row)
        same = known is not ABSENT and known.epoch == account.epoch and not known.settled
        return _encode(done) if same else ABSENT

    replace_row(keeper.kv, (PARTITION, ADMINISTRATOR), keeper.ids, change)
    return done


# ---- the row -------------------------------------------------------------------------------------


def _read(row: Found) -> Account | Literal[Absent.ABSENT]:
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
            pairs.get("settled") == _SETTLED,
        )
    except (KeyError, ValueError) as error:
        raise Corrupt("administrator record lacks fields") from error


def _account(keeper: Keeper, user: str, email: str, credential: NewCredential) -> Account:
    check = secrets.check_value(keeper.key, credential.secret_access_key)
    epoch = keeper.ids.stamp().hex()
    return Account(user, email, credential.access_key_id, check, epoch, keeper.clock.now_ns())


def _encode(account: Account) -> bytes:
    pairs = {
        "user": account.user,
        "email": account.email,
        "access_key_id": account.access_key_id,
        "check": account.check,
        "epoch": account.epoch,
        "created_ns": str(account.created_ns),
    }
    return wire.encode_pairs({**pairs, "settled": _SETTLED} if account.settled else pairs)


def _check(user: str, credential: NewCredential) -> None:
    if not user or len(user) > limits.name_length_max or not user.isprintable():
        raise Invalid(
            f"username invalid: it must be 1 to {limits.name_length_max} printable characters"
        )
    if set(user) & set("*?${}:/"):
        raise Invalid("username invalid: it must not contain any of * ? $ { } : /")
    credentials.check(credential)


# ---- communication -------------------------------------------------------------------------------

_PLACE: Final = (b"auth", b"communication")


def set_up_communication(kv: Store, wishes: Mapping[str, str], stamp: bytes) -> None:
    """Store the wishes.

    Raises `AlreadyExists` if some are stored; `OutcomeUnknown`.  One request.
    """
    outcome = kv.set_if(*_PLACE, wire.encode_pairs(dict(wishes)), stamp, ABSENT)
    if not landed(outcome, stamp):
        raise AlreadyExists("communication preferences are set already")


# ---- usage ---------------------------------------------------------------------------------------

_PARTITION: Final = b"usage"
_INSTALLATION: Final = b"installation"
_COUNTERS: Final = 16
_CUTS: Final = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


class MonthUsage(NamedTuple):
    """The requests of one month."""

    year: int
    month: int
    requests: int


class UsageReport(NamedTuple):
    """The id of the deployment, and its months in order."""

    installation: str
    months: tuple[MonthUsage, ...]


def add_usage(kv: Store, ids: Ids, month: str, requests: int) -> None:
    """Add to the requests of a month, `YYYY-MM`.

    Errors: `Contended`; `OutcomeUnknown`: they may be added.  Two requests.
    """
    stamp = ids.stamp()
    key = f"{month}/{stamp[0] % _COUNTERS}".encode()

    def change(row: Found, _lost: bool) -> bytes:
        known = 0 if row is ABSENT else int(wire.decode_pairs(row.value)["requests"])
        return wire.encode_pairs({"requests": str(known + requests)})

    replace_row(kv, (_PARTITION, key), ids, change)


def usage_report(kv: Store, ids: Ids) -> UsageReport:
    """What was counted.

    Errors: `Unavailable`.  One request for each 1,000 counters; two more the first time.
    """
    rows = dict(scan_all(kv, _PARTITION))
    known = rows.pop(_INSTALLATION, ABSENT)
    if known is ABSENT:
        known = _installed(kv, ids)
    counted: Counter[str] = Counter()
    for key, row in rows.items():
        counted[key.decode().partition("/")[0]] += int(wire.decode_pairs(row.value)["requests"])
    months = []
    for month, count in sorted(counted.items()):
        year, _, number = month.partition("-")
        months.append(MonthUsage(int(year), int(number), count))
    return UsageReport(wire.decode_pairs(known.value)["id"], tuple(months))


def _installed(kv: Store, ids: Ids) -> Row:
    """Store an id, unless another process has."""
    digits = ids.stamp().hex()
    id = "-".join(digits[start:end] for start, end in _CUTS)
    with suppress(OutcomeUnknown):
        kv.set_if(_PARTITION, _INSTALLATION, wire.encode_pairs({"id": id}), ids.stamp(), ABSENT)
    row = kv.get(_PARTITION, _INSTALLATION)
    if row is ABSENT:
        raise Unavailable("id of the installation not stored; try again")
    return row
