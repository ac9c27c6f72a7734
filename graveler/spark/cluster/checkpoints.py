"""Checkpoints of an import: which buckets are finished, so that a later attempt can continue.

    <namespace>/_graveler/jobs/<job>/part-<birth>-<bucket>     fingerprint (64 hex) ‖ result rows

A task writes its checkpoint after its ranges are stored.  The checkpoint has
everything that the task sends to the driver.  An attempt that runs the job again with the same
input uses the checkpoints as results.

A checkpoint counts only with the right fingerprint, which identifies the input, and the right
birth.  Another birth means an earlier job of the same name; that job cannot land any more, so
garbage collection may delete the ranges that its checkpoints name.  A checkpoint is overwritten as
a whole, and concurrent attempts of one task write the same content.  For this package.
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
class JobCheckpoints:
    """Where the checkpoints of a job are, and the fingerprint that they must have."""

    namespace: str
    job: str
    fingerprint: str = NO_FINGERPRINT
    birth: int = 0

    @property
    def prefix(self) -> str:
        """The common prefix of the addresses of the job's checkpoints.  It contains the birth,
        because another job can get the name after the first is forgotten."""
        return join(self.namespace, f"_graveler/jobs/{self.job}/part-{self.birth}-")


def fingerprint(*values: Any) -> str:
    """64 hex digits over everything that the result of a job depends on."""
    return hashlib.sha256(repr(values).encode()).hexdigest()


def leave(blocks: Blocks, checkpoints: JobCheckpoints, part: Part) -> None:
    """Write the checkpoint of a finished bucket.  One put."""
    batch = rows_of(part)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    body = checkpoints.fingerprint.encode() + sink.getvalue().to_pybytes()
    blocks.put(f"{checkpoints.prefix}{part.bucket}", [body])


def count(blocks: Blocks, checkpoints: JobCheckpoints) -> int:
    """How many buckets are finished.  One request for each 1,000."""
    return sum(1 for _ in _addresses(blocks, checkpoints))


def finished(blocks: Blocks, checkpoints: JobCheckpoints) -> dict[int, Part]:
    """The finished parts, by bucket.  One request for each part, and one for each 1,000 parts."""
    parts: dict[int, Part] = {}
    for address in _addresses(blocks, checkpoints):
        body = b"".join(blocks.get(address).chunks)
        if body[:_LENGTH] == checkpoints.fingerprint.encode():
            rows = pa.ipc.open_stream(body[_LENGTH:]).read_all().to_pylist()
            parts |= {part.bucket: part for part in parts_of(rows)}
    return parts


def _addresses(blocks: Blocks, checkpoints: JobCheckpoints) -> Iterator[str]:
    return (line.address for line in list_all(blocks, checkpoints.prefix))
