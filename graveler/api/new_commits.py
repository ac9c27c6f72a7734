"""Endpoints of commit and merge.  Long ones are handed to the worker.

The endpoints of revert and cherry-pick are in `commits.py`; they always run in the request.
"""

from graveler.api import answers, shapes
from graveler.api.answers import Answer
from graveler.api.service import Call
from graveler.engine.commits import commit as commits
from graveler.engine.commits import merge
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.commits.merge import MergeRequest
from graveler.engine.commits.records import commit_of
from graveler.engine.ports import OpenRepository
from graveler.jobs.handover import attend
from graveler.jobs.orders import commit_asked, merge_asked
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, CommitEntry


def commit(call: Call) -> Answer:
    request, force = commit_request(call), call.body.get("force", False)
    branch = call.arguments["branch"]

    def direct(repo: OpenRepository) -> CommitEntry:
        return commits.commit(repo, branch, request, force=force)

    order = commit_asked(branch, request, force=force)
    entry = attend(call.desk, order, call.due, direct)
    return answers.json(shapes.commit(entry), 201)


def commit_request(call: Call) -> CommitRequest:
    """The commit that the HTTP request asks for."""
    body = call.body
    return CommitRequest(
        message=body["message"],
        committer=call.committer,
        metadata=body.get("metadata", {}),
        allow_empty=body.get("allow_empty", False),
        source_metarange=call.query["source_metarange"],
        created_ns=body["date"] * SECOND_NS if "date" in body else ABSENT,
    )


def merge_into_branch(call: Call) -> Answer:
    request, force = merge_request(call), call.body.get("force", False)
    source, branch = call.arguments["sourceRef"], call.arguments["destinationBranch"]

    def direct(repo: OpenRepository) -> CommitEntry:
        merged = merge.merge(repo, source, branch, request, force=force)
        return CommitEntry(merged, commit_of(repo, merged))

    order = merge_asked(source, branch, request, force=force)
    entry = attend(call.desk, order, call.due, direct)
    return answers.json({"reference": entry.id})


def merge_request(call: Call) -> MergeRequest:
    """The merge that the HTTP request asks for."""
    body = call.body
    return MergeRequest(
        committer=call.committer,
        message=body.get("message", ""),
        metadata=body.get("metadata", {}),
        strategy=body.get("strategy", ""),
        resolutions=body.get("resolutions", {}),
        squash=body.get("squash_merge", False),
        allow_empty=body.get("allow_empty", False) or body.get("force", False),
    )
