"""Uploads in parts: through the service, with a record that survives it, or by signed URLs.

    begin ──► put_part, copy_part ──► complete: 1 plan  2 join  3 stage the row, once ──► done
                                      abort: discard the parts, remove the record
A crash between joining and staging leaves an object for garbage collection; a repeated completion
finds it and stages it.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from graveler.block import address
from graveler.block.adapter import OVERWRITE, ObjectHead, Part, PartOf, PartPage, StoredPart
from graveler.core import limits
from graveler.core.errors import (
    Code,
    Conflict,
    Contended,
    Gone,
    GravelerError,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Refused,
)
from graveler.core.ids import BranchId, parse_branch_id, parse_path
from graveler.core.records import (
    ABSENT,
    Absent,
    Entry,
    MultipartUpload,
    Staged,
    UploadAddress,
    Versioned,
)
from graveler.core.wire import decode_entry, encode_entry
from graveler.engine import protection
from graveler.engine.commits.heads import fresh
from graveler.engine.objects import addresses, read, write
from graveler.engine.objects.addresses import Link
from graveler.engine.objects.copies import CopySource
from graveler.engine.objects.read import check_size
from graveler.engine.objects.rows import Condition, WriteState, check_mode, check_target, path_state
from graveler.engine.objects.write import DEFAULT_CONTENT_TYPE, Description
from graveler.engine.ports import (
    OpenRepository,
    Ports,
    UnconfirmedWrite,
    check_writable,
    operation_deadline,
)
from graveler.kv.store import Matches
from graveler.refs import branches, uploads
from graveler.refs import uploads as issued
from graveler.refs.uploads import ChecksumRow, PartChecksum, VersionedUpload
from graveler.staging import area

_ID_LENGTH: Final = 20
_MD5: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
# An upload expires 7 days after it began; a completed one is remembered for 24 hours more.
_KEPT_SECONDS: Final = limits.multipart_upload_seconds + limits.multipart_upload_keep_seconds
_ID: Final = re.compile(r"[0-9a-v]{20}", re.ASCII)
_AFTER_IDS: Final = "~"  # sorts behind every id


class SignedUpload(NamedTuple):
    """An upload: the full address, and the upload id of the object store."""

    address: str
    id: str


class NewSignedUpload(NamedTuple):
    """A new upload, and the URLs of its parts 1 … n."""

    upload: SignedUpload
    urls: tuple[str, ...]


class SignedFinish(NamedTuple):
    """The parts to join, and the description of the object.

    `content_type`: empty means `application/octet-stream`.  `mode`: the condition of the write.
    """

    upload: SignedUpload
    parts: tuple[Part, ...]
    content_type: str = ""
    metadata: Mapping[str, str] = {}
    mode: Condition = OVERWRITE


def begin_signed(repo: OpenRepository, branch: str, path: str, count: int) -> NewSignedUpload:
    """Start an upload for `path`, with URLs for `count` parts.

    Errors: `Invalid`, `NotFound` (branch), `Refused`, `Unsupported` (the store cannot sign URLs of
    parts).  After an error the upload is aborted, if the store answers.
    Cost: 1 KV request, and 1 if the branch is not cached; 1 block request.
    """
    check_writable(repo.record, False)
    count_max = limits.multipart_parts_count_max
    if not 0 <= count <= count_max:
        raise Invalid(f"parts can be between 0 and {count_max}")
    full = addresses.hand_out(repo, branch, path)
    upload = SignedUpload(full, repo.blocks.create_upload(full))
    try:
        urls = [_part_url(repo, full, upload.id, number) for number in range(1, max(count, 1) + 1)]
    except BaseException:
        with suppress(GravelerError):
            repo.blocks.abort_upload(full, upload.id)
        raise
    return NewSignedUpload(upload, tuple(urls[:count]))


def signed_part_url(
    repo: OpenRepository, branch: str, path: str, upload: SignedUpload, number: int
) -> str:
    """A signed URL to send part `number` to.  Errors: `Invalid`.  Cost: 1 KV request."""
    relative = addresses.check_address(repo, branch, path, upload.address)
    full = address.join(repo.namespace, relative)
    return _part_url(repo, full, upload.id, number)


class PartSource(NamedTuple):
    """The bytes `start` to `end` (excluded) of an entry, and the repository that has the entry."""

    repo: OpenRepository
    entry: Entry
    start: int
    end: int


def copy_signed_part(
    repo: OpenRepository,
    branch: str,
    path: str,
    upload: SignedUpload,
    number: int,
    source: PartSource,
) -> Part:
    """Copy bytes of an object into part `number`.  The call may be repeated.

    Errors: `Invalid`, also for more than `part_copy_bytes_max` bytes; `NotFound` for an
    unknown upload; `Refused`; those of `read.open_body`.
    Cost: 1 KV request, and 2 block requests.
    """
    check_writable(repo.record, False)
    relative = addresses.check_address(repo, branch, path, upload.address)
    size_max = repo.settings.part_copy_bytes_max
    if source.end - source.start > size_max:
        raise Invalid(f"part too long to copy: at most {size_max} bytes; name a range")
    body = read.open_body(source.repo, source.entry, source.start, source.end)
    full = address.join(repo.namespace, relative)
    return repo.blocks.put_part(full, upload.id, number, body.chunks)


def finish_signed(
    repo: OpenRepository, branch: str, path: str, order: SignedFinish, *, force: bool = False
) -> Entry:
    """Join the parts and stage `path` with the object.  The call may be repeated.

    Errors: `Invalid` for an address that was not handed out for this path or has expired, and for
    parts that differ from the uploaded ones (the upload remains, to be finished or given up);
    `NotFound` for an unknown upload; and those of `write.stage`.
    Cost: 1 KV request, those of a write, and 2 block requests.
    """
    name, _ = check_target(repo, branch, path, force=force)
    relative, upload = addresses.check_address(repo, name, path, order.upload.address), order.upload
    write.check_branch(repo, name)
    try:
        head, _ = _join(repo, address.join(repo.namespace, relative), upload.id, order.parts)
    except NotFound as error:
        raise NotFound(f"upload not found: upload_id={upload.id[:200]}") from error
    now_ns = max(repo.clock.now_ns(), head.modified_ns)
    link = Link(upload.address, head.etag, head.size, order.content_type, order.metadata, now_ns)
    entry = addresses.described_link(repo, link, relative)
    return write.stage(repo, branch, path, entry, order.mode, force=force)


def abort_signed(repo: OpenRepository, branch: str, path: str, upload: SignedUpload) -> None:
    """Discard the upload and its parts, even if the address has expired.  The call may be repeated.

    Errors: `Invalid`; `NotFound` for an upload that was finished.
    Cost: 1 block request, 2 if the upload is not known.
    """
    relative = addresses.check_signature(repo, branch, path, upload.address)
    full = address.join(repo.namespace, relative)
    try:
        repo.blocks.abort_upload(full, upload.id)
    except NotFound as error:
        if _joined_head(repo, full) is not ABSENT:
            raise NotFound(f"upload was finished: upload_id={upload.id[:200]}") from error


def _join(ports: Ports, full: str, store_id: str, parts: Sequence[Part]) -> tuple[ObjectHead, bool]:
    """Join the parts; the head of the object, and whether this call has joined it for certain.

    An object that already exists was joined by an earlier attempt whose answer was lost, because no
    other path has this address.  So the request to join may be sent twice.
    """
    is_repeated = False
    while True:
        try:
            return ports.blocks.complete_upload(full, store_id, tuple(parts)), True
        except (Invalid, NotFound, OutcomeUnknown) as error:
            earlier = _joined_head(ports, full)
            if earlier is not ABSENT:
                return earlier, False
            if is_repeated or not isinstance(error, OutcomeUnknown):
                raise
            is_repeated = True


def _joined_head(ports: Ports, full: str) -> ObjectHead | Literal[Absent.ABSENT]:
    """The object that an earlier attempt has joined at the address of an upload.  1 block
    request."""
    try:
        return ports.blocks.head(full)
    except NotFound:
        return ABSENT


def _part_url(ports: Ports, full: str, upload_id: str, number: int) -> str:
    seconds = limits.presign_seconds_max
    return ports.blocks.presign(full, "PUT", seconds, "", PartOf(upload_id, number)).url


Check = Callable[[MultipartUpload, Entry], None]


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
    name, key = check_target(repo, branch, path)
    about = Description() if description is ABSENT else description
    write.check_described(about.metadata, about.content_type)
    write.check_storage_class(storage_class)
    id = repo.ids.unique(_ID_LENGTH)
    if not uploads.fits(name, path, id):
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
    uploads.put(repo.kv, repo.record, upload, repo.ids.stamp())
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
        raise _unknown(upload.id) from error


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
    bytes_at = read.address_of(source.repo, source.entry)
    part = PartOf(seen.store_id, number)
    try:
        check_size(source.repo, source.entry, bytes_at, repo.blocks.head(bytes_at).size)
        return repo.blocks.copy_part(part, _full(repo, seen), bytes_at, start, end)
    except NotFound as error:
        if _joined_head(repo, bytes_at) is not ABSENT:
            raise _unknown(upload.id) from error
        raise Gone(f"no data: path={source.path}") from error


def find(repo: OpenRepository, upload: UploadId) -> MultipartUpload:
    """The record of an upload that takes parts.  Raises `NotFound`, `Invalid`.  1 KV request."""
    seen = _find(repo, upload).upload
    if seen.completed_ns:
        raise _unknown(upload.id)
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
        raise _unknown(upload.id) from error


# ---- complete ------------------------------------------------------------------------------------


def complete(
    repo: OpenRepository,
    upload: UploadId,
    parts: Sequence[Part],
    mode: Condition = OVERWRITE,
    check: Check = lambda upload, entry: None,
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
        if seen.upload.parts != digest:
            raise _unknown(upload.id)
        check(seen.upload, decode_entry(seen.upload.entry))
        return decode_entry(seen.upload.entry)
    write.check_branch(repo, seen.upload.branch)
    planned = _planned(repo, upload, seen, parts, digest, check)
    joined, joined_ns = planned, 0
    if not planned.upload.completed_ns:
        joined, joined_ns = _join_planned(repo, planned, parts)
    if joined.upload.completed_ns:  # another call has staged it, and newer writes may stand over it
        return decode_entry(joined.upload.entry)
    return _stage_once(repo, joined, mode, joined_ns)


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
        issued.put_address(repo.kv, repo.record, seen.upload.address, note, repo.ids.stamp())
        plan = seen.upload._replace(entry=encode_entry(entry), parts=digest)
        swapped = uploads.swap(repo.kv, repo.record, seen, plan, repo.ids.stamp())
        if swapped is not ABSENT:
            return swapped
        seen = _find(repo, upload)
    raise OutcomeUnknown("completion of an upload kept losing to other calls")


def _entry(repo: OpenRepository, seen: MultipartUpload, parts: Sequence[Part]) -> Entry:
    """The entry of the joined object.  Raises `Invalid`, `NotFound`."""
    try:
        stored = {part.number: part for part in _all_parts(repo, seen)}
    except NotFound as error:
        raise _unknown(seen.id) from error
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


def _join_planned(
    repo: OpenRepository, planned: VersionedUpload, parts: Sequence[Part]
) -> tuple[VersionedUpload, int]:
    """Join the parts, unless an earlier call has.  Returns the record, which another call may have
    completed, and the time of the object."""
    seen = planned.upload
    try:
        head, is_ours = _join(repo, _full(repo, seen), seen.store_id, parts)
    except Invalid as error:  # a part was replaced since the plan was made
        unplanned = seen._replace(entry=b"", parts=b"")
        uploads.swap(repo.kv, repo.record, planned, unplanned, repo.ids.stamp())
        raise Invalid(f"parts cannot be joined: {error}", Code.PART_INVALID) from error
    except NotFound as error:
        raise _unknown(seen.id) from error
    if is_ours:
        return planned, head.modified_ns
    # A join of a plan that was withdrawn may have landed late, with other parts.
    if head.size != decode_entry(seen.entry).size:
        raise _unknown(seen.id)
    return _present(repo, planned), head.modified_ns


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
            raise _unknown(upload.id)
        discard(repo, seen)
        uploads.forget(repo.kv, repo.record, [seen])  # stays if `complete` has changed it
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
    return uploads.find(repo.kv, repo.record, branch, upload.path, upload.id)


def _find(repo: OpenRepository, upload: UploadId) -> VersionedUpload:
    parse_branch_id(upload.branch)
    parse_path(upload.path)
    seen = _record(repo, upload)
    if seen is ABSENT or is_over(repo, seen.upload):
        raise _unknown(upload.id)
    return seen


def _digest(parts: Sequence[Part]) -> bytes:
    text = "".join(f"{part.number}:{part.etag}\n" for part in parts)
    return hashlib.sha256(text.encode()).digest()


def _full(repo: OpenRepository, upload: MultipartUpload) -> str:
    return address.join(repo.namespace, upload.address)


def _stage_once(
    repo: OpenRepository, planned: VersionedUpload, mode: Condition, joined_ns: int
) -> Entry:
    """Stage the planned entry and record the completion in one step, unless another call has."""
    now_ns = max(repo.clock.now_ns(), joined_ns)
    entry = decode_entry(planned.upload.entry)._replace(modified_ns=now_ns)
    deadline, is_unknown = operation_deadline(repo), False
    with UnconfirmedWrite("completion of an upload") as unconfirmed:
        for _ in range(limits.conditional_round_count_max):
            deadline.check("completion of an upload")
            try:
                upload = planned.upload._replace(entry=encode_entry(entry))
                planned = planned._replace(upload=upload)
                if _attempt_stage(repo, planned, mode, is_unknown=is_unknown):
                    return entry
            except OutcomeUnknown:
                is_unknown = True
                unconfirmed.mark_unconfirmed()
            except (Refused, NotFound) as error:
                if not is_unknown:
                    raise
                # What refuses this attempt may have come after the one without an answer.
                raise OutcomeUnknown("completion of an upload not confirmed") from error
            planned = _present(repo, planned)
            if planned.upload.completed_ns:
                return decode_entry(planned.upload.entry)
    if is_unknown:
        raise OutcomeUnknown("completion of an upload not confirmed; outcome unknown")
    raise Contended("completion of an upload kept losing to other writers; try again")


def _attempt_stage(
    repo: OpenRepository, planned: VersionedUpload, mode: Condition, *, is_unknown: bool
) -> bool:
    """One attempt: whether it is known to have staged the entry."""
    upload = planned.upload
    protection.check_staging(repo, upload.branch)
    seen = fresh(repo, upload.branch)
    if seen.branch.origin != upload.origin or is_over(repo, upload):
        raise _unknown(upload.id)
    try:
        row = _open_row(repo, seen, upload, mode)
    except (PreconditionFailed, NotFound) as error:
        if _present(repo, planned).upload.completed_ns:
            return False
        if is_unknown:  # it may have been that attempt whose row was found, and another one's since
            raise OutcomeUnknown("completion of an upload not confirmed") from error
        if fresh(repo, upload.branch).branch == seen.branch:
            raise
        return False
    return _put_completion(repo, seen, row, planned)


def _open_row(
    repo: OpenRepository, seen: Versioned, upload: MultipartUpload, mode: Condition
) -> Staged | Literal[Absent.ABSENT]:
    """The row of the path in the open token.  Raises the error of `mode` if it does not hold."""
    key = parse_path(upload.path)
    if mode is OVERWRITE:
        return area.lookup(repo.kv, (seen.branch.staging,), key)
    state = path_state(repo, seen, key, WriteState(b"", ABSENT, []))
    check_mode(upload.path, state.present, mode)
    return state.open_row


def _put_completion(
    repo: OpenRepository,
    seen: Versioned,
    row: Staged | Literal[Absent.ABSENT],
    planned: VersionedUpload,
) -> bool:
    """The step.  False: the row, the record or the branch has changed.  Raises `OutcomeUnknown`."""
    upload, now_ns, stamp = planned.upload, repo.clock.now_ns(), repo.ids.stamp()
    done = uploads.write_of(repo.record, upload._replace(completed_ns=now_ns), stamp)
    guard = area.Guard(branches.place(repo.record, upload.branch), seen.version)
    return area.stage_if(
        repo.kv,
        seen.branch.staging,
        parse_path(upload.path),
        upload.entry,
        seen=row,
        wid=stamp,
        version=stamp,
        order=now_ns // 1_000,
        other=area.Beside(Matches(planned.version), done, guard),
    )


def _present(repo: OpenRepository, planned: VersionedUpload) -> VersionedUpload:
    """The record as it is now, if it still has this plan.  Under another plan, the object at the
    address has other bytes.  Raises `NotFound`.  1 KV request."""
    upload = planned.upload
    now = uploads.find(repo.kv, repo.record, upload.branch, upload.path, upload.id)
    if now is ABSENT or now.upload.parts != upload.parts:
        raise _unknown(upload.id)
    return now


def is_over(repo: OpenRepository, upload: MultipartUpload) -> bool:
    """Whether an upload has expired: it takes no more parts, or its answer is forgotten.  Pure."""
    if upload.completed_ns:
        since_ns, seconds = upload.completed_ns, limits.multipart_upload_keep_seconds
    else:
        since_ns, seconds = upload.created_ns, limits.multipart_upload_seconds
    return repo.clock.now_ns() > since_ns + seconds * limits.SECOND_NS


def _unknown(id: str) -> NotFound:
    """The error for an upload that does not exist or takes no more requests."""
    return NotFound(
        f"upload not found: upload_id={id[:200]}", Code.UPLOAD_NOT_FOUND, upload_id=id[:200]
    )


class SharedChecksums(NamedTuple):
    """An algorithm, and the checksums of all parts, in the order of a completion."""

    algorithm: str
    checksums: Sequence[ChecksumRow]


def keep_checksum(
    repo: OpenRepository, upload: UploadId, part: Part, size: int, algorithm: str, text: str
) -> None:
    """Record the verified checksum of a part that was stored.  May be repeated.

    `size`: of the part in bytes.  `algorithm`: its name in lower case.  `text`: the checksum in
    Base64.  Cost: 1 KV request.
    """
    row = ChecksumRow(PartChecksum(part.number, part.etag, algorithm, text), size)
    expires_ns = repo.clock.now_ns() + _KEPT_SECONDS * limits.SECOND_NS
    uploads.put_checksum(repo.kv, repo.record, upload.id, row, expires_ns, repo.ids.stamp())


def check_checksums(repo: OpenRepository, upload: UploadId, stated: Sequence[PartChecksum]) -> None:
    """Raise `Invalid` (`PART_INVALID`) unless each stated checksum arrived with these bytes of its
    part.  So it is raised, too, if the part arrived without a checksum of this algorithm.

    `stated`: the checksums of a completion, in the form of `keep`.  `upload` exists.  Cost: no
    request if none is stated, else 1 KV request for each 1,000 parts that arrived with a checksum.
    """
    if not stated:
        return
    rows = uploads.checksums_of(repo.kv, repo.record, upload.id)
    arrived = {row.checksum for row in rows}
    for checksum in stated:
        if checksum not in arrived:
            text = f"part was not uploaded with this checksum: number={checksum.number}"
            raise Invalid(text, Code.PART_INVALID)


def checksums_of(
    repo: OpenRepository, upload: UploadId, parts: Sequence[Part], algorithm: str
) -> Sequence[ChecksumRow]:
    """The checksums that arrived with these parts, in the order of `parts`.

    Raises `Invalid` (`PART_INVALID`) for a part that arrived without a checksum of this algorithm.
    `upload` exists.  Cost: 1 KV request for each 1,000 parts that arrived with a checksum.
    """
    arrived = _arrived(repo, upload)
    for part in parts:
        if (algorithm, part) not in arrived:
            text = f"part was not uploaded with a checksum {algorithm}: number={part.number}"
            raise Invalid(text, Code.PART_INVALID)
    return [arrived[algorithm, part] for part in parts]


def shared_checksums(
    repo: OpenRepository, upload: UploadId, parts: Sequence[Part], algorithms: Collection[str]
) -> SharedChecksums | Literal[Absent.ABSENT]:
    """The first of `algorithms` of which all parts arrived with a checksum; `ABSENT` if there is
    none.  `upload` and cost: as for `of_parts`."""
    arrived = _arrived(repo, upload)
    for algorithm in algorithms:
        if all((algorithm, part) in arrived for part in parts):
            return SharedChecksums(algorithm, [arrived[algorithm, part] for part in parts])
    return ABSENT


def _arrived(repo: OpenRepository, upload: UploadId) -> Mapping[tuple[str, Part], ChecksumRow]:
    """What arrived with the parts of an upload, by algorithm and part."""
    arrived = {}
    for row in uploads.checksums_of(repo.kv, repo.record, upload.id):
        checksum = row.checksum
        arrived[checksum.algorithm, Part(checksum.number, checksum.etag)] = row
    return arrived


class UploadQuery(NamedTuple):
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
    records = uploads.list_all(repo.kv, repo.record, query.prefix, after)
    last = scanned = query.after, query.after_id
    for count, record in enumerate(records):
        if count >= scan_count_max:
            return UploadList(lines, True, *scanned)
        scanned = name_of(record.upload), record.upload.id
        line = _page_line(query, record.upload)
        if line is ABSENT or line in lines[-1:] or not _is_open(repo, record.upload):
            continue
        if len(lines) == query.amount:
            return UploadList(lines, True, *last)
        lines.append(line)
        last = (line, "") if isinstance(line, str) else scanned
    return UploadList(lines, False)


def _page_line(
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
