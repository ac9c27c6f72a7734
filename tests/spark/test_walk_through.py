"""The blocks of the tutorial and of the reference run as they stand, in one namespace each."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from graveler.core.errors import Unsupported
from tests.docs import examples
from tests.spark.conftest import HAS_SOURCES
from tests.spark.programs import JAVA, PATH, ROOT, WAIT_SECONDS

TUTORIAL = "docs/tutorial/3-spark.md"
DOCUMENT = "docs/reference/spark.md"


def test_the_blocks_run(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On Spark 3.5 the block of Spark 4's format is refused as the document says."""
    monkeypatch.chdir(tmp_path)
    blocks = examples.blocks(DOCUMENT)
    names: dict[str, Any] = {}
    said: list[str] = []
    try:
        for block in blocks:
            code = compile(block, DOCUMENT, "exec")
            if "register(lake)" in block and not HAS_SOURCES:
                with pytest.raises(Unsupported):
                    exec(code, names)
            elif HAS_SOURCES or 'format("graveler")' not in block:
                exec(code, names)
            said.append(capsys.readouterr().out)
    finally:
        names["lake"].close()
    words = "\n".join(said)
    assert names["spark"] is spark and "lake.close()" in blocks[-1]
    assert f"{names['landed'].commit} 3000" in words and f"{names['made'].commit} 20" in words
    assert "|sum(size)|" in words and "|   249200|" in words  # a hundred files of one day
    assert re.search(r"\|\s*added\|\s+20\|", words)
    assert "FileCount(files=0, size_bytes=0) FileCount(files=0, size_bytes=0)" in words
    assert words.count("|2026-11-01|") >= 20 and "\n205 200\n" in words


@pytest.mark.one_version
def test_the_tutorial_runs_from_a_shell(tmp_path: Path) -> None:
    """Word for word, with no variable of the environment but those of the page, and those that let
    Java and Python start fast.  The page is of Spark 4."""
    (tmp_path / ".venv-spark4").symlink_to(sys.prefix)
    (shell,) = examples.blocks(TUTORIAL, "sh")
    ran = subprocess.run(
        ["sh", "-euc", shell],
        input="\n".join(examples.blocks(TUTORIAL)),
        env={
            **{"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
            **{"PYTHONPATH": PATH, "JDK_JAVA_OPTIONS": JAVA},
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert ran.returncode == 0, ran.stderr[-3_000:]
    assert "now: 205" in ran.stdout and "one commit before: 200" in ran.stdout
    assert re.search(r"\|changed\|\s+1\|", ran.stdout)
    assert re.search(r"\|removed\|\s+10\|", ran.stdout)
    page = (ROOT / TUTORIAL).read_text(encoding="utf-8")
    for line in (
        *("now: 203", "now: 193", "67 rows; the same commit: True", "['customers', 'orders']"),
        *("orders: 293 customers: 50", "CheckFailed check no_free_orders found bad row"),
        *("|2026-01-01|    66|", "|2026-01-02|    63|", "|2026-01-03|    64|", "|  100|"),
        *("200 rows in 6 files", "11 files before", "4 files after, 0 rows differ"),
        "id bigint, amount double, day date (parquet partitioned by day)",
    ):
        assert line in ran.stdout and line in page, line
