"""`graveler verify`: reads everything reachable in a store and reports damage.

It changes nothing, and the folder of the store may be read-only.  Progress goes to stderr; damage
and the counts go to stdout.  A check of contents that ends early can go on: its progress names the
last object that was checked.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TypedDict

from graveler.cli.support.administrator import opened
from graveler.cli.support.output import Output, plain, plural
from graveler.core.errors import Corrupt
from graveler.core.records import ABSENT
from graveler.core.requests import Counts, counted_store
from graveler.engine.ports import Ports
from graveler.engine.repositories import verify as verification
from graveler.engine.repositories.verify import Damage
from graveler.lake.show import size

_TICK_SECONDS = 2.0


class DamagedPlace(TypedDict):
    """A place that is damaged.  `repository`: empty for the store's own files."""

    repository: str
    where: str
    what: str


class Verified(TypedDict):
    """What was checked, and what is damaged.  `objects`: 0 unless they were checked."""

    commits: int
    objects: int
    damaged: list[DamagedPlace]


def verify(
    output: Output,
    folder: Path,
    import_roots: Sequence[Path] = (),
    *,
    objects: bool = False,
    content: bool = False,
    after: str = "",
) -> int:
    """Check a store.  Returns 1 if anything is damaged, else 0."""
    progress = Progress(has_objects=objects or content or bool(after))
    checks = verification.ObjectChecks(content=content, after=after, note=progress.note)
    damaged: list[DamagedPlace] = []
    remedy = "stop the service first: no operation of the API checks a store"

    def note(damage: Damage) -> None:
        repository, where, text = damage
        damaged.append({"repository": repository, "where": where, "what": text})
        if output.form == "human":
            place = f"repository={repository} {where}" if repository else where
            print(plain(f"damaged: {place}: {text}"), flush=True)

    try:
        with (
            opened(folder, import_roots, remedy=remedy, read_only=True) as store,
            _ticking(progress, shown=output.form == "human" and not output.quiet),
        ):
            for text in store.damages():
                note(Damage("", "store", text))
            for damage in _damages(progress, store.ports, checks):
                note(damage)
    except Corrupt as error:  # nothing more can be read
        note(Damage("", "store", str(error)))
    report: Verified = {
        "commits": progress.commits,
        "objects": progress.objects,
        "damaged": damaged,
    }
    output.record(report, [f"verified: {progress.told()}, damaged: {len(damaged)}"])
    return 1 if damaged else 0


def _damages(
    progress: "Progress", ports: Ports, checks: verification.ObjectChecks
) -> Iterator[Damage]:
    """All damage.  An interrupt tells how to go on."""
    watched = replace(ports, kv=counted_store(ports.kv, progress.kv))
    try:
        yield from verification.verify(watched, checks=checks if progress.has_objects else ABSENT)
    except KeyboardInterrupt as interrupt:
        if not progress.place:
            raise
        raise KeyboardInterrupt(f"to go on: --after {quote(progress.place)}") from interrupt


@dataclass(slots=True)
class Progress:
    """The progress.  Commits are counted by requests: each costs one KV get."""

    kv: Counts = field(default_factory=Counts)
    has_objects: bool = False
    objects: int = 0
    bytes_read: int = 0
    place: str = ""

    def note(self, place: str, size: int) -> None:
        """An object was checked, of which `size` bytes were read."""
        self.objects += 1
        self.bytes_read += size
        self.place = place

    @property
    def commits(self) -> int:
        """The number of commits so far."""
        return self.kv.snapshot().get("get", 0)

    def told(self) -> str:
        """The progress as a text."""
        text = f"{plural(self.commits, 'commit')} with all files"
        if not self.has_objects:
            return f"{text} (not the objects: --objects)"
        read = f", {size(self.bytes_read)} read" if self.bytes_read else ""
        return f"{text}, {plural(self.objects, 'object')}{read}"


@contextmanager
def _ticking(progress: Progress, *, shown: bool) -> Iterator[None]:
    """Print the progress on stderr every 2 seconds, if it is `shown`."""
    if not shown:
        yield
        return
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_TICK_SECONDS):
            at = f", at {plain(progress.place)}" if progress.place else ""
            print(f"... {progress.told()}{at}", file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
