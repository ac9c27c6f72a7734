"""Endpoints of summaries: counts and bytes of objects, or of differences, for each child."""

from collections.abc import Mapping
from typing import Any

from graveler.api import answers
from graveler.api.answers import Answer
from graveler.api.service import Call
from graveler.engine.commits import summary
from graveler.engine.commits.summary import SummaryLine, SummaryPage, SummaryQuery


def summarize_objects(call: Call) -> Answer:
    page = summary.objects(call.repo, call.arguments["ref"], _query(call))
    results = [_objects(line, sizes=call.query["sizes"]) for line in page.lines]
    return _answer(page, results, {"commit_id": page.right})


def summarize_diff(call: Call) -> Answer:
    left, right = call.arguments["leftRef"], call.arguments["rightRef"]
    three_dot = call.query["type"] == "three_dot"
    page = summary.differences(call.repo, left, right, _query(call), three_dot=three_dot)
    compared = {"left_commit_id": page.left, "right_commit_id": page.right}
    return _answer(page, _differences(call, page), compared)


def summarize_uncommitted(call: Call) -> Answer:
    page = summary.uncommitted(call.repo, call.arguments["branch"], _query(call))
    return _answer(page, _differences(call, page), {"left_commit_id": page.left})


def _query(call: Call) -> SummaryQuery:
    query = call.query
    return SummaryQuery(
        query["prefix"], query["delimiter"], query["after"], call.amount, query["sizes"]
    )


def _answer(page: SummaryPage, results: list[dict[str, Any]], commits: Mapping[str, str]) -> Answer:
    shape = {
        **commits,
        "complete": not page.following,
        "results": results,
        "pagination": answers.pagination(len(results), page.following),
    }
    return answers.json(shape)


def _objects(line: SummaryLine, *, sizes: bool) -> dict[str, Any]:
    shape: dict[str, Any] = {"path": line.path, "objects": line.added}
    if sizes:
        shape["size_bytes"] = line.bytes_added
    return shape


def _differences(call: Call, page: SummaryPage) -> list[dict[str, Any]]:
    lines = [line._asdict() for line in page.lines]
    if not call.query["sizes"]:
        for line in lines:
            del line["bytes_added"], line["bytes_removed"]
    return lines
