"""Every operation of the table × no, bad, denied and foreign credentials.

The requests are one for each operation of the table, so no operation can be without a rule.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from graveler.auth.credentials import NewCredential
from graveler.auth.permissions import Permission
from graveler.gateway.operation import Operation
from graveler.gateway.route import OPERATIONS
from tests.api.serving import ADMINISTRATOR, Reply
from tests.api.somebody import Somebody, somebody_of
from tests.gateway.serving import DOMAIN, Gateway, S3Client, code_of, exchange
from tests.waiting import until


@dataclass(frozen=True)
class Sample:
    """A request of an operation, on the bucket `{}`."""

    target: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


_COPY = {"x-amz-copy-source": "/{}/main/a"}
_COMPLETION = (
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part>"
    b"</CompleteMultipartUpload>"
)
_BATCH = b"<Delete><Object><Key>main/a</Key></Object></Delete>"
SAMPLES: dict[str, Sample] = {
    "ListBuckets": Sample("/"),
    "HeadBucket": Sample("/{}"),
    "GetBucketLocation": Sample("/{}", {"location": ""}),
    "GetBucketVersioning": Sample("/{}", {"versioning": ""}),
    "CreateBucket": Sample("/{}"),
    "ListObjects": Sample("/{}", {"prefix": "main/"}),
    "ListObjectsV2": Sample("/{}", {"prefix": "main/", "list-type": "2"}),
    "ListBranches": Sample("/{}", {"delimiter": "/"}),
    "ListBranchesV2": Sample("/{}", {"list-type": "2", "delimiter": "/"}),
    "GetObject": Sample("/{}/main/a"),
    "HeadObject": Sample("/{}/main/a"),
    "GetObjectAttributes": Sample(
        "/{}/main/a", {"attributes": ""}, {"x-amz-object-attributes": "ETag"}
    ),
    "GetObjectTagging": Sample("/{}/main/a", {"tagging": ""}),
    "DeleteObject": Sample("/{}/main/a"),
    "PutObject": Sample("/{}/main/new", body=b"new"),
    "CopyObject": Sample("/{}/main/new", headers=_COPY),
    "CreateMultipartUpload": Sample("/{}/main/new", {"uploads": ""}),
    "UploadPart": Sample("/{}/main/new", {"uploadId": "u", "partNumber": "1"}, body=b"part"),
    "UploadPartCopy": Sample("/{}/main/new", {"uploadId": "u", "partNumber": "1"}, _COPY),
    "CompleteMultipartUpload": Sample("/{}/main/new", {"uploadId": "u"}, body=_COMPLETION),
    "AbortMultipartUpload": Sample("/{}/main/new", {"uploadId": "u"}),
    "ListParts": Sample("/{}/main/a", {"uploadId": "u"}),
    "ListMultipartUploads": Sample("/{}", {"uploads": ""}),
    "DeleteObjects": Sample("/{}", {"delete": ""}, body=_BATCH),
}


class World(NamedTuple):
    """Two repositories with an object, and a caller whose rights a test chooses."""

    gateway: Gateway
    somebody: Somebody
    s3: S3Client  # of the caller
    repo: str
    other: str

    def ask(self, operation: Operation, repo: str, client: S3Client | None = None) -> Reply:
        sample, client = SAMPLES[operation.name], client or self.s3
        headers = {name: value.format(repo) for name, value in sample.headers.items()}
        return client.send(
            operation.method,
            sample.target.format(repo),
            sample.query,
            body=sample.body,
            headers=headers,
        )

    def is_unchanged(self, repo: str) -> bool:
        """Whether the object is still there, and no other."""
        query = {"prefix": "main/", "list-type": "2"}
        return b"<KeyCount>1</KeyCount>" in self.gateway.s3.send("GET", f"/{repo}", query).body


@pytest.fixture(scope="module")
def world(served_gateway: Gateway) -> Iterator[World]:
    live = served_gateway.live
    repos = live.fresh_repository(), live.fresh_repository()
    for repo in repos:
        assert live.client.upload(repo, "a", b"x").status == 201
    somebody = somebody_of(live)
    pair = base64.b64decode(somebody.client.authorization.removeprefix("Basic ")).decode()
    key_id, _, secret = pair.partition(":")
    s3 = S3Client(live.client.host, live.client.port, NewCredential(key_id, secret))
    yield World(served_gateway, somebody, s3, *repos)


BY_NAME = {operation.name: operation for operation in OPERATIONS}
each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=BY_NAME)


def test_every_operation_has_a_sample_that_runs_it(world: World) -> None:
    assert set(SAMPLES) == set(BY_NAME)
    metrics = world.gateway.live.service.metrics
    for operation in OPERATIONS:
        before = sum(operation.label in line for line in metrics.lines())
        world.ask(operation, "no-such-repository", world.gateway.s3)
        until(  # it is counted behind the answer
            lambda: sum(operation.label in line for line in metrics.lines()) >= max(before, 1),  # noqa: B023
            f"{operation.name} is counted",
        )


def _is_denied(operation: Operation, reply: Reply, code: str) -> None:
    assert reply.status == 403
    if operation.method == "HEAD":
        assert reply.body == b""
    else:
        assert code_of(reply) == code


@each_operation
def test_no_credentials_are_denied(world: World, operation: Operation) -> None:
    sample, client = SAMPLES[operation.name], world.s3
    target = f"http://x{sample.target.format(world.repo)}"
    if sample.query:
        target += "?" + "&".join(f"{name}={value}" for name, value in sample.query.items())
    headers = {"Host": DOMAIN, **sample.headers}
    reply = exchange(client.host, client.port, operation.method, target, headers, sample.body)
    _is_denied(operation, reply, "AccessDenied")
    assert world.is_unchanged(world.repo)


def test_a_login_of_the_api_is_no_signature(world: World) -> None:
    """A page on another origin makes a browser send requests with its cookie."""
    live, client = world.gateway.live, world.s3
    body = {
        "access_key_id": ADMINISTRATOR.access_key_id,
        "secret_access_key": ADMINISTRATOR.secret_access_key,
    }
    session = live.client.send("POST", "/auth/login", body=body).headers["set-cookie"]
    cookie = session.partition(";")[0]
    token = cookie.partition("=")[2]
    for login in (
        {"Cookie": cookie},
        {"Authorization": live.client.authorization},
        {"Authorization": f"Bearer {token}"},
    ):
        for method, target in (("GET", "/main/a"), ("PUT", "/main/a"), ("POST", "/?delete")):
            headers = {"Host": f"{world.repo}.{DOMAIN}", **login}
            url = f"http://x{target}"
            reply = exchange(client.host, client.port, method, url, headers, b"x")
            assert reply.status in (400, 403)
            assert code_of(reply) in ("AccessDenied", "InvalidRequest")
            assert "access-control-allow-origin" not in reply.headers
    assert world.is_unchanged(world.repo)


@each_operation
def test_an_unknown_key_is_denied(world: World, operation: Operation) -> None:
    unknown = S3Client(world.s3.host, world.s3.port, NewCredential("UNKNOWNKEY", "s" * 40))
    _is_denied(operation, world.ask(operation, world.repo, unknown), "InvalidAccessKeyId")
    assert world.is_unchanged(world.repo)


@each_operation
def test_a_wrong_secret_is_denied(world: World, operation: Operation) -> None:
    wrong = NewCredential(world.s3.key.access_key_id, "w" * 40)
    client = S3Client(world.s3.host, world.s3.port, wrong)
    reply = world.ask(operation, world.repo, client)
    _is_denied(operation, reply, "SignatureDoesNotMatch")
    assert world.is_unchanged(world.repo)


@each_operation
def test_a_caller_without_a_permission_is_denied(world: World, operation: Operation) -> None:
    for needed in operation.permissions:
        deny = (Permission(needed.action, "*"),)
        world.somebody.may(Permission("*", "*"), deny=deny)
        reply = world.ask(operation, world.repo)
        if operation.by_item:
            assert reply.status == 200
            assert b"<Code>AccessDenied</Code>" in reply.body
            world.somebody.may(deny=deny)  # nothing at all
            reply = world.ask(operation, world.repo)
        _is_denied(operation, reply, "AccessDenied")
        assert world.is_unchanged(world.repo)


@each_operation
def test_a_caller_of_another_repository_is_denied(world: World, operation: Operation) -> None:
    everything = f"arn:lakefs:fs:::repository/{world.other}"
    world.somebody.may(
        Permission("*", everything),
        Permission("*", f"{everything}/*"),
        Permission("fs:ListRepositories", "*"),
    )
    reply = world.ask(operation, world.repo)
    if operation.name == "ListBuckets":
        assert world.other.encode() in reply.body
        assert world.repo.encode() not in reply.body
        return
    unknown = world.ask(operation, "no-such-repository")
    for each in (reply, unknown):  # nothing tells that the one exists
        _is_denied(operation, each, "AccessDenied")
    assert world.is_unchanged(world.repo)


@pytest.mark.parametrize("name", ["CopyObject", "UploadPartCopy"])
def test_a_copy_tells_nothing_of_a_source_that_the_caller_may_not_read(
    world: World, name: str
) -> None:
    """The object, its absence and that of its repository have one answer."""
    operation, sample = BY_NAME[name], SAMPLES[name]
    mine = f"arn:lakefs:fs:::repository/{world.repo}"
    world.somebody.may(Permission("*", mine), Permission("*", f"{mine}/*"))

    def copy(source: str) -> Reply:
        target = sample.target.format(world.repo)
        headers = {"x-amz-copy-source": source}
        return world.s3.send(operation.method, target, sample.query, headers=headers)

    for repo in (world.other, "no-such-repository"):
        for ref, path in (("main", "a"), ("main", "none"), ("none", "a")):
            reply = copy(f"/{repo}/{ref}/{path}")
            _is_denied(operation, reply, "AccessDenied")
            needed = f"fs:ReadObject on arn:lakefs:fs:::repository/{repo}/object/{path}"
            message = ElementTree.fromstring(reply.body).findtext("Message")
            assert message == f"permission missing: {needed}"
    assert world.is_unchanged(world.repo)
    theirs = f"arn:lakefs:fs:::repository/{world.other}/object/a"
    world.somebody.may(Permission("*", f"{mine}/*"), Permission("fs:ReadObject", theirs))
    assert copy(f"/{world.other}/main/a").status != 403
    world.gateway.s3.send("DELETE", f"/{world.repo}/main/new")


@each_operation
def test_a_caller_with_exactly_the_permissions_is_served(
    world: World, operation: Operation
) -> None:
    path = "new" if SAMPLES[operation.name].target.endswith("/new") else "a"
    world.somebody.may(*(_filled(each, world.repo, path) for each in operation.permissions))
    reply = world.ask(operation, world.repo)
    assert reply.status != 403, reply.body
    assert b"AccessDenied" not in reply.body
    world.gateway.s3.send("DELETE", f"/{world.repo}/main/new")
    assert world.gateway.live.client.upload(world.repo, "a", b"x").status == 201


def _filled(permission: Permission, repo: str, path: str) -> Permission:
    resource = permission.resource.replace("{repository}", repo).replace("{path}", path)
    resource = resource.replace("{source_repository}", repo).replace("{source_path}", "a")
    return permission._replace(resource=resource)


def test_a_denied_key_of_a_batch_is_denied_alone_and_put_on_record(world: World) -> None:
    live = world.gateway.live
    live.client.upload(world.repo, "b", b"x")
    objects = f"arn:lakefs:fs:::repository/{world.repo}/object"
    world.somebody.may(Permission("fs:DeleteObject", f"{objects}/b"))
    body = _BATCH.replace(b"</Delete>", b"<Object><Key>main/b</Key></Object></Delete>")
    reply = world.s3.send("POST", f"/{world.repo}", {"delete": ""}, body=body)
    assert reply.status == 200
    assert b"<Deleted><Key>main/b</Key></Deleted>" in reply.body
    assert b"<Error><Key>main/a</Key><Code>AccessDenied</Code>" in reply.body
    assert world.is_unchanged(world.repo)
    lines = live.client.send("GET", "/audit", {"operation": "s3:DeleteObjects"}).json["results"]
    same = [line for line in lines if line["request_id"] == reply.headers["x-amz-request-id"]]
    assert {line["outcome"] for line in same} == {"done", "denied"}
    denied = next(line for line in same if line["outcome"] == "denied")
    assert denied["resources"] == [f"{objects}/a"]
    done = next(line for line in same if line["outcome"] == "done")
    assert done["resources"] == [f"{objects}/b"]


def test_a_sub_resource_that_is_not_served_needs_credentials_too(world: World) -> None:
    client = world.s3
    target = f"http://x/{world.repo}?policy"
    reply = exchange(client.host, client.port, "GET", target, {"Host": DOMAIN})
    assert (reply.status, code_of(reply)) == (403, "AccessDenied")
    world.somebody.may()
    for repo in (world.repo, "no-such-repository"):
        reply = client.send("GET", f"/{repo}", {"policy": ""})
        assert (reply.status, code_of(reply)) == (405, "MethodNotAllowed")


def test_changes_and_denials_are_put_on_record(world: World) -> None:
    world.somebody.may(Permission("fs:ReadObject", "*"))
    reply = world.s3.send("DELETE", f"/{world.repo}/main/a")
    assert reply.status == 403
    lines = world.gateway.live.client.send(
        "GET", "/audit", {"user": "somebody", "amount": "1000"}
    ).json["results"]
    line = next(each for each in lines if each["request_id"] == reply.headers["x-amz-request-id"])
    assert (line["operation"], line["outcome"]) == ("s3:DeleteObject", "denied")
    assert line["resources"] == [f"arn:lakefs:fs:::repository/{world.repo}/object/a"]
    assert line["missing"].startswith("fs:DeleteObject on ")


def test_a_flat_listing_needs_two_permissions(world: World) -> None:
    arn = f"arn:lakefs:fs:::repository/{world.repo}"
    branches, objects = (Permission(f"fs:List{what}", arn) for what in ("Branches", "Objects"))
    for permission in (branches, objects):
        world.somebody.may(permission)
        reply = world.s3.send("GET", f"/{world.repo}", {"list-type": "2"})
        assert (reply.status, code_of(reply)) == (403, "AccessDenied")
    world.somebody.may(branches, objects)
    reply = world.s3.send("GET", f"/{world.repo}", {"list-type": "2"})
    assert b"<Key>main/a</Key>" in reply.body


@pytest.mark.parametrize("body", [b"", b"no XML", b"<Delete/>", _BATCH])
@pytest.mark.parametrize("denies", [False, True])
def test_a_batch_tells_a_stranger_nothing_whatever_its_body_is(
    world: World, body: bytes, denies: bool
) -> None:
    """Rights come before the body."""
    mine = f"arn:lakefs:fs:::repository/{world.other}"
    if denies:
        world.somebody.may_all_but(
            *(f"arn:lakefs:fs:::repository/{world.repo}{end}" for end in ("", "/*"))
        )
    else:
        world.somebody.may(Permission("*", mine), Permission("*", f"{mine}/*"))
    replies = [
        world.s3.send("POST", f"/{repo}", {"delete": ""}, body=body)
        for repo in (world.repo, *(() if denies else ("no-such-repository",)))
    ]
    for reply in replies:
        assert (reply.status, code_of(reply)) == (403, "AccessDenied")
        message = ElementTree.fromstring(reply.body).findtext("Message", "")
        assert message.startswith("permission missing: fs:ReadRepository on ")
    assert world.is_unchanged(world.repo)


def test_a_caller_that_may_delete_some_objects_is_told_what_is_wrong(world: World) -> None:
    objects = f"arn:lakefs:fs:::repository/{world.repo}/object"
    world.somebody.may(Permission("fs:DeleteObject", f"{objects}/tmp/*"))
    reply = world.s3.send("POST", f"/{world.repo}", {"delete": ""}, body=b"no XML")
    assert (reply.status, code_of(reply)) == (400, "MalformedXML")
