"""Verification tells all damage of records, files and objects, each where it is."""

from dataclasses import replace
from pathlib import Path

import pytest

from graveler.block import address
from graveler.block.adapter import OVERWRITE, TO_END, Body
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT
from graveler.core.requests import preceded
from graveler.engine import names
from graveler.engine.commits import log
from graveler.engine.objects import read, write
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.engine.repositories.verify import ObjectChecks, verify
from graveler.refs import commits, repositories
from graveler.refs.keys import REPOSITORIES
from tests.engine.storage import Storage, new_storage
from tests.support.interposer import InterposedStore, Script


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A branch with history, a tag that keeps what no branch has, uncommitted objects."""
    made = new_storage(tmp_path)
    made.commit(**{f"p{number}": f"{number}" for number in range(20)})
    names.create_branch(made.opened, "dev", "main")
    made.commit("dev", tagged="tagged")
    names.create_tag(made.opened, "v1", "dev")
    names.delete_branch(made.opened, "dev")
    made.commit(p0="changed")
    made.put(staged="staged", p1="staged too")
    write.delete(made.opened, "main", "p2")
    return made


def told(storage: Storage, *, files: bool = True) -> list[tuple[str, str]]:
    """Where, and what."""
    found = list(verify(storage.restarted().ports, objects=files))
    assert {damage.repository for damage in found} <= {"lake"}
    return [(damage.where, damage.what) for damage in found]


def test_nothing_is_said_of_a_sound_store(storage: Storage) -> None:
    assert told(storage) == [] and told(storage, files=False) == []


@pytest.mark.parametrize(
    ("ref", "path"), [("main", "staged"), ("main@", "p0"), ("main@~", "p0"), ("v1", "tagged")]
)
def test_an_object_that_is_missing_is_told_wherever_it_is_named(
    storage: Storage, ref: str, path: str
) -> None:
    entry = read.stat(storage.opened, ref, path)
    storage.blocks.delete(read.physical_address(storage.repo, entry))
    ((where, what),) = told(storage)
    assert where == f"path {path}" and what.startswith("object cannot be read")
    assert told(storage, files=False) == []


def test_an_object_of_another_size_is_told(storage: Storage) -> None:
    entry = read.stat(storage.opened, "main", "staged")
    storage.blocks.put(read.physical_address(storage.repo, entry), [b"longer now"], OVERWRITE)
    assert told(storage) == [("path staged", "object has another size: recorded=6 found=10")]


def test_a_commit_that_is_not_what_its_name_says_is_told(storage: Storage) -> None:
    entry = log.get_commit(storage.opened, "v1")
    forged = entry.commit._replace(message="forged")
    commits.put(storage.ports.kv, storage.repo, entry.id, forged, b"stamp")
    assert told(storage) == [(f"commit {entry.id}", "commit does not hash to its id")]


def test_a_commit_that_is_missing_is_told_with_what_names_it(storage: Storage) -> None:
    entry = log.get_commit(storage.opened, "v1")
    lost = CommitId("0" * 64)
    child = entry.commit._replace(parents=(lost,))
    commits.put(storage.ports.kv, storage.repo, entry.id, child, b"stamp")
    assert [where for where, _ in told(storage)] == [
        f"commit {entry.id}",
        f"commit {lost}, named by commit {entry.id}",
    ]


def test_a_file_that_is_not_what_was_written_is_told(storage: Storage) -> None:
    metarange = log.get_commit(storage.opened, "v1").commit.metarange
    place = address.range_file(storage.repo.namespace, metarange)
    storage.blocks.put(place, [b"no table at all"], OVERWRITE)
    ((where, _),) = told(storage)
    assert where.endswith(f"file {metarange}")


@pytest.mark.parametrize("kind", [{"bare": True}, {"read_only": True}])
def test_bare_and_read_only_repositories_are_no_damage(
    storage: Storage, kind: dict[str, bool]
) -> None:
    repository.create(storage.ports, NewRepository("guest", "mem://bucket/guest", **kind))
    assert told(storage) == []


@pytest.mark.parametrize("kind", [{"bare": True}, {"read_only": True}])
def test_a_namespace_that_was_never_claimed_is_told_with_the_remedy(
    storage: Storage, kind: dict[str, bool]
) -> None:
    """As older releases made bare and read-only repositories."""
    repository.create(storage.ports, NewRepository("guest", "mem://bucket/guest", **kind))
    storage.blocks.delete(address.marker("mem://bucket/guest"))
    ((name, where, what),) = verify(storage.restarted().ports, objects=True)
    assert (name, where) == ("guest", "namespace mem://bucket/guest")
    assert "is not its own" in what and "import its objects" in what


def test_repositories_are_listed_once_for_all(storage: Storage) -> None:
    listed: list[bytes] = []

    for number in range(20):
        new = NewRepository(f"repo-{number}", f"mem://bucket/{number}")
        repository.create(storage.ports, new)
    ports = replace(
        storage.ports,
        kv=preceded(storage.ports.kv, {"scan": lambda partition, *_: listed.append(partition)}),
    )
    assert list(verify(ports)) == []
    assert listed.count(REPOSITORIES) == 1


def test_repositories_that_share_a_namespace_are_both_told(storage: Storage) -> None:
    guest = repository.create(storage.ports, NewRepository("guest", "mem://bucket/guest"))
    seen = repositories.find(storage.ports.kv, guest.id)
    assert seen is not ABSENT
    moved = replace(guest, namespace="mem://bucket/lake/inside")
    repositories.swap(storage.ports.kv, seen, moved, storage.ports.ids.stamp())
    storage.blocks.put(address.marker(moved.namespace), [f"guest {guest.uid}\n".encode()])
    found = list(verify(storage.restarted().ports))
    assert [(each.repository, each.where) for each in found] == [
        ("guest", "namespace mem://bucket/lake/inside"),
        ("lake", "namespace mem://bucket/lake"),
    ]
    assert "lake shares its files" in found[0].what and "delete it" in found[0].what


def test_a_repository_that_is_deleted_meanwhile_is_no_damage(storage: Storage) -> None:
    guest = repository.create(storage.ports, NewRepository("guest", "mem://bucket/guest"))
    script = Script()
    ports = replace(storage.ports, kv=InterposedStore(storage.ports.kv, script))
    script.after("scan", lambda: repository.delete(open_repository(storage.ports, guest)))
    assert list(verify(ports)) == [] and script.finished


def test_an_object_that_two_commits_name_is_read_once(storage: Storage) -> None:
    read: list[str] = []
    known = storage.blocks.get

    def get(address: str, start: int = 0, end: int = TO_END) -> Body:
        read.append(address)
        return known(address, start, end)

    noted: list[str] = []
    checks = ObjectChecks(content=True, note=lambda place, _: noted.append(place))
    watched = storage.restarted().with_blocks(get=get)
    assert list(verify(watched.ports, checks=checks)) == []
    of_objects = [each for each in read if "/data/" in each]
    assert len(of_objects) == len(set(of_objects)) < len(noted) == len(set(noted))
    assert noted == sorted(noted)
    middle = noted[len(noted) // 2]
    rest: list[str] = []
    again = ObjectChecks(content=True, after=middle, note=lambda place, _: rest.append(place))
    assert list(verify(storage.restarted().ports, checks=again)) == []
    assert rest == noted[noted.index(middle) + 1 :]
