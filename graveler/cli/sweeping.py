"""Rounds over all repositories, now and then, in a thread of their own: the janitor's, and if asked
for garbage collection's.

A round that fails is logged and the next one tries again; stopping waits for the repository that
is being seen to, for a bounded time.  For running.py.
"""

import logging
import threading
from collections.abc import Callable

from graveler import limits
from graveler.engine import collect, janitor, repository
from graveler.engine.ports import Ports
from graveler.errors import GravelerError, Refused
from graveler.records import Repository

FIRST_SECONDS = 30.0
PERIOD_SECONDS = 300.0
COLLECT_FIRST_SECONDS = 600.0
_STOP_SECONDS = 10.0
_LOG = logging.getLogger("graveler.janitor")

Work = Callable[[Ports, Repository], object]


def collect_garbage(ports: Ports, repo: Repository) -> None:
    """One run that deletes; says in the log what it did."""
    try:
        found = collect.collect(ports, repo, delete=True)
    except Refused:
        return  # its files are somebody else's
    if found.deleted or found.condemned:
        _LOG.warning(
            "garbage collected: repository=%s deleted=%d condemned=%d run=%s",
            repo.id,
            len(found.deleted),
            len(found.condemned),
            found.run,
        )


class Sweeper:
    """Does its work on every repository of `ports`, from `start` to `stop`."""

    def __init__(
        self,
        ports: Ports,
        first_seconds: float = FIRST_SECONDS,
        period: float = PERIOD_SECONDS,
        work: Work = janitor.sweep,
    ) -> None:
        self._ports = ports
        self._work = work
        self._waits = (first_seconds, period)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="janitor", daemon=True)

    def start(self) -> None:
        """Begin; the first round comes after a while."""
        self._thread.start()

    def stop(self) -> None:
        """End, before the store is closed; a work that is stopped may be half done."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        wait, period = self._waits
        while not self._ended.wait(wait):
            wait = period
            try:
                self._round()
            except GravelerError as error:
                _LOG.warning("round failed: %s", error)
            except Exception:
                _LOG.exception("round failed")

    def _round(self) -> None:
        after, more = "", True
        while more:
            found, more = repository.list_page(self._ports, "", "", after, limits.page_count_max)
            for repo in found:
                if self._ended.is_set():
                    return
                self._work(self._ports, repo)
                after = repo.id
