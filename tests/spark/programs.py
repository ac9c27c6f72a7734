"""Programs of Spark itself, as processes: `spark-submit`, and a cluster of two machines."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from tests.aws.engines import free_port

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


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core, each on a machine of its own as far as
    Spark can tell: only then it runs a task twice."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    with ExitStack() as running:
        lines = running.enter_context(_started(folder, master))
        _wait_for(lines, "New state: ALIVE")
        for host in ("127.0.0.2", "127.0.0.3"):
            options = ["-c", "1", "-m", "600m", "--webui-port", "0", "-d", str(folder / host)]
            worker = ["worker.Worker", "--host", host, *options, url]
            running.enter_context(_started(folder, worker))
        _wait_for(lines, "Registering worker", 2)
        yield url


def _wait_for(log: Path, text: str, count: int = 1) -> None:
    """Until the log has it so often."""
    for _ in range(WAIT_SECONDS * 10):
        if log.read_text().count(text) >= count:
            return
        time.sleep(0.1)
    raise TimeoutError(f"{text!r} is missing: {log.read_text()[-2_000:]}")


@contextmanager
def _started(folder: Path, words: Sequence[str]) -> Iterator[Path]:
    log = folder / f"{words[0]}-{words[2]}.log"
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with log.open("w") as lines:
        process = subprocess.Popen(
            [str(program), f"org.apache.spark.deploy.{words[0]}", *words[1:]],
            env={
                **os.environ,
                "PYTHONPATH": PATH,
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": JAVA,
            },
            cwd=folder,
            stdout=lines,
            stderr=lines,
            start_new_session=True,
        )
        try:
            yield log
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(WAIT_SECONDS)
