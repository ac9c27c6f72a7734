"""The local store as the tests of its parts open it."""

from pathlib import Path

from graveler.block.local import LocalBlocks
from graveler.block.signature import Signer
from graveler.clock import SystemClock, SystemIds


def opened(root: Path, *, journaled: bool = False) -> LocalBlocks:
    """A store that signs URLs.  `journaled`: a journal makes small objects durable."""
    clock = SystemClock()
    signer = Signer(b"k" * 32, "http://127.0.0.1:8000", clock)
    return LocalBlocks(root, clock=clock, ids=SystemIds(), signer=signer, journaled=journaled)
