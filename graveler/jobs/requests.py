"""Jobs whose client does not wait for the result."""

from dataclasses import replace

from graveler.core.ids import parse_branch_id
from graveler.core.records import ABSENT, Job, JobState
from graveler.engine import restore
from graveler.engine.commits.heads import fresh
from graveler.engine.commits.merge import message, parse_resolutions, source_of
from graveler.engine.ports import check_message, check_metadata, check_writable
from graveler.engine.protection import check_commit
from graveler.jobs.handover import Scheduler, begin, newest, submit
from graveler.jobs.orders import COMMIT, DUMP, MERGE, JobRequest, restore_asked
from graveler.refs.lifecycle import DumpIds
from graveler.staging import area


def ask(scheduler: Scheduler, request: JobRequest) -> Job:
    """Record a job and enqueue it.

    If an equal request already has a running job that will contain what this request would contain,
    that job is returned instead.  A merge takes the commit that its source names now.

    Errors: `Invalid`, `Refused`, `NotFound`, `Unavailable`.  Cost: 3 KV requests and a message; 1
    KV request more to resolve the source of a merge, 2 of a squash merge.
    """
    check_writable(scheduler.repo.record, request.fields["force"])
    if request.kind == COMMIT:
        check_commit(scheduler.repo, parse_branch_id(request.branch))
    check_message(request.fields["message"])
    check_metadata(request.fields["metadata"])
    if request.kind == MERGE:
        request = _settled(scheduler, request)
    known = newest(scheduler, request)
    if known is not ABSENT and not known.ended and known.kind == COMMIT:
        branch = fresh(scheduler.repo, known.branch).branch
        if not area.is_empty(scheduler.repo.kv, branch.staging, scheduler.repo.fanout):
            return begin(scheduler, request, known)
    return submit(scheduler, request, known)


def ask_dump(scheduler: Scheduler) -> Job:
    """Record a dump and enqueue it; if a dump waits for a worker, return that one instead.

    A dump that already runs is not joined: it may have read a branch before that branch moved to
    what this request must contain.  Errors: `NotFound`, `Unavailable`.  Cost: 2 KV requests and a
    message.
    """
    request = JobRequest(DUMP)
    known = newest(scheduler, request)
    if known is not ABSENT and known.state is JobState.LANDING:
        return begin(scheduler, request, known)
    return submit(scheduler, request, known)


def ask_restore(scheduler: Scheduler, dump: DumpIds, *, force: bool) -> Job:
    """Record a restore of refs and enqueue it; if the same restore still runs, return that one.

    Errors: those of `restore.check_bare`.  Cost: that of `restore.check_bare`, 3 KV requests and a
    message.
    """
    request = restore_asked(dump, force=force)
    known = newest(scheduler, request)
    if known is ABSENT or known.ended:
        restore.check_bare(scheduler.repo, dump, force=force)
    return submit(scheduler, request, known)


def _settled(scheduler: Scheduler, request: JobRequest) -> JobRequest:
    """The merge with its source resolved to a commit, and with a message that names the original
    source.
    """
    parse_resolutions(request.fields["strategy"], request.fields.get("resolutions", {}))
    source = request.fields["source"]
    text = request.fields["message"] or message(source, request.branch)
    source_id = source_of(scheduler.repo, source, parse_branch_id(request.branch)).id
    return replace(request, fields={**request.fields, "source": source_id, "message": text})
