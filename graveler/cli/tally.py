"""What a transfer has done so far, and what failed.  For this folder."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from graveler.cli.failures import PartlyDone
from graveler.cli.output import plain, plural, size
from graveler.errors import GravelerError, Invalid

_FAILURES_SHOWN: Final = 20


class Interrupted(Exception):
    """The transfer was interrupted; this item ends here."""


@dataclass
class Tally:
    """What was transferred so far.  Threads share it."""

    files: int = 0
    bytes_moved: int = 0
    skipped: int = 0
    deleted: int = 0
    files_expected: int = 0
    bytes_expected: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    errors: list[GravelerError] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, length: int) -> None:
        """Another item, of this length, will come."""
        with self.lock:
            self.files_expected += 1
            self.bytes_expected += length

    def moved(self, length: int) -> None:
        """Bytes were transferred.  Raises `Interrupted` after an interrupt."""
        if self.stop.is_set():
            raise Interrupted
        with self.lock:
            self.bytes_moved += length

    def ended(self, *, skipped: bool = False, length: int = 0) -> None:
        """An item is done.  `length`: of an item that was skipped."""
        with self.lock:
            self.files += not skipped
            self.skipped += skipped
            self.bytes_expected -= length

    def failed(self, name: str, error: GravelerError | OSError) -> None:
        """An item failed."""
        stored = error if isinstance(error, GravelerError) else Invalid(f"{name}: {error.strerror}")
        with self.lock:
            self.failures.append((name, _reason(error)))
            self.errors.append(stored)

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces, counted as they are taken."""
        for piece in pieces:
            self.moved(len(piece))
            yield piece

    def sentence(self, verb: str) -> str:
        """What was done, in words."""
        words = f"{verb} {plural(self.files, 'object')}, {size(self.bytes_moved)}"
        words += f"; {self.skipped:,} were the same" if self.skipped else ""
        return words + (f"; deleted {plural(self.deleted, 'file')}" if self.deleted else "")

    def state(self, verb: str = "done") -> str:
        """How far an interrupted transfer came, in words."""
        failed = f", {len(self.failures):,} failed" if self.failures else ""
        return f"{plural(self.files + self.skipped, 'object')} {verb}{failed}"

    def resumable(self) -> str:
        """As `state`, for a transfer that leaves out what is done if it is repeated."""
        return f"{self.state()}; repeat the command to do the rest"

    def check(self, verb: str) -> None:
        """Raises `PartlyDone` if an item failed."""
        if not self.failures:
            return
        shown = [f"{plain(name)}: {reason}" for name, reason in self.failures[:_FAILURES_SHOWN]]
        more = len(self.failures) - len(shown)
        lines = "\n  ".join([*shown, *([f"and {more:,} more"] if more > 0 else [])])
        raise PartlyDone(
            f"{plural(len(self.failures), 'object')} of {self.files_expected:,} not {verb}:\n"
            f"  {lines}",
            done=str(self.files + self.skipped + self.deleted),
        )


def _reason(error: GravelerError | OSError) -> str:
    if isinstance(error, GravelerError):
        return error.fields.get("reason", "") or str(error)
    return error.strerror or str(error)
