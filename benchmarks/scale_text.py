"""The text and tables of build/measured/scale.md; the figures come from scale.py."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Protocol

from benchmarks.scale_runs import Grown, Outcome
from graveler.core import limits

HEAD = """# How far it scales

`python -m benchmarks.scale --write` writes this page.
Sizes are those of files that the real writer wrote.
Rates are simulated: many clients run the real verbs in virtual time.
Each client has its own cache and the retries of production.
The simulated store accepts as many requests as DynamoDB does.
"""

LIMITS = """## The limits

| what | limit | can grow |
|---|---:|---|
| a partition key of DynamoDB | 1,000 write units/s, 3,000 read units/s | no |
| a table of an account | 40,000 write units/s, 40,000 read units/s | on request |
| a new table, at once | 4,000 write units/s, 12,000 read units/s | by warming it |
| a prefix of S3 | 3,500 writes/s, 5,500 reads/s | automatically, within the hour |
| Lambda, an account | 1,000 functions at once | on request |
| API Gateway, an account | 10,000 requests/s | on request |

The partition keys of the records:

| records | partition keys | limit |
|---|---|---|
| all other records of one repository | one | 3,000 consistent reads of branch records/s |
| staged rows of one branch | one for each shard, 1 to 64 | 1,000 rows/s for each shard |
| events that a rule has taken in | 64 for each rule | 32,000 events/s for each rule |
| ranges and metaranges | none: S3 | immutable, cached forever |

Each write, and each read of a branch by name, reads the branch record once, consistently.
So each request sees all earlier writes, and **one branch serves 3,000 reads and writes a second
together**, with any number of shards.
The branches of one repository share this limit until DynamoDB splits their partition.
DynamoDB splits a partition after minutes of load, but never splits a single record.
Reads that name a commit need no branch record and do not have this limit.
An event is one transaction of two rows, 4 write units.
The 100 events of a delivery share one read of the branch record.
"""


class SizeLine(Protocol):
    """The sizes of a repository."""

    @property
    def objects(self) -> int: ...
    @property
    def record_bytes(self) -> float: ...
    @property
    def stored_bytes(self) -> float: ...
    @property
    def records_per_range(self) -> float: ...
    @property
    def ranges(self) -> int: ...
    @property
    def metarange_bytes(self) -> int: ...
    @property
    def range_bytes(self) -> float: ...


class RunLine(Protocol):
    """One simulated load."""

    @property
    def kind(self) -> str: ...
    @property
    def shards(self) -> int: ...
    @property
    def clients(self) -> int: ...
    @property
    def outcome(self) -> Outcome: ...


def _objects(found: SizeLine) -> Iterator[str]:
    yield "## A billion objects\n"
    yield "The sizes are for paths of 80 bytes, full entries and the default raggedness."
    yield f"A record counts as {found.record_bytes:.0f} bytes for the rule that ends ranges, and"
    yield f"needs {found.stored_bytes:.0f} bytes in a file."
    yield f"A range has {found.records_per_range:,.0f} records on average and"
    yield f"{found.range_bytes / 1e6:.1f} MB in S3.\n"
    total = found.objects * found.stored_bytes
    size = found.metarange_bytes / 1e6
    yield "| a repository of 1,000,000,000 objects | |"
    yield "|---|---:|"
    yield f"| ranges | {found.ranges:,} |"
    yield (
        f"| all ranges of one commit | {total / 1e9:,.0f} GB, ${total / 1e9 * 0.023:.2f} a month |"
    )
    yield (
        f"| its metarange | {size:.1f} MB, "
        f"{found.metarange_bytes / found.ranges:.0f} bytes a range |"
    )
    one = found.range_bytes / 1e6 + size
    yield (
        f"| a commit of adjacent changes writes | 1 range and the metarange: {one:.1f} MB, 2 PUT |"
    )
    spread = 1_000 * found.range_bytes / 1e9
    yield (
        f"| a commit of 1,000 changes, each elsewhere, writes | 1,000 ranges: {spread:.1f} GB, "
        "$0.005 |"
    )
    yield "| a cold stat reads | 2 × (end of a file and one block), 4 GET, 256 KiB |"
    yield ""
    yield "**The first limit** is the time of a worker."
    yield f"Every commit writes the whole metarange, but {size:.1f} MB cost little."
    yield "A cold read of one object reads only a part of the metarange."
    yield ""
    yield "The number of ranges that the changes touch decides the time of a commit."
    yield "The worker reads, merges and writes each of them: about 25 a second on each core."
    yield "So a commit that touches more than 20,000 ranges does not end within the worker's 14"
    yield "minutes. Use Spark or an import for such changes: they write ranges in parallel and land"
    yield "as one commit."
    yield ""
    yield "A garbage collection lists a thousand files with each request. A billion objects need a"
    yield "million requests, $5 and half a day. Use Spark, too, for more than about 15 million"
    yield "objects.\n"


def _branches() -> Iterator[str]:
    yield "## Ten thousand branches\n"
    yield "A branch is one row of 300 bytes. Creating it takes 3 requests and copies nothing."
    yield ""
    yield "**The first limit** is the repository's partition: 1,000 write units and 3,000 read"
    yield "units a second, until DynamoDB splits it. They are enough for 750 new branches a second,"
    yield "or for about 200 commits a second over all branches of the repository. Repositories"
    yield "share nothing.\n"


def _load(lines: Sequence[RunLine]) -> Iterator[str]:
    yield "## A thousand functions on one branch\n"
    yield "Each client stages (or reads) one path after another for 5 s, without pauses. One more"
    yield "client commits every 5 s. The number of shards is fixed in this run. *503* counts the"
    yield "answers for each 1,000 calls, after six tries; the client repeats the call after one to"
    yield "two seconds. *Lost* counts acknowledged changes that the last commit does not have.\n"
    yield "| clients | shards | answered/s | p50 ms | p99 ms | 503 of 1,000 | throttled | lost |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for line in lines:
        found = line.outcome
        yield (
            f"| {line.clients:,} {line.kind} | {line.shards} | {found.per_second:,.0f} "
            f"| {found.p50_ms:.0f} | {found.p99_ms:.0f} | {found.answers_503:.0f} "
            f"| {100 * found.throttled:.0f} % | {found.lost} |"
        )
    failed = sum(line.outcome.failed for line in lines)
    commits = sum(line.outcome.commits for line in lines)
    yield ""
    yield "**The first limit** with one shard is the shard: 1,000 rows a second. With 8 shards, the"
    yield "branch record is the first limit. More shards help events and bulk deletes only, and"
    yield "each costs a Query for every page and commit."
    yield ""
    yield "Beyond the limit, the throughput stays at the limit: the service tries a refused request"
    yield "six times and then answers 503. No acknowledged change is lost."
    if failed:
        yield f"Of the {commits} commits beside them, {failed} got 503 and were sent again."
    else:
        yield f"None of the {commits} commits beside them got 503."
    yield "Give so many functions their own branches (better: repositories) and merge, or pass"
    yield "their changes on"
    yield "as events.\n"


def _growth(lines: Sequence[Grown]) -> Iterator[str]:
    yield "## A branch that grows\n"
    yield "The branch record keeps a row count of recent commits. A smaller commit reduces the"
    yield "count, at most to half. A new token gets one shard for each"
    yield f"{limits.staging_shard_rows_count:,} counted rows."
    yield "It gets at least the number of shards that the repository was created with (1 by"
    yield f"default), and at most {limits.staging_shard_count_max}."
    yield "So a branch of small commits keeps one shard and its low costs. In this run a"
    yield "hundred writers stage without pauses, and one client commits every"
    yield "ten seconds:\n"
    yield "| until commit | shards of the open token | rows | rows/s |"
    yield "|---:|---:|---:|---:|"
    for number, line in enumerate(lines, 1):
        yield f"| {number} | {line.shards} | {line.rows:,} | {line.per_second:,.0f} |"
    yield ""
    yield "The record counts rows, not time. So a branch that fills a partition and commits more"
    yield "often than every eight seconds keeps one shard. Create such a repository with more"
    yield "shards (`NewRepository.staging_shards`). The HTTP API has no field for the number,"
    yield "because it is the API of lakeFS.\n"


def _hot(lines: Sequence[RunLine]) -> Iterator[str]:
    yield "## The hot record\n"
    yield "Committers commit to one branch without pauses for 5.5 s, beside 50 writers, on 8"
    yield "shards.\n"
    yield ("| committers | commits/s | 503 or 429 | writes/s | write p99 ms | throttled | lost |")
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for line in lines:
        found = line.outcome
        landed = found.commits - found.failed
        yield (
            f"| {line.clients} | {landed / 5.5:.0f} | {found.failed} of {found.commits} "
            f"| {found.per_second:,.0f} | {found.p99_ms:.0f} | {100 * found.throttled:.0f} % "
            f"| {found.lost} |"
        )
    yield ""
    yield "Each committer is a process of its own, as each Lambda function is. A committer that"
    yield "loses the race for the branch record finds its changes in the winner's commit and"
    yield "returns that commit. *Commits* counts the answers with a commit, from the first moment"
    yield "on; several may name the same one. *Writes* leaves the first 1.5 s out.\n"
    yield "Only the threads of one process take turns and share a commit"
    yield "(docs/explanation/protocol.md, section 4b). Functions share nothing: a hundred"
    yield "of them that commit to one branch get the last line of this table. Let few functions"
    yield "commit, or give each its own branch and merge.\n"


def _events(lines: Sequence[RunLine]) -> Iterator[str]:
    yield "## A hundred thousand events a second\n"
    yield "Each function takes in one delivery of 100 events after another for 4 s, on one branch"
    yield "by one rule. It writes 16 rows at the same time.\n"
    yield (
        "| functions at once | shards | events/s | delivery p50 ms | 503 of "
        "1,000 | throttled | lost |"
    )
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for line in lines:
        found = line.outcome
        yield (
            f"| {line.clients} | {line.shards} | {found.per_second:,.0f} | {found.p50_ms:.0f} "
            f"| {found.answers_503:.0f} | {100 * found.throttled:.0f} % | {found.lost} |"
        )
    yield ""
    yield "A shard accepts 500 events a second, because each event needs 2 of its 1,000 units. So 8"
    yield "shards accept 4,000 and 64 shards accept 32,000. **The first limit** with enough shards"
    yield "is the account's 40,000 write units: **10,000 events a second**. Many"
    yield "functions at this limit reach half of it, because the queue delivers a whole delivery"
    yield "again if one of its rows was refused."
    yield ""
    yield "A hundred thousand events a second need 400,000 units. Request that quota, warm the"
    yield "table, and spread the load over at least four branches of 64 shards. The queue keeps the"
    yield "other events for up to four days and delivers them in any order."
    yield ""
    yield "So the template runs 16 functions at once. They have processor time for about 4,600"
    yield "events a second; raise their number with the number of shards."
    yield ""
    yield "For objects that are already in a bucket, an import is cheaper: one request for each"
    yield "1,000 objects, one commit, no staging.\n"


def _done() -> Iterator[str]:
    yield "## What the design does at a limit\n"
    yield "DynamoDB does not apply a throttled request. The service tries it six times within about"
    yield "1.5 s, with random pauses that double, and answers 503 with Retry-After, or *outcome"
    yield "unknown* if an earlier step may take effect. No client waits for a lock. The janitor"
    yield "deletes rows an hour later, from the partitions of closed tokens."
    yield ""
    yield "The simulation omits two effects that help: bursts longer than a second, and the"
    yield "splitting of hot partitions. It also omits cold starts, conflicts of transactions and"
    yield "the processor time of functions. A table that is not warmed accepts a tenth of the"
    yield "writes at"
    yield "first."


def sections(
    found: SizeLine,
    load: Sequence[RunLine],
    grown: Sequence[Grown],
    hot: Sequence[RunLine],
    arrived: Sequence[RunLine],
) -> Iterator[str]:
    """All sections of the document."""
    yield HEAD
    yield LIMITS
    tables = (_load(load), _growth(grown), _hot(hot), _events(arrived))
    for lines in (_objects(found), _branches(), *tables, _done()):
        yield _filled("\n".join(lines))


def _filled(text: str) -> str:
    """Wraps paragraphs and lists at the maximum width; tables and headings stay unchanged."""
    blocks = [each.strip() for each in text.split("\n\n")]
    return "\n\n".join(map(_filled_block, blocks)) + "\n"


def _filled_block(block: str) -> str:
    if block.startswith(("|", "#")):
        return block
    if block.startswith("- "):
        items = ("- " + " ".join(each.split()) for each in block[2:].split("\n- "))
        return "\n".join(
            textwrap.fill(each, 98, subsequent_indent="  ", break_on_hyphens=False)
            for each in items
        )
    return textwrap.fill(" ".join(block.split()), 98, break_on_hyphens=False)
