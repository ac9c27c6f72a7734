"""Break parameters from Python, through a served store."""

from dataclasses import replace

import pytest

from graveler import break_json
from graveler.client import Session, break_parameters, bulk, connect
from graveler.client.bulk import Landing
from graveler.committed import reader, writer
from graveler.committed.ranges import Keyspace
from graveler.errors import Internal, Invalid, NotFound, PreconditionFailed
from graveler.ids import MetarangeId
from graveler.records import BreakParameters
from tests.api.serving import ADMINISTRATOR, Served
from tests.client.scripted import Said, scripted

KEY, SECRET = ADMINISTRATOR.access_key_id, ADMINISTRATOR.secret_access_key


def test_they_are_swapped_for_those_that_were_seen(session: Session, repo: str) -> None:
    seen = break_parameters.read(session, repo)
    assert (seen.min_size, seen.max_size) == (0, 20 << 20) and len(seen.salt) == 16
    wanted = replace(seen, min_size=1 << 20, salt=b"\x00\xff")
    for _ in range(2):
        break_parameters.swap(session, repo, seen, wanted)
        assert break_parameters.read(session, repo) == wanted
    other = replace(wanted, raggedness=7)
    with pytest.raises(PreconditionFailed, match="have changed"):
        break_parameters.swap(session, repo, seen, other)
    with pytest.raises(Invalid):
        break_parameters.swap(session, repo, wanted, replace(wanted, max_size=1))
    assert break_parameters.read(session, repo) == wanted
    with pytest.raises(NotFound):
        break_parameters.read(session, "nobody-s")
    # what is begun from now on writes by them
    assert bulk.begin(session, repo, "main", "replace").breaks == wanted


def test_a_branch_is_packed(live: Served, session: Session, repo: str) -> None:
    for number in range(5):
        live.client.upload(repo, f"p/{number}", b"%d" % number)
    where = f"/repositories/{repo}/branches/main/commits"
    live.client.send("POST", where, body={"message": "first"})
    breaks = replace(break_parameters.read(session, repo), raggedness=1)
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
def test_what_is_no_answer_of_ours(said: str) -> None:
    with scripted([Said(200, said.encode())]) as server:
        session = connect(server.url, KEY, SECRET)
        with pytest.raises(Internal, match="another version"):
            break_parameters.read(session, "lake")


def test_what_the_api_is_told() -> None:
    breaks = BreakParameters(1, 2, 3, b"\xff")
    assert break_json.told(breaks)["salt"] == "/w=="
    assert break_json.parsed(break_json.told(breaks)) == breaks
