"""The secret of a deployment: 120 random characters in Secrets Manager, made once.

    0       16            56                   120
    ├───────┼─────────────┼────────────────────┤
     suffix  secret access  the store's key is
     of the  key            the hash of these
     first access key id

So the first credentials can be read and lost without the key being known.  For this folder and the
functions.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from graveler.auth.accounts import NewCredential
from graveler.aws import FAILURES, AwsSession, failure_of, unavailable
from graveler.errors import Corrupt

_FORM: Final = re.compile(r"[0-9A-Za-z]{120}")
_KEY_ID_END: Final = 16
_SECRET_KEY_END: Final = 56
_KEY_ID_PREFIX: Final = "GRVL"


@dataclass(frozen=True, slots=True)
class Secret:
    """The first credentials of the administrator, and the key that all others derive from."""

    first: NewCredential
    key: bytes


def read_secret(session: AwsSession, name: str) -> Secret:
    """The secret `name`.  Errors and cost of `secret_text`, and see `parse_secret`."""
    return parse_secret(secret_text(session, name))


def secret_text(session: AwsSession, name: str) -> str:
    """The characters of a secret of Secrets Manager, empty if it has bytes.  One request.
    `Unavailable` if AWS does not give it."""
    client = session.client("secretsmanager")
    try:
        return str(client.get_secret_value(SecretId=name).get("SecretString", ""))
    except FAILURES as error:
        raise unavailable(failure_of(error), f"read secret {name=}", write=False) from error
    finally:
        client.close()


def parse_secret(text: str) -> Secret:
    """What the characters mean.  `Corrupt` for another form than the one above."""
    if not _FORM.fullmatch(text):
        raise Corrupt("secret must have 120 letters and digits; restore it")
    first = NewCredential(_KEY_ID_PREFIX + text[:_KEY_ID_END], text[_KEY_ID_END:_SECRET_KEY_END])
    return Secret(first, hashlib.sha256(text[_SECRET_KEY_END:].encode()).digest())
