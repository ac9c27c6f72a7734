"""Ports that call a function before each slow request: it sends a heartbeat or checks a deadline.

The function stops the work by raising.  Only scans, batches, tables, and lists, copies and
deletions of files call it: every flow that can take long makes such requests again and again.  The
compare-and-swaps that decide an outcome never call it, so they are not delayed.
"""

from dataclasses import replace

from graveler.block.adapter import Beat, ObjectHead, unwatched
from graveler.core.requests import preceded
from graveler.engine.ports import P

_OF_STORE = ("get_many", "scan", "set_many")
_OF_BLOCKS = ("list", "delete", "delete_all")
_OF_RANGES = (
    *("open_range", "read_metarange", "find_range", "write_range", "splice_range"),
    *("begin_rewrite", "write_metarange"),
)


def beating(ports: P, beat: Beat) -> P:
    """The same ports, with `beat` called before each slow request.  Makes no request."""

    def first(*_: object, **__: object) -> None:
        beat()

    copied = ports.blocks.copy

    def copy(source: str, destination: str, inner: Beat = unwatched) -> ObjectHead:
        def both() -> None:
            beat()
            inner()

        beat()
        return copied(source, destination, both)

    blocks = preceded(ports.blocks, dict.fromkeys(_OF_BLOCKS, first))
    blocks.copy = copy  # type: ignore[assignment,method-assign]
    return replace(
        ports,
        kv=preceded(ports.kv, dict.fromkeys(_OF_STORE, first)),
        blocks=blocks,
        ranges=preceded(ports.ranges, dict.fromkeys(_OF_RANGES, first)),
    )
