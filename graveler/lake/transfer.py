"""Uploads and downloads of files and folders, by the engine that the command line uses."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, TypeAlias

from graveler.core.clock import SystemClock
from graveler.core.errors import Code, GravelerError, Invalid, NotFound
from graveler.core.settings import environment
from graveler.lake import show, state
from graveler.lake.errors import Error, of
from graveler.lake.objects import Stats, Upload
from graveler.lake.transfers import workers
from graveler.lake.transfers.paths import Filter, is_own
from graveler.lake.transfers.receive import Destination, Object, is_same
from graveler.lake.transfers.receive import download as receive
from graveler.lake.transfers.send import Sender, Source, sources
from graveler.lake.transfers.workers import Item, Split, Tally

if TYPE_CHECKING:
    from graveler.lake.branch import Branch
    from graveler.lake.ref import Ref

# None: a line on a terminal and in a notebook, if it takes long; True: a line anywhere; False:
# nothing; or a function.
Progress: TypeAlias = "Callable[[Transferred], object] | bool | None"
_REDRAW_SECONDS: Final = 0.2
_QUIET_SECONDS: Final = 1.0  # a short transfer shows nothing


@dataclass(frozen=True)
class Transferred:
    """What was transferred so far.  `skipped`: files that were the same already."""

    files: int
    bytes: int
    skipped: int = 0
    deleted: int = 0
    seconds: float = 0.0
    files_expected: int = 0
    bytes_expected: int = 0

    def __str__(self) -> str:
        return f"{self.files:,} files, {show.size(self.bytes)} in {self.seconds:.1f} s" + (
            f"; {self.skipped:,} were the same" if self.skipped else ""
        )


class TransferFailed(Error):
    """Some items failed; all others are done.  `failures`: pairs of a name and a reason."""

    code = Code.TRANSFER_FAILED

    def __init__(self, message: str, failures: tuple[tuple[str, str], ...]) -> None:
        super().__init__(message)
        self.failures = failures


# ---- upload --------------------------------------------------------------------------------------


def upload(
    branch: "Branch",
    source: Path,
    target: str,
    overwrite: bool,
    delete: bool,
    progress: Progress,
) -> Transferred:
    """See `Branch.upload`."""
    place = branch._place
    place.check_relative(target)
    tally = Tally()
    known: dict[str, Stats] = {}
    if source.is_dir():
        prefix = target if not target or target.endswith("/") else f"{target}/"
        known = {each["path"]: each for each in place.list(prefix)}
        found = list(sources(source, prefix, tally, Filter()))
        if delete and known and not found:
            there = f"{branch.address}/{prefix}"
            raise Invalid(f"the folder has nothing: delete would delete all that is at {there}")
    elif source.exists():
        keeps_name = not target or target.endswith("/")
        path = target + source.name if keeps_name else target
        found = [Source(source, path, source.stat().st_size)]
        if delete:
            raise Invalid("delete goes with a folder: the source is a file")
    else:
        where = "" if source.is_absolute() else f" (in {Path.cwd()})"
        raise NotFound(f"no file or folder here: {source}{where}")
    how = Upload(create_only=not overwrite)
    journals = state.folder(environment()) / "uploads"
    sender = Sender(*place.where, how, journals, pre_sign=True)

    def work(file: Source, tally: Tally) -> Split | None:
        stats = known.get(file.path)
        is_there = stats is not None and stats.get("size_bytes") == file.size
        if stats is not None and is_there and is_same(file.file, stats["checksum"], file.size):
            tally.ended(skipped=True, length=file.size)
            return None
        return sender.send(file, tally)

    items = (Item(str(file.file), file.size, partial(work, file)) for file in found)
    done = _run(items, tally, progress)
    if not delete:
        return done
    keep = {file.path for file in found}
    surplus = [path for path in known if path not in keep and not _stays(path)]
    return replace(done, deleted=place.delete(surplus))


def _stays(path: str) -> bool:
    """Whether an upload never deletes an object: marks of folders, and parts of downloads."""
    return path.endswith("/") or is_own(path)


# ---- download ------------------------------------------------------------------------------------


def download(
    ref: "Ref", source: str, target: Path, overwrite: bool, progress: Progress
) -> Transferred:
    """See `Ref.download`."""
    commit = ref.name
    place = ref._place
    place.check_relative(source)
    whole = Object(*place.where[:2], commit, "", "", 0, place.presigns)
    tally = Tally()
    if source and not source.endswith("/"):
        try:
            stats = place.stat(source)
        except NotFound as error:
            with suppress(GravelerError):  # the error is that of the object
                if any(place.list(f"{source}/", amount=1)):
                    error.fields = {**error.fields, "remedy": f'download("{source}/", …)'}
            raise
        name = source.rpartition("/")[2]
        file = Destination(target).file(name) if target.is_dir() else target
        found: Iterator[tuple[Stats, Path]] = iter([(stats, file)])
    else:
        found = _files(ref, source, target, tally)
    items = (
        Item(stats["path"], stats.get("size_bytes", 0), _receiver(whole, stats, file, overwrite))
        for stats, file in found
    )
    done = _run(items, tally, progress)
    if not done.files + done.skipped and not tally.failures:
        raise NotFound(f"nothing below {ref.address}/{source}")
    return done


def _files(ref: "Ref", prefix: str, target: Path, tally: Tally) -> Iterator[tuple[Stats, Path]]:
    """The objects below a prefix, and the file of each; a path that no file can have is a failed
    item.  Marks of folders, whose paths end with a slash, are left out."""
    target.mkdir(parents=True, exist_ok=True)
    destination = Destination(target)
    for stats in ref._place.list(prefix):
        path = stats["path"]
        if path.endswith("/") and not stats.get("size_bytes"):
            continue
        try:
            yield stats, destination.file(path.removeprefix(prefix))
        except Invalid as error:
            tally.expect(0)
            tally.failed(path, error)


def _receiver(
    whole: Object, stats: Stats, file: Path, overwrite: bool
) -> Callable[[Tally], Split | None]:
    checksum, size = stats["checksum"], stats.get("size_bytes", 0)
    source = whole._replace(path=stats["path"], checksum=checksum, size=size)

    def work(tally: Tally) -> None:
        if file.is_file() and is_same(file, checksum, size):
            tally.ended(skipped=True, length=size)
            return
        receive(source, file, stats["mtime"], tally.moved, create_only=not overwrite)
        tally.ended()

    return work


# ---- both ----------------------------------------------------------------------------------------


def _run(items: Iterator[Item], tally: Tally, progress: Progress) -> Transferred:
    """Do all items.  Raises the error of the only one, or `TransferFailed` at the end."""
    clock = SystemClock()
    began = clock.steady_seconds()

    def now() -> Transferred:
        with tally.lock:
            return Transferred(
                tally.files,
                tally.bytes_moved,
                tally.skipped,
                tally.deleted,
                clock.steady_seconds() - began,
                tally.files_expected,
                tally.bytes_expected,
            )

    stop = Event()
    show_it = progress if callable(progress) else _line if _draws(progress) else None
    watcher = Thread(target=_watch, args=(stop, now, show_it, progress), daemon=True)
    if show_it is not None:
        watcher.start()
    try:
        workers.run(items, tally)
    finally:
        stop.set()
        if show_it is not None:
            watcher.join()
    if len(tally.errors) == 1 and tally.files_expected <= 1:
        raise of(tally.errors[0]) from tally.errors[0].__cause__
    if tally.failures:
        first, reason = tally.failures[0]
        count = len(tally.failures)
        raise TransferFailed(
            f"{count:,} of {tally.files_expected:,} files failed, first {first}: {reason}",
            tuple(tally.failures),
        )
    return now()


def _draws(progress: Progress) -> bool:
    is_seen = sys.stderr.isatty() or "ipykernel" in sys.modules  # a notebook
    return progress is True or (progress is None and is_seen)


def _watch(
    stop: Event,
    now: Callable[[], Transferred],
    call: Callable[[Transferred], object],
    progress: Progress,
) -> None:
    quiet = _QUIET_SECONDS if progress is None else 0.0
    if not stop.wait(quiet):
        while not stop.wait(_REDRAW_SECONDS):
            call(now())
    if progress is not None:
        call(now())
    if progress is True or (progress is None and now().seconds > quiet + _REDRAW_SECONDS):
        sys.stderr.write("\n")


def _line(done: Transferred) -> None:
    total = f" of {show.size(done.bytes_expected)}" if done.bytes_expected else ""
    count = f"{done.files + done.skipped:,} of {done.files_expected:,} files"
    sys.stderr.write(f"\r{count}, {show.size(done.bytes)}{total}\x1b[K")
    sys.stderr.flush()
