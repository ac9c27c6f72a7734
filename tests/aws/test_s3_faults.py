"""What the S3 driver says when requests or answers are lost, refused or cut short."""

import threading
from collections.abc import Callable, Iterator, Mapping

import pytest

from graveler.block import s3_uploads
from graveler.block.adapter import CREATE, OVERWRITE, Mode, ObjectHead, Update
from graveler.block.address import split
from graveler.block.retry import retrying_blocks
from graveler.block.s3 import S3Blocks, S3Options
from graveler.block.s3_calls import S3Calls
from graveler.core.aws import AwsSession, CallPolicy
from graveler.core.clock import SystemClock
from graveler.core.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from graveler.core.requests import RetryPolicy
from tests.aws.buckets import create_bucket
from tests.aws.conftest import PATIENT_S3, local
from tests.fault_proxy import (
    Fault,
    FaultProxy,
    Forward,
    Reply,
    Request,
    cut,
    error_after,
    error_before,
    fault_proxy,
    lost_answer,
    lost_request,
    twice,
)
from tests.support.block_clauses import content
from tests.waiting import PATIENCE_SECONDS


def refused(status: int, code: str) -> Fault:
    """Not applied; answered in the form of S3's errors."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
    return lambda request, forward: Reply(
        status, {"content-type": "application/xml"}, body.encode()
    )


# The number of attempts counts, and not how long a busy machine takes for them.
PATIENT = RetryPolicy(deadline_seconds=PATIENCE_SECONDS, backoff_seconds=0.001)
SLOW_DOWN = refused(503, "SlowDown")
CONTENDED = refused(409, "ConditionalRequestConflict")
UNKNOWN: Mapping[str, Fault] = {
    "lost_answer": lost_answer,
    "error_after": error_after,
    "lost_request": lost_request,
    "error_before": error_before,
    "500": refused(500, "InternalError"),
}
APPLIED = ("lost_answer", "error_after")
TURNED_AWAY: Mapping[str, Fault] = {
    "slow_down": SLOW_DOWN,
    "contended": CONTENDED,
    "denied": refused(403, "AccessDenied"),
    "no_bucket": refused(404, "NoSuchBucket"),
}
FAULTS: Mapping[str, Fault] = {**UNKNOWN, **TURNED_AWAY}


@pytest.fixture(scope="module")
def switch(engine: str) -> Iterator[FaultProxy]:
    with fault_proxy(engine) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def bucket(session: AwsSession, fresh_name: Callable[[], str]) -> str:
    name = fresh_name()
    create_bucket(session, name)
    return name


@pytest.fixture
def address(bucket: str, fresh_name: Callable[[], str]) -> str:
    return f"s3://{bucket}/some/{fresh_name()}"


@pytest.fixture(scope="module")
def direct(session: AwsSession, bucket: str) -> S3Blocks:
    """What is really there."""
    return S3Blocks(session, SystemClock(), [bucket], PATIENT_S3)


@pytest.fixture(scope="module")
def far(switch: FaultProxy, bucket: str) -> S3Blocks:
    options = S3Options(parts=PATIENT)
    return S3Blocks(AwsSession(local(switch.url)), SystemClock(), [bucket], options)


@pytest.fixture
def proxy(switch: FaultProxy) -> Iterator[FaultProxy]:
    switch.operations.clear()
    yield switch
    assert switch.pending() == 0, "the test planned a fault that nothing met"


@pytest.fixture
def retrying(far: S3Blocks) -> S3Blocks:
    return retrying_blocks(far, SystemClock(), PATIENT)


def mode_of(direct: S3Blocks, address: str, name: str) -> Mode:
    """A condition that holds now."""
    return CREATE if name == "create" else Update(direct.put(address, [b"old"]).etag)


CONDITIONS = ("create", "update")


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("fault", UNKNOWN)
def test_b5_a_put_without_an_answer_is_unknown_and_sent_once(
    far: S3Blocks, direct: S3Blocks, proxy: FaultProxy, address: str, condition: str, fault: str
) -> None:
    mode = mode_of(direct, address, condition)
    proxy.plan(UNKNOWN[fault])
    with pytest.raises(OutcomeUnknown):
        far.put(address, [b"new"], mode)
    assert proxy.operations == ["PUT"]
    if fault in APPLIED:
        assert content(direct, address) == b"new"


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("fault", UNKNOWN)
def test_b5_a_put_of_ours_is_recognised(
    retrying: S3Blocks,
    direct: S3Blocks,
    proxy: FaultProxy,
    address: str,
    condition: str,
    fault: str,
) -> None:
    mode = mode_of(direct, address, condition)
    proxy.plan(UNKNOWN[fault])
    head = retrying.put(address, [b"new"], mode)
    assert content(direct, address) == b"new"
    assert head.version == direct.head(address).version


@pytest.mark.parametrize("condition", CONDITIONS)
def test_b2_a_put_that_something_sends_twice_is_not_declined(
    retrying: S3Blocks, proxy: FaultProxy, direct: S3Blocks, address: str, condition: str
) -> None:
    """The second sending fails by the first; with the answer lost too, it is recognised."""
    mode = mode_of(direct, address, condition)
    proxy.plan(lambda request, forward: (twice(request, forward), None)[1])
    retrying.put(address, [b"new"], mode)
    assert content(direct, address) == b"new"


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("fault", TURNED_AWAY)
def test_a_put_that_was_turned_away_did_nothing(
    far: S3Blocks, direct: S3Blocks, proxy: FaultProxy, address: str, condition: str, fault: str
) -> None:
    mode = mode_of(direct, address, condition)
    proxy.plan(TURNED_AWAY[fault])
    with pytest.raises(Unavailable) as raised:
        far.put(address, [b"new"], mode)
    assert not isinstance(raised.value, OutcomeUnknown)
    assert proxy.operations == ["PUT"]


@pytest.mark.parametrize("fault", ["slow_down", "contended"])
def test_a_busy_or_contended_put_is_tried_again(
    retrying: S3Blocks, direct: S3Blocks, proxy: FaultProxy, address: str, fault: str
) -> None:
    proxy.plan(TURNED_AWAY[fault], TURNED_AWAY[fault])
    retrying.put(address, [b"new"], CREATE)
    assert proxy.operations == ["PUT"] * 3
    assert content(direct, address) == b"new"


def test_false_conditions_are_told_apart(far: S3Blocks, proxy: FaultProxy, address: str) -> None:
    with pytest.raises(PreconditionFailed):
        far.put(address, [b"new"], Update("0" * 32))  # answered 404
    far.put(address, [b"old"])
    with pytest.raises(PreconditionFailed):
        far.put(address, [b"new"], Update("0" * 32))  # answered 412
    with pytest.raises(AlreadyExists):
        far.put(address, [b"new"], CREATE)


def test_no_name_of_an_object_is_taken_for_an_error(far: S3Blocks, address: str) -> None:
    with pytest.raises(PreconditionFailed):
        far.put(f"{address}/NoSuchUpload", [b"new"], Update("0" * 32))


READS: Mapping[str, Callable[[S3Blocks, str], bytes]] = {
    "get": lambda blocks, address: content(blocks, address),
    "read": lambda blocks, address: blocks.read(address, -200, 150),
    "head": lambda blocks, address: b"%d" % blocks.head(address).size,
}


@pytest.mark.parametrize("verb", READS)
@pytest.mark.parametrize("fault", [*UNKNOWN, "slow_down", "denied"])
def test_reads_fail_as_unavailable_and_can_be_repeated(
    retrying: S3Blocks,
    direct: S3Blocks,
    proxy: FaultProxy,
    address: str,
    verb: str,
    fault: str,
) -> None:
    direct.put(address, [b"0123456789" * 50])
    planned = FAULTS[fault]
    proxy.plan(*[planned] * 4)
    with pytest.raises(Unavailable) as raised:
        READS[verb](retrying, address)
    assert not isinstance(raised.value, OutcomeUnknown)
    assert len(proxy.operations) == 4
    proxy.plan(planned)
    assert READS[verb](retrying, address) == READS[verb](direct, address)


def test_b1_a_body_that_breaks_off_is_never_short(
    far: S3Blocks, direct: S3Blocks, proxy: FaultProxy, address: str
) -> None:
    direct.put(address, [b"0123456789" * 100])
    proxy.plan(cut, cut)
    with pytest.raises(Unavailable):
        content(far, address)
    with pytest.raises(Unavailable):
        far.read(address, 5, 900)


def test_a_missing_bucket_is_not_a_missing_object(
    far: S3Blocks, proxy: FaultProxy, address: str
) -> None:
    with pytest.raises(NotFound):
        far.read(address, 0, 5)
    proxy.plan(refused(404, "NoSuchBucket"))
    with pytest.raises(Unavailable):
        far.read(address, 0, 5)


LONG = bytes(1 << 20)
LONG_COUNT = 20  # three parts
PASSING = {
    "503": SLOW_DOWN,
    "500": UNKNOWN["500"],
    "reset": lost_request,
    "reset_after": lost_answer,
    "409": CONTENDED,
}
LONG_PUT = ["POST", "PUT", "PUT", "PUT", "POST"]  # create, parts, complete
LAST = len(LONG_PUT) - 1
# Only the last request carries the condition.
CONDITION_AT = [*(("create", at) for at in range(LAST + 1)), ("update", LAST), ("none", LAST)]


def unharmed(request: Request, forward: Forward) -> Reply | None:
    return forward(request)


@pytest.mark.parametrize(("condition", "at"), CONDITION_AT)
@pytest.mark.parametrize("fault", PASSING)
def test_one_failure_at_any_request_of_a_long_put_is_survived(
    retrying: S3Blocks,
    direct: S3Blocks,
    proxy: FaultProxy,
    address: str,
    condition: str,
    at: int,
    fault: str,
) -> None:
    mode = OVERWRITE if condition == "none" else mode_of(direct, address, condition)
    proxy.plan(*[unharmed] * at, PASSING[fault])
    head = retrying.put(address, (LONG for _ in range(LONG_COUNT)), mode)
    assert proxy.operations[:at] == LONG_PUT[:at]
    assert head.size == direct.head(address).size == len(LONG) * LONG_COUNT
    if at < LAST:  # a part is sent again by itself
        assert len(proxy.operations) == len(LONG_PUT) + 1


def test_a_part_that_never_goes_through_is_given_up(
    far: S3Blocks, proxy: FaultProxy, address: str
) -> None:
    proxy.plan(*[SLOW_DOWN] * 4, operation="PUT")
    with pytest.raises(Unavailable):
        far.put(address, (LONG for _ in range(LONG_COUNT)), CREATE)
    assert proxy.operations == ["POST", *["PUT"] * 4, "DELETE"]


@pytest.mark.parametrize("fault", ["slow_down", "lost_request"])
def test_an_upload_that_fails_leaves_no_parts(
    far: S3Blocks,
    direct: S3Blocks,
    session: AwsSession,
    proxy: FaultProxy,
    address: str,
    fault: str,
) -> None:
    proxy.plan(*[FAULTS[fault]] * 4, operation="PUT")
    with pytest.raises(Unavailable):
        far.put(address, (bytes(1 << 20) for _ in range(20)), CREATE)
    with pytest.raises(NotFound):
        direct.head(address)
    client = session.client("s3", options={"s3": {"addressing_style": "path"}})
    bucket, key = address.removeprefix("s3://").split("/", 1)
    assert not client.list_multipart_uploads(Bucket=bucket, Prefix=key).get("Uploads")
    client.close()


# ---- uploads of clients --------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [*UNKNOWN, "slow_down"])
def test_one_failure_at_a_part_is_survived(
    retrying: S3Blocks, direct: S3Blocks, proxy: FaultProxy, address: str, fault: str
) -> None:
    """A part that arrives as a stream is sent again, whole."""
    upload = retrying.create_upload(address)
    proxy.operations.clear()
    proxy.plan(FAULTS[fault], operation="PUT")
    part = retrying.put_part(address, upload, 1, iter([b"one ", b"part"]))
    assert proxy.operations == ["PUT", "PUT"]
    assert retrying.complete_upload(address, upload, (part,)).size == 8
    assert content(direct, address) == b"one part"


@pytest.mark.parametrize("fault", [*UNKNOWN, "slow_down", "contended"])
def test_a_completion_that_fails_is_repeated_only_if_nothing_happened(
    retrying: S3Blocks, direct: S3Blocks, proxy: FaultProxy, address: str, fault: str
) -> None:
    """The same parts again would be another version of the object."""
    upload = retrying.create_upload(address)
    part = retrying.put_part(address, upload, 1, [b"part"])
    proxy.operations.clear()
    proxy.plan(FAULTS[fault], operation="POST")
    if fault in UNKNOWN:
        with pytest.raises(OutcomeUnknown):
            retrying.complete_upload(address, upload, (part,))
        assert proxy.operations == ["POST"]
    else:
        assert retrying.complete_upload(address, upload, (part,)).size == 4
        assert proxy.operations == ["POST", "POST", "HEAD"]
    if fault in APPLIED or fault not in UNKNOWN:
        assert content(direct, address) == b"part"


# ---- copies --------------------------------------------------------------------------------------


LENGTHS = s3_uploads.Lengths(8 << 20, 5 << 20)  # of what is copied in one request, and in parts


def copy_in_parts(url: str, source: str, target: str, found: ObjectHead) -> ObjectHead:
    calls = S3Calls(AwsSession(local(url)), CallPolicy(read_seconds=20))
    resending = s3_uploads.Resending(SystemClock(), PATIENT)
    return s3_uploads.copy(calls, split(source), found, split(target), resending, LENGTHS)


def test_parts_are_copied_at_the_same_time(
    direct: S3Blocks, proxy: FaultProxy, address: str
) -> None:
    """Each of the three waits until all have come."""
    together = threading.Barrier(3)

    def waits(request: Request, forward: Forward) -> Reply | None:
        together.wait(timeout=30)
        return forward(request)

    found = direct.put(address, [LONG] * 12)
    proxy.plan(waits, waits, waits, operation="PUT")
    head = copy_in_parts(proxy.url, address, f"{address}-copy", found)
    assert head.size == 12 << 20 and content(direct, f"{address}-copy") == LONG * 12


@pytest.mark.parametrize("fault", PASSING)
def test_one_failure_of_a_copied_part_is_survived(
    direct: S3Blocks, proxy: FaultProxy, address: str, fault: str
) -> None:
    found = direct.put(address, [LONG] * 12)
    proxy.plan(PASSING[fault], operation="PUT")
    assert copy_in_parts(proxy.url, address, f"{address}-copy", found).size == 12 << 20
    assert proxy.operations.count("PUT") == 4


def test_a_copy_that_is_stopped_sends_no_more_parts_and_drops_its_upload(
    direct: S3Blocks, proxy: FaultProxy, address: str
) -> None:
    class Stopped(Exception):
        pass

    beats = list[int]()

    def beat() -> None:
        beats.append(1)
        if len(beats) == 2:
            raise Stopped

    found = direct.put(address, [LONG] * 12)
    calls = S3Calls(AwsSession(local(proxy.url)), CallPolicy(read_seconds=20))
    resending = s3_uploads.Resending(SystemClock(), RetryPolicy())
    target = split(f"{address}-copy")
    with pytest.raises(Stopped):
        s3_uploads.copy(calls, split(address), found, target, resending, LENGTHS, beat=beat)
    with pytest.raises(NotFound):
        direct.head(target.address)
    assert proxy.operations.count("DELETE") == 1
    beats = [1, 1]
    s3_uploads.copy(calls, split(address), found, target, resending, LENGTHS, beat=beat)
    assert len(beats) == 5  # one of each part


def test_a_copy_does_not_ask_for_the_tags_of_its_source(
    far: S3Blocks, direct: S3Blocks, proxy: FaultProxy, address: str
) -> None:
    said: list[str] = []

    def heard(request: Request, forward: Forward) -> Reply | None:
        said.append(request.headers.get("x-amz-tagging-directive", ""))
        return forward(request)

    direct.put(address, [b"x"])
    proxy.plan(heard, operation="PUT")
    far.copy(address, f"{address}-copy")
    assert said == ["REPLACE"]
