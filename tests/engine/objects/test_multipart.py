"""Joining uploaded parts where the answer is lost, and files of the repository that vanish."""

from dataclasses import replace

import pytest

from graveler.block import address
from graveler.block.adapter import Part
from graveler.core.errors import Gone, NotFound
from graveler.core.requests import Counts, counted_blocks, counted_store
from graveler.engine.commits import adopt, log
from graveler.engine.objects import multipart, read
from graveler.engine.objects.multipart import PartSource, SignedFinish, SignedUpload
from graveler.engine.ports import open_repository
from tests.engine.lake import Lake
from tests.engine.storage import Storage
from tests.support.faults import Fault, FaultyBlocks


def uploaded(lake: Lake) -> tuple[SignedUpload, tuple[Part, ...]]:
    begun = multipart.begin_signed(lake.opened, "main", "a", 1).upload
    part = lake.ports.blocks.put_part(begun.address, begun.id, 1, [b"part"])
    return begun, (part,)


def test_a_copied_part_costs_a_row_a_read_and_a_write(storage: Storage) -> None:
    storage.put(a="content")
    begun = multipart.begin_signed(storage.opened, "main", "b", 0).upload
    entry = read.stat(storage.opened, "main", "a")
    kv, blocks = Counts(), Counts()
    repo = storage.opened
    repo = replace(repo, kv=counted_store(repo.kv, kv), blocks=counted_blocks(repo.blocks, blocks))
    part = multipart.copy_signed_part(repo, "main", "b", begun, 1, PartSource(repo, entry, 0, 3))
    assert kv.snapshot() == {"get": 1} and blocks.snapshot() == {"get": 1, "put_part": 1}
    done = multipart.finish_signed(storage.opened, "main", "b", SignedFinish(begun, (part,)))
    assert done.size == 3 and storage.read("main", "b") == b"con"


def failing(lake: Lake, *faults: Fault) -> tuple[Lake, FaultyBlocks]:
    """The same store; the requests that join parts go wrong, one after the other."""
    left = list(faults)

    def plan(_: int, verb: str) -> Fault:
        return left.pop(0) if verb == "complete_upload" and left else Fault.NONE

    blocks = FaultyBlocks(lake.ports.blocks, plan)
    return Lake(replace(lake.ports, blocks=blocks), lake.repo), blocks


@pytest.mark.parametrize("fault", [Fault.DROPPED, Fault.LOST, Fault.LATE])
def test_a_join_whose_answer_is_lost_is_sent_again_or_found(lake: Lake, fault: Fault) -> None:
    begun, sent = uploaded(lake)
    faulty, _ = failing(lake, fault)
    entry = multipart.finish_signed(
        open_repository(faulty.ports, lake.repo), "main", "a", SignedFinish(begun, sent)
    )
    assert entry.size == 4 and lake.tree() == {"a": entry.checksum}


@pytest.mark.parametrize("given_up", [False, True])
def test_a_join_that_lands_late_or_was_given_up_is_told_by_what_is_there(
    lake: Lake, given_up: bool
) -> None:
    begun, sent = uploaded(lake)
    faulty, blocks = failing(lake, Fault.LATE)
    inner = blocks.port

    class Between:
        """Acts between the look after the lost answer and the second attempt."""

        def __getattr__(self, name: str) -> object:
            return getattr(blocks, name)

        def complete_upload(self, address: str, id: str, some: tuple[Part, ...]) -> object:
            if blocks.late:
                if given_up:
                    inner.abort_upload(address, id)
                else:
                    blocks.late.pop()()
            return blocks.complete_upload(address, id, some)

    ports = replace(faulty.ports, blocks=Between())  # type: ignore[arg-type]
    if given_up:
        with pytest.raises(NotFound, match="upload not found"):
            multipart.finish_signed(
                open_repository(ports, lake.repo), "main", "a", SignedFinish(begun, sent)
            )
        assert lake.tree() == {}
    else:
        assert (
            multipart.finish_signed(
                open_repository(ports, lake.repo), "main", "a", SignedFinish(begun, sent)
            ).size
            == 4
        )


def test_a_file_that_vanishes_between_look_and_read_is_gone(lake: Lake) -> None:
    lake.commit_of(a="1")
    head = lake.commit("again", allow_empty=True)
    located = adopt.locate_file(lake.opened, "meta_range", _file_of(lake, head.commit.metarange))
    lake.ports.blocks.delete(located.address)
    with pytest.raises(Gone, match="no data"):
        adopt.open_file(lake.ports, located)


def test_only_files_that_are_there_have_a_place(storage: Storage) -> None:
    head = log.get_commit(storage.opened, storage.commit(a="1"))
    metarange = head.commit.metarange
    assert adopt.metarange_location(storage.opened, metarange) in storage.stored()
    with pytest.raises(NotFound, match="meta_range not found: meta_range=0"):
        adopt.metarange_location(storage.opened, "0" * 64)
    with pytest.raises(NotFound, match="range not found: range=1"):
        adopt.range_location(storage.opened, "1" * 64)


def _file_of(lake: Lake, metarange: str) -> str:
    """Range stores in memory have no files: one is put in its place."""

    lake.ports.blocks.put(address.range_file(lake.repo.namespace, metarange), [b"file"])  # type: ignore[arg-type]
    return metarange
