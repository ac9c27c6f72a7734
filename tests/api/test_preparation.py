"""Preparation of a collection, as lakeFS's Spark client asks for it, by the generated SDK."""

import lakefs_sdk
import pytest
from lakefs_sdk.exceptions import ApiException, BadRequestException, NotFoundException
from lakefs_sdk.models import (
    GarbageCollectionRule,
    GarbageCollectionRules,
    PrepareGCUncommittedRequest,
    PrepareGCUncommittedResponse,
)

from graveler import limits
from tests.api.serving import Client, Served
from tests.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:lakefs_sdk")

RULES = GarbageCollectionRules(
    default_retention_days=7, branches=[GarbageCollectionRule(branch_id="main", retention_days=30)]
)


@pytest.fixture
def internal(sdk: lakefs_sdk.ApiClient) -> lakefs_sdk.InternalApi:
    return lakefs_sdk.InternalApi(sdk)


def test_the_rules_have_two_paths(
    internal: lakefs_sdk.InternalApi, sdk: lakefs_sdk.ApiClient, repo: str
) -> None:
    repositories = lakefs_sdk.RepositoriesApi(sdk)
    with pytest.raises(NotFoundException):
        internal.internal_get_garbage_collection_rules(repo)
    internal.set_garbage_collection_rules_preflight(repo)
    internal.internal_set_garbage_collection_rules(repo, RULES)
    assert internal.internal_get_garbage_collection_rules(repo) == RULES
    assert repositories.get_gc_rules(repo) == RULES
    internal.internal_delete_garbage_collection_rules(repo)
    with pytest.raises(NotFoundException):
        repositories.get_gc_rules(repo)


def test_the_grace_period_is_longer_than_any_operation(internal: lakefs_sdk.InternalApi) -> None:
    config = internal.get_garbage_collection_config()
    assert config.grace_period == limits.collect_min_age_seconds


def test_commits_are_prepared_at_once_and_by_a_task(
    live: Served, internal: lakefs_sdk.InternalApi, repo: str
) -> None:
    with pytest.raises(NotFoundException):
        internal.prepare_garbage_collection_commits(repo)
    internal.internal_set_garbage_collection_rules(repo, RULES)
    assert live.client.upload(repo, "a", b"1").status == 201
    where = f"/repositories/{repo}/branches/main/commits"
    commit = live.client.send("POST", where, body={"message": "m"}).json
    at_once = internal.prepare_garbage_collection_commits(repo)
    task = internal.prepare_garbage_collection_commits_async(repo).id
    status = internal.prepare_garbage_collection_commits_status
    until(lambda: status(repo, task).completed, "the preparation has ended")
    result = status(repo, task).result
    assert result is not None and result.run_id != at_once.run_id
    blocks = live.embedded.ports.blocks
    for made in (at_once, result):
        text = b"".join(blocks.get(made.gc_commits_location).chunks).decode()
        line = f"{commit['id']},false,{commit['meta_range_id']}\n"
        assert text == f"commit_id,expired,metarange_id\n{line}"
        assert made.gc_addresses_location == f"local://{repo}/x/_lakefs/retention/gc/addresses/"
    for unknown in ("none", live.client.send("POST", f"/repositories/{repo}/dump").json["id"]):
        with pytest.raises(NotFoundException):
            status(repo, unknown)


def test_a_task_that_fails_says_why(internal: lakefs_sdk.InternalApi, repo: str) -> None:
    task = internal.prepare_garbage_collection_commits_async(repo).id
    status = internal.prepare_garbage_collection_commits_status
    until(lambda: status(repo, task).completed, "the preparation has ended")
    error = status(repo, task).error
    assert error is not None and "rule" in error.message


def prepared(internal: lakefs_sdk.InternalApi, repo: str) -> PrepareGCUncommittedResponse:
    """The last page of a run.  The first call has no body."""
    page = internal.prepare_garbage_collection_uncommitted(repo)
    while page.continuation_token:
        following = PrepareGCUncommittedRequest(continuation_token=page.continuation_token)
        page = internal.prepare_garbage_collection_uncommitted(
            repo, prepare_gc_uncommitted_request=following
        )
    return page


def test_uncommitted_changes_are_prepared_page_by_page(
    live: Served, internal: lakefs_sdk.InternalApi, repo: str
) -> None:
    assert prepared(internal, repo).gc_uncommitted_location == ""
    staged = live.client.upload(repo, "a", b"1").json["physical_address"]
    page = prepared(internal, repo)
    addresses = b""
    blocks = live.embedded.ports.blocks
    for line in blocks.list(page.gc_uncommitted_location, "", 10).lines:
        addresses += b"".join(blocks.get(line.address).chunks)
    assert staged.removeprefix(f"local://{repo}/x/").encode() in addresses


def test_wrong_tokens_and_bare_repositories(
    client: Client, internal: lakefs_sdk.InternalApi, repo: str
) -> None:
    with pytest.raises(BadRequestException):
        internal.prepare_garbage_collection_uncommitted(
            repo, prepare_gc_uncommitted_request=PrepareGCUncommittedRequest(continuation_token="x")
        )
    name = f"{repo}-bare"
    body = {"name": name, "storage_namespace": f"local://{name}/x"}
    assert client.send("POST", "/repositories", {"bare": "true"}, body=body).status == 201
    internal.internal_set_garbage_collection_rules(name, RULES)
    with pytest.raises(ApiException) as refused:
        internal.prepare_garbage_collection_commits(name)
    assert refused.value.status == 409
