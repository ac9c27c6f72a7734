"""What the S3 driver sends of a body that comes in chunks, and the memory that it takes."""

import hashlib
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from graveler.block import s3_uploads
from graveler.block.adapter import OVERWRITE, ObjectHead
from graveler.block.address import split
from graveler.block.s3_calls import Call
from graveler.core.clock import SystemClock
from graveler.core.requests import RetryPolicy

MIB = 1024 * 1024
ANSWER = {
    "UploadId": "u",
    "ETag": '"e"',
    "ResponseMetadata": {"HTTPHeaders": {"date": "Mon, 23 Nov 2026 10:00:00 GMT"}},
}


class Sent:
    """Answers each request, and keeps the verbs and the lengths of the bodies, and their first and
    last bytes."""

    def __init__(self) -> None:
        self.verbs: list[str] = []
        self.lengths: list[int] = []
        self.ends: list[bytes] = []

    def send(self, call: Call, **arguments: Any) -> dict[str, Any]:
        self.verbs.append(call.verb)
        if "Body" in arguments:
            body = arguments["Body"]
            self.lengths.append(len(body))
            self.ends.append(body[:1] + body[-1:])
        return ANSWER


def put(sent: Any, body: Iterator[bytes]) -> ObjectHead:
    resending = s3_uploads.Resending(SystemClock(), RetryPolicy(attempts=1))
    return s3_uploads.put(sent, split("s3://lake/a"), body, OVERWRITE, "", resending)


@pytest.mark.parametrize(
    ("chunks", "lengths"),
    [
        ([], [0]),
        ([1], [1]),
        ([8 * MIB], [8 * MIB]),
        ([5 * MIB, 3 * MIB], [8 * MIB]),
        ([8 * MIB, 1], [8 * MIB, 1]),
        ([8 * MIB + 1], [8 * MIB, 1]),
        ([17 * MIB], [8 * MIB, 8 * MIB, MIB]),
        ([5 * MIB, 5 * MIB, 6 * MIB], [8 * MIB, 8 * MIB]),
    ],
)
def test_a_body_is_sent_whole_or_in_parts_of_8_mib(chunks: list[int], lengths: list[int]) -> None:
    sent = Sent()
    head = put(sent, (bytes(length) for length in chunks))
    assert head.size == sum(chunks) == sum(sent.lengths)
    assert sent.lengths == lengths
    in_parts = len(lengths) > 1
    assert (sent.verbs == ["put_object"]) is not in_parts
    assert ("complete_multipart_upload" in sent.verbs) is in_parts


def test_the_bytes_stay_in_order_wherever_chunks_and_parts_end() -> None:
    sent = Sent()
    put(sent, (bytes([number]) * (3 * MIB) for number in range(7)))
    assert sent.ends == [bytes((0, 2)), bytes((2, 5)), bytes((5, 6))]


def test_what_is_sent_is_the_body() -> None:
    """All parts of one size are in the same memory, which holds the next part after each answer."""
    chance, digests = random.Random(7), [hashlib.sha256(), hashlib.sha256()]

    class Hashed(Sent):
        def send(self, call: Call, **arguments: Any) -> dict[str, Any]:
            digests[0].update(arguments.get("Body", b""))
            return super().send(call, **arguments)

    def chunks() -> Iterator[bytes]:
        for _ in range(60):
            chunk = chance.randbytes(chance.choice((1, 700, MIB // 2, MIB + 1)))
            digests[1].update(chunk)
            yield chunk

    sent = Hashed()
    head = put(sent, chunks())
    assert head.size == sum(sent.lengths) > 3 * s3_uploads.PART_LENGTH
    assert digests[0].digest() == digests[1].digest()


def test_a_long_body_takes_the_memory_of_one_part_and_four_chunks() -> None:
    sent = Sent()
    tracemalloc.start()
    try:
        put(sent, (bytes(MIB) for _ in range(60)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sent.lengths) == 60 * MIB
    assert peak < s3_uploads.PART_LENGTH + 4 * MIB


def test_a_body_in_tiny_chunks_takes_no_more_than_its_length() -> None:
    """A chunk is an object of its own, which costs far more memory than its few bytes."""
    sent, count = Sent(), 60_000
    tracemalloc.start()
    try:
        put(sent, (bytes(4) for _ in range(count)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sent.lengths == [4 * count]
    assert peak < MIB
