"""Bulk jobs from Python, through a served store."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from graveler.committed import reader, writer
from graveler.committed.ranges import Keyspace
from graveler.core.errors import (
    Conflict,
    Internal,
    Invalid,
    NotFound,
    PreconditionFailed,
    Unauthenticated,
    Unavailable,
)
from graveler.core.ids import MetarangeId
from graveler.core.records import TOMBSTONE, AddressType, BreakParameters, Entry
from graveler.core.wire import decode_entry, encode_entry
from graveler.lake import bulk
from graveler.lake.bulk import BulkJob, Landing, NewEntry
from graveler.lake.session import Session, connect
from tests.api.serving import ADMINISTRATOR, Served
from tests.client.scripted import Said, scripted
from tests.support.clockwork import TickingClock

KEY, SECRET = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key


def written(live: Served, job: BulkJob, **checksums: str) -> str:
    """With nothing but what the job says."""
    space = Keyspace(live.service.ports.ranges, job.storage_namespace, job.breaks)
    entries = {
        job.prefix + path: Entry("s3://far/away", 1, text, 1, address_type=AddressType.FULL)
        for path, text in checksums.items()
    }
    records = [(path.encode(), encode_entry(entries[path])) for path in sorted(entries)]
    return writer.write(space, records)


def test_a_job_lands_once(live: Served, session: Session, repo: str) -> None:
    job = bulk.begin(session, repo, "main", "replace", prefix="in/", id="load-1")
    assert (job.state, job.prefix, job.base_metarange) == ("running", "in/", "")
    assert len(job.breaks.salt) > 0 and job.staging_tokens[0].shards >= 1
    assert bulk.heartbeat(session, repo, job, 3).progress == 3
    assert bulk.heartbeat(session, repo, job).progress == 3
    landing = Landing(written(live, job, a="1", b="2"), "r", "loaded", {"k": "v"})
    commit = bulk.finish(session, repo, job, landing)
    assert bulk.finish(session, repo, job, landing) == commit
    found = bulk.status(session, repo, job)
    assert (found.state, found.commit, found.progress) == ("done", commit, 3)
    assert bulk.begin(session, repo, "main", "replace", prefix="in/", id="load-1") == found
    with pytest.raises(Conflict):
        bulk.cancel(session, repo, job)
    shown = live.client.send("GET", f"/repositories/{repo}/commits/{commit}").json
    assert (shown["message"], shown["metadata"]["k"]) == ("loaded", "v")


def test_a_splice_overwrites_folders_unless_others_changed_them(
    live: Served, session: Session, repo: str
) -> None:
    def spliced(replace: Sequence[str], guard: Sequence[str], **checksums: str) -> BulkJob:
        job = bulk.begin(session, repo, "main", "splice", prefix="t/")
        landing = Landing(written(live, job, **checksums), "r", "m", replace=replace, guard=guard)
        racing = bulk.begin(session, repo, "main", "splice", prefix="t/")
        bulk.finish(session, repo, job, landing)
        return racing

    late = spliced([], ["t/"], a="1", b="1")
    with pytest.raises(Conflict, match="t/a"):
        bulk.finish(session, repo, late, Landing(written(live, late), "r", "m", guard=["t/"]))
    spliced(["t/a"], ["t/a"], c="1")
    found = live.client.send("GET", f"/repositories/{repo}/refs/main/objects/ls").json["results"]
    assert [each["path"] for each in found] == ["t/b", "t/c"]


def test_a_batch_that_has_landed_is_done(live: Served, session: Session, repo: str) -> None:
    def begun(number: int) -> BulkJob:
        return bulk.begin(session, repo, "main", "splice", prefix="t/", stream="s", batch=number)

    job = begun(0)
    commit = bulk.finish(session, repo, job, Landing(written(live, job, a="1"), "r", "m"))
    again = begun(0)
    assert (again.state, again.commit, again.stream, again.batch) == ("done", commit, "s", 0)
    assert (begun(1).state, begun(1).batch) == ("running", 1)


def test_a_few_files_are_appended_by_two_calls(session: Session, repo: str) -> None:
    job = bulk.begin(session, repo, "main", "splice", prefix="t/", token=True)
    space = job.storage_namespace
    entries = [NewEntry(f"t/{at}", f"{space}/data/d/{at}", 1, "c", mtime=at) for at in range(3)]
    landing = Landing("", "r", "appended", entries=entries)
    commit = bulk.finish(bulk.session_of(session, job), repo, job, landing)
    assert bulk.finish(session, repo, job, landing) == commit
    found = session.call("GET", f"/repositories/{repo}/refs/main/objects/ls")["results"]
    assert [(each["path"], each["mtime"]) for each in found] == [(f"t/{at}", at) for at in range(3)]
    other = bulk.begin(session, repo, "main", "splice")
    with pytest.raises(Invalid, match="namespace"):
        bulk.finish(
            session, repo, other, Landing("", "r", "m", entries=[NewEntry("a", "s3://b/c", 1, "c")])
        )


def test_a_session_of_a_job_has_no_secret(live: Served, session: Session, repo: str) -> None:
    job = bulk.begin(session, repo, "main", "splice", prefix="t/", token=True)
    held = bulk.session_of(session, job)
    assert held.access_key_id == held.secret_access_key == "" and job.token not in repr((held, job))
    assert bulk.heartbeat(held, repo, job, 7).progress == 7
    landing = Landing(written(live, job, a="1"), "r", "m")
    assert bulk.finish(held, repo, job, landing) == bulk.finish(session, repo, job, landing)
    for call in (
        lambda: bulk.status(held, repo, job),
        lambda: bulk.begin(held, repo, "main", "splice"),
        lambda: list(bulk.roots(held, repo)),
    ):
        with pytest.raises(Unauthenticated):
            call()
    with pytest.raises(Invalid, match="token=True"):
        bulk.session_of(session, bulk.begin(session, repo, "main", "splice"))


def test_what_cannot_land_says_why(live: Served, session: Session, repo: str) -> None:
    job = bulk.begin(session, repo, "main", "merge")
    with pytest.raises(NotFound, match="metarange not found"):
        bulk.finish(session, repo, job, Landing("0" * 64, "r", "m"))
    bulk.cancel(session, repo, job)
    assert bulk.status(session, repo, job).state == "cancelled"
    for call in (
        lambda: bulk.finish(session, repo, job, Landing("0" * 64, "r", "m")),
        lambda: bulk.heartbeat(session, repo, job),
        lambda: bulk.begin(session, repo, "main", "replace", id=job.id),
    ):
        with pytest.raises(Conflict):
            call()


def test_a_name_is_for_one_purpose(session: Session, repo: str) -> None:
    job = bulk.begin(session, repo, "main", "merge", id="nightly", purpose="import below 'a/'")
    again = bulk.begin(session, repo, "main", "merge", id="nightly", purpose="import below 'a/'")
    assert again.id == job.id and again.creation_date == job.creation_date
    with pytest.raises(Conflict, match=r"import below 'b/'.*import below 'a/'"):
        bulk.begin(session, repo, "main", "merge", id="nightly", purpose="import below 'b/'")


def test_a_job_that_cannot_land_is_not_begun_again(
    live: Served, session: Session, repo: str
) -> None:
    """Whoever drives it learns that before the work, not at its end."""
    breaks = bulk.begin(session, repo, "main", "merge").breaks
    job = bulk.begin(session, repo, "main", "merge", id="nightly")
    bulk.cancel(session, repo, job)
    packing = bulk.begin_packing(session, repo, "main", breaks, id="coarser")
    bulk.cancel(session, repo, packing)
    with pytest.raises(Conflict, match="state=cancelled id=nightly: use another id"):
        bulk.begin(session, repo, "main", "merge", id="nightly")
    with pytest.raises(Conflict, match="state=cancelled id=coarser"):
        bulk.begin_packing(session, repo, "main", breaks, id="coarser")


def test_staged_rows_and_roots(live: Served, session: Session, repo: str) -> None:
    places = {
        path: live.client.upload(repo, path, b"x").json["physical_address"] for path in "ab c"
    }
    live.client.send("DELETE", f"/repositories/{repo}/branches/main/objects", {"path": "a"})
    found = [
        row
        for token in bulk.staging_tokens(session, repo, "main")
        for shard in range(token.shards)
        for row in bulk.staged_rows(session, repo, "main", token.token, shard)
    ]
    rows = {row.path: row.value for row in found}
    assert set(rows) == set(places) and rows.pop("a") is TOMBSTONE
    names = {decode_entry(value).address for value in rows.values() if value is not TOMBSTONE}
    kept = {root.name for root in bulk.roots(session, repo) if root.kind == "address"}
    assert names == kept and len(names) == 3
    with pytest.raises(NotFound):
        list(bulk.staged_rows(session, repo, "main", "none", 0))


_NOWHERE = ("running", "main", "merge", "", "", "", "")
A_JOB = BulkJob("j", *_NOWHERE, BreakParameters(0, 1, 1, b""), (), 0, 0, 1, 0)


def test_a_finish_is_asked_again_while_the_server_works_on_it() -> None:
    busy = Said(503, b'{"message": "outcome unknown"}')
    with scripted([Said(429), *[busy] * 6, Said(201, b'{"id": "c"}')]) as server:
        session = Session(server.url, KEY, SECRET, TickingClock())
        assert bulk.finish(session, "lake", A_JOB, Landing("m", "r", "t")) == "c"
    assert {(each.method, each.path) for each in server.asked} == {
        ("PUT", "/repositories/lake/branches/main/bulk/j/finish")
    }
    assert len({each.body for each in server.asked}) == 1


def test_other_servers_are_told_apart() -> None:
    others = (b"{}", b'{"id": "j"}', b'{"id": "j", "breaks": {"salt": ""}}', b'{"results": 1}')
    for said in others:
        with scripted([Said(200, said)] * 3) as server:
            session = Session(server.url, KEY, SECRET, TickingClock())
            with pytest.raises(Internal, match="not Graveler"):
                bulk.status(session, "lake", A_JOB)
            with pytest.raises(Internal, match="not Graveler"):
                bulk.staging_tokens(session, "lake", "main")
            with pytest.raises(Internal, match="not Graveler"):
                list(bulk.roots(session, "lake"))


def test_a_server_that_never_answers_is_given_up() -> None:
    session = Session("http://127.0.0.1:9/api/v1", KEY, SECRET, TickingClock())
    with pytest.raises(Unavailable):
        bulk.finish(session, "lake", A_JOB, Landing("m", "r", "t"))


# ---- break parameters ----------------------------------------------------------------------------


def test_break_parameters_are_swapped_for_those_that_were_seen(session: Session, repo: str) -> None:
    seen = bulk.read_breaks(session, repo)
    assert (seen.min_size, seen.max_size) == (0, 20 << 20) and len(seen.salt) == 16
    wanted = replace(seen, min_size=1 << 20, salt=b"\x00\xff")
    for _ in range(2):
        bulk.swap_breaks(session, repo, seen, wanted)
        assert bulk.read_breaks(session, repo) == wanted
    other = replace(wanted, raggedness=7)
    with pytest.raises(PreconditionFailed, match="have changed"):
        bulk.swap_breaks(session, repo, seen, other)
    with pytest.raises(Invalid):
        bulk.swap_breaks(session, repo, wanted, replace(wanted, max_size=1))
    assert bulk.read_breaks(session, repo) == wanted
    with pytest.raises(NotFound):
        bulk.read_breaks(session, "nobody-s")
    # what is begun from now on writes by them
    assert bulk.begin(session, repo, "main", "replace").breaks == wanted


def test_a_branch_is_packed(live: Served, session: Session, repo: str) -> None:
    for number in range(5):
        live.client.upload(repo, f"p/{number}", b"%d" % number)
    where = f"/repositories/{repo}/branches/main/commits"
    live.client.send("POST", where, body={"message": "first"})
    breaks = replace(bulk.read_breaks(session, repo), raggedness=1)
    job = bulk.begin_packing(session, repo, "main", breaks, id="finer")
    assert (job.mode, job.breaks) == ("pack", breaks)
    space = Keyspace(live.service.ports.ranges, job.storage_namespace, breaks)
    base = MetarangeId(job.base_metarange)
    written = writer.write(space, reader.scan(space, base))
    assert len(space.metarange(base).ranges) == 1 and len(space.metarange(written).ranges) == 5
    commit = bulk.finish(session, repo, job, Landing(written, "r", "packed"))
    parent = live.client.send("GET", f"/repositories/{repo}/commits/{commit}").json["parents"][0]
    differ = live.client.send("GET", f"/repositories/{repo}/refs/{parent}/diff/{commit}").json
    assert parent == job.base_commit and differ["results"] == []


@pytest.mark.parametrize("said", ["[]", "{}", '{"min_size": 0, "salt": 1}', '{"salt": "AA=="}'])
def test_break_parameters_of_another_service_are_noticed(said: str) -> None:
    with scripted([Said(200, said.encode())]) as server:
        session = connect(server.url, KEY, SECRET)
        with pytest.raises(Internal, match="another version"):
            bulk.read_breaks(session, "lake")
