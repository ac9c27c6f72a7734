"""A task that runs on two machines at once leaves nothing half-done."""

import json
from pathlib import Path

from tests.spark.programs import ROOT, WAIT_SECONDS, submit


def test_a_task_that_runs_twice_is_harmless(tmp_path: Path) -> None:
    """Speculation on two machines: the first attempt hangs, the result of the second counts."""
    settings = {
        "spark.cores.max": "2",
        "spark.master.rest.enabled": "false",  # it would listen on a fixed port
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    program = ROOT / "tests" / "spark" / "twice.py"
    process = submit(tmp_path, program, [str(tmp_path)], settings=settings)
    out, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, err[-3_000:]
    said = json.loads(out.splitlines()[-1])
    assert said["equal"] and said["left_over"] == []
    assert {"ended-1-0", "ended-1-1"} <= set(said["ended"])
