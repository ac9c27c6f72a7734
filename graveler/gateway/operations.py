"""The collection of all operations of S3 that are served: one flat table.

Routing, authorization, the tests and the documentation read it.
"""

from typing import Final

from graveler.gateway import buckets
from graveler.gateway.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    buckets.list_buckets,
    buckets.head_bucket,
    buckets.get_bucket_location,
    buckets.get_bucket_versioning,
    buckets.create_bucket,
)
