"""Copies: from another repository, with another description, onto themselves, on a condition."""

from dataclasses import replace
from pathlib import Path

import pytest

from graveler.block.adapter import CREATE, OVERWRITE, Update
from graveler.core.errors import Gone, NotFound, PreconditionFailed, Refused
from graveler.core.records import AddressType, Entry
from graveler.core.requests import Counts, counted_blocks, counted_store
from graveler.engine.commits import reset
from graveler.engine.objects import copies, read, write
from graveler.engine.objects.copies import CopySource
from graveler.engine.objects.write import Description, Upload
from graveler.engine.ports import OpenRepository, open_repository
from graveler.engine.repositories import repository
from tests.engine.storage import Storage, new_storage
from tests.support.faults import Fault, FaultyStore

KEPT = {"colour": "blue"}


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    made = new_storage(tmp_path)
    write.upload(made.opened, "main", "a", Upload([b"bytes"], "text/plain", KEPT))
    return made


def of(repo: OpenRepository, path: str, ref: str = "main") -> CopySource:
    return CopySource(repo, path, read.stat(repo, ref, path))


def other(storage: Storage) -> OpenRepository:
    new = repository.NewRepository("other", "mem://bucket/other")
    return open_repository(storage.ports, repository.create(storage.ports, new))


def test_a_copy_into_another_repository_has_bytes_of_its_own(storage: Storage) -> None:
    there = other(storage)
    kv, blocks = Counts(), Counts()
    counted = replace(
        there, kv=counted_store(there.kv, kv), blocks=counted_blocks(there.blocks, blocks)
    )
    made = copies.copy_entry(counted, "main", "b", of(storage.opened, "a"))
    assert blocks.snapshot() == {"copy": 1}
    assert kv.snapshot() == {"set_newer": 1, "get": 2}  # the branch was not cached
    source = read.stat(storage.opened, "main", "a")
    assert read.stat(there, "main", "b") == made
    assert (made.checksum, made.metadata, made.content_type) == (
        source.checksum,
        KEPT,
        "text/plain",
    )
    storage.blocks.delete(f"mem://bucket/lake/{source.address}")
    assert b"".join(read.open_body(there, made).chunks) == b"bytes"


@pytest.mark.parametrize("mode", [OVERWRITE, CREATE])
def test_a_copy_may_be_described_anew(storage: Storage, mode: write.Condition) -> None:
    description = Description("", {"size": "xl"})
    source = of(storage.opened, "a")
    made = copies.copy_entry(storage.opened, "main", "b", source, description, mode)
    assert (made.metadata, made.content_type) == ({"size": "xl"}, write.DEFAULT_CONTENT_TYPE)
    assert storage.read("main", "b") == b"bytes"
    assert read.stat(storage.opened, "main", "a").metadata == KEPT


def test_a_copy_on_a_condition_is_refused(storage: Storage) -> None:
    repo = storage.opened
    source = of(repo, "a")
    with pytest.raises(PreconditionFailed):
        copies.copy_entry(repo, "main", "a", source, mode=CREATE)
    with pytest.raises(PreconditionFailed):
        copies.copy_entry(repo, "main", "a", source, mode=Update("another"))
    with pytest.raises(NotFound):
        copies.copy_entry(repo, "main", "b", source, mode=Update(source.entry.checksum))
    copies.copy_entry(repo, "main", "a", source, mode=Update(source.entry.checksum))


def test_a_copy_reads_what_its_source_may_read(storage: Storage) -> None:
    """The repository of the source decides, not that of the copy."""
    there = other(storage)
    source = of(storage.opened, "a")
    stolen = source.entry._replace(address="_lakefs/x")
    with pytest.raises(Refused, match="among the repository's own files"):
        copies.copy_entry(there, "main", "b", source._replace(entry=stolen))
    storage.blocks.delete(f"mem://bucket/lake/{source.entry.address}")
    with pytest.raises(Gone, match="no data: path=a"):
        copies.copy_entry(there, "main", "b", source)


def test_a_description_replaces_no_bytes(storage: Storage) -> None:
    repo = storage.opened
    before = read.stat(repo, "main", "a")
    kv, blocks = Counts(), Counts()
    counted = replace(
        repo, kv=counted_store(repo.kv, kv), blocks=counted_blocks(repo.blocks, blocks)
    )
    made = copies.describe(counted, "main", "a", Description("image/png", {"x": "y"}))
    assert blocks.snapshot() == {} and kv.snapshot() == {"get": 2, "set_if": 1}
    assert read.stat(repo, "main", "a") == made
    assert made == before._replace(
        content_type="image/png", metadata={"x": "y"}, modified_ns=made.modified_ns
    )
    assert made.modified_ns > before.modified_ns
    reset.reset(repo, "main")
    with pytest.raises(NotFound, match="path not found: path=a"):
        copies.describe(repo, "main", "a", Description())


def test_a_description_on_a_condition(storage: Storage) -> None:
    repo = storage.opened
    present = read.stat(repo, "main", "a").checksum
    with pytest.raises(PreconditionFailed, match="path does not satisfy the condition"):
        copies.describe(repo, "main", "a", Description(), Update("0"))
    with pytest.raises(PreconditionFailed, match="already exists"):
        copies.describe(repo, "main", "a", Description(), CREATE)
    assert copies.describe(repo, "main", "a", Description(), Update(present)).metadata == {}


def losing_an_answer(repo: OpenRepository) -> tuple[OpenRepository, list[Fault]]:
    """The answer of the first swap is lost; and the faults that are still to come."""
    faults = [Fault.LOST]

    def plan(_: int, verb: str) -> Fault:
        return faults.pop() if verb == "set_if" and faults else Fault.NONE

    return replace(repo, kv=FaultyStore(repo.kv, plan)), faults


def test_a_description_whose_answer_is_lost_is_recognised(storage: Storage) -> None:
    repo = storage.opened
    checksum = read.stat(repo, "main", "a").checksum
    faulty, faults = losing_an_answer(repo)
    made = copies.describe(faulty, "main", "a", Description("", {"x": "y"}), Update(checksum))
    assert not faults and read.stat(repo, "main", "a").metadata == made.metadata == {"x": "y"}


def test_a_replacement_whose_answer_is_lost_is_not_refused_by_itself(storage: Storage) -> None:
    repo = storage.opened
    checksum = read.stat(repo, "main", "a").checksum
    faulty, faults = losing_an_answer(repo)
    write.upload(faulty, "main", "a", Upload([b"new"], mode=Update(checksum)))
    assert not faults and storage.read("main", "a") == b"new"


def test_an_object_outside_that_has_another_size_now_is_not_copied(storage: Storage) -> None:
    """The entry would say the size of the old bytes."""
    outside = "mem://landing/a"
    head = storage.blocks.put(outside, [b"first"])
    entry = Entry(outside, head.size, head.etag, 1, address_type=AddressType.FULL)
    write.stage(storage.opened, "main", "a", entry)
    made = copies.copy_entry(storage.opened, "main", "b", of(storage.opened, "a"))
    assert (made.size, made.address_type) == (5, AddressType.RELATIVE)
    storage.blocks.put(outside, [b"second one"])
    with pytest.raises(Gone, match=r"changed since: .*address=mem://landing/a size=10 expected=5"):
        copies.copy_entry(storage.opened, "main", "c", of(storage.opened, "a"))
    with pytest.raises(NotFound):
        read.stat(storage.opened, "main", "c")
