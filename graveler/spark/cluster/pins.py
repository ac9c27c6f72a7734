"""A pinned ref: a ref resolved once to a commit, so that later commits do not change what is read.

For this package.
"""

from typing import Any, NamedTuple

from graveler.client.session import below
from graveler.errors import NotFound
from graveler.ids import MetarangeId
from graveler.records import RangeRef
from graveler.spark.cluster.places import Place, opened
from graveler.spark.lake import Lake, parse_ref, place_of


class Pin(NamedTuple):
    """The commit to which a ref was resolved, and the prefix that was given with it."""

    repository: str
    commit: str
    metarange: MetarangeId
    prefix: str
    place: Place

    def ranges(self) -> tuple[RangeRef, ...]:
        """All ranges of the commit, in key order; one request to the object store."""
        return opened(self.place).space.metarange(self.metarange).ranges


def pinned(lake: Lake, where: str) -> Pin:
    """Resolve "repository/ref/folder".

    `ref`: a branch (its last commit), a tag, a commit, or one of these with `~n`.  Errors:
    `Invalid`, `NotFound`.  Cost: 2 requests to the API.
    """
    target = parse_ref(where)
    repository = lake.session.ask("GET", below("repositories", target.repository))
    commit = commit_at(lake, target.repository, target.branch)
    place = place_of(lake, repository["storage_namespace"])
    metarange = MetarangeId(commit["meta_range_id"])
    return Pin(target.repository, commit["id"], metarange, target.prefix, place)


def at_commit(lake: Lake, where: str) -> str:
    """The text "repository/ref/folder" with the id of the commit in place of the ref.

    Errors: `Invalid`, `NotFound`.  Cost: 1 request to the API.
    """
    target = parse_ref(where)
    commit = commit_at(lake, target.repository, target.branch)["id"]
    return f"{target.repository}/{commit}/{target.prefix}"


def commit_at(lake: Lake, repository: str, ref: str) -> Any:
    """The commit of a ref, as the API returns it.  Cost: 1 request to the API."""
    commits = commits_page(lake, repository, ref, "?amount=1")["results"]
    if not commits:
        raise NotFound(f"ref has no commit: {ref=}")
    return commits[0]


def commits_page(lake: Lake, repository: str, ref: str, query: str) -> Any:
    """One page of a ref's history, newest first, as the API returns it."""
    where = below("repositories", repository, "refs", ref, "commits")
    return lake.session.ask("GET", where + query)
