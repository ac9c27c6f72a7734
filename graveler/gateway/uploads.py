"""Uploads in parts, and their listings."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from graveler.block.adapter import Part
from graveler.block.bodies import Spool
from graveler.core import limits
from graveler.core.errors import Invalid, RangeUnsatisfiable
from graveler.core.records import ABSENT, Absent, Entry, MultipartUpload
from graveler.engine.objects import multipart, write
from graveler.engine.objects.multipart import (
    UploadId,
    UploadList,
    UploadQuery,
    is_upload_id,
    list_uploads,
    name_of,
)
from graveler.engine.ports import check_writable
from graveler.gateway import checksums
from graveler.gateway.checksums import FULL_OBJECT, StatedChecksum
from graveler.gateway.errors import S3Error
from graveler.gateway.long_answers import long_answer
from graveler.gateway.metadata import description_of
from graveler.gateway.operation import (
    COPY_SOURCE,
    LIST_OBJECTS,
    READ_OBJECT,
    READ_SOURCE,
    WRITE_CONDITIONS,
    WRITE_OBJECT,
    S3Call,
    operation,
)
from graveler.gateway.request import Level, Node, XmlBounds, count_of, shown_as
from graveler.gateway.writes import (
    BODY_ERRORS,
    SOURCE_CONDITIONS,
    USUAL_CLASS,
    condition_of,
    etag_header,
    source_of,
    storage_class_of,
)
from graveler.gateway.xml import NAMESPACE, Markup, Template, document, joined, timestamp
from graveler.http import conditions
from graveler.http.answers import NO_CONTENT, Answer, Headers
from graveler.http.checksums import GENERATORS
from graveler.http.dispatch import Runs
from graveler.http.intake import next_piece, stored
from graveler.refs.uploads import PartChecksum

_BEGUN: Final = Template(
    f'<InitiateMultipartUploadResult xmlns="{NAMESPACE}"><Bucket>{{}}</Bucket><Key>{{}}</Key>'
    "<UploadId>{}</UploadId></InitiateMultipartUploadResult>"
)
_COPIED: Final = Template(
    f'<CopyPartResult xmlns="{NAMESPACE}"><LastModified>{{}}</LastModified>'
    "<ETag>&#34;{}&#34;</ETag></CopyPartResult>"
)
_COMPLETED: Final = Template(
    f'<CompleteMultipartUploadResult xmlns="{NAMESPACE}"><Location>{{}}</Location>'
    "<Bucket>{}</Bucket><Key>{}</Key><ETag>&#34;{}&#34;</ETag>{}</CompleteMultipartUploadResult>"
)
_CHECKSUM: Final = Template("<{}>{}</{}><ChecksumType>{}</ChecksumType>")
_BOUNDS: Final = XmlBounds(limits.xml_parts_bytes_max, limits.xml_parts_elements_max)
_SIZE: Final = b"x-amz-mp-object-size"
_SIZE_DIGITS_MAX: Final = 18
_TARGET_ERRORS: Final = (
    *("ErrReadOnlyRepository", "ErrWriteToProtectedBranch", "MethodNotAllowed", "NoSuchBucket"),
    *("InvalidArgument", "NoSuchKey"),
)
_UPLOAD_ERRORS: Final = (*_TARGET_ERRORS, "NoSuchUpload")


@operation(
    "CreateMultipartUpload",
    "POST",
    Level.KEY,
    "uploads",
    permissions=(WRITE_OBJECT,),
    errors=(
        *(*_TARGET_ERRORS, "InvalidRequest", "InvalidStorageClass", "KeyTooLongError"),
        *("MetadataTooLarge", "NotImplemented"),
    ),
    runs=Runs.POOL,
    writes=True,
)
def create_multipart_upload(call: S3Call) -> Answer:
    """Begin an upload in parts.  A client that announces a checksum that S3 does not have is
    refused here, before it sends the parts."""
    _check_path(call)
    announced = checksums.announced(call.headers)
    headers = description_of(call.headers)
    description = write.Description(headers.content_type, headers.metadata)
    storage_class = storage_class_of(call.headers)
    address = call.address
    id = multipart.begin(
        call.repo, address.ref, address.path, description, storage_class, announced.whole
    )
    return document(_BEGUN(address.bucket, address.key, id), headers=announced.headers)


@operation(
    "UploadPart",
    "PUT",
    Level.KEY,
    "partNumber",
    "uploadId",
    permissions=(WRITE_OBJECT,),
    errors=tuple(sorted({*_UPLOAD_ERRORS, *BODY_ERRORS})),
    runs=Runs.STREAM,
    writes=True,
)
async def upload_part(call: S3Call) -> Answer:
    """Store the body of the request as a part; it replaces a part of the same number."""
    upload, number = upload_of(call), _number(call)
    length = call.payload.length
    await call.service.pools.point(multipart.find, call.repo, upload)  # before the body is received

    def open_spool() -> Spool:
        check_writable(call.repo.record, False)
        return call.repo.blocks.spool(call.repo.namespace)

    def store(content: Iterable[bytes]) -> Part:
        part = multipart.put_part(call.repo, upload, number, content)
        for header, checksum in call.payload.echo():
            algorithm = checksums.algorithm_of(header)
            multipart.keep_checksum(call.repo, upload, part, length, algorithm, checksum.decode())
        return part

    first = await next_piece(call.receive)
    part = await stored(call.service.pools, call.receive, first, call.payload, open_spool, store)
    echo: Headers = call.payload.echo()
    return Answer(200, (etag_header(part.etag), *echo))


@operation(
    "UploadPartCopy",
    "PUT",
    Level.KEY,
    "partNumber",
    "uploadId",
    COPY_SOURCE,
    permissions=(WRITE_OBJECT, READ_SOURCE),
    errors=(*_UPLOAD_ERRORS, "NoSuchVersion", "PreconditionFailed", "StorageFull"),
    conditions=SOURCE_CONDITIONS,
    runs=Runs.STREAM,
    writes=True,
)
async def upload_part_copy(call: S3Call) -> Answer:
    """Store an object, or a range of it, as a part."""
    upload, number = upload_of(call), _number(call)

    def work() -> Markup:
        source = source_of(call)
        start, end = _range(call, source.entry.size)
        try:
            part = multipart.copy_part(call.repo, upload, number, source, start, end)
        except RangeUnsatisfiable as error:
            raise _outside() from error
        return _COPIED(timestamp(call.ports.clock.now_ns()), part.etag)

    return await long_answer(call, work)


@operation(
    "CompleteMultipartUpload",
    "POST",
    Level.KEY,
    "uploadId",
    permissions=(WRITE_OBJECT,),
    errors=(
        *_UPLOAD_ERRORS,
        "BadDigest",
        *("ConditionalRequestConflict", "EntityTooLarge", "EntityTooSmall", "InvalidPart"),
        *("InvalidPartOrder", "InvalidRequest", "MalformedXML", "MaxMessageLengthExceeded"),
        *("NotImplemented", "PreconditionFailed", "StorageFull"),
    ),
    conditions=WRITE_CONDITIONS,
    runs=Runs.STREAM,
    writes=True,
)
async def complete_multipart_upload(call: S3Call) -> Answer:
    """Make one object of the parts.  It becomes visible completely or not at all.

    A checksum in a header is compared with the checksums that arrived with the parts."""
    upload, mode = upload_of(call), condition_of(call)
    size, stated = _stated_size(call), checksums.stated(call.headers)
    order = await call.document("CompleteMultipartUpload", _BOUNDS)

    def work() -> Markup:
        parts, verified = _parts(order), joined(())

        def check(begun: MultipartUpload, entry: Entry) -> None:
            nonlocal verified
            if size not in (ABSENT, entry.size):
                raise S3Error(
                    "InvalidRequest",
                    "x-amz-mp-object-size is not the sum of the sizes of the parts.",
                )
            multipart.check_checksums(call.repo, upload, _part_checksums(order))
            verified = _verified(call, upload, parts, begun.whole_checksum, stated)

        entry = multipart.complete(call.repo, upload, parts, mode, check)
        address = call.address
        place = call.absolute(call.request.raw_path.decode("latin-1"))
        return _COMPLETED(place, address.bucket, address.key, entry.checksum, verified)

    return await long_answer(call, work)


@operation(
    "AbortMultipartUpload",
    "DELETE",
    Level.KEY,
    "uploadId",
    permissions=(WRITE_OBJECT,),
    errors=_UPLOAD_ERRORS,
    runs=Runs.POOL,
    writes=True,
)
def abort_multipart_upload(call: S3Call) -> Answer:
    """Discard an upload and its parts."""
    multipart.abort(call.repo, upload_of(call))
    return NO_CONTENT


def _check_path(call: S3Call) -> None:
    if not call.address.path:
        raise S3Error("NoSuchKey")


def upload_of(call: S3Call) -> UploadId:
    """The upload that a request names.  Raises `S3Error`."""
    _check_path(call)
    return UploadId(call.address.ref, call.address.path, call.parameters["uploadId"])


def _number(call: S3Call) -> int:
    text = call.parameters["partNumber"]
    is_number = text.isascii() and text.isdigit() and len(text) <= len("10000")
    if not is_number or not 1 <= int(text) <= limits.multipart_parts_count_max:
        raise S3Error(
            "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive"
        )
    return int(text)


def _stated_size(call: S3Call) -> int | Literal[Absent.ABSENT]:
    """The size that the request states for the object."""
    text = call.request.header(_SIZE)
    if not text:
        return ABSENT
    if not (text.isascii() and text.isdigit()) or len(text) > _SIZE_DIGITS_MAX:
        raise S3Error("InvalidArgument", "x-amz-mp-object-size must be a number of bytes.")
    return int(text)


def _verified(
    call: S3Call, upload: UploadId, parts: Sequence[Part], whole: str, stated: StatedChecksum
) -> Markup:
    """The elements of the answer that repeat a checksum of the object.  Raises `S3Error` if it is
    not that of the parts.

    If none is stated, a checksum of the whole object is computed, and left out if it does not
    follow from the parts.  Costs no request if the upload has no checksum of the object.
    """
    checksum = stated.of_upload(whole)
    algorithm, text = checksum.algorithm, ""
    if algorithm:
        arrived = multipart.checksums_of(call.repo, upload, parts, algorithm)
        text = checksum.check(arrived)
    elif checksum.type == FULL_OBJECT:
        shared = multipart.shared_checksums(
            call.repo, upload, parts, (whole,) if whole else tuple(GENERATORS)
        )
        if shared is not ABSENT:
            algorithm = shared.algorithm
            digest = checksums.whole_checksum(algorithm, shared.checksums)
            text = "" if digest is ABSENT else b64encode(digest).decode()
    if not text:
        return joined(())
    element = checksums.element_of(algorithm)
    return _CHECKSUM(element, text, element, checksum.type)


def _range(call: S3Call, size: int) -> tuple[int, int]:
    """The bytes of the source that a part takes."""
    text = call.request.header(b"x-amz-copy-source-range")
    if not text:
        return 0, size
    named = conditions.ranges_of(text)
    first, last = named[0] if len(named) == 1 else (ABSENT, ABSENT)
    if first is ABSENT or last is ABSENT:
        raise S3Error(
            "InvalidArgument",
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first "
            "and last are the zero-based offsets of the first and last bytes to copy",
        )
    if last >= size:
        raise _outside()
    return first, last + 1


def _outside() -> S3Error:
    return S3Error("InvalidArgument", "Range specified is not valid for the source object")


def _parts(order: Node) -> Sequence[Part]:
    """The parts that a completion names.  Raises `S3Error`: MalformedXML."""
    nodes = list(order.every("Part"))
    if not 1 <= len(nodes) <= limits.multipart_parts_count_max:
        raise S3Error("MalformedXML")
    return [_part(node) for node in nodes]


def _part_checksums(order: Node) -> Sequence[PartChecksum]:
    """The checksums of parts that a completion names.  Raises `S3Error`."""
    named = []
    for node in order.every("Part"):
        part = _part(node)
        for child in node.children:
            algorithm = checksums.stated_by(child.name)
            if algorithm is not ABSENT:
                text = child.text.strip()
                named.append(PartChecksum(part.number, part.etag, algorithm, text))
    return named


def _part(node: Node) -> Part:
    number, etag = node.value("PartNumber").strip(), node.value("ETag").strip().strip('"')
    if not (number.isascii() and number.isdigit() and len(number) <= 9 and etag):
        raise S3Error("MalformedXML")
    return Part(int(number), etag)


# ---- listings ------------------------------------------------------------------------------------

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
_LISTED_CHECKSUM: Final = Template(
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
    return _LISTED_CHECKSUM(upload.whole_checksum.upper()) if upload.whole_checksum else _NOTHING


def _truth(value: bool) -> str:
    return "true" if value else "false"
