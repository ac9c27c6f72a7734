"""The library needs nothing of a session that Spark Connect does not have."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.spark.programs import JAVA, PATH, WAIT_SECONDS


def test_a_session_of_spark_connect_is_enough(tmp_path: Path) -> None:
    """In a process of its own: one that has a session of the classic kind can have no other."""
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.connected", str(tmp_path)],
        env={
            **os.environ,
            "PYTHONPATH": PATH,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JDK_JAVA_OPTIONS": JAVA,
        },
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = program.communicate(timeout=WAIT_SECONDS)
    finally:
        with suppress(ProcessLookupError):  # its server of Spark, should it live on
            os.killpg(program.pid, signal.SIGKILL)
    assert program.returncode == 0, err[-3_000:]
    assert json.loads(out.splitlines()[-1]) == {
        "session": "pyspark.sql.connect.session",
        "count": 300,
        "sum": sum(range(1, 300, 3)),
        "rows": list(range(20)),
        "added": 2,
        "committed": 1,
        "packed": True,
        "condemned": 0,
        "joined": True,
        "paths": 100,
    }
