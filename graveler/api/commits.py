"""Endpoints of commits: get, create a record, log, diff, merge base, revert, cherry-pick."""

from datetime import UTC, datetime
from typing import Any

from graveler.api import answers, shapes
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call
from graveler.engine.commits import adopt, diff, log, merge_preview, replay
from graveler.engine.commits.adopt import NewCommitRecord
from graveler.engine.commits.diff import DiffPage, DiffQuery
from graveler.engine.commits.log import LogRequest
from graveler.engine.commits.merge_preview import ConflictVersions, PreviewQuery
from graveler.engine.commits.replay import ReplayRequest
from graveler.errors import Invalid
from graveler.ids import CommitId, MetarangeId
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, Commit


def get_commit(call: Call) -> Answer:
    entry = log.get_commit(call.repo, call.arguments["commitId"])
    return answers.json(shapes.commit(entry))


def create_commit_record(call: Call) -> Answer:
    body = call.body
    record = Commit(
        committer=body["committer"],
        message=body["message"],
        created_ns=body["creation_date"] * SECOND_NS,
        metarange=MetarangeId(body["metarange_id"]),
        metadata=body.get("metadata", {}),
        parents=tuple(CommitId(each) for each in body["parents"]),
        generation=body["generation"],
        version=body["version"],
    )
    new = NewCommitRecord(body["commit_id"], record)
    adopt.add_record(call.repo, new, force=body.get("force", False))
    return NO_CONTENT


def log_commits(call: Call) -> Answer:
    query = call.query
    request = LogRequest(
        after=query["after"],
        amount=call.amount,
        since_ns=_since(query["since"]),
        stop_at=query["stop_at"],
        first_parent=query["first_parent"],
        limit=query["limit"],
        objects=query["objects"],
        prefixes=query["prefixes"],
    )
    ref, author = call.arguments["ref"], query["author"]
    if author:
        page = log.log_by(call.repo, ref, request, author)
        authored = [shapes.commit(each) for each in page.entries]
        return answers.page(authored, bool(page.following), page.following)
    entries, more = log.log(call.repo, ref, request)
    results = [shapes.commit(each) for each in entries]
    return answers.page(results, more, entries[-1].id if entries else "")


def _since(text: str) -> int:
    """An RFC 3339 time in nanoseconds; 0 for an empty text."""
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        rule = "it must be a time as RFC 3339 writes it"
        raise Invalid(f'parameter "since" in query has an error: {rule}') from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * SECOND_NS))


def _diff_query(call: Call) -> DiffQuery:
    query = call.query
    return DiffQuery(query["prefix"], query["delimiter"], query["after"], call.amount)


def _diff_answer(page: DiffPage, *, right_stats: bool = False) -> Answer:
    results = [shapes.difference(line, right_stats=right_stats) for line in page.lines]
    return _difference_page(results, page)


def _difference_page(results: list[dict[str, Any]], page: DiffPage) -> Answer:
    return answers.page(results, page.more, page.lines[-1].path if page.lines else "")


def diff_branch(call: Call) -> Answer:
    """The diff of a branch's uncommitted changes.

    A staged deletion has size 0, as clients expect.  In a diff of refs, a deletion has the size of
    the deleted object.
    """
    page = diff.diff_branch(call.repo, call.arguments["branch"], _diff_query(call))
    results = [shapes.difference(line) for line in page.lines]
    for shape in results:
        if shape["type"] == "removed":
            shape["size_bytes"] = 0
    return _difference_page(results, page)


def diff_refs(call: Call) -> Answer:
    left, right = call.arguments["leftRef"], call.arguments["rightRef"]
    page = diff.diff_refs(
        call.repo, left, right, _diff_query(call), three_dot=call.query["type"] == "three_dot"
    )
    return _diff_answer(page, right_stats=call.query["include_right_stats"])


def preview_merge(call: Call) -> Answer:
    query = PreviewQuery(call.query["prefix"], call.query["after"], call.amount)
    source, destination = call.arguments["sourceRef"], call.arguments["destinationBranch"]
    page = merge_preview.preview(call.repo, source, destination, query)
    return answers.json(
        {
            "source_commit_id": page.source,
            "destination_commit_id": page.destination,
            "base_commit_id": page.base,
            "counts": page.counts,
            "complete": not page.following,
            "results": [_conflict(call, each) for each in page.conflicts],
            "pagination": answers.pagination(len(page.conflicts), page.following),
        }
    )


def _conflict(call: Call, conflict: ConflictVersions) -> dict[str, Any]:
    path, *versions = conflict
    shape: dict[str, Any] = {"path": path}
    for side, entry in zip(("base", "source", "destination"), versions, strict=True):
        if entry is not ABSENT:
            shape[side] = shapes.full_stats(call.repo.record, path, entry)
    return shape


def find_merge_base(call: Call) -> Answer:
    source, destination = call.arguments["sourceRef"], call.arguments["destinationBranch"]
    base = log.merge_base(call.repo, source, destination)
    return answers.json(
        {
            "source_commit_id": base.source,
            "destination_commit_id": base.destination,
            "base_commit_id": base.base,
        }
    )


def _replay(call: Call) -> ReplayRequest:
    body: dict[str, Any] = call.body
    overrides = body.get("commit_overrides", {})
    return ReplayRequest(
        committer=call.committer,
        parent_number=body.get("parent_number", 0),
        message=overrides.get("message", ""),
        metadata=overrides.get("metadata", ABSENT),
        allow_empty=body.get("allow_empty", False),
    )


def revert_branch(call: Call) -> Answer:
    body, branch = call.body, call.arguments["branch"]
    force = body.get("force", False)
    replay.revert(call.repo, branch, body["ref"], _replay(call), force=force)
    return NO_CONTENT


def cherry_pick(call: Call) -> Answer:
    body, branch = call.body, call.arguments["branch"]
    force = body.get("force", False)
    entry = replay.cherry_pick(call.repo, branch, body["ref"], _replay(call), force=force)
    return answers.json(shapes.commit(entry), 201)
