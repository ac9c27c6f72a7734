"""Writes docs/reference/cli-schemas.json: the JSON schemas of what commands print with `--json`.

The types of objects of the API are those of `graveler.api`; what the client adds has a type here or
beside its command.  The tests of the command line check every output against these types.  Names
are added, never removed or retyped: a script may rely on them.

With `--check` it writes nothing, and fails if the file is out of date.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import (
    Any,
    Final,
    Literal,
    NotRequired,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import click
import msgspec

from graveler.api.actions import ActionRun, HookRun
from graveler.api.commits import FindMergeBaseResult
from graveler.api.config import AuditLine, InstallationUsageReport, UsageReport
from graveler.api.groups import Right
from graveler.api.imports import EventRule, ImportCreationResponse, ImportStatus
from graveler.api.jobs import Job
from graveler.api.login import User
from graveler.api.new_commits import MergeResult
from graveler.api.pulls import (
    Comment,
    PullMergeResult,
    PullRequestCreationResponse,
    PullRequestShape,
)
from graveler.api.repositories import RefsDump, RepositoryRestoreStatus
from graveler.api.shapes import (
    Commit,
    Diff,
    ObjectStats,
    Ref,
    Repository,
    TaskCreation,
)
from graveler.api.users import (
    GroupShape,
    KeyShape,
    KeyWithSecret,
    PolicyShape,
    UserShape,
)
from graveler.cli.commands.gc import Collected
from graveler.cli.main import root
from graveler.cli.support.administrator import NewKey, Rotated
from graveler.cli.support.verify import Verified
from graveler.lake.records import BranchRule

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli-schemas.json"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
Types = tuple[Any, ...]  # what a command prints is of one of them


def with_more(shape: type[msgspec.Struct], more: Any, name: str) -> type[msgspec.Struct]:
    """An object of the API, with what the client adds below `graveler`."""
    return msgspec.defstruct(name, [("graveler", more)], bases=(shape,), kw_only=True, frozen=True)


def only(more: Any, name: str) -> type[msgspec.Struct]:
    """What the client alone knows: everything is below `graveler`."""
    return msgspec.defstruct(name, [("graveler", more)], kw_only=True, frozen=True)


@cache
def dated(kind: Any) -> Any:
    """The type of a command that takes a time: with what `--at` adds below `graveler`."""
    if get_origin(kind) is list:
        return list[dated(get_args(kind)[0])]  # type: ignore[misc]
    name, fields = f"{kind.__name__}AtTime", get_type_hints(kind, include_extras=True)
    added = fields.pop("graveler", None)
    variants = [each for each in (added, *get_args(added)) if is_typeddict(each)]
    more: Any = (
        _typed_dict(f"{name}Added", variants[0], at=NotRequired[list[ReadRef]])
        if variants
        else Past
    )
    if is_typeddict(kind):
        return _typed_dict(
            name, kind, graveler=more if "graveler" in _required(kind) else NotRequired[more]
        )
    is_needed = variants and added is variants[0]
    field = (
        ("graveler", more) if is_needed else ("graveler", more | msgspec.UnsetType, msgspec.UNSET)
    )
    return msgspec.defstruct(name, [field], bases=(kind,), kw_only=True, frozen=True)


def _typed_dict(name: str, base: Any, **more: Any) -> Any:
    """A `TypedDict` with the fields of another one, and more."""
    needed = _required(base)
    fields = {
        key: hint if key in needed or get_origin(hint) is NotRequired else NotRequired[hint]
        for key, hint in get_type_hints(base, include_extras=True).items()
    }
    made = TypedDict(name, {**fields, **more})  # type: ignore[misc]
    made.__doc__ = base.__doc__
    return made


def _required(kind: Any) -> frozenset[str]:
    keys: frozenset[str] = kind.__required_keys__
    return keys


# ---- what the client adds ------------------------------------------------------------------------


class ReadRef(TypedDict):
    """A ref that was read as it was at a time, by `--at`, and the commit that it had then."""

    ref: str
    time: int
    commit_id: str


class Finished(TypedDict):
    """A change that has no record."""

    done: str


class Past(TypedDict):
    """The refs that were read as they were at a time."""

    at: NotRequired[list[ReadRef]]


class Named(TypedDict):
    """Something by its name."""

    id: str


class Pattern(TypedDict):
    """The glob of protected branches."""

    pattern: str


class Before(TypedDict):
    """Where a branch was."""

    before: str


class MovedHead(TypedDict):
    """A head that this client moved or deleted.  `after` is empty for a deletion."""

    time: int
    ref: str
    action: str
    kind: str
    before: str
    after: str


class MergedPull(TypedDict):
    """A pull request that stays merged.  `remedy`: the command that asks for the merge again."""

    id: str
    status: Literal["merged"]
    remedy: str


class HeadBack(MovedHead):
    """A head that was moved back.  `pull_request`: only if it was moved by the merge of one."""

    pull_request: NotRequired[MergedPull]


class FolderCounts(TypedDict):
    """How many paths below a folder differ."""

    path: str
    added: int
    removed: int
    changed: int
    conflict: int


class ChangeCounts(TypedDict):
    """How many paths differ, in all and by folder."""

    added: int
    removed: int
    changed: int
    conflict: int
    folders: list[FolderCounts]


class RowsAndColumns(TypedDict, total=False):
    """The rows and columns of a table, by `--rows`.  They are absent if not known."""

    rows_before: int
    rows_after: int
    columns_added: list[str]
    columns_removed: list[str]
    columns_changed: list[str]


class RowsOfFile(Diff, frozen=True, kw_only=True):
    """A path that differs.  `graveler`: only with `--rows`, of a table."""

    graveler: RowsAndColumns | msgspec.UnsetType = msgspec.UNSET


class Changes(TypedDict):
    """What a commit changed against its first parent."""

    changes: list[Diff]


class LastCommit(TypedDict):
    """The commit that last changed a path; null if it is not committed."""

    commit: Commit | None


class AnnotatedPath(TypedDict):
    """A path, with the commit that last changed it."""

    path: str
    graveler: LastCommit


class BisectState(TypedDict):
    """How far a search is.  `next`: the commit to test; `first_bad`: the result, if it is known."""

    repository: str
    next: str
    first_bad: str
    candidates: int


class Verdict(TypedDict):
    """An answer of a search."""

    verdict: str
    id: str
    message: str


class Candidate(TypedDict):
    """A commit that may be the first bad one."""

    id: str
    parents: list[str]
    message: str
    date: int


class WatchEvent(TypedDict):
    """Something that happened.  `id`: of a commit or a run, or empty."""

    event: Literal["head", "commit", "deleted", "uncommitted", "run"]
    time: int
    branch: str
    id: str
    text: str
    committer: NotRequired[str]
    uncommitted: NotRequired[int]


class Sums(TypedDict):
    """How much is below a path."""

    objects: int
    size_bytes: int


class FolderSize(TypedDict):
    """A child of a prefix, with what is below it; the path `.` is all of them."""

    path: str
    graveler: Sums


class ListedObject(TypedDict):
    """An object, or a common prefix, which has no more than a path and its type."""

    path: str
    path_type: Literal["common_prefix", "object"]
    physical_address: NotRequired[str]
    checksum: NotRequired[str]
    mtime: NotRequired[int]
    size_bytes: NotRequired[int]
    content_type: NotRequired[str]
    metadata: NotRequired[dict[str, str]]
    physical_address_expiry: NotRequired[int]


class FailedPath(TypedDict):
    """A path that was not transferred, and why."""

    path: str
    message: str


class Transferred(TypedDict):
    """What a transfer did.  `same`: what was left out, because it was there already."""

    objects: int
    size_bytes: int
    same: int
    deleted: int
    failed: list[FailedPath]


class PlannedTransfer(TypedDict):
    """What a transfer would do to a path, by `--dry-run`."""

    action: Literal["upload", "download", "copy", "move", "delete", "leave"]
    path: str
    size_bytes: NotRequired[int]


class FolderTransfer(TypedDict):
    """What happened to a linked folder.  `aside`: files that were kept under another name."""

    written: int
    removed: int
    aside: list[str]


class LinkedFolder(TypedDict):
    """A folder and the prefix that it is linked with.  `active_operation`: what was interrupted."""

    directory: str
    src: str
    at_head: str
    active_operation: str


class FolderReport(TypedDict):
    """A linked folder after a command; without a link, the folder is not linked."""

    src: NotRequired[str]
    at_head: NotRequired[str]
    active_operation: NotRequired[str]
    graveler: FolderTransfer


class FolderChange(TypedDict):
    """A path that differs from the commit of a linked folder."""

    location: Literal["local", "remote"]
    type: Literal["added", "removed", "changed"]
    path: str
    size_bytes: NotRequired[int]
    conflict: bool


class SignedIn(TypedDict):
    """The profile that a login made."""

    profile: str
    server: str


class Source(TypedDict):
    """Which server and key a command uses, and where they come from."""

    server: str
    access_key_id: str
    source: str


class ProfileLine(TypedDict):
    """A profile."""

    name: str
    server: str
    repository: str
    access_key_id: str
    default: bool


class ProfileInUse(Source):
    """The profile that a command would use."""

    has_secret: bool
    repository: str
    folder: str


class Setting(TypedDict, total=False):
    """A setting of the profile that applies."""

    server: str
    repository: str


class CheckResult(TypedDict):
    """What a check of `doctor` found, and what to do."""

    check: str
    result: Literal["ok", "note", "failed"]
    found: str
    remedy: str


class Script(TypedDict):
    """A script for a shell."""

    script: str


class Url(TypedDict):
    """A page in the browser."""

    url: str


class RightsOfUser(TypedDict):
    """What belongs to a user; the policies include those of its groups."""

    groups: list[str]
    policies: list[str]
    keys: list[str]


class RightsOfGroup(TypedDict):
    """What belongs to a group."""

    members: list[str]
    policies: list[str]


class HookRuns(TypedDict):
    """The hooks of a run."""

    hooks: list[HookRun]


class LogOfHook(HookRun, frozen=True, kw_only=True):
    """A hook of a run with its log."""

    log: str


class ValidAction(TypedDict):
    """An action file that is valid: its events with the globs of branches, and its hooks."""

    name: str
    on: dict[str, list[str]]
    hooks: list[str]


class UnreachableDays(TypedDict):
    """For how many days commits are kept that no branch or tag reaches."""

    unreachable_days: int


class RetentionRules(TypedDict):
    """The retention rule of a repository; `graveler` only of a store."""

    branches: list[BranchRule]
    default_retention_days: int
    graveler: NotRequired[UnreachableDays]


class Failure(TypedDict):
    """Why a command failed.  `code`: of the error, as in the API, or `usage`, `system`,
    `interrupted` or `declined`; `status`: of the answer of the server, or 0; `hint`: what to try;
    `paths`: of a conflict, the first ones in conflict."""

    code: str
    message: str
    hint: str
    status: int
    request_id: str
    paths: NotRequired[list[str]]


class FailureAnswer(TypedDict):
    """What a command that fails prints on stderr."""

    error: Failure


# ---- what each command prints --------------------------------------------------------------------

_COMMIT: Final = (Commit,)
_BISECT: Final = (only(BisectState, "BisectAnswer"),)
_TRANSFER: Final = only(Transferred, "TransferAnswer")
_PLAN: Final = list[PlannedTransfer]
_FOLDER: Final = (FolderReport,)
_FOLDER_CHANGES: Final = list[FolderChange]

_DELETED: Final = with_more(Ref, Finished, "DeletedRef")
# They have no record: the server answers with an empty body, or is not asked.
_FINISHED: Final = (
    *("repo delete", "repo meta set", "repo meta delete", "branch-protect add"),
    *(
        "branch-protect delete",
        "pr close",
        "pr reopen",
        "pr resolve",
        "jobs cancel",
        "bisect reset",
        "logout",
    ),
    *("config use", "config set", "events rules remove", "user delete", "user attach"),
    *("user disable", "user enable"),
    "user detach",
    *("user key delete", "group delete", "group add", "group remove", "group attach"),
    *("group detach", "policy delete", "policy attach", "policy detach"),
)
_PLAIN: Final[Mapping[str, Types]] = {
    **dict.fromkeys(_FINISHED, (only(Finished, "FinishedAnswer"),)),
    "branch delete": (_DELETED,),
    "tag delete": (_DELETED,),
    "repo list": (list[Repository],),
    "repo show": (Repository,),
    "repo create": (Repository,),
    "repo meta show": (dict[str, str],),
    "branch list": (list[Ref],),
    "branch show": (Ref,),
    "branch create": (Ref,),
    "tag list": (list[Ref],),
    "tag show": (Ref,),
    "tag create": (Ref,),
    "branch-protect list": (list[Pattern],),
    "status": (with_more(Ref, ChangeCounts, "BranchStatus"), _FOLDER_CHANGES),
    "diff": (list[RowsOfFile], only(ChangeCounts, "DiffCounts")),
    "commit": (*_COMMIT, TaskCreation),
    "log": (list[Commit],),
    "show": (with_more(Commit, Changes, "CommitWithChanges"),),
    "merge": (MergeResult,),
    "pr list": (list[PullRequestShape],),
    "pr show": (PullRequestShape,),
    "pr create": (PullRequestCreationResponse,),
    "pr merge": (PullMergeResult,),
    "pr comment": (Comment,),
    "pr comments": (list[Comment],),
    "merge-base": (FindMergeBaseResult,),
    "revert": (list[Commit],),
    "cherry-pick": _COMMIT,
    "restore": _COMMIT,
    "undo": (with_more(Ref, HeadBack, "RefMovedBack"), list[MovedHead]),
    "annotate": (list[AnnotatedPath],),
    "bisect start": _BISECT,
    "bisect good": _BISECT,
    "bisect bad": _BISECT,
    "bisect skip": _BISECT,
    "bisect run": _BISECT,
    "bisect log": (list[Verdict],),
    "bisect view": (list[Candidate],),
    "watch": (list[only(WatchEvent, "WatchLine")],),  # type: ignore[misc]
    "reset": (with_more(Ref, Before, "BranchMoved"),),
    "ls": (list[ListedObject], list[FolderSize]),
    "stat": (ObjectStats,),
    "upload": (_TRANSFER, ObjectStats, _PLAN),
    "download": (_TRANSFER, _PLAN),
    "cp": (_TRANSFER, _PLAN),
    "mv": (_TRANSFER, _PLAN),
    "rm": (_PLAN,),
    "presign": (ObjectStats,),
    "import": (ImportStatus, ImportCreationResponse),
    "local clone": _FOLDER,
    "local init": _FOLDER,
    "local list": (list[LinkedFolder],),
    "local status": (_FOLDER_CHANGES,),
    "local pull": _FOLDER,
    "local commit": _FOLDER,
    "local checkout": _FOLDER,
    "open": (only(Url, "OpenedPage"),),
    "login": (with_more(User, SignedIn, "UserSignedIn"),),
    "whoami": (with_more(User, Source, "UserOfServer"),),
    "config list": (list[ProfileLine],),
    "config show": (ProfileInUse,),
    "config get": (only(Setting, "SettingOfProfile"),),
    "doctor": (list[CheckResult],),
    "completion": (only(Script, "CompletionScript"),),
    "user list": (list[UserShape],),
    "user show": (with_more(UserShape, RightsOfUser, "UserWithRights"),),
    "user create": (UserShape,),
    "user key list": (list[KeyShape],),
    "user key create": (KeyWithSecret,),
    "group list": (list[GroupShape],),
    "group show": (with_more(GroupShape, RightsOfGroup, "GroupWithRights"),),
    "group create": (GroupShape,),
    "policy list": (list[PolicyShape],),
    "policy show": (PolicyShape,),
    "policy create": (PolicyShape,),
    "policy update": (PolicyShape,),
    "may-i": (Right,),
    "usage": (InstallationUsageReport, list[UsageReport]),
    "jobs list": (list[Job],),
    "jobs show": (Job,),
    "refs dump": (RefsDump,),
    "refs restore": (RepositoryRestoreStatus,),
    "actions list": (list[ActionRun],),
    "actions show": (with_more(ActionRun, HookRuns, "RunWithHooks"),),
    "actions log": (list[LogOfHook],),
    "actions validate": (only(ValidAction, "ValidFile"),),
    "audit": (list[AuditLine],),
    "verify": (Verified,),
    "gc": (list[Collected],),
    "retention": (RetentionRules,),
    "credentials reset": (NewKey,),
    "credentials rotate": (Rotated,),
    "events rules list": (list[EventRule],),
    "events rules add": (EventRule,),
}


def _takes_time(words: str) -> bool:
    command: click.Command = root()
    for word in words.split():
        assert isinstance(command, click.Group)
        child = command.get_command(click.Context(command), word)
        assert child is not None, words
        command = child
    return any("--at" in param.opts for param in command.params)


PRINTED: Final[Mapping[str, Types]] = {
    words: tuple(map(dated, kinds)) if _takes_time(words) else kinds
    for words, kinds in _PLAIN.items()
}

# Commands with `--json` that print no JSON of their own.
UNPRINTED: Final = {
    "cat": "the content of objects",
    "api": "the answer of the server as it is",
}


def document() -> dict[str, Any]:
    """The schemas by command, and the types that they refer to."""
    flat = [kind for kinds in PRINTED.values() for kind in kinds]
    schemas, types = msgspec.json.schema_components(
        [*flat, FailureAnswer], ref_template="#/$defs/{name}"
    )
    rest = iter(schemas)
    commands = {}
    for name, kinds in PRINTED.items():
        several = [next(rest) for _ in kinds]
        commands[name] = several[0] if len(several) == 1 else {"anyOf": several}
    failure = next(rest)
    return {
        "$schema": DIALECT,
        "description": "What each command of graveler prints with --json; with --jsonl, each line "
        "is an item of the list.",
        "failure": failure,
        "commands": commands,
        "$defs": {name: types[name] for name in sorted(types)},
    }


def main() -> int:
    """Write the file, or with `--check` compare it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if it is old")
    is_check = parser.parse_args().check
    fresh = json.dumps(document(), indent=2, ensure_ascii=False) + "\n"
    if is_check:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == fresh
        if not same:
            sys.stderr.write(f"{PAGE.name} is out of date: run scripts/cli_schemas.py\n")
        return not same
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
