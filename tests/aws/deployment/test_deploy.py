"""The stack, deployed by stock SAM: a client's story through HTTP API, Lambda, DynamoDB and S3."""

import json
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import lakefs
import pytest
from lakefs.client import Client
from lakefs.exceptions import ServerException

from scripts import deploy
from tests.aws.deployment.conftest import LANDING, S3_ENDPOINT, TARGET, Stack
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.xdist_group("stack")

LARGE = b"0123456789abcdef" * (5 << 16)  # 5 MiB: more than passes through a function


class _Stay(urllib.request.HTTPRedirectHandler):
    """Does not follow."""

    def redirect_request(self, *_: object) -> None:
        return None


def ask(stack: Stack, path: str, method: str = "GET", body: bytes = b"") -> tuple[int, bytes, str]:
    """Status, body and Location of one request that follows no redirect."""
    token = b64encode(f"{stack.access_key_id}:{stack.secret_access_key}".encode()).decode()
    headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(stack.url + path, body or None, headers, method=method)
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=60) as answer:
            return answer.status, answer.read(), ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers.get("Location", "")


@pytest.fixture(scope="module")
def repo(stack: Stack, client: Client) -> lakefs.Repository:
    lake = lakefs.Repository("lake", client=client)
    return lake.create(storage_namespace=f"{stack.namespace}/lake")


def test_the_story_of_a_lake(repo: lakefs.Repository) -> None:
    main = repo.branch("main")
    odd = "a b/c+d?é%2F#.txt"
    main.object(odd).upload(data=b"first", content_type="text/plain", pre_sign=False)
    first = main.commit("first").get_commit()
    feature = repo.branch("feature").create("main")
    feature.object("new").upload(data=b"new", pre_sign=False)
    feature.object(odd).delete()
    feature.commit("second")
    changed = sorted((each.type, each.path) for each in main.diff(other_ref="feature"))
    assert changed == [("added", "new"), ("removed", odd)]
    feature.merge_into(main)
    assert [each.path for each in main.objects()] == ["new"]
    assert repo.ref(first.id).object(odd).reader(mode="r", pre_sign=False).read() == "first"
    assert [each.message for each in main.log()][1:] == ["second", "first", "Repository created"]


def test_large_objects_go_by_presigned_urls(client: Client, repo: lakefs.Repository) -> None:
    assert client.storage_config.pre_sign_support
    main = repo.branch("main")
    written = main.object("large").upload(data=LARGE)
    assert "large" in [each.path for each in main.uncommitted()]
    assert written.reader(mode="rb", pre_sign=True).read() == LARGE
    assert written.reader(mode="rb", pre_sign=False).read() == LARGE  # through a redirect


def test_what_is_too_large_for_a_function_is_sent_elsewhere(
    stack: Stack, repo: lakefs.Repository
) -> None:
    repo.branch("main").object("elsewhere").upload(data=LARGE)
    status, _, location = ask(stack, "/repositories/lake/refs/main/objects?path=elsewhere")
    assert status == 302
    assert "X-Amz-Algorithm=AWS4-HMAC-SHA256" in location
    with pytest.raises(ServerException, match="presign") as caught:
        repo.branch("main").object("refused").upload(data=LARGE, pre_sign=False)
    assert caught.value.status_code == 413


def test_the_first_credentials_are_made_by_the_deployment(stack: Stack) -> None:
    status, body, _ = ask(stack, "/setup_lakefs")
    assert (status, json.loads(body)["state"]) == (200, "initialized")
    status, _, _ = ask(stack, "/setup_lakefs", "POST", b'{"username":"mallory"}')
    assert status == 409
    wrong = stack._replace(secret_access_key="x" * 40)
    assert ask(wrong, "/repositories")[0] == 401
    assert ask(stack, "/repositories")[0] == 200


def test_s3_clients_are_told_which_endpoint_serves_them(stack: Stack) -> None:
    headers = {"Authorization": "AWS key:signature"}
    request = urllib.request.Request(stack.url + "/repositories", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=60)
    with caught.value as answer:
        assert answer.code == 501
        error = ElementTree.fromstring(answer.read())
        assert (error.tag, error.findtext("Code")) == ("Error", "NotImplemented")
        assert error.findtext("Message", "").endswith(f" {S3_ENDPOINT}")


def test_no_other_bucket_is_touched(client: Client) -> None:
    with pytest.raises(ServerException):
        lakefs.Repository("other", client=client).create(storage_namespace="s3://another-bucket/x")


def test_the_janitor_makes_its_round_and_orders_collections(
    stack: Stack, repo: lakefs.Repository
) -> None:
    """The rule, the janitor, the queue of jobs, the worker; then one by hand, and a dry one."""
    rules = {"default_retention_days": 7, "branches": []}
    where = "/repositories/lake/settings/gc_rules"
    assert ask(stack, where, "PUT", json.dumps(rules).encode())[0] == 204
    for _ in range(2):
        answer = stack.aws("lambda").invoke(FunctionName="lake-janitor", Payload=b"{}")
        assert "FunctionError" not in answer, answer["Payload"].read()
    told = []
    for body in (b'{"dry_run": false}', b"{}"):
        status, found, _ = ask(stack, "/repositories/lake/gc/runs", "POST", body)
        assert status == 202, found
        told.append(ended(stack, f"/repositories/lake/gc/runs/{json.loads(found)['id']}"))
    assert [each["dry_run"] for each in told] == [False, True]
    assert not any("error" in each for each in told), told
    folder = told[1]["candidates"]
    assert folder.startswith(f"{stack.namespace}/lake/_graveler/gc/dry-")
    assert ask(stack, where, "DELETE")[0] == 204


def test_refs_are_dumped_by_the_worker(stack: Stack, repo: lakefs.Repository) -> None:
    status, found, _ = ask(stack, "/repositories/lake/dump", "POST")
    assert status == 202, found
    done = ended(stack, f"/repositories/lake/dump?task_id={json.loads(found)['id']}")
    status, body, _ = ask(stack, "/repositories/lake/refs/dump", "PUT")
    assert status == 201 and json.loads(body) == done["refs"], (body, done)
    kept = stack.aws("s3").list_objects_v2(
        Bucket=stack.told["Bucket"], Prefix="lake/_graveler/dumps/"
    )
    assert kept["KeyCount"] == 2


def ended(stack: Stack, where: str) -> Any:
    """What a job says once it is done."""
    said: list[Any] = []

    def done() -> bool:
        status, body, _ = ask(stack, where)
        if status == 429:
            return False
        assert status == 200, body
        said.append(json.loads(body))
        return bool(said[-1]["done"])

    until(done, "done")
    return said[-1]


def test_old_versions_are_deleted_and_the_live_one_stays(stack: Stack) -> None:
    functions = stack.aws("lambda")
    for text in ("one", "two", "three"):
        functions.update_function_configuration(FunctionName="lake-api", Description=text)
        functions.publish_version(FunctionName="lake-api")
    assert deploy.prune(TARGET.stack, stack.engine) >= 1
    found = functions.list_versions_by_function(FunctionName="lake-api")["Versions"]
    left = {each["Version"] for each in found}
    live = functions.get_alias(FunctionName="lake-api", Name="live")["FunctionVersion"]
    assert live in left
    assert len(left - {"$LATEST", live}) == deploy.VERSIONS_KEPT
    assert ask(stack, "/repositories")[0] == 200


def test_what_lands_in_a_bucket_becomes_a_commit(stack: Stack, repo: lakefs.Repository) -> None:
    """S3, the queue, the function, its batch, the queue of jobs, the worker."""
    buckets = stack.aws("s3")
    buckets.create_bucket(Bucket=LANDING)
    rule = {"branch": "landed", "bucket": LANDING, "prefix": "in/", "marker": "_SUCCESS"}
    repo.branch("landed").create("main")
    status, body, _ = ask(
        stack, "/repositories/lake/events/rules", "POST", json.dumps(rule).encode()
    )
    assert status == 201, body
    told = {"QueueArn": stack.told["EventsQueueArn"], "Events": ["s3:ObjectCreated:*"]}
    buckets.put_bucket_notification_configuration(
        Bucket=LANDING, NotificationConfiguration={"QueueConfigurations": [told]}
    )
    names = [f"in/day=1/part {number}+é.csv" for number in range(12)]
    for name in names:
        buckets.put_object(Bucket=LANDING, Key=name, Body=name.encode())
    until(lambda: len(list(repo.branch("landed").uncommitted())) == len(names), "staged")
    buckets.put_object(Bucket=LANDING, Key="in/day=1/_SUCCESS", Body=b"")
    until(lambda: not list(repo.branch("landed").uncommitted()), "committed")
    landed = repo.ref("landed@")
    found = {each.path for each in landed.objects(prefix="in/")}
    assert found == {*names, "in/day=1/_SUCCESS"}
    assert landed.object(names[0]).reader(mode="r").read() == names[0]


def until(done: Callable[[], bool], what: str) -> None:
    """Wait for what other processes do.  The engine runs few functions at once: while it has no
    room for the API's, it says so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if done():
                return
        except ServerException as error:
            assert error.status_code == 429, error
        assert time.monotonic() < end, f"not {what} in time"
        time.sleep(0.2)
