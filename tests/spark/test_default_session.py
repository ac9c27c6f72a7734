"""Every verb works in a session that nobody has configured, of each kind that Spark has."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.spark.conftest import HAS_SOURCES
from tests.spark.programs import JAVA, PATH, WAIT_SECONDS

CLASSIC, CONNECT = "pyspark.sql.session", "pyspark.sql.connect.session"


@pytest.mark.parametrize("session", [CLASSIC, CONNECT] if HAS_SOURCES else [CLASSIC])
def test_every_verb_works(tmp_path: Path, session: str) -> None:
    """In a process of its own: the session of the other tests has settings, and a process that has
    a classic session cannot have another kind.  A session of Spark Connect is enough: the package
    needs nothing that only the classic session has.

    Java and Python start as fast as in the other tests; Spark is told nothing."""
    options = ["--connect"] if session == CONNECT else []
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.every_verb", str(tmp_path), *options],
        env={**os.environ, "PYTHONPATH": PATH, "JDK_JAVA_OPTIONS": JAVA},
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
    expected = {
        "session": session,
        "count": 300,
        "sum": sum(range(1, 300, 3)),
        "rows": list(range(20)),
        "files": True,
        "added": ["added"],
        "log": 5,
        "ranges": True,
        "committed": 1,
        "packed": True,
        "condemned": 0,
        "joined": True,
        "tables": {
            "rows": [
                "(1, None, datetime.date(2026, 1, 3))",
                "(2, None, datetime.date(2026, 1, 3))",
                "(2, None, datetime.date(2026, 1, 3))",
                "(3, None, datetime.date(2026, 1, 1))",
                "(4, None, datetime.date(2026, 1, 2))",
            ],
            "before": 2,
            "again": [0, 1],
            "compacted": 2,
            "views": ["orders"],
            "sql": 4,
            "diff": 2,
            "history": 8,
        },
    }
    if HAS_SOURCES:
        expected["paths"] = 100
        expected["format"] = {"saved": 6, "stream": 2}
    assert json.loads(out.splitlines()[-1]) == expected
