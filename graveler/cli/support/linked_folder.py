"""A linked folder, as the commands of `graveler local` open it: where it is, its records, its
settings, its server, and what runs its transfers."""

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from graveler.cli.support import progress as shown
from graveler.cli.support.invocation import Invocation, choose_profile
from graveler.cli.support.progress import Progress
from graveler.cli.support.transfers import progress_of
from graveler.core.clock import SystemClock
from graveler.core.errors import Invalid, NotFound, UsageMistake
from graveler.core.settings import environment
from graveler.lake import profiles, state
from graveler.lake.transfers.compare import Work, known_link
from graveler.lake.transfers.folder import Folder, Shelf
from graveler.lake.transfers.link import STATE_FILE, Prefix, linked_above
from graveler.lake.transfers.records import Records, Settings, records_file
from graveler.lake.transfers.remote import Remote
from graveler.lake.transfers.workers import THREADS, Item, Tally

_PATIENCE_SECONDS: Final = 60.0  # of an interrupt, for requests that have begun
_DEPTH_MAX: Final = 64
_TRUE: Final = ("1", "t", "true")

# ---- where it is ---------------------------------------------------------------------------------


def root_of(directory: Path, remedy: str = "") -> Path:
    """The linked folder that `directory` is, or is in.  Raises `NotFound`, with the remedy if
    nothing is there."""
    start = Path(os.path.realpath(directory))
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
    root = Path(os.path.realpath(directory))
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
    """What a command works with, in a linked folder or in one that will be linked with `source`."""
    settings = _settings(invocation)
    progress = progress_of(invocation, progress, no_progress=no_progress)
    folder = Folder(root, settings)
    busy = f"another command works in {root}"
    records = Records(
        records_file(state.folder(environment()), root), SystemClock(), busy, reads_only=not lock
    )
    collects = gc.isenabled()
    gc.disable()  # a listing is many small records without cycles
    try:
        with closing(records):
            link = known_link(folder, records) if source is None else None
            source = source or (link.source if link is not None else Prefix("", ""))
            is_linked = os.path.lexists(root / STATE_FILE)
            with _server_of(invocation, records, is_linked=is_linked):
                yield Work(
                    folder=folder,
                    shelf=Shelf(root, settings),
                    server=Remote(
                        *(invocation.session, source, settings),
                        pre_sign=pre_sign,
                        if_no_hooks=invocation.warn_of_no_hooks,
                    ),
                    records=records,
                    run=partial(_run, threads, progress),
                    settings=settings,
                )
    finally:
        if collects:
            gc.enable()


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


def _run(threads: int, progress: Progress, verb: str, items: Sequence[Item]) -> None:
    """Do the items of an operation.  After an interrupt it waits for the requests that have begun,
    so that what follows sees all that was done."""
    if not items:
        return
    tally = Tally()
    count = min(threads, len(items))
    shown.transfer(items, tally, count, progress, patience_seconds=_PATIENCE_SECONDS)
    if len(items) == 1 and tally.errors:
        raise tally.errors[0]
    shown.check(tally, verb)
