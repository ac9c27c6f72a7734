"""The collection of all operations of S3 that are served: one flat table.

Routing, authorization, the tests and the documentation read it.
"""

from typing import Final

from graveler.gateway import buckets, deletes, listings, reads, upload_listings, uploads, writes
from graveler.gateway.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    buckets.list_buckets,
    buckets.head_bucket,
    buckets.get_bucket_location,
    buckets.get_bucket_versioning,
    buckets.create_bucket,
    listings.list_objects,
    listings.list_objects_v2,
    listings.list_branches,
    listings.list_branches_v2,
    reads.get_object,
    reads.head_object,
    reads.get_object_tagging,
    reads.get_object_attributes,
    deletes.delete_object,
    deletes.delete_objects,
    writes.put_object,
    writes.copy_object,
    uploads.create_multipart_upload,
    uploads.upload_part,
    uploads.upload_part_copy,
    uploads.complete_multipart_upload,
    uploads.abort_multipart_upload,
    upload_listings.list_parts,
    upload_listings.list_multipart_uploads,
)
