"""Reads the secret of a deployment on AWS: 120 random characters in Secrets Manager, made once.

    0       16            56                   120
    ├───────┼─────────────┼────────────────────┤
     suffix  secret access  the store's key is
     of the  key            the hash of these
     first access key id

What was made under the previous key is accepted as long as Secrets Manager keeps that version.
"""

import hashlib
import re
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from graveler.auth.credentials import NewCredential
from graveler.aws import FAILURES, AwsSession, Client, failure_of, unavailable
from graveler.errors import Corrupt, NotFound, Unavailable

_FORM: Final = re.compile(r"[0-9A-Za-z]{120}")
_KEY_ID_END: Final = 16
_SECRET_KEY_END: Final = 56
_KEY_ID_PREFIX: Final = "GRVL"
_CURRENT: Final = "AWSCURRENT"
_PREVIOUS: Final = "AWSPREVIOUS"


@dataclass(frozen=True, slots=True)
class Secret:
    """The first credentials of the administrator, and the key from which all others are derived.

    `before`: the key before the last rotation; empty if there was none."""

    first: NewCredential
    key: bytes
    before: bytes = b""


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
    return secret if before.key == secret.key else replace(secret, before=before.key)


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
