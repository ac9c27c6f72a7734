"""How a process of the cluster opens a repository's files: from a plain record that can be pickled.

    driver ── Place (names only, no secret) ──► executor ── its own role ──► object store

The record goes to the executors inside the function that they run.  Each process there opens the
store once, with the credentials of the machine or the job (AWS's own chain of configuration).  The
API's secret never leaves the driver.  All modules of this package may import this one.
"""

import os
import stat
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from graveler.block.adapter import Blocks
from graveler.block.registry import Surroundings, open_blocks
from graveler.block.retry import RetryingBlocks
from graveler.clock import SystemClock, SystemIds
from graveler.committed.ranges import Keyspace
from graveler.committed.tiers import StoredFiles
from graveler.errors import Unavailable
from graveler.records import BreakParameters
from graveler.requests import RetryPolicy
from graveler.spark.cluster.workers import settle
from graveler.spark.core.build import ArrowRangeStore

_BLOCK_CACHE_BYTES = 64 << 20
_TABLE_CACHE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a repository's ranges are stored, and where they break.

    `storage`: in the notation of `block.registry`, `s3:BUCKET,BUCKET` or `local:FOLDER`; every
    executor must see the folder under that name.  `endpoint_url`: the endpoint of S3, if it is not
    AWS's.
    """

    storage: str
    namespace: str
    breaks: BreakParameters = field(default_factory=BreakParameters)
    endpoint_url: str = ""

    @property
    def is_near(self) -> bool:
        """Whether a request costs almost nothing."""
        return self.storage.startswith("local:")


@dataclass(frozen=True, slots=True)
class OpenPlace:
    """The object store of a place, and the view of its ranges."""

    blocks: Blocks
    space: Keyspace


@lru_cache(maxsize=8)
def opened(place: Place) -> OpenPlace:
    """The store of `place`, opened once in each process.  No request is sent before the first verb.

    Errors: `Invalid` for an unknown storage, `Unavailable` if no scratch folder can be made.
    """
    settle()
    blocks = _blocks(place)
    files = StoredFiles(blocks, _scratch())
    store = ArrowRangeStore(files, _BLOCK_CACHE_BYTES, _TABLE_CACHE_BYTES, is_near=place.is_near)
    return OpenPlace(blocks, Keyspace(store, place.namespace, place.breaks))


def _blocks(place: Place) -> Blocks:
    clock = SystemClock()
    kind, _, names = place.storage.partition(":")
    if kind != "s3":
        return open_blocks(place.storage, Surroundings(clock, SystemIds()))
    from graveler.aws import AwsSession, AwsSettings
    from graveler.block.s3 import S3Blocks

    session = AwsSession(AwsSettings(endpoint_url=place.endpoint_url))
    return RetryingBlocks(S3Blocks(session, clock, names.split(",")), clock, RetryPolicy())


def _scratch() -> Path:
    """A folder for tables while they are built, shared by the processes of one user.  Spark's
    processes end without a chance to clean up, so none has its own folder."""
    folder = Path(tempfile.gettempdir()) / f"graveler-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise Unavailable(f"scratch folder belongs to another user; remove it: folder={folder}")
    return folder
