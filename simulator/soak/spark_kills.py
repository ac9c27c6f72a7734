"""Drivers of Spark, their workers and the server of the lake are killed while they write.

    .venv-spark4/bin/python -m simulator.soak.spark_kills --seeds 25

Each seed is a store with a table of named appends and one that a stream writes.  A driver that dies
is started again with the same words.  Somebody dies by SIGKILL once at each of eight points:

    begin, begun, finish, finished     the driver, before or after it begins or lands a job
    store, stored                      a worker, before or after it stores its files
    server, landing                    the server, while tasks work, or somewhere in a landing

After the first death, and for some seeds after each, the service forgets the records of jobs, as
days later.  For every other seed the last two drivers run at once.  Then each batch and each job
must have landed once.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import graveler
from graveler.assembly.embedded import open_embedded
from graveler.core import limits
from graveler.core.ids import RepositoryId
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE
from graveler.engine import janitor
from graveler.engine.ports import open_repository
from graveler.refs import repositories
from graveler.refs.stream_marks import batch_in
from simulator.service.process import KEY, SECRET, serving, verify
from simulator.soak.spark_driver import (
    BATCHES,
    DRIVER,
    ENDED,
    JOBS,
    ORDER,
    ROWS,
    SERVER,
    WORKER,
    Plan,
    has_format,
)
from tests.spark.programs import killed, submit
from tests.support.clockwork import TickingClock

PROGRAM = Path(__file__).with_name("spark_driver.py")
POINTS = (*DRIVER, *WORKER, *SERVER)
_WAIT_SECONDS, _LOOK_SECONDS = 900, 0.003
_DRIVERS_MAX = 12
_FIRST = 10_000  # of the rows of the stream
_SETTINGS = {
    "spark.master": "local[1,4]",
    "spark.sql.shuffle.partitions": "1",
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.minTaskRuntime": "10ms",
}


class Server:
    """A served store, which is started again on its port whenever it has died."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, ""
        self._stops = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside the `with` block it is served; at its end it is stopped."""
        ready, self._stops = threading.Event(), threading.Event()
        thread = threading.Thread(target=self._serve, args=(ready,))
        thread.start()
        try:
            if not ready.wait(_WAIT_SECONDS):
                raise RuntimeError("the server did not start")
            yield
        finally:
            self._stops.set()
            thread.join()

    def _serve(self, ready: threading.Event) -> None:
        port = int(self.url.rpartition(":")[2]) if self.url else 0
        order = self.folder / ORDER
        while not self._stops.is_set():
            with serving(self.folder / "store", self.folder / "log", port=port) as live:
                port, self.url = live.port, f"http://{live.host}:{live.port}"
                ready.set()
                while live.process.poll() is None:
                    if self._stops.wait(_LOOK_SECONDS):
                        live.end()
                    elif order.exists():
                        order.unlink()
                        live.process.kill()


@dataclass(slots=True)
class Result:
    """What a seed has found."""

    seed: int
    died: list[str] = field(default_factory=list)
    drivers: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


class Kills:
    """One seed: its store, its drivers, its deaths."""

    def __init__(self, folder: Path, seed: int, points: tuple[str, ...] = POINTS) -> None:
        self.folder, self.chance, self.points = folder, Random(seed), points
        self.server = Server(folder)
        self.result = Result(seed)

    def run(self) -> Result:
        """Run all drivers, and check the tables."""
        begun = monotonic()
        self._prepare()
        lives = self._lives()
        for at, deaths in enumerate(lives):
            with self.server.running():
                self._driven([self._plan(deaths)])
            if at == 0 or self.chance.random() < 0.5:
                self._forget()
        with self.server.running():
            for _ in range(_DRIVERS_MAX):
                if self._driven([self._plan({})] * (2 if self.result.seed % 2 else 1)):
                    break
            else:
                self.result.wrong.append("no driver came to its end")
            self._check()
        if damage := verify(self.folder / "store"):
            self.result.wrong.append(f"verify: {damage}")
        self.result.died = sorted(path.name for path in (self.folder / "died").iterdir())
        if alive := set(self.points).difference(self.result.died):
            self.result.wrong.append(f"nobody died at: {','.join(sorted(alive))}")
        self.result.seconds = round(monotonic() - begun, 1)
        return self.result

    def _prepare(self) -> None:
        for name in ("in", "died", "tmp"):
            (self.folder / name).mkdir()
        for number in range(BATCHES):
            file = self.folder / "in" / f"{number:03}.csv"
            first = _FIRST + number * ROWS
            file.write_text("".join(f"{id}\n" for id in range(first, first + ROWS)))
            os.utime(file, (1_700_000_000 + number,) * 2)
        with self.server.running(), self._lake() as lake:
            lake.create_repository("killed", namespace="local://killed/")

    def _lives(self) -> list[dict[str, int]]:
        """Of each driver, at which of its landings somebody dies at a point: the driver itself at
        the second or third one, others before it."""
        drivers = [point for point in DRIVER if point in self.points]
        self.chance.shuffle(drivers)
        ends = [self.chance.randint(2, 3) for _ in drivers]
        lives = [{point: end} for point, end in zip(drivers, ends, strict=True)]
        for point in (*WORKER, *SERVER):
            if point in self.points:
                at = self.chance.randrange(len(lives))
                lives[at][point] = self.chance.randint(1, ends[at] - 1)
        return lives

    def _plan(self, deaths: dict[str, int]) -> Plan:
        return Plan(
            self.server.url,
            str(self.folder / "store"),
            "killed/main",
            deaths,
            self.chance.choice((0, 0.002, 0.005, 0.01, 0.02, 0.05)),
            has_format() and self.result.seed % 4 > 1,
        )

    def _driven(self, plans: list[Plan]) -> bool:
        """Run drivers at once.  Returns whether all came to their end."""
        drivers = [
            submit(
                self.folder,
                PROGRAM,
                [str(self.folder), plan.dump()],
                settings=_SETTINGS,
                variables={
                    **{KEY_VARIABLE: KEY, SECRET_VARIABLE: SECRET},
                    "TMPDIR": str(self.folder / "tmp"),  # drivers that die leave files
                },
            )
            for plan in plans
        ]
        self.result.drivers += len(drivers)
        return all([self._ended(driver, plan) for driver, plan in zip(drivers, plans, strict=True)])

    def _ended(self, driver: subprocess.Popen[str], plan: Plan) -> bool:
        try:
            out, errors = driver.communicate(timeout=_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            killed(driver)
            self.result.wrong.append("a driver did not end in time")
            return False
        # Java may see the death of the driver's Python just before its own.
        if driver.returncode and not set(DRIVER).intersection(plan.deaths):
            code = driver.returncode
            self.result.wrong.append(f"a driver failed: {code=} {out[-2_000:]} {errors[-500:]}")
        return ENDED in out

    def _forget(self) -> None:
        """The records of jobs are gone, as a week later."""
        embedded = open_embedded(self.folder / "store")
        try:
            later = embedded.ports.clock.now_ns() + 7 * 24 * 3_600 * limits.SECOND_NS
            ports = replace(embedded.ports, clock=TickingClock(later))
            record = repositories.get(ports.kv, RepositoryId("killed"))
            janitor.sweep(open_repository(ports, record))
        finally:
            embedded.close()

    def _lake(self) -> graveler.Lake:
        return graveler.connect(self.server.url, KEY, SECRET)

    def _check(self) -> None:
        with self._lake() as lake:
            self._check_branch(lake.repository("killed").branch("main"))

    def _check_branch(self, main: graveler.Branch) -> None:
        commits = main.log().all()[::-1]
        jobs = sorted(each.message for each in commits if each.message.startswith("job-"))
        marks = [batch_in(each.metadata) for each in commits]
        batches = [number for stream, number in marks if stream.endswith(":stream/")]
        self._expect("jobs", jobs, [f"job-{number}" for number in range(JOBS)])
        # A source that had noted a file before it died gives the next batch two.
        self._expect("batches", batches, sorted({*batches}))
        for name, first, count in (("jobs", 0, JOBS), ("stream", _FIRST, BATCHES)):
            rows = main.dataset(f"{name}/").to_table(["id"])["id"].to_pylist()
            self._expect(f"rows of {name}", sorted(rows), list(range(first, first + count * ROWS)))

    def _expect(self, what: str, found: list[Any], expected: list[Any]) -> None:
        if found != expected:
            self.result.wrong.append(f"{what}: {found!r:.1000}")


def main(arguments: list[str]) -> int:
    """Run seeds; print a line for each; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m simulator.soak.spark_kills",
        description="Kills drivers of Spark, workers and the server while they write.",
    )
    parser.add_argument("--seeds", type=int, default=25, help="how many (25)")
    parser.add_argument("--first", type=int, default=0, help="the first one (0)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of failed seeds")
    given = parser.parse_args(arguments)
    os.environ.setdefault("JAVA_HOME", str(Path(sys.prefix) / "java"))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    failed = 0
    for seed in range(given.first, given.first + given.seeds):
        folder = Path(tempfile.mkdtemp(prefix="spark-kills-"))
        result = Kills(folder, seed).run()
        if not (result.wrong and given.keep):
            shutil.rmtree(folder)
        failed += bool(result.wrong)
        sys.stdout.write(f"{json.dumps(asdict(result))}\n")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
