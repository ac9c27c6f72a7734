"""`spark-submit` of Spark 3.5 runs the file of `infra/`.

On Spark 4 that is shown where a driver is killed (`test_dying.py`).
"""

import json
from pathlib import Path

from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE
from graveler.spark import Lake
from tests.spark.lakes import KEYS, frame
from tests.spark.programs import ROOT, WAIT_SECONDS, submit
from tests.spark.verbs.test_land import ascii_rows, listed, log, repository

__all__ = ["repository"]  # a fixture


def test_an_import_is_submitted(lake: Lake, repository: str, tmp_path: Path) -> None:
    rows, source = ascii_rows(43, 60), str(tmp_path / "rows")
    frame(lake.spark, rows).write.parquet(source)
    words = ["import", "--url", lake.session.url, "--store", lake.store, "--source", source]
    words += ["--target", f"{repository}/main", "--message", "each night"]
    process = submit(
        tmp_path,
        ROOT / "infra" / "spark_job.py",
        words,
        settings={"spark.master": "local[1]"},
        variables={KEY_VARIABLE: KEYS[0], SECRET_VARIABLE: KEYS[1]},
    )
    out, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, err[-3_000:]
    said = json.loads(out.splitlines()[-1])
    newest, *_ = log(lake.session, repository)
    assert (said["commit"], said["count"], newest["message"]) == (newest["id"], 60, "each night")
    assert set(listed(lake.session, repository)) == {row[0] for row in rows}
