"""More verbs of simulated clients: replays, imports, upload addresses, bulk deletion, metadata.

For `calls.py`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from graveler.block.adapter import CREATE, OVERWRITE, PutMode
from graveler.engine import imports
from graveler.engine.commits import merge
from graveler.engine.objects import addresses, copies, write
from graveler.errors import (
    OUTCOME_UNKNOWN,
    DirtyBranch,
    GravelerError,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
)
from graveler.records import JobState
from simulator.schedule import Call
from simulator.stage import SOURCE
from simulator.verbs.arrivals import ARRIVAL_VERBS
from simulator.verbs.bulk import BULK_VERBS
from simulator.verbs.gates import GATE_VERBS
from simulator.verbs.heads import HEAD_VERBS
from simulator.verbs.names import NAME_VERBS
from simulator.verbs.uploads import UPLOAD_VERBS

LATE = "the second link was refused"
DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"  # of one of many uploads


def revert(client: Any, call: Call) -> str:
    """Undo `base`, which changed only r1."""
    request = merge.ReplayRequest("sim")
    ref = client.stage.base
    return merge.revert(client.opened, call.branch, ref, request).id


def cherry_pick(client: Any, call: Call) -> str:
    """Apply the change of `other` again: m1 and m2."""
    request = merge.ReplayRequest("sim")
    ref = client.stage.other
    return merge.cherry_pick(client.opened, call.branch, ref, request).id


def import_(client: Any, call: Call) -> str:
    """Import two objects below i/, in place of what is there."""
    repo = client.opened
    paths = (imports.ImportPath("common_prefix", SOURCE, "i/"),)
    request = imports.ImportRequest(paths, "import", "sim")
    job = imports.submit(repo, call.branch, request, owner=b"sim")
    imports.run(repo, job.branch, request, job.id)
    ended = imports.status(repo, job.id)
    if ended.state is JobState.DONE:
        return ended.commit
    if OUTCOME_UNKNOWN in ended.error:  # it may also name the last refusal
        raise OutcomeUnknown(ended.error)
    if "dirty branch" in ended.error:
        raise DirtyBranch(ended.error)
    if "not found" in ended.error:
        raise NotFound(ended.error)
    raise OutcomeUnknown(ended.error or "the job never ended")


def upload(client: Any, call: Call) -> None:
    """Upload bytes through the service; the value of the path is then their checksum."""
    key, value = call.arguments
    body = write.Upload([value.encode()])
    write.upload(client.opened, call.branch, key, body)


def upload_many(client: Any, call: Call) -> tuple[str, ...]:
    """Upload several objects together; the value of a path is then the checksum of its body.

    The arguments are paths and values in turn.  Returns how each upload ended.
    """
    sent = [
        write.NewUpload(client.opened, call.branch, key, write.Upload([value.encode()]))
        for key, value in pairs(call)
    ]
    return tuple(map(_end, write.upload_many(sent)))


def pairs(call: Call) -> Iterator[tuple[str, str]]:
    """The paths and values of `upload_many`."""
    return zip(call.arguments[::2], call.arguments[1::2], strict=True)


def _end(result: object) -> str:
    if isinstance(result, OutcomeUnknown):
        return UNKNOWN
    return REFUSED if isinstance(result, GravelerError) else DONE


def link(client: Any, call: Call) -> str:
    """Ask for an address, link it, and link it again, like a client that lost the first answer."""
    return _link(client, call, OVERWRITE)


def link_only(client: Any, call: Call) -> str:
    """The same, only while the path is absent; the second link may come too late."""
    return _link(client, call, CREATE)


def _link(client: Any, call: Call, mode: PutMode) -> str:
    repo, (key, value) = client.opened, call.arguments
    address = addresses.hand_out(repo, call.branch, key)
    repo.blocks.put(address, [value.encode()])
    asked = addresses.Link(address, value, len(value), mode=mode)
    addresses.link(repo, call.branch, key, asked)
    try:
        addresses.link(repo, call.branch, key, asked)
    except PreconditionFailed:
        return LATE
    return "twice"


def delete_many(client: Any, call: Call) -> tuple[str, ...]:
    """Delete several paths; return those that could not be deleted."""
    failed = write.delete_many(client.opened, call.branch, call.arguments)
    return tuple(each.path for each in failed)


def note(client: Any, call: Call) -> None:
    """Set user metadata; the rest of the entry stays."""
    key, number = call.arguments
    copies.set_user_metadata(client.opened, call.branch, key, {"n": number})


MORE_VERBS: dict[str, Callable[[Any, Call], Any]] = {
    "revert": revert,
    "pick": cherry_pick,
    "import": import_,
    "upload": upload,
    "upload_many": upload_many,
    "link": link,
    "link_only": link_only,
    "delete_many": delete_many,
    "note": note,
    **NAME_VERBS,
    **HEAD_VERBS,
    **BULK_VERBS,
    **ARRIVAL_VERBS,
    **GATE_VERBS,
    **UPLOAD_VERBS,
}
