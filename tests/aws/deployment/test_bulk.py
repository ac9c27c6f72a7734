"""Bulk jobs through the deployed stack: a cluster writes ranges to S3 beside the API, which lands
them as one commit each; what is staged is handed out, and what a collection must keep is told."""

import json
from pathlib import Path

import lakefs
import pytest
from lakefs.client import Client

from graveler.core.aws import AwsSession
from graveler.core.errors import Conflict, Invalid, NotFound
from graveler.core.records import TOMBSTONE, StagedValue
from graveler.lake import bulk
from graveler.lake.bulk import BulkJob, Landing
from graveler.lake.session import Session
from tests.aws.cluster import Cluster
from tests.aws.conftest import local
from tests.aws.deployment.conftest import Stack
from tests.aws.deployment.test_deploy import ask

pytestmark = pytest.mark.xdist_group("stack")

NAME = "bulk"


@pytest.fixture(scope="module")
def session(stack: Stack) -> Session:
    return Session(stack.url, stack.access_key_id, stack.secret_access_key)


@pytest.fixture(scope="module")
def cluster(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    aws = AwsSession(local(stack.engine))
    return Cluster(aws, stack.told["Bucket"], Path(tmp_path_factory.mktemp("cluster")))


@pytest.fixture(scope="module")
def repo(stack: Stack, client: Client) -> lakefs.Repository:
    repository = lakefs.Repository(NAME, client=client)
    return repository.create(storage_namespace=f"{stack.namespace}/{NAME}")


@pytest.fixture
def main(repo: lakefs.Repository) -> lakefs.Branch:
    """A branch of the test's own that holds `a`, `b` and `in/old`, all committed."""
    name = f"b{len(list(repo.branches()))}"
    branch = repo.branch(name).create("main")
    return committed(branch, a="a", b="b", **{"in/old": "old"})


def staged(branch: lakefs.Branch, **texts: str) -> lakefs.Branch:
    for path, text in texts.items():
        branch.object(path).upload(text, pre_sign=False)
    return branch


def committed(branch: lakefs.Branch, **texts: str) -> lakefs.Branch:
    staged(branch, **texts).commit("before")
    return branch


def tree(ref: lakefs.Reference) -> dict[str, str]:
    """What every object of a ref says."""
    paths = [each.path for each in ref.objects()]
    return {path: ref.object(path).reader(mode="r", pre_sign=False).read() for path in paths}


def rows_of(session: Session, job: BulkJob) -> dict[bytes, StagedValue]:
    """What stands in the tokens of a job, the newest write of each path."""
    return {
        row.path.encode(): row.value
        for token in reversed(job.staging_tokens)
        for shard in range(token.shards)
        for row in bulk.staged_rows(session, NAME, job.branch, token.token, shard)
    }


def test_what_a_cluster_wrote_replaces_a_prefix_once(
    session: Session, cluster: Cluster, repo: lakefs.Repository, main: lakefs.Branch
) -> None:
    job = bulk.begin(session, NAME, main.id, "replace", prefix="in/", id="load-1")
    assert (job.state, job.base_commit) == ("running", main.get_commit().id)
    assert bulk.begin(session, NAME, main.id, "replace", prefix="in/", id="load-1") == job
    assert bulk.heartbeat(session, NAME, job, 5).progress == 5
    assert bulk.heartbeat(session, NAME, job).progress == 5
    head = committed(main, later="later").get_commit().id
    landing = Landing(cluster.write(job, {"in/x": "1", "in/y": "2"}), "r", "loaded", {"k": "v"})
    commit = bulk.finish(session, NAME, job, landing)
    assert bulk.finish(session, NAME, job, landing) == commit
    found = repo.ref(commit).get_commit()
    assert (found.message, found.parents, found.metadata["k"]) == ("loaded", [head], "v")
    assert tree(main) == {"a": "a", "b": "b", "in/x": "1", "in/y": "2", "later": "later"}
    assert main.get_commit().id == commit
    ended = bulk.status(session, NAME, job)
    assert (ended.state, ended.commit) == ("done", commit)
    with pytest.raises(Conflict):
        bulk.finish(session, NAME, job, Landing(landing.metarange, "another", "m"))
    with pytest.raises(Conflict):
        bulk.cancel(session, NAME, job)


def test_changes_are_put_onto_a_head_that_moved(
    session: Session, cluster: Cluster, main: lakefs.Branch
) -> None:
    job = bulk.begin(session, NAME, main.id, "merge")
    changes: dict[bytes, StagedValue] = {**cluster.values(job, {"a": "new"}), b"b": TOMBSTONE}
    committed(main, c="c")
    landing = Landing(cluster.overlay(job, changes), "r", "merged")
    bulk.finish(session, NAME, job, landing)
    assert tree(main) == {"a": "new", "c": "c", "in/old": "old"}


def test_a_cluster_commits_what_is_staged(
    session: Session, cluster: Cluster, main: lakefs.Branch
) -> None:
    staged(main, a="new", d="d")
    main.object("b").delete()
    job = bulk.begin(session, NAME, main.id, "commit")
    assert all(token.sealed for token in job.staging_tokens)
    staged(main, e="after the job began")
    rows = rows_of(session, job)
    assert rows[b"b"] is TOMBSTONE and set(rows) == {b"a", b"b", b"d"}
    commit = bulk.finish(session, NAME, job, Landing(cluster.overlay(job, rows), "r", "folded"))
    assert main.get_commit().id == commit
    assert tree(main) == {"a": "new", "d": "d", "e": "after the job began", "in/old": "old"}
    assert [(each.type, each.path) for each in main.uncommitted()] == [("added", "e")]
    main.commit("the rest")
    assert not list(main.uncommitted())


def test_what_cannot_land_says_why(session: Session, cluster: Cluster, main: lakefs.Branch) -> None:
    head = main.get_commit().id
    job = bulk.begin(session, NAME, main.id, "replace", prefix="in/")
    good, beside = cluster.write(job, {"in/x": "1"}), cluster.write(job, {"out/x": "1"})
    with pytest.raises(NotFound, match=f"_lakefs/{'0' * 64}"):
        bulk.finish(session, NAME, job, Landing("0" * 64, "r", "m"))
    with pytest.raises(Invalid, match="below the prefix"):
        bulk.finish(session, NAME, job, Landing(beside, "r", "m"))
    staged(main, **{"in/staged": "x"})
    with pytest.raises(Conflict, match="uncommitted changes"):
        bulk.finish(session, NAME, job, Landing(good, "r", "m"))
    bulk.cancel(session, NAME, job)
    bulk.cancel(session, NAME, job)
    assert bulk.status(session, NAME, job).state == "cancelled"
    main.reset_changes()
    with pytest.raises(Conflict):
        bulk.finish(session, NAME, job, Landing(good, "r", "m"))
    with pytest.raises(Conflict):
        bulk.heartbeat(session, NAME, job)
    assert main.get_commit().id == head


def test_staged_rows_come_in_pages(stack: Stack, session: Session, main: lakefs.Branch) -> None:
    staged(main, **{f"p/{number}": "x" * number for number in range(5)})
    [token] = bulk.staging_tokens(session, NAME, main.id)
    assert not token.sealed
    where = f"/repositories/{NAME}/branches/{main.id}/staging/tokens/{token.token}"
    seen: list[str] = []
    for shard in range(token.shards):
        after, more = "", True
        while more:
            status, body, _ = ask(stack, f"{where}/{shard}?amount=2&after={after}")
            page = json.loads(body)
            assert status == 200 and len(page["results"]) <= 2
            seen += [row["path"] for row in page["results"]]
            more, after = page["pagination"]["has_more"], page["pagination"]["next_offset"]
    assert sorted(seen) == [f"p/{number}" for number in range(5)]
    for place, kind in ((("none", 0), NotFound), ((token.token, 64), Invalid)):
        with pytest.raises(kind):
            list(bulk.staged_rows(session, NAME, main.id, *place))


def test_all_that_is_in_use_is_told_and_stands_in_the_bucket(
    stack: Stack, session: Session, cluster: Cluster, main: lakefs.Branch
) -> None:
    """Page by page, too; the files of a job that was cancelled are nobody's."""
    job = bulk.begin(session, NAME, main.id, "replace", prefix="in/")
    unused = cluster.write(job, {"in/x": "nobody's"})
    staged(main, fresh="fresh")
    roots = list(bulk.roots(session, NAME))
    assert job.id in {root.name for root in roots if root.kind == "job"}
    metaranges = {root.name for root in roots if root.kind == "metarange"}
    assert main.get_commit().meta_range_id in metaranges and unused not in metaranges
    addresses = {root.name for root in roots if root.kind == "address"}
    mine = main.object("fresh").stat().physical_address
    assert mine.removeprefix(f"{job.storage_namespace}/") in addresses
    for each in addresses.union(*(cluster.needed(job, name) for name in metaranges)):
        cluster.blocks.head(f"{job.storage_namespace}/{each}")  # raises what is missing
    bulk.cancel(session, NAME, job)
    told: list[str] = []
    after, more = "", True
    while more:
        where = f"/repositories/{NAME}/gc/roots?amount=3&after={after}"
        status, body, _ = ask(stack, where)
        page = json.loads(body)
        assert status == 200 and len(page["results"]) <= 3, body
        told += [root["name"] for root in page["results"]]
        more, after = page["pagination"]["has_more"], page["pagination"]["next_offset"]
    assert set(told) == {root.name for root in roots} - {job.id}
    assert unused not in told
