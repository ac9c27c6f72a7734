"""What verbs refuse for what they are told, and that nothing has changed then."""

from collections.abc import Callable

import pytest

from graveler import assembly
from graveler.block.adapter import CREATE
from graveler.core import identity, limits
from graveler.core.errors import (
    DirtyBranch,
    Gone,
    Invalid,
    NoChanges,
    NotFound,
    PreconditionFailed,
)
from graveler.core.records import Commit
from graveler.engine import names
from graveler.engine.commits import adopt, log, merge, reset
from graveler.engine.commits.merge import ReplayRequest
from graveler.engine.objects import addresses, copies, read, write
from graveler.engine.objects.addresses import Link
from graveler.engine.objects.copies import Source
from graveler.engine.objects.write import Upload
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from tests.engine.lake import COMMITTER, Lake
from tests.engine.storage import Storage
from tests.support.clockwork import SeededIds, TickingClock


def test_a_message_that_is_no_unicode(lake: Lake) -> None:
    lake.put("a", "1")
    with pytest.raises(Invalid, match="not valid Unicode"):
        lake.commit("\ud800")
    assert lake.uncommitted() == [("added", "a")]


def test_more_deletions_than_one_call_takes(lake: Lake) -> None:
    lake.commit_of(a="1")
    paths = ["a"] * (limits.bulk_delete_count_max + 1)
    with pytest.raises(Invalid, match="at most"):
        write.delete_many(lake.opened, "main", paths)
    assert lake.tree() == {"a": "1"}


def test_paths_that_cannot_be_are_told_and_the_others_deleted(lake: Lake) -> None:
    lake.commit_of(a="1")
    failed = write.delete_many(lake.opened, "main", ["a", "", "\ud800"])
    assert [(each.path, type(each.error)) for each in failed] == [
        ("", Invalid),
        ("\ud800", Invalid),
    ]
    assert lake.tree() == {}


def test_a_log_of_more_paths_than_one_call_takes(lake: Lake) -> None:
    paths = tuple(f"p{number}" for number in range(limits.log_paths_count_max))
    request = log.LogRequest(objects=paths, prefixes=("one more",))
    with pytest.raises(Invalid, match="at most"):
        log.log(lake.opened, "main", request)
    assert log.log(lake.opened, "main", request._replace(prefixes=()))[0] == ()


def test_a_copy_of_an_object_whose_bytes_are_gone(lake: Lake) -> None:
    upload = Upload([b"bytes"])
    entry = write.upload(lake.opened, "main", "a", upload)
    lake.ports.blocks.delete(read.physical_address(lake.repo, entry))
    with pytest.raises(Gone):
        copies.copy(lake.opened, "main", "b", Source("main", "a"))
    assert set(lake.tree()) == {"a"}


# ---- commits from elsewhere ----------------------------------------------------------------------


def _added(lake: Lake, commit: Commit) -> str:
    record = adopt.NewCommitRecord(identity.commit_id(commit), commit)
    adopt.add_record(lake.opened, record)
    return record.id


def test_a_commit_from_elsewhere_may_hold_nothing(lake: Lake) -> None:
    made = _added(lake, Commit(COMMITTER, "empty root", 10**18))
    names.create_branch(lake.opened, "other", made)
    assert lake.tree("other") == {}


def test_a_commit_from_elsewhere_of_a_generation_that_its_parents_do_not_give(lake: Lake) -> None:
    parent = lake.commit_of(a="1")
    entry = log.get_commit(lake.opened, parent)
    child = Commit(COMMITTER, "m", 10**18, parents=(entry.id,))
    with pytest.raises(Invalid, match="generation"):
        _added(lake, child._replace(generation=7))
    _added(lake, child._replace(generation=entry.commit.generation + 1))


def test_a_commit_from_elsewhere_by_another_name_than_its_own(lake: Lake) -> None:
    entry = Commit(COMMITTER, "m", 10**18)
    wrong = adopt.NewCommitRecord(identity.commit_id(entry._replace(message="n")), entry)
    with pytest.raises(Invalid, match="not the hash"):
        adopt.add_record(lake.opened, wrong)


def test_a_metarange_that_is_not_there_is_not_committed(lake: Lake) -> None:
    head = lake.head()
    with pytest.raises(NotFound, match="metarange not found"):
        lake.commit(source_metarange="0" * 64)
    assert lake.head() == head


def test_the_metarange_of_the_head_is_no_change(lake: Lake) -> None:
    head = log.get_commit(lake.opened, lake.commit_of(a="1"))
    with pytest.raises(NoChanges):
        lake.commit(source_metarange=head.commit.metarange)
    assert lake.head() == head.id
    lake.commit(source_metarange=head.commit.metarange, allow_empty=True)
    assert lake.head() != head.id and lake.tree("main@") == {"a": "1"}


# ---- upload addresses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda link: link._replace(checksum=""),
        lambda link: link._replace(checksum="c" * (limits.checksum_length_bytes_max + 1)),
        lambda link: link._replace(size=-1),
        lambda link: link._replace(size=limits.object_size_bytes_max + 1),
        lambda link: link._replace(size=4),
        lambda link: link._replace(address="mem://bucket/elsewhere/data/x,y"),
        lambda link: link._replace(address=link.address + "x"),
        lambda link: link._replace(address=link.address + "x" * limits.address_length_bytes_max),
    ],
    ids=[
        "no checksum",
        "long checksum",
        "negative",
        "large",
        "other size",
        "elsewhere",
        "forged",
        "long",
    ],
)
def test_a_link_that_is_wrong(lake: Lake, wrong: Callable[[Link], Link]) -> None:
    link = Link(addresses.hand_out(lake.opened, "main", "p"), "checksum", 5)
    lake.ports.blocks.put(link.address, [b"bytes"])
    with pytest.raises(Invalid):
        addresses.link(lake.opened, "main", "p", wrong(link))
    assert lake.tree() == {}
    addresses.link(lake.opened, "main", "p", link)
    assert lake.tree() == {"p": "checksum"}


def test_a_link_of_what_nobody_wrote(lake: Lake) -> None:
    link = Link(addresses.hand_out(lake.opened, "main", "p"), "checksum", 5)
    with pytest.raises(Invalid, match="no object"):
        addresses.link(lake.opened, "main", "p", link)
    assert lake.tree() == {}


def test_a_conditional_link_that_is_repeated_undoes_no_later_change_of_metadata(lake: Lake) -> None:
    """Its first answer was lost; the entry is committed by now, with other metadata."""
    address = addresses.hand_out(lake.opened, "main", "p")
    link = Link(address, "checksum", 5, metadata={"of": "link"}, mode=CREATE)
    lake.ports.blocks.put(link.address, [b"bytes"])
    addresses.link(lake.opened, "main", "p", link)
    lake.commit()
    addresses.link(lake.opened, "main", "p", link)  # the same once more
    copies.set_user_metadata(lake.opened, "main", "p", {"of": "somebody"})
    lake.commit()
    with pytest.raises(PreconditionFailed):
        addresses.link(lake.opened, "main", "p", link)
    assert read.stat(lake.opened, "main", "p").metadata == {"of": "somebody"}


def test_an_address_that_has_expired() -> None:
    clock = TickingClock()
    ports = assembly.open_memory(clock, SeededIds(1))
    repo = repository.create(ports, repository.NewRepository("lake", "mem://bucket/lake"))
    link = Link(addresses.hand_out(open_repository(ports, repo), "main", "p"), "checksum", 5)
    clock.sleep(limits.link_address_seconds + 1)
    with pytest.raises(Invalid, match="expired"):
        addresses.link(open_repository(ports, repo), "main", "p", link)
    assert Lake(ports, repo).tree() == {}


# ---- replays -------------------------------------------------------------------------------------


def test_a_replay_that_changes_nothing_is_made_only_if_asked_for(lake: Lake) -> None:
    lake.commit_of(a="1")
    picked = lake.commit_of(b="2")
    with pytest.raises(NoChanges):
        merge.cherry_pick(lake.opened, "main", picked, ReplayRequest(COMMITTER))
    asked = ReplayRequest(COMMITTER, allow_empty=True)
    made = merge.cherry_pick(lake.opened, "main", picked, asked)
    assert lake.head() == made.id and lake.tree("main@") == {"a": "1", "b": "2"}


def test_rows_over_a_commit_whose_content_is_lost_count_as_uncommitted(storage: Storage) -> None:
    """Nobody can compare them, so a hard reset to a sound commit waits until they are dropped."""
    sound = storage.commit(a="1")
    lost = storage.commit(b="2")
    storage.put(c="3")
    metarange = log.get_commit(storage.opened, lost).commit.metarange
    storage.blocks.delete(f"mem://bucket/lake/_lakefs/{metarange}")
    storage = storage.restarted()
    with pytest.raises(DirtyBranch):
        reset.hard_reset(storage.opened, "main", sound)
    reset.reset(storage.opened, "main")
    reset.hard_reset(storage.opened, "main", sound)
    assert names.get_branch(storage.opened, "main").branch.commit == sound
