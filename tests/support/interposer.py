"""A store that lets a test act between two requests of one operation.

    script.before("set_if", run)       run() just before the next set_if is sent
    script.after("set_newer", run, 2)  run() just after the second set_newer from now was answered

An action runs once.  Requests that the action itself makes are not interposed.  Requests for which
no action waits pass unchanged.  For tests only.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

from graveler.kv.store import Store
from tests.support.passing import PassingStore

T = TypeVar("T")
Action = Callable[[], object]


class _WaitingCall(NamedTuple):
    moment: Literal["before", "after"]
    verb: str
    left: int
    action: Action


class Script:
    """The actions, and when they run.  `seen` lists every request that passed."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._waiting: list[_WaitingCall] = []
        self._acting = False

    def before(self, verb: str, action: Action, nth: int = 1) -> None:
        """Run `action` before the `nth` request of `verb` from now."""
        self._waiting.append(_WaitingCall("before", verb, nth, action))

    def after(self, verb: str, action: Action, nth: int = 1) -> None:
        """Run `action` after the `nth` request of `verb` from now was answered."""
        self._waiting.append(_WaitingCall("after", verb, nth, action))

    @property
    def finished(self) -> bool:
        """Whether every action has run."""
        return not self._waiting

    def pass_through(self, verb: str, call: Callable[[], T]) -> T:
        """Send one request."""
        if self._acting:
            return call()
        self.seen.append(verb)
        self._reach("before", verb)
        answer = call()
        self._reach("after", verb)
        return answer

    def _reach(self, moment: Literal["before", "after"], verb: str) -> None:
        due: list[Action] = []
        later: list[_WaitingCall] = []
        for waiting in self._waiting:
            if (waiting.moment, waiting.verb) == (moment, verb):
                waiting = waiting._replace(left=waiting.left - 1)
            if waiting.left:
                later.append(waiting)
            else:
                due.append(waiting.action)
        self._waiting = later
        self._acting = True
        try:
            for action in due:
                action()
        finally:
            self._acting = False


class InterposedStore(PassingStore):
    """`Store` that passes each request through a script."""

    def __init__(self, store: Store, script: Script) -> None:
        super().__init__(store)
        self._script = script

    def send(self, verb: str, call: Callable[[], T]) -> T:
        return self._script.pass_through(verb, call)
