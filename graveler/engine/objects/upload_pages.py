"""Pages of the uploads in parts that are in progress, of all branches (uploads.py).

Used by the S3 gateway.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.engine.objects.completions import is_over
from graveler.engine.ports import OpenRepository
from graveler.records import ABSENT, Absent, MultipartUpload
from graveler.refs.tokens import multiparts

_ID: Final = re.compile(r"[0-9a-v]{20}", re.ASCII)
_AFTER_IDS: Final = "~"  # sorts behind every id


@dataclass(frozen=True, slots=True)
class UploadQuery:
    """One page of the uploads in progress, ordered by `<branch>/<path>`, then by id.

    `prefix`: of `<branch>/<path>`.  `after`, `after_id`: the page begins behind the upload
    `after_id` of this `<branch>/<path>`, or behind all of its uploads if `after_id` is empty.  If
    `after` is a common prefix, the page begins behind it.  `amount`: at most 1,000.
    """

    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    after_id: str = ""
    amount: int = limits.page_count_max


class UploadList(NamedTuple):
    """Lines in order: an upload, or the text of a common prefix.

    `more`: further lines may follow, on a page that begins behind `after` and `after_id`.
    """

    lines: Sequence[MultipartUpload | str]
    more: bool
    after: str = ""
    after_id: str = ""


def is_upload_id(text: str) -> bool:
    """Whether a text has the form of the ids of uploads."""
    return _ID.fullmatch(text) is not None


def list_uploads(
    repo: OpenRepository,
    query: UploadQuery,
    scan_count_max: int = limits.multipart_scan_count_max,
) -> UploadList:
    """One page of the uploads in progress.

    A page ends early after `scan_count_max` records; the next page may then repeat its last common
    prefix.
    Cost: 1 KV request for each 1,000 records.
    """
    lines: list[MultipartUpload | str] = []
    after = f"{query.after}\0{query.after_id or _AFTER_IDS}" if query.after else ""
    records = multiparts.list_all(repo.kv, repo.record, query.prefix, after)
    last = scanned = query.after, query.after_id
    for count, record in enumerate(records):
        if count >= scan_count_max:
            return UploadList(lines, True, *scanned)
        scanned = name_of(record.upload), record.upload.id
        line = _line(query, record.upload)
        if line is ABSENT or line in lines[-1:] or not _is_open(repo, record.upload):
            continue
        if len(lines) == query.amount:
            return UploadList(lines, True, *last)
        lines.append(line)
        last = (line, "") if isinstance(line, str) else scanned
    return UploadList(lines, False)


def _line(
    query: UploadQuery, upload: MultipartUpload
) -> MultipartUpload | str | Literal[Absent.ABSENT]:
    """The line of an upload; ABSENT if an earlier page had it."""
    name = name_of(upload)
    end = name.find(query.delimiter, len(query.prefix)) if query.delimiter else -1
    if end < 0:
        return upload
    common = name[: end + len(query.delimiter)]
    return ABSENT if common == query.after else common


def name_of(upload: MultipartUpload) -> str:
    """`<branch>/<path>`.  Pure."""
    return f"{upload.branch}/{upload.path}"


def _is_open(repo: OpenRepository, upload: MultipartUpload) -> bool:
    return not upload.completed_ns and not is_over(repo, upload)
