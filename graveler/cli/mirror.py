"""`--delete` and `--dry-run` of transfers: what DEST has and SRC has not, and what would be done.

SRC and DEST are listed to their ends before anything moves.  If a list fails, the command ends; if
a file of SRC cannot be listed, or a transfer fails, nothing is deleted.  What a filter leaves out
stays.  For this folder.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from graveler.cli import files
from graveler.cli.support.address import Address, UsageMistake
from graveler.cli.support.invocation import Invocation
from graveler.cli.support.options import Filter
from graveler.cli.support.output import field, plural
from graveler.cli.support.progress import Tally
from graveler.client import objects
from graveler.client.session import Session
from graveler.errors import (
    AlreadyExists,
    GravelerError,
    Invalid,
    PreconditionFailed,
    Unauthenticated,
)
from graveler.local import names

_LEFT_ALONE: Final = (AlreadyExists, PreconditionFailed)
_COLUMNS: Final = (field("action"), field("size_bytes", "size", "SIZE"), field("path"))


def surplus_objects(
    known: Iterable[str], prefix: str, keep: Collection[str], choice: Filter
) -> list[str]:
    """The paths below a prefix that are not in `keep`.  Markers of folders stay."""
    return [
        path
        for path in known
        if path not in keep and not path.endswith("/") and choice.chooses(path[len(prefix) :])
    ]


def surplus_files(folder: Path, keep: Collection[str], choice: Filter) -> list[str]:
    """The files below a folder, from there, that are not in `keep`; none if there is no folder.
    Links to folders are files.  What no download writes stays: parts of downloads, the state of
    linked folders, the folder `.git`."""
    if not folder.exists():
        return []
    return sorted(
        path
        for path in files.walk(folder)
        if path not in keep and choice.chooses(path) and not names.reason(path)
    )


def check(
    invocation: Invocation, surplus: list[str], keep: Collection[str], place: object, *, yes: bool
) -> None:
    """Ask before a surplus is deleted.  Raises `Invalid` if nothing would be left."""
    if surplus and not keep:
        raise Invalid(f"the source has nothing: --delete would delete all that is at {place}")
    if surplus:
        invocation.confirm(
            f"Delete {plural(len(surplus), 'file')} at {place} that the source has not?", yes=yes
        )


def deletable(invocation: Invocation, surplus: list[str], tally: Tally, verb: str) -> list[str]:
    """The surplus, or nothing if a transfer failed: what DEST has may be the only copy then, as
    after a renaming.  What was to be left alone (`--no-clobber`) has not failed."""
    count = sum(not isinstance(error, _LEFT_ALONE) for error in tally.errors)
    if not (surplus and count):
        return surplus
    were = "was" if count == 1 else "were"
    invocation.output.note(f"nothing is deleted: {plural(count, 'object')} {were} not {verb}")
    return []


def check_apart(sources: Iterable[str], targets: Iterable[str]) -> None:
    """Raises `UsageMistake` if a path that would be written is also one that is read: several
    threads copy, so the source could be replaced before it is copied."""
    clashes = sorted(set(sources).intersection(targets))
    if clashes:
        raise UsageMistake(
            f"DEST would overwrite {plural(len(clashes), 'path')} of SRC, the first is "
            f"{clashes[0]}: go by another prefix"
        )


def delete_objects(session: Session, place: Address, paths: Iterable[str], tally: Tally) -> None:
    """Delete objects of a branch; what fails is in the tally, and stops no other.  Raises
    `Unauthenticated`.  One request for each 1,000."""
    rest = iter(paths)
    while page := list(islice(rest, objects.DELETIONS_MAX)):
        tally.files_expected += len(page)
        try:
            failures = objects.delete(session, place.repository, place.ref, page)
        except Unauthenticated:
            raise
        except GravelerError as error:
            for path in page:
                tally.failed(path, error)
            continue
        tally.deleted += len(page) - len(failures)
        for failure in failures:
            tally.failed(str(failure.get("path", "")), Invalid(str(failure["message"])))


def delete_files(folder: Path, paths: Iterable[str], tally: Tally) -> None:
    """Delete files, and folders that are empty then; what fails is in the tally, and stops no
    other."""
    for path in paths:
        file = folder / path
        tally.files_expected += 1
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            tally.failed(path, error)
            continue
        tally.deleted += 1
        _remove_empty(file.parent, folder)


def _remove_empty(folder: Path, top: Path) -> None:
    while folder != top:
        try:
            folder.rmdir()
        except OSError:  # not empty
            return
        folder = folder.parent


# ---- --dry-run -----------------------------------------------------------------------------------


def row(action: str, path: str, size: int | None = None) -> dict[str, Any]:
    """What would be done with a path."""
    return {"action": action, "path": path} | ({} if size is None else {"size_bytes": size})


def deletions(paths: Iterable[str], tally: Tally) -> Iterator[dict[str, Any]]:
    """What would be deleted.  Nothing if a transfer before it cannot be."""
    for path in paths:
        if tally.failures:
            return
        yield row("delete", path)


def show(invocation: Invocation, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print what would be done, and how much it is."""
    counts: dict[str, int] = {}

    def counted() -> Iterator[Mapping[str, Any]]:
        for each in rows:
            counts[each["action"]] = counts.get(each["action"], 0) + 1
            yield each

    invocation.output.items(_COLUMNS, counted())
    words = ", ".join(f"{action} {count:,}" for action, count in sorted(counts.items()))
    invocation.output.note(f"nothing was done; it would {words or 'do nothing'}")
