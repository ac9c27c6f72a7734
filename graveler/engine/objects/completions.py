"""The row of an upload in parts: staged once, in one step with the record of the upload.

    record: planned, version v ──┐
    row of the path, as read     ├──► record: completed; row: the planned entry     one step
    branch record, as read       ┘

Several calls may complete one upload: a client repeats its request while the first one is still at
work.  The step needs all three as they were read, and changes the first two.  So one call takes
effect, at one moment, and no other call ever stages the entry again, however late it comes.  If the
upload was aborted or has expired, its record is gone, and the step fails.  If the branch was
committed, moved or deleted meanwhile, the step fails and is tried again on the present record.

An upload is for the branch on which it began: another branch that has the name since is none of its
business.  Used by uploads.py.
"""

from typing import Literal

from graveler import limits
from graveler.block.adapter import OVERWRITE
from graveler.engine import protection
from graveler.engine.commits.heads import fresh
from graveler.engine.objects.stage import Condition, WriteState, check_mode, look
from graveler.engine.ports import OpenRepository, UnconfirmedWrite, operation_deadline
from graveler.errors import Code, Contended, NotFound, OutcomeUnknown, PreconditionFailed, Refused
from graveler.ids import parse_path
from graveler.kv.store import Matches
from graveler.records import ABSENT, Absent, Entry, MultipartUpload, Staged, Versioned
from graveler.refs.names import branches
from graveler.refs.tokens import multiparts
from graveler.refs.tokens.multiparts import VersionedUpload
from graveler.staging import area
from graveler.wire import decode_entry, encode_entry


def stage(repo: OpenRepository, planned: VersionedUpload, mode: Condition, joined_ns: int) -> Entry:
    """Stage the planned entry and record the completion, unless another call has; return the entry.

    The time of the entry is that of this call, and not before `joined_ns`, that of its bytes.
    Errors: `NotFound` for an upload that was aborted, has expired or has another plan now, and if
    the branch is not the one on which it began (`UPLOAD_NOT_FOUND`); those of a conditional write.
    Cost: 3 KV requests; with a condition, also the read of the path in the commit.
    """
    now_ns = max(repo.clock.now_ns(), joined_ns)
    entry = decode_entry(planned.upload.entry)._replace(modified_ns=now_ns)
    deadline, is_unknown = operation_deadline(repo), False
    with UnconfirmedWrite("completion of an upload") as unconfirmed:
        for _ in range(limits.conditional_round_count_max):
            deadline.check("completion of an upload")
            try:
                upload = planned.upload._replace(entry=encode_entry(entry))
                planned = planned._replace(upload=upload)
                if _attempt(repo, planned, mode, is_unknown=is_unknown):
                    return entry
            except OutcomeUnknown:
                is_unknown = True
                unconfirmed.mark_unconfirmed()
            except (Refused, NotFound) as error:
                if not is_unknown:
                    raise
                # What refuses this attempt may have come after the one without an answer.
                raise OutcomeUnknown("completion of an upload not confirmed") from error
            planned = present(repo, planned)
            if planned.upload.completed_ns:
                return decode_entry(planned.upload.entry)
    if is_unknown:
        raise OutcomeUnknown("completion of an upload not confirmed; outcome unknown")
    raise Contended("completion of an upload kept losing to other writers; try again")


def _attempt(
    repo: OpenRepository, planned: VersionedUpload, mode: Condition, *, is_unknown: bool
) -> bool:
    """One attempt: whether it is known to have staged the entry.  False also if another call has.

    `is_unknown`: an earlier attempt got no answer.  Raises `OutcomeUnknown` if this one got none,
    and the error of `mode` if it does not hold and no call has completed the upload.
    """
    upload = planned.upload
    protection.check_staging(repo, upload.branch)
    seen = fresh(repo, upload.branch)
    if seen.branch.origin != upload.origin or is_over(repo, upload):
        raise unknown(upload.id)
    try:
        row = _open_row(repo, seen, upload, mode)
    except (PreconditionFailed, NotFound) as error:
        if present(repo, planned).upload.completed_ns:
            return False
        if is_unknown:  # it may have been that attempt whose row was found, and another one's since
            raise OutcomeUnknown("completion of an upload not confirmed") from error
        if fresh(repo, upload.branch).branch == seen.branch:
            raise
        return False
    return _put(repo, seen, row, planned)


def _open_row(
    repo: OpenRepository, seen: Versioned, upload: MultipartUpload, mode: Condition
) -> Staged | Literal[Absent.ABSENT]:
    """The row of the path in the open token.  Raises the error of `mode` if it does not hold."""
    key = parse_path(upload.path)
    if mode is OVERWRITE:
        return area.lookup(repo.kv, (seen.branch.staging,), key)
    state = look(repo, seen, key, WriteState(b"", ABSENT, []))
    check_mode(upload.path, state.present, mode)
    return state.open_row


def _put(
    repo: OpenRepository,
    seen: Versioned,
    row: Staged | Literal[Absent.ABSENT],
    planned: VersionedUpload,
) -> bool:
    """The step.  False: the row, the record or the branch has changed.  Raises `OutcomeUnknown`."""
    upload, now_ns, stamp = planned.upload, repo.clock.now_ns(), repo.ids.stamp()
    done = multiparts.write_of(repo.record, upload._replace(completed_ns=now_ns), stamp)
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


def present(repo: OpenRepository, planned: VersionedUpload) -> VersionedUpload:
    """The record as it is now, if it still has this plan.  Under another plan, the object at the
    address has other bytes.  Raises `NotFound`.  1 KV request."""
    upload = planned.upload
    now = multiparts.find(repo.kv, repo.record, upload.branch, upload.path, upload.id)
    if now is ABSENT or now.upload.parts != upload.parts:
        raise unknown(upload.id)
    return now


def is_over(repo: OpenRepository, upload: MultipartUpload) -> bool:
    """Whether an upload has expired: it takes no more parts, or its answer is forgotten.  Pure."""
    if upload.completed_ns:
        since_ns, seconds = upload.completed_ns, limits.multipart_upload_keep_seconds
    else:
        since_ns, seconds = upload.created_ns, limits.multipart_upload_seconds
    return repo.clock.now_ns() > since_ns + seconds * limits.SECOND_NS


def unknown(id: str) -> NotFound:
    """The error for an upload that does not exist or takes no more requests."""
    return NotFound(
        f"upload not found: upload_id={id[:200]}", Code.UPLOAD_NOT_FOUND, upload_id=id[:200]
    )
