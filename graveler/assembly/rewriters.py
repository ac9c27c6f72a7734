"""The processes that rewrite ranges of an embedded store, so that a large commit uses all cores.

Python computes on one core in a process, whatever its threads do.  So each core gets a process
(rewriter.py), which is started when it is first needed and ends when it has had nothing to do for
`IDLE_SECONDS`.  A thread for each passes requests to it, one after the other.  If a process ends or
does not start, its requests are answered with ABSENT, and whoever waits does the work itself.  For
embedded.py.
"""

import os
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Final

from graveler.assembly.rewriter import SYNCED, decoded, encoded, receive, send
from graveler.committed.ranges import Rewrite, Rewriting, Rewritten
from graveler.records import ABSENT, Absent, BreakParameters

IDLE_SECONDS: Final = 30.0
PROCESSES_MAX: Final = 4
_STOP_SECONDS: Final = 5.0
_FAILED_STARTS_MAX: Final = 3  # in a row; after them, nobody tries again
_CODE: Final = """
import os, runpy, sys
sys.path[:] = sys.argv.pop(1).split(os.pathsep)
runpy.run_module("graveler.assembly.rewriter", run_name="__main__")
"""


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class RewriterProcesses:
    """See `ranges.Rewriters`.  `close` ends all processes."""

    def __init__(
        self,
        objects: Path,
        scratch: Path,
        *,
        synced: bool,
        processes: int,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """`objects`, `scratch`: folders of the store.  `processes`: at most so many; none if it is
        less than two, because one would only do what this process can do."""
        self._command = _command(objects, scratch, synced)
        self._processes = processes if processes > 1 else 0
        self._idle_seconds = idle_seconds
        self._changed = threading.Condition()
        self._queue: deque[_Request] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0  # threads that wait for a request
        self._failed = 0  # starts of processes, since one answered
        self._closed = False

    def begin(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        if not self._processes or self._failed >= _FAILED_STARTS_MAX:
            return ABSENT
        request = _Request(encoded(namespace, breaks, rewrite))
        with self._changed:
            if self._closed:
                return ABSENT
            self._queue.append(request)
            if len(self._queue) > self._idle and len(self._threads) < self._processes:
                self._start_thread()
            self._changed.notify()
            return request if self._threads else self._dropped()

    def close(self) -> None:
        """End all processes.  Requests that wait are answered with ABSENT."""
        with self._changed:
            self._closed = True
            self._dropped()
            threads = list(self._threads)
            self._changed.notify_all()
        for thread in threads:
            thread.join(_STOP_SECONDS)

    def _dropped(self) -> Absent:
        """Answer all that waits with ABSENT."""
        while self._queue:
            self._queue.popleft().answer(ABSENT)
        return ABSENT

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name="rewriter", daemon=True)
        with suppress(RuntimeError):  # the system starts no thread; others, or the caller, do it
            thread.start()
            self._threads.add(thread)

    def _run(self) -> None:
        """Pass requests to one process, until there are none for a while."""
        process: subprocess.Popen[bytes] | Absent = ABSENT
        try:
            while (request := self._next()) is not ABSENT:
                done: Rewritten | Absent = ABSENT
                try:
                    if process is ABSENT:
                        process = _started(self._command)
                    done = _exchange(process, request.message)
                    self._failed = 0
                except (OSError, EOFError, ValueError, TypeError):
                    self._failed += 1
                    process = _ended(process)
                finally:
                    request.answer(done)
        finally:
            with self._changed:
                self._threads.discard(threading.current_thread())
            _ended(process)

    def _next(self) -> "_Request | Absent":
        """The next request; ABSENT if this thread is to end."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._queue or self._closed, self._idle_seconds)
            self._idle -= 1
            if self._queue and not self._closed:
                return self._queue.popleft()
            self._threads.discard(threading.current_thread())  # before `begin` counts on it
            return ABSENT


class _Request:
    """See `Rewriting`.  `message`: what the process gets."""

    def __init__(self, message: bytes) -> None:
        self.message = message
        self._done: Future[Rewritten | Absent] = Future()

    def answer(self, done: Rewritten | Absent) -> None:
        """Give the result to whoever waits."""
        self._done.set_result(done)

    def result(self) -> Rewritten | Absent:
        return self._done.result()


def _command(objects: Path, scratch: Path, synced: bool) -> list[str]:
    """It finds modules where this process does, and never in the working folder."""
    paths = os.pathsep.join(path for path in sys.path if os.path.isabs(path))
    where = [str(objects), str(scratch), SYNCED if synced else ""]
    return [sys.executable, "-P", "-c", _CODE, paths, *where]


def _started(command: list[str]) -> subprocess.Popen[bytes]:
    # A group of its own: Ctrl-C at a terminal is for the service, which ends its requests first.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )


def _exchange(process: "subprocess.Popen[bytes]", message: bytes) -> Rewritten | Absent:
    assert process.stdin is not None and process.stdout is not None
    send(process.stdin, message)  # type: ignore[arg-type]
    return decoded(receive(process.stdout))  # type: ignore[arg-type]


def _ended(process: "subprocess.Popen[bytes] | Absent") -> Absent:
    """End a process: the end of its input tells it to."""
    if process is ABSENT:
        return ABSENT
    with suppress(OSError, subprocess.TimeoutExpired):
        process.communicate(timeout=_STOP_SECONDS)
    process.kill()
    process.wait()
    return ABSENT
