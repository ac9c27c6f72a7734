"""Operations of summaries: counts and bytes of objects, or of differences, for each child."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from graveler.api import answers
from graveler.api.answers import Answer, Pagination, Shape
from graveler.api.field_types import Integer
from graveler.api.operation import BRANCH, REF, REPO, REPO_ARN, operation
from graveler.api.queries import Paging
from graveler.api.service import Call
from graveler.auth.permissions import Permission
from graveler.engine.commits import diff
from graveler.engine.commits.diff import SummaryLine, SummaryPage, SummaryQuery

_MAY_LIST: Final = (Permission("fs:ListObjects", REPO_ARN),)


class SummaryPaging(Paging, frozen=True):
    """Which page of a summary, and what of each line."""

    delimiter: Annotated[
        str, Meta(description="paths that share a stem up to this become one line")
    ] = "/"
    sizes: Annotated[
        bool,
        Meta(description="sum up bytes too; without, ranges below one child are not read"),
    ] = True

    @property
    def lines(self) -> SummaryQuery:
        return SummaryQuery(self.prefix, self.delimiter, self.after, self.count, self.sizes)


class RefsSummaryPaging(SummaryPaging, frozen=True):
    """Which page of a summary of the differences of two refs."""

    type: Literal["two_dot", "three_dot"] = "three_dot"


class ObjectSummary(Shape, frozen=True):
    """The objects below a path."""

    path: str
    objects: Integer
    size_bytes: Integer | UnsetType = UNSET


class ObjectSummaryPage(Shape, frozen=True):
    """A page of a summary of objects."""

    commit_id: str
    complete: bool
    results: list[ObjectSummary]
    pagination: Pagination


class DiffSummary(Shape, frozen=True):
    """The differences below a path."""

    path: str
    added: Integer
    changed: Integer
    removed: Integer
    conflict: Integer
    bytes_added: Integer | UnsetType = UNSET
    bytes_removed: Integer | UnsetType = UNSET


class DiffSummaryPage(Shape, frozen=True, kw_only=True):
    """A page of a summary of differences."""

    left_commit_id: str
    right_commit_id: Annotated[str, Meta(description="Absent: what is uncommitted")] | UnsetType = (
        UNSET
    )
    complete: bool
    results: list[DiffSummary]
    pagination: Pagination


@operation(
    "summarizeObjects",
    "GET",
    REF + "/objects/summary",
    tag="graveler",
    permissions=_MAY_LIST,
    answers={200: ObjectSummaryPage},
)
def summarize_objects(call: Call, query: SummaryPaging) -> Answer:
    """Objects and bytes below each child of a prefix."""
    page = diff.sum_objects(call.repo, call.arguments["ref"], query.lines)
    results = [
        ObjectSummary(line.path, line.added, line.bytes_added if query.sizes else UNSET)
        for line in page.lines
    ]
    pagination = answers.pagination(len(results), page.following)
    shape = ObjectSummaryPage(page.right, not page.following, results, pagination)
    return answers.json(shape)


@operation(
    "summarizeDiff",
    "GET",
    REPO + "/refs/{leftRef}/diff/{rightRef}/summary",
    tag="graveler",
    permissions=_MAY_LIST,
    answers={200: DiffSummaryPage},
)
def summarize_diff(call: Call, query: RefsSummaryPaging) -> Answer:
    """Differences between two refs below each child of a prefix."""
    left, right = call.arguments["leftRef"], call.arguments["rightRef"]
    three_dot = query.type == "three_dot"
    page = diff.sum_differences(call.repo, left, right, query.lines, three_dot=three_dot)
    return _answer(page, query, page.right)


@operation(
    "summarizeUncommitted",
    "GET",
    BRANCH + "/diff/summary",
    tag="graveler",
    permissions=_MAY_LIST,
    answers={200: DiffSummaryPage},
)
def summarize_uncommitted(call: Call, query: SummaryPaging) -> Answer:
    """Uncommitted changes below each child of a prefix."""
    page = diff.sum_uncommitted(call.repo, call.arguments["branch"], query.lines)
    return _answer(page, query, UNSET)


def _answer(page: SummaryPage, query: SummaryPaging, right: str | UnsetType) -> Answer:
    shape = DiffSummaryPage(
        left_commit_id=page.left,
        right_commit_id=right,
        complete=not page.following,
        results=[_difference(line, sizes=query.sizes) for line in page.lines],
        pagination=answers.pagination(len(page.lines), page.following),
    )
    return answers.json(shape)


def _difference(line: SummaryLine, *, sizes: bool) -> DiffSummary:
    return DiffSummary(
        line.path,
        line.added,
        line.changed,
        line.removed,
        line.conflict,
        line.bytes_added if sizes else UNSET,
        line.bytes_removed if sizes else UNSET,
    )
