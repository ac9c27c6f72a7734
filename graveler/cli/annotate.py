"""`graveler annotate`: which commit last changed each object."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import click

from graveler.cli import past
from graveler.cli.address import Address
from graveler.cli.arguments import address_argument, at, count
from graveler.cli.command import client
from graveler.cli.invocation import Invocation
from graveler.cli.output import Column, first_line
from graveler.client import commits, objects
from graveler.client.commits import Commit, LogFilter

_THREADS: Final = 8
_AHEAD: Final = 64  # calls that are under way or wait to be printed


def _of_commit(name: str) -> Callable[[Any], Any]:
    return lambda row: (row["graveler"]["commit"] or {}).get(name, "")


_COLUMNS: Final = (
    Column("COMMIT", _of_commit("id"), "id"),
    Column("DATE", _of_commit("creation_date"), "time"),
    Column("AUTHOR", _of_commit("committer")),
    Column("PATH", lambda row: row["path"]),
    Column("MESSAGE", lambda row: first_line(_of_commit("message")(row))),
)


@client(
    "annotate",
    examples=(
        "graveler annotate lake/main/sales/             # one level",
        "graveler annotate lake/main/sales/ -r",
        "graveler annotate lake/main/prices.csv --at 2026-11-01",
    ),
)
@address_argument("address", metavar="REF[/PATH]")
@click.option("-r", "--recursive", is_flag=True, help="all objects, not one level")
@click.option("--first-parent", is_flag=True, help="of merges, follow the first parent only")
@count
@at
def annotate(
    invocation: Invocation,
    address: str,
    recursive: bool,
    first_parent: bool,
    amount: int | None,
) -> int:
    """Show the commit that last changed each object below a prefix.

    A common prefix has the commit that last changed something below it.  A path that is not
    committed has none.  It takes a request for each row, 8 at a time.
    """
    place = past.then(invocation, invocation.path(address, optional=True))
    session = invocation.session
    listed = objects.list_objects(
        *(session, place.repository, place.ref, place.path),
        delimiter="" if recursive else "/",
        amount=amount,
    )
    paths = (stats["path"] for stats in listed)
    if not invocation.output.items(
        _COLUMNS, _rows(invocation, place, paths, first_parent=first_parent)
    ):
        invocation.output.note(f"no objects below {place}")
    return 0


def _rows(
    invocation: Invocation, place: Address, paths: Iterator[str], *, first_parent: bool
) -> Iterator[dict[str, Any]]:
    """The rows in the order of the paths; a few calls are ahead of what is printed."""
    session = invocation.session

    def last(path: str) -> Commit | None:
        is_prefix = path.endswith("/")
        which = LogFilter(
            [] if is_prefix else [path],
            [path] if is_prefix else [],
            first_parent=first_parent,
            limit=True,
        )
        log = commits.log(session, place.repository, place.ref, which, amount=1)
        return next(log, None)

    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[tuple[str, Future[Commit | None]]] = deque()
        try:
            for path in paths:
                waiting.append((path, pool.submit(last, path)))
                if len(waiting) >= _AHEAD:
                    yield _row(*waiting.popleft())
            while waiting:
                yield _row(*waiting.popleft())
        finally:
            for _, call in waiting:
                call.cancel()


def _row(path: str, call: "Future[Commit | None]") -> dict[str, Any]:
    return {"path": path, "graveler": {"commit": call.result()}}
