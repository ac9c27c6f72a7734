"""Sets the administrator's credentials of a store, and saves them in a file.

    <store>/credentials    mode 0600, lines that a shell can source:
        export LAKECTL_SERVER_ENDPOINT_URL=http://127.0.0.1:8000
        export LAKECTL_CREDENTIALS_ACCESS_KEY_ID=…
        export LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY=…
        export GRAVELER_API=http://127.0.0.1:8000/api/v1
        export GRAVELER_AUTH=…:…

Clients of lakeFS read the first three variables; the other two are for curl.  For this folder.
"""

import shlex
from pathlib import Path
from typing import Literal, NamedTuple

from graveler import private_files
from graveler.assembly import Embedded
from graveler.auth import accounts, credentials
from graveler.auth.accounts import Account
from graveler.auth.credentials import NewCredential
from graveler.auth.entities import Keeper
from graveler.errors import Conflict, Invalid, Unavailable
from graveler.records import ABSENT, Absent
from graveler.variables import KEY_VARIABLE, SECRET_VARIABLE, URL_VARIABLE

FILE = "credentials"
_API = "GRAVELER_API"
_AUTH = "GRAVELER_AUTH"
_REMEDY = "delete it and reset them"


class SavedCredential(NamedTuple):
    """The content of the credentials file."""

    url: str
    credential: NewCredential


def ensure(store: Embedded, credential: NewCredential) -> bool:
    """Give the administrator this credential.  Returns whether it replaced another one.

    Raises `Invalid` for a credential that is not allowed, even if an earlier version stored it.
    """
    credentials.check(credential)
    known = accounts.find(store.ports.kv)
    if known is ABSENT:
        accounts.create(keeper(store), accounts.USER_DEFAULT, "", credential)
        return False
    if matches(store, credential):
        return False
    accounts.reset(keeper(store), credential)
    return True


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
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ABSENT
    except OSError as error:
        raise Unavailable(f"credentials cannot be read: {path=!s} {error.strerror}") from error
    except UnicodeError as error:
        raise Invalid(f"credentials file is no text: {_REMEDY}: {path=!s}") from error
    try:
        words = shlex.split(text)
    except ValueError as error:
        reason = f"credentials file has no shell words: {error}: {_REMEDY}"
        raise Invalid(f"{reason}: {path=!s}") from error
    pairs = dict(word.partition("=")[::2] for word in words if "=" in word)
    if not pairs.get(KEY_VARIABLE) or not pairs.get(SECRET_VARIABLE):
        raise Invalid(f"credentials file has no credentials: {_REMEDY}: {path=!s}")
    credential = NewCredential(pairs[KEY_VARIABLE], pairs[SECRET_VARIABLE])
    return SavedCredential(pairs.get(URL_VARIABLE, ""), credential)


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
