"""The operation that shows the graph of commits, in columns."""

from typing import Annotated

from msgspec import Meta

from graveler import limits
from graveler.api import answers, shapes
from graveler.api.answers import Answer, Pagination, Shape
from graveler.api.field_types import Integer
from graveler.api.operation import REPO, REPO_ARN, Query, operation
from graveler.api.service import Call
from graveler.auth.permissions import Permission
from graveler.engine.commits import log
from graveler.engine.commits.log import GraphQuery
from graveler.errors import Unsupported

_MOST = limits.graph_page_count_max
Heads = Annotated[
    tuple[str, ...],
    Meta(description="refs, 100 at most; without any, the default branch"),
]
Following = Annotated[str, Meta(description="next_offset of the page before; its heads count")]
Amount = Annotated[int, Meta(ge=1, le=_MOST, description="how many commits at most")]


class GraphPaging(Query, frozen=True):
    """Which page of the graph."""

    heads: Heads = ()
    after: Following = ""
    amount: Amount = _MOST


class GraphColumns(Shape, frozen=True):
    """One commit has the same index in all columns.  Each commit comes before its parents."""

    ids: list[str]
    parents: list[tuple[str, ...]]
    times: list[Integer]
    authors: list[str]
    subjects: list[str]
    generations: list[Integer]


class CommitGraph(Shape, frozen=True):
    """One page.  `heads`: the commits that the heads mean; only on the first page."""

    heads: tuple[str, ...]
    commits: GraphColumns
    complete: bool
    pagination: Pagination


@operation(
    "getCommitGraph",
    "GET",
    REPO + "/graph",
    tag="graveler",
    permissions=(Permission("fs:ListCommits", REPO_ARN),),
    answers={200: CommitGraph},
    errors=(Unsupported,),
)
def get_commit_graph(call: Call, query: GraphPaging) -> Answer:
    """The commits that some heads lead to, in columns, each before its parents."""
    heads = query.heads or (call.repo.record.default_branch,)
    page = log.graph_page(call.repo, GraphQuery(heads, query.after, query.amount))
    records = [commit for _, commit in page.commits]
    columns = GraphColumns(
        [id for id, _ in page.commits],
        [record.parents for record in records],
        [shapes.seconds(record.created_ns) for record in records],
        [record.committer for record in records],
        [record.message for record in records],
        [record.generation for record in records],
    )
    pagination = answers.pagination(len(records), page.following, _MOST)
    return answers.json(CommitGraph(page.heads, columns, not page.following, pagination))
