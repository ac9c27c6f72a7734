"""Engines end with the process that started them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.aws import engines
from tests.waiting import until

PARENT = """
import sys
from tests.aws import engines

with engines.ministack(port=int(sys.argv[1])) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
def test_an_engine_ends_although_its_parent_is_killed(number: signal.Signals) -> None:
    """SIGTERM as `timeout` sends it: to all processes of the group."""
    port = engines.free_port()
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", PARENT, str(port)]
    variables = {**os.environ, "PYTHONPATH": str(engines.ROOT)}
    parent = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, env=variables, cwd=engines.ROOT, start_new_session=True
    )
    with parent:
        assert parent.stdout is not None
        assert str(port) in parent.stdout.readline().decode()
        assert listens(port)
        os.killpg(parent.pid, number) if number != signal.SIGKILL else parent.kill()
    until(lambda: not listens(port), "the engine ends")


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False
