"""The committed layer with a hundred million objects, of which only some ranges are written.

    metarange   one line for each of 10,000 ranges of 10,000 objects
    ranges      every fiftieth is written; the others have a line, but no file

Work that reads only what it needs cannot notice the difference.  It fails on a range without a
file, so the lines show that nothing else is read.  Each look-up opens a block that no look-up
before it has opened: with so many objects, a cache holds next to nothing.  Runs in its own process.
Run: python -m benchmarks.huge
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import committed
from benchmarks.committed import ROUNDS, open_space, value
from benchmarks.stopwatch import seconds_of
from graveler.committed import apply, diff, reader
from graveler.committed.ranges import Keyspace
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import RangeRef, Record

OBJECTS, IN_A_RANGE, WRITTEN_EVERY = 100_000_000, 10_000, 50
APART = 100  # objects between two look-ups, more than a block holds
RECORD_BYTES = 350  # of a key and a framed value, about


def measure() -> dict[str, float]:
    """All lines, measured in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.huge", "--one"]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return found


def lines(objects: int = OBJECTS) -> dict[str, float]:
    """Rates in look-ups per second, times in milliseconds (medians), memory in megabytes."""
    with tempfile.TemporaryDirectory() as folder:
        space = open_space(Path(folder))
        base = generated(space, objects)
        written = range(0, objects, IN_A_RANGE * WRITTEN_EVERY)
        middle = written[len(written) // 2] + IN_A_RANGE // 2
        commits, diffs = [], []
        for edition in range(1, ROUNDS + 1):
            changes = [(key(middle), value(middle, edition))]
            began = time.perf_counter()
            after = apply.apply(space, base, changes).metarange_id
            commits.append(time.perf_counter() - began)
            diffs.append(seconds_of(partial(_diff, space, base, after)))
        wanted = [first + n for first in written for n in range(0, IN_A_RANGE, APART)]
        random.Random(1).shuffle(wanted)
        keys = list(map(key, wanted))
        return {
            "objects": objects,
            "commit_1_ms": statistics.median(commits) * 1e3,
            "diff_1_ms": statistics.median(diffs) * 1e3,
            "lookups_cold_per_s": len(keys) / seconds_of(partial(_look_up, space, base, keys)),
            "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def key(number: int) -> bytes:
    """As `committed.key`, whose numbers of days are too short for so many objects."""
    head, _, rest = committed.key(number).partition(b"2025-")
    day, _, tail = rest.partition(b"/")
    return head + b"2025-" + day.zfill(6) + b"/" + tail


def generated(space: Keyspace, objects: int) -> MetarangeId:
    """A metarange over as many objects."""
    refs = []
    for number, first in enumerate(range(0, objects, IN_A_RANGE)):
        last = first + IN_A_RANGE - 1
        if number % WRITTEN_EVERY:
            name = RangeId(f"{number:064x}")
            refs.append(
                RangeRef(name, key(first), key(last), IN_A_RANGE * RECORD_BYTES, IN_A_RANGE)
            )
        else:
            records: list[Record] = [(key(n), value(n)) for n in range(first, last + 1)]
            refs.append(space.store.write_range(space.namespace, records))
    return space.store.write_metarange(space.namespace, refs)


def _diff(space: Keyspace, left: MetarangeId, right: MetarangeId) -> None:
    found = list(diff.diff(space, left, right))
    if len(found) != 1:
        raise RuntimeError(f"the diff has {len(found)} lines")


def _look_up(space: Keyspace, base: MetarangeId, keys: list[bytes]) -> None:
    for each in keys:
        if not reader.get(space, base, each):
            raise RuntimeError(f"not found: {each!r}")


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.huge",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--one", action="store_true", help="measure in this process")
    print(json.dumps(lines() if parser.parse_args().one else measure()))


if __name__ == "__main__":
    main()
