"""The heads that branches and tags had before this client moved or deleted them; `graveler undo`.

A line of `undo.jsonl` is a move: which ref, on which server, from which commit to which.  A line
with `undone` marks the move of that `time_ns` as undone, and one with `of` says in which repository
it was.  Earlier versions leave the lines with `of` out, and read the moves.  The journal knows
nothing of other clients, so `undo` compares the head with the commit that the move led to.  A
repository that was deleted and created again is another one.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from graveler.cli import state
from graveler.cli.address import Address
from graveler.cli.arguments import address_argument, count, yes
from graveler.cli.command import client
from graveler.cli.hints import of_server
from graveler.cli.interrupts import interrupt_ignored, interrupt_later
from graveler.cli.invocation import Invocation
from graveler.cli.output import field
from graveler.client import commits, refs
from graveler.client.commits import LogFilter
from graveler.clock import SystemClock
from graveler.errors import (
    Conflict,
    GravelerError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from graveler.variables import environment

_FILE: Final = "undo.jsonl"
_BYTES_MAX: Final = 1 << 20
_ID_LENGTH: Final = 12  # in texts
_LINES_KEPT: Final = 1_000  # when the file is shortened
_NEW: Final = ("pull_request", "source", "made_in")  # fields that the first version had not
_REVERT: Final = re.compile(  # what the server and lakeFS write, and what `graveler revert` writes
    r"Revert ([0-9a-f]{6,64})\s*|Revert [^\n]*\n+Undoes commit ([0-9a-f]{64})\.\s*"
)
_REVERTS_MAX: Final = 100  # of later commits, among which a revert is looked for
_COLUMNS: Final = (
    field("time", "time", "TIME"),
    field("action"),
    field("ref"),
    field("before", "id", "BEFORE"),
    field("after", "id", "AFTER"),
)


@dataclass(frozen=True, slots=True)
class Move:
    """A head that moved.  `after` is empty for a deletion."""

    server: str
    repository: str
    kind: str  # branch or tag
    name: str
    action: str
    before: str
    after: str
    time_ns: int
    pull_request: str = ""  # whose merge it was
    source: str = ""  # the branch that it merged
    made_in: str = ""  # `_identity` of the repository; empty if it was not known

    @property
    def ref(self) -> Address:
        return Address(self.repository, self.name)


@dataclass(frozen=True, slots=True)
class MergedPull:
    """The pull request whose merge a move was, and the branch that it merged."""

    id: str
    source: str


def record(
    invocation: Invocation,
    ref: Address,
    action: str,
    before: str,
    after: str,
    *,
    kind: str,
    pull: MergedPull | None = None,
) -> None:
    """Remember a move, and then the repository that it was in.

    A journal that cannot be written fails no command, nor does a server that does not say which
    repository it is.  Ctrl-C ends that request alone, for the move is done.  Cost: one request."""
    now_ns = SystemClock().now_ns()
    server = invocation.session.url
    move = Move(server, ref.repository, kind, ref.ref, action, before, after, now_ns)
    if pull is not None:
        move = replace(move, pull_request=pull.id, source=pull.source)
    # Without empty fields, so that an earlier version can read the lines that it knows.
    fields = {name: value for name, value in asdict(move).items() if name not in _NEW or value}
    try:
        file = _file()
        with interrupt_ignored():
            state.append(file, json.dumps(fields))
        with suppress(GravelerError, LookupError, TypeError, KeyboardInterrupt):
            identity = {"made_in": _identity(invocation, ref.repository), "of": now_ns}
            state.append(file, json.dumps(identity))
        if file.stat().st_size > _BYTES_MAX:
            lines = state.read(file).splitlines()[-_LINES_KEPT:]
            state.write(file, "".join(f"{line}\n" for line in lines))
    except (Unavailable, Invalid, OSError) as error:
        invocation.output.note(f"`graveler undo` will not know of this: {error}")


def record_commit(
    invocation: Invocation,
    branch: Address,
    action: str,
    id: str,
    pull: MergedPull | None = None,
) -> None:
    """Remember a commit that became the head of a branch: its first parent was the head before.
    Cost: two requests."""
    try:
        parents = commits.get(invocation.session, branch.repository, id)["parents"]
    except GravelerError as error:
        invocation.output.note(f"`graveler undo` will not know of this: {error}")
        return
    record(invocation, branch, action, parents[0], id, kind="branch", pull=pull)


def move_tag(invocation: Invocation, tag: Address, before: str, after: str) -> refs.Ref:
    """Move a tag from one commit to another: delete it, and create it.  The caller records it.

    If the creation fails, or Ctrl-C comes, the tag is made again at `before`; the error says where
    the tag was then.  If that fails too, a deletion is recorded, and the error has the command that
    makes the tag again.  A creation whose answer was lost, but that was done, is no failure."""
    session, name, is_deleted = invocation.session, tag.repository, False
    try:
        refs.delete_tag(session, name, tag.ref)
        is_deleted = True
        return refs.create_tag(session, name, tag.ref, after)
    except KeyboardInterrupt as interrupt:
        _, state, remedy = _put_back(invocation, tag, before)
        raise KeyboardInterrupt(of_server(invocation, f"{state}: {remedy}")) from interrupt
    except GravelerError as error:
        if is_deleted or isinstance(error, OutcomeUnknown):
            at, state, remedy = _put_back(invocation, tag, before)
            if at == after:
                return {"id": tag.ref, "commit_id": after}
            reason = error.fields.get("reason", "") or str(error)
            error.fields = {**error.fields, "reason": f"{reason}; {state}", "remedy": remedy}
        raise


def _put_back(invocation: Invocation, tag: Address, before: str) -> tuple[str, str, str]:
    """Make a tag again that was perhaps deleted.  Returns its commit, or nothing if it is not
    there; where it is, in words; and what to do.  Ctrl-C waits for this."""
    session, name = invocation.session, tag.repository
    try:
        with interrupt_later():
            try:
                at = refs.create_tag(session, name, tag.ref, before)["commit_id"]
            except GravelerError:  # perhaps it exists
                at = refs.get_tag(session, name, tag.ref)["commit_id"]
    except (GravelerError, KeyboardInterrupt):
        record(invocation, tag, "deletion", before, "", kind="tag")
        return (
            "",
            f"the tag {tag} was perhaps deleted, it was at {before}",
            f"graveler tag create {tag} {before}, or graveler undo",
        )
    return at, f"the tag {tag} is at {at[:_ID_LENGTH]}", f"graveler tag show {tag}"


def _file() -> Path:
    return state.folder(environment()) / _FILE


def _moves() -> list[Move]:
    """The moves that are not undone, oldest first.  Lines of another form are left out."""
    moves: dict[int, Move] = {}
    for line in state.read(_file()).splitlines():
        try:
            fields = json.loads(line)
            if "undone" in fields:
                moves.pop(fields["undone"], None)
            elif "of" in fields:
                id = fields["of"]
                if id in moves:
                    moves[id] = replace(moves[id], made_in=str(fields["made_in"]))
            else:
                move = Move(**fields)
                moves[move.time_ns] = move
        except (ValueError, TypeError, KeyError):  # a line that was torn, or of another version
            continue
    return list(moves.values())


@client(
    "undo",
    examples=(
        "graveler undo                                  # the last reset, merge or deletion",
        "graveler undo lake/main                        # the last one of this branch",
        "graveler undo --list -n 10",
    ),
)
@address_argument("address", metavar="[REPOSITORY[/REF]]", required=False)
@click.option("--list", "is_list", is_flag=True, help="show what can be undone, newest first")
@count
@yes
def undo(
    invocation: Invocation, address: str | None, is_list: bool, amount: int | None, yes: bool
) -> int:
    """Move a branch or a tag back to where it was before this client moved or deleted it.

    It undoes the last `reset --hard`, `merge`, `pr merge`, `restore`, `tag create --force`, or
    deletion of a branch or tag on this server; one after the other if it is repeated.  Uncommitted
    changes are not brought back.  A branch that has moved since is left alone: the command ends
    with 5, and names one that keeps the later commits.  A pull request stays merged, because the
    API cannot open it again: the command says how to ask for the same merge anew.

    \b
    Which one:
      undo     the last move of this client, as if it had not been
      revert   what one commit changed, by a new commit; the later ones stay
      restore  the content of an old commit, by a new commit; all history stays
      reset    uncommitted changes; with --hard, later commits leave the history
    """
    moves = _of(invocation, address)
    if is_list:
        rows = [_row(move) for move in moves][:amount]
        if not invocation.output.items(_COLUMNS, rows):
            invocation.output.note("nothing to undo")
        return 0
    if not moves:
        raise NotFound("nothing to undo on this server")
    move = moves[0]
    if move.after:
        if not yes:
            _check_head(invocation, move)  # before the question; it may move until the answer
        way = f"from {move.after[:_ID_LENGTH]} to {move.before[:_ID_LENGTH]}"
        question = f"Undo the {move.action} of {move.ref}: move it {way}?"
        if move.pull_request:
            question += f"  The pull request {move.pull_request} stays merged."
        invocation.confirm(question, yes=yes)
        _move_back(invocation, move)
    else:
        question = (
            f"Undo the {move.action} of {move.ref}: make it again at {move.before[:_ID_LENGTH]}?"
        )
        invocation.confirm(question, yes=yes)
        make = refs.create_branch if move.kind == "branch" else refs.create_tag
        make(invocation.session, move.repository, move.name, move.before)
    state.append(_file(), json.dumps({"undone": move.time_ns}))
    result = {
        "id": move.name,
        "commit_id": move.before,
        "graveler": {**_row(move), **_pull(invocation, move)},
    }
    lines = [f"{move.ref} is at {invocation.output.id(move.before)} again"]
    invocation.output.record(result, lines)
    if move.pull_request:
        invocation.output.note(
            f"the pull request {move.pull_request} stays merged on the server; "
            f"to ask for the merge again: {_new_pull(invocation, move)}"
        )
    return 0


def _pull(invocation: Invocation, move: Move) -> dict[str, Any]:
    """For JSON: the pull request that stays merged, if it was one."""
    if not move.pull_request:
        return {}
    pull = {"id": move.pull_request, "status": "merged", "remedy": _new_pull(invocation, move)}
    return {"pull_request": pull}


def _new_pull(invocation: Invocation, move: Move) -> str:
    branches = f"{move.repository}/{move.source} {move.name}"
    return of_server(invocation, f"graveler pr create {branches}")


def _identity(invocation: Invocation, repository: str) -> str:
    """What tells a repository from a later one of its name."""
    known = refs.get_repository(invocation.session, repository)
    return f"{known['creation_date']} {known['storage_namespace']}"


def _of(invocation: Invocation, address: str | None) -> list[Move]:
    """The moves on this server, newest first; those of an address only.  Moves in a repository that
    does not exist any more are left out.  Cost: one request for each repository."""
    place = invocation.path(address, optional=True) if address and "/" in address else None
    if address and place is None:
        place = invocation.repository(address)
    identities: dict[str, str] = {}  # empty: not known

    def is_there(move: Move) -> bool:
        name = move.repository
        if move.made_in and name not in identities:
            try:
                identities[name] = _identity(invocation, name)
            except NotFound:
                identities[name] = "none"
            except GravelerError:  # the move itself will say it
                identities[name] = ""
        known = identities.get(name, "")
        return not (move.made_in and known) or move.made_in == known

    return [move for move in _chosen(invocation.session.url, place) if is_there(move)]


def _chosen(server: str, place: Address | None) -> Iterator[Move]:
    for move in reversed(_moves()):
        if move.server != server or (place and place.repository != move.repository):
            continue
        if place is None or place.ref in ("", move.name):
            yield move


def _move_back(invocation: Invocation, move: Move) -> None:
    """Put the branch or the tag back.  Raises `Conflict` if it has moved, also during the question.

    The server compares the head of a branch when it moves it; a server that knows no such condition
    would not, so the head is looked at before, too."""
    _check_head(invocation, move)
    if move.kind == "tag":
        move_tag(invocation, move.ref, move.after, move.before)
        return
    session, repository, name = invocation.session, move.repository, move.name
    try:
        refs.hard_reset_branch(session, repository, name, move.before, expected=move.after)
    except PreconditionFailed:
        _check_head(invocation, move)
        raise


def _check_head(invocation: Invocation, move: Move) -> None:
    get = refs.get_branch if move.kind == "branch" else refs.get_tag
    head = get(invocation.session, move.repository, move.name)["commit_id"]
    if head != move.after:
        reverting = _revert_of(invocation, move)
        if reverting:
            raise Conflict(
                f"the {move.action} of {move.ref} is undone already: {reverting[:_ID_LENGTH]} "
                "reverts it; nothing was changed",
                remedy=f"graveler log {move.ref}",
            )
        raise Conflict(
            f"{move.ref} has moved since the {move.action}: it is at {head[:_ID_LENGTH]}, not at "
            f"{move.after[:_ID_LENGTH]}; nothing was changed",
            remedy=_way_without_loss(invocation, move),
        )


def _revert_of(invocation: Invocation, move: Move) -> str:
    """The id of a later commit of the branch that reverts the move, and that was not reverted
    itself; empty if there is none.  Cost: one request."""
    if move.kind == "tag" or move.action == "reset":
        return ""
    where = (invocation.session, move.repository, move.name, LogFilter(stop_at=move.after))
    undone: list[str] = []  # ids, or their beginnings
    with suppress(GravelerError):
        for commit in commits.log(*where, amount=_REVERTS_MAX):  # newest first
            if commit["id"] == move.after or commit["id"].startswith(tuple(undone)):
                continue
            id = _reverted(commit["message"])
            if id and move.after.startswith(id):
                return commit["id"]
            undone += [id] * bool(id)
    return ""


def _reverted(message: str) -> str:
    """The id of the commit that a commit with this message reverts, or how it begins; empty if it
    is the message of no revert."""
    revert = _REVERT.fullmatch(message)
    return (revert[1] or revert[2]) if revert else ""


def _way_without_loss(invocation: Invocation, move: Move) -> str:
    """A command that takes back a move, and keeps the commits that came after it.  Cost: one
    request, unless it was the move of a tag, or a reset."""
    if move.kind == "tag":
        return f"graveler tag create {move.ref} {move.before[:_ID_LENGTH]} --force"
    if move.action == "reset":  # no commit made it, so none can be reverted
        return f"graveler branch create {move.ref.repository}/NEW {move.before[:_ID_LENGTH]}"
    parents = commits.get(invocation.session, move.repository, move.after)["parents"]
    parent = " --parent 1" if len(parents) > 1 else ""
    return f"graveler revert {move.ref} {move.after[:_ID_LENGTH]}{parent}"


def _row(move: Move) -> dict[str, Any]:
    names = {"ref": str(move.ref), "action": move.action, "kind": move.kind}
    return {
        "time": move.time_ns // 10**9,
        **names,
        "before": move.before,
        "after": move.after,
    }
