"""Dumps of refs through the API, by the unmodified client of lakeFS."""

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import NotFoundException
from lakefs_sdk.models import RefsDump, RepositoryDumpStatus

from graveler import wire_pb2 as pb
from graveler.framing import body_of
from tests.api.serving import Client
from tests.committed.files import contents, opened
from tests.waiting import until


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
    assert client.send("PUT", f"/repositories/{repo}/refs/restore").status == 404
