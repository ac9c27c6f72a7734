"""Entries whose address is not the repository's to read: refused whenever bytes are asked for."""

from collections.abc import Callable

import pytest

from graveler.core import limits
from graveler.core.errors import Invalid, Refused
from graveler.core.records import AddressType, Entry
from graveler.core.requests import Counts, counted_store
from graveler.core.wire import encode_entry
from graveler.engine.bulk.job import Mode
from graveler.engine.objects import copies, write
from graveler.engine.objects import read as reachable
from graveler.engine.objects import read as reads
from graveler.engine.objects.copies import Source
from graveler.engine.objects.write import Upload
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.engine.repositories import purge, repository, verify
from tests.engine.bulk_world import begin, finish
from tests.engine.lake import Lake
from tests.engine.storage import DAY, Storage

FULL, BY_PREFIX = AddressType.FULL, AddressType.BY_PREFIX
SECRET = b"of another repository"


@pytest.fixture
def secret(storage: Storage) -> Entry:
    """An object of another repository, by its full address."""
    new = repository.NewRepository("other", "mem://bucket/other")
    other = repository.create(storage.ports, new)
    made = write.upload(open_repository(storage.ports, other), "main", "secret", Upload([SECRET]))
    return made._replace(address=reads.physical_address(other, made), address_type=FULL)


def _reads(repo: OpenRepository, path: str) -> list[Callable[[], object]]:
    entry = reads.stat(repo, "main", path)
    return [
        lambda: reads.open_body(repo, entry),
        lambda: reads.storage_class(repo, entry),
        lambda: copies.copy(repo, "main", "copied", Source("main", path)),
    ]


@pytest.mark.parametrize(
    "spelled",
    [
        lambda full: full,
        lambda full: full.replace("mem://", "MEM://"),
    ],
)
@pytest.mark.parametrize("kind", [FULL, BY_PREFIX])
def test_objects_of_another_repository_are_not_read(
    storage: Storage, secret: Entry, spelled: Callable[[str], str], kind: AddressType
) -> None:
    smuggled = secret._replace(address=spelled(secret.address), address_type=kind)
    write.stage(storage.opened, "main", "mine", smuggled)
    for read in _reads(storage.opened, "mine"):
        with pytest.raises(Refused, match="another repository"):
            read()
    [damage] = verify.verify(storage.ports, objects=True)
    assert "another repository" in damage.what


@pytest.mark.parametrize("taken_over", [False, True])
def test_objects_of_a_deleted_repository_are_not_read_until_its_purge(
    storage: Storage, secret: Entry, taken_over: bool
) -> None:
    write.stage(storage.opened, "main", "mine", secret)
    other = open_repository(storage.ports, repository.get(storage.ports, "other"))
    repository.delete(other)
    if taken_over:  # another repository has its name now
        repository.create(
            storage.ports, repository.NewRepository("other", "mem://bucket/elsewhere")
        )
    for opened in (storage.opened, storage.restarted().opened):
        for read in _reads(opened, "mine"):
            with pytest.raises(Refused, match="not purged yet"):
                read()
    storage.clock.sleep(2 * DAY)
    [gone] = purge.list_due(storage.ports)
    assert purge.purge(storage.ports, gone)
    text = b"of nobody".ljust(secret.size)
    storage.blocks.put(secret.address, [text])
    body = reads.open_body(storage.opened, secret)
    assert b"".join(body.chunks) == text


def test_a_smuggled_address_among_many_records_is_not_read(storage: Storage, secret: Entry) -> None:
    """Of a large range only samples are judged before it lands; reading judges each."""
    lake = Lake(storage.ports, storage.repo).with_settings(bulk_checked_records_max=20)
    good = Entry("data/p/u", 3, "e", 1)
    first = [(b"%04d" % at, encode_entry(secret if at == 3 else good)) for at in range(20)]
    refs = [
        lake.ports.ranges.write_range(lake.repo.namespace, records)
        for records in (first, [(b"a", encode_entry(good))])
    ]
    written = lake.ports.ranges.write_metarange(lake.repo.namespace, refs)
    finish(lake, begin(lake, Mode.REPLACE), written)
    entry = reads.stat(lake.opened, "main@", "0003")
    assert entry.address == secret.address  # it landed
    with pytest.raises(Refused, match="another repository"):
        reads.open_body(lake.opened, entry)


@pytest.mark.parametrize("own", ["_lakefs/dummy", "_graveler/gc/x"])
def test_the_repositorys_own_files_are_no_objects(storage: Storage, own: str) -> None:
    full = f"{storage.repo.namespace}/{own}"
    for address, kind in ((own, AddressType.RELATIVE), (full, FULL), (own, BY_PREFIX)):
        entry = Entry(address, 1, "c", 1, address_type=kind)
        with pytest.raises(Refused, match="own files"):
            reachable.address_of(storage.opened, entry)


@pytest.mark.parametrize("text", ["../other/x", "data/../../other/x", "/x"])
def test_no_relative_address_leaves_the_namespace(storage: Storage, text: str) -> None:
    with pytest.raises(Invalid):
        reachable.address_of(storage.opened, Entry(text, 1, "c", 1))


@pytest.mark.parametrize(
    "address",
    [
        "mem://bucket/lake/data/x/y",
        "MEM://bucket/lake/data/x/y",
        "mem://bucket/lake-of-others/x",
        "mem://bucket/otherwise",
        "mem://far/away/x",
    ],
)
def test_what_is_nobodys_or_its_own_may_be_read(
    storage: Storage, secret: Entry, address: str
) -> None:
    storage.blocks.put(address, [b"bytes"])
    entry = secret._replace(address=address, size=5)
    body = reads.open_body(storage.opened, entry)
    assert b"".join(body.chunks) == b"bytes"


def test_objects_inside_cost_no_request_and_those_outside_two_scans(storage: Storage) -> None:
    kv = Counts()
    ports = storage.restarted().ports
    ports = Ports(
        counted_store(ports.kv, kv), ports.blocks, ports.ranges, ports.clock, ports.ids,
        ports.fanout, ports.cache, ports.settings,
    )  # fmt: skip
    storage.blocks.put("mem://far/x", [b"bytes"])
    inside = Entry("data/p/u", 1, "c", 1)
    far = Entry("mem://far/x", 1, "c", 1, address_type=FULL)
    assert reachable.lies_inside(storage.repo, inside)
    assert not reachable.lies_inside(storage.repo, far)
    reachable.address_of(open_repository(ports, storage.repo), inside)
    assert kv.snapshot() == {}
    for _ in range(3):
        reachable.address_of(open_repository(ports, storage.repo), far)
    assert kv.snapshot() == {"scan": 2}  # the live repositories, then the deleted ones
    storage.clock.sleep(limits.repository_cache_seconds_max + 1)
    reachable.address_of(open_repository(ports, storage.repo), far)
    assert kv.snapshot() == {"scan": 4}
