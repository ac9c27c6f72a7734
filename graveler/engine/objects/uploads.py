"""Uploads in parts that go through the service, with a record that survives its restart.

    begin ──► an upload at the object store, and its record
    put_part, copy_part ──► parts at the object store
    complete    1 plan: check the parts, record the entry to stage   nothing is visible
                2 join: the object store makes one object of them    nothing is visible
                3 stage one row, and record that the upload is       visible completely
                  completed, in one step (completions.py)
    abort ──► the object store discards the parts, the record is removed

- An upload belongs to one path of one branch: its record is found by branch, path and id.  It is
  not for a branch that was created later and has the same name.
- The plan comes before the join, because the parts are gone after it.  Once recorded, a plan stays
  until the object store refuses it.  So an object at the address was made of the planned parts, or
  by a late join of an earlier plan that was refused.  If its size differs from the plan's, the
  upload is unknown.  After a crash, a repeated `complete` finds the object and stages the planned
  entry.
- A completed upload keeps its record for `multipart_upload_keep_seconds`: a repetition with the
  same parts gets the same answer, and stages nothing.
- Garbage collection leaves the address of a planned upload alone (tokens/uploads.py), because the
  object store may date the object back to the beginning of the upload.
- A crash between the object store and the first record leaves an upload without parts.  The object
  store has its own rule that discards uploads that are never finished.
- The janitor removes records that have expired, and discards their parts.

Used by the S3 gateway.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.block import address
from graveler.block.adapter import OVERWRITE, Part, PartOf, PartPage, StoredPart
from graveler.engine import protection
from graveler.engine.commits.heads import fresh
from graveler.engine.objects import completions, multipart, reachable, write
from graveler.engine.objects.completions import is_over, present, unknown
from graveler.engine.objects.copies import CopySource
from graveler.engine.objects.read import check_size
from graveler.engine.objects.stage import Condition
from graveler.engine.objects.write import DEFAULT_CONTENT_TYPE, Description
from graveler.engine.ports import OpenRepository, check_writable
from graveler.errors import Code, Conflict, Contended, Gone, Invalid, NotFound, OutcomeUnknown
from graveler.ids import BranchId, parse_branch_id, parse_path
from graveler.records import ABSENT, Absent, Entry, MultipartUpload, UploadAddress
from graveler.refs.tokens import multiparts
from graveler.refs.tokens import uploads as issued
from graveler.refs.tokens.multiparts import VersionedUpload
from graveler.wire import decode_entry, encode_entry

_ID_LENGTH: Final = 20
_MD5: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


Check = Callable[[MultipartUpload, Entry], None]


def _no_check(_upload: MultipartUpload, _entry: Entry) -> None:
    """Every entry is good."""


class UploadId(NamedTuple):
    """An upload: the branch and the path that it is for, and the id that `begin` returned."""

    branch: str
    path: str
    id: str


def begin(
    repo: OpenRepository,
    branch: str,
    path: str,
    description: Description | Literal[Absent.ABSENT] = ABSENT,
    storage_class: str = "",
    whole_checksum: str = "",
) -> str:
    """Start an upload for `path`; return its id.

    `whole_checksum`: the algorithm of a checksum of all bytes that the client announces; it is kept
    for the check of the completion.
    Errors: `Invalid`, also for a path that is too long for a record (`PATH_TOO_LONG`); `NotFound`
    (branch); `Refused`.  Cost: 1 block request and 2 KV requests.
    """
    key, name = parse_path(path), parse_branch_id(branch)
    check_writable(repo.record, False)
    about = Description() if description is ABSENT else description
    write.check_described(about.metadata, about.content_type)
    write.check_storage_class(storage_class)
    id = repo.ids.unique(_ID_LENGTH)
    if not multiparts.fits(name, path, id):
        raise Invalid(f"path is too long for an upload in parts: {len(key)=}", Code.PATH_TOO_LONG)
    protection.check_staging(repo, name)
    origin = fresh(repo, name).branch.origin
    relative = repo.partitions.new_address(repo.clock, repo.ids, repo.record.uid)
    store_id = repo.blocks.create_upload(address.join(repo.namespace, relative), storage_class)
    upload = MultipartUpload(
        id,
        name,
        path,
        relative,
        store_id,
        repo.clock.now_ns(),
        about.content_type or DEFAULT_CONTENT_TYPE,
        dict(about.metadata),
        storage_class,
        origin=origin,
        whole_checksum=whole_checksum,
    )
    multiparts.put(repo.kv, repo.record, upload, repo.ids.stamp())
    return id


def put_part(repo: OpenRepository, upload: UploadId, number: int, body: Iterable[bytes]) -> Part:
    """Store part `number` (1 to 10,000) from a stream.  A second call replaces the part.

    Errors: `Invalid`, `NotFound` for an unknown upload, `Refused`, `StorageFull`.
    Cost: 1 KV request and 1 block request.
    """
    check_writable(repo.record, False)
    seen = find(repo, upload)
    try:
        return repo.blocks.put_part(_full(repo, seen), seen.store_id, number, body)
    except NotFound as error:
        raise unknown(upload.id) from error


def copy_part(
    repo: OpenRepository, upload: UploadId, number: int, source: CopySource, start: int, end: int
) -> Part:
    """Store the bytes `start` to `end` (excluded) of an entry as part `number`.

    The entry may be of another repository; the caller has checked that the user may read it.
    Errors: those of `put_part`; `RangeUnsatisfiable` for a range that the entry does not have;
    `Gone` (the bytes are missing); those of `check_size` and `reachable.address_of`.
    Cost: 1 KV request and 2 block requests, 1 more if one of the two is not found, and that of
    `reachable.address_of`.
    """
    check_writable(repo.record, False)
    seen = find(repo, upload)
    bytes_at = reachable.address_of(source.repo, source.entry)
    part = PartOf(seen.store_id, number)
    try:
        check_size(source.repo, source.entry, bytes_at, repo.blocks.head(bytes_at).size)
        return repo.blocks.copy_part(part, _full(repo, seen), bytes_at, start, end)
    except NotFound as error:
        if multipart.joined(repo, bytes_at) is not ABSENT:
            raise unknown(upload.id) from error
        raise Gone(f"no data: path={source.path}") from error


def find(repo: OpenRepository, upload: UploadId) -> MultipartUpload:
    """The record of an upload that takes parts.  Raises `NotFound`, `Invalid`.  1 KV request."""
    seen = _find(repo, upload).upload
    if seen.completed_ns:
        raise unknown(upload.id)
    return seen


def list_parts(
    repo: OpenRepository, upload: UploadId, after: int, limit: int
) -> tuple[MultipartUpload, PartPage]:
    """The record, and at most `limit` parts (1 to 1,000) with numbers greater than `after`.

    Errors: `NotFound`, `Invalid`.  Cost: 1 KV request and 1 block request.
    """
    seen = find(repo, upload)
    try:
        return seen, repo.blocks.list_parts(_full(repo, seen), seen.store_id, after, limit)
    except NotFound as error:
        raise unknown(upload.id) from error


# ---- complete ------------------------------------------------------------------------------------


def complete(
    repo: OpenRepository,
    upload: UploadId,
    parts: Sequence[Part],
    mode: Condition = OVERWRITE,
    check: Check = _no_check,
) -> Entry:
    """Join the parts and stage the path, under the condition of `mode`.  The call may be repeated.

    The path shows the whole object or what it showed before.  All calls for one upload stage it
    once: a call that comes late does not undo a newer write.  The checksum of the entry is the MD5
    of the MD5s of the parts, and their number: `<md5>-<n>`.  `check` gets the record of the upload
    and the entry, and raises to refuse them; then the upload remains, and other parts may be
    joined.
    Errors: `NotFound` (branch; upload, also if the branch was created anew since it began);
    `Invalid` for parts that were not uploaded with these etags
    (`PART_INVALID`), that are not ascending (`PARTS_NOT_ASCENDING`), or of which one but the last
    is too small (`PART_TOO_SMALL`): the upload remains; `Conflict` if another call has begun to
    join other parts; and those of `completions.stage`, after which the call may be repeated.
    Cost: 6 KV requests, 1 more if the branch is not cached, and with a condition the read of the
    path; 1 block request for each 1,000 parts, and 1 to join.  If an earlier call has joined the
    parts: 1 KV request and 1 block request more.
    """
    check_writable(repo.record, False)
    _check_order(parts)
    seen, digest = _find(repo, upload), _digest(parts)
    if seen.upload.completed_ns:
        return _answered(upload, seen, digest, check)
    write.check_head(repo, seen.upload.branch)
    planned = _planned(repo, upload, seen, parts, digest, check)
    joined, joined_ns = planned, 0
    if not planned.upload.completed_ns:
        joined, joined_ns = _join(repo, planned, parts)
    if joined.upload.completed_ns:  # another call has staged it, and newer writes may stand over it
        return decode_entry(joined.upload.entry)
    return completions.stage(repo, joined, mode, joined_ns)


def _answered(upload: UploadId, seen: VersionedUpload, digest: bytes, check: Check) -> Entry:
    if seen.upload.parts != digest:
        raise unknown(upload.id)
    entry = decode_entry(seen.upload.entry)
    check(seen.upload, entry)
    return entry


def _check_order(parts: Sequence[Part]) -> None:
    if not 1 <= len(parts) <= limits.multipart_parts_count_max:
        raise Invalid(f"parts to join must be 1 to {limits.multipart_parts_count_max}")
    if any(one.number >= other.number for one, other in pairwise(parts)):
        raise Invalid("parts must be in ascending order", Code.PARTS_NOT_ASCENDING)


def _planned(
    repo: OpenRepository,
    upload: UploadId,
    seen: VersionedUpload,
    parts: Sequence[Part],
    digest: bytes,
    check: Check,
) -> VersionedUpload:
    """The record with a plan for these parts, which is made if there is none."""
    for _ in range(limits.conditional_round_count_max):
        if seen.upload.entry:
            if seen.upload.parts != digest:
                raise Conflict("another call has begun to join other parts of this upload")
            check(seen.upload, decode_entry(seen.upload.entry))
            return seen
        try:
            entry = _entry(repo, seen.upload, parts)
        except NotFound:  # discarded, or joined by another call, which has recorded its plan
            seen = _find(repo, upload)
            if seen.upload.entry:
                continue
            raise
        check(seen.upload, entry)
        # As long as the plan: a repetition may stage the object until the upload expires.
        expires_ns = seen.upload.created_ns + limits.multipart_upload_seconds * limits.SECOND_NS
        note = UploadAddress(seen.upload.branch, upload.path, expires_ns)
        issued.put(repo.kv, repo.record, seen.upload.address, note, repo.ids.stamp())
        plan = seen.upload._replace(entry=encode_entry(entry), parts=digest)
        swapped = multiparts.swap(repo.kv, repo.record, seen, plan, repo.ids.stamp())
        if swapped is not ABSENT:
            return swapped
        seen = _find(repo, upload)
    raise OutcomeUnknown("completion of an upload kept losing to other calls")


def _entry(repo: OpenRepository, seen: MultipartUpload, parts: Sequence[Part]) -> Entry:
    """The entry of the joined object.  Raises `Invalid`, `NotFound`."""
    try:
        stored = {part.number: part for part in _all_parts(repo, seen)}
    except NotFound as error:
        raise unknown(seen.id) from error
    sizes = []
    for part in parts:
        known = stored.get(part.number)
        if known is None or known.etag != part.etag:
            text = f"part was not uploaded with this etag: number={part.number}"
            raise Invalid(text, Code.PART_INVALID)
        sizes.append(known.size)
    if min(sizes[:-1], default=limits.multipart_part_bytes_min) < limits.multipart_part_bytes_min:
        least = limits.multipart_part_bytes_min
        text = f"every part but the last must have {least} bytes or more"
        raise Invalid(text, Code.PART_TOO_SMALL)
    if sum(sizes) > limits.object_size_bytes_max:
        text = f"object exceeds {limits.object_size_bytes_max} bytes"
        raise Invalid(text, Code.OBJECT_TOO_LARGE)
    return Entry(
        seen.address,
        sum(sizes),
        joined_checksum([part.etag for part in parts]),
        repo.clock.now_ns(),
        dict(seen.metadata),
        content_type=seen.content_type,
    )


def joined_checksum(etags: Sequence[str]) -> str:
    """The checksum of an object that was joined from parts with these etags.  Pure.

    An etag that is no MD5, as some encrypted buckets give, counts as text.
    """
    digest = hashlib.md5(usedforsecurity=False)
    for etag in etags:
        digest.update(bytes.fromhex(etag) if _MD5.fullmatch(etag) else etag.encode())
    return f"{digest.hexdigest()}-{len(etags)}"


def _all_parts(repo: OpenRepository, seen: MultipartUpload) -> Iterator[StoredPart]:
    after, more = 0, True
    while more:
        lines, more = repo.blocks.list_parts(
            _full(repo, seen), seen.store_id, after, limits.part_page_count_max
        )
        yield from lines
        after = lines[-1].number if lines else limits.multipart_parts_count_max


def _join(
    repo: OpenRepository, planned: VersionedUpload, parts: Sequence[Part]
) -> tuple[VersionedUpload, int]:
    """Join the parts, unless an earlier call has.  Returns the record, which another call may have
    completed, and the time of the object.

    While the plan stands, a request whose answer was lost is sent again.
    """
    seen = planned.upload
    full = _full(repo, seen)
    is_repeated = False
    while True:
        try:
            head = repo.blocks.complete_upload(full, seen.store_id, tuple(parts))
            return planned, head.modified_ns
        except (Invalid, NotFound, OutcomeUnknown) as error:
            earlier = multipart.joined(repo, full)
            if earlier is not ABSENT:
                # A join of a plan that was withdrawn may have landed late, with other parts.
                if earlier.size != decode_entry(seen.entry).size:
                    raise unknown(seen.id) from error
                return present(repo, planned), earlier.modified_ns
            if isinstance(error, Invalid):  # a part was replaced since the plan was made
                unplanned = seen._replace(entry=b"", parts=b"")
                multiparts.swap(repo.kv, repo.record, planned, unplanned, repo.ids.stamp())
                text = f"parts cannot be joined: {error}"
                raise Invalid(text, Code.PART_INVALID) from error
            if isinstance(error, NotFound):
                raise unknown(seen.id) from error
            if is_repeated:
                raise
            is_repeated = True


# ---- abort ---------------------------------------------------------------------------------------


def abort(repo: OpenRepository, upload: UploadId) -> None:
    """Discard an upload and its parts.

    If `complete` runs meanwhile, one of the two calls gets `NotFound`.
    Errors: `NotFound` for an upload that is unknown or completed; `Invalid`; `Contended`.
    Cost: 3 KV requests and 1 block request.
    """
    seen: VersionedUpload | Literal[Absent.ABSENT] = _find(repo, upload)
    for _ in range(limits.conditional_round_count_max):
        if seen is ABSENT:
            return
        if seen.upload.completed_ns:
            raise unknown(upload.id)
        discard(repo, seen)
        multiparts.forget(repo.kv, repo.record, [seen])  # stays if `complete` has changed it
        seen = _record(repo, upload)
    raise Contended("upload not aborted: its record kept changing; try again")


def discard(repo: OpenRepository, seen: VersionedUpload) -> None:
    """Discard the parts of an upload that is not completed, if the object store still has them.

    1 block request.
    """
    if not seen.upload.completed_ns:
        with suppress(NotFound):
            repo.blocks.abort_upload(_full(repo, seen.upload), seen.upload.store_id)


def _record(repo: OpenRepository, upload: UploadId) -> VersionedUpload | Literal[Absent.ABSENT]:
    branch = BranchId(upload.branch)
    return multiparts.find(repo.kv, repo.record, branch, upload.path, upload.id)


def _find(repo: OpenRepository, upload: UploadId) -> VersionedUpload:
    parse_branch_id(upload.branch)
    parse_path(upload.path)
    seen = _record(repo, upload)
    if seen is ABSENT or is_over(repo, seen.upload):
        raise unknown(upload.id)
    return seen


def _digest(parts: Sequence[Part]) -> bytes:
    text = "".join(f"{part.number}:{part.etag}\n" for part in parts)
    return hashlib.sha256(text.encode()).digest()


def _full(repo: OpenRepository, upload: MultipartUpload) -> str:
    return address.join(repo.namespace, upload.address)
