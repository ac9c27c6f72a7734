"""Marks of what a job has finished, so that it can be watched, and taken up where it ended.

    <namespace>/_graveler/jobs/<job>/part-<birth>-<bucket>     fingerprint (64 hex) ‖ result rows

A task leaves its mark when its ranges are stored; the mark holds all that it would send to the
driver.  Whoever runs the job again with the same input takes the marks for results.  What the input
was is said by the fingerprint: marks with another one are as if they were not there.  Neither are
those of an earlier job of the same name, which say another birth: collection may delete what they
name, because that job cannot land any more.  A mark is
written over as a whole, by twins with the same content.  For this package.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from graveler.block.adapter import Blocks
from graveler.block.address import join
from graveler.block.listing import list_all
from graveler.spark.cluster.results import Part, parts_of, rows_of

NO_FINGERPRINT: Final = "0" * 64
_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class Marks:
    """Where a job's marks stand, and what they must say of the input."""

    namespace: str
    job: str
    fingerprint: str = NO_FINGERPRINT
    birth: int = 0

    @property
    def prefix(self) -> str:
        """All of the job's marks begin so; a name is another job's once the first is forgotten."""
        return join(self.namespace, f"_graveler/jobs/{self.job}/part-{self.birth}-")


def fingerprint(*said: Any) -> str:
    """64 hex digits over everything that the result of a job depends on."""
    return hashlib.sha256(repr(said).encode()).hexdigest()


def leave(blocks: Blocks, marks: Marks, part: Part) -> None:
    """Say that a bucket is finished.  One put."""
    batch = rows_of(part)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    body = marks.fingerprint.encode() + sink.getvalue().to_pybytes()
    blocks.put(f"{marks.prefix}{part.bucket}", [body])


def count(blocks: Blocks, marks: Marks) -> int:
    """How many buckets are finished.  One request for each 1,000."""
    return sum(1 for _ in _addresses(blocks, marks))


def finished(blocks: Blocks, marks: Marks) -> dict[int, Part]:
    """The parts that are finished, by bucket.  One request for each, and for each 1,000 of them."""
    found: dict[int, Part] = {}
    for address in _addresses(blocks, marks):
        body = b"".join(blocks.get(address).chunks)
        if body[:_LENGTH] == marks.fingerprint.encode():
            rows = pa.ipc.open_stream(body[_LENGTH:]).read_all().to_pylist()
            found |= {part.bucket: part for part in parts_of(rows)}
    return found


def _addresses(blocks: Blocks, marks: Marks) -> Iterator[str]:
    return (line.address for line in list_all(blocks, marks.prefix))
