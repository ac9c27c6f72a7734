"""The text and tables of docs/measured/scale.md; the figures come from scale.py."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Protocol

from benchmarks.scale_runs import Grown, Outcome
from graveler import limits

HEAD = """# How far it goes

Written by `python -m benchmarks.scale --write-docs`.  Sizes are those of files that the real writer
made; rates are simulated: the real verbs of many clients, each with a cache of its own and the
retries of production, run in virtual time against a store that bears what DynamoDB bears.
"""

LIMITS = """## The limits

| what | bears | can grow |
|---|---:|---|
| a partition key of DynamoDB | 1,000 write units/s, 3,000 read units/s | no |
| a table of an account | 40,000 write units/s, 40,000 read units/s | on request |
| a new table, at once | 4,000 write units/s, 12,000 read units/s | by warming it |
| a prefix of S3 | 3,500 writes/s, 5,500 reads/s | by itself, within the hour |
| Lambda, an account | 1,000 functions at once | on request |
| API Gateway, an account | 10,000 requests/s | on request |

Who meets them:

| records | partition key | rate that they bear |
|---|---|---|
| all records of one repository but these | one | 3,000 fresh looks at branches/s |
| staged rows of one branch | one a shard, 1 to 64 | 1,000 rows/s a shard |
| events that a rule took in | 64 a rule | 32,000 events/s a rule |
| ranges and metaranges | none: S3 | immutable, cached for ever |

Every read of a branch by name, and every write, looks at the branch's record once, afresh: that is
what makes them see each other.  So **one branch bears 3,000 reads and writes a second together**,
whatever the number of shards.  Branches of one repository share that figure until DynamoDB splits
the partition between them, which it does after minutes of load; a single record is never split.
Reads that name a commit look at no record and have no such limit.  An event is one transaction of
two rows, 4 write units; its look at the branch is shared by the 100 of a delivery.
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
    def who(self) -> str: ...
    @property
    def shards(self) -> int: ...
    @property
    def clients(self) -> int: ...
    @property
    def outcome(self) -> Outcome: ...


def _objects(found: SizeLine) -> Iterator[str]:
    yield "## A billion objects\n"
    yield f"With paths of 80 bytes and full entries a record is {found.record_bytes:.0f} bytes"
    yield f"to the rule that ends ranges and {found.stored_bytes:.0f} bytes in a file. With the"
    yield f"default raggedness a range has {found.records_per_range:,.0f} records on the average"
    yield f"and {found.range_bytes / 1e6:.1f} MB in S3.\n"
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
    yield "**Met first:** the time of a worker. The metarange is written whole by every commit,"
    yield f"but {size:.1f} MB are no burden; a cold read of one object does not even need all."
    yield "What counts is how many ranges the changes touch: each is read, merged and written,"
    yield "some 25 a second and core, so what touches more than 20,000 ranges does not end"
    yield "within a worker's 14 minutes. That is for Spark or an import, which write ranges in"
    yield "parallel and land as one commit. A garbage collection lists a thousand files a"
    yield "request: a million requests, $5, and half a day; what has more than some 15 million"
    yield "objects is for Spark, too.\n"


def _branches() -> Iterator[str]:
    yield "## Ten thousand branches\n"
    yield "A branch is one row of 300 bytes; making one takes 3 requests and copies nothing."
    yield "Ten thousand are 3 MB: three pages of a Query, ten pages of the API. **Met first:**"
    yield "the 1,000 write units a second of the repository's partition, shared by everything"
    yield "that makes or moves branches: 750 new branches a second, or about 200 commits (5"
    yield "units each) a second over all branches of one repository, until DynamoDB splits the"
    yield "partition. Beyond that: 503 with Retry-After, and nothing half done (750: a new name"
    yield "is looked for in four rows). Repositories share nothing.\n"


def _load(lines: Sequence[RunLine]) -> Iterator[str]:
    yield "## A thousand functions on one branch\n"
    yield "Each stages (or reads) one path after the other, as fast as it is answered, for 5 s;"
    yield "one more commits every 5 s. The number of shards is fixed here. 503: answers for each"
    yield "1,000 calls, after six attempts; the client comes again after one to two seconds."
    yield "Lost: acknowledged changes that the"
    yield "last commit does not have.\n"
    yield "| clients | shards | answered/s | p50 ms | p99 ms | 503 of 1,000 | throttled | lost |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for line in lines:
        found = line.outcome
        yield (
            f"| {line.clients:,} {line.who} | {line.shards} | {found.per_second:,.0f} "
            f"| {found.p50_ms:.0f} | {found.p99_ms:.0f} | {found.answers_503:.0f} "
            f"| {100 * found.throttled:.0f} % | {found.lost} |"
        )
    failed = sum(line.outcome.failed for line in lines)
    commits = sum(line.outcome.commits for line in lines)
    yield ""
    yield "**Met first:** with one shard, the shard (1,000 rows a second, and what the token of"
    yield "a fresh commit adds in its first second); with 8, the branch's record. More shards"
    yield "than 8 do nothing for single writes and cost a Query each in every page and commit;"
    yield "they are for events and bulk deletes, which look at the record once for many rows."
    yield "Past the limit the throughput stays where the limit is: what is refused is tried"
    yield "six times, then told 503, and no acknowledged change is lost. A thousand functions"
    yield f"that never rest are thirty times what a branch bears; of {commits} commits among"
    yield f"them {failed} were told 503 and had to be sent again. Give such a crowd branches"
    yield "(better: repositories) of their own and merge, or hand their changes over as events.\n"


def _growth(lines: Sequence[Grown]) -> Iterator[str]:
    yield "## A branch that grows\n"
    yield "A branch notes how many rows its commits fold in; a smaller commit leaves half of it. A"
    yield f"token that begins gets a shard for each {limits.staging_shard_rows_count:,} of them: as"
    yield "many as the repository was made with at least (1, unless its maker says otherwise), and"
    yield f"{limits.staging_shard_count_max} at most. So a branch of small commits stays at one"
    yield "shard and its costs. A hundred writers without rest, and a commit every ten seconds:\n"
    yield "| until commit | shards of the open token | rows | rows/s |"
    yield "|---:|---:|---:|---:|"
    for number, line in enumerate(lines, 1):
        yield f"| {number} | {line.shards} | {line.rows:,} | {line.per_second:,.0f} |"
    yield ""
    yield "A commit puts the next token in place before it counts, so what it counted shows after"
    yield "the commit behind it. Rows are counted, not time: who fills a partition and commits more"
    yield "often than every eight seconds stays at one shard. Such a repository is made with more"
    yield "of them (`NewRepository.staging_shards`; the HTTP API is lakeFS's, and has no field"
    yield "for it).\n"


def _hot(lines: Sequence[RunLine]) -> Iterator[str]:
    yield "## The hot record\n"
    yield "Committers that never rest, on one branch, beside 50 writers, 8 shards, for 4 s.\n"
    yield (
        "| committers | commits/s | told 503 or 423 | writes/s | write p99 ms | throttled | lost |"
    )
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
    yield "Committers that lose the race for the record find their changes in the winner's"
    yield "commit and answer with it, so the record is swapped a few times for each of them,"
    yield "not for each pair of them.\n"


def _events(lines: Sequence[RunLine]) -> Iterator[str]:
    yield "## A hundred thousand events a second\n"
    yield "Functions that take in one delivery of 100 events after the other, 16 rows at once"
    yield "each, for 4 s, on one branch by one rule.\n"
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
    yield "A shard bears 500 events a second (2 of its 1,000 units each), so 8 shards 4,000 and"
    yield "64 shards 32,000; the account's 40,000 write units bear **10,000, which is met"
    yield "first** where there are enough shards; crowds that meet it reach half of it, because"
    yield "a delivery with one refused row is delivered again. A hundred thousand a second need"
    yield "400,000 units: ask for that quota, warm the table, and spread the load over four"
    yield "branches of 64 shards or more. What is beyond waits in the queue, for four days, in"
    yield "any order: events may come late. Too many functions on few shards do worse than few"
    yield "(their rows refuse one another's deliveries), which is why the template lets 16 run"
    yield "at once; sixteen functions of 1 GB have processor time for some 4,600 events a"
    yield "second (2 ms of one each), so raise that number with the shards. A backlog that is"
    yield "already in a bucket is cheaper to import: a request for each 1,000 objects, one"
    yield "commit, no staging.\n"


def _done() -> Iterator[str]:
    yield "## What the design does at a limit\n"
    yield "- A throttled request was not applied. It is tried six times within about 1.5 s, with"
    yield "  pauses that double and are drawn, so that who was refused together does not come"
    yield "  again together; then the answer is 503 with Retry-After, or *outcome unknown* if an"
    yield "  earlier step may show."
    yield "- Staging is sharded by the hash of the path, in as many shards as the branch took in"
    yield "  rows for lately. A token keeps the number that it began with, so nobody who writes or"
    yield "  reads must know what the branch has come to."
    yield "- Batches share what can be shared: one look at the record for 1,000 deletions or"
    yield "  100 events, one Query for a page, one BatchGet for all sealed tokens."
    yield "- Nobody waits for a lock. A commit that loses its swap goes on from the new head."
    yield "- Deletion is the janitor's, an hour later, and competes with nobody's partition but"
    yield "  that of tokens which are closed."
    yield ""
    yield "Left out of the simulation: bursts longer than a second and the splitting of hot"
    yield "partitions (both help), cold starts, conflicts of transactions, the processor time"
    yield "of functions. A table that was not warmed bears a tenth of the writes at first."


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
