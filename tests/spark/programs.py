"""Programs of Spark itself, as processes: `spark-submit`."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
START = ROOT / "tests" / "spark" / "start"  # on the path of every process (`sitecustomize.py`)
WAIT_SECONDS = 600
PATH = os.pathsep.join(map(str, (START, ROOT)))
# Starts fast, and lives for seconds: no second compiler, no threads of a collector, no proof that
# the classes of Spark are well formed.
JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
}


def submit(
    folder: Path,
    program: Path,
    words: Sequence[str],
    *,
    settings: Mapping[str, str],
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """A program that `spark-submit` runs; it and its children are one group of processes."""
    chosen = {**_QUIET, "spark.local.dir": str(folder / "local"), **settings}
    options = [word for each in chosen.items() for word in ("--conf", "=".join(each))]
    return subprocess.Popen(
        [str(Path(sys.executable).parent / "spark-submit"), *options, str(program), *words],
        env={**os.environ, "PYTHONPATH": PATH, "SPARK_LOCAL_IP": "127.0.0.1"}
        | dict(variables or {}),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def killed(process: subprocess.Popen[str]) -> None:
    """The machine of a program is gone, with all that ran on it."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_SECONDS)
