"""What a hook is sent: the JSON body, and the values that action files may refer to.  Pure.

`{{ ENV.NAME }}` in a header, a query parameter, a user name or a password stands for a variable
that the deployment allows by name.  Names begin with `LAKEFSACTION_`.  An action file reaches no
other variable of the environment.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote, quote_plus

from graveler import limits
from graveler.errors import Invalid

VARIABLE_PREFIX: Final = "LAKEFSACTION_"
_REFERENCE: Final = re.compile(r"\{\{\s*ENV\.([A-Za-z0-9_]{1,128})\s*\}\}", re.ASCII)
_HIDDEN: Final = "[hidden]"


class Facts(NamedTuple):
    """The facts of an event, in the words of clients.  Empty ones are not sent."""

    event_type: str
    event_time: str
    repository_id: str
    branch_id: str = ""
    source_ref: str = ""
    tag_id: str = ""
    commit_id: str = ""
    commit_message: str = ""
    committer: str = ""
    commit_metadata: Mapping[str, str] = {}
    merge_source: str = ""


def body(facts: Facts, action: str, hook: str) -> dict[str, Any]:
    """The JSON body for one hook."""
    fields = {**facts._asdict(), "action_name": action, "hook_id": hook}
    return {name: value for name, value in fields.items() if value}


def encoded(value: Mapping[str, Any]) -> bytes:
    """JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def signature(key: bytes, time: str, content: bytes) -> str:
    """The check value of a body that was sent at `time`."""
    return "sha256=" + hmac.new(key, f"{time}.".encode() + content, hashlib.sha256).hexdigest()


def rfc3339(time_ns: int) -> str:
    """RFC 3339, whole seconds, UTC."""
    return datetime.fromtimestamp(time_ns // limits.SECOND_NS, UTC).isoformat()


class Variables:
    """The variables that the deployment allows action files to use."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {
            name: value for name, value in values.items() if name.startswith(VARIABLE_PREFIX)
        }

    def filled(self, text: str) -> str:
        """The text with its references replaced.  Raises `Invalid` for a name that is not allowed,
        and names it."""

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in self._values:
                raise Invalid(f"variable is not allowed for actions: name={name}")
            return self._values[name]

        return _REFERENCE.sub(value, text)

    def hidden(self, text: str, more: Sequence[str] = ()) -> str:
        """The text without the values of variables and without the texts of `more`."""
        secrets = sorted({*self._values.values(), *more} - {""}, key=len, reverse=True)
        for secret in secrets:
            for form in (secret, json.dumps(secret)[1:-1], quote(secret, ""), quote_plus(secret)):
                text = text.replace(form, _HIDDEN)
        return text
