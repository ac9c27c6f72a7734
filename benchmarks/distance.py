"""How near the lines are to what the machine allows: each beside the time of its parts alone.

A limit is computed from the figures of `floors.py` of the same run: what an operation cannot do
without, done by nothing but the system and C libraries, one after another on one core.
docs/explanation/performance.md says why it is made of these parts.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from benchmarks.report import shown

HEADING: Final = "How near the machine's limits"
RECORD_BYTES: Final = 350  # key and framed value of the benchmark's entries
RANGE_RECORDS: Final = 10_000
TABLE_BLOCK_BYTES: Final = 16 << 10
_BLOCK_BYTES: Final = 64 << 10
Line = dict[str, Any]


class Parts:
    """The figures of the machine, by short names; times in microseconds."""

    def __init__(self, floors: Sequence[Line]) -> None:
        by_name: dict[str, float] = {line["name"]: line["value"] for line in floors}
        self.server = {
            count: by_name[f"the smallest server, {count} connections"] for count in (8, 64)
        }
        self.request = 1e6 / self.server[8]
        self.hash = 1 / by_name["SHA-256"]  # of a byte
        self.pack = by_name["Snappy: pack 64 KiB"] / _BLOCK_BYTES
        self.unpack = by_name["Snappy: unpack 64 KiB"] / _BLOCK_BYTES
        self.check = 1 / by_name["CRC-32C"]
        self.read = by_name["read 4 KiB of an open file"]
        self.file = by_name["a new file: write, sync, rename, sync its folder"]
        self.sync = by_name["write 4 KiB and sync"]
        self.put = by_name["RocksDB: put and sync"]
        self.get = by_name["RocksDB: get"]
        self.name = by_name["a name and the stat of its file, in a folder of 1,000"]

    @property
    def stored(self) -> float:
        """One record into a table: hashed, packed and checked."""
        return RECORD_BYTES * (self.hash + self.pack + self.check)

    @property
    def rewritten(self) -> float:
        """A range read and stored again."""
        return RANGE_RECORDS * (self.stored + RECORD_BYTES * (self.unpack + self.check))


class Limit(NamedTuple):
    """What a line is made of: in words, and as its value in the unit of the line."""

    parts: str
    value: Callable[[Parts], float]


def _served(connections: int) -> Callable[[Parts], float]:
    return lambda parts: parts.server[connections]


def _read(connections: int) -> Callable[[Parts], float]:
    return lambda parts: 1e6 / (1e6 / parts.server[connections] + parts.read)


def _uploads(connections: int) -> Callable[[Parts], float]:
    def value(parts: Parts) -> float:
        return min(parts.server[connections], connections * 1e6 / (parts.sync + parts.put))

    return value


def _rewrites(ranges: int) -> Callable[[Parts], float]:
    """The milliseconds of a commit that stores so many ranges again, and a metarange."""
    return lambda parts: (ranges * parts.rewritten + (ranges + 1) * parts.file) / 1e3


def _diff(blocks: int) -> Callable[[Parts], float]:
    """The milliseconds of reading so many blocks of tables."""
    return lambda parts: (
        blocks * (parts.read + TABLE_BLOCK_BYTES * (parts.unpack + parts.check)) / 1e3
    )


_SERVER: Final = "the smallest server"
_MILLION: Final = "1,000,000 objects"
_SPREAD_RANGES: Final = 101  # of a million objects
LIMITS: Final[dict[str, Limit]] = {
    "bulk load of a sorted stream, 1,000,000 objects": Limit(
        "hash, pack and check the bytes of a record", lambda parts: 1e6 / parts.stored
    ),
    **{
        f"{verb}, {_MILLION}": Limit("a range read and stored again, two new files", _rewrites(1))
        for verb in (
            "commit of 1 change",
            "commit of 1,000 adjacent changes",
            "merge of 1 against 1,000 changes",
        )
    },
    **{
        f"commit of {changes} spread changes, {_MILLION}": Limit(
            "101 ranges read and stored again, 102 new files", _rewrites(_SPREAD_RANGES)
        )
        for changes in ("1,000", "100,000")
    },
    f"commit of 100,000 adjacent changes, {_MILLION}": Limit(
        "10 ranges read and stored again, 11 new files", _rewrites(10)
    ),
    f"diff after 1 change, {_MILLION}": Limit("two blocks read", _diff(2)),
    f"diff after 1,000 spread changes, {_MILLION}": Limit("2,000 blocks read", _diff(2_000)),
    "decoded scan, one process, 1,000,000 objects": Limit(
        "check and unpack the bytes of a record",
        lambda parts: 1e6 / (RECORD_BYTES * (parts.unpack + parts.check)),
    ),
    f"decoded scan, a process for each core, {_MILLION}": Limit(
        "the same, on two cores",
        lambda parts: 2e6 / (RECORD_BYTES * (parts.unpack + parts.check)),
    ),
    **{
        f"{name}, {_MILLION}": Limit("a get of RocksDB", lambda parts: 1e6 / parts.get)
        for name in ("random look-ups, warm, one thread", "the same, 100 at a time")
    },
    f"random look-ups, a process for each core, {_MILLION}": Limit(
        "a get of RocksDB, on two cores", lambda parts: 2e6 / parts.get
    ),
    **{
        f"{verb}, {count} connections": Limit(_SERVER, _served(count))
        for verb in ("stat", "list 100", "get branch")
        for count in (8, 64)
    },
    **{
        f"get object, {count} connections": Limit(f"{_SERVER}, and a read of 4 KiB", _read(count))
        for count in (8, 64)
    },
    **{
        f"upload of 64 bytes, {count} connections": Limit(
            f"{_SERVER}, or two syncs for all connections together", _uploads(count)
        )
        for count in (8, 64)
    },
    "create branch, p50": Limit(
        "a request, a synced put", lambda parts: (parts.request + parts.put) / 1e3
    ),
    "commit one, p50": Limit(
        "a request, two new files, three synced puts",
        lambda parts: (parts.request + 2 * parts.file + 3 * parts.put) / 1e3,
    ),
    "diff one, p50": Limit("a request", lambda parts: parts.request / 1e3),
    "merge one, p50": Limit(
        "a request, two synced puts", lambda parts: (parts.request + 2 * parts.put) / 1e3
    ),
    "8 committers on one branch": Limit(
        "two new files, three synced puts, for all 8 together",
        lambda parts: 8e6 / (2 * parts.file + 3 * parts.put),
    ),
    "40 merges into one branch at once": Limit(
        "two synced puts for each merge", lambda parts: 1e6 / (2 * parts.put)
    ),
    "commit of 100,000 staged": Limit(
        "hash, pack and check the records, two new files",
        lambda parts: (100_000 * parts.stored + 2 * parts.file) / 1e6,
    ),
    "bulk delete of 100,000": Limit(
        "100 requests, each with a synced put",
        lambda parts: 100 * (parts.request + parts.put) / 1e6,
    ),
    **{
        f"import of 200,000 local files{where}": Limit(
            "the name and the stat of each file, hash, pack and check its record",
            lambda parts: 0.2 * (parts.name + parts.stored),
        )
        for where in ("", " in one folder")
    },
}


def section(lines: Sequence[Line], floors: Sequence[Line], about: str) -> str:
    """The text of the section of docs/measured/benchmarks.md.  `about`: the machine."""
    parts, rows = Parts(floors), []
    for line in lines:
        if line["name"] in LIMITS:
            limit = LIMITS[line["name"]]
            value = limit.value(parts)
            times = value / line["value"] if line["better"] == "higher" else line["value"] / value
            rows.append(
                f"| {line['name']} | {limit.parts} | {shown(value)} | {shown(line['value'])} "
                f"| {line['unit']} | {times:,.1f} |"
            )
    return "\n".join(
        [
            "`make bench` writes this section, from the figures of the same run.",
            "A limit is the time of the parts that the line cannot do without, one after another",
            "on one core ([performance](../explanation/performance.md)).",
            "",
            about,
            "",
            "| what | its parts | limit | Graveler | unit | times the limit |",
            "|---|---|---:|---:|---|---:|",
            *rows,
            "",
        ]
    )
