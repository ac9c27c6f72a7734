"""A server of an embedded store, which runs as long as this process.

Only one process can open the store, so executors cannot open it, and references go over HTTP even
here.  The server is the ordinary command.  It ends when its standard input is closed, and the
operating system closes it however this process ends.  For `lake.py`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import graveler
from graveler.errors import Unavailable
from graveler.settings import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, environment

_PROGRAM: Final = """
import os, signal, sys, threading
def follow():
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=follow, daemon=True).start()
sys.path.append(sys.argv.pop(1))
from graveler.cli.main import main
sys.exit(main())
"""
_PACKAGES: Final = str(Path(graveler.__file__).resolve().parents[1])
_READY: Final = re.compile(r"ready at (http://\S+)")
_END_SECONDS: Final = 60


class EmbeddedServer(NamedTuple):
    """The URL of a server, and a function that stops it; a second call does nothing."""

    url: str
    stop: Callable[[], None]


class Credentials(NamedTuple):
    """The credentials of the API for a job: an access key id and its secret."""

    access_key_id: str
    secret_access_key: str


def serve(store: Path, credentials: Credentials, import_roots: Sequence[Path]) -> EmbeddedServer:
    """Start a server on the store's folder, which is made if it does not exist, and wait until it
    answers.

    Raises `Unavailable` if the server does not start: another process has the store open, or the
    folder cannot be written.  The server's errors go to this process's standard error.
    """
    folder = os.path.abspath(store)
    keys = {
        ACCESS_KEY_VARIABLE: credentials.access_key_id,
        SECRET_KEY_VARIABLE: credentials.secret_access_key,
    }
    roots = [word for root in import_roots for word in ("--import-root", os.path.abspath(root))]
    options = ["--store", folder, "--listen", "127.0.0.1:0", *roots]
    process = subprocess.Popen(
        # -P: no module of the current folder takes the place of one of ours.
        [sys.executable, "-P", "-c", _PROGRAM, _PACKAGES, "serve", *options],
        env={**environment(), **keys},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def stop() -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait(_END_SECONDS)

    assert process.stdout is not None, "it is piped"
    for line in process.stdout:
        match = _READY.search(line)
        if match is not None:
            return EmbeddedServer(match[1], stop)
    stop()
    raise Unavailable(
        "the store could not be served: see standard error; perhaps another "
        f"process has it open: store={folder}"
    )
