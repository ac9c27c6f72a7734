"""`graveler undo`: puts back the head of a branch or a tag, by the journal of this client.

The journal knows nothing of other clients, so the head is compared with the commit that the move
led to.  A repository that was deleted and created again is another one: its moves are left out.
"""

from collections.abc import Iterator
from typing import Any, Final

import click

from graveler.cli.support import journal
from graveler.cli.support.address import Address
from graveler.cli.support.command import client
from graveler.cli.support.failures import of_server
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.journal import ID_LENGTH, Move, identity
from graveler.cli.support.options import address_argument, count, yes
from graveler.cli.support.output import field
from graveler.core.errors import Conflict, GravelerError, NotFound, PreconditionFailed

_COLUMNS: Final = (
    field("time", "time", "TIME"),
    field("action"),
    field("ref"),
    field("before", "id", "BEFORE"),
    field("after", "id", "AFTER"),
)


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
    with 5, and names one that keeps the later commits.  A pull request stays merged; the command
    names the one that opens it again.

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
        invocation.output.items(_COLUMNS, rows, none="nothing to undo")
        return 0
    if not moves:
        raise NotFound("nothing to undo on this server")
    move = moves[0]
    if move.after:
        if not yes:
            _check_head(invocation, move)  # before the question; it may move until the answer
        way = f"from {move.after[:ID_LENGTH]} to {move.before[:ID_LENGTH]}"
        question = f"Undo the {move.action} of {move.ref}: move it {way}?"
        if move.pull_request:
            question += f"  The pull request {move.pull_request} stays merged."
        invocation.confirm(question, yes=yes)
        _move_back(invocation, move)
    else:
        question = (
            f"Undo the {move.action} of {move.ref}: make it again at {move.before[:ID_LENGTH]}?"
        )
        invocation.confirm(question, yes=yes)
        known = invocation.repo(move.repository)
        make = known.create_branch if move.kind == "branch" else known.create_tag
        make(move.name, move.before)
    journal.mark_undone(move)
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
            f"to open it again: {_reopening(invocation, move)}"
        )
    return 0


def _pull(invocation: Invocation, move: Move) -> dict[str, Any]:
    """For JSON: the pull request that stays merged, if it was one."""
    if not move.pull_request:
        return {}
    pull = {"id": move.pull_request, "status": "merged", "remedy": _reopening(invocation, move)}
    return {"pull_request": pull}


def _reopening(invocation: Invocation, move: Move) -> str:
    return of_server(invocation, f"graveler pr reopen {move.repository} {move.pull_request}")


def _of(invocation: Invocation, address: str | None) -> list[Move]:
    """The moves on this server, newest first; those of an address only.  Moves in a repository that
    does not exist any more are left out.  Cost: one request for each repository."""
    place = invocation.address(address) if address else None
    identities: dict[str, str] = {}  # empty: not known

    def is_there(move: Move) -> bool:
        name = move.repository
        if move.made_in and name not in identities:
            try:
                identities[name] = identity(invocation, name)
            except NotFound:
                identities[name] = "none"
            except GravelerError:  # the move itself will say it
                identities[name] = ""
        known = identities.get(name, "")
        return not (move.made_in and known) or move.made_in == known

    return [move for move in _chosen(invocation.session.url, place) if is_there(move)]


def _chosen(server: str, place: Address | None) -> Iterator[Move]:
    for move in reversed(journal.moves()):
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
        journal.move_tag(invocation, move.ref, move.after, move.before)
        return
    try:
        invocation.branch(move.ref).reset(to=move.before, expected=move.after)
    except PreconditionFailed:
        _check_head(invocation, move)
        raise


def _check_head(invocation: Invocation, move: Move) -> None:
    known = invocation.repo(move.repository)
    head = (known.branch if move.kind == "branch" else known.tag)(move.name).head
    if head != move.after:
        raise Conflict(
            f"{move.ref} has moved since the {move.action}: it is at {head[:ID_LENGTH]}, not at "
            f"{move.after[:ID_LENGTH]}; nothing was changed",
            remedy=_way_without_loss(invocation, move),
        )


def _way_without_loss(invocation: Invocation, move: Move) -> str:
    """A command that takes back a move, and keeps the commits that came after it.  Cost: one
    request, unless it was the move of a tag, or a reset."""
    if move.kind == "tag":
        return f"graveler tag create {move.ref} {move.before[:ID_LENGTH]} --force"
    if move.action == "reset":  # no commit made it, so none can be reverted
        return f"graveler branch create {move.ref.repository}/NEW {move.before[:ID_LENGTH]}"
    parents = invocation.repo(move.repository).commit(move.after).parents
    parent = " --parent 1" if len(parents) > 1 else ""
    return f"graveler revert {move.ref} {move.after[:ID_LENGTH]}{parent}"


def _row(move: Move) -> dict[str, Any]:
    names = {"ref": str(move.ref), "action": move.action, "kind": move.kind}
    return {
        "time": move.time_ns // 10**9,
        **names,
        "before": move.before,
        "after": move.after,
    }
