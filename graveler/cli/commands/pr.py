"""`graveler pr`: pull requests."""

from typing import Final, Literal

import click

from graveler.cli.commands.commit import CONFLICTS_SHOWN, both, conflict
from graveler.cli.support import journal
from graveler.cli.support.address import Address
from graveler.cli.support.command import client, group
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, count
from graveler.cli.support.output import Styles, field, first_line
from graveler.core.errors import Conflict, GravelerError

_COLUMNS: Final = (
    field("id"),
    field("status"),
    field("creation_date", "time", "CREATED"),
    field("author"),
    field("source_branch", title="FROM"),
    field("destination_branch", title="INTO"),
    field("title"),
)
_WHOLE: Final = (
    *_COLUMNS,
    field("closed_date", "time", "CLOSED"),
    field("merged_commit_id", "id", "COMMIT"),
    field("description"),
)
_STYLES: Final[Styles] = ("status", {"open": {"fg": "green"}, "merged": {"fg": "magenta"}})
_LISTED_BY: Final = "graveler pr list --status all"


@group("pr")
def pr() -> None:
    """Ask for merges, and make them."""


@client(
    "list",
    group=pr,
    examples=("graveler pr list lake", "graveler pr list lake --status all -n 20 --json"),
)
@address_argument("repository")
@click.option(
    "--status",
    type=click.Choice(["open", "closed", "merged", "all"]),
    default="open",
    show_default=True,
    help="closed: the merged ones too",
)
@click.option("--prefix", default="", metavar="TEXT", help="only ids that begin with it")
@click.option("--after", default="", metavar="ID", help="only those listed after it")
@count
def list_pulls(
    invocation: Invocation,
    repository: str,
    status: Literal["open", "closed", "merged", "all"],
    prefix: str,
    after: str,
    amount: int | None,
) -> int:
    """List the pull requests of a repository, the newest first."""
    name = invocation.repository(repository)
    pulls = invocation.repo(name).pull_requests
    rows = pulls.list(status, prefix=prefix, after=after, limit=amount)
    none = "no pull requests" if status == "all" else f"none is {status}"
    invocation.output.items(_COLUMNS, rows, _STYLES, none=none)
    return 0


@client(
    "show",
    group=pr,
    examples=("graveler pr show lake 6e59ksrq6760kmam49kt",),
)
@address_argument("repository")
@click.argument("id")
def show(invocation: Invocation, repository: str, id: str) -> int:
    """Show one pull request."""
    name = invocation.item_of(repository, id, _LISTED_BY)
    invocation.output.pairs(invocation.repo(name).pull_requests.get(id), _WHOLE)
    return 0


@client(
    "create",
    group=pr,
    examples=(
        "graveler pr create lake/dev main --title 'Sales of 2026'",
        "graveler pr create lake/dev main            # the title is that of the last commit",
    ),
)
@address_argument("source", metavar="SOURCE")
@address_argument("destination", metavar="BRANCH")
@click.option("-t", "--title", default="", metavar="TEXT", help="what would be merged")
@click.option("-d", "--description", default="", metavar="TEXT", help="more about it")
def create(
    invocation: Invocation, source: str, destination: str, title: str, description: str
) -> int:
    """Ask to merge the branch SOURCE into BRANCH."""
    come, into = both(invocation, source, destination)
    name = come.repository
    if not title:
        title = first_line(invocation.commit(come).message)
    pulls = invocation.repo(name).pull_requests
    id = pulls.create(come.ref, into.ref, title, description).id
    invocation.output.record({"id": id}, [f"created pull request {id}: {come} into {into}"])
    return 0


@client("merge", group=pr, examples=("graveler pr merge lake 6e59ksrq6760kmam49kt",))
@address_argument("repository")
@click.argument("id")
def merge(invocation: Invocation, repository: str, id: str) -> int:
    """Merge a pull request.

    A conflict changes nothing: the command names the paths and ends with 5, and the request stays
    open.
    """
    name = invocation.item_of(repository, id, _LISTED_BY)
    pulls = invocation.repo(name).pull_requests
    try:
        reference = pulls.merge(id).name
    except Conflict as error:
        pull = pulls.get(id)
        source, destination = pull.source, pull.destination
        amount = CONFLICTS_SHOWN + 1
        paths: list[str] = []
        if pull.status == "open":
            into = invocation.repo(name).branch(destination)
            paths = list(into.conflicts(source, limit=amount))
        if not paths:
            raise
        raise conflict(Address(name, source), Address(name, destination), paths) from error
    _remember(invocation, name, id, reference)
    line = f"merged pull request {id}: {invocation.output.id(reference)}"
    invocation.output.record({"reference": reference}, [line])
    return 0


def _remember(invocation: Invocation, name: str, id: str, reference: str) -> None:
    """Let `graveler undo` know of a merge.  Two requests."""
    try:
        pull = invocation.repo(name).pull_requests.get(id)
    except GravelerError as error:
        invocation.output.note(f"`graveler undo` will not know of this: {error}")
        return
    into = Address(name, pull.destination)
    merged = journal.MergedPull(id, pull.source)
    journal.record_commit(invocation, into, "merge", reference, merged)


_COMMENTS: Final = (
    field("id"),
    field("creation_date", "time", "CREATED"),
    field("author"),
    field("resolved"),
    field("path"),
    field("row"),
    field("text"),
)


@client("comments", group=pr, examples=("graveler pr comments lake 6e59ksrq6760kmam49kt",))
@address_argument("repository")
@click.argument("id")
def comments(invocation: Invocation, repository: str, id: str) -> int:
    """List the comments on a pull request, the oldest first."""
    name = invocation.item_of(repository, id, _LISTED_BY)
    comments = invocation.repo(name).pull_requests.comments(id)
    invocation.output.items(_COMMENTS, comments, none="no comments")
    return 0


@client(
    "comment",
    group=pr,
    examples=(
        "graveler pr comment lake 6e59ksrq6760kmam49kt 'Why is the price of Rome 10?'",
        "graveler pr comment lake 6e59ksrq6760kmam49kt 'This one' --path prices.csv --row 'id 2'",
    ),
)
@address_argument("repository")
@click.argument("id")
@click.argument("text")
@click.option("--path", default="", metavar="PATH", help="the object that it is about")
@click.option("--row", default="", metavar="TEXT", help="which row of the object; needs --path")
def comment(
    invocation: Invocation, repository: str, id: str, text: str, path: str, row: str
) -> int:
    """Comment on a pull request, or on an object or a row of it."""
    name = invocation.item_of(repository, id, _LISTED_BY)
    made = invocation.repo(name).pull_requests.comment(id, text, path=path, row=row)
    invocation.output.record(made, [f"comment {made.id} on pull request {id}"])
    return 0


@client(
    "resolve",
    group=pr,
    examples=(
        "graveler pr resolve lake 6e59ksrq6760kmam49kt 2",
        "graveler pr resolve lake 6e59ksrq6760kmam49kt 2 --reopen",
    ),
)
@address_argument("repository")
@click.argument("id")
@click.argument("comment")
@click.option("--reopen", is_flag=True, help="mark it as open again")
def resolve(invocation: Invocation, repository: str, id: str, comment: str, reopen: bool) -> int:
    """Mark a comment on a pull request as resolved."""
    name = invocation.item_of(repository, id, _LISTED_BY)
    invocation.repo(name).pull_requests.resolve(id, comment, not reopen)
    invocation.output.done(f"{'opened' if reopen else 'resolved'} comment {comment}")
    return 0


@client("close", group=pr, examples=("graveler pr close lake 6e59ksrq6760kmam49kt",))
@address_argument("repository")
@click.argument("id")
def close(invocation: Invocation, repository: str, id: str) -> int:
    """Close a pull request without a merge; its branches stay as they are."""
    name = invocation.item_of(repository, id, _LISTED_BY)
    invocation.repo(name).pull_requests.close(id)
    invocation.output.done(f"closed pull request {id}")
    return 0


@client("reopen", group=pr, examples=("graveler pr reopen lake 6e59ksrq6760kmam49kt",))
@address_argument("repository")
@click.argument("id")
def reopen(invocation: Invocation, repository: str, id: str) -> int:
    """Open a closed or merged pull request again, if both branches exist.

    A merged one can be merged once more then.
    """
    name = invocation.item_of(repository, id, _LISTED_BY)
    invocation.repo(name).pull_requests.reopen(id)
    invocation.output.done(f"opened pull request {id} again")
    return 0
