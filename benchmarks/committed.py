"""Speed and memory of the committed layer on the embedded store.

    calibration  of the machine: one small hash, one synced write
    lines        the figures that docs/measured/benchmarks.md reports, for a number of objects

Every function returns plain dictionaries.  `measure` runs each size in its own process, so that the
peak memory belongs to that size alone.  Run: python -m benchmarks.committed [objects ...]
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from graveler import wire
from graveler.block.local import LocalBlocks
from graveler.clock import SystemClock, SystemIds
from graveler.committed import apply, diff, merge, reader, writer
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.ids import MetarangeId
from graveler.records import BreakParameters, Change, Entry, Record

ROUNDS = 3
CORES = 2
LOOKUPS = 100_000


def calibration() -> dict[str, float]:
    """Microseconds for a SHA-256 over 64 bytes; milliseconds for a synced write of 4 KiB."""
    block = b"x" * 64
    hashing = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(200_000):
            hashlib.sha256(block).digest()
        hashing.append((time.perf_counter() - begin) / 200_000 * 1e6)
    syncs = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(100):
            begin = time.perf_counter()
            os.pwrite(file.fileno(), b"x" * 4096, 0)
            os.fsync(file.fileno())
            syncs.append((time.perf_counter() - begin) * 1e3)
    return {"sha256_64_bytes_us": min(hashing), "synced_4_kib_ms": statistics.median(syncs)}


def measure(count: int) -> dict[str, float]:
    """All lines for `count` objects, measured in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.committed", "--one", str(count)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return found


def lines(count: int) -> dict[str, float]:
    """Rates in records per second, times in milliseconds (medians), memory in megabytes."""
    with tempfile.TemporaryDirectory() as folder:
        space = open_space(Path(folder))
        found: dict[str, float] = {"objects": count}
        began = [0.0]
        base = writer.write(space, _timed_stream(count, began))
        found["bulk_load_per_s"] = count / (time.perf_counter() - began[0])
        found |= _commits(space, base, count)
        found |= _reads(space, base, count)
        found["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return found


def open_space(folder: Path, breaks: BreakParameters | None = None) -> Keyspace:
    """A keyspace on a local folder, as in the embedded store."""
    blocks = LocalBlocks(folder / "objects", clock=SystemClock(), ids=SystemIds())
    scratch = folder / "scratch"
    scratch.mkdir()
    store = SstRangeStore(StoredFiles(blocks, scratch))
    return Keyspace(store, "local://bench/repository", breaks or BreakParameters(salt=b"bench"))


def key(number: int) -> bytes:
    """The key with this number.  Keys sort in the order of their numbers."""
    day, rest = divmod(number, 2_400)
    hour, part = divmod(rest, 100)
    return (
        f"tables/events/date=2025-{day:04d}/hour={hour:02d}/part-{part:05d}-c000.snappy.parquet"
    ).encode()


def value(number: int, edition: int = 0) -> bytes:
    """The framed bytes of a full entry, with metadata and a content type."""
    digest = hashlib.md5(b"%d/%d" % (number, edition), usedforsecurity=False).hexdigest()
    return wire.encode_entry(
        Entry(
            address=f"data/gqssm3rnkg5iv0eakp3g/{digest[:20]}",
            size=number * 7919 % 10_000_000,
            checksum=digest,
            modified_ns=1_760_000_000_000_000_000 + number * 1_000_003,
            metadata={"owner": "etl", "run": str(number % 97)},
            content_type="application/octet-stream",
        )
    )


def _timed_stream(count: int, began: list[float]) -> Iterator[Record]:
    """Records whose generation is not measured: `began` moves forward by the time it takes."""
    began[0] = time.perf_counter()
    for start in range(0, count, 20_000):
        making = time.perf_counter()
        records = [(key(n), value(n)) for n in range(start, min(count, start + 20_000))]
        began[0] += time.perf_counter() - making
        yield from records


def _commits(space: Keyspace, base: MetarangeId, count: int) -> dict[str, float]:
    found: dict[str, float] = {}
    results: dict[str, MetarangeId] = {}
    for name, numbers in _plans(count).items():
        changes: list[Change] = [(key(n), value(n, edition=1)) for n in numbers]
        rounds = 1 if len(changes) > 1_000 else ROUNDS
        found[f"commit_{name}_ms"] = _median(partial(apply.apply, space, base, changes), rounds)
        results[name] = apply.apply(space, base, changes).metarange_id
        if len(changes) <= 1_000:
            work = partial(_diff, space, base, results[name])
            found[f"diff_{name}_ms"] = _median(work, ROUNDS)
    middle = count // 2
    thousand: list[Change] = [
        (key(n) + b".new", value(n)) for n in range(middle - 500, middle + 500)
    ]
    other = apply.apply(space, base, thousand).metarange_id
    merging = partial(merge.merge, space, base, results["1"], other)
    found["merge_1_against_1000_ms"] = _median(merging, ROUNDS)
    return found


def _plans(count: int) -> dict[str, Sequence[int]]:
    """The numbers of the records that change, by the name of the line."""
    middle = count // 2
    plans: dict[str, Sequence[int]] = {"1": [middle]}
    for many in (1_000, 100_000):
        if many * 2 <= count:
            plans[f"{many}_adjacent"] = range(middle - many // 2, middle + many // 2)
            plans[f"{many}_spread"] = range(count // many // 2, count, count // many)[:many]
    return plans


def _diff(space: Keyspace, left: MetarangeId, right: MetarangeId) -> None:
    _drain(diff.diff(space, left, right))


def _reads(space: Keyspace, base: MetarangeId, count: int) -> dict[str, float]:
    found: dict[str, float] = {}
    found["scan_framed_per_s"] = count / _seconds(lambda: _drain(reader.scan(space, base)))
    found["scan_decoded_per_s"] = count / _seconds(
        lambda: _drain(wire.stored_entry(v).size for _, v in reader.scan(space, base))
    )
    _SCANNED[:] = [(space, base)]
    with multiprocessing.get_context("fork").Pool(CORES) as pool:
        pool.map(_decoded_part, [count] * CORES)  # no such range: only starts them
        found["scan_decoded_both_cores_per_s"] = count / _seconds(
            lambda: pool.map(_decoded_part, range(CORES), chunksize=1)
        )
    generator = random.Random(1)
    wanted = [key(generator.randrange(count)) for _ in range(LOOKUPS)]
    _drain(reader.get(space, base, k) for k in wanted)
    found["lookups_per_s"] = LOOKUPS / _seconds(
        lambda: _drain(reader.get(space, base, k) for k in wanted)
    )
    found["lookups_batched_per_s"] = LOOKUPS / _seconds(
        lambda: [reader.get_many(space, base, wanted[n : n + 100]) for n in range(0, LOOKUPS, 100)]
    )
    found["list_100_ms"] = _median(
        lambda: list(islice(reader.scan(space, base, start=key(count // 3)), 100)), 20
    )
    return found


_SCANNED: list[tuple[Keyspace, MetarangeId]] = []  # read by the forked processes


def _decoded_part(part: int) -> int:
    """Decode the entries of every `CORES`-th range from number `part` on.  Returns their number."""
    (space, base), count = _SCANNED[0], 0
    for ref in reader.ranges(space, base)[part::CORES]:
        for records in reader.range_batches(space, ref):
            count += len([wire.stored_entry(framed).size for _, framed in records])
    return count


def _drain(items: Iterator[object]) -> None:
    for _ in items:
        pass


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _median(work: Callable[[], object], rounds: int) -> float:
    return statistics.median(_seconds(work) for _ in range(rounds)) * 1e3


def main(arguments: Sequence[str]) -> None:
    """Print one JSON object a line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.committed", description="Measures the committed layer."
    )
    parser.add_argument("objects", nargs="*", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--one", type=int, help="measure this number in this process, and end")
    options = parser.parse_args(arguments)
    if options.one is not None:
        print(json.dumps(lines(options.one)))
        return
    print(json.dumps(calibration()))
    for count in options.objects:
        print(json.dumps(measure(count)))


if __name__ == "__main__":
    main(sys.argv[1:])
