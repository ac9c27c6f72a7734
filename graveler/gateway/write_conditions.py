"""Conditions of a write, and what a copy reads.

    If-None-Match: *                          the key must be absent        412
    If-Match: "<etag>"                        the key must have this etag   412, absent 404
    x-amz-copy-source-if-*                    the source must satisfy it    412

Any other condition is refused, and never ignored.  The engine decides about the key at the moment
of the write.  Used by the endpoints that write.
"""

from collections.abc import Mapping
from typing import Final

from graveler.block.adapter import CREATE, OVERWRITE, Mode, Update
from graveler.engine.objects.copies import CopySource
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.errors import Invalid, NotFound
from graveler.gateway.errors import S3Error
from graveler.gateway.operation import S3Call
from graveler.gateway.preconditions import Decision, decide
from graveler.gateway.reads import entry_at
from graveler.records import Entry

WRITE_CONDITIONS: Final = ("if-match", "if-none-match")
_OF_SOURCE: Final = "x-amz-copy-source-"
SOURCE_CONDITIONS: Final = (
    f"{_OF_SOURCE}if-match",
    f"{_OF_SOURCE}if-none-match",
    f"{_OF_SOURCE}if-modified-since",
    f"{_OF_SOURCE}if-unmodified-since",
)
_IN_LISTS: Final = ("*", ",")
_HEADERS: Final = frozenset(name.encode() for name in WRITE_CONDITIONS)


def mode_of(headers: Mapping[bytes, bytes]) -> Mode:
    """The condition of a write.  Raises `S3Error`: NotImplemented for one that is not served, or is
    empty."""
    if _HEADERS.isdisjoint(headers):
        return OVERWRITE
    for name in _HEADERS.intersection(headers):
        if not headers[name].strip():  # an unset variable of a client must not replace an object
            raise S3Error("NotImplemented", f"not implemented: an empty {name.decode()}")
    absent = headers.get(b"if-none-match", b"").decode("latin-1").strip()
    etag = headers.get(b"if-match", b"").decode("latin-1").strip()
    if absent and (etag or absent.strip('"') != "*"):
        raise S3Error("NotImplemented", "not implemented: If-None-Match other than * alone")
    if absent:
        return CREATE
    if any(mark in etag for mark in _IN_LISTS):
        raise S3Error("NotImplemented", "not implemented: If-Match other than one etag")
    return Update(etag.strip('"'))


def source_of(call: S3Call) -> CopySource:
    """What a copy reads, if the source satisfies the conditions of the request.

    Raises `S3Error`: NoSuchBucket, NoSuchKey, PreconditionFailed; and as `read.stat`.
    """
    source = call.source
    repo = call.repo
    if source.bucket != call.address.bucket:
        try:
            repo = open_repository(call.ports, repository.get(call.ports, source.bucket))
        except (NotFound, Invalid) as error:
            raise S3Error("NoSuchBucket") from error
    entry = entry_at(repo, source)
    _check_source(call.headers, entry)
    return CopySource(repo, source.path, entry)


def has_source_conditions(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the request has conditions of the source of a copy."""
    return any(name.encode() in headers for name in SOURCE_CONDITIONS)


def _check_source(headers: Mapping[bytes, bytes], entry: Entry) -> None:
    named = {
        name[len(_OF_SOURCE) :].encode(): headers[name.encode()]
        for name in SOURCE_CONDITIONS
        if name.encode() in headers
    }
    if decide(named, entry) is not Decision.PROCEED:
        raise S3Error("PreconditionFailed")
