"""`graveler tag`: tags."""

from collections.abc import Mapping
from typing import Any, Final

import click

from graveler.cli.support import journal, times
from graveler.cli.support.address import Address
from graveler.cli.support.command import client, group
from graveler.cli.support.failures import creating, of_server
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import address_argument, at, paging, yes
from graveler.cli.support.output import field
from graveler.core.errors import NotFound, UsageMistake
from graveler.core.ids import parse_tag_id

COLUMNS: Final = (field("id", title="TAG"), field("commit_id", "id", "COMMIT"))


@group("tag")
def tag() -> None:
    """Create, list and delete tags."""


@client("list", group=tag, examples=("graveler tag list lake", "graveler tag list lake --json"))
@address_argument("repository")
@paging
def list_tags(
    invocation: Invocation, repository: str, prefix: str, after: str, amount: int | None
) -> int:
    """List the tags of a repository."""
    known = invocation.repo(invocation.repository(repository))
    rows = known.tags(prefix, after=after, limit=amount)
    invocation.output.items(COLUMNS, rows, none="no tags")
    return 0


@client("show", group=tag, examples=("graveler tag show lake/v1.2",))
@address_argument("tag")
def show(invocation: Invocation, tag: str) -> int:
    """Show the commit of a tag."""
    address = invocation.ref(tag)
    invocation.output.pairs(invocation.repo(address.repository).tag(address.ref), COLUMNS)
    return 0


@client(
    "create",
    group=tag,
    examples=(
        "graveler tag create lake/v1.2                  # the head of the default branch",
        "graveler tag create lake/v1.2 main~1",
        "graveler tag create lake/stable main --force   # move it",
        "graveler tag create lake/monday main --at 2026-11-23",
    ),
)
@address_argument("tag")
@address_argument("ref", required=False)
@click.option("-f", "--force", is_flag=True, help="if the tag exists, move it")
@at
@yes
def create(invocation: Invocation, tag: str, ref: str | None, force: bool, yes: bool) -> int:
    """Name the commit of REF; without REF, of the default branch."""
    address = invocation.ref(tag)
    name = address.repository
    if ref is None:
        place = invocation.default_ref(name)
    else:
        place = invocation.ref(ref)
        if place.repository != name:
            raise UsageMistake(f"a tag names a commit of its own repository: {place}")
    source = times.then(invocation, place).ref
    if force:
        created = _moved(invocation, address, source, yes=yes)
    else:
        remedy = f"graveler tag show {address}; -f moves it"
        with creating("tag", parse_tag_id, address.ref, remedy):
            created = invocation.repo(name).create_tag(address.ref, source).answer
    commit = invocation.output.id(created["commit_id"])
    invocation.output.record(created, [f"created tag {address} at {commit}"])
    return 0


def _moved(invocation: Invocation, tag: Address, source: str, *, yes: bool) -> Mapping[str, Any]:
    """Create or move a tag.  The commit is found before the old tag is deleted, so that a wrong
    REF loses nothing; if it cannot be created, the old one is made again."""
    known = invocation.repo(tag.repository)
    commit = known.ref(source).pin().id
    try:
        before = known.tag(tag.ref).head
    except NotFound:
        return known.create_tag(tag.ref, commit).answer
    if before == commit:  # it is never absent, then
        return {"id": tag.ref, "commit_id": commit}
    invocation.confirm(f"Move the tag {tag} from {before[:12]} to {commit[:12]}?", yes=yes)
    created = journal.move_tag(invocation, tag, before, commit)
    journal.record(invocation, tag, "move", before, created["commit_id"], kind="tag")
    invocation.output.note(f"the tag was at {before}")
    return created


@client(
    "delete", group=tag, examples=("graveler tag delete lake/v1.2", "graveler tag delete :v1 -y")
)
@address_argument("tag")
@yes
def delete(invocation: Invocation, tag: str, yes: bool) -> int:
    """Delete a tag; its commit stays for as long as something leads to it."""
    address = invocation.ref(tag)
    known = invocation.repo(address.repository).tag(address.ref)
    commit = known.head
    invocation.confirm(f"Delete the tag {address} at {commit[:12]}?", yes=yes)
    known.delete()
    journal.record(invocation, address, "deletion", commit, "", kind="tag")
    again = of_server(invocation, f"graveler tag create {address} {commit}")
    invocation.output.done(
        f"deleted tag {address}, it was at {commit}\nto make it again: {again}",
        id=address.ref,
        commit_id=commit,
    )
    return 0
