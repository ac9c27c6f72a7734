"""One hook: what it sends, when it has passed, and what its log says.

A webhook passes if its answer has a 2xx status; an Airflow hook if the run was created and, if the
hook waits for it, has succeeded.  `{{ ENV.NAME }}` stands for a variable that the deployment allows
by name; names begin with `LAKEFSACTION_`, and no other variable is reached.  The log has the texts
of the action file, and the values of variables are removed from the answer before it is logged.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote, quote_plus, urlencode, urlsplit, urlunsplit

from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import GravelerError, Invalid, Unavailable, Unsupported
from graveler.core.web import Outgoing, Reply, Sender
from graveler.hooks.actions import Airflow, Hook, Webhook

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


# ---- calls ---------------------------------------------------------------------------------------

SIGNATURE_HEADER: Final = "X-Graveler-Signature"
DELIVERY_HEADER: Final = "X-Graveler-Delivery"
TIME_HEADER: Final = "X-Graveler-Timestamp"
_JSON: Final = {"Content-Type": "application/json"}
_ENDED: Final = {"success": True, "failed": False}


class HookMessage(NamedTuple):
    """What a hook is sent.  `delivery`: an id that is the same if the hook is called again after a
    crash; `facts`: the JSON body."""

    delivery: str
    facts: Mapping[str, Any]


class Outcome(NamedTuple):
    """How a hook ended.  `reason`: why it failed, without anything that the other side said;
    `log`: everything, for those who may read runs."""

    passed: bool
    reason: str
    log: str


@dataclass(frozen=True, slots=True)
class Caller:
    """How hooks reach the outside: `signing_key` signs every body."""

    sender: Sender
    clock: Clock
    variables: Variables
    signing_key: bytes = field(repr=False)


class _Log:
    """The lines of one hook's log."""

    def __init__(self, hidden: Variables) -> None:
        self._lines: list[str] = []
        self._variables = hidden
        self.secrets: list[str] = []

    def add(self, line: str) -> None:
        self._lines.append(line)

    @property
    def text(self) -> str:
        return self._variables.hidden("\n".join([*self._lines, ""]), self.secrets)


def run(caller: Caller, hook: Hook, message: HookMessage, seconds: float) -> Outcome:
    """Run one hook, for at most `seconds`.  Raises nothing that the other side or the action file
    causes."""
    log = _Log(caller.variables)
    call = hook.call
    try:
        if seconds <= 0:
            raise Unavailable("no time is left for the hook")
        if isinstance(call, Webhook):
            reason = _webhook(caller, call, message, seconds, log)
        elif isinstance(call, Airflow):
            reason = _airflow(caller, call, message, seconds, log)
        else:
            raise Unsupported("lua hooks are not supported; use a webhook instead")
    except GravelerError as error:
        reason = str(error)
    log.add(reason or "passed")
    return Outcome(not reason, reason, log.text)


def _webhook(caller: Caller, call: Webhook, message: HookMessage, seconds: float, log: _Log) -> str:
    """The reason why the hook failed; empty: it passed."""
    content = encoded(message.facts)
    log.add(f"POST {call.url}")
    for name, value in (*call.query, *call.headers.items()):
        log.add(f"{name}: {value}")
    log.add(content.decode("utf-8", "replace"))
    fill = caller.variables.filled
    query = [(name, fill(value)) for name, value in call.query]
    headers = {name: fill(value) for name, value in call.headers.items()}
    request = Outgoing("POST", _with_query(call.url, query), headers, content)
    request = _signed(caller, request, message.delivery)
    return _judged(caller.sender.send(request, min(seconds, call.seconds)), log)


def _signed(caller: Caller, request: Outgoing, delivery: str) -> Outgoing:
    """The request with the headers that the service adds."""
    time = str(caller.clock.now_ns() // limits.SECOND_NS)
    own = {
        DELIVERY_HEADER: delivery,
        TIME_HEADER: time,
        SIGNATURE_HEADER: signature(caller.signing_key, time, request.body),
    }
    headers = request.headers.items()
    others = {name: value for name, value in headers if name.lower() not in _lower(own)}
    return request._replace(headers={**others, **_JSON, **own})


def _lower(headers: Mapping[str, str]) -> set[str]:
    return {name.lower() for name in headers}


def _with_query(url: str, query: list[tuple[str, str]]) -> str:
    if not query:
        return url
    parts = urlsplit(url)
    joined = "&".join(text for text in (parts.query, urlencode(query)) if text)
    return urlunsplit(parts._replace(query=joined))


def _judged(reply: Reply, log: _Log) -> str:
    log.add(f"status {reply.status}")
    log.add(reply.body.decode("utf-8", "replace"))
    return "" if 200 <= reply.status < 300 else f"request failed (status code: {reply.status})"


# ---- airflow -------------------------------------------------------------------------------------


def _airflow(caller: Caller, call: Airflow, message: HookMessage, seconds: float, log: _Log) -> str:
    """The reason why the hook failed; empty: it passed."""
    end = caller.clock.steady_seconds() + min(seconds, call.seconds)
    url = f"{call.url.rstrip('/')}/api/v1/dags/{call.dag}/dagRuns"
    content = encoded({"conf": {**call.conf, "lakeFS_event": message.facts}})
    log.add(f"POST {url}")
    log.add(content.decode("utf-8", "replace"))
    fill = caller.variables.filled
    pair = f"{fill(call.username)}:{fill(call.password)}"
    token = base64.b64encode(pair.encode()).decode()
    log.secrets += [token, fill(call.password)]
    headers = {"Authorization": f"Basic {token}"}
    request = _signed(caller, Outgoing("POST", url, headers, content), message.delivery)
    reply = caller.sender.send(request, end - caller.clock.steady_seconds())
    reason = _judged(reply, log)
    if reason or not call.waits:
        return reason
    run_id = _field(reply, "dag_run_id")
    state_url = f"{url}/{quote(run_id, safe='')}"
    while (left := end - caller.clock.steady_seconds()) > 0:
        request = Outgoing("GET", state_url, headers, b"")
        reply = caller.sender.send(_signed(caller, request, message.delivery), left)
        if reason := _judged(reply, log):
            return reason
        state = _field(reply, "state")
        if state in _ENDED:
            return "" if _ENDED[state] else "the run of the dag failed"
        caller.clock.sleep(min(limits.hook_poll_seconds, left))
    return "the run of the dag did not end in time"


def _field(reply: Reply, name: str) -> str:
    try:
        fields = json.loads(reply.body)
    except (ValueError, RecursionError) as error:
        raise Unavailable("answer is not JSON") from error
    value = fields.get(name) if isinstance(fields, dict) else None
    try:
        if isinstance(value, str) and value.encode():
            return value
    except UnicodeEncodeError:
        pass  # JSON may have halves of characters
    raise Unavailable(f"answer has no text {name}")
