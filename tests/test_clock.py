"""Ids of the system: no two processes draw the same."""

import subprocess
import sys

from tests.waiting import PATIENCE_SECONDS

_FORKS = """
import os, sys
from graveler.core.clock import SystemIds
ids = SystemIds()
ids.stamp()
for _ in range(2):
    child = os.fork()
    if not child:
        os.write(1, ids.stamp().hex().encode() + b" ")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
os.write(1, ids.stamp().hex().encode())
"""


def test_forks_draw_other_ids_than_their_parent_and_each_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKS],
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    stamps = done.stdout.split()
    assert len(set(stamps)) == len(stamps) == 3
