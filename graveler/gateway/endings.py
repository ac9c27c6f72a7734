"""The end of work whose answer begins before it: the work tells it once, and the route asks for it.

Whatever comes first, the end or the question, the route hears of the end exactly once, or says that
it gives up.  For the event loop; used by long_answers.py and route.py.
"""

from collections.abc import Callable


class Ending:
    """An end that is told once."""

    def __init__(self) -> None:
        self._tell: Callable[[Exception | None], None] | None = None
        self._outcome: tuple[Exception | None] | tuple[()] = ()

    def on_end(self, tell: Callable[[Exception | None], None]) -> None:
        """Call `tell` with the error of the work, or None, once it has ended."""
        self._tell = tell
        self._do()

    def end(self, error: Exception | None) -> None:
        """The work has ended."""
        if not self._outcome:
            self._outcome = (error,)
            self._do()

    def give_up(self) -> bool:
        """The service stops.  Returns whether nobody was told of the end; nobody will be."""
        untold, self._tell = self._tell is not None, None
        return untold

    def _do(self) -> None:
        if self._tell is not None and self._outcome:
            tell, self._tell = self._tell, None
            tell(*self._outcome)
