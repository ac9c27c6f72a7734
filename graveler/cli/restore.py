"""`graveler restore`: a new commit with the content of an old one."""

from itertools import islice
from typing import Final

import click

from graveler.cli import journal, past
from graveler.cli.address import SCHEME, UsageMistake
from graveler.cli.arguments import address_argument, at, yes
from graveler.cli.command import client
from graveler.cli.hints import of_server
from graveler.cli.invocation import Invocation
from graveler.cli.output import first_line, plain, plural
from graveler.client import commits, refs
from graveler.client.commits import Message
from graveler.errors import NoChanges, Unsupported

_COUNT_MAX: Final = 10_000  # of changes that a question counts


@client(
    "restore",
    examples=(
        "graveler restore lake/main v1.2               # as the tag is",
        "graveler restore lake/main main~3 --yes",
        "graveler restore lake/main main --at '2 days ago'",
    ),
)
@address_argument("branch")
@address_argument("ref")
@click.option("-m", "--message", default="", metavar="TEXT", help="instead of the usual one")
@at
@yes
def restore(invocation: Invocation, branch: str, ref: str, message: str, yes: bool) -> int:
    """Commit the content of REF on BRANCH: the branch is then equal to REF.

    Its history stays, so the command can be undone; `revert` undoes single commits instead.  Ends
    with 1 if the branch is equal to REF already.
    """
    into = invocation.target = invocation.path(branch, optional=True)
    session, output, source = invocation.session, invocation.output, invocation.ref(ref)
    if into.path:
        recursive = "-r " if into.path.endswith("/") else ""
        raise UsageMistake(
            f"a branch is restored as a whole, and this is a path on it: {into}",
            remedy=f"graveler cp {recursive}{SCHEME}{source.at(into.path)} {SCHEME}{into}",
        )
    if source.repository != into.repository:
        raise UsageMistake(f"both must be in one repository: {into} and {source}")
    name = into.repository
    goal = commits.get(session, name, past.then(invocation, source).ref)
    if not goal["meta_range_id"]:  # without one, the server would commit what is uncommitted
        raise Unsupported(
            f"{goal['id'][:12]} is empty, and has no content to restore: "
            + of_server(invocation, f"delete the objects instead: graveler rm -r {into}/")
        )
    head = refs.get_branch(session, name, into.ref)["commit_id"]
    subject = plain(first_line(goal["message"]))
    if not yes:
        changes = commits.diff(session, name, head, goal["id"], two_dot=True, amount=_COUNT_MAX + 1)
        number = sum(1 for _ in islice(changes, _COUNT_MAX + 1))
        words = f"more than {_COUNT_MAX:,} changes" if number > _COUNT_MAX else ""
        invocation.confirm(
            f"Restore {into} to {goal['id'][:12]} ({subject}), which commits "
            f"{words or plural(number, 'change')}?",
            yes=yes,
        )
    text = message or f"Restore {goal['id'][:12]}: {subject}"
    try:
        created = commits.commit(
            session, name, into.ref, Message(text), source_metarange=goal["meta_range_id"]
        )
    except NoChanges as error:
        reason = f"nothing to restore: {into} is equal to {goal['id'][:12]} already"
        error.fields = {**error.fields, "reason": reason}
        raise
    journal.record(invocation, into, "restore", created["parents"][0], created["id"], kind="branch")
    first = first_line(created["message"])
    output.record(created, [f"[{into.ref} {output.id(created['id'])}] {plain(first)}"])
    return 0
