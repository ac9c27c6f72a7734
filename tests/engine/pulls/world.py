"""Pull requests in a few words, for tests."""

from graveler.core.records import PullRequest, PullState
from graveler.engine import pulls
from graveler.engine.commits import log
from graveler.engine.pulls import NewPull, PullChanges
from graveler.refs.pulls import PullPage, PullQuery
from tests.engine.lake import COMMITTER, Lake

EVERY = tuple(PullState)


def opened(lake: Lake, source: str = "dev", destination: str = "main", title: str = "t") -> str:
    new = NewPull(title, source, destination, COMMITTER, "d")
    return pulls.create(lake.opened, new).id


def merged(lake: Lake, pull: str) -> str:
    return pulls.merge(lake.opened, pull, COMMITTER).id


def update(lake: Lake, pull: str, **changes: object) -> None:
    pulls.update(lake.opened, pull, PullChanges(**changes))  # type: ignore[arg-type]


def seen(lake: Lake, pull: str) -> PullRequest:
    return pulls.get(lake.opened, pull)


def state(lake: Lake, pull: str) -> PullState:
    return seen(lake, pull).state


def listed(lake: Lake, *states: PullState, amount: int = 100, after: str = "") -> PullPage:
    query = PullQuery(states or EVERY, after=after, amount=amount)
    return pulls.list_page(lake.opened, query)


def merges(lake: Lake, branch: str = "main") -> list[str]:
    """The marks of the merge commits of pull requests on a branch."""
    entries, _ = log.log(lake.opened, branch, log.LogRequest(amount=100))
    return [entry.commit.mark for entry in entries if entry.commit.mark]
