"""Answers of operations that may take longer than a client waits for the first byte.

    work ends soon     an answer with its status and its document
    work takes longer  200 at once, a blank every few seconds, then the document, or `Error`

The audit line waits for the end of the work.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from graveler.core.errors import Unavailable
from graveler.gateway.errors import Subject, error_element, report_of
from graveler.gateway.operation import Ending, S3Call
from graveler.gateway.xml import DECLARATION, XML_HEADERS, Markup, document
from graveler.http.answers import Answer, StreamedBody

_BLANKS_MAX: Final = 9_000  # of one answer: a day
_ROOT_BYTES_MAX: Final = 64 * 1024  # a document names a key, each byte of it escaped, a few times
_BLANK: Final = b" "


class _Work:
    """The work of one request, and its result once a thread has done it."""

    def __init__(self, call: S3Call, work: Callable[[], Markup]) -> None:
        self.ending = Ending()
        self._subject: Subject = call.address.subject
        self._request_id = call.scope["graveler.request_id"]
        self._work = work
        self.outcome: Markup | Exception = Markup("")

    def run(self) -> None:
        """Do the work."""
        try:
            self.outcome = self._work()
        except Exception as error:
            self.outcome = error

    def ended(self, running: "asyncio.Future[None]") -> None:
        """Tell of the end, also if the client has gone."""
        dropped = Unavailable("the service is stopping") if running.cancelled() else None
        failed = self.outcome if isinstance(self.outcome, Exception) else None
        self.ending.end(dropped or failed)

    @property
    def root(self) -> bytes:
        """The document for the end of an answer that has begun as a success."""
        if isinstance(self.outcome, Markup):
            return self.outcome.encode()
        report = report_of(self.outcome)
        return error_element(report, self._subject, self._request_id).encode()


async def long_answer(call: S3Call, work: Callable[[], Markup]) -> Answer:
    """The document that `work` returns in a thread, as an answer.

    Raises what `work` raises, unless the answer has begun by then.
    """
    seconds = call.service.settings.blank_seconds
    task = _Work(call, work)
    running = call.service.pools.copies.start(task.run)
    await asyncio.wait((running,), timeout=seconds)
    if not running.done():
        call.ending = task.ending
        running.add_done_callback(task.ended)
        length = len(DECLARATION) + _BLANKS_MAX + _ROOT_BYTES_MAX
        return Answer(200, XML_HEADERS, StreamedBody(_chunks(task, running, seconds), length))
    _check_done(running)
    if isinstance(task.outcome, Exception):
        raise task.outcome
    return document(task.outcome)


async def _chunks(
    task: _Work, running: "asyncio.Future[None]", seconds: float
) -> AsyncIterator[bytes]:
    yield DECLARATION.encode() + _BLANK
    blanks = 1
    while not running.done():
        has_blanks = blanks < _BLANKS_MAX
        await asyncio.wait((running,), timeout=seconds if has_blanks else None)
        if not running.done():
            yield _BLANK
            blanks += 1
    task.ended(running)
    _check_done(running)
    root = task.root
    assert len(root) <= _ROOT_BYTES_MAX, "the document fits"
    yield root + _BLANK * (_BLANKS_MAX - blanks + _ROOT_BYTES_MAX - len(root))


def _check_done(running: "asyncio.Future[None]") -> None:
    """Raises `Unavailable` if the work was dropped before it began."""
    if running.cancelled():
        raise Unavailable("the service is stopping; try again")
