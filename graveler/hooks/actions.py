"""Action files: which hooks run at which events, and the actions of a commit.

    name: check formats
    on:
      pre-merge:
        branches: [main, "release-*"]
    hooks:
      - id: only_parquet
        type: webhook
        properties:
          url: https://hooks.example.com/parquet

`parse` checks everything that can be checked without the network.  Every file directly in
`_lakefs_actions/` is an action file, whatever its name: a gate that is misspelled must not stay
open.  Its bytes lie in the namespace of the repository: one that was linked or imported is invalid,
because whoever writes there could change the gate without a commit.  If the range that would hold
the files is known, nothing is read: the answer depends on that range alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from graveler.committed import reader
from graveler.core import globs, limits
from graveler.core.errors import Gone, Invalid, NotFound, Refused
from graveler.core.ids import CommitId, RepositoryUid
from graveler.core.records import ABSENT, Absent, Record
from graveler.core.streams import successor
from graveler.core.wire import recent_entry
from graveler.engine import hooks as events
from graveler.engine.commits.heads import commit_of
from graveler.engine.hooks import ACTIONS_FOLDER as FOLDER
from graveler.engine.objects import read
from graveler.engine.ports import OpenRepository, keyspace
from graveler.hooks import yaml_text

_KINDS: Final = (
    events.COMMIT,
    events.MERGE,
    events.REVERT,
    events.CHERRY_PICK,
    events.CREATE_BRANCH,
    events.DELETE_BRANCH,
    events.CREATE_TAG,
    events.DELETE_TAG,
)
EVENTS: Final = (
    events.PREPARE,
    *(f"{moment}-{kind}" for kind in _KINDS for moment in ("pre", "post")),
)
_TAG_EVENTS: Final = frozenset(name for name in EVENTS if name.endswith("-tag"))
_ID: Final = re.compile(r"[_A-Za-z][-_A-Za-z0-9]{0,254}", re.ASCII)
_DURATION: Final = re.compile(r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?", re.ASCII)
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)
_TEXT_LENGTH_MAX: Final = 4_096
_OWN_HEADERS: Final = frozenset(
    ("host", "content-length", "content-type", "transfer-encoding", "connection", "expect", "te")
)


class Condition(StrEnum):
    """When a hook of an action runs."""

    SUCCESS = "success()"  # no earlier hook of the action has failed
    FAILURE = "failure()"  # an earlier hook of the action has failed
    ALWAYS = "always()"


class HookType(StrEnum):
    """What a hook calls."""

    WEBHOOK = "webhook"
    AIRFLOW = "airflow"
    LUA = "lua"  # recognised and never run


@dataclass(frozen=True, slots=True)
class Webhook:
    """The properties of a webhook.  `headers` and `query` may hold `{{ ENV.NAME }}`."""

    url: str
    headers: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    seconds: float


@dataclass(frozen=True, slots=True)
class Airflow:
    """The properties of a run of an Airflow DAG.  `username` and `password` may hold
    `{{ ENV.NAME }}`.  `waits`: the hook ends when the run has ended."""

    url: str
    dag: str
    username: str
    password: str = field(repr=False)
    conf: Mapping[str, Any]
    waits: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Lua:
    """A Lua hook.  Graveler runs no Lua: the hook fails when it is due."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook of an action."""

    id: str
    condition: Condition
    call: Webhook | Airflow | Lua


class Action(NamedTuple):
    """One action file.  `on`: for each event the patterns of names; none: every name."""

    name: str
    on: Mapping[str, tuple[str, ...]]
    hooks: tuple[Hook, ...]

    def matches(self, event: str, name: str) -> bool:
        """Whether the action runs at the event of a branch or tag with this name."""
        patterns = self.on.get(event)
        if patterns is None:
            return False
        return not patterns or any(globs.matches(pattern, name) for pattern in patterns)


def parse(file: str, text: bytes) -> Action:
    """The action in a file.  `file`: its name, which is the action's name if the text has none.

    Raises `Invalid`, whose text names the file, the field and the rule.
    """
    try:
        return _action(file, yaml_text.parse(text))
    except Invalid as error:
        raise Invalid(f"action file invalid: file={file}: {error}") from error


def _action(file: str, value: Any) -> Action:
    fields = _mapping(value, "the file")
    _check_known(fields, ("name", "description", "on", "hooks"), "the file")
    name = _text(fields, "name", "the file", default=file)
    if "name" in fields and len(name) > limits.name_length_max:  # each hook of a run repeats it
        raise Invalid(f"the file: name must have at most {limits.name_length_max} characters")
    on = _mapping(fields.get("on"), "on")
    if not on:
        raise Invalid(f"on must name at least one event of: {', '.join(EVENTS)}")
    hooks = fields.get("hooks")
    if not isinstance(hooks, list) or not hooks:
        raise Invalid("hooks must be a list with at least one hook")
    if len(hooks) > limits.action_hooks_max:
        raise Invalid(f"hooks must be at most {limits.action_hooks_max}")
    parsed = tuple(_hook(each, number) for number, each in enumerate(hooks))
    ids = [hook.id for hook in parsed]
    if len(set(ids)) != len(ids):
        raise Invalid("hooks must have different ids")
    return Action(name, {event: _patterns(event, each) for event, each in on.items()}, parsed)


def _patterns(event: str, value: Any) -> tuple[str, ...]:
    if event not in EVENTS:
        raise Invalid(f"event is unknown: {event!r:.80}; known: {', '.join(EVENTS)}")
    if value is None:
        return ()
    field = "tags" if event in _TAG_EVENTS else "branches"
    fields = _mapping(value, event)
    _check_known(fields, (field,), event)
    patterns = fields.get(field)
    if patterns is None:
        return ()
    if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
        raise Invalid(f"{event}: {field} must be a list of patterns")
    if len(patterns) > limits.action_patterns_max:
        raise Invalid(f"{event}: {field} must be at most {limits.action_patterns_max} patterns")
    for pattern in patterns:
        # No name has these characters: such a pattern would never match, and the gate stay open.
        if not pattern or len(pattern) > limits.name_length_max or set(pattern) & set("[]\\/"):
            raise Invalid(
                f"{event}: pattern must have 1 to {limits.name_length_max} characters, with * and "
                f"? as wildcards and none of [ ] \\ /: {pattern!r:.80}"
            )
    return tuple(patterns)


def _hook(value: Any, number: int) -> Hook:
    where = f"hook {number + 1}"
    fields = _mapping(value, where)
    _check_known(fields, ("id", "type", "description", "if", "properties"), where)
    hook_id = _text(fields, "id", where)
    if not _ID.fullmatch(hook_id):
        raise Invalid(f"{where}: id must be letters, digits, '_' and '-', and begin with a letter")
    condition = fields.get("if", Condition.SUCCESS)
    if condition not in list(Condition):
        known = ", ".join(Condition)
        raise Invalid(f"{where}: if must be one of {known}: {condition!r:.80}")
    kind = _text(fields, "type", where)
    if kind not in list(HookType):
        raise Invalid(f"{where}: type must be webhook or airflow: {kind!r:.80}")
    properties = _mapping(fields.get("properties", {}), f"{where}: properties")
    return Hook(hook_id, Condition(condition), _CALLS[HookType(kind)](properties, where))


def _webhook(fields: Mapping[str, Any], where: str) -> Webhook:
    _check_known(fields, ("url", "timeout", "query_params", "headers"), where)
    headers = _texts(fields.get("headers"), f"{where}: headers")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS or _is_unsafe(value):
            raise Invalid(f"{where}: header is not allowed: {name!r:.80}")
    query: list[tuple[str, str]] = []
    for name, value in _mapping(fields.get("query_params") or {}, f"{where}: query_params").items():
        values = value if isinstance(value, list) else [value]
        query += [(name, _scalar(each, f"{where}: query_params")) for each in values]
    return Webhook(_url(fields, where), headers, tuple(query), _seconds(fields, where))


def _airflow(fields: Mapping[str, Any], where: str) -> Airflow:
    known = ("url", "dag_id", "username", "password", "dag_conf", "wait_for_dag", "timeout")
    _check_known(fields, known, where)
    waits = fields.get("wait_for_dag", False)
    if not isinstance(waits, bool):
        raise Invalid(f"{where}: wait_for_dag must be true or false")
    dag = _text(fields, "dag_id", where)
    if not _ID.fullmatch(dag.replace(".", "_")):
        raise Invalid(f"{where}: dag_id must be letters, digits, '_', '-' and '.'")
    return Airflow(
        _url(fields, where),
        dag,
        _text(fields, "username", where),
        _text(fields, "password", where),
        _mapping(fields.get("dag_conf") or {}, f"{where}: dag_conf"),
        waits,
        _seconds(fields, where),
    )


def _lua(fields: Mapping[str, Any], where: str) -> Lua:
    return Lua()


_CALLS: Final[Mapping[HookType, Callable[[Mapping[str, Any], str], Webhook | Airflow | Lua]]] = {
    HookType.WEBHOOK: _webhook,
    HookType.AIRFLOW: _airflow,
    HookType.LUA: _lua,
}


def _url(fields: Mapping[str, Any], where: str) -> str:
    url = _text(fields, "url", where)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Invalid(f"{where}: url is not valid") from error
    is_plain = url.isascii() and not _is_unsafe(url) and " " not in url and "\\" not in url
    has_user = "@" in parts.netloc
    if not is_plain or parts.scheme not in ("https", "http") or not parts.hostname or has_user:
        raise Invalid(f"{where}: url must be https://HOST[:PORT]/PATH, without user and password")
    if port == 0 or parts.fragment:
        raise Invalid(f"{where}: url must have no fragment, and a port of 1 to 65535")
    return url


def _seconds(fields: Mapping[str, Any], where: str) -> float:
    """A duration such as `30s` or `1m`."""
    text = fields.get("timeout", f"{limits.hook_seconds_max}s")
    match = _DURATION.fullmatch(str(text)) if text else None
    if match is None or not any(match.groups()):
        raise Invalid(f"{where}: timeout must be a duration such as 30s or 1m")
    minutes, seconds, milliseconds = (float(group or 0) for group in match.groups())
    whole = minutes * 60 + seconds + milliseconds / 1000
    if not 0 < whole <= limits.hook_seconds_max:
        raise Invalid(f"{where}: timeout must be at most {limits.hook_seconds_max}s")
    return whole


def _texts(value: Any, where: str) -> dict[str, str]:
    return {name: _scalar(each, where) for name, each in _mapping(value or {}, where).items()}


def _scalar(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float) or len(str(value)) > _TEXT_LENGTH_MAX:
        raise Invalid(f"{where}: values must be texts or numbers")
    return str(value)


def _text(fields: Mapping[str, Any], name: str, where: str, default: str = "") -> str:
    value = fields.get(name, default)
    if not isinstance(value, str) or not value or len(value) > _TEXT_LENGTH_MAX:
        raise Invalid(f"{where}: {name} must be a text of 1 to {_TEXT_LENGTH_MAX} characters")
    return value


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"{where} must be a mapping")
    return value


def _check_known(fields: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in fields:
        if name not in known:
            raise Invalid(f"{where}: field is unknown: {name!r:.80}; known: {', '.join(known)}")


def _is_unsafe(text: str) -> bool:
    """Whether the text has a control character, which could end a header."""
    return any(character < " " or character == "\x7f" for character in text)


# ---- action_files --------------------------------------------------------------------------------

_FOLDER: Final = FOLDER.encode()
_BEYOND: Final = successor(_FOLDER)
_KNOWN_COUNT_MAX: Final = 1_000

_Key = tuple[RepositoryUid, str]


class KnownActions:
    """The actions that were found in ranges and metaranges, which never change.  Bounded.  Threads
    may share it."""

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[Action, ...]] = {}

    def get(self, key: _Key) -> tuple[Action, ...] | Literal[Absent.ABSENT]:
        """What was put under this key."""
        return self._known.get(key, ABSENT)

    def put(self, key: _Key, actions: tuple[Action, ...]) -> None:
        """Keep it, for a while."""
        if len(self._known) >= _KNOWN_COUNT_MAX:
            self._known = {}
        self._known[key] = actions


def actions_of(repo: OpenRepository, known: KnownActions, commit: CommitId) -> tuple[Action, ...]:
    """The actions of a commit, by the name of their files.

    Raises `Invalid` if a file is invalid, or there are too many: then nobody can tell which hooks
    have to run.  Errors: `Gone`, `Unavailable`.
    Cost: no KV request for a cached commit.  If nothing is known, one look-up in the metarange and
    in one range, and one read for each file.
    """
    space, metarange = keyspace(repo), commit_of(repo, commit).metarange
    first = space.first_from(metarange, _FOLDER)
    if first is ABSENT or first.min_key >= _BEYOND:
        return ()
    is_whole = first.max_key >= _BEYOND  # no other range has files of the folder
    key = repo.record.uid, str(first.id if is_whole else metarange)
    actions = known.get(key)
    if actions is ABSENT:
        records = reader.scan(space, metarange, b"", _FOLDER)
        actions = _parsed(repo, list(islice(records, limits.action_files_max + 1)))
        known.put(key, actions)
    return actions


def _parsed(repo: OpenRepository, records: Sequence[Record]) -> tuple[Action, ...]:
    if len(records) > limits.action_files_max:
        raise Invalid(f"{FOLDER} must have at most {limits.action_files_max} objects")
    actions = []
    for key, value in records:
        name = key[len(_FOLDER) :].decode()
        if name and "/" not in name:  # some clients mark a folder by an empty object of its name
            actions.append(_file_action(repo, name, value))
    if sum(len(action.hooks) for action in actions) > limits.action_hooks_max:
        raise Invalid(f"{FOLDER} must have at most {limits.action_hooks_max} hooks")
    return tuple(actions)


def _file_action(repo: OpenRepository, name: str, value: bytes) -> Action:
    """The action of a file.  An error names the file and the remedy."""
    try:
        return parse(name, _file_text(repo, value))
    except (Invalid, Gone, Refused) as error:
        raise Invalid(
            f"action file invalid: file={FOLDER}{name}: {error}; every file directly in {FOLDER} "
            "is read as one: upload a correct one, or delete it, and commit; graveler reset "
            f"{repo.id}/BRANCH/{FOLDER}{name} undoes an uncommitted change"
        ) from error


def _file_text(repo: OpenRepository, value: bytes) -> bytes:
    entry = recent_entry(value)
    length_max = limits.action_file_length_bytes_max
    if entry.size > length_max:
        raise Invalid(f"it must have at most {length_max} bytes: size={entry.size}")
    if not read.lies_inside(repo.record, entry):
        raise Invalid(
            "its bytes are outside the repository, where they can change without a commit"
        )
    try:
        text = repo.blocks.read(read.address_of(repo, entry), 0, length_max + 1)
    except NotFound as error:
        raise Gone("it is not in the object store") from error
    if len(text) != entry.size:
        raise Invalid("its bytes were replaced after its commit")
    return text
