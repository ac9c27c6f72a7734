"""Speed and memory of the committed layer on the embedded store.

    calibration  of the machine: one small hash, one synced write
    lines        the figures that `make bench` prints, for a number of objects

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
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.stopwatch import seconds_of
from graveler.arrow import COLUMNS
from graveler.arrow.entries import range_batches
from graveler.assembly.drivers import WriteThreads
from graveler.assembly.embedded import RECORD_CACHE_BYTES
from graveler.assembly.rewriters import RewriterProcesses
from graveler.block.local import LocalBlocks
from graveler.cli.support.host import allow_many
from graveler.committed import apply, diff, merge, reader, writer
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core import wire
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.ids import MetarangeId
from graveler.core.records import BreakParameters, Change, Entry, Record

ROUNDS = 3
CORES = 2
LOOKUPS = 100_000  # as many as records that were looked up are kept
WIDE = 3 * LOOKUPS
_PIECE = LOOKUPS // 10
ROUNDS_OF_CHANGES_MAX = 100_000_000_000  # changes times objects; above it, one round


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
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
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
    """A keyspace on a local folder, as in the embedded store of a service.  The processes that
    rewrite ranges end with this one."""
    allow_many()
    blocks = LocalBlocks(folder / "objects", clock=SystemClock(), ids=SystemIds())
    files = StoredFiles(blocks)
    rewriters = RewriterProcesses(folder / "objects", SystemClock(), synced=True, processes=CORES)
    store = SstRangeStore(
        files,
        record_cache_bytes=RECORD_CACHE_BYTES,
        is_near=True,
        rewriters=rewriters,
        waiters=WriteThreads(),
    )
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
    """Every round writes values that no round before it wrote, so each range is a new file."""
    found: dict[str, float] = {}
    results: dict[str, list[MetarangeId]] = {}
    for name, numbers in _plans(count).items():
        rounds = ROUNDS if len(numbers) * count <= ROUNDS_OF_CHANGES_MAX else 1
        taken = []
        for edition in range(1, rounds + 1):
            changes: list[Change] = [(key(n), value(n, edition)) for n in numbers]
            result, seconds = _timed(partial(apply.apply, space, base, changes))
            taken.append(seconds)
            results.setdefault(name, []).append(result.metarange_id)
        found[f"commit_{name}_ms"] = statistics.median(taken) * 1e3
        if len(numbers) <= 1_000:
            diffs = [seconds_of(partial(_diff, space, base, after)) for after in results[name]]
            found[f"diff_{name}_ms"] = statistics.median(diffs) * 1e3
    merging = []
    for edition, ours in enumerate(results["1"]):
        theirs = apply.apply(space, base, _added(count // 2, edition)).metarange_id
        merging.append(seconds_of(partial(merge.merge, space, base, ours, theirs)))
    found["merge_1_against_1000_ms"] = statistics.median(merging) * 1e3
    return found


def _added(middle: int, edition: int) -> list[Change]:
    """1,000 new records around the one that `commit_1` changes."""
    numbers = range(middle - 500, middle + 500)
    return [(key(n) + b".new", value(n, edition)) for n in numbers]


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
    found["scan_framed_per_s"] = count / seconds_of(lambda: _drain(reader.scan(space, base)))
    _SCANNED[:] = [(space, base)]
    _drain(range_batches(space, reader.ranges(space, base)[:1], b"", COLUMNS))  # loads Arrow
    found["scan_decoded_per_s"] = count / seconds_of(lambda: _decoded(0, 1))
    with multiprocessing.get_context("fork").Pool(CORES) as pool:
        pool.map(_decoded_part, [count] * CORES)  # no such range: only starts them
        found["scan_decoded_both_cores_per_s"] = count / seconds_of(
            lambda: pool.map(_decoded_part, range(CORES), chunksize=1)
        )
    found |= _lookups(space, base, count)
    return found


def _lookups(space: Keyspace, base: MetarangeId, count: int) -> dict[str, float]:
    """Random keys, looked up once before the time is taken."""
    generator = random.Random(1)
    wanted = [key(generator.randrange(count)) for _ in range(LOOKUPS)]
    found: dict[str, float] = {}
    _look_up(space, base, wanted)
    found["lookups_per_s"] = LOOKUPS / seconds_of(partial(_look_up, space, base, wanted))
    found["lookups_batched_per_s"] = LOOKUPS / seconds_of(
        lambda: [reader.get_many(space, base, wanted[n : n + 100]) for n in range(0, LOOKUPS, 100)]
    )
    _WANTED[:] = wanted
    with multiprocessing.get_context("fork").Pool(CORES) as pool:
        pool.map(_looked_up, [0] * CORES, chunksize=1)
        found["lookups_both_cores_per_s"] = (
            CORES
            * LOOKUPS
            / seconds_of(lambda: pool.map(_looked_up, [LOOKUPS] * CORES, chunksize=1))
        )
    if count > WIDE:  # last, because it drives what the other lines need out of the caches
        found["lookups_wide_per_s"] = WIDE / _wide_seconds(space, base, generator, count)
    return found


def _wide_seconds(
    space: Keyspace, base: MetarangeId, generator: random.Random, count: int
) -> float:
    """The time of `WIDE` look-ups, after each of these keys was looked up once.  The keys are made
    in pieces, without time, so that they are not a part of the memory that is measured."""
    numbers = array("Q", (generator.randrange(count) for _ in range(WIDE)))
    taken = 0.0
    for is_measured in (False, True):
        for at in range(0, WIDE, _PIECE):
            keys = [key(number) for number in numbers[at : at + _PIECE]]
            taken += is_measured * seconds_of(partial(_look_up, space, base, keys))
    return taken


def _look_up(space: Keyspace, base: MetarangeId, keys: Sequence[bytes]) -> None:
    _drain(reader.get(space, base, k) for k in keys)


_WANTED: list[bytes] = []  # read by the forked processes


def _looked_up(count: int) -> None:
    _look_up(*_SCANNED[0], _WANTED[:count])


_SCANNED: list[tuple[Keyspace, MetarangeId]] = []  # read by the forked processes


def _decoded_part(part: int) -> int:
    """Decode the entries of every `CORES`-th range from number `part` on.  Returns their number."""
    return _decoded(part, CORES)


def _decoded(part: int, every: int) -> int:
    """Decode all columns, as `graveler.read_entries` does.  Returns the number of entries."""
    space, base = _SCANNED[0]
    refs = reader.ranges(space, base)[part::every]
    return sum(batch.num_rows for batch in range_batches(space, refs, b"", COLUMNS))


def _drain(items: Iterator[object]) -> None:
    for _ in items:
        pass


def _timed(work: Callable[[], apply.ApplyResult]) -> tuple[apply.ApplyResult, float]:
    begin = time.perf_counter()
    return work(), time.perf_counter() - begin


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
