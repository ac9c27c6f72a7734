"""Tracks of the soak that serve a store: requests, kills, loads.

For tracks.py, and for tests that replay a kept seed.
"""

import math
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random

from simulator.service.fuzz import Fuzzer
from simulator.service.process import serving
from simulator.service.schema_fuzz import SchemaFuzz
from simulator.soak.kill_loop import KillLoop
from simulator.soak.records import Failure, Report, Reports
from simulator.soak.steady_load import SteadyLoad

REQUESTS = 2_000
EXAMPLES = 30  # of each operation, in one run of schemathesis
_KILLS = 10  # of one store
_COLLECTED_SECONDS = 30.0


def requests(reports: Reports, ended: Event) -> None:
    """Send streams of requests to one store, each stream with its own seed."""
    with _folder() as folder, serving(folder / "store", folder / "log") as service:
        while not ended.is_set():
            seed = random.SystemRandom().randrange(1 << 32)
            fuzzer = Fuzzer(service.host, service.port, service.authorization)
            fuzzer.run(Random(seed), REQUESTS, ended.is_set)
            fuzzer.close()
            failures = [Failure("fuzz", f"requests {seed}", each) for each in fuzzer.wrong[:3]]
            if service.process.poll() is not None:
                failures.append(Failure("fuzz", f"requests {seed}", "the service ended"))
            sent = sum(fuzzer.statuses.values())
            reports.put(Report({"api_requests": sent}, failures))
            if failures:
                return


def schemathesis(reports: Reports, ended: Event) -> None:
    """Run schemathesis again and again on one store, each time with a fresh seed."""
    with _folder() as folder, serving(folder / "store", folder / "log") as service:
        fuzz = SchemaFuzz(service, folder)
        while not ended.is_set():
            seed = random.SystemRandom().randrange(1 << 32)
            found = fuzz.run(seed, EXAMPLES)
            failures = [Failure("fuzz", f"schemathesis {seed}", found.wrong)] * bool(found.wrong)
            reports.put(Report({"schemathesis_requests": found.requests}, failures))
            if failures:
                return


def kills(reports: Reports, ended: Event) -> None:
    """Run one kill loop after another, each on a fresh store."""
    while not ended.is_set():
        seed = random.SystemRandom().randrange(1 << 32)
        with _folder() as folder:
            loop = KillLoop(folder, Random(seed))
            try:
                loop.run(_KILLS, ended.is_set)
            except Exception as error:
                said = (folder / "log").read_text()[-3_000:]
                loop.wrong.append(f"{type(error).__name__}: {error}; the service said: {said}")
            counts = {"kills": loop.kills, "acknowledged_commits": len(loop.promises)}
            reports.put(Report(counts))
            reports.put(Report(failures=[Failure("", "", each) for each in loop.wrong[:5]]))
            if loop.wrong:
                return


def steady(reports: Reports, ended: Event) -> None:
    """Run one load for the whole time."""
    # The folder of the soak is removed with its hundred thousands of files; removing them here
    # would take minutes.
    folder = Path(tempfile.mkdtemp(prefix="graveler-soak-"))
    load = SteadyLoad(folder, random.SystemRandom().randrange(1 << 32))
    load.run(
        ended.is_set,
        lambda sample: reports.put(Report({"load_requests": sample.requests}, samples=[sample])),
    )
    reports.put(Report(failures=[Failure("", "", each) for each in load.wrong[:5]]))


def collection(reports: Reports, ended: Event) -> None:
    """Run a short load, then collect garbage and measure the disk that is left; once."""
    with _folder() as folder:
        load = SteadyLoad(folder, random.SystemRandom().randrange(1 << 32), interval_seconds=5.0)
        until = time.monotonic() + _COLLECTED_SECONDS
        load.run(lambda: ended.is_set() or time.monotonic() > until)
        before = load.samples[-1].disk_mib if load.samples else 0.0
        if not ended.is_set():
            load.collect()
            after = math.ceil(load.collected_mib)
            counts = {"collected_mib_before": round(before), "collected_mib_after": after}
            reports.put(Report(counts))
        reports.put(Report(failures=[Failure("", "", each) for each in load.wrong[:5]]))


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="graveler-soak-") as name:
        yield Path(name)
