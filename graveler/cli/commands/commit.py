"""`graveler commit`, `merge`, `merge-base`, `revert` and `cherry-pick`: new commits."""

from typing import TYPE_CHECKING, Final, Literal

import click

from graveler.cli.support import journal, times
from graveler.cli.support.address import SCHEME, Address
from graveler.cli.support.command import client
from graveler.cli.support.failures import of_server
from graveler.cli.support.invocation import Invocation, metadata_pairs
from graveler.cli.support.options import (
    AliasOption,
    address_argument,
    at,
    ignored,
    is_here,
    metadata_option,
    yes,
)
from graveler.cli.support.output import first_line, plain, plural
from graveler.core.errors import Conflict, MergeConflict, NoChanges, Unsupported, UsageMistake

if TYPE_CHECKING:
    from graveler.lake.ref import Commit

CONFLICTS_SHOWN: Final = 20
_CONFLICT_ROWS_MAX: Final = 10_000
_COUNT_MAX: Final = 10_000  # of changes that a question counts
_SUBJECT_LENGTH_MAX: Final = 500  # of a commit, in the message of its revert
_ID_LENGTH: Final = 12  # instead of a subject
_PARENT: Final = ("--parent-number", "-m")  # by lakectl
_ALLOW_EMPTY: Final = click.option(
    "--allow-empty",
    cls=AliasOption,
    lakectl=("--allow-empty-commit",),
    is_flag=True,
    help="even if nothing changes",
)


@client(
    "commit",
    examples=(
        "graveler commit lake/main -m 'Add sales of 2026'",
        "graveler commit lake/main -m 'Load' --meta job=42 --meta source=crm",
        "graveler commit lake/main                     # writes the message in $EDITOR",
        "graveler commit lake/main -m 'Load' --no-wait  # prints the id of a task",
    ),
)
@address_argument("branch", here="ref")
@click.option("-m", "--message", default="", metavar="TEXT", help="what changed, and why")
@metadata_option
@_ALLOW_EMPTY
@click.option("--allow-empty-message", is_flag=True, help="without a message")
@click.option("--date", default="", metavar="TIME", help="the date of the commit, instead of now")
@click.option("--epoch-time-seconds", "seconds", type=int, hidden=True)  # of lakectl
@click.option("--no-wait", is_flag=True, help="print the id of the task, and end")
def commit(
    invocation: Invocation,
    branch: str,
    message: str,
    pairs: tuple[str, ...],
    allow_empty: bool,
    allow_empty_message: bool,
    date: str,
    seconds: int | None,
    no_wait: bool,
) -> int:
    """Commit the uncommitted changes of a branch.

    Ends with 1 if there is nothing to commit.  If the command is interrupted, the server goes on;
    with --no-wait it goes on too, and `graveler jobs show` tells the result.
    """
    address, metadata = invocation.ref(branch), metadata_pairs(pairs)
    invocation.target = address
    text = message.strip() and message
    if not text and not allow_empty_message:
        text = _edited(invocation, address)
    moment = times.parse(date) if date else times.of_seconds(seconds)
    into = invocation.branch(address)
    if no_wait:
        id = into.begin_commit(text, metadata, allow_empty=allow_empty, date=moment)
        invocation.output.record({"id": id}, [id])
        return 0
    try:
        created = into.commit(text, metadata, allow_empty=allow_empty, date=moment)
    except NoChanges as error:
        remedy = "graveler local commit" if is_here("branch") else f"graveler status {address}"
        raise _nothing(error, f"nothing to commit on {address}", remedy) from error
    _print_commit(invocation, address.ref, created)
    if created.hooks_are_off:
        invocation.warn_of_no_hooks()
    return 0


def _nothing(error: NoChanges, reason: str, remedy: str = "") -> NoChanges:
    """The error of a command that would change nothing, in the words of the command."""
    return NoChanges(reason, "", **{**error.fields, "reason": reason, "remedy": remedy})


def _edited(invocation: Invocation, address: Address) -> str:
    if not invocation.may_ask():
        raise UsageMistake("no message: give -m TEXT")
    help = f"\n# The message of the commit on {address}.  Lines that begin with # are left out.\n"
    text = click.edit(help) or ""
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("#")]
    message = "\n".join(lines).strip()
    if not message:
        raise UsageMistake("the message is empty: nothing was committed")
    return message


def _print_commit(invocation: Invocation, branch: str, created: "Commit") -> None:
    output = invocation.output
    subject = first_line(created.message)
    output.record(created, [f"[{branch} {output.id(created.id)}] {output.cell(subject)}"])


@client(
    "merge",
    examples=(
        "graveler merge lake/dev main",
        "graveler merge lake/dev main -m 'Release 7' --squash",
        "graveler merge lake/dev main --strategy source-wins   # dev decides conflicts",
    ),
)
@address_argument("source", metavar="SOURCE")
@address_argument("destination", metavar="BRANCH")
@click.option("-m", "--message", default="", metavar="TEXT", help="instead of the usual one")
@metadata_option
@click.option(
    "--strategy",
    type=click.Choice(["source-wins", "dest-wins"]),
    help="which side decides conflicts",
)
@click.option("--squash", is_flag=True, help="do not record SOURCE as a parent")
@click.option("--allow-empty", is_flag=True, help="even if nothing changes")
@click.option("--force", is_flag=True, help="also into a read-only repository")
@ignored("--allow-empty-message")
@at
def merge(
    invocation: Invocation,
    source: str,
    destination: str,
    message: str,
    pairs: tuple[str, ...],
    strategy: Literal["source-wins", "dest-wins"] | None,
    squash: bool,
    allow_empty: bool,
    force: bool,
) -> int:
    """Merge the commits of SOURCE into BRANCH.

    With --at, SOURCE is as it was then.
    A conflict changes nothing: the command names the paths and ends with 5.
    """
    come, into = both(invocation, source, destination)
    invocation.target = into
    come = times.then(invocation, come)
    try:
        landed = invocation.branch(into).merge(
            come.ref,
            message,
            metadata=metadata_pairs(pairs),
            strategy=strategy or "",
            squash=squash,
            allow_empty=allow_empty,
            force=force,
        )
    except NoChanges as error:
        reason = f"nothing to merge: {into} has all that is committed on {come}"
        raise _nothing(error, reason) from error
    except MergeConflict as error:
        paths = [*error.paths[: CONFLICTS_SHOWN + 1]]
        raise conflict(come, into, paths, "--strategy source-wins or dest-wins; or ") from error
    journal.record_commit(invocation, into, "merge", landed.name)
    line = f"merged {come} into {into}: {invocation.output.id(landed.name)}"
    invocation.output.record({"reference": landed.name}, [line])
    return 0


def conflict(
    source: Address, destination: Address, paths: list[str], choice: str = ""
) -> MergeConflict:
    """The error of a merge that changed nothing, with the first paths at which it conflicts.
    `choice`: how the command itself could decide, for its remedy."""
    text = f"{source} and {destination} changed the same paths; nothing was merged"
    error = MergeConflict(f"{text}:\n  {_shown(paths)}", tuple(paths))
    # Once the source has the destination's commits, its own version of each path counts.
    error.fields = {
        "remedy": f"{choice}graveler merge {destination} {source.ref} --strategy dest-wins, upload "
        f"combined files to {source}, commit, and merge again"
    }
    return error


def _shown(paths: list[str]) -> str:
    more = "\n  and more" if len(paths) > CONFLICTS_SHOWN else ""
    return "\n  ".join(paths[:CONFLICTS_SHOWN]) + more


def _replay_conflict(
    invocation: Invocation, commit: "Commit", into: Address, parent: int, *, undo: bool
) -> MergeConflict | None:
    """The paths of a commit that cannot be repeated or undone on a branch, if there are any: base,
    source and branch are all different there.  At most 10,000 differences of each pair are read."""
    old = commit.parents[max(parent, 1) - 1 : max(parent, 1)]
    if not old:
        return None
    base, source = (commit, old[0]) if undo else (old[0], commit)
    pairs = ((base, source.name), (base, into.ref), (source, into.ref))
    differing = [
        {each.path for each in left.diff(right, two_dot=True, limit=_CONFLICT_ROWS_MAX)}
        for left, right in pairs
    ]
    paths = sorted(set.intersection(*differing))[: CONFLICTS_SHOWN + 1]
    if not paths:
        return None
    verb = "reverted" if undo else "picked"
    text = f"{into} has changed paths of {commit.id[:12]}; nothing of it was {verb}"
    text = f"{text}:\n  {_shown(paths)}"
    return MergeConflict(text, tuple(paths))


def both(invocation: Invocation, first: str, second: str) -> tuple[Address, Address]:
    """Two refs of one repository."""
    left, right = invocation.ref(first), invocation.ref(second)
    if left.repository != right.repository:
        raise UsageMistake(f"both must be in one repository: {left} and {right}")
    return left, right


@client("merge-base", examples=("graveler merge-base lake/dev main",))
@address_argument("left", metavar="A")
@address_argument("right", metavar="B")
@at
def merge_base(invocation: Invocation, left: str, right: str) -> int:
    """Show the best common ancestor of two refs."""
    source, destination = (times.then(invocation, each) for each in both(invocation, left, right))
    base = invocation.at(source).merge_base(destination.ref)
    invocation.output.record(base, [base.base])
    return 0


@client(
    "revert",
    examples=(
        "graveler revert lake/main main~1",
        "graveler revert lake/main 1a2b3c4d --yes",
        "graveler revert lake/main main --parent 1      # of a merge: keep what parent 1 has",
        "graveler revert lake/main main --at yesterday  # the commit that was the newest then",
    ),
)
@address_argument("branch")
@address_argument("refs", nargs=-1, required=True, metavar="COMMIT...")
@click.option(
    "--parent",
    cls=AliasOption,
    lakectl=_PARENT,
    type=click.IntRange(min=1),
    metavar="N",
    help="of a merge: the parent to return to",
)
@_ALLOW_EMPTY
@at
@yes
def revert(
    invocation: Invocation,
    branch: str,
    refs: tuple[str, ...],
    parent: int | None,
    allow_empty: bool,
    yes: bool,
) -> int:
    """Undo what commits changed, each with a new commit on BRANCH.

    With --at, each COMMIT is as it was then.

    A conflict undoes nothing of its commit: the command names the paths and ends with 5.  Commits
    that were undone before it stay undone, and are printed.
    """
    into = invocation.ref(branch)
    invocation.target = into
    # Refs such as main~1 move with each new commit, so all are resolved first.
    places = [times.then(invocation, both(invocation, branch, ref)[1]) for ref in refs]
    reverted = [invocation.commit(place) for place in places]
    for commit in reverted:
        if len(commit.parents) > 1 and parent is None:
            raise UsageMistake(
                f"{commit.id[:12]} is a merge: give --parent 1 to undo what came from its other "
                "parents"
            )
    for commit in reverted:
        subject = first_line(commit.message)
        question = f"Revert {commit.id[:12]} ({subject}) on {into}?"
        invocation.confirm(question, yes=yes)
    reverts: list[Commit] = []
    try:
        for commit in reverted:
            reverts.append(_reverted(invocation, into, commit, parent or 0, allow_empty))
    finally:  # they stay, also if a later one fails
        _print_reverts(invocation, into, reverts)
    return 0


def _reverted(
    invocation: Invocation, into: Address, commit: "Commit", parent: int, allow_empty: bool
) -> "Commit":
    """Undo a commit, and return the new one."""
    try:
        return invocation.branch(into).revert(
            commit, message=_revert_message(commit), parent=parent, allow_empty=allow_empty
        )
    except NoChanges as error:
        reason = f"nothing to revert: {into} has nothing of {commit.id[:_ID_LENGTH]} any more"
        raise _nothing(error, reason) from error
    except Conflict as error:
        raise _replay_conflict(invocation, commit, into, parent, undo=True) or error from error


def _print_reverts(invocation: Invocation, into: Address, reverts: "list[Commit]") -> None:
    if invocation.output.form == "human":
        for created in reverts:
            _print_commit(invocation, into.ref, created)
    elif reverts:
        invocation.output.items((), reverts)


def _revert_message(commit: "Commit") -> str:
    """As git says it.  A message may be one very long line, and the new one is longer."""
    subject = first_line(commit.message)[:_SUBJECT_LENGTH_MAX] or commit.id[:_ID_LENGTH]
    return f'Revert "{subject}"\n\nUndoes commit {commit.id}.'


@client(
    "cherry-pick",
    examples=("graveler cherry-pick lake/dev~2 main", "graveler cherry-pick lake/1a2b3c4d main"),
)
@address_argument("ref", metavar="COMMIT")
@address_argument("branch")
@click.option(
    "--parent",
    cls=AliasOption,
    lakectl=_PARENT,
    type=click.IntRange(min=1),
    metavar="N",
    help="of a merge: the side to leave out",
)
@at
def cherry_pick(invocation: Invocation, ref: str, branch: str, parent: int | None) -> int:
    """Repeat what COMMIT changed as a new commit on BRANCH.

    With --at, COMMIT is as it was then.

    A conflict changes nothing: the command names the paths and ends with 5.
    """
    source, into = both(invocation, ref, branch)
    invocation.target = into
    source = times.then(invocation, source)
    try:
        created = invocation.branch(into).cherry_pick(source.ref, parent=parent or 0)
    except NoChanges as error:
        reason = f"nothing to pick: {into} has all that {source} changed"
        raise _nothing(error, reason) from error
    except Conflict as error:
        commit = invocation.commit(source)
        raise (
            _replay_conflict(invocation, commit, into, parent or 0, undo=False) or error
        ) from error
    _print_commit(invocation, into.ref, created)
    return 0


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
    output, source = invocation.output, invocation.ref(ref)
    if into.path:
        recursive = "-r " if into.path.endswith("/") else ""
        raise UsageMistake(
            f"a branch is restored as a whole, and this is a path on it: {into}",
            remedy=f"graveler cp {recursive}{SCHEME}{source.at(into.path)} {SCHEME}{into}",
        )
    if source.repository != into.repository:
        raise UsageMistake(f"both must be in one repository: {into} and {source}")
    goal = invocation.commit(times.then(invocation, source))
    if not goal.answer["meta_range_id"]:
        raise Unsupported(
            f"{goal.id[:12]} is empty, and has no content to restore: "
            + of_server(invocation, f"delete the objects instead: graveler rm -r {into}/")
        )
    restored = invocation.branch(into)
    head = invocation.repo(into.repository).commit(restored.head)
    subject = plain(first_line(goal.message))
    if not yes:
        number = len(head.diff(goal, two_dot=True, limit=_COUNT_MAX + 1).all())
        words = f"more than {_COUNT_MAX:,} changes" if number > _COUNT_MAX else ""
        invocation.confirm(
            f"Restore {into} to {goal.id[:12]} ({subject}), which commits "
            f"{words or plural(number, 'change')}?",
            yes=yes,
        )
    text = message or f"Restore {goal.id[:12]}: {subject}"
    try:
        created = restored.restore(goal, text)
    except NoChanges as error:
        reason = f"nothing to restore: {into} is equal to {goal.id[:12]} already"
        raise _nothing(error, reason) from error
    before = created.parents[0].name
    journal.record(invocation, into, "restore", before, created.id, kind="branch")
    first = first_line(created.message)
    output.record(created, [f"[{into.ref} {output.id(created.id)}] {plain(first)}"])
    return 0
