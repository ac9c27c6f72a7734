"""Operations that lakeFS does not have: refs, logs of one author, looks at merges, jobs."""

from typing import Any

import pytest

from graveler.api.app import Graveler
from graveler.core.ids import BranchId
from graveler.engine.events import batches
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.refs import event_rules
from graveler.refs.event_rules import EventRule
from simulator.service.described import by_name, described
from tests.api.serving import Client, Served, ended
from tests.waiting import until

OWN = (
    *("getRef", "previewMerge", "listJobs", "getJob", "cancelJob"),
    *("summarizeObjects", "summarizeDiff", "summarizeUncommitted", "getCommitGraph"),
    *("listComments", "createComment", "updateComment"),
)
OPEN_TO = (
    *("refs/main", "refs/main/merge/main/preview", "jobs", "jobs/x", "refs/main/objects/summary"),
    *("refs/main/diff/main/summary", "branches/main/diff/summary", "graph"),
    f"pulls/{'0' * 20}/comments",
)


@pytest.fixture
def where(repo: str) -> str:
    return f"/repositories/{repo}"


def _commit(client: Client, where: str, branch: str = "main", **files: str) -> str:
    for path, content in files.items():
        repo = where.rpartition("/")[2]
        assert client.upload(repo, path, content.encode(), branch).status == 201
    body = {"message": f"{files}", "allow_empty": True}
    made = client.send("POST", f"{where}/branches/{branch}/commits", body=body)
    assert made.status == 201, made.body
    commit: str = made.json["id"]
    return commit


def _branch(client: Client, where: str, name: str) -> None:
    body = {"name": name, "source": "main"}
    assert client.send("POST", f"{where}/branches", body=body).status == 201


def test_they_are_described_and_tagged_as_own() -> None:
    rows = by_name()
    tagged = {route.operation for route in described() if route.tag == "graveler"}
    assert tagged >= set(OWN)
    for name in OWN:
        operation = Graveler().openapi()["paths"][rows[name].path][rows[name].method.lower()]
        assert operation["tags"] == ["graveler"]


@pytest.mark.parametrize("path", OPEN_TO)
def test_strangers_and_unknown_repositories_are_refused(
    client: Client, where: str, path: str
) -> None:
    assert client.send("GET", f"{where}/{path}", headers={"Authorization": ""}).status == 401
    assert client.send("GET", f"/repositories/nowhere/{path}").status == 404


# ---- refs ----------------------------------------------------------------------------------------


def test_a_ref_is_named(client: Client, where: str) -> None:
    commit = _commit(client, where, a="1")
    client.send("POST", f"{where}/tags", body={"id": "v1", "ref": "main"})
    client.upload(where.rpartition("/")[2], "b", b"2")

    def named(text: str) -> Any:
        return client.send("GET", f"{where}/refs/{text}").json

    clean = {"commit_id": commit, "dirty": False}
    assert named("main") == {**clean, "id": "main", "type": "branch", "branch": "main"} | {
        "dirty": True
    }
    assert named("main@") == {**clean, "id": "main@", "type": "commit", "branch": "main"}
    assert named("v1") == {**clean, "id": "v1", "type": "tag"}
    assert named(commit[:12]) == {**clean, "id": commit[:12], "type": "commit"}
    for text, status in (("none", 404), ("main~99", 404), ("main$~", 400)):
        assert client.send("GET", f"{where}/refs/{text}").status == status, text


# ---- log -----------------------------------------------------------------------------------------


def test_the_log_of_one_author(client: Client, where: str) -> None:
    made = [_commit(client, where, a=f"{number}") for number in range(3)]
    log = f"{where}/refs/main/commits"
    whole = client.send("GET", log).json["results"]
    author = whole[0]["committer"]
    assert whole[-1]["committer"] == ""  # the first commit of a repository
    found = client.send("GET", log, {"author": author.upper()[:5]}).json
    assert [each["id"] for each in found["results"]] == made[::-1]
    assert found["pagination"]["has_more"] is False
    page = client.send("GET", log, {"author": author, "amount": "2"}).json
    assert page["pagination"] | {"has_more": True, "results": 2} == page["pagination"]
    rest = {"author": author, "after": page["pagination"]["next_offset"]}
    assert [each["id"] for each in client.send("GET", log, rest).json["results"]] == made[:1]
    assert client.send("GET", log, {"author": "nobody"}).json["results"] == []


# ---- graph ---------------------------------------------------------------------------------------


def test_the_graph_in_columns(client: Client, where: str) -> None:
    _commit(client, where, a="1")
    _branch(client, where, "dev")
    _commit(client, where, "dev", b="1")
    _commit(client, where, c="1")
    merged = client.send("POST", f"{where}/refs/dev/merge/main", body={"message": "one\nmore"})
    assert merged.status == 200, merged.body
    _commit(client, where, "dev", d="1")
    refs = [client.send("GET", f"{where}/refs/{name}").json for name in ("main", "dev")]
    heads = [each["commit_id"] for each in refs]
    target = f"{where}/graph"
    named = [("heads", "main"), ("heads", "dev")]
    whole = client.send("GET", target, named)
    assert whole.status == 200, whole.body
    assert whole.json["heads"] == heads and whole.json["complete"] is True
    columns = whole.json["commits"]
    ids = columns["ids"]
    assert len(ids) == 6 and all(len(column) == 6 for column in columns.values())
    for place, id in enumerate(ids):
        commit = client.send("GET", f"{where}/commits/{id}").json
        assert columns["parents"][place] == commit["parents"]
        assert all(ids.index(parent) > place for parent in commit["parents"])
        assert columns["times"][place] == commit["creation_date"]
        assert columns["authors"][place] == commit["committer"]
        assert columns["subjects"][place] == commit["message"].partition("\n")[0]
        assert columns["generations"][place] == commit["generation"]
    assert columns["subjects"][ids.index(heads[0])] == "one"
    found, query = list[str](), [*named, ("amount", "4")]
    while query:
        page = client.send("GET", target, query).json
        found += page["commits"]["ids"]
        following = page["pagination"]["next_offset"]
        assert page["complete"] is not page["pagination"]["has_more"]
        query = [("after", following), ("amount", "4")] if following else []
    assert found == ids
    assert len(client.send("GET", target).json["commits"]["ids"]) == 5  # of `main`


def test_wrong_words_about_the_graph(client: Client, where: str) -> None:
    target = f"{where}/graph"
    for wrong in ({"amount": "0"}, {"amount": "2001"}, {"after": "x"}, {"heads": "main$~"}):
        assert client.send("GET", target, wrong).status == 400, wrong
    assert client.send("GET", target, {"heads": "none"}).status == 404
    assert client.send("GET", target, [("heads", "main")] * 101).status == 400


# ---- merges --------------------------------------------------------------------------------------


@pytest.fixture
def forked(client: Client, where: str) -> str:
    """`dev` and `main` disagree on `a`, `x/b` and `x/c`; `dev` adds `new`."""
    _commit(client, where, **{"a": "0", "x/b": "0", "x/c": "0", "same": "0"})
    _branch(client, where, "dev")
    _commit(client, where, "dev", **{"a": "dev", "x/b": "dev", "x/c": "dev", "new": "dev"})
    _commit(client, where, **{"a": "main", "x/b": "main"})
    gone = {"path": "x/c"}
    assert client.send("DELETE", f"{where}/branches/main/objects", gone).status == 204
    _commit(client, where)
    return where


def test_a_merge_is_previewed(client: Client, forked: str) -> None:
    preview = f"{forked}/refs/dev/merge/main/preview"
    found = client.send("GET", preview)
    assert found.status == 200, found.body
    shown = found.json
    heads = [
        client.send("GET", f"{forked}/refs/{name}").json["commit_id"] for name in ("dev", "main")
    ]
    assert [shown["source_commit_id"], shown["destination_commit_id"]] == heads
    base = client.send("GET", f"{forked}/refs/dev/merge/main").json["base_commit_id"]
    assert shown["base_commit_id"] == base
    assert shown["counts"] == {"added": 1, "changed": 0, "removed": 0, "conflict": 3}
    assert shown["complete"] is True and not shown["pagination"]["has_more"]
    assert [each["path"] for each in shown["results"]] == ["a", "x/b", "x/c"]
    for line in shown["results"]:
        for side, ref in (("base", base), ("source", "dev"), ("destination", "main")):
            stat = client.send("GET", f"{forked}/refs/{ref}/objects/stat", {"path": line["path"]})
            assert line.get(side) == (stat.json if stat.status == 200 else None), (line, side)
    assert "destination" not in shown["results"][2]
    assert client.send("GET", f"{forked}/refs/main").json["commit_id"] == heads[1]


def test_a_preview_comes_in_pages(client: Client, forked: str) -> None:
    preview = f"{forked}/refs/dev/merge/main/preview"
    found, after, counted = list[str](), "", 0
    while True:
        shown = client.send("GET", preview, {"amount": "1", "after": after}).json
        found += [each["path"] for each in shown["results"]]
        counted += sum(shown["counts"].values())
        after = shown["pagination"]["next_offset"]
        assert shown["complete"] is not bool(after)
        if not after:
            break
    assert found == ["a", "x/b", "x/c"] and counted == 4
    below = client.send("GET", preview, {"prefix": "x/"}).json
    assert below["counts"] == {"added": 0, "changed": 0, "removed": 0, "conflict": 2}
    assert client.send("GET", f"{forked}/refs/none/merge/main/preview").status == 404
    assert client.send("GET", preview, {"after": "x" * 1_100}).status == 400


@pytest.mark.parametrize("path", ["", "/async"])
def test_a_merge_with_resolutions(client: Client, forked: str, path: str) -> None:
    merge = f"{forked}/refs/dev/merge/main"
    half = {"resolutions": {"x/": "source"}}
    whole = {"resolutions": {"x/": "source", "x/c": "dest", "": "dest"}}

    def send(body: Any) -> tuple[int, Any]:
        reply = client.send("POST", merge + path, body=body)
        if not path or reply.status != 202:
            return reply.status, reply.json
        task = ended(client, f"{merge}/async/{reply.json['id']}/status", "completed")
        return task.get("status_code", 200), task.get("result", task.get("error"))

    assert send({"resolutions": {"": "ours"}})[0] == 400
    assert send({"resolutions": {"x" * 1_100: "dest"}})[0] == 400
    assert send(half)[0] == 409
    status, made = send(whole)
    assert status == 200, made

    def read(name: str) -> bytes | int:
        reply = client.send("GET", f"{forked}/refs/main/objects", {"path": name})
        return reply.body if reply.status == 200 else reply.status

    found = {name: read(name) for name in ("a", "x/b", "x/c", "new")}
    assert found == {"a": b"main", "x/b": b"dev", "x/c": 404, "new": b"dev"}
    metadata = client.send("GET", f"{forked}/commits/{made['reference']}").json["metadata"]
    sides = metadata[".graveler.merge.resolutions"]
    assert sides == '{"": "dest", "x/": "source", "x/c": "dest"}'


# ---- summaries -----------------------------------------------------------------------------------


def test_objects_are_summed_up(client: Client, where: str) -> None:
    commit = _commit(client, where, **{"top": "1", "a/x": "22", "a/y": "333", "b/c/d": "4444"})
    client.upload(where.rpartition("/")[2], "a/z", b"uncommitted")
    target = f"{where}/refs/main/objects/summary"
    whole = client.send("GET", target)
    assert whole.status == 200, whole.body
    assert whole.json["results"] == [
        {"path": "", "objects": 1, "size_bytes": 1},
        {"path": "a/", "objects": 2, "size_bytes": 5},
        {"path": "b/", "objects": 1, "size_bytes": 4},
    ]
    assert whole.json["complete"] is True and whole.json["commit_id"] == commit
    below = client.send("GET", target, {"prefix": "b/", "sizes": "false"}).json
    assert below["results"] == [{"path": "b/c/", "objects": 1}]
    first = client.send("GET", target, {"amount": "1"}).json
    assert first["complete"] is False
    after = {"after": first["pagination"]["next_offset"]}
    rest = client.send("GET", target, after).json["results"]
    assert first["results"] + rest != whole.json["results"]  # `top` comes behind the folders
    assert {line["path"] for line in first["results"] + rest} == {"", "a/", "b/"}
    assert client.send("GET", f"{where}/refs/none/objects/summary").status == 404


def test_differences_are_summed_up(client: Client, where: str) -> None:
    _commit(client, where, **{"a/x": "1", "a/y": "1", "b/z": "1"})
    _branch(client, where, "dev")
    _commit(client, where, "dev", **{"a/x": "dev", "a/new": "dev"})
    _commit(client, where, **{"a/x": "main", "c/1": "main"})

    def line(path: str, *numbers: int) -> dict[str, Any]:
        names = ("added", "changed", "removed", "conflict", "bytes_added", "bytes_removed")
        return {"path": path, **dict(zip(names, numbers, strict=True))}

    target = f"{where}/refs/main/diff/dev/summary"
    three = client.send("GET", target).json
    assert three["results"] == [line("a/", 1, 0, 0, 1, 3, 0)]
    two = client.send("GET", target, {"type": "two_dot"}).json
    assert two["results"] == [line("a/", 1, 1, 0, 0, 6, 4), line("c/", 0, 0, 1, 0, 0, 4)]
    heads = [client.send("GET", f"{where}/refs/{name}").json for name in ("main", "dev")]
    shown = [two["left_commit_id"], two["right_commit_id"]]
    assert shown == [each["commit_id"] for each in heads]
    bare = client.send("GET", target, {"sizes": "false"}).json["results"]
    assert bare == [{"path": "a/", "added": 1, "changed": 0, "removed": 0, "conflict": 1}]
    client.upload(where.rpartition("/")[2], "b/z", b"22")
    target = f"{where}/branches/main/diff/summary"
    staged = client.send("GET", target).json
    assert staged["results"] == [line("b/", 0, 1, 0, 0, 2, 1)]
    assert "right_commit_id" not in staged
    assert client.send("GET", f"{where}/branches/none/diff/summary").status == 404


# ---- jobs ----------------------------------------------------------------------------------------


def _jobs(client: Client, where: str, **query: str) -> list[dict[str, Any]]:
    reply = client.send("GET", f"{where}/jobs", query)
    assert reply.status == 200, reply.body
    jobs: list[dict[str, Any]] = reply.json["results"]
    return jobs


def test_jobs_of_all_kinds_have_one_shape(client: Client, where: str) -> None:
    assert _jobs(client, where) == []
    commit = client.send("POST", f"{where}/branches/main/commits/async", body={"message": "m"})
    dump = client.send("POST", f"{where}/dump")
    gc = client.send("POST", f"{where}/gc/runs", body={})
    bulk = client.send("POST", f"{where}/branches/main/bulk", body={"mode": "merge"})
    ids = [reply.json["id"] for reply in (bulk, gc, dump, commit)]

    def over() -> bool:
        return all(each["state"] in ("done", "failed") for each in _jobs(client, where)[1:])

    until(over, "the jobs have ended")
    jobs = _jobs(client, where)
    assert [each["id"] for each in jobs] == ids
    kinds = ["bulk", "collection", "dump", "commit"]
    assert [each["kind"] for each in jobs] == kinds
    assert [each["state"] for each in jobs] == ["running", "done", "done", "failed"]
    assert [each["cancellable"] for each in jobs] == [True, False, False, False]
    assert jobs[0]["progress"] == {"done": 0, "unit": "rows", "per_second": 0.0}
    assert jobs[3]["error"]["code"] == "no_changes"
    assert jobs[3]["error"]["status_code"] == 400 and jobs[3]["branch"] == "main"
    for each in jobs:
        assert client.send("GET", f"{where}/jobs/{each['id']}").json == each
    for kind in kinds:
        assert [each["kind"] for each in _jobs(client, where, kind=kind)] == [kind]
    assert [each["id"] for each in _jobs(client, where, state="done")] == ids[1:3]
    first = client.send("GET", f"{where}/jobs", {"amount": "3"}).json
    following = first["pagination"]["next_offset"]
    assert [each["id"] for each in first["results"]] == ids[:3]
    assert [each["id"] for each in _jobs(client, where, after=following)] == ids[3:]


def test_a_job_is_cancelled(client: Client, where: str) -> None:
    bulk = client.send("POST", f"{where}/branches/main/bulk", body={"mode": "merge"}).json["id"]
    job = f"{where}/jobs/{bulk}"
    assert client.send("DELETE", job).status == 204
    assert client.send("DELETE", job).status == 204
    shown = client.send("GET", job).json
    assert (shown["state"], shown["cancellable"]) == ("cancelled", False)
    assert shown["error"]["code"] == "conflict" and shown["error"]["status_code"] == 409
    assert client.send("PUT", f"{where}/branches/main/bulk/{bulk}", body={}).status == 409
    assert client.send("DELETE", job, headers={"Authorization": ""}).status == 401


def test_jobs_that_cannot_be_cancelled_or_do_not_exist(client: Client, where: str) -> None:
    dump = client.send("POST", f"{where}/dump").json["id"]
    ended(client, f"{where}/dump", task_id=dump)
    assert client.send("DELETE", f"{where}/jobs/{dump}").status == 409
    for verb in ("GET", "DELETE"):
        assert client.send(verb, f"{where}/jobs/none").status == 404
    for wrong in ({"after": "x-y"}, {"amount": "101"}, {"state": "odd"}, {"after": "9" * 30}):
        assert client.send("GET", f"{where}/jobs", wrong).status == 400, wrong


def test_a_batch_of_events_is_a_job_until_it_is_committed(live: Served, client: Client) -> None:
    """Its message never came to a worker: it waits."""
    name = live.fresh_repository()
    ports = live.embedded.ports
    repo = open_repository(ports, repository.get(ports, name))
    rule = EventRule("r", repo.id, repo.record.uid, BranchId("main"), "bucket", objects_max=1)
    event_rules.put(repo.kv, repo.record, rule, repo.ids)
    closed = batches.note(repo, rule, batches.Delivery(1))
    assert isinstance(closed, tuple)
    job = f"/repositories/{name}/jobs/{closed.batch}"
    shown = client.send("GET", job).json
    assert (shown["kind"], shown["state"], shown["branch"]) == ("batch", "queued", "main")
    assert client.send("DELETE", job).status == 409
    batches.commit_batch(repo, rule, closed.batch)
    assert client.send("GET", job).status == 404
