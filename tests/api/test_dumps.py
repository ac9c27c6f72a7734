"""Dumps and restores of refs through the API, by the unmodified client of lakeFS."""

import json
from pathlib import Path

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import BadRequestException, NotFoundException
from lakefs_sdk.models import RefsDump, RefsRestore, RepositoryDumpStatus

from graveler.core import wire_pb2 as pb
from graveler.core.identity import body_of
from tests.api import serving
from tests.api.serving import Client, Served
from tests.committed.files import contents, opened
from tests.waiting import until

LAKEFS = Path(__file__).parents[1] / "data" / "lakefs-written"


def ended(api: lakefs_sdk.RepositoriesApi, repo: str, task: str) -> RepositoryDumpStatus:
    until(lambda: api.dump_status(repo, task).done, "the dump has ended")
    return api.dump_status(repo, task)


def heads(sdk: lakefs_sdk.ApiClient, repo: str, refs: RefsDump) -> dict[str, str]:
    """The branches of a dump, from its files as the API hands them out."""
    api, found = lakefs_sdk.InternalApi(sdk), dict[str, str]()
    metarange = bytes(api.get_metadata_object(repo, refs.branches_meta_range_id, "meta_range"))
    for _, value in contents(opened(metarange)):
        name = value[2:66].decode()  # behind the length of the identity
        table = opened(bytes(api.get_metadata_object(repo, name, "range")))
        for _, framed in contents(table):
            branch = pb.BranchData.FromString(body_of(framed))
            found[branch.id] = branch.commit_id
    return found


def test_refs_are_dumped_by_a_task_and_at_once(sdk: lakefs_sdk.ApiClient, repo: str) -> None:
    api = lakefs_sdk.RepositoriesApi(sdk)
    done = ended(api, repo, api.dump_submit(repo).id)
    assert done.error is None and done.refs is not None
    at_once = lakefs_sdk.InternalApi(sdk).dump_refs(repo)
    assert at_once == done.refs
    head = lakefs_sdk.BranchesApi(sdk).get_branch(repo, "main").commit_id
    assert heads(sdk, repo, at_once) == {"main": head}
    creation = lakefs_sdk.BranchCreation(name="dev", source="main")
    lakefs_sdk.BranchesApi(sdk).create_branch(repo, creation)
    again = ended(api, repo, api.dump_submit(repo).id)
    assert again.refs is not None
    assert again.refs.branches_meta_range_id != at_once.branches_meta_range_id
    assert heads(sdk, repo, again.refs) == {"dev": head, "main": head}


def test_unknown_dumps_and_jobs_of_another_kind(
    sdk: lakefs_sdk.ApiClient, client: Client, repo: str
) -> None:
    api = lakefs_sdk.RepositoriesApi(sdk)
    other = client.send("POST", f"/repositories/{repo}/gc/runs").json["id"]
    for task in ("none", other):
        with pytest.raises(NotFoundException):
            api.dump_status(repo, task)
    with pytest.raises(NotFoundException):
        api.dump_submit("nowhere")
    assert client.send("GET", f"/repositories/{repo}/dump").status == 400


# ---- restores ------------------------------------------------------------------------------------


def dumped(live: Served, sdk: lakefs_sdk.ApiClient, repo: str) -> RefsRestore:
    """A repository with a branch, a tag and content; its dump."""
    assert live.client.upload(repo, "a/1", b"content").status == 201
    commits = lakefs_sdk.CommitsApi(sdk)
    commits.commit(repo, "main", lakefs_sdk.CommitCreation(message="one"))
    branch = lakefs_sdk.BranchCreation(name="dev", source="main~1")
    lakefs_sdk.BranchesApi(sdk).create_branch(repo, branch)
    lakefs_sdk.TagsApi(sdk).create_tag(repo, lakefs_sdk.TagCreation(id="v1", ref="main"))
    refs = lakefs_sdk.InternalApi(sdk).dump_refs(repo)
    return RefsRestore(**refs.dict())


def bare(live: Served, sdk: lakefs_sdk.ApiClient, repo: str) -> str:
    """A bare repository on a copy of the namespace of another one."""
    name = f"{repo}-copy"
    blocks = live.embedded.ports.blocks
    for line in blocks.list(f"local://{repo}/x/", "", 1_000).lines:
        if not line.address.endswith("/dummy"):
            blocks.copy(line.address, line.address.replace(repo, name))
    creation = lakefs_sdk.RepositoryCreation(name=name, storage_namespace=f"local://{name}/x")
    lakefs_sdk.RepositoriesApi(sdk).create_repository(creation, bare=True)
    return name


def restored(sdk: lakefs_sdk.ApiClient, repo: str, copy: str) -> None:
    """Refs, history and content of the copy are those of the repository."""
    branches, refs = lakefs_sdk.BranchesApi(sdk), lakefs_sdk.RefsApi(sdk)
    assert branches.list_branches(copy).results == branches.list_branches(repo).results
    assert lakefs_sdk.TagsApi(sdk).list_tags(copy).results
    assert refs.log_commits(copy, "main").results == refs.log_commits(repo, "main").results
    assert lakefs_sdk.ObjectsApi(sdk).get_object(copy, "v1", "a/1") == b"content"


def test_refs_are_restored_at_once(live: Served, sdk: lakefs_sdk.ApiClient, repo: str) -> None:
    refs = dumped(live, sdk, repo)
    copy = bare(live, sdk, repo)
    lakefs_sdk.InternalApi(sdk).restore_refs(copy, refs)
    restored(sdk, repo, copy)
    with pytest.raises(BadRequestException) as refused:
        lakefs_sdk.InternalApi(sdk).restore_refs(copy, refs)
    said = json.loads(refused.value.body)
    assert said == {"message": "can only restore into a bare repository"}


def test_refs_are_restored_by_a_task(live: Served, sdk: lakefs_sdk.ApiClient, repo: str) -> None:
    refs = dumped(live, sdk, repo)
    copy = bare(live, sdk, repo)
    api = lakefs_sdk.RepositoriesApi(sdk)
    task = api.restore_submit(copy, refs).id
    until(lambda: api.restore_status(copy, task).done, "the restore has ended")
    assert api.restore_status(copy, task).error is None
    restored(sdk, repo, copy)
    with pytest.raises(BadRequestException):
        api.restore_submit(repo, refs)
    for unknown in ("none", live.client.send("POST", f"/repositories/{copy}/dump").json["id"]):
        with pytest.raises(NotFoundException):
            api.restore_status(copy, unknown)


def test_a_dump_of_lakefs_moves_in_as_the_guide_says(live: Served, client: Client) -> None:
    """The steps of docs/how-to/leaving-lakefs.md, on the namespace that lakeFS has used."""
    expected = json.loads((LAKEFS / "expected.json").read_text())
    blocks = live.embedded.ports.blocks
    blocks.put(
        "local://sales/x/_lakefs/dummy", [b"this is dummy data - created by lakeFS to check"]
    )
    for path in (LAKEFS / "_lakefs").iterdir():
        blocks.put(f"local://sales/x/_lakefs/{path.name}", [path.read_bytes()])
    body = {"name": "sales", "storage_namespace": "local://sales/x", "default_branch": "main"}
    assert client.send("POST", "/repositories", body=body).status == 400
    assert client.send("POST", "/repositories", {"bare": "true"}, body=body).status == 201
    where = "/repositories/sales/restore"
    task = client.send("POST", where, body=expected["refs_dump"]).json["id"]
    assert "error" not in serving.ended(client, where, task_id=task)
    for kind in ("branches", "tags"):
        listed = client.send("GET", f"/repositories/sales/{kind}").json["results"]
        assert {each["id"]: each["commit_id"] for each in listed} == expected[kind]
    for ref, lines in expected["listings"].items():
        page = client.send("GET", f"/repositories/sales/refs/{ref}/objects/ls", {"amount": "1000"})
        keys = ("path", "checksum", "size_bytes", "content_type")
        ours = [tuple(line.get(key) for key in keys) for line in page.json["results"]]
        assert ours == [tuple(line.get(key) for key in keys) for line in lines]


def test_a_task_says_why_a_dump_does_not_verify(
    live: Served, sdk: lakefs_sdk.ApiClient, repo: str
) -> None:
    refs = dumped(live, sdk, repo)
    copy = bare(live, sdk, repo)
    refs.tags_meta_range_id = refs.branches_meta_range_id
    api = lakefs_sdk.RepositoriesApi(sdk)
    task = api.restore_submit(copy, refs).id
    until(lambda: api.restore_status(copy, task).done, "the restore has ended")
    assert "does not verify" in (api.restore_status(copy, task).error or "")


def test_an_id_of_a_dump_is_no_path(client: Client, repo: str) -> None:
    body = dict.fromkeys(("commits", "tags", "branches"), "../../x")
    wrong = {f"{kind}_meta_range_id": text for kind, text in body.items()}
    for method, where in (("PUT", "refs/restore"), ("POST", "restore")):
        assert client.send(method, f"/repositories/{repo}/{where}", body=wrong).status == 400
