"""Repositories, branches, tags, commits and the smaller records: what is stored, found, listed."""

import itertools
from dataclasses import replace

import pytest

from graveler.core.errors import AlreadyExists, Invalid, NotFound, OutcomeUnknown
from graveler.core.ids import BranchId, CommitId, JobId, RepositoryId, StagingToken, TagId
from graveler.core.records import (
    ABSENT,
    BranchState,
    Cleanup,
    Commit,
    CommitEntry,
    Fold,
    Job,
    JobState,
    RepositoryState,
    Tag,
    UploadAddress,
)
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Store
from graveler.refs import (
    branches,
    cleanups,
    commits,
    job_records,
    keys,
    repositories,
    tags,
    uploads,
)
from graveler.refs.uploads import ChecksumRow, PartChecksum
from tests.refs.graphs import id_of
from tests.refs.stores import IDS, Counted, Echo, LostAnswers, branch, repository
from tests.support.interposer import InterposedStore, Script

REPO = repository()
MAIN = BranchId("main")


def put_branch(kv: Store, name: str, hidden: bool = False, live: bool = True) -> None:
    id, new = BranchId(name), branch(hidden=hidden)
    made = branches.swap(kv, REPO, id, ABSENT, new, IDS.stamp())
    assert made is not ABSENT
    if not live:
        gone = new._replace(rev=new.rev + 1, state=BranchState.DELETED)
        assert branches.swap(kv, REPO, id, made, gone, IDS.stamp()) is not ABSENT


# ---- places --------------------------------------------------------------------------------------


def test_places_are_those_of_the_format() -> None:
    token = StagingToken("tok.1")
    assert keys.space(REPO) == b"r/lake/u1"
    assert keys.branch_key(MAIN) == b"b/main"
    assert keys.tag_key(TagId("v1")) == b"t/v1"
    assert keys.commit_key(CommitId("c1")) == b"c/c1"
    assert keys.fold_key(MAIN, CommitId("c1"), token) == b"f/main/c1/tok.1"
    assert keys.upload_key("data/x/y") == b"l/data/x/y"
    assert keys.PART_CHECKSUMS + keys.part_checksum_name("u", 7, "e").encode() == b"d/u/7/e"
    assert keys.setting_key("protection") == b"s/protection"
    assert keys.job_key(JobId("j1")) == b"j/j1"
    assert keys.cleanup_key(token) == b"x/tok.1"
    assert keys.metadata_key("k") == b"m/k"
    assert keys.REPOSITORIES == b"repos"


# ---- repositories --------------------------------------------------------------------------------


def test_a_repository_is_created_once_deleted_and_created_anew() -> None:
    kv = MemoryStore()
    assert repositories.find(kv, REPO.id) is ABSENT
    with pytest.raises(NotFound, match=r"^repository not found$"):
        repositories.get(kv, REPO.id)
    assert repositories.put_new(kv, REPO, IDS.stamp(), ABSENT)
    assert repositories.get(kv, REPO.id) == REPO
    assert not repositories.put_new(kv, repository(uid="u2"), IDS.stamp(), ABSENT)
    found = repositories.find(kv, REPO.id)
    assert found is not ABSENT
    gone = replace(REPO, state=RepositoryState.DELETED)
    deleted = repositories.swap(kv, found, gone, IDS.stamp())
    assert deleted is not ABSENT and deleted == repositories.find(kv, REPO.id)
    with pytest.raises(NotFound):
        repositories.get(kv, REPO.id)
    assert repositories.swap(kv, found, REPO, IDS.stamp()) is ABSENT, "a late duplicate"
    assert not repositories.put_new(kv, REPO, IDS.stamp(), ABSENT), "a late duplicate"
    again = repository(uid="u2")
    assert repositories.put_new(kv, again, IDS.stamp(), deleted)
    assert repositories.get(kv, REPO.id) == again


def test_a_refusal_by_the_own_write_is_success() -> None:
    assert repositories.put_new(Echo(), REPO, IDS.stamp(), ABSENT)
    new = branch()
    assert branches.swap(Echo(), REPO, MAIN, ABSENT, new, b"s") == (new, b"s")
    assert tags.create(Echo(), REPO, TagId("v1"), id_of(1), IDS) == Tag(id_of(1))
    job = Job(JobId("j"), "import", JobState.RUNNING, b"me", 1, 1)
    assert job_records.put(Echo(), REPO, job, ABSENT, b"s") == (job, b"s")


@pytest.mark.parametrize("lands", [True, False])
def test_a_swap_without_an_answer_is_absent_and_a_creation_says_so(lands: bool) -> None:
    kv = LostAnswers(lands)
    assert branches.swap(kv, REPO, MAIN, ABSENT, branch(), b"s") is ABSENT
    assert (branches.find(kv, REPO, MAIN) is not ABSENT) == lands
    job = Job(JobId("j"), "import", JobState.RUNNING, b"me", 1, 1)
    assert job_records.put(kv, REPO, job, ABSENT, b"s") is ABSENT
    seen = repositories.VersionedRepository(REPO, b"old")
    assert repositories.swap(kv, seen, REPO, b"s") is ABSENT
    if lands:
        assert tags.create(kv, REPO, TagId("v1"), id_of(1), IDS) == Tag(id_of(1))
    else:
        with pytest.raises(OutcomeUnknown):
            tags.create(kv, REPO, TagId("v1"), id_of(1), IDS)
    with pytest.raises(OutcomeUnknown):
        repositories.put_new(kv, REPO, b"s", ABSENT)


def test_repositories_are_listed_live_by_prefix_and_search_in_pages() -> None:
    kv = MemoryStore()
    for number in range(30):
        state = RepositoryState.DELETED if number % 3 == 0 else RepositoryState.LIVE
        each = replace(repository(f"r{number:02}"), state=state)
        assert repositories.put_new(kv, each, IDS.stamp(), ABSENT)

    def listed(prefix: str, search: str, after: str, amount: int) -> tuple[list[str], bool]:
        found, more = repositories.list_page(kv, prefix, lambda name: search in name, after, amount)
        return [each.id for each in found], more

    assert listed("", "", "", 3) == (["r01", "r02", "r04"], True)
    assert listed("", "", "r04", 2) == (["r05", "r07"], True)
    assert listed("r1", "", "r16", 10) == (["r17", "r19"], False)
    assert listed("", "5", "", 10) == (["r05", "r25"], False)
    assert listed("r2", "", "r1", 1) == (["r20"], True)
    assert listed("x", "", "", 10) == ([], False)
    assert listed("r1", "", "r2", 10) == ([], False)
    assert listed("", "", "r26", 2) == (["r28", "r29"], False)


def test_metadata_is_merged_and_deleted_by_key() -> None:
    kv = MemoryStore()
    assert repositories.get_metadata(kv, REPO) == {}
    repositories.merge_metadata(kv, REPO, {"a": "1", "b": "2", "": "empty", "ä/ö": ""}, IDS)
    repositories.merge_metadata(kv, REPO, {"b": "3"}, IDS)
    repositories.merge_metadata(kv, REPO, {}, IDS)
    assert repositories.get_metadata(kv, REPO) == {"": "empty", "a": "1", "b": "3", "ä/ö": ""}
    repositories.delete_metadata(kv, REPO, ["a", "none", "k" * 5_000], IDS)
    repositories.delete_metadata(kv, REPO, [], IDS)
    assert repositories.get_metadata(kv, REPO) == {"": "empty", "b": "3", "ä/ö": ""}
    with pytest.raises(Invalid):
        repositories.merge_metadata(kv, REPO, {"k" * 5_000: "v"}, IDS)
    assert repositories.get_metadata(kv, repository(uid="u2")) == {}


# ---- branches ------------------------------------------------------------------------------------


def test_a_branch_is_swapped_by_version_only() -> None:
    kv = MemoryStore()
    first = branches.swap(kv, REPO, MAIN, ABSENT, branch(1), b"s1")
    assert first is not ABSENT
    assert first == (branch(1), b"s1")
    assert branches.find(kv, REPO, MAIN) == first
    assert branches.swap(kv, REPO, MAIN, ABSENT, branch(2), b"s2") is ABSENT
    second = branches.swap(kv, REPO, MAIN, first, branch(2), b"s3")
    assert second == (branch(2), b"s3")
    assert branches.swap(kv, REPO, MAIN, first, branch(3), b"s4") is ABSENT
    assert branches.find(kv, REPO, MAIN) == second


def test_a_deleted_branch_is_found() -> None:
    kv = MemoryStore()
    assert branches.find(kv, REPO, MAIN) is ABSENT
    put_branch(kv, "main", live=False)
    found = branches.find(kv, REPO, MAIN)
    assert found is not ABSENT and not found.branch.live
    assert branches.find_live(kv, REPO, MAIN) is ABSENT and not branches.is_live(kv, REPO, MAIN)


def test_a_late_duplicate_of_a_creation_makes_no_branch() -> None:
    kv = MemoryStore()
    put_branch(kv, "main", live=False)
    first = branches.find(kv, REPO, MAIN)
    assert branches.swap(kv, REPO, MAIN, ABSENT, branch(1), b"duplicate") is ABSENT
    made = branches.swap(kv, REPO, MAIN, first, branch(3), b"again")
    assert made is not ABSENT
    gone = made.branch._replace(rev=4, state=BranchState.DELETED)
    assert branches.swap(kv, REPO, MAIN, made, gone, b"gone") is not ABSENT
    for earlier in (ABSENT, first):
        assert branches.swap(kv, REPO, MAIN, earlier, branch(3), b"again") is ABSENT
    assert branches.swap(kv, REPO, MAIN, made, gone, b"gone") == (gone, b"gone")
    assert branches.find(kv, REPO, MAIN) == (gone, b"gone")


@pytest.mark.parametrize("again", [False, True])
def test_a_branch_that_is_created_between_two_reads_is_found_as_it_was_deleted(again: bool) -> None:
    """And one that is deleted again, as that."""
    kv, script = MemoryStore(), Script()
    put_branch(kv, "main", live=False)
    first = branches.find(kv, REPO, MAIN)
    gone = branch(4, state=BranchState.DELETED)

    def between() -> None:
        made = branches.swap(kv, REPO, MAIN, first, branch(3), b"made")
        assert made is not ABSENT
        if again:
            assert branches.swap(kv, REPO, MAIN, made, gone, b"gone") is not ABSENT

    script.after("get", between)
    found = branches.find(InterposedStore(kv, script), REPO, MAIN)
    assert found == ((gone, b"gone") if again else first) and script.finished


def test_a_list_does_not_meet_deleted_branches() -> None:
    counted = Counted()
    for number in range(3_000):
        put_branch(counted.memory, f"job-{number:04}", live=number % 1_000 == 500)
    found, more = branches.list_page(counted.kv, REPO, "", "", 100, False)
    assert [each.id for each in found] == ["job-0500", "job-1500", "job-2500"] and not more
    assert counted.spent() == 1


def test_branches_are_listed_live_in_pages_hidden_ones_on_request() -> None:
    kv = MemoryStore()
    for name in ("a", "b", "b-1", "b-2", "c", "d"):
        put_branch(kv, name, hidden=name == "b-1", live=name != "c")
    tags.create(kv, REPO, TagId("bb"), id_of(1), IDS)

    def listed(prefix: str, after: str, amount: int, hidden: bool = False) -> tuple[str, bool]:
        found, more = branches.list_page(kv, REPO, prefix, after, amount, hidden)
        return " ".join(each.id for each in found), more

    assert listed("", "", 100) == ("a b b-2 d", False)
    assert listed("", "", 100, True) == ("a b b-1 b-2 d", False)
    assert listed("", "", 2) == ("a b", True)
    assert listed("", "b-2", 1) == ("d", False)
    assert listed("b", "b", 1) == ("b-2", False)
    assert listed("b-", "", 1, True) == ("b-1", True)
    assert branches.list_page(kv, REPO, "a", "", 1, False)[0][0].branch == branch()


def test_a_page_of_a_listing_is_one_request() -> None:
    counted = Counted()
    for number in range(200):
        put_branch(counted.memory, f"b{number:03}")
        tags.create(counted.memory, REPO, TagId(f"t{number:03}"), id_of(1), IDS)
    for amount in (1, 100, 199, 200, 1_000):
        found, more = branches.list_page(counted.kv, REPO, "", "", amount, False)
        assert (len(found), more) == (min(amount, 200), amount < 200)
        assert counted.spent() == 1
        listed, more = tags.list_page(counted.kv, REPO, "t", "t000", amount)
        assert (len(listed), more) == (min(amount, 199), amount < 199)
        assert counted.spent() == 1


def test_a_page_behind_the_prefix_asks_nothing() -> None:
    counted = Counted()
    assert branches.list_page(counted.kv, REPO, "a", "b", 10, False) == ((), False)
    assert counted.spent() == 0


# ---- tags ----------------------------------------------------------------------------------------


def test_a_tag_never_moves() -> None:
    kv, v1 = MemoryStore(), TagId("v1")
    assert tags.find(kv, REPO, v1) is ABSENT
    with pytest.raises(NotFound, match=r"^tag not found$"):
        tags.get(kv, REPO, v1)
    with pytest.raises(NotFound, match=r"^tag not found$"):
        tags.delete(kv, REPO, v1, IDS)
    tags.create(kv, REPO, v1, id_of(1), IDS)
    for commit in (1, 2):
        with pytest.raises(AlreadyExists):
            tags.create(kv, REPO, v1, id_of(commit), IDS)
    assert tags.get(kv, REPO, v1) == Tag(id_of(1))
    tags.delete(kv, REPO, v1, IDS)
    assert tags.find(kv, REPO, v1) is ABSENT
    assert tags.list_page(kv, REPO, "", "", 10) == ((), False)


# ---- commits and folds ---------------------------------------------------------------------------


def test_commits_are_stored_found_and_listed() -> None:
    kv = MemoryStore()
    made = {id_of(n): Commit("me", f"m{n}", n, metadata={"k": "v"}, order_ns=n) for n in range(20)}
    for id, commit in made.items():
        commits.put(kv, REPO, id, commit, IDS.stamp())
        commits.put(kv, REPO, id, commit, IDS.stamp())
    assert commits.get(kv, REPO, id_of(3)) == made[id_of(3)]
    assert commits.find(kv, REPO, id_of(77)) is ABSENT
    with pytest.raises(NotFound, match=r"^commit not found$"):
        commits.get(kv, REPO, id_of(77))
    expected = [CommitEntry(id, made[id]) for id in sorted(made)]
    assert list(commits.list_all(kv, REPO)) == expected


def test_a_prefix_finds_at_most_two_commits() -> None:
    counted = Counted()
    for text in ("aa1", "aa2", "aa3", "ab"):
        id = CommitId(text.ljust(64, "0"))
        commits.put(counted.memory, REPO, id, Commit("c", "m", 0), IDS.stamp())
    assert len(commits.by_prefix(counted.kv, REPO, "aa")) == 2
    assert commits.by_prefix(counted.kv, REPO, "ab") == ("ab".ljust(64, "0"),)
    assert commits.by_prefix(counted.kv, REPO, "b") == ()
    assert counted.spent() == 3
    for text in ("", "AA", "a/", "xyz", "a" * 65):
        assert commits.by_prefix(counted.kv, REPO, text) == ()
    assert counted.spent() == 0


def test_folds_belong_to_branch_commit_and_newest_token() -> None:
    kv = MemoryStore()
    one, two = StagingToken("t1.1"), StagingToken("t2.1")
    dev = BranchId("dev")
    writes = [
        commits.fold_write(REPO, MAIN, id_of(1), one, Fold((one,), 5), IDS.stamp()),
        commits.fold_write(REPO, MAIN, id_of(1), two, Fold((one, two), 6), IDS.stamp()),
        commits.fold_write(REPO, dev, id_of(1), two, Fold((two,), 7), IDS.stamp()),
    ]
    kv.set_many(writes)
    assert commits.folds_of(kv, REPO, MAIN, id_of(1)) == (
        Fold((one,), 5),
        Fold((one, two), 6),
    )
    assert commits.folds_of(kv, REPO, MAIN, id_of(2)) == ()
    listed = list(commits.list_folds(kv, REPO))
    assert len(listed) == 3
    commits.forget_folds(kv, REPO, [key for key, fold in listed if fold.created_ns < 7])
    assert [fold for _, fold in commits.list_folds(kv, REPO)] == [Fold((two,), 7)]


# ---- clean-ups, upload addresses, jobs -----------------------------------------------------------


def test_cleanups_are_recorded_listed_marked_and_forgotten() -> None:
    kv = MemoryStore()
    tokens = [StagingToken(f"t{number}.1") for number in range(3)]
    kv.set_many(cleanups.cleanup_writes(REPO, MAIN, tokens, 9, IDS))
    kv.set_many(cleanups.cleanup_writes(REPO, MAIN, tokens[:1], 9, IDS))
    listed = list(cleanups.list_cleanups(kv, REPO))
    assert [each[:2] for each in listed] == [(token, Cleanup(MAIN, 9)) for token in tokens]
    marked = Cleanup(MAIN, 9, marked_ns=11, passes=1)
    assert cleanups.swap(kv, REPO, listed[1], marked, IDS.stamp())
    assert not cleanups.swap(kv, REPO, listed[1], Cleanup(MAIN, 9), IDS.stamp())
    assert [each.cleanup for each in cleanups.list_cleanups(kv, REPO)][1] == marked
    cleanups.forget(kv, REPO, tokens[:2])
    cleanups.forget(kv, REPO, [])
    assert [each.token for each in cleanups.list_cleanups(kv, REPO)] == tokens[2:]
    assert list(cleanups.list_cleanups(kv, REPO, after=tokens[2])) == []


def test_upload_addresses_are_found_until_forgotten() -> None:
    kv = MemoryStore()
    upload = UploadAddress(MAIN, "a/ä", 99)
    uploads.put_address(kv, REPO, "data/p/u,sig", upload, IDS.stamp())
    assert uploads.find_address(kv, REPO, "data/p/u,sig") == upload
    assert list(uploads.list_addresses(kv, REPO)) == [("data/p/u,sig", upload)]
    for other in ("data/p/u", "", "x" * 5_000):
        assert uploads.find_address(kv, REPO, other) is ABSENT
    uploads.forget_address(kv, REPO, ["data/p/u,sig"])
    assert uploads.find_address(kv, REPO, "data/p/u,sig") is ABSENT


def test_checksums_of_parts_are_those_of_their_bytes() -> None:
    kv = MemoryStore()
    one = ChecksumRow(PartChecksum(1, "e1", "crc32", "A=="), 0)
    again = ChecksumRow(PartChecksum(1, "e2", "sha256", "B/+="), 5 << 30)
    last = ChecksumRow(PartChecksum(10_000, "e/3", "crc32", "C=="), ABSENT)
    for upload, kept in (("u1", one), ("u1", again), ("u1", last), ("u10", one)):
        uploads.put_checksum(kv, REPO, upload, kept, kept.checksum.number, IDS.stamp())
    uploads.put_checksum(kv, REPO, "u1", one, 7, IDS.stamp())
    assert set(uploads.checksums_of(kv, REPO, "u1")) == {one, again, last}
    assert list(uploads.checksums_of(kv, REPO, "u")) == []
    expiries = dict(uploads.checksum_expiries(kv, REPO))
    assert expiries == {"u1/1/e1": 7, "u1/1/e2": 1, "u1/10000/e/3": 10_000, "u10/1/e1": 1}
    uploads.forget_checksums(kv, REPO, ["u1/1/e1", "u1/10000/e/3"])
    uploads.forget_checksums(kv, REPO, [])
    assert list(uploads.checksums_of(kv, REPO, "u1")) == [again]
    assert list(uploads.checksums_of(kv, REPO, "u10")) == [one]


def test_a_job_changes_by_version_only() -> None:
    kv = MemoryStore()
    job = Job(JobId("j1"), "import", JobState.RUNNING, b"me", 1, 1)
    with pytest.raises(NotFound):
        job_records.get(kv, REPO, job.id)
    first = job_records.put(kv, REPO, job, ABSENT, b"s1")
    assert first is not ABSENT and first == job_records.get(kv, REPO, job.id)
    assert job_records.put(kv, REPO, job, ABSENT, b"s2") is ABSENT
    done = job._replace(state=JobState.DONE, progress=7)
    assert job_records.put(kv, REPO, job._replace(cancel=True), first, b"s3") is not ABSENT
    assert job_records.put(kv, REPO, done, first, b"s4") is ABSENT, (
        "the cancellation is not overwritten"
    )
    assert [each.job.cancel for each in job_records.list_all(kv, REPO)] == [True]
    job_records.forget(kv, REPO, [job.id])
    assert job_records.find(kv, REPO, job.id) is ABSENT


def test_records_of_one_request_cost_one_request() -> None:
    counted = Counted()
    kv = counted.kv
    repositories.put_new(kv, REPO, IDS.stamp(), ABSENT)
    assert counted.spent() == 1
    repositories.get(kv, RepositoryId("lake"))
    assert counted.spent() == 1
    put_branch(kv, "main")
    assert counted.spent() == 1
    branches.find(kv, REPO, MAIN)
    assert counted.spent() == 1
    tags.create(kv, REPO, TagId("v1"), id_of(1), IDS)
    assert counted.spent() == 1
    tags.delete(kv, REPO, TagId("v1"), IDS)
    assert counted.spent() == 2
    commits.put(kv, REPO, id_of(1), Commit("c", "m", 0), IDS.stamp())
    assert counted.spent() == 1
    commits.folds_of(kv, REPO, MAIN, id_of(1))
    assert counted.spent() == 1


def test_no_two_kinds_of_records_share_a_prefix_of_keys() -> None:
    found = [value for value in vars(keys).values() if isinstance(value, bytes)]
    prefixes = sorted(value for value in found if value.endswith(b"/"))
    assert len(prefixes) > 20
    pairs = itertools.pairwise(prefixes)
    assert not [pair for pair in pairs if pair[1].startswith(pair[0])], prefixes
