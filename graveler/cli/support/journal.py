"""The heads that branches and tags had before this client moved or deleted them.

A line of `undo.jsonl` is a move: which ref, on which server, from which commit to which.  A line
with `undone` marks the move of that `time_ns` as undone, and one with `of` says in which repository
it was.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from graveler.cli.support.address import Address
from graveler.cli.support.failures import of_server
from graveler.cli.support.interrupts import interrupt_ignored, interrupt_later
from graveler.cli.support.invocation import Invocation
from graveler.core.clock import SystemClock
from graveler.core.errors import GravelerError, Invalid, OutcomeUnknown, Unavailable
from graveler.core.settings import environment
from graveler.lake import state

_FILE: Final = "undo.jsonl"
_BYTES_MAX: Final = 1 << 20
ID_LENGTH: Final = 12  # in texts
_LINES_KEPT: Final = 1_000  # when the file is shortened


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
    made_in: str = ""  # `identity` of the repository; empty if it was not known

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
    try:
        file = _file()
        with interrupt_ignored():
            state.append(file, json.dumps(asdict(move)))
        with suppress(GravelerError, LookupError, TypeError, KeyboardInterrupt):
            place = {"made_in": identity(invocation, ref.repository), "of": now_ns}
            state.append(file, json.dumps(place))
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
        parents = invocation.repo(branch.repository).commit(id).parents
    except GravelerError as error:
        invocation.output.note(f"`graveler undo` will not know of this: {error}")
        return
    record(invocation, branch, action, parents[0].name, id, kind="branch", pull=pull)


def move_tag(invocation: Invocation, tag: Address, before: str, after: str) -> Mapping[str, Any]:
    """Move a tag from one commit to another: delete it, and create it.  The caller records it.

    If the creation fails, or Ctrl-C comes, the tag is made again at `before`; the error says where
    the tag was then.  If that fails too, a deletion is recorded, and the error has the command that
    makes the tag again.  A creation whose answer was lost, but that was done, is no failure."""
    known, is_deleted = invocation.repo(tag.repository), False
    try:
        known.delete_tag(tag.ref)
        is_deleted = True
        return known.create_tag(tag.ref, after).answer
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
    known = invocation.repo(tag.repository)
    try:
        with interrupt_later():
            try:
                at = known.create_tag(tag.ref, before).head
            except GravelerError:  # perhaps it exists
                at = known.tag(tag.ref).head
    except (GravelerError, KeyboardInterrupt):
        record(invocation, tag, "deletion", before, "", kind="tag")
        return (
            "",
            f"the tag {tag} was perhaps deleted, it was at {before}",
            f"graveler tag create {tag} {before}, or graveler undo",
        )
    return at, f"the tag {tag} is at {at[:ID_LENGTH]}", f"graveler tag show {tag}"


def _file() -> Path:
    return state.folder(environment()) / _FILE


def moves() -> list[Move]:
    """The moves that are not undone, oldest first.  Lines of another form are left out."""
    by_id: dict[int, Move] = {}
    for line in state.read(_file()).splitlines():
        try:
            fields = json.loads(line)
            if "undone" in fields:
                by_id.pop(fields["undone"], None)
            elif "of" in fields:
                id = fields["of"]
                if id in by_id:
                    by_id[id] = replace(by_id[id], made_in=str(fields["made_in"]))
            else:
                move = Move(**fields)
                by_id[move.time_ns] = move
        except (ValueError, TypeError, KeyError):  # a line that was torn
            continue
    return list(by_id.values())


def identity(invocation: Invocation, repository: str) -> str:
    """What tells a repository from a later one of its name."""
    known = invocation.repo(repository).answer
    return f"{known['creation_date']} {known['storage_namespace']}"


def mark_undone(move: Move) -> None:
    """Leave a move out of `moves` from now on."""
    state.append(_file(), json.dumps({"undone": move.time_ns}))
