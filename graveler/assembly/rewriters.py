"""The processes that rewrite ranges of an embedded store, so that a large commit uses all cores.

Python computes on one core in a process, whatever its threads do.  So each core gets a process
(rewriter.py), which is started when it is first needed and ends when it has had nothing to do for
half a minute.  A thread for each passes requests to it, one after the other.  If a process ends,
hangs or does not start, its request is answered with ABSENT, and whoever waits does the work
itself.
"""

import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from graveler.assembly.rewriter import SYNCED, decoded, encoded, receive, send
from graveler.committed.ranges import Rewrite, Rewriting, Rewritten
from graveler.core.clock import Clock
from graveler.core.records import ABSENT, Absent, BreakParameters

PROCESSES_MAX: Final = 4
_LOOK_SECONDS: Final = 0.2
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_CODE: Final = """
import os, sys
sys.path[:] = sys.argv.pop(1).split(os.pathsep)
import runpy
runpy.run_module("graveler.assembly.rewriter", run_name="__main__")
"""
_LOG: Final = logging.getLogger("graveler.rewriters")
_Process = subprocess.Popen[bytes]
_Order = tuple[str, BreakParameters, Rewrite]


def cores(quota: Path = _QUOTA) -> int:
    """The cores that this process may use.  `quota`: the limit of a container on Linux."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):  # no such file, or no limit
        share, period = quota.read_text().split()
        count = min(count, int(share) // int(period))
    return max(1, count)


class Timeouts(NamedTuple):
    """Times in seconds.

    `idle`: how long a process stays without work.  `hang`: how long somebody waits for a range,
    which takes milliseconds, and after which a process that works on one is killed.  `pause`: how
    long no range is given to processes, after one did not start or hung.  `stop`: how long each
    process may take to end.
    """

    idle: float = 30.0
    hang: float = 60.0
    pause: float = 60.0
    stop: float = 5.0


_TIMEOUTS: Final = Timeouts()


class RewriterProcesses:
    """See `ranges.Rewriters`.  `close` ends all processes."""

    def __init__(
        self,
        objects: Path,
        clock: Clock,
        *,
        synced: bool,
        processes: int,
        timeouts: Timeouts = _TIMEOUTS,
    ) -> None:
        """`objects`: the folder of the store's objects.  `processes`: at most so many; none if it
        is less than two, because one would only do what this process can do."""
        self._command = _command(objects, synced)
        self._clock = clock
        self._processes = processes if processes > 1 else 0
        self._spans = timeouts
        self._changed = threading.Condition()
        self._queue: deque[_Request] = deque()
        self._threads: set[threading.Thread] = set()
        self._running: set[_Process] = set()
        self._busy: dict[_Process, float] = {}  # since when each works on a range
        self._killed: set[_Process] = set()  # of these, though the system has not ended them yet
        self._idle = 0  # threads that wait for a request
        self._not_before = 0.0  # when a process may be started again, by the steady clock
        self._closed = False

    def begin(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        if not self._processes or self._kill_hung():
            return ABSENT
        request = _Request((namespace, breaks, rewrite), self)
        with self._changed:
            if self._closed or self._clock.steady_seconds() < self._not_before:
                return ABSENT
            self._queue.append(request)
            if len(self._queue) > self._idle and len(self._threads) < self._processes:
                self._start_thread()
            self._changed.notify()
            if not self._threads:
                self._drop_all()
        return request

    def wait(self, request: "_Request", check: Callable[[], None]) -> Rewritten | Absent:
        """The result of a request.  If it takes too long, or `check` raises, it is given up."""
        end = self._clock.steady_seconds() + self._spans.hang
        try:
            while self._clock.steady_seconds() < end:
                with suppress(TimeoutError):
                    return request.done.result(_LOOK_SECONDS)
                check()
            return ABSENT
        finally:
            if not request.done.done():
                self.abandon(request)
                self._kill_hung()

    def abandon(self, request: "_Request") -> None:
        """Take back a request that no process has begun."""
        with self._changed, suppress(ValueError):
            self._queue.remove(request)

    def _kill_hung(self) -> bool:
        """Kill the processes that have worked on one range for too long; the threads that wait for
        them take them for ended.  Whether there were any."""
        now = self._clock.steady_seconds()
        with self._changed:
            hung = {each for each, since in self._busy.items() if now - since > self._spans.hang}
            known, self._killed = self._killed & hung, hung
            for process in hung - known:
                process.kill()
            if hung - known:
                self._pause()
        if hung - known:
            _LOG.warning("processes for commits hung and were killed: %d", len(hung - known))
        return bool(hung)

    def _pause(self) -> None:
        """Give no range to processes for a while.  The caller holds the lock, and logs why without
        it, because a log may block."""
        self._not_before = self._clock.steady_seconds() + self._spans.pause
        self._drop_all()

    def close(self) -> None:
        """End all processes.  Requests that wait are answered with ABSENT, and so is what a process
        does not finish in time."""
        end = self._clock.steady_seconds() + self._spans.stop
        with self._changed:
            self._closed = True
            self._drop_all()
            threads = list(self._threads)
            self._changed.notify_all()
        for thread in threads:
            thread.join(max(0.0, end - self._clock.steady_seconds()))
        with self._changed:
            late = list(self._running)
        for process in late:
            process.kill()
        for thread in threads:
            thread.join(self._spans.stop)

    def _drop_all(self) -> None:
        """Answer all that waits with ABSENT."""
        while self._queue:
            self._queue.popleft().done.set_result(ABSENT)

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name="rewriter", daemon=True)
        with suppress(RuntimeError):  # the system starts no thread; others, or the caller, do it
            thread.start()
            self._threads.add(thread)

    def _run(self) -> None:
        """Pass requests to one process, until there are none for a while."""
        process: _Process | Absent = ABSENT
        try:
            while (request := self._next()) is not ABSENT:
                process = self._pass_on(request, process)
        finally:
            self._end(process)
            with self._changed:
                self._threads.discard(threading.current_thread())
                if not self._threads:
                    self._drop_all()

    def _pass_on(self, request: "_Request", process: _Process | Absent) -> _Process | Absent:
        """Answer a request.  `process`: the one of this thread, if it has one; so is the result."""
        done: Rewritten | Absent = ABSENT
        is_new = process is ABSENT
        try:
            if process is ABSENT:
                process = self._started()
            done = self._exchange(process, request)
            return process
        except Exception as error:  # whatever it is, the caller does the work
            self._end(process)
            with self._changed:
                pauses = is_new and not self._closed
                if pauses:
                    self._pause()
            if pauses:
                _LOG.warning("a process for commits did not start, or ended: %r", error)
            return ABSENT
        finally:
            request.done.set_result(done)

    def _exchange(self, process: _Process, request: "_Request") -> Rewritten | Absent:
        assert process.stdin is not None and process.stdout is not None
        with self._changed:
            self._busy[process] = self._clock.steady_seconds()
        try:
            send(process.stdin, encoded(*request.order))  # type: ignore[arg-type]
            return decoded(receive(process.stdout))  # type: ignore[arg-type]
        finally:
            with self._changed:
                del self._busy[process]

    def _next(self) -> "_Request | Absent":
        """The next request; ABSENT if this thread is to end."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._queue or self._closed, self._spans.idle)
            self._idle -= 1
            if self._queue and not self._closed:
                return self._queue.popleft()
            self._threads.discard(threading.current_thread())  # before `begin` counts on it
            return ABSENT

    def _started(self) -> _Process:
        # A session of its own: Ctrl-C at a terminal is for the service, which ends its work first.
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        with self._changed:
            self._running.add(process)
            if self._closed:  # `close` may have looked before
                process.kill()
        return process

    def _end(self, process: _Process | Absent) -> None:
        """End a process: the end of its input tells it to."""
        if process is ABSENT:
            return
        assert process.stdin is not None and process.stdout is not None
        with suppress(OSError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(self._spans.stop)
        process.kill()
        process.wait()
        with suppress(OSError):
            process.stdout.close()
        with self._changed:
            self._running.discard(process)


class _Request:
    """See `Rewriting`."""

    def __init__(self, order: _Order, processes: RewriterProcesses) -> None:
        self.order = order
        self.done: Future[Rewritten | Absent] = Future()
        self._processes = processes

    def result(self, check: Callable[[], None]) -> Rewritten | Absent:
        return self._processes.wait(self, check)

    def abandon(self) -> None:
        self._processes.abandon(self)


def _command(objects: Path, synced: bool) -> list[str]:
    """It finds modules where this process does."""
    paths = [path for path in sys.path if os.path.isabs(path) and os.pathsep not in path]
    where = [str(objects), SYNCED if synced else ""]
    return [sys.executable, "-P", "-c", _CODE, os.pathsep.join(paths or [os.sep]), *where]
