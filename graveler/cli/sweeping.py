"""The janitor's round over all repositories, every few minutes, in a thread of its own.

A round that fails is logged and the next one tries again; stopping waits for the repository that
is being swept, for a bounded time.  For running.py.
"""

import logging
import threading

from graveler import limits
from graveler.engine import janitor, repository
from graveler.engine.ports import Ports
from graveler.errors import GravelerError

FIRST_SECONDS = 30.0
PERIOD_SECONDS = 300.0
_STOP_SECONDS = 10.0
_LOG = logging.getLogger("graveler.janitor")


class Sweeper:
    """Sweeps `ports` from `start` to `stop`."""

    def __init__(
        self, ports: Ports, first_seconds: float = FIRST_SECONDS, period: float = PERIOD_SECONDS
    ) -> None:
        self._ports = ports
        self._waits = (first_seconds, period)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="janitor", daemon=True)

    def start(self) -> None:
        """Begin; the first round comes after a while."""
        self._thread.start()

    def stop(self) -> None:
        """End, before the store is closed."""
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
                _LOG.warning("round of the janitor failed: %s", error)
            except Exception:
                _LOG.exception("round of the janitor failed")

    def _round(self) -> None:
        after, more = "", True
        while more:
            found, more = repository.list_page(self._ports, "", "", after, limits.page_count_max)
            for repo in found:
                if self._ended.is_set():
                    return
                janitor.sweep(self._ports, repo)
                after = repo.id
