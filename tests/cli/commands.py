"""Client commands in tests: run in this process, or in a process of its own on a terminal.

The configuration of whoever runs the tests is never read: each `Client` has a home of its own.
"""

import io
import os
import pty
import re
import select
import shlex
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from graveler.cli.main import main
from graveler.lake import profiles
from graveler.lake.profiles import Profile, Profiles
from tests.api.serving import ADMINISTRATOR
from tests.cli import json_check
from tests.cli.service import environment
from tests.support.forked import COMMAND, Popen
from tests.waiting import PATIENCE_SECONDS

COLUMNS = 100
TABS_MAX = 5
QUIET_SECONDS = 10.0  # a command that ends takes far less
PROGRAM = (sys.executable, "-m", "graveler")
# The leader of a session takes its terminal as that of the session.
_LEADER = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "


class Result(NamedTuple):
    """What a command returned and printed."""

    code: int
    out: str
    err: str


def completing(line: str) -> dict[str, str]:
    """The variables by which bash asks for completions of the last word of a line."""
    return {
        "_GRAVELER_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }


@dataclass
class Client:
    """A user with a home folder."""

    home: Path
    patch: pytest.MonkeyPatch
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config = str(self.home / "config")
        self.variables |= {"HOME": str(self.home), "XDG_CONFIG_HOME": config, "TZ": "UTC"}
        self.variables |= {"XDG_STATE_HOME": str(self.home / "state")}
        self.variables |= {"GRAVELER_COMPLETION_SECONDS": str(QUIET_SECONDS * 6)}
        self.variables |= {"TERM": "xterm", "PAGER": "cat", "COLUMNS": str(COLUMNS)}

    def know(self, url: str) -> None:
        """Make a profile for the administrator of a server."""
        known = ADMINISTRATOR
        profile = Profile("test", url, known.access_key_id, known.secret_access_key)
        profiles.write(Profiles("test", {"test": profile}), self.variables)

    def run(self, *arguments: str, input: bytes = b"", **variables: str) -> Result:
        """Run a command in this process, into pipes; what it prints as JSON must fit its schema."""
        result = self._ran(arguments, variables, input)
        json_check.check(arguments, result.code, result.out)
        json_check.check_failure(result.err)
        return result

    def completions(self, line: str) -> str:
        """What bash is told, in this process, of the last word of a line."""
        result = self._ran(None, completing(line))
        assert result.err == ""
        return result.out

    def _ran(
        self, arguments: Sequence[str] | None, variables: Mapping[str, str], input: bytes = b""
    ) -> Result:
        out, err = io.BytesIO(), io.BytesIO()
        with self._surroundings(variables) as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(input)))
            with (
                redirect_stdout(io.TextIOWrapper(out, "utf-8", write_through=True)),
                redirect_stderr(io.TextIOWrapper(err, "utf-8", write_through=True)),
            ):
                code = main(arguments)
                sys.stdout.flush()
                return Result(code, out.getvalue().decode(), err.getvalue().decode())

    @contextmanager
    def _surroundings(self, variables: Mapping[str, str]) -> Iterator[pytest.MonkeyPatch]:
        with self.patch.context() as patch:
            for name in ("LAKECTL_", "GRAVELER_"):
                for variable in [each for each in os.environ if each.startswith(name)]:
                    patch.delenv(variable)
            for name, value in (self.variables | variables).items():
                patch.setenv(name, value)
            yield patch

    def on_terminal(self, text: str) -> tuple[int, str]:
        """Run a line in this process, on a terminal with 100 columns: its exit code, and what it
        shows.  It is typed nothing."""
        ours, theirs = opened_terminal()
        shown = Terminal(None, ours)
        reading = threading.Thread(target=shown.read_all)
        reading.start()
        with ExitStack() as ended, self._surroundings({}) as patch:
            ended.callback(reading.join)  # until nobody has the other side open
            ended.callback(os.close, theirs)
            for number, (name, mode) in enumerate(
                (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
            ):
                kept = os.dup(number)
                ended.callback(os.close, kept)
                ended.callback(os.dup2, kept, number)
                os.dup2(theirs, number)  # programs that it starts have them too
                stream = ended.enter_context(open(os.dup(theirs), mode, 1, encoding="utf-8"))
                patch.setattr(sys, name, stream)
            code = main(shlex.split(text))
        return code, shown.text

    def line(self, text: str) -> Result:
        """Run a line as a shell would."""
        return self.run(*shlex.split(text))

    def read(self, kind: Any, *arguments: str) -> Any:
        """Run a command with `--json`, and check its answer against the type of the API."""
        result = self.run(*arguments, "--json")
        assert (result.code, result.err) == (0, ""), result
        return msgspec.json.decode(result.out, type=kind, strict=True)

    def environment(self) -> dict[str, str]:
        """The variables of a process of its own."""
        return environment(None) | self.variables


@dataclass
class Terminal:
    """A command on a terminal of its own."""

    process: Popen | None
    handle: int
    text: str = ""
    raw: bytes = b""

    def until(self, words: str) -> None:
        """Read until these words have been shown."""
        while words not in self.text:
            assert self._more(), f"the command ended without {words!r}: {self.text!r}"

    def reaches(self, pattern: str) -> bool:
        """Read until this has been shown; whether it was, before the command ended."""
        while not re.search(pattern, self.text):
            if not self._more():
                return False
        return True

    def reads(self) -> bool:
        """Read what is shown next; whether anything was."""
        return self._is_shown(QUIET_SECONDS) and self._more()

    def type(self, text: str) -> None:
        """What a person types."""
        os.write(self.handle, text.encode())

    def interrupt(self) -> int:
        """Press Ctrl-C, read to the end, and return the exit code.

        A signal just before a read is seen only when that read ends: a person who sees nothing
        happen presses again, and so does this."""
        end = time.monotonic() + PATIENCE_SECONDS
        self.type("\x03")
        while time.monotonic() < end:
            if not self._is_shown(QUIET_SECONDS):
                self.type("\x03")
            elif not self._more():
                return self.end()
        raise AssertionError(f"Ctrl-C does not end it: {self.text!r}")

    def end(self) -> int:
        """Read to the end, and return the exit code."""
        self.read_all()
        assert self.process is not None
        return self.process.wait(PATIENCE_SECONDS)

    def read_all(self) -> None:
        """Read to the end."""
        while self._more():
            pass
        os.close(self.handle)

    def _is_shown(self, seconds: float) -> bool:
        """Whether there is something to read within so many seconds."""
        poll = select.poll()  # `select` takes no descriptor above 1,023
        poll.register(self.handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _more(self) -> bool:
        assert self._is_shown(PATIENCE_SECONDS), f"nothing more is shown: {self.text!r}"
        try:
            piece = os.read(self.handle, 65_536)
        except OSError:  # how Linux says that nobody has the other side open
            return False
        self.raw += piece  # a piece may end within a character, or between CR and LF
        self.text = self.raw.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(piece)


def opened_terminal() -> tuple[int, int]:
    """Both sides of a terminal with 100 columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    return ours, theirs


def terminal(
    client: Client,
    *arguments: str,
    folder: Path | None = None,
    **variables: str,
) -> Terminal:
    """Start a command on a terminal with 100 columns."""
    ours, theirs = opened_terminal()
    process = Popen(
        [*COMMAND[:2], _LEADER + COMMAND[2], *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=client.environment() | variables,
        cwd=folder,
        text=True,
        start_new_session=True,
    )
    os.close(theirs)
    return Terminal(process, ours)


# ---- transcripts ---------------------------------------------------------------------------------

_MASKS: tuple[tuple[str, str], ...] = (
    (r"\b[0-9a-f]{64}\b", "<id of 64>"),
    (r"\b[0-9a-f]{16}\b", "<id of 16>"),
    (r"\b[0-9a-f]{12}\b", "<id of 12>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|\+00:00)", "<time in UTC>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}", "<local time>"),
    (r"http://127\.0\.0\.1:\d+", "<server>"),
    (r"local://lake/data/\w+/\w+", "<address>"),
    (r"expires=\d+|signature=\w+", "<secret>"),
    (r"(?<=/_presigned/)\w+", "<address>"),
    (r"(?<=setup token: )\w{32}\b", "<setup token>"),
    (r"\bAKIAJ[0-9A-Z]{14}Q\b", "<access key>"),
    (r"(?:(?<=\[3\dm)|\b)[0-9a-v]{20}\b", "<id of 20>"),
    (r"\bcommit-[0-9a-f]{32}-\d{6}-\d{6}\b", "<id of a job>"),
    (r"\b20\d\d-\d\d {2,}\d+", "<month and count>"),
    (r"secret_access_key: \S+", "secret_access_key: <secret>"),
)


def masked(text: str, masks: Mapping[str, str] = {}) -> str:
    """The text without what differs from run to run."""
    for pattern, name in (*_MASKS, *((re.escape(old), new) for old, new in masks.items())):
        text = re.sub(pattern, name, text)
    return text


def play(path: Path, run: Callable[[str], tuple[int, str]]) -> str:
    """Run the commands of a transcript, and return the transcript as it is now.

    Lines that begin with `$ ` are commands, those with `# ` are comments; all others are output."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") or (not line and lines and lines[-1].startswith("# ")):
            lines.append(line)
        if line.startswith("$ "):
            code, text = run(line.removeprefix("$ graveler "))
            lines += ["", line] if lines and lines[-1] else [line]
            lines += masked(text).splitlines()
            lines += [f"(ends with {code})"] if code else []
    return "\n".join(lines) + "\n"
