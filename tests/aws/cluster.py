"""A cluster beside the API: it puts objects, ranges and a metarange into the storage with a role of
its own, by nothing but what the answer to a bulk job says.
"""

from collections.abc import Mapping
from hashlib import md5
from pathlib import Path

from graveler.block.s3 import S3Blocks
from graveler.committed import reader, writer
from graveler.committed.apply import apply
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.aws import AwsSession
from graveler.core.clock import SystemClock
from graveler.core.ids import MetarangeId
from graveler.core.records import BreakParameters, Entry, StagedValue
from graveler.core.wire import decode_entry, encode_entry
from graveler.lake.bulk import BulkJob


class Cluster:
    """What writes into one bucket; files are built below `scratch`."""

    def __init__(self, session: AwsSession, bucket: str, scratch: Path) -> None:
        self.blocks = S3Blocks(session, SystemClock(), [bucket])
        self._ranges = SstRangeStore(StoredFiles(self.blocks))

    def _space(self, job: BulkJob) -> Keyspace:
        said = job.breaks
        breaks = BreakParameters(said.min_size, said.max_size, said.raggedness, said.salt)
        return Keyspace(self._ranges, job.storage_namespace, breaks)

    def values(self, job: BulkJob, texts: Mapping[str, str]) -> dict[bytes, bytes]:
        """Objects that hold `texts`, and the records of their paths."""
        records: dict[bytes, bytes] = {}
        for path in sorted(texts):
            raw, digest = texts[path].encode(), md5(texts[path].encode()).hexdigest()
            address = f"data/{job.id}/{digest}"
            self.blocks.put(f"{job.storage_namespace}/{address}", [raw])
            records[path.encode()] = encode_entry(Entry(address, len(raw), digest, 1))
        return records

    def write(self, job: BulkJob, texts: Mapping[str, str]) -> str:
        """The metarange over these objects."""
        return writer.write(self._space(job), self.values(job, texts).items())

    def overlay(self, job: BulkJob, changes: Mapping[bytes, StagedValue]) -> str:
        """The metarange over the job's base with `changes`."""
        base = MetarangeId(job.base_metarange)
        wanted = sorted(changes.items())
        return apply(self._space(job), base, wanted, replace=True).metarange_id

    def needed(self, job: BulkJob, metarange: str) -> set[str]:
        """The relative addresses of the files and objects that a metarange stands for."""
        space, name = self._space(job), MetarangeId(metarange)
        files = {f"_lakefs/{name}"} | {f"_lakefs/{r.id}" for r in reader.ranges(space, name)}
        return files | {decode_entry(value).address for _, value in reader.scan(space, name)}
