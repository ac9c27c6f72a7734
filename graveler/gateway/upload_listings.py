"""Listings of multipart uploads: the parts of one, and those in progress of all branches."""

from typing import Final

from graveler import limits
from graveler.api.answers import Answer
from graveler.api.operation import Runs
from graveler.engine.objects import multipart
from graveler.engine.objects.multipart import (
    UploadList,
    UploadQuery,
    is_upload_id,
    list_uploads,
    name_of,
)
from graveler.errors import Invalid
from graveler.gateway.address import Level
from graveler.gateway.errors import S3Error
from graveler.gateway.operation import LIST_OBJECTS, READ_OBJECT, S3Call, operation
from graveler.gateway.parameters import count_of, shown_as
from graveler.gateway.times import timestamp
from graveler.gateway.uploads import upload_of
from graveler.gateway.writes import USUAL_CLASS
from graveler.gateway.xml import NAMESPACE, Markup, Template, document, joined
from graveler.records import MultipartUpload

_PARTS: Final = Template(
    f'<ListPartsResult xmlns="{NAMESPACE}"><Bucket>{{}}</Bucket><Key>{{}}</Key>'
    "<UploadId>{}</UploadId><PartNumberMarker>{}</PartNumberMarker>{}<MaxParts>{}</MaxParts>"
    "<IsTruncated>{}</IsTruncated>{}<StorageClass>{}</StorageClass>{}</ListPartsResult>"
)
_PART: Final = Template(
    "<Part><PartNumber>{}</PartNumber><LastModified>{}</LastModified><ETag>&#34;{}&#34;</ETag>"
    "<Size>{}</Size></Part>"
)
_NEXT_PART: Final = Template("<NextPartNumberMarker>{}</NextPartNumberMarker>")
_UPLOADS: Final = Template(
    f'<ListMultipartUploadsResult xmlns="{NAMESPACE}"><Bucket>{{}}</Bucket>'
    "<KeyMarker>{}</KeyMarker><UploadIdMarker>{}</UploadIdMarker>{}<Prefix>{}</Prefix>{}"
    "<MaxUploads>{}</MaxUploads>{}<IsTruncated>{}</IsTruncated>{}</ListMultipartUploadsResult>"
)
_NEXT_UPLOAD: Final = Template(
    "<NextKeyMarker>{}</NextKeyMarker><NextUploadIdMarker>{}</NextUploadIdMarker>"
)
_DELIMITER: Final = Template("<Delimiter>{}</Delimiter>")
_ENCODING: Final = Template("<EncodingType>{}</EncodingType>")
_UPLOAD: Final = Template(
    "<Upload><Key>{}</Key><UploadId>{}</UploadId><StorageClass>{}</StorageClass>"
    "<Initiated>{}</Initiated>{}</Upload>"
)
_CHECKSUM: Final = Template(
    "<ChecksumAlgorithm>{}</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>"
)
_COMMON: Final = Template("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>")
_NOTHING: Final = Markup("")


@operation(
    "ListParts",
    "GET",
    Level.KEY,
    "uploadId",
    permissions=(READ_OBJECT,),
    errors=("InvalidArgument", "NoSuchKey", "NoSuchUpload"),
    runs=Runs.POOL,
)
def list_parts(call: S3Call) -> Answer:
    """The parts of an upload, at most 1,000 on a page."""
    upload, parameters = upload_of(call), call.parameters
    amount = count_of(parameters, "max-parts", limits.part_page_count_max)
    after = count_of(parameters, "part-number-marker", limits.multipart_parts_count_max)
    after = after if parameters.get("part-number-marker") else 0
    try:
        record, page = multipart.list_parts(call.repo, upload, after, max(1, amount))
    except Invalid as error:
        raise S3Error("NoSuchUpload") from error
    lines = page.lines[:amount]
    more = bool(amount) and page.more
    parts = joined(
        _PART(part.number, timestamp(part.modified_ns), part.etag, part.size) for part in lines
    )
    return document(
        _PARTS(
            call.address.bucket,
            call.address.key,
            upload.id,
            after,
            _NEXT_PART(lines[-1].number) if more else _NOTHING,
            amount,
            _truth(more),
            parts,
            record.storage_class or USUAL_CLASS,
            _checksum(record),
        )
    )


@operation(
    "ListMultipartUploads",
    "GET",
    Level.BUCKET,
    "uploads",
    permissions=(LIST_OBJECTS,),
    errors=("InvalidArgument",),
    runs=Runs.WALK,
)
def list_multipart_uploads(call: S3Call) -> Answer:
    """The uploads in progress of all branches, in the order of their keys."""
    parameters = call.parameters
    after, after_id = parameters.get("key-marker", ""), parameters.get("upload-id-marker", "")
    if after_id and not is_upload_id(after_id):
        raise S3Error("InvalidArgument", "Invalid uploadId marker")
    query = UploadQuery(
        parameters.get("prefix", ""),
        parameters.get("delimiter", ""),
        after,
        after_id if after else "",
        count_of(parameters, "max-uploads", limits.page_count_max),
    )
    page = list_uploads(call.repo, query) if query.amount else UploadList((), False)
    return document(_listed(call, query, page))


def _listed(call: S3Call, query: UploadQuery, page: UploadList) -> Markup:
    encoding, shown = shown_as(call.parameters)
    following = _NEXT_UPLOAD(shown(page.after), page.after_id) if page.more else _NOTHING
    lines = joined(
        _COMMON(shown(line)) if isinstance(line, str) else _line(line, shown(name_of(line)))
        for line in page.lines
    )
    return _UPLOADS(
        call.address.bucket,
        shown(query.after),
        query.after_id,
        following,
        shown(query.prefix),
        _DELIMITER(shown(query.delimiter)) if query.delimiter else _NOTHING,
        query.amount,
        _ENCODING(encoding) if encoding else _NOTHING,
        _truth(page.more),
        lines,
    )


def _line(upload: MultipartUpload, key: str) -> Markup:
    storage_class = upload.storage_class or USUAL_CLASS
    return _UPLOAD(key, upload.id, storage_class, timestamp(upload.created_ns), _checksum(upload))


def _checksum(upload: MultipartUpload) -> Markup:
    """The algorithm and the type of the checksum that the upload began with, if that is kept."""
    return _CHECKSUM(upload.whole_checksum.upper()) if upload.whole_checksum else _NOTHING


def _truth(value: bool) -> str:
    return "true" if value else "false"
