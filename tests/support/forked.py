"""Processes that do not import what they need: each is a fork of one that has.

    Popen            the console script
    FunctionPopen    a function of AWS: its packages are imported, its own code is not

A service of a test is a process of its own, with its own signals, limits and end, and most of what
it would cost is its imports.  These classes ask a helper, which has no threads, to fork.  Linux
makes the fork a child of this process, which waits for it and kills it as it does with any other.

Elsewhere than on Linux, while coverage is measured, and where variables of Python or of the loader
differ, they start a new interpreter.
"""

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

COMMAND = (
    *(sys.executable, "-c"),
    "import sys; from graveler.cli.main import main; sys.exit(main())",
)
FUNCTION = (
    *(sys.executable, "-c"),
    "import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True; "
    "from awslambdaric.__main__ import main; main(sys.argv[1:])",
)  # and the folder of its code, and the name of its handler
_CONSOLE = ("graveler.cli.main",)
# Without the runtime client, which reads its variables when it is imported.
_LAYER = (
    *("asyncio", "ssl", "urllib.request", "aws_lambda_powertools.metrics"),
    *("botocore.session", "botocore.parsers", "cramjam", "cryptography.fernet", "fastapi"),
    *("google.protobuf.message", "google_crc32c", "jwt", "mangum", "msgspec", "rocksdict"),
    *("pynamodb.connection.base", "xxhash", "yaml"),
)
_SERVICES = {
    "serve": "graveler.cli.support.service",
    "demo": "graveler.cli.support.demo",
    "gateway": "graveler.cli.support.s3_service",
}
_HELPER = "from tests.support.forked import serve; serve({number}, {imported})"
_ROOT = Path(__file__).parents[2]
_SET_CHILD_SUBREAPER = 36  # of `prctl`: orphans below this process become its children
_REQUEST_BYTES_MAX = 128 * 1024
_FILES_MAX = 1_024  # more than the helper has open
_KEPT = ("PYTHON", "LC_", "LANG", "COVERAGE", "LD_", "MALLOC_")  # read when a process begins


class Popen(subprocess.Popen[str]):
    """A process of `COMMAND`; its statements and what follows them may differ."""

    imported = _CONSOLE

    def _execute_child(self, args: Any, *rest: Any) -> None:  # type: ignore[override]
        environment = dict(os.environ if rest[5] is None else rest[5])
        if sys.platform != "linux" or not _as_now(environment):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        pipes = rest[9:15]
        theirs = (pipes[0], pipes[3], pipes[5])
        files = [own if given == -1 else given for own, given in enumerate(theirs)]
        request = {
            "statements": args[2],
            "arguments": args[3:],
            "environment": environment,
            "folder": os.path.abspath(rest[4] or ""),
            "leads": rest[20],
        }
        self.pid = _forked(self.imported, request, files)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class FunctionPopen(Popen):
    """A process of `FUNCTION`."""

    imported = _LAYER


def _as_now(environment: Mapping[str, str]) -> bool:
    names = {each for each in {*environment, *os.environ} if each.startswith(_KEPT)}
    is_measured = any(each.startswith("COVERAGE") for each in names)
    return not is_measured and all(environment.get(each) == os.environ.get(each) for each in names)


class _Helper:
    """The process that forks, and the socket on which it is asked to."""

    def __init__(self, imported: Sequence[str]) -> None:
        self._way, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _HELPER.format(number=theirs.fileno(), imported=imported)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                cwd=_ROOT,  # a test may have gone elsewhere
            )
        self._prctl = ctypes.CDLL(None).prctl

    def fork(self, request: Mapping[str, Any], files: list[int]) -> int:
        """The id of a new child of this process."""
        self._prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._way, [json.dumps(request).encode()], files)
            return int(self._way.recv(64))
        finally:
            self._prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def close(self) -> None:
        self._way.close()
        self._process.wait()


_lock = threading.Lock()
_helpers: dict[Sequence[str], _Helper] = {}  # by what they have imported, from the first request on


def _forked(imported: Sequence[str], request: Mapping[str, Any], files: list[int]) -> int:
    with _lock:
        if imported not in _helpers:
            _helpers[imported] = _Helper(imported)
            atexit.register(_helpers[imported].close)
        return _helpers[imported].fork(request, files)


# ---- in the helper -------------------------------------------------------------------------------


def serve(number: int, imported: Sequence[str]) -> None:
    """Fork for every request, until nobody is left to ask."""
    for name in imported:
        import_module(name)
    way = socket.socket(fileno=number)
    while True:
        message, files, _, _ = socket.recv_fds(way, _REQUEST_BYTES_MAX, 3)
        if not message:
            return
        request = json.loads(message)
        for word in request["arguments"][:1]:
            if word in _SERVICES:
                import_module(_SERVICES[word])
        if not (child := _orphan()):
            break
        for each in files:
            os.close(each)
        way.send(b"%d" % child)
    way.detach()
    _become(request, files)


def _orphan() -> int:
    """Fork twice, so that another process becomes the parent: the id of the fork; in it, 0."""
    reading, writing = os.pipe()
    between = os.fork()
    if not between:
        if not (child := os.fork()):
            return 0
        os.write(writing, b"%d" % child)
        os._exit(0)
    os.close(writing)
    os.waitpid(between, 0)
    try:
        return int(os.read(reading, 64))
    finally:
        os.close(reading)


def _become(request: Mapping[str, Any], files: list[int]) -> None:
    """What a new interpreter would be, with these variables, arguments and files."""
    if request["leads"]:
        os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, _FILES_MAX)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.argv = ["-c", *request["arguments"]]
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False, buffering=1 if os.isatty(1) else -1)
    sys.stderr = os.fdopen(2, "w", closefd=False, buffering=1, errors="backslashreplace")
    exec(compile(request["statements"], "<string>", "exec"), {"__name__": "__main__"})
