"""Storage is opened by name."""

from pathlib import Path

import pytest

from graveler.block.registry import Surroundings, open_blocks
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Invalid
from graveler.core.requests import Counts, counted_blocks
from tests.support.block_suite import content


def test_each_driver_opens(tmp_path: Path) -> None:
    around = Surroundings(SystemClock(), SystemIds())
    for uri, address in (("mem:", "mem://x/a"), (f"local:{tmp_path}/new", "local://x/a")):
        blocks = open_blocks(uri, around)
        blocks.put(address, [b"x"])
        assert content(blocks, address) == b"x"


def test_buckets_that_are_not_named_are_closed() -> None:
    blocks = open_blocks("s3:lake,other", Surroundings(SystemClock(), SystemIds()))
    for call in (blocks.head, blocks.get, blocks.delete):
        with pytest.raises(Invalid):
            call("s3://lakes/a")


@pytest.mark.parametrize(
    "uri", ["", "mem", "mem:x", "local:", "local", "gs:x", ":", "s3", "s3:", "s3:,"]
)
def test_other_names_are_refused(uri: str) -> None:
    with pytest.raises(Invalid):
        open_blocks(uri, Surroundings(SystemClock(), SystemIds()))


def test_requests_are_counted_also_when_they_fail() -> None:
    counts = Counts()
    blocks = counted_blocks(open_blocks("mem:", Surroundings(SystemClock(), SystemIds())), counts)
    blocks.put("mem://x/a", [b"x"])
    before = counts.snapshot()
    with pytest.raises(Invalid):
        blocks.head("bad")
    assert content(blocks, "mem://x/a") == b"x"
    assert counts.since(before) == {"head": 1, "get": 1}
    assert counts.total() == 3
