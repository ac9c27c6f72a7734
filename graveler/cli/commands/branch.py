"""`graveler branch`: branches, and `graveler reset`."""

from copy import copy
from typing import Final

import click

from graveler.cli.commands.commit import revert
from graveler.cli.support import journal, times
from graveler.cli.support.address import SCHEME, Address
from graveler.cli.support.command import ClientCommand, client, group, run_command
from graveler.cli.support.failures import creating, of_server
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, at, paging, yes
from graveler.cli.support.output import field, first_line, plural
from graveler.core.errors import Conflict, Internal, NotFound, PreconditionFailed, UsageMistake
from graveler.core.ids import parse_branch_id

COLUMNS: Final = (field("id", title="BRANCH"), field("commit_id", "id", "COMMIT"))
_YES_HELP: Final = "do not ask; with {}, --confirm does that"
_COUNT_MAX: Final = 10_000  # of uncommitted changes that a question counts
_DAMAGED: Final = ("410", "500")  # statuses of a read of a damaged commit


def _hidden(command: ClientCommand) -> ClientCommand:
    hidden = copy(command)
    hidden.hidden = True
    return hidden


@group("branch", commands={"revert": _hidden(revert)})  # as in lakectl
def branch() -> None:
    """Create, list and delete branches."""


@client(
    "list",
    group=branch,
    examples=("graveler branch list lake", "graveler branch list lake --prefix dev- --json"),
)
@address_argument("repository")
@paging
@click.option("--hidden", is_flag=True, help="hidden branches too")
def list_branches(
    invocation: Invocation,
    repository: str,
    prefix: str,
    after: str,
    amount: int | None,
    hidden: bool,
) -> int:
    """List the branches of a repository."""
    known = invocation.repo(invocation.repository(repository))
    rows = known.branches(prefix, after=after, limit=amount, hidden=hidden)
    invocation.output.items(COLUMNS, rows, none="no branches")
    return 0


@client("show", group=branch, examples=("graveler branch show lake/main",))
@address_argument("branch")
def show(invocation: Invocation, branch: str) -> int:
    """Show the commit of a branch."""
    invocation.output.pairs(invocation.branch(invocation.ref(branch)), COLUMNS)
    return 0


@client(
    "create",
    group=branch,
    examples=(
        "graveler branch create lake/dev               # from the default branch",
        "graveler branch create lake/dev main",
        "graveler branch create lake/fix lake/v1.2",
        "graveler branch create lake/old main --at '2 days ago'",
    ),
)
@address_argument("new")
@address_argument("source", metavar="[FROM]", required=False)
@click.option("-s", "--source", "lakectl_source", metavar="FROM", hidden=True)
@click.option("--hidden", is_flag=True, help="leave it out of lists")
@at
def create(
    invocation: Invocation,
    new: str,
    source: str | None,
    lakectl_source: str | None,
    hidden: bool,
) -> int:
    """Create the branch NEW on the commit of FROM.

    FROM is a branch, a tag or a commit; without it, the default branch of the repository.  Nothing
    is copied.
    """
    address = invocation.ref(new)
    begin = _source(invocation, address, source or lakectl_source)
    remedy = f"graveler branch show {address}"
    with creating("branch", parse_branch_id, address.ref, remedy):
        known = invocation.repo(address.repository)
        created = known.create_branch(address.ref, begin, hidden=hidden)
    commit = invocation.output.id(created.head)
    lines = [f"created branch {address} from {begin} at {commit}"]
    invocation.output.record(created, lines)
    return 0


def _source(invocation: Invocation, new: Address, text: str | None) -> str:
    if text is None:
        return times.then(invocation, invocation.default_ref(new.repository)).ref
    source = times.then(invocation, invocation.ref(text))
    if source.repository != new.repository:
        raise UsageMistake(
            f"a branch begins in its own repository: {source} is not in {new.repository}"
        )
    return source.ref


@client(
    "delete",
    group=branch,
    examples=("graveler branch delete lake/dev", "graveler branch delete lake/dev --yes"),
)
@address_argument("branch")
@yes
def delete(invocation: Invocation, branch: str, yes: bool) -> int:
    """Delete a branch.

    Its uncommitted changes are lost; its commits stay for as long as something leads to them.
    """
    address = invocation.ref(branch)
    commit = invocation.branch(address).head
    if not yes:
        changes = _uncommitted(invocation, address, "")
        lost = f" with {changes}" if changes else ""
        invocation.confirm(f"Delete the branch {address}{lost}?", yes=yes)
        _check_unmoved(invocation, address, commit)
    invocation.repo(address.repository).delete_branch(address.ref)
    journal.record(invocation, address, "deletion", commit, "", kind="branch")
    again = of_server(invocation, f"graveler branch create {address} {commit}")
    invocation.output.done(
        f"deleted branch {address}, it was at {commit}\nto make it again: {again}",
        id=address.ref,
        commit_id=commit,
    )
    return 0


@client(
    "reset",
    examples=(
        "graveler reset lake/dev                        # all uncommitted changes",
        "graveler reset lake/dev/sales/                 # those below a prefix",
        "graveler reset lake/dev/sales/2026.csv",
        "graveler reset --hard lake/dev main            # the head too",
    ),
)
@address_argument("address", metavar="BRANCH[/PATH]")
@address_argument("ref", required=False)
@click.option("--hard", is_flag=True, help="move the head of the branch to REF")
@click.option("--confirm", "typed", metavar="NAME", help="with --hard: the branch again")
@at
@click.option("-y", "--yes", is_flag=True, help=_YES_HELP.format("--hard"))
def reset(
    invocation: Invocation,
    address: str,
    ref: str | None,
    hard: bool,
    typed: str | None,
    yes: bool,
) -> int:
    """Discard uncommitted changes, or with --hard move a branch to another commit.

    A PATH that ends with a slash is a prefix.
    """
    if hard != (ref is not None):
        raise UsageMistake("--hard needs a REF, and only --hard takes one")
    if not hard and times.is_past(invocation):
        raise UsageMistake("--at needs --hard")
    if ref is not None:
        return _hard_reset(invocation, address, ref, typed)
    place = invocation.target = invocation.path(address, optional=True)
    try:
        changes = _uncommitted(invocation, place, place.path, 1 if yes else _COUNT_MAX)
    except (NotFound, Internal) as error:  # a damaged head: what is staged can be discarded
        if error.fields.get("status") not in _DAMAGED:
            raise
        changes = f"the uncommitted changes, which cannot be counted ({error}),"
    if changes:
        invocation.confirm(f"Discard {changes} of {place}?", yes=yes)
    if changes or yes:  # what is staged may be equal to what is committed
        invocation.branch(place).reset(place.path)
    done = f"discarded the uncommitted changes of {place}"
    invocation.output.note(done if changes else f"no uncommitted changes: {place}")
    return 0


def _hard_reset(invocation: Invocation, branch: str, ref: str, typed: str | None) -> int:
    place = invocation.ref(branch)
    invocation.target = place
    source = times.then(invocation, invocation.ref(ref))
    moved = invocation.branch(place)
    before = moved.head
    goal = invocation.commit(Address(place.repository, source.ref))
    subject = first_line(goal.message)
    question = (
        f"Move {place} from {before[:12]} to {goal.id[:12]} ({subject})?"
        "  Later commits leave its history."
    )
    invocation.confirm_name(question, place.ref, typed)
    expected = before if typed is None else ""
    if expected:  # a server that knows no condition would move the branch all the same
        _check_unmoved(invocation, place, before)
    try:
        moved.reset(to=goal, expected=expected)
    except PreconditionFailed:
        _check_unmoved(invocation, place, before)
        raise
    journal.record(invocation, place, "reset", before, goal.id, kind="branch")
    after = {"id": place.ref, "commit_id": goal.id, "graveler": {"before": before}}
    lines = [
        f"{place} is at {invocation.output.id(goal.id)}",
        of_server(invocation, f"to go back: graveler reset --hard {place} {before}"),
    ]
    invocation.output.record(after, lines)
    return 0


def _check_unmoved(invocation: Invocation, branch: Address, before: str) -> None:
    """Raises `Conflict` if the branch moved while its question waited for an answer."""
    head = invocation.branch(branch).head
    if head != before:
        raise Conflict(
            f"{branch} has moved since the question: it is at {head[:12]}, not at {before[:12]}; "
            "nothing was changed"
        )


def _uncommitted(
    invocation: Invocation, place: Address, path: str, amount: int = _COUNT_MAX
) -> str:
    """How many changes a branch has, in words; empty if it has none.  At most `amount` are
    counted."""
    changes = invocation.branch(place).status(path, limit=amount + 1)
    count = sum(not path or path.endswith("/") or each.path == path for each in changes)
    if count > amount:
        return f"more than {plural(amount, 'uncommitted change')}"
    return plural(count, "uncommitted change") if count else ""


# ---- lakectl's names -----------------------------------------------------------------------------


@client(
    "reset",
    group=branch,
    hidden=True,
    examples=("graveler branch reset lakefs://lake/dev --prefix sales/ --yes",),
)
@address_argument("branch")
@click.option("--prefix", default="", metavar="PREFIX", help="only below it")
@click.option("--object", "path", default="", metavar="PATH", help="only this path")
@click.option("--commit", default="", metavar="ID", help="move the head of the branch to it")
@click.option("--confirm", "typed", metavar="NAME", help="with --commit: the branch again")
@click.option("-y", "--yes", is_flag=True, help=_YES_HELP.format("--commit"))
def lakectl_reset(
    invocation: Invocation,
    branch: str,
    prefix: str,
    path: str,
    commit: str,
    typed: str | None,
    yes: bool,
) -> int:
    """Discard uncommitted changes: `graveler reset` with the options of lakectl."""
    if sum(map(bool, (prefix, path, commit))) > 1:
        raise UsageMistake("one of --prefix, --object and --commit expected")
    place = invocation.ref(branch)
    where = f"{SCHEME}{place.at(place.at(prefix).folder or path)}"
    hard = {"ref": commit or None, "hard": bool(commit), "typed": typed}
    return run_command(reset, address=where, yes=yes, **hard)
