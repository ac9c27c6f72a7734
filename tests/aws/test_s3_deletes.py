"""Many deletions cost few requests on S3, bring nothing back, and lose no failure."""

import http.client
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from graveler.block.adapter import Target
from graveler.block.retry import retrying_blocks
from graveler.block.s3 import S3Blocks
from graveler.core.aws import AwsSession, Client
from graveler.core.clock import SystemClock
from graveler.core.errors import NotFound, OutcomeUnknown, Unavailable, Unsupported
from graveler.core.requests import RetryPolicy
from tests.aws.buckets import create_bucket, keep_versions
from tests.aws.conftest import PATIENT, PATIENT_S3, local
from tests.fault_proxy import (
    Fault,
    FaultProxy,
    Forward,
    Reply,
    Request,
    fault_proxy,
    lost_answer,
    lost_request,
)
from tests.support.block_clauses import content

LIST, DELETE = "GET", "POST"


class Wire:
    """The proxy, and what deletions asked for that came through it, in order."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.deleted: list[list[str]] = []

    def look(self, request: Request, forward: Forward) -> Reply | None:
        """A fault that only looks."""
        self.deleted.append(re.findall(r"<Key>(.*?)</Key>", request.body.decode()))
        return forward(request)

    def said_no(self, code: str, *keys: str) -> Fault:
        """All but these keys are deleted; of these the answer says `code`."""

        def answer(request: Request, forward: Forward) -> Reply | None:
            body, errors = request.body.decode(), ""
            for key in keys:
                body, gone = re.subn(
                    rf"<Object><Key>{key}</Key>.*?</Object>|<Object><VersionId>[^<]*</VersionId>"
                    rf"<Key>{key}</Key></Object>",
                    "",
                    body,
                )
                assert gone, "the key is not among those to be deleted"
                errors += f"<Error><Key>{key}</Key><Code>{code}</Code><Message>no</Message></Error>"
            self.deleted.append(re.findall(r"<Key>(.*?)</Key>", body))
            if self.deleted[-1]:
                headers = {
                    name: value
                    for name, value in request.headers.items()
                    if not name.lower().startswith(("content-md5", "x-amz-checksum"))
                    and name.lower() != "content-length"
                }
                done = forward(request._replace(body=body.encode(), headers=headers))
                assert done.status == 200 and b"<Error>" not in done.body
            said = f"<?xml version='1.0'?><DeleteResult>{errors}</DeleteResult>"
            return Reply(200, {"content-type": "application/xml"}, said.encode())

        return answer


@pytest.fixture(scope="module")
def switch(engine: str) -> Iterator[FaultProxy]:
    with fault_proxy(engine) as proxy:
        yield proxy


@pytest.fixture
def wire(switch: FaultProxy) -> Iterator[Wire]:
    switch.operations.clear()
    yield Wire(switch)
    assert switch.pending() == 0, "the test planned a fault that nothing met"


@pytest.fixture
def bucket(session: AwsSession, fresh_name: Callable[[], str]) -> str:
    name = fresh_name()
    create_bucket(session, name)
    return name


@pytest.fixture
def direct(session: AwsSession, bucket: str) -> S3Blocks:
    """What is really there."""
    return S3Blocks(session, SystemClock(), [bucket], PATIENT_S3)


@pytest.fixture
def far(switch: FaultProxy, bucket: str) -> S3Blocks:
    return S3Blocks(AwsSession(local(switch.url)), SystemClock(), [bucket], PATIENT_S3)


@pytest.fixture
def client(session: AwsSession) -> Client:
    return session.client("s3", PATIENT, {"s3": {"addressing_style": "path"}})


def stored(blocks: S3Blocks, bucket: str, *keys: str) -> list[Target]:
    """New objects, to be deleted by version."""
    return [
        Target(where, blocks.put(where, [b"x"]).version)
        for where in (f"s3://{bucket}/{key}" for key in keys)
    ]


def stored_fast(engine: str, bucket: str, *keys: str) -> list[Target]:
    """The same for thousands: the engine takes unsigned requests, which cost a third."""
    made = []
    with closing(http.client.HTTPConnection(urlsplit(engine).netloc)) as connection:
        for key in keys:
            connection.request("PUT", f"/{bucket}/{key}", b"x")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            made.append(Target(f"s3://{bucket}/{key}", answer.headers["x-amz-version-id"]))
    return made


def versions(client: Client, bucket: str) -> list[str]:
    """The keys of all versions that are left."""
    pages = client.get_paginator("list_object_versions").paginate(Bucket=bucket)
    return sorted(each["Key"] for page in pages for each in page.get("Versions", ()))


def test_a_thousand_cost_one_list_and_one_deletion(
    engine: str, direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str, client: Client
) -> None:
    due = stored_fast(engine, bucket, *(f"data/{number:04}" for number in range(1_000)))
    kept = stored(direct, bucket, "data/", "data/1000", "e")
    wire.proxy.plan(wire.look, operation=DELETE)
    far.delete_all(due[::-1])
    assert wire.proxy.operations == [LIST, DELETE]
    assert len(wire.deleted[0]) == 1_000
    assert versions(client, bucket) == [target.address[len(f"s3://{bucket}/") :] for target in kept]
    wire.proxy.operations.clear()
    far.delete_all(due)
    assert wire.proxy.operations == [LIST]  # nothing is left of them


def test_without_versions_nothing_is_listed(
    direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str
) -> None:
    due = stored(direct, bucket, "a", "b", "c")
    far.delete_all([Target(each.address) for each in due])
    assert wire.proxy.operations == [DELETE]
    assert direct.list(f"s3://{bucket}/", "", 10).lines == ()


def test_what_lies_between_is_passed_over_and_far_apart_every_page_finds_one_at_least(
    engine: str, direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str, client: Client
) -> None:
    names = [f"m/{number:05}" for number in range(2_001)]
    every = stored_fast(engine, bucket, *names)
    due = stored(direct, bucket, "a", "b", "z1", "z2")
    far.delete_all(due)
    assert wire.proxy.operations == [LIST, LIST, DELETE]
    assert versions(client, bucket) == names
    wire.proxy.operations.clear()
    far.delete_all(every[::10])
    pages = wire.proxy.operations.count(LIST)
    assert wire.proxy.operations == [*[LIST] * pages, DELETE]
    assert 3 <= pages <= 3 + 8
    assert versions(client, bucket) == [name for at, name in enumerate(names) if at % 10]


def test_older_versions_go_first_and_none_comes_back(
    direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str, client: Client
) -> None:
    stored(direct, bucket, *["a"] * 3, *["b"] * 2)
    due = stored(direct, bucket, "a", "b", "c")
    newer = direct.put(f"s3://{bucket}/b", [b"newer"])
    wire.proxy.plan(wire.look, wire.look, operation=DELETE)
    far.delete_all(due)
    assert wire.proxy.operations == [LIST, DELETE, DELETE]
    assert [sorted(keys) for keys in wire.deleted] == [list("aaabb"), list("abc")]
    assert versions(client, bucket) == ["b"]
    assert direct.head(f"s3://{bucket}/b").version == newer.version
    assert content(direct, f"s3://{bucket}/b") == b"newer"


def test_more_versions_of_one_key_than_a_page_has(
    engine: str, direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str, client: Client
) -> None:
    stored_fast(engine, bucket, *["a"] * 1_050)
    due = stored(direct, bucket, "a", "b")
    far.delete_all(due)
    assert wire.proxy.operations == [LIST, LIST, DELETE, DELETE, DELETE]
    assert versions(client, bucket) == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [("AccessDenied", Unavailable), ("SlowDown", Unavailable), ("InternalError", OutcomeUnknown)],
)
def test_a_key_that_failed_is_told_and_the_others_are_gone(
    direct: S3Blocks,
    far: S3Blocks,
    wire: Wire,
    bucket: str,
    client: Client,
    code: str,
    kind: type[Unavailable],
) -> None:
    due = stored(direct, bucket, "a", "b", "c")
    wire.proxy.plan(wire.said_no(code, "b"), operation=DELETE)
    with pytest.raises(Unavailable, match=f"s3://{bucket}/b.*{code}") as raised:
        far.delete_all(due)
    assert type(raised.value) is kind
    assert versions(client, bucket) == ["b"]


def test_where_an_older_version_stays_the_newer_one_does_too(
    direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str, client: Client
) -> None:
    stored(direct, bucket, "a", "b")
    due = stored(direct, bucket, "a", "b", "c")
    wire.proxy.plan(wire.said_no("SlowDown", "b"), wire.look, operation=DELETE)
    with pytest.raises(Unavailable, match=f"s3://{bucket}/b"):
        far.delete_all(due)
    assert wire.deleted == [["a"], ["a", "c"]]
    assert versions(client, bucket) == ["b", "b"]
    assert direct.head(f"s3://{bucket}/b").version == due[1].version


def test_what_failed_is_sent_again_alone(
    direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str, client: Client
) -> None:
    due = stored(direct, bucket, "a", "b", "c", "d")
    wire.proxy.plan(wire.said_no("InternalError", "b", "d"), wire.look, operation=DELETE)
    retrying_blocks(far, SystemClock(), RetryPolicy(backoff_seconds=0.001)).delete_all(due)
    assert wire.deleted == [["a", "c"], ["b", "d"]]
    assert wire.proxy.operations == [LIST, DELETE] * 2
    assert versions(client, bucket) == []


def test_what_fails_for_ever_is_an_error(
    direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str, client: Client
) -> None:
    due = stored(direct, bucket, "a", "b")
    policy = RetryPolicy(attempts=3, backoff_seconds=0.001)
    wire.proxy.plan(*[wire.said_no("AccessDenied", "b")] * policy.attempts, operation=DELETE)
    with pytest.raises(Unavailable, match=f"s3://{bucket}/b"):
        retrying_blocks(far, SystemClock(), policy).delete_all(due)
    assert versions(client, bucket) == ["b"]


def test_what_is_gone_meanwhile_is_no_failure(
    direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str
) -> None:
    due = stored(direct, bucket, "a", "b")
    wire.proxy.plan(wire.said_no("NoSuchVersion", "b"), operation=DELETE)
    far.delete_all(due)
    direct.delete_all(due)


@pytest.mark.parametrize("fault", [lost_request, lost_answer])
def test_a_lost_answer_is_an_unknown_outcome_and_is_repeated(
    direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str, client: Client, fault: Fault
) -> None:
    due = stored(direct, bucket, "a", "b")
    wire.proxy.plan(fault, operation=DELETE)
    with pytest.raises(OutcomeUnknown):
        far.delete_all(due)
    retrying_blocks(far, SystemClock(), RetryPolicy(backoff_seconds=0.001)).delete_all(due)
    assert versions(client, bucket) == []


def test_buckets_are_kept_apart(
    session: AwsSession, fresh_name: Callable[[], str], client: Client
) -> None:
    names = [fresh_name() for _ in range(2)]
    for name in names:
        create_bucket(session, name)
    blocks = S3Blocks(session, SystemClock(), names, PATIENT_S3)
    one, other = (stored(blocks, name, "a", "b") for name in names)
    blocks.delete_all([one[0], other[1], Target(one[1].address, other[1].version)])
    assert [versions(client, name) for name in names] == [["b"], ["a"]]


def test_names_that_xml_cannot_hold_are_deleted_alone(
    direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str
) -> None:
    odd = f"s3://{bucket}/odd\x01name"
    direct.put(odd, [b"x"])
    plain = stored(direct, bucket, "p/a&b<c", "p/é")
    far.delete_all([Target(odd), *plain])
    assert wire.proxy.operations == ["DELETE", LIST, DELETE]
    for where in (odd, *(each.address for each in plain)):
        with pytest.raises(NotFound):
            direct.head(where)


def test_a_bucket_without_versions_deletes_by_none(
    direct: S3Blocks, far: S3Blocks, wire: Wire, bucket: str, session: AwsSession
) -> None:
    [kept] = stored(direct, bucket, "a")
    keep_versions(session, bucket, status="Suspended")
    with pytest.raises(Unsupported):
        far.delete_all([kept, Target(f"s3://{bucket}/b", "null")])
    assert wire.proxy.operations == [LIST]  # it asked whether versions are kept
    assert direct.head(kept.address).version == kept.version
