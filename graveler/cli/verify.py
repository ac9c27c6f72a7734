"""`graveler verify`: reads everything reachable in a store and reports damage.

It changes nothing.  Progress goes to stderr; damage and the counts go to stdout.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from graveler.block.counter import ObservedBlocks
from graveler.cli.options import VerifyOptions
from graveler.cli.stores import opened
from graveler.engine.ports import Ports
from graveler.engine.repositories import verify as verification
from graveler.kv.counter import ObservedStore
from graveler.requests import Counts

_TICK_SECONDS = 2.0


def verify(options: VerifyOptions) -> int:
    """Check a store.  Returns 1 if anything is damaged, else 0."""
    progress = Progress()
    damaged = 0
    with opened(options.store, options.import_roots) as store, _ticking(progress):
        for damage in verification.verify(progress.watch(store.ports), objects=options.objects):
            damaged += 1
            print(f"damaged: repository={damage.repository} {damage.where}: {damage.what}")
    print(f"verified: {progress.told(options.objects)}, damaged: {damaged}")
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

    def told(self, objects: bool) -> str:
        """The progress as a text.  `objects`: include the number of objects."""
        commits = f"{self.kv.snapshot().get('get', 0):,} commits with their files"
        if not objects:
            return f"{commits} (not the objects: --objects)"
        return f"{commits}, {self.blocks.snapshot().get('head', 0):,} objects"


@contextmanager
def _ticking(progress: Progress) -> Iterator[None]:
    """Print the progress on stderr every 2 seconds."""
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
