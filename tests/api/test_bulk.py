"""Bulk jobs through a real server: ranges that were written beside it land as one commit."""

from base64 import b64decode
from typing import Any

import pytest

from graveler.auth.permissions import Permission
from graveler.committed import writer
from graveler.committed.ranges import Keyspace
from graveler.core.records import AddressType, BreakParameters, Entry
from graveler.core.wire import decode_entry, encode_entry
from graveler.engine.ports import keyspace, open_repository
from graveler.engine.repositories import repository
from tests.api.serving import Client, Served
from tests.api.somebody import Somebody

Tree = dict[str, str]
FULL = "s3://elsewhere/bucket/key"


def record(path: str, said: str) -> tuple[bytes, bytes]:
    found = Entry(FULL, len(said), said, 1, address_type=AddressType.FULL)
    return path.encode(), encode_entry(found)


def written(live: Served, job: dict[str, Any], tree: Tree) -> str:
    """As a cluster does: with nothing but what the job's answer says."""
    breaks = job["breaks"]
    parameters = BreakParameters(
        breaks["min_size"], breaks["max_size"], breaks["raggedness"], b64decode(breaks["salt"])
    )
    ranges = live.service.ports.ranges
    space = Keyspace(ranges, job["storage_namespace"], parameters)
    return writer.write(space, [record(path, said) for path, said in sorted(tree.items())])


def begun(client: Client, repo: str, mode: str = "replace", **more: Any) -> dict[str, Any]:
    where = f"/repositories/{repo}/branches/main/bulk"
    reply = client.send("POST", where, body={"mode": mode, **more})
    assert reply.status == 201, reply.body
    found: dict[str, Any] = reply.json
    return found


def finished(client: Client, repo: str, job: str, metarange: str, request: str = "r") -> Any:
    where = f"/repositories/{repo}/branches/main/bulk/{job}/finish"
    body = {"metarange": metarange, "request_id": request, "message": "landed"}
    return client.send("PUT", where, body=body)


def listed(client: Client, repo: str) -> Tree:
    found = client.send("GET", f"/repositories/{repo}/refs/main/objects/ls").json["results"]
    return {line["path"]: line["checksum"] for line in found}


def committed(client: Client, repo: str, *paths: str) -> str:
    for path in paths:
        assert client.upload(repo, path, path.encode()).status == 201
    where = f"/repositories/{repo}/branches/main/commits"
    found: str = client.send("POST", where, body={"message": "m"}).json["id"]
    return found


def test_a_job_from_begin_to_commit(live: Served, client: Client, repo: str) -> None:
    base = committed(client, repo, "a", "in/old")
    job = begun(client, repo, prefix="in/", id="load-1")
    assert (job["id"], job["state"], job["base_commit"]) == ("load-1", "running", base)
    assert job["heartbeat_seconds"] and job["expiration_date"] > job["creation_date"]
    assert begun(client, repo, prefix="in/", id="load-1") == job
    where = f"/repositories/{repo}/branches/main/bulk/load-1"
    assert client.send("PUT", where, body={"progress": 5}).json["progress"] == 5
    assert client.send("PUT", where).json["progress"] == 5
    later = committed(client, repo, "b")
    metarange = written(live, job, {"in/x": "1", "in/y": "2"})
    landed = finished(client, repo, "load-1", metarange)
    assert landed.status == 201, landed.body
    assert landed.json["parents"] == [later]
    assert finished(client, repo, "load-1", metarange).json == landed.json
    tree = listed(client, repo)
    assert set(tree) == {"a", "b", "in/x", "in/y"} and tree["in/y"] == "2"
    found = client.send("GET", where).json
    assert (found["state"], found["commit"]) == ("done", landed.json["id"])
    assert finished(client, repo, "load-1", metarange, "other").status == 409
    assert client.send("DELETE", where).status == 409
    assert client.send("PUT", where, body={}).json["state"] == "done"


def test_changes_merge_onto_a_head_that_moved(live: Served, client: Client, repo: str) -> None:
    committed(client, repo, "a", "b")
    job = begun(client, repo, "merge")
    kept = written(live, job, {"a": "new"})  # b is deleted
    committed(client, repo, "c")
    assert finished(client, repo, job["id"], kept).status == 201
    tree = listed(client, repo)
    assert set(tree) == {"a", "c"} and tree["a"] == "new"


def test_a_splice_replaces_and_guards(live: Served, client: Client, repo: str) -> None:
    committed(client, repo, "t/1/a", "t/2/a", "u")
    where = f"/repositories/{repo}/branches/main/bulk"

    def spliced(tree: Tree, **more: Any) -> Any:
        job = begun(client, repo, "splice", prefix="t/")
        body = {"metarange": written(live, job, tree), "request_id": "r", "message": "m", **more}
        return client.send("PUT", f"{where}/{job['id']}/finish", body=body)

    assert spliced({"t/1/b": "1"}).status == 201  # an append
    assert spliced({"t/2/b": "1"}, replace=["t/2/"]).status == 201
    assert set(listed(client, repo)) == {"t/1/a", "t/1/b", "t/2/b", "u"}
    job = begun(client, repo, "splice", prefix="t/")
    committed(client, repo, "t/1/c")
    body = {"metarange": written(live, job, {"t/1/d": "1"}), "request_id": "r", "message": "m"}
    refused = client.send("PUT", f"{where}/{job['id']}/finish", body={**body, "guard": ["t/1/"]})
    assert refused.status == 409 and "t/1/c" in refused.message
    for wrong in (
        {"replace": ["u"]},
        {"guard": [""]},
        {"replace": "t/"},
        {"guard": ["t/"] * 10_001},
    ):
        reply = client.send("PUT", f"{where}/{job['id']}/finish", body={**body, **wrong})
        assert reply.status == 400, wrong
    merging = begun(client, repo, "merge")
    reply = client.send("PUT", f"{where}/{merging['id']}/finish", body={**body, "guard": ["t/"]})
    assert reply.status == 400 and "splice" in reply.message


def test_a_batch_of_a_stream_lands_once(live: Served, client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/branches/main/bulk"
    batch = {"mode": "splice", "prefix": "t/", "stream": "s/1", "batch": 7}
    jobs = [client.send("POST", where, body=batch).json for _ in range(2)]
    assert [(job["stream"], job["batch"], job["state"]) for job in jobs] == [
        ("s/1", 7, "running")
    ] * 2
    made = [
        finished(client, repo, job["id"], written(live, job, {f"t/{at}": "1"})).json["id"]
        for at, job in enumerate(jobs)
    ]
    assert made[0] == made[1] and set(listed(client, repo)) == {"t/0"}
    commit = client.send("GET", f"/repositories/{repo}/commits/{made[0]}").json
    assert commit["metadata"]["graveler.stream"] == "s/1:7"
    known = client.send("POST", where, body=batch)
    assert known.status == 201
    assert (known.json["state"], known.json["commit"]) == ("done", made[0])
    reset = f"/repositories/{repo}/branches/main/hard_reset"
    assert client.send("PUT", reset, {"ref": commit["parents"][0]}).status == 204
    refused = client.send("POST", where, body=batch)
    assert refused.status == 409 and "on_rewind=accept" in refused.message
    accepted = client.send("POST", where, body={**batch, "on_rewind": "accept"})
    assert accepted.json["state"] == "running"
    for wrong in ({"batch": -1}, {"stream": ""}, {"stream": "x" * 257}, {"on_rewind": "x"}):
        assert client.send("POST", where, body={**batch, **wrong}).status == 400, wrong
    assert client.send("POST", where, body={"mode": "splice", "stream": "s"}).status == 400


def an_entry(job: dict[str, Any], path: str, said: str = "1", **more: Any) -> dict[str, Any]:
    """An object that the driver has written below the job's namespace."""
    address = f"{job['storage_namespace']}/data/driver/{path.replace('/', '-')}"
    found = {"path": path, "physical_address": address, "checksum": said, "size_bytes": 3}
    return {**found, **more}


def landed(client: Client, repo: str, job: str, entries: Any, **more: Any) -> Any:
    where = f"/repositories/{repo}/branches/main/bulk/{job}/finish"
    body = {"entries": entries, "request_id": "r", "message": "landed", **more}
    return client.send("PUT", where, body=body)


def test_a_few_entries_land_without_a_metarange(live: Served, client: Client, repo: str) -> None:
    base = committed(client, repo, "t/1/a", "t/2/a", "u")
    job = begun(client, repo, "splice", prefix="t/", stream="s", batch=1)
    described = {"content_type": "x/y", "metadata": {"k": "v"}, "mtime": 7}
    entries = [an_entry(job, "t/2/c", "2", **described), an_entry(job, "t/1/b")]
    made = landed(client, repo, job["id"], entries, replace=["t/2/"], guard=["t/"])
    assert made.status == 201, made.body
    assert made.json["parents"] == [base]
    assert landed(client, repo, job["id"], entries, replace=["t/2/"]).json == made.json
    tree = listed(client, repo)
    assert set(tree) == {"t/1/a", "t/1/b", "t/2/c", "u"} and tree["t/2/c"] == "2"
    where = f"/repositories/{repo}/refs/main/objects/stat"
    stat = client.send("GET", where, {"path": "t/2/c"}).json
    assert stat["physical_address"] == entries[0]["physical_address"]
    assert (stat["content_type"], stat["metadata"], stat["mtime"]) == ("x/y", {"k": "v"}, 7)
    assert stat["size_bytes"] == 3
    other = client.send("GET", where, {"path": "t/1/b"}).json
    assert other["mtime"] == job["creation_date"]
    empty = begun(client, repo, "splice", prefix="t/")
    assert landed(client, repo, empty["id"], [], replace=["t/1/"]).status == 201
    assert set(listed(client, repo)) == {"t/2/c", "u"}
    whole = begun(client, repo, "replace", prefix="t/")
    assert landed(client, repo, whole["id"], [an_entry(whole, "t/z")]).status == 201
    assert set(listed(client, repo)) == {"t/z", "u"}


def test_an_entry_is_bytes_that_were_written(live: Served, client: Client, repo: str) -> None:
    job = begun(client, repo, "splice")
    ports = live.service.ports
    ports.blocks.put(f"{job['storage_namespace']}/data/driver/f", [b"abc"])
    entry = an_entry(job, "f")
    assert landed(client, repo, job["id"], [entry]).status == 201
    read = client.send("GET", f"/repositories/{repo}/refs/main/objects", {"path": "f"})
    assert (read.status, read.body) == (200, b"abc")


def test_entries_that_are_impossible_are_refused(live: Served, client: Client, repo: str) -> None:
    other = live.fresh_repository()
    theirs = client.upload(other, "p", b"x").json["physical_address"]
    job, merging = begun(client, repo, "splice", prefix="t/"), begun(client, repo, "merge")
    good = an_entry(job, "t/a")
    space = job["storage_namespace"]
    for wrong in (
        {"path": "u"},
        {"path": ""},
        {"path": "t/\x00"},
        {"path": "t/" + "x" * 1_100},
        {"physical_address": theirs},
        {"physical_address": "s3://elsewhere/a"},
        {"physical_address": "local:///etc/passwd"},
        {"physical_address": f"{space}/_lakefs/x"},
        {"physical_address": f"{space}/_graveler/jobs/x"},
        {"physical_address": f"{space}/data/../../x"},
        {"physical_address": f"{space}/data//x"},
        {"physical_address": space},
        {"physical_address": "data/x"},
        {"physical_address": ""},
        {"checksum": ""},
        {"checksum": "x" * 300},
        {"size_bytes": -1},
        {"size_bytes": 1 << 50},
        {"mtime": -1},
        {"content_type": "x" * 600},
        {"metadata": {"k": "v" * 9_000}},
        {"metadata": {"": "v"}},
    ):
        reply = landed(client, repo, job["id"], [{**good, **wrong}])
        assert reply.status == 400, (wrong, reply.body)
    twice = landed(client, repo, job["id"], [good, {**good, "checksum": "2"}])
    assert twice.status == 400 and "t/a" in twice.message
    many = [{**good, "path": f"t/{at}"} for at in range(1_001)]
    assert landed(client, repo, job["id"], many).status == 400
    assert landed(client, repo, merging["id"], [an_entry(job, "a")]).status == 400
    assert landed(client, repo, job["id"], [good], metarange="0" * 64).status == 400
    where = f"/repositories/{repo}/branches/main/bulk/{job['id']}/finish"
    assert client.send("PUT", where, body={"request_id": "r", "message": "m"}).status == 400
    assert landed(client, repo, "none", [good]).status == 404
    assert listed(client, repo) == {}
    assert landed(client, repo, job["id"], many[:1_000]).status == 201


RIGHTS = [
    ("fs:CreateCommit", "arn:lakefs:fs:::repository/{}/branch/main"),
    ("fs:ImportFromStorage", "arn:lakefs:fs:::namespace/*"),
    ("fs:WriteObject", "arn:lakefs:fs:::repository/{}/object/t/secret/*"),
    ("fs:DeleteObject", "arn:lakefs:fs:::repository/{}/object/t/secret/*"),
]


@pytest.mark.parametrize("mode", ["splice", "replace", "merge"])
@pytest.mark.parametrize(("action", "resource"), RIGHTS)
def test_the_begin_refuses_who_may_not_finish(
    live: Served, somebody: Somebody, repo: str, action: str, resource: str, mode: str
) -> None:
    """Before hours of work, not behind them."""
    prefix = "" if mode == "merge" else "t/"
    body = {"mode": mode, "prefix": prefix, "token": True}
    where = f"/repositories/{repo}/branches/main/bulk"
    job = begun(live.client, repo, mode, prefix=prefix)
    metarange = written(live, job, {"t/a": "1"})
    somebody.may(Permission("*", "*"), deny=(Permission(action, resource.format(repo)),))
    assert somebody.client.send("POST", where, body=body).status == 403
    assert finished(somebody.client, repo, job["id"], metarange).status == 403
    somebody.may(Permission("*", "*"))
    allowed = somebody.client.send("POST", where, body=body)
    assert allowed.status == 201 and allowed.json["token"]
    assert finished(somebody.client, repo, job["id"], metarange).status == 201


def test_the_begin_refuses_a_protected_branch_and_a_read_only_repository(
    live: Served, client: Client, repo: str
) -> None:
    where = f"/repositories/{repo}/branches/main/bulk"
    rules = f"/repositories/{repo}/settings/branch_protection"
    job = begun(client, repo, "splice")
    assert client.send("PUT", rules, body=[{"pattern": "main"}]).status == 204
    body = {"mode": "splice", "stream": "s", "batch": 1}
    assert client.send("POST", where, body=body).status == 403
    assert finished(client, repo, job["id"], written(live, job, {"a": "1"})).status == 403
    closed = {"name": f"{repo}-closed", "storage_namespace": f"local://{repo}/closed"}
    assert client.send("POST", "/repositories", body={**closed, "read_only": True}).status == 201
    where = f"/repositories/{closed['name']}/branches/main/bulk"
    assert client.send("POST", where, body=body).status == 403
    assert client.send("POST", where, body={**body, "force": True}).status == 201


def test_refusals(live: Served, client: Client, repo: str) -> None:
    job = begun(client, repo, prefix="in/")
    good, beside = written(live, job, {"in/x": "1"}), written(live, job, {"out/x": "1"})
    missing = finished(client, repo, job["id"], "0" * 64)
    assert missing.status == 404 and f"_lakefs/{'0' * 64}" in missing.message
    assert finished(client, repo, job["id"], "zz").status == 400
    refused = finished(client, repo, job["id"], beside)
    assert refused.status == 400 and "below the prefix" in refused.message
    client.upload(repo, "in/staged", b"x")
    dirty = finished(client, repo, job["id"], good)
    assert dirty.status == 409 and "uncommitted changes" in dirty.message
    where = f"/repositories/{repo}/branches/main/bulk"
    assert client.send("POST", where, body={"mode": "append"}).status == 400
    assert client.send("POST", where, body={"mode": "merge", "prefix": "p"}).status == 400
    assert client.send("GET", where + "/none").status == 404
    cancelled = [client.send("DELETE", f"{where}/{job['id']}").status for _ in range(2)]
    assert cancelled == [204, 204]
    assert finished(client, repo, job["id"], good).status == 409
    assert client.send("PUT", f"{where}/{job['id']}", body={"progress": 1}).status == 409
    assert client.send("GET", f"{where}/{job['id']}").json["error"]


def test_staged_rows_in_pages(live: Served, client: Client, repo: str) -> None:
    committed(client, repo, "gone")
    for number in range(5):
        client.upload(repo, f"p/{number}", b"x" * number)
    client.send("DELETE", f"/repositories/{repo}/branches/main/objects", {"path": "gone"})
    where = f"/repositories/{repo}/branches/main/staging/tokens"
    tokens = client.send("GET", where).json["results"]
    assert [each["sealed"] for each in tokens] == [False]
    rows: dict[str, dict[str, Any]] = {}
    for shard in range(tokens[0]["shards"]):
        after, more = "", True
        while more:
            query = {"amount": "2", "after": after}
            reply = client.send("GET", f"{where}/{tokens[0]['token']}/{shard}", query)
            assert reply.status == 200 and len(reply.json["results"]) <= 2
            rows |= {row["path"]: row for row in reply.json["results"]}
            more, after = (reply.json["pagination"][key] for key in ("has_more", "next_offset"))
    assert set(rows) == {"gone", *(f"p/{number}" for number in range(5))}
    assert "value" not in rows["gone"] and rows["gone"]["order"] > 0
    assert decode_entry(b64decode(rows["p/3"]["value"])).size == 3
    for place in ("none/0", f"{tokens[0]['token']}/64", f"{tokens[0]['token']}/x"):
        assert client.send("GET", f"{where}/{place}").status in (400, 404)


def test_a_commit_whose_rows_a_cluster_scans(live: Served, client: Client, repo: str) -> None:
    where = f"/repositories/{repo}/branches/main/bulk"
    assert client.send("POST", where, body={"mode": "commit"}).status == 400  # nothing to commit
    client.upload(repo, "a", b"1")
    job = begun(client, repo, "commit")
    client.upload(repo, "later", b"2")
    records: list[tuple[bytes, bytes]] = []
    for token in job["staging_tokens"]:
        assert token["sealed"]
        for shard in range(token["shards"]):
            at = f"/repositories/{repo}/branches/main/staging/tokens/{token['token']}/{shard}"
            rows = client.send("GET", at).json["results"]
            records += [(row["path"].encode(), b64decode(row["value"])) for row in rows]
    ports = live.service.ports
    space = keyspace(open_repository(ports, repository.get(ports, repo)))
    landed = finished(client, repo, job["id"], writer.write(space, sorted(records)))
    assert landed.status == 201, landed.body
    diff = client.send("GET", f"/repositories/{repo}/branches/main/diff").json["results"]
    assert [line["path"] for line in diff] == ["later"]
    assert set(listed(client, repo)) == {"a", "later"}


def all_roots(client: Client, repo: str, amount: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after, more = "", True
    while more:
        query = {"amount": str(amount), "after": after}
        page = client.send("GET", f"/repositories/{repo}/gc/roots", query).json
        found += page["results"]
        more, after = page["pagination"]["has_more"], page["pagination"]["next_offset"]
        assert len(page["results"]) <= amount
    return found


@pytest.mark.parametrize("amount", [1, 2, 1_000])
def test_roots_of_a_collection(live: Served, client: Client, repo: str, amount: int) -> None:
    head = committed(client, repo, "a")
    metarange = client.send("GET", f"/repositories/{repo}/commits/{head}").json["meta_range_id"]
    staged = [client.upload(repo, f"s/{at}", b"x").json["physical_address"] for at in range(3)]
    where = f"/repositories/{repo}/branches/main/staging/backing"
    issued = client.send("GET", where, {"path": "u"}).json["physical_address"]
    job, over = begun(client, repo), begun(client, repo, "merge")
    client.send("DELETE", f"/repositories/{repo}/branches/main/bulk/{over['id']}")
    namespace = f"local://{repo}/x/"
    found = all_roots(client, repo, amount)
    names = {each["name"] for each in found if each["kind"] == "address"}
    assert {address.removeprefix(namespace) for address in staged} <= names
    assert issued.removeprefix(namespace) in names
    assert [each["name"] for each in found if each["kind"] == "job"] == [job["id"]]
    kept = [(each["name"], each["kept"]) for each in found if each["kind"] == "metarange"]
    assert kept == [(metarange, True)]
    order = [each["kind"] for each in found]
    assert order == sorted(order, key=["address", "job", "metarange"].index)
    for wrong in ("x", "WzFd", "eyJ9"):
        reply = client.send("GET", f"/repositories/{repo}/gc/roots", {"after": wrong})
        assert reply.status == 400 and "previous page" in reply.message


def test_a_job_outlives_the_server_and_no_worker_takes_it(
    live: Served, client: Client, repo: str
) -> None:
    job = begun(client, repo)
    ports = live.service.ports
    repo_record = repository.get(ports, repo)
    assert (
        keyspace(open_repository(ports, repo_record)).breaks.raggedness
        == job["breaks"]["raggedness"]
    )
    where = f"/repositories/{repo}/branches/main/commits/async/{job['id']}/status"
    assert client.send("GET", where).status == 404
    imported = f"/repositories/{repo}/branches/main/import"
    assert client.send("DELETE", imported, {"id": job["id"]}).status == 404
