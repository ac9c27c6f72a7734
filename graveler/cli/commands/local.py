"""`graveler local`: a folder in step with a prefix of a branch."""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from graveler.cli.support import times
from graveler.cli.support.address import Address
from graveler.cli.support.command import client, group
from graveler.cli.support.failures import PartlyDone, of_server
from graveler.cli.support.invocation import Declined, Invocation, metadata_pairs
from graveler.cli.support.linked_folder import linked_below, new_root, opened, root_of
from graveler.cli.support.options import address_argument, at, complete_ref, yes
from graveler.cli.support.output import Styles, field, plain, plural
from graveler.cli.support.serve_options import FOLDER
from graveler.cli.support.transfers import pre_sign_option, progress_option, threads_option
from graveler.core.errors import GravelerError, Invalid, MergeConflict, NotFound, UsageMistake
from graveler.lake.transfers import commit as commit_verb
from graveler.lake.transfers import sync
from graveler.lake.transfers.apply import Outcome
from graveler.lake.transfers.compare import Work, known_link
from graveler.lake.transfers.link import Link, Prefix, git_ignore, git_metadata, git_top, read_link

_STYLES: Final[Styles] = (
    "type",
    {"added": {"fg": "green"}, "removed": {"fg": "red"}, "changed": {"fg": "yellow"}},
)
_STATUS: Final = (field("location"), field("type", title="CHANGE"), field("path"))
_LIST: Final = (
    field("directory"),
    field("src", title="SOURCE"),
    field("at_head", "id", "COMMIT"),
    field("active_operation", title="INTERRUPTED"),
)


@group("local")
def local() -> None:
    """Work with a folder that is in step with a prefix of a branch.

    lakectl may be used in the same folder.
    """


def _transfers(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of commands that transfer contents; lakectl's are hidden."""
    return progress_option(threads_option(pre_sign_option(function)))


# ---- commands ------------------------------------------------------------------------------------


@client(
    "clone",
    group=local,
    examples=(
        "graveler local clone lake/main/sales/          # to the folder sales",
        "graveler local clone lake/main/sales/ data",
        "graveler local clone lake/main/sales/ old --at 2026-11-01",
    ),
)
@address_argument("address", metavar="BRANCH[/PREFIX]")
@click.argument("directory", metavar="[DIR]", type=FOLDER, required=False)
@click.option("--gitignore/--no-gitignore", default=True, help="have Git ignore the folder")
@at
@_transfers
def clone(
    invocation: Invocation, address: str, directory: Path | None, gitignore: bool, **how: Any
) -> int:
    """Download a prefix to an empty folder, and link the folder with it.

    With --at, the folder is linked with the commit that the branch was on then, which is no branch:
    `graveler local checkout --ref BRANCH` goes back to the branch.
    The same command continues a clone that was interrupted; `graveler local checkout` undoes it.
    """
    place = invocation.path(address, optional=True)
    source = _prefix(times.then(invocation, place))
    name = source.path.rstrip("/").rpartition("/")[2] or source.repository
    root = new_root(directory or Path(name))
    with opened(invocation, root, source, **how) as work:
        outcome = sync.clone(work, source)
    if gitignore:
        git_ignore(root)
    sentence = f"cloned {plural(outcome.written, 'object')} of {source} to {root}"
    return _report(invocation, outcome, Link(source, outcome.head), sentence)


@client(
    "init",
    group=local,
    examples=("graveler local init lake/main/sales/ data      # link the files that are there",),
)
@address_argument("address", metavar="BRANCH[/PREFIX]")
@click.argument("directory", metavar="[DIR]", type=FOLDER, default=".")
@click.option("--force", is_flag=True, help="also if the folder is linked already")
@click.option("--gitignore/--no-gitignore", default=True, help="have Git ignore the folder")
def init(
    invocation: Invocation, address: str, directory: Path, force: bool, gitignore: bool
) -> int:
    """Link a folder with a prefix, and change no file.

    What differs from the branch is a local change then: `graveler local commit` commits it,
    `graveler local checkout` discards it.
    """
    source = _prefix(invocation.path(address, optional=True))
    root = new_root(directory)
    with opened(invocation, root, source) as work:
        outcome = sync.init(work, source, force=force)
    if gitignore:
        git_ignore(root)
    link = Link(source, outcome.head)
    return _report(invocation, outcome, link, f"linked {root} with {source}")


@client("list", group=local, examples=("graveler local list", "graveler local list projects"))
@click.argument("directory", metavar="[DIR]", type=FOLDER, required=False)
def list_(invocation: Invocation, directory: Path | None) -> int:
    """List the linked folders below a folder; in a working copy of Git, below its top.

    A folder whose state file cannot be read is named on stderr.  The command ends with 8 then.
    """
    top = directory or git_top(Path.cwd()) or Path()
    if not top.is_dir():
        raise NotFound(f"folder not found: {top}")
    unreadable: list[str] = []

    def rows() -> Iterator[dict[str, Any]]:
        for root in linked_below(top):
            try:
                link = read_link(root)
            except Invalid as error:
                unreadable.append(f"\n  {error}")
                continue
            if link is not None:
                yield {"directory": str(root), **_link_fields(link)}

    count = invocation.output.items(_LIST, rows())
    if unreadable:
        files = plural(len(unreadable), "state file")
        raise PartlyDone(f"{files} cannot be read:{''.join(unreadable)}")
    if not count:
        invocation.output.note(f"no linked folders below {top}")
    return 0


@client(
    "status",
    group=local,
    examples=("graveler local status", "graveler local status data --local"),
)
@click.argument("directory", metavar="[DIR]", type=FOLDER, default=".")
@click.option("-l", "--local", "local_only", is_flag=True, help="not what the branch changed")
def status(invocation: Invocation, directory: Path, local_only: bool) -> int:
    """Show what changed in the folder, and on the branch, since they were in step."""
    with opened(invocation, root_of(directory), lock=False) as work:
        link, operation = work.folder.link(), work.records.operation()
        in_folder, on_branch, conflicts = sync.changes_of(work, local_only=local_only)
    output = invocation.output
    sides = (("local", in_folder), ("remote", on_branch))
    names = set(conflicts)
    rows = (
        {
            "location": location,
            "type": change.kind,
            "path": change.path,
            **({"size_bytes": change.entry.size} if change.entry is not None else {}),
            "conflict": change.path in names,
        }
        for location, changes in sides
        for change in changes
    )
    if operation is not None or (link is not None and link.operation):
        name = operation.name if operation is not None else link.operation if link else ""
        text = f"{name} was interrupted: repeat it, or run `graveler local checkout`"
        output.note(of_server(invocation, text))
    output.items(_STATUS, rows, _STYLES)
    if output.terminal and not in_folder and not on_branch:
        output.note("no changes" if local_only else "no changes, here and on the branch")
    if conflicts:
        output.note(f"{plural(len(conflicts), 'path')} in conflict: changed on both sides")
    return 0


@client(
    "pull",
    group=local,
    examples=(
        "graveler local pull",
        "graveler local pull data --theirs             # the branch decides conflicts",
        "graveler local pull --force                   # discards local changes",
    ),
)
@click.argument("directory", metavar="[DIR]", type=FOLDER, default=".")
@click.option("--ours", "for_ours", is_flag=True, help="in conflicts, keep the files of the folder")
@click.option(
    "--theirs", "for_theirs", is_flag=True, help="in conflicts, take the objects of the branch"
)
@click.option("--force", is_flag=True, help="discard all local changes")
@yes
@_transfers
def pull(
    invocation: Invocation,
    directory: Path,
    for_ours: bool,
    for_theirs: bool,
    force: bool,
    yes: bool,
    **how: Any,
) -> int:
    """Take what the branch changed.

    A path that both sides changed is a conflict: the command lists them, changes nothing, and ends
    with 5.  --theirs and --force ask before they discard changes of the folder.  The same command
    continues a pull that was interrupted.
    """
    if for_ours + for_theirs + force > 1:
        raise UsageMistake("give one of --ours, --theirs and --force")
    choice: sync.Choice = "ours" if for_ours else "theirs" if for_theirs else ""
    root = root_of(directory)
    with _deciding(""), opened(invocation, root, **how) as work:
        confirm = _confirm(invocation, root, yes=yes)
        outcome = sync.pull(work, choice, force=force, confirm=confirm)
        link = work.folder.link()
    return _report(invocation, outcome, link, _counts("pulled", outcome))


@client(
    "commit",
    group=local,
    examples=(
        "graveler local commit -m 'Correct March'",
        "graveler local commit data -m 'Load' --meta job=42",
    ),
)
@click.argument("directory", metavar="[DIR]", type=FOLDER, default=".")
@click.option("-m", "--message", default="", metavar="TEXT", help="what changed, and why")
@click.option("--meta", "pairs", multiple=True, metavar="KEY=VALUE", help="metadata (repeatable)")
@click.option("--allow-empty-message", is_flag=True, help="commit without a message")
@click.option("--force", is_flag=True, help="also commit what is uncommitted on the branch")
@_transfers
def commit(
    invocation: Invocation,
    directory: Path,
    message: str,
    pairs: tuple[str, ...],
    allow_empty_message: bool,
    force: bool,
    **how: Any,
) -> int:
    """Upload the changes of the folder, and commit them.

    If the branch has changed other paths, they are pulled afterwards.  A conflict ends with 5, and
    nothing was uploaded.  Ends with 1 if there is nothing to commit.
    """
    root = root_of(directory)
    if not message and not allow_empty_message:
        raise UsageMistake("no message: give -m TEXT")
    metadata = {**git_metadata(root), **metadata_pairs(pairs)}
    with _deciding(", then commit again"), opened(invocation, root, **how) as work:
        text = commit_verb.Message(message, metadata)
        outcome = commit_verb.commit(work, text, force=force)
        link = work.folder.link()
    return _report(invocation, outcome, link, _counts("committed", outcome))


@client(
    "checkout",
    group=local,
    examples=(
        "graveler local checkout                       # discard local changes",
        "graveler local checkout --ref v1.2",
        "graveler local checkout --at '2 days ago'     # the branch of the folder as it was then",
        "graveler local checkout --all --yes",
    ),
)
@click.argument("directory", metavar="[DIR]", type=FOLDER, default=".")
@click.option(
    "-r",
    "--ref",
    default="",
    metavar="REF",
    shell_complete=complete_ref,
    help="make the folder equal to this ref",
)
@click.option("--all", "is_all", is_flag=True, help="all linked folders below DIR")
@at
@yes
@_transfers
def checkout(
    invocation: Invocation, directory: Path, ref: str, is_all: bool, yes: bool, **how: Any
) -> int:
    """Discard the changes of the folder, or make it equal to another ref.

    With --at, the ref is as it was then, without --ref that of the folder.  The folder is linked
    with a commit afterwards: --ref BRANCH goes back to the branch.

    If a command was interrupted in the folder, undo that instead.  With --all, a folder that cannot
    be checked out is named at the end, and the command ends with 8.  Where nobody can be asked,
    --all needs --yes if any folder has changes: it names these folders, and changes none.
    """
    if is_all:
        roots = [*linked_below(Path(os.path.realpath(directory)))]
    else:
        named = f"graveler local checkout --ref {shlex.quote(str(directory))}, if that is a ref"
        roots = [root_of(directory, "" if ref else named)]
    if not roots:
        raise NotFound(f"no linked folders below {directory}")
    if is_all and not yes and not invocation.may_ask():
        _check_unchanged(invocation, roots)
    failures: list[str] = []
    for root in roots:
        try:
            _check_out(invocation, root, ref, yes=yes, **how)
        except Declined:
            if not is_all:
                raise
            failures.append(f"\n  {root}: the answer was no")
        except GravelerError as error:
            if not is_all or isinstance(error, UsageMistake):
                raise
            failures.append(f"\n  {root}: {error.fields.get('reason') or error}")
    if failures:
        raise PartlyDone(f"{plural(len(failures), 'folder')} not checked out:{''.join(failures)}")
    return 0


def _check_out(invocation: Invocation, root: Path, ref: str, *, yes: bool, **how: Any) -> None:
    with opened(invocation, root, **how) as work:
        before = work.folder.link()
        goal = partial(_then, invocation, work, ref)
        outcome = sync.checkout(work, goal, _confirm(invocation, root, yes=yes))
        link = work.folder.link()
    sentence = _switched(outcome, before, link) or _checked_out(invocation, outcome)
    _report(invocation, outcome, link, sentence)


# ---- what they share -----------------------------------------------------------------------------


def _checked_out(invocation: Invocation, outcome: Outcome) -> str:
    if outcome.landed:
        sentence = "the commit was made before it was interrupted: run graveler local pull"
        return of_server(invocation, sentence)
    return f"undone: {outcome.undone}" if outcome.undone else _counts("checked out", outcome)


def _switched(outcome: Outcome, before: Link | None, link: Link | None) -> str:
    """What the folder is linked with now; empty if that is the same as before."""
    was_undone = outcome.undone or outcome.landed
    if link is None or before is None or link.source == before.source or was_undone:
        return ""
    return f"the folder is linked with {link.source} now: {_numbers(outcome)}"


def _check_unchanged(invocation: Invocation, roots: Sequence[Path]) -> None:
    """Look for changes in all folders before one of them changes.  Raises `UsageMistake` with the
    folders that have changes.  A folder that cannot be read is left to the checkout."""
    changed = []
    for root in roots:
        try:
            with opened(invocation, root, lock=False) as work:
                count = sync.discarded(work)
        except UsageMistake:
            raise
        except GravelerError:
            continue
        if count:
            changed.append(f"\n  {root}: {plural(count, 'local change')}")
    if changed:
        raise UsageMistake(
            "this needs a confirmation, and nobody can be asked: give --yes; "
            f"nothing was changed, and these would be discarded:{''.join(changed)}"
        )


def _then(invocation: Invocation, work: Work, ref: str) -> str:
    """The ref of `--ref` at its time; with `--at` alone, that of the folder."""
    link = known_link(work.folder, work.records)
    if link is None or not (ref or times.is_past(invocation)):
        return ref
    source = link.source
    return times.then(invocation, Address(source.repository, ref or source.ref)).ref


def _prefix(address: Address) -> Prefix:
    return Prefix(address.repository, address.ref, address.folder)


@contextmanager
def _deciding(after: str) -> Iterator[None]:
    """Says in a conflict how it can be decided, and what to do `after` that."""
    try:
        yield
    except MergeConflict as error:
        pull = "graveler local pull --ours (keep your files) or --theirs (take the branch's)"
        error.fields = {"remedy": f"{pull}{after}; to combine both, copy your files first"}
        raise


def _confirm(invocation: Invocation, root: Path, *, yes: bool) -> sync.Confirm:
    def confirm(count: int) -> None:
        question = f"Discard {plural(count, 'local change')} in {root}?  No copy is kept."
        invocation.confirm(question, yes=yes)

    return confirm


def _counts(verb: str, outcome: Outcome) -> str:
    if not outcome.written and not outcome.removed:
        return "nothing to do: the folder is in step"
    return f"{verb}: {_numbers(outcome)}"


def _numbers(outcome: Outcome) -> str:
    return f"{outcome.written:,} written, {outcome.removed:,} removed"


def _link_fields(link: Link) -> dict[str, Any]:
    return {
        "src": str(link.source),
        "at_head": link.head,
        "active_operation": link.operation,
    }


def _report(invocation: Invocation, outcome: Outcome, link: Link | None, sentence: str) -> int:
    output = invocation.output
    counts = {"written": outcome.written, "removed": outcome.removed, "aside": [*outcome.aside]}
    record = {**(_link_fields(link) if link is not None else {}), "graveler": counts}
    where = f" at {output.id(outcome.head)}" if outcome.head else ""
    output.record(record, [plain(sentence) + where])
    for name in outcome.aside:
        output.note(f"kept, because it changed meanwhile: {plain(name)}")
    return 0
