"""The closed table of error codes of S3."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from graveler.core.errors import Code, Conflict, GravelerError, RangeUnsatisfiable, Throttled
from graveler.gateway.xml import Markup, Template, document
from graveler.http.answers import Answer, Headers
from graveler.http.errors import log_failure

REGION: Final = "us-east-1"
REGION_HEADER: Final = (b"x-amz-bucket-region", REGION.encode())
_RETRY_SECONDS: Final = b"1"


class Kind(NamedTuple):
    """The status and the usual message of a code."""

    status: int
    message: str


CODES: Final[Mapping[str, Kind]] = {
    "AccessDenied": Kind(403, "Access Denied"),
    "AuthorizationHeaderMalformed": Kind(400, "The authorization header is malformed."),
    "AuthorizationQueryParametersError": Kind(
        400, "Error parsing the X-Amz-Credential parameter or another query parameter."
    ),
    "BadDigest": Kind(400, "The checksum you specified did not match what we received."),
    "BucketAlreadyExists": Kind(
        409,
        "The requested bucket name is not available. The bucket namespace is shared by all users "
        "of the system. Please select a different name and try again.",
    ),
    "BucketAlreadyOwnedByYou": Kind(
        409, "Your previous request to create the named bucket succeeded and you already own it."
    ),
    "ConditionalRequestConflict": Kind(
        409, "A conflicting operation occurred during this request. Try again."
    ),
    "EntityTooLarge": Kind(400, "Your proposed upload exceeds the maximum allowed size"),
    "EntityTooSmall": Kind(
        400, "Your proposed upload is smaller than the minimum allowed object size."
    ),
    "ErrReadOnlyRepository": Kind(403, "Attempted to write to a read-only repository"),
    "ErrWriteToProtectedBranch": Kind(403, "Attempted to write to a protected branch"),
    "IncompleteBody": Kind(
        400, "You did not provide the number of bytes specified by the Content-Length HTTP header"
    ),
    "InternalError": Kind(500, "We encountered an internal error, please try again."),
    "InvalidAccessKeyId": Kind(
        403, "The AWS access key ID you provided does not exist in our records."
    ),
    "InvalidArgument": Kind(400, "Invalid argument"),
    "InvalidDigest": Kind(400, "The Content-MD5 you specified is not valid."),
    "InvalidPart": Kind(
        400,
        "One or more of the specified parts could not be found. The part may not have been "
        "uploaded, or the specified entity tag may not match the part's entity tag.",
    ),
    "InvalidPartNumber": Kind(416, "The requested partnumber is not satisfiable"),
    "InvalidPartOrder": Kind(
        400,
        "The list of parts was not in ascending order. The parts list must be specified in order "
        "by part number.",
    ),
    "InvalidRange": Kind(416, "The requested range is not satisfiable"),
    "InvalidRequest": Kind(400, "Invalid request"),
    "InvalidStorageClass": Kind(400, "The storage class you specified is not valid"),
    "InvalidToken": Kind(400, "The provided token is malformed or otherwise not valid"),
    "InvalidURI": Kind(400, "Couldn't parse the specified URI."),
    "KeyTooLongError": Kind(400, "Your key is too long"),
    "MalformedTrailerError": Kind(
        400,
        "The request contained trailing data that was not well-formed or did not conform to our "
        "published schema.",
    ),
    "MalformedXML": Kind(
        400,
        "The XML you provided was not well-formed or did not validate against our published schema",
    ),
    "MaxMessageLengthExceeded": Kind(400, "Your request was too big."),
    "MetadataTooLarge": Kind(400, "Your metadata headers exceed the maximum allowed metadata size"),
    "MethodNotAllowed": Kind(405, "The specified method is not allowed against this resource."),
    "MissingContentLength": Kind(411, "You must provide the Content-Length HTTP header."),
    "NoSuchBucket": Kind(404, "The specified bucket does not exist"),
    "NoSuchKey": Kind(404, "The specified key does not exist."),
    "NoSuchUpload": Kind(
        404,
        "The specified multipart upload does not exist. The upload ID may be invalid, or the "
        "upload may have been aborted or completed.",
    ),
    "NoSuchVersion": Kind(404, "The specified version does not exist."),
    "NotImplemented": Kind(
        501, "A header you provided implies functionality that is not implemented"
    ),
    "PreconditionFailed": Kind(
        412, "At least one of the pre-conditions you specified did not hold"
    ),
    "RequestTimeTooSkewed": Kind(
        403, "The difference between the request time and the server's time is too large."
    ),
    "ServiceUnavailable": Kind(503, "Reduce your request rate."),
    "SignatureDoesNotMatch": Kind(
        403,
        "The request signature we calculated does not match the signature you provided. Check your "
        "key and signing method.",
    ),
    "SlowDown": Kind(503, "Please reduce your request rate."),
    "StorageFull": Kind(507, "The storage of the service is full."),
    "XAmzContentSHA256Mismatch": Kind(
        400, "The provided 'x-amz-content-sha256' header does not match what was computed."
    ),
}

# Codes that say that the caller was not identified.
_UNIDENTIFIED: Final = frozenset(
    (
        "AuthorizationHeaderMalformed",
        "AuthorizationQueryParametersError",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    )
)

OF_ENGINE: Final[Mapping[Code, str]] = {
    Code.NOT_FOUND: "NoSuchKey",
    Code.GONE: "NoSuchVersion",
    Code.CONFLICT: "ConditionalRequestConflict",
    Code.ALREADY_EXISTS: "BucketAlreadyExists",
    Code.PRECONDITION_FAILED: "PreconditionFailed",
    Code.MERGE_CONFLICT: "ConditionalRequestConflict",
    Code.CONTENDED: "SlowDown",
    Code.INVALID: "InvalidArgument",
    Code.NO_CHANGES: "InvalidArgument",
    Code.DIRTY_BRANCH: "InvalidArgument",
    Code.RANGE_UNSATISFIABLE: "InvalidRange",
    Code.UNSUPPORTED: "NotImplemented",
    Code.REFUSED: "AccessDenied",
    Code.UNAUTHENTICATED: "AccessDenied",
    Code.THROTTLED: "SlowDown",
    Code.UNAVAILABLE: "SlowDown",
    Code.OUTCOME_UNKNOWN: "ServiceUnavailable",
    Code.HISTORY_TOO_LONG: "ServiceUnavailable",
    Code.HANDED_OVER: "SlowDown",
    Code.STORAGE_FULL: "StorageFull",
    Code.CORRUPT: "InternalError",
    Code.INTERNAL: "InternalError",
    Code.REPOSITORY_NOT_FOUND: "NoSuchBucket",
    Code.BRANCH_NOT_FOUND: "NoSuchBucket",
    Code.TAG_NOT_FOUND: "NoSuchKey",
    Code.COMMIT_NOT_FOUND: "NoSuchKey",
    Code.ANCESTOR_NOT_FOUND: "NoSuchKey",
    Code.REF_NOT_FOUND: "NoSuchKey",
    Code.REF_AMBIGUOUS: "NoSuchKey",
    Code.PATH_NOT_FOUND: "NoSuchKey",
    Code.JOB_NOT_FOUND: "NoSuchUpload",
    Code.RULE_NOT_FOUND: "NoSuchKey",
    Code.RUN_NOT_FOUND: "NoSuchKey",
    Code.UPLOAD_NOT_FOUND: "NoSuchUpload",
    Code.PULL_NOT_FOUND: "NoSuchKey",
    Code.COMMENT_NOT_FOUND: "NoSuchKey",
    Code.USER_NOT_FOUND: "AccessDenied",
    Code.GROUP_NOT_FOUND: "AccessDenied",
    Code.POLICY_NOT_FOUND: "AccessDenied",
    Code.KEY_NOT_FOUND: "InvalidAccessKeyId",
    Code.PRINCIPAL_NOT_FOUND: "AccessDenied",
    Code.REPOSITORY_EXISTS: "BucketAlreadyExists",
    Code.BRANCH_EXISTS: "ConditionalRequestConflict",
    Code.TAG_EXISTS: "ConditionalRequestConflict",
    Code.NAME_TAKEN: "ConditionalRequestConflict",
    Code.ADMINISTRATOR_EXISTS: "ConditionalRequestConflict",
    Code.PATH_EXISTS: "PreconditionFailed",
    Code.ENTITY_EXISTS: "ConditionalRequestConflict",
    Code.REPOSITORY_NAME_INVALID: "NoSuchBucket",
    Code.BRANCH_NAME_INVALID: "NoSuchBucket",
    Code.TAG_NAME_INVALID: "InvalidArgument",
    Code.NAMESPACE_IN_USE: "InvalidArgument",
    Code.NAMESPACE_CLAIMED: "InvalidArgument",
    Code.NAMESPACE_OF_DELETED: "InvalidArgument",
    Code.BUCKET_NOT_ALLOWED: "InvalidArgument",
    Code.ADDRESS_NOT_SIGNED: "InvalidArgument",
    Code.ADDRESS_INVALID: "InvalidArgument",
    Code.MERGE_INTO_ITSELF: "InvalidArgument",
    Code.PULL_ID_INVALID: "InvalidArgument",
    Code.PULL_STATE_INVALID: "InvalidArgument",
    Code.PULL_SAME_BRANCH: "InvalidArgument",
    Code.STRATEGY_INVALID: "InvalidArgument",
    Code.PARENT_NUMBER_MISSING: "InvalidArgument",
    Code.NO_PARENT: "InvalidArgument",
    Code.PATH_TOO_LONG: "KeyTooLongError",
    Code.PART_INVALID: "InvalidPart",
    Code.PARTS_NOT_ASCENDING: "InvalidPartOrder",
    Code.PART_TOO_SMALL: "EntityTooSmall",
    Code.OBJECT_TOO_LARGE: "EntityTooLarge",
    Code.FILTERS_CONFLICT: "InvalidArgument",
    Code.NOT_BARE: "InvalidArgument",
    Code.READ_ONLY_REPOSITORY: "ErrReadOnlyRepository",
    Code.DEFAULT_BRANCH: "AccessDenied",
    Code.PROTECTED_WRITE: "ErrWriteToProtectedBranch",
    Code.PROTECTED_COMMIT: "ErrWriteToProtectedBranch",
    Code.PROTECTED_HEAD: "ErrWriteToProtectedBranch",
    Code.PROTECTED_DELETION: "ErrWriteToProtectedBranch",
    Code.HOOK_FAILED: "PreconditionFailed",
}
# Codes whose answer has the text of the engine's error: it names the argument and the rule.
_OWN_TEXT: Final = frozenset(("AccessDenied", "InvalidArgument", "NotImplemented"))


class S3Error(GravelerError):
    """A failure with a code of S3.  `message`: empty means the usual one of the code."""

    def __init__(self, s3_code: str, message: str = "") -> None:
        super().__init__(
            message or CODES[s3_code].message,
            Code.UNAUTHENTICATED if s3_code in _UNIDENTIFIED else Code.INVALID,
        )
        self.s3_code = s3_code


class ErrorReport(NamedTuple):
    """An error as the answer reports it."""

    code: str
    status: int
    message: str


class Subject(NamedTuple):
    """What the request is about, as far as it is known: the answer names it."""

    bucket: str = ""
    ref: str = ""
    path: str = ""


def report_of(error: Exception) -> ErrorReport:
    """Code, status and message of any exception."""
    if isinstance(error, S3Error):
        return ErrorReport(error.s3_code, CODES[error.s3_code].status, str(error))
    code = OF_ENGINE[error.code] if isinstance(error, GravelerError) else "InternalError"
    kind = CODES[code]
    shows = code in _OWN_TEXT and not isinstance(error, Conflict) and bool(str(error))
    return ErrorReport(code, kind.status, str(error) if shows else kind.message)


_ERROR: Final = Template(
    "<Error><Code>{}</Code><Message>{}</Message>{}<Resource>{}</Resource><Region>{}</Region>"
    "<RequestId>{}</RequestId><HostId>{}</HostId></Error>"
)
_KEY: Final = Template("<Key>{}</Key>")
_BUCKET: Final = Template("<BucketName>{}</BucketName>")
_SIZE: Final = Template("<ActualObjectSize>{}</ActualObjectSize>")
_NOTHING: Final = Markup("")


def answer(error: Exception, subject: Subject, request_id: str, operation: str) -> Answer:
    """The answer for an exception, which is logged if the service is to blame."""
    report = report_of(error)
    if not isinstance(error, S3Error | Throttled | Conflict):
        names = {"repository": subject.bucket, "ref": subject.ref, "path": subject.path}
        log_failure(error, report.status, operation, names, request_id)
    headers: Headers = ()
    details = _NOTHING
    if report.status == 403 and subject.bucket:  # alike for every name: clients probe the region so
        headers = (REGION_HEADER,)
    if report.status == 503:
        seconds = b"%d" % error.seconds if isinstance(error, Throttled) else _RETRY_SECONDS
        headers = ((b"retry-after", seconds),)
    if isinstance(error, RangeUnsatisfiable):
        headers = ((b"content-range", b"bytes */%d" % error.size),)
        # The clients on AWS's CRT ask for a range of every object, and tell an empty one by this.
        details = _SIZE(error.size)
    element = error_element(report, subject, request_id, details)
    return document(element, report.status, headers)


def error_element(
    report: ErrorReport, subject: Subject, request_id: str, details: Markup = _NOTHING
) -> Markup:
    """The element `Error`, as answers have it.  Also the end of an answer that began as a success
    before its work had ended.  `details`: elements that only some errors have."""
    named = details + (
        (_KEY(subject.path) if subject.path else _NOTHING)
        + (_BUCKET(subject.bucket) if subject.bucket else _NOTHING)
    )
    resource = f"{subject.ref}@{subject.bucket}" if subject.ref else subject.bucket
    return _ERROR(report.code, report.message, named, resource, REGION, request_id, request_id)
