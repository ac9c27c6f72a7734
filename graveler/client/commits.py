"""Commits, differences and merges, over the API.

Answers are the JSON objects of the API, as typed dictionaries.  A list is read page by page while
it is iterated.  Every other call is one request.  All calls raise the errors of `Session.call`.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Literal, NotRequired, TypedDict

from graveler.client.session import (
    Answer,
    Session,
    below,
    checked,
    failure,
    having,
    listed,
    looks,
    with_query,
)
from graveler.core.errors import (
    NotFound,
    OutcomeUnknown,
    Refused,
    Unauthenticated,
    Unavailable,
    Unsupported,
)

_CONFLICT_ROWS_MAX: Final = 10_000


def nothing(*_: object) -> None:
    """What to do when nobody wants to hear."""


class Commit(TypedDict):
    """A commit.  `creation_date` is in seconds since 1970."""

    id: str
    parents: list[str]
    committer: str
    message: str
    creation_date: int
    metadata: dict[str, str]
    meta_range_id: NotRequired[str]
    generation: NotRequired[int]
    version: NotRequired[int]


class Difference(TypedDict):
    """A path that differs.  `size_bytes` is absent for a common prefix, and for what is removed
    and not committed."""

    type: Literal["added", "removed", "changed", "conflict", "prefix_changed"]
    path: str
    path_type: NotRequired[Literal["object", "common_prefix"]]
    size_bytes: NotRequired[int]


class _Conflict(TypedDict):
    path: str


class MergeBase(TypedDict):
    """The commits that a merge would compare."""

    base_commit_id: str
    source_commit_id: NotRequired[str]
    destination_commit_id: NotRequired[str]


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which commits of a log to show.  `since`: an RFC 3339 time.  `objects`, `prefixes`: only
    commits that changed one of these paths.  `limit`: the server looks for no commit after the
    ones of a page.  `stop_at`: a ref whose commit is the last one."""

    objects: Sequence[str] = ()
    prefixes: Sequence[str] = ()
    since: str = ""
    first_parent: bool = False
    limit: bool = False
    stop_at: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """The message and metadata of a new commit.  `date`: in seconds since 1970, instead of now;
    only a commit takes it.  `force`: also into a read-only repository."""

    text: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False
    date: int | None = None
    force: bool = False

    def body(self) -> dict[str, Any]:
        """As a request has it."""
        body: dict[str, Any] = {"message": self.text}
        body |= {"metadata": dict(self.metadata)} if self.metadata else {}
        body |= {"allow_empty": True} if self.allow_empty else {}
        body |= {"date": self.date} if self.date is not None else {}
        body |= {"force": True} if self.force else {}
        return body


# ---- reading -------------------------------------------------------------------------------------


def get(session: Session, repository: str, ref: str) -> Commit:
    """The commit that a ref means.  Raises `NotFound`."""
    return checked(Commit, session.call("GET", below("repositories", repository, "commits", ref)))


def log(
    session: Session,
    repository: str,
    ref: str,
    which: LogFilter = LogFilter(),
    *,
    after: str = "",
    amount: int | None = None,
) -> Iterator[Commit]:
    """The commits that a ref leads to, newest first.  Raises `NotFound`."""
    path = with_query(
        below("repositories", repository, "refs", ref, "commits"),
        objects=list(which.objects),
        prefixes=list(which.prefixes),
        since=which.since,
        first_parent=which.first_parent,
        limit=which.limit,
        stop_at=which.stop_at,
    )
    return listed(session, Commit, path, after=after, amount=amount)


def log_of_all(
    session: Session, repository: str, heads: Sequence[str], which: LogFilter = LogFilter()
) -> Iterator[Commit]:
    """The commits that several commits lead to, each once, newest first.

    Cost: as `log` for each head; but without a filter by path, the log of a head is read no further
    when all that may follow comes from other heads too."""
    seen: set[str] = set()
    logs = [_unseen(log(session, repository, head, which), head, seen, which) for head in heads]
    yield from heapq.merge(*logs, key=lambda commit: -commit["creation_date"])


def _unseen(
    commits: Iterator[Commit], head: str, seen: set[str], which: LogFilter
) -> Iterator[Commit]:
    """The commits that no other log has listed.  What follows a commit of another log, that log
    lists too."""
    open_ends = {head}  # of what this log leads to, commits that still have to come
    for commit in commits:
        id = commit["id"]
        open_ends.discard(id)
        if id not in seen:
            seen.add(id)
            parents = commit["parents"][:1] if which.first_parent else commit["parents"]
            open_ends.update(parent for parent in parents if parent not in seen)
            yield commit
        if not open_ends - seen and not (which.objects or which.prefixes):
            return


def diff(
    session: Session,
    repository: str,
    left: str,
    right: str,
    *,
    prefix: str = "",
    two_dot: bool = False,
    amount: int | None = None,
) -> Iterator[Difference]:
    """What `right` changes: since its merge base with `left`, or with `two_dot` against `left`
    itself.  Sorted by path."""
    path = with_query(
        below("repositories", repository, "refs", left, "diff", right),
        type="two_dot" if two_dot else "three_dot",
    )
    return listed(session, Difference, path, prefix=prefix, amount=amount)


def uncommitted(
    session: Session, repository: str, branch: str, *, prefix: str = "", amount: int | None = None
) -> Iterator[Difference]:
    """The uncommitted changes of a branch, sorted by path.

    Servers answer the size 0 for all that is removed, which is left out here."""
    path = below("repositories", repository, "branches", branch, "diff")
    for item in listed(session, Difference, path, prefix=prefix, amount=amount):
        if item["type"] == "removed" and not item.get("size_bytes"):
            item.pop("size_bytes", None)
        yield item


def merge_base(session: Session, repository: str, source: str, destination: str) -> MergeBase:
    """The best common ancestor of two refs."""
    return checked(MergeBase, session.call("GET", _merge(repository, source, destination)))


# ---- writing -------------------------------------------------------------------------------------


def commit(
    session: Session,
    repository: str,
    branch: str,
    message: Message,
    *,
    source_metarange: str = "",
    if_no_hooks: Callable[[], None] = nothing,
) -> Commit:
    """Commit what is uncommitted, and wait for it.  Raises `NoChanges` if nothing is.
    After `OutcomeUnknown`, read the log.

    `source_metarange`: the content of the commit, such as `meta_range_id` of another commit of the
    repository, instead of what is uncommitted; the branch must have no uncommitted changes.  An
    empty commit has no such id, and an empty id commits what is uncommitted.
    `if_no_hooks`: called if the commit brings an action file, and the deployment runs no hooks.

    A commit continues on the server if the caller goes away.  Cost: a request to begin, one to
    learn the result, and one for each 2 seconds of a long commit."""
    path = below("repositories", repository, "branches", branch, "commits")

    def heard(answer: Answer) -> None:
        if answer.says_that_hooks_are_off:
            if_no_hooks()

    result = _task(session, path, message.body(), heard, source_metarange=source_metarange)
    return checked(Commit, result)


def begin_commit(session: Session, repository: str, branch: str, message: Message) -> str:
    """Begin to commit what is uncommitted, and return the id of the task, which continues on the
    server.  One request.  A server that commits only while the caller waits knows no such call."""
    path = below("repositories", repository, "branches", branch, "commits", "async")
    answer = session.call("POST", path, message.body())
    return str(having(answer, "id")["id"])


def merge(
    session: Session,
    repository: str,
    source: str,
    destination: str,
    message: Message = Message(),
    *,
    strategy: str = "",
    squash: bool = False,
    resolutions: Mapping[str, str] | None = None,
) -> str:
    """Merge `source` into the branch `destination`, and return the id of the commit.  Waits as
    `commit` does.

    `strategy`: `dest-wins` or `source-wins` decides conflicts.  `resolutions`: the side, `source`
    or `dest`, of those below a prefix, which only Graveler knows.  Raises `Conflict` if paths
    conflict without one; nothing was changed.  `DirtyBranch`: the destination has uncommitted
    changes.  `NoChanges`: there is nothing to merge."""
    body = {name: value for name, value in message.body().items() if value}
    body |= {"strategy": strategy} if strategy else {}
    body |= {"squash_merge": True} if squash else {}
    body |= {"resolutions": dict(resolutions)} if resolutions else {}
    answer = _task(session, _merge(repository, source, destination), body)
    return str(having(answer, "reference")["reference"])


def conflicts(
    session: Session, repository: str, source: str, destination: str, *, amount: int
) -> list[str]:
    """The first paths at which a merge would conflict, at most `amount`.

    A server without a preview of merges compares the refs instead; at most 10,000 differences are
    looked at."""
    try:
        path = _merge(repository, source, destination) + "/preview"
        items = listed(session, _Conflict, path, amount=amount)
        return [item["path"] for item in items]
    except NotFound:
        differences = diff(session, repository, destination, source, amount=_CONFLICT_ROWS_MAX)
        paths = (item["path"] for item in differences if item["type"] == "conflict")
        return list(islice(paths, amount))


def replay_conflicts(
    session: Session, repository: str, branch: str, *, base: str, source: str, amount: int
) -> list[str]:
    """The first paths at which the change from `base` to `source` conflicts with a branch, at most
    `amount`: all three are different there.  At most 10,000 differences of each pair are read."""
    pairs = ((base, source), (base, branch), (source, branch))
    paths = [
        {
            change["path"]
            for change in diff(
                session, repository, left, right, two_dot=True, amount=_CONFLICT_ROWS_MAX
            )
        }
        for left, right in pairs
    ]
    return sorted(set.intersection(*paths))[:amount]


def revert(
    session: Session,
    repository: str,
    branch: str,
    ref: str,
    *,
    message: str = "",
    parent: int = 0,
    allow_empty: bool = False,
) -> None:
    """Undo a commit with a new commit.  `message`: of the new one; empty: the server's usual one.
    `parent`: which parent of a merge to return to, from 1."""
    body: dict[str, Any] = {"ref": ref, "parent_number": parent}
    if message:
        body["commit_overrides"] = {"message": message}
    if allow_empty:
        body["allow_empty"] = True
    session.call("POST", below("repositories", repository, "branches", branch, "revert"), body)


def cherry_pick(
    session: Session, repository: str, branch: str, ref: str, *, parent: int = 0
) -> Commit:
    """Repeat what a commit changed on a branch.  Raises `Conflict`; nothing was changed."""
    body: dict[str, Any] = {"ref": ref, **({"parent_number": parent} if parent else {})}
    path = below("repositories", repository, "branches", branch, "cherry-pick")
    return checked(Commit, session.call("POST", path, body))


def _merge(repository: str, source: str, destination: str) -> str:
    return below("repositories", repository, "refs", source, "merge", destination)


def _task(
    session: Session,
    path: str,
    body: dict[str, Any],
    heard: Callable[[Answer], None] = nothing,
    **query: str,
) -> Any:
    """The result of a call that the server may execute in the background.  A server that cannot is
    asked to answer with the result itself.  `heard`: called with the answer that has the result.
    `OutcomeUnknown`: the server does not say whether the task, which it has begun, is done: it does
    not answer, or not to this caller, or no more to its token."""
    try:
        begun = session.call("POST", with_query(f"{path}/async", **query), body)
        id = str(having(begun, "id")["id"])
    except (NotFound, Unsupported):
        answer = session.answer("POST", with_query(path, **query), body)
        heard(answer)
        return answer.decoded(session.url)
    for _ in looks(session.clock):
        try:
            answer = session.answer("GET", f"{path}/async{below(id)}/status")
        except (Unavailable, Unauthenticated, Refused, NotFound) as error:
            raise OutcomeUnknown(f"task={id} was begun: {error}") from error
        status = having(answer.decoded(session.url), "completed")
        if status["completed"]:
            break
    if "error" in status:
        message = str(having(status["error"], "message")["message"])
        raise failure(int(status.get("status_code", 500)), message)
    heard(answer)
    return having(status, "result")["result"]
