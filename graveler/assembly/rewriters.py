"""The processes that rewrite ranges of an embedded store, so that a large commit uses all cores.

Python computes on one core in a process, whatever its threads do.  So each core gets a process
(rewriter.py), which is started when it is first needed and ends when it has had nothing to do for
half a minute.  A thread for each passes requests to it, one after the other.  If a process ends,
hangs or does not start, its request is answered with ABSENT, and whoever waits does the work
itself.  For embedded.py.
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
from graveler.clock import Clock
from graveler.committed.ranges import Rewrite, Rewriting, Rewritten
from graveler.records import ABSENT, Absent, BreakParameters

PROCESSES_MAX: Final = 4
_LOOK_SECONDS: Final = 0.2
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_CODE: Final = """
import os, runpy, sys
sys.path[:] = sys.argv.pop(1).split(os.pathsep)
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


class Spans(NamedTuple):
    """How long things may last, in seconds.

    `idle`: a process without work.  `hang`: the work of a process on one range, which takes
    milliseconds.  `pause`: after a process that did not start.  `stop`: the end of all processes.
    """

    idle: float = 30.0
    hang: float = 60.0
    pause: float = 60.0
    stop: float = 5.0


_SPANS: Final = Spans()


class RewriterProcesses:
    """See `ranges.Rewriters`.  `close` ends all processes."""

    def __init__(
        self,
        objects: Path,
        scratch: Path,
        clock: Clock,
        *,
        synced: bool,
        processes: int,
        spans: Spans = _SPANS,
    ) -> None:
        """`objects`, `scratch`: folders of the store.  `processes`: at most so many; none if it is
        less than two, because one would only do what this process can do."""
        self._command = _command(objects, scratch, synced)
        self._clock = clock
        self._processes = processes if processes > 1 else 0
        self._spans = spans
        self._changed = threading.Condition()
        self._queue: deque[_Request] = deque()
        self._threads: set[threading.Thread] = set()
        self._running: set[_Process] = set()
        self._idle = 0  # threads that wait for a request
        self._not_before = 0.0  # when a process may be started again, by the steady clock
        self._closed = False

    def begin(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        if not self._processes or self._clock.steady_seconds() < self._not_before:
            return ABSENT
        request = _Request((namespace, breaks, rewrite), self._clock, self._spans.hang)
        with self._changed:
            if self._closed:
                return ABSENT
            self._queue.append(request)
            if len(self._queue) > self._idle and len(self._threads) < self._processes:
                self._start_thread()
            self._changed.notify()
            if not self._threads:
                self._drop_all()
        return request

    def close(self) -> None:
        """End all processes.  Requests that wait or are under way are answered with ABSENT."""
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
            self._queue.popleft().answer(ABSENT)

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
        has_answered = process is not ABSENT
        try:
            if process is ABSENT:
                process = self._started()
            request.process = process
            done = _exchange(process, request)
            return process
        except Exception as error:  # whatever it is, the caller does the work
            if not has_answered:
                self._not_before = self._clock.steady_seconds() + self._spans.pause
                _LOG.warning("a process for commits did not start: %r", error)
            self._end(process)
            return ABSENT
        finally:
            request.process = ABSENT
            request.answer(done)

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
        process.stdout.close()
        with self._changed:
            self._running.discard(process)


class _Request:
    """See `Rewriting`.  `process`: the one that does it now."""

    def __init__(self, order: _Order, clock: Clock, hang_seconds: float) -> None:
        self._order = order
        self._clock = clock
        self._hang_seconds = hang_seconds
        self._done: Future[Rewritten | Absent] = Future()
        self.process: _Process | Absent = ABSENT

    def message(self) -> bytes:
        """What the process gets."""
        return encoded(*self._order)

    def answer(self, done: Rewritten | Absent) -> None:
        """Give the result to whoever waits."""
        self._done.set_result(done)

    def result(self, check: Callable[[], None]) -> Rewritten | Absent:
        end = self._clock.steady_seconds() + self._hang_seconds
        while self._clock.steady_seconds() < end:
            with suppress(TimeoutError):
                return self._done.result(_LOOK_SECONDS)
            check()
        process = self.process
        if process is not ABSENT:
            process.kill()  # its thread takes it for one that has ended
        return ABSENT


def _command(objects: Path, scratch: Path, synced: bool) -> list[str]:
    """It finds modules where this process does, and never in the working folder."""
    paths = [path for path in sys.path if os.path.isabs(path) and os.pathsep not in path]
    where = [str(objects), str(scratch), SYNCED if synced else ""]
    return [sys.executable, "-P", "-c", _CODE, os.pathsep.join(paths or [os.sep]), *where]


def _exchange(process: _Process, request: _Request) -> Rewritten | Absent:
    assert process.stdin is not None and process.stdout is not None
    send(process.stdin, request.message())  # type: ignore[arg-type]
    return decoded(receive(process.stdout))  # type: ignore[arg-type]
