"""`graveler verify`: reads everything reachable in a store and reports damage.

It changes nothing, and the folder of the store may be read-only.  Progress goes to stderr; damage
and the counts go to stdout.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypedDict

from graveler.block.counter import ObservedBlocks
from graveler.cli.options import VerifyOptions
from graveler.cli.output import Output, plain_lines, plural
from graveler.cli.stores import opened
from graveler.engine.ports import Ports
from graveler.engine.repositories import verify as verification
from graveler.engine.repositories.verify import Damage
from graveler.errors import Corrupt
from graveler.kv.counter import ObservedStore
from graveler.requests import Counts

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


def verify(output: Output, options: VerifyOptions) -> int:
    """Check a store.  Returns 1 if anything is damaged, else 0."""
    progress = Progress()
    damaged: list[DamagedPlace] = []
    remedy = "stop the service first: no operation of the API checks a store"

    def note(damage: Damage) -> None:
        repository, where, text = damage
        damaged.append({"repository": repository, "where": where, "what": text})
        if output.form == "human":
            place = f"repository={repository} {where}" if repository else where
            print(plain_lines(f"damaged: {place}: {text}"), flush=True)

    try:
        with (
            opened(options.store, options.import_roots, remedy=remedy, read_only=True) as store,
            _ticking(progress, shown=output.form == "human" and not output.quiet),
        ):
            for text in store.damages():
                note(Damage("", "store", text))
            for damage in verification.verify(progress.watch(store.ports), objects=options.objects):
                note(damage)
    except Corrupt as error:  # nothing more can be read
        note(Damage("", "store", str(error)))
    commits, objects = progress.counts(options.objects)
    report: Verified = {"commits": commits, "objects": objects, "damaged": damaged}
    output.record(report, [f"verified: {progress.told(options.objects)}, damaged: {len(damaged)}"])
    return 1 if damaged else 0


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress, counted by requests: each commit costs one KV get, each object one head."""

    kv: Counts = field(default_factory=Counts)
    blocks: Counts = field(default_factory=Counts)

    def watch(self, ports: Ports) -> Ports:
        """The same ports, which count their requests here."""
        return replace(
            ports,
            kv=ObservedStore(ports.kv, self.kv),
            blocks=ObservedBlocks(ports.blocks, self.blocks),
        )

    def counts(self, objects: bool) -> tuple[int, int]:
        """The number of commits and of objects so far."""
        heads = self.blocks.snapshot().get("head", 0) if objects else 0
        return self.kv.snapshot().get("get", 0), heads

    def told(self, objects: bool) -> str:
        """The progress as a text.  `objects`: include the number of objects."""
        commits, heads = self.counts(objects)
        if not objects:
            return f"{plural(commits, 'commit')} with all files (not the objects: --objects)"
        return f"{plural(commits, 'commit')} with all files, {plural(heads, 'object')}"


@contextmanager
def _ticking(progress: Progress, *, shown: bool) -> Iterator[None]:
    """Print the progress on stderr every 2 seconds, if it is `shown`."""
    if not shown:
        yield
        return
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_TICK_SECONDS):
            print(f"... {progress.told(True)}", file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
