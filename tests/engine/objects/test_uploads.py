"""Bytes that a busy storage refuses are sent again, if they are there to be sent."""

from collections.abc import Iterator
from dataclasses import replace

from graveler.block.retry import retrying_blocks
from graveler.core.requests import RetryPolicy
from graveler.engine.objects import write
from graveler.engine.objects.write import Upload
from tests.engine.lake import Lake
from tests.support.faults import Fault, FaultyBlocks, nth


def refusing(lake: Lake) -> Lake:
    """The first request for bytes is refused."""
    faulty = FaultyBlocks(lake.ports.blocks, nth({1: Fault.REFUSED}))
    blocks = retrying_blocks(faulty, lake.ports.clock, RetryPolicy())
    return replace(lake, ports=replace(lake.ports, blocks=blocks))


def test_a_body_in_memory_is_sent_again(lake: Lake) -> None:
    mine = refusing(lake)
    entry = write.upload(mine.opened, "main", "a", Upload((b"some ", b"bytes")))
    assert entry.size == 10
    assert lake.tree() == {"a": entry.checksum}


def test_so_is_a_stream(lake: Lake) -> None:
    mine = refusing(lake)

    def stream() -> Iterator[bytes]:
        yield b"some bytes"

    entry = write.upload(mine.opened, "main", "a", Upload(stream()))
    assert entry.size == 10
    assert lake.tree() == {"a": entry.checksum}
