"""Commits, merges and dumps that are asked for without waiting.  For the service."""

from dataclasses import replace

from graveler.engine.commits.merge import message, parse_strategy
from graveler.engine.commits.messages import check_message, check_metadata
from graveler.engine.commits.records import fresh, head_of
from graveler.engine.ports import check_writable
from graveler.ids import BranchId
from graveler.jobs.handover import Desk, begin, newest, submit
from graveler.jobs.orders import COMMIT, DUMP, MERGE, Asked
from graveler.records import ABSENT, Job, JobState
from graveler.staging import area


def ask(desk: Desk, asked: Asked) -> Job:
    """Note a job and hand it to the worker; the running one of the same request, if there is one
    that holds what this one would hold.

    A merge is one of the commit that its source is now.  Errors: `Invalid`, `Refused`, `NotFound`,
    `Unavailable`.  Cost: 3 KV requests and a message, a merge's source 1 more.
    """
    check_writable(desk.repo, asked.said["force"])
    check_message(asked.said["message"])
    check_metadata(asked.said["metadata"])
    if asked.kind == MERGE:
        asked = _settled(desk, asked)
    known = newest(desk, asked)
    if known is not ABSENT and not known.ended and known.kind == COMMIT:
        branch = fresh(desk.ports, desk.repo, BranchId(known.branch)).branch
        if not area.is_empty(desk.ports.kv, branch.staging, desk.ports.fanout):
            return begin(desk, asked, known)
    return submit(desk, asked, known)


def ask_dump(desk: Desk) -> Job:
    """Note a dump and hand it to the worker; the one that waits for a worker, if there is one.

    One that runs is not joined: it may have read a branch that has moved on before this was asked.
    Errors: `NotFound`, `Unavailable`.  Cost: 2 KV requests and a message.
    """
    asked = Asked(DUMP)
    known = newest(desk, asked)
    if known is not ABSENT and known.state is JobState.LANDING:
        return begin(desk, asked, known)
    return submit(desk, asked, known)


def _settled(desk: Desk, asked: Asked) -> Asked:
    """A merge whose source cannot move, and that says what it was called."""
    parse_strategy(asked.said["strategy"])
    source = asked.said["source"]
    said = asked.said["message"] or message(source, asked.branch)
    theirs = head_of(desk.ports, desk.repo, source).id
    return replace(asked, said={**asked.said, "source": theirs, "message": said})
