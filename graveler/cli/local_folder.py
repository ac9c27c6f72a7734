"""A linked folder, as the commands of `graveler local` open it: where it is, its lock, its
settings, and what runs its transfers.  For this folder."""

import fcntl
import gc
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from graveler import private_files
from graveler.cli.folder_records import real_path, records_file
from graveler.cli.support import profiles
from graveler.cli.support.address import UsageMistake
from graveler.cli.support.invocation import Invocation, choose_profile
from graveler.cli.support.progress import Interrupted, Tally
from graveler.cli.transfer import THREADS, Progress, Transfer
from graveler.cli.transfer_options import progress_of
from graveler.clock import SystemClock
from graveler.errors import Contended, GravelerError, Invalid, NotFound, Unavailable
from graveler.local.disk import DiskFolder, DiskShelf
from graveler.local.entries import STATE_FILE, Prefix, Settings
from graveler.local.ports import Job
from graveler.local.records import Records
from graveler.local.server import PrefixServer
from graveler.local.state import linked_above
from graveler.local.work import Work, known_link
from graveler.variables import environment

_PATIENCE_SECONDS: Final = 60.0  # of an interrupt, for requests that have begun
_DEPTH_MAX: Final = 64
_TRUE: Final = ("1", "t", "true")

# ---- where it is ---------------------------------------------------------------------------------


def root_of(directory: Path, remedy: str = "") -> Path:
    """The linked folder that `directory` is, or is in.  Raises `NotFound`, with the remedy if
    nothing is there."""
    start = real_path(directory)
    if not start.is_dir():
        if os.path.lexists(start):
            raise NotFound(f"{directory} is no folder")
        raise NotFound(f"folder not found: {directory}", remedy=remedy)
    root = linked_above(start)
    if root is None:
        raise NotFound(f"no linked folder: {start}: link one with graveler local clone, or init")
    return root


def new_root(directory: Path) -> Path:
    """The folder that will be linked, made if it is not there."""
    root = real_path(directory)
    above = linked_above(root.parent)
    if above is not None and above != root:
        raise UsageMistake(f"{root} is in the linked folder {above}: choose another place")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"folder cannot be made: {root}: {error.strerror}") from error
    return root


def linked_below(top: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(top):
        folders.sort()
        if STATE_FILE in names:
            yield Path(place)
            folders.clear()
        elif len(Path(place).parts) - len(top.parts) >= _DEPTH_MAX:
            folders.clear()


# ---- to open one ---------------------------------------------------------------------------------


@contextmanager
def opened(
    invocation: Invocation,
    root: Path,
    source: Prefix | None = None,
    *,
    lock: bool = True,
    threads: int = THREADS,
    progress: Progress = "auto",
    no_progress: bool = False,
    pre_sign: bool = True,
) -> Iterator[Work]:
    """The ports of a linked folder, or of one that will be linked with `source`."""
    settings = _settings(invocation)
    progress = progress_of(invocation, progress, no_progress=no_progress)
    collects = gc.isenabled()
    gc.disable()  # a listing is many small records without cycles
    folder = DiskFolder(root, settings)
    file = records_file(root)
    with _locked(file.with_suffix(".lock"), root, lock=lock):
        records = Records(file, SystemClock())
        try:
            link = known_link(folder, records) if source is None else None
            source = source or (link.source if link is not None else Prefix("", ""))
            is_linked = os.path.lexists(root / STATE_FILE)
            with _server_of(invocation, records, is_linked=is_linked):
                yield Work(
                    folder=folder,
                    shelf=DiskShelf(root, settings),
                    server=PrefixServer(invocation.session, source, settings, pre_sign=pre_sign),
                    records=records,
                    run=_Runner(threads, progress),
                    settings=settings,
                    ignores=folder.ignore.covers,
                )
        finally:
            records.close()
            if collects:
                gc.enable()


def changed_files(invocation: Invocation) -> int:
    """How many files changed in the linked folder that the current one is in; none if there is no
    such folder, or it cannot be compared.  Reads the folder."""
    from graveler.local import sync

    try:
        with opened(invocation, root_of(Path()), lock=False) as work:
            return len(sync.changes_of(work, local_only=True)[0])
    except (GravelerError, OSError):  # it is for a hint alone
        return 0


@contextmanager
def _server_of(invocation: Invocation, records: Records, *, is_linked: bool) -> Iterator[None]:
    """Talk to the server that the folder was linked on, unless an option names another one.  The
    records of a folder that is not linked are those of one that was removed."""
    linked = records.note("server") if is_linked else ""
    flags, server = invocation.flags, invocation.profile.server
    is_chosen = any(flags.get(name) for name in ("server", "profile"))
    if not linked or is_chosen:
        records.note("server", server)
    elif not profiles.same_origin(linked, server):
        if flags.get("access_key_id"):
            raise UsageMistake(
                f"the folder is linked on {linked}, not on {server}: give --profile or --server"
            )
        chosen = profiles.of_server(linked, invocation.profile, environment())
        with choose_profile(invocation, chosen):
            yield
        return
    yield


@contextmanager
def _locked(file: Path, root: Path, *, lock: bool) -> Iterator[None]:
    """One command at a time changes a folder."""
    if not lock:
        yield
        return
    try:
        private_files.make_folder(file.parent)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Unavailable(f"state cannot be kept: {file}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Contended(f"another command works in {root}") from error
        yield
    finally:
        os.close(handle)


def _settings(invocation: Invocation) -> Settings:
    """The settings of lakectl: variables over its file."""
    variables = environment()
    file = profiles.lakectl_file(str(invocation.flags.get("config", "")), variables)
    document = profiles.lakectl_document(file) if file is not None else {}

    def is_set(name: str) -> bool:
        variable = variables.get(f"LAKECTL_{name.upper().replace('.', '_')}")
        if variable is not None:
            return variable.lower() in _TRUE
        value: Any = document
        for key in name.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value is True

    return Settings(
        skip_special=is_set("local.skip_non_regular_files"),
        symlinks=is_set("local.symlink_support"),
        posix=is_set("experimental.local.posix_permissions.enabled"),
        owners=os.geteuid() == 0,
    )


# ---- transfers -----------------------------------------------------------------------------------


class _Runner:
    """Runs transfers in threads (ports.Runner).  After an interrupt it waits for the requests that
    have begun, so that what follows sees all that was done."""

    def __init__(self, threads: int, progress: Progress) -> None:
        self._threads, self._progress = threads, progress
        self._active = 0
        self._changed = threading.Condition()

    def __call__(self, verb: str, jobs: Sequence[Job]) -> None:
        if not jobs:
            return

        def items(tally: Tally) -> Iterator[Job]:
            for job in jobs:
                tally.expect(job.size)
                yield job

        transfer = Transfer(
            self._work, lambda job: job.path, min(self._threads, len(jobs)), self._progress
        )
        try:
            tally = transfer.run(items)
        except BaseException:
            with self._changed:
                self._changed.wait_for(lambda: not self._active, _PATIENCE_SECONDS)
            raise
        if len(jobs) == 1 and tally.errors:
            raise tally.errors[0]
        tally.check(verb)

    def _work(self, job: Job, tally: Tally) -> None:
        with self._changed:
            if tally.stop.is_set():
                raise Interrupted
            self._active += 1
        try:
            job.work(tally.moved)
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()
        tally.ended()
