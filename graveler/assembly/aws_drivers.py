"""Creates the drivers of the store on AWS: a table, buckets, folders.

    table          repositories, branches, staging, commits (kv/dynamodb.py)
    buckets        objects, ranges, metaranges (block/s3.py); no other bucket is accessed
    folders        caches of range files, of this machine or shared by machines; may be deleted at
                   any time

There is one session and one client of each kind.  No request is sent before the first verb.
"""

from pathlib import Path
from typing import Final

from graveler import limits
from graveler.assembly.drivers import Drivers
from graveler.assembly.fanout import ThreadFanout
from graveler.aws import AwsSession
from graveler.block.open_files import kept_max
from graveler.block.retry import RetryingBlocks
from graveler.block.s3 import S3Blocks, S3Options
from graveler.clock import SystemClock, SystemIds
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import COPIES_OPEN_MAX, TieredFiles
from graveler.kv.dynamodb import DynamoStore
from graveler.kv.retry import RetryingStore
from graveler.records import ABSENT
from graveler.requests import THROTTLED_STORE, RetryPolicy
from graveler.settings import Deployment

_BLOCK_SHARE: Final = 4  # 1/4 of the memory caches blocks of tables
_TABLE_SHARE: Final = 16  # 1/16 of the memory caches indexes, and 1/16 metaranges


def aws_drivers(session: AwsSession, deployment: Deployment, ids: SystemIds) -> Drivers:
    """The drivers for the resources of a deployment."""
    clock = SystemClock()
    table = DynamoStore(session, deployment.table, clock=clock, ids=ids)
    kv = RetryingStore(table, clock, THROTTLED_STORE)
    options = S3Options(read_only=deployment.read_only_buckets)
    buckets = S3Blocks(session, clock, deployment.buckets, options)
    blocks = RetryingBlocks(buckets, clock, RetryPolicy())
    shared = Path(deployment.shared_folder) if deployment.shared_folder else ABSENT
    folder, budget = Path(deployment.cache_folder), deployment.cache_bytes
    open_max = kept_max(COPIES_OPEN_MAX)
    files = TieredFiles(blocks, folder, budget, shared, deployment.shared_bytes, open_max=open_max)
    memory = deployment.memory_bytes
    ranges = SstRangeStore(files, memory // _BLOCK_SHARE, memory // _TABLE_SHARE)
    # One partition key of the table takes 1/40 of the load that the whole table takes.
    shards_max = limits.staging_shard_count_max
    rows_max = deployment.commit_rows_max
    return Drivers(
        kv,
        blocks,
        ranges,
        clock,
        ids,
        ThreadFanout(),
        shards_max,
        rows_max,
        repository_cached_seconds=limits.repository_cache_seconds_max,
    )
