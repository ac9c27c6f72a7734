"""The text and tables of docs/measured/cost.md; the figures come from cost.py."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from benchmarks.metering import Spent
from benchmarks.prices import AS_OF, LAKEFS, MILLION, QUOTAS, Price, dollars
from graveler import limits

HEAD = f"""# What it costs on AWS

Written by `python -m benchmarks.cost --write-docs`; a test fails when it is out of date.  Requests
are counted by running the verbs on metered memory drivers, in DynamoDB's units (a strongly
consistent read of 4 KB, a write of 1 KB; twice that in a transaction; each row of a batch counts).
Prices: us-east-1, on demand, {AS_OF}, as listed at the end; nothing is fetched.
"""


class Line(Protocol):
    """A line of the price list."""

    @property
    def name(self) -> str: ...
    @property
    def dynamodb(self) -> float: ...
    @property
    def s3(self) -> float: ...
    @property
    def compute(self) -> float: ...
    @property
    def rest(self) -> float: ...
    @property
    def total(self) -> float: ...


class GoalLine(Protocol):
    @property
    def what(self) -> str: ...
    @property
    def limit(self) -> float: ...
    @property
    def found(self) -> float: ...
    @property
    def parts(self) -> Mapping[str, float]: ...


class IdleLine(Protocol):
    @property
    def what(self) -> str: ...
    @property
    def amount(self) -> str: ...
    @property
    def listed(self) -> float: ...
    @property
    def charged(self) -> float: ...
    @property
    def counted(self) -> bool: ...


class TeamLine(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def often(self) -> Mapping[str, float]: ...
    @property
    def reads_per_second(self) -> float: ...
    @property
    def writes_per_second(self) -> float: ...


def _said(spent: Spent) -> str:
    said = ", ".join(f"{count} {name}" for name, count in spent.requests.items() if count)
    stored = [
        f"{count:g} {what}"
        for count, what in ((spent.s3_writes, "PUT"), (spent.s3_reads, "GET or HEAD"))
        if count
    ]
    return "; ".join([said, *stored])


def _requests(spent: Spent) -> float:
    return spent.kv_requests + spent.s3_writes + spent.s3_reads


def _per_million(spent: Spent) -> float:
    units = {
        "read": spent.reads,
        "write": spent.writes,
        "s3_write": spent.s3_writes,
        "s3_read": spent.s3_reads,
    }
    return MILLION * sum(dollars(name, count) for name, count in units.items())


def requests(counted: Mapping[str, Spent]) -> Iterator[str]:
    """Requests per operation, beside lakeFS."""
    yield "## Requests per operation\n"
    yield "One shard, warm caches: credentials and the repository record are kept for seconds,"
    yield "commits and tables for ever.  lakeFS as of July 2026, counted at a proxy before a local"
    yield "engine.  Dollars per million operations, DynamoDB and S3 requests alone.\n"
    yield "| operation | Graveler | requests | read, write units | $ | lakeFS | requests | $ |"
    yield "|---|---|---:|---:|---:|---|---:|---:|"
    for name, peer in LAKEFS.items():
        spent = counted[name]
        yield (
            f"| {name} | {_said(spent)} | {_requests(spent):g} "
            f"| {spent.reads:g}, {spent.writes:g} | {_per_million(spent):.2f} "
            f"| {peer.requests} | {peer.dynamodb + peer.s3:g} | {peer.dollars:.2f} |"
        )
    for name in (
        "stage",
        "upload address",
        "link",
        "commit of 1,000",
        "clean-up after a commit of 100",
        "clean-up after a commit of 1,000",
        "delivery of 100 events",
        "round of clean-up over nothing",
    ):
        spent = counted[name]
        yield (
            f"| {name} | {_said(spent)} | {_requests(spent):g} "
            f"| {spent.reads:g}, {spent.writes:g} | {_per_million(spent):.2f} | | | |"
        )
    both = _per_million(counted["commit of 100"])
    both += _per_million(counted["clean-up after a commit of 100"])
    yield ""
    yield "A commit deletes nothing; the janitor deletes the rows an hour later, in batches of 25."
    yield "A delete is a write unit whoever sends it, so commit and clean-up of 100 together are"
    yield f"${both:.1f} per million, beside ${LAKEFS['commit of 100'].dollars} of lakeFS's, whose"
    yield "writers pay two more reads each.  Commits are counted where they rewrite one range; each"
    yield "further range that they touch is one PUT more, and a list page is one Query more for"
    yield "each further shard, of which a branch has one until a commit of it folds in more than"
    yield f"{limits.staging_shard_rows_count:,} rows.\n"


def goals(found: Iterable[GoalLine], fitting: Mapping[int, int]) -> Iterator[str]:
    """The cost goals."""
    yield "## What was promised\n"
    yield "| of | at most | found | holds | parts |"
    yield "|---|---:|---:|---|---|"
    for goal in found:
        parts = " + ".join(f"{what} {amount:.3f}" for what, amount in goal.parts.items())
        holds = "yes" if goal.found <= goal.limit else "**no**"
        yield f"| {goal.what} | ${goal.limit:.2f} | ${goal.found:.2f} | {holds} | {parts} |"
    yield ""
    yield "DynamoDB and S3 requests alone; the object's own PUT ($5 per million) apart.  Writes are"
    yield "rows of up to 1 KB, in commits that rewrite one range.  The limit leaves room for"
    yield f"{fitting[100]} range in a commit of 100 and for {fitting[1000]} in one of 1,000: small"
    yield "commits that touch many ranges cost more than promised, by the PUT of each range.\n"


def price_list(lines: Iterable[Line], bulk: Iterable[tuple[str, Line]]) -> Iterator[str]:
    """The price list: dollars per million operations."""
    yield "## Dollars per million\n"
    yield "Assumed: a function on arm64 with 1 GB (commit of 1,000: 2 GB) works 8 ms, and 5 ms for"
    yield "each DynamoDB request and 30 ms for each S3 request that it waits for, one after the"
    yield "other; commits, diffs and merges 50 ms to 1.5 s more; 700 bytes of log, 1 KB of answer."
    yield "*Rest* is gateway, logs, answer.  A function URL saves the gateway's $1.00.  Events come"
    yield "100 to a delivery, each 4 ms of it; their rest is 1.2 requests to the queue each.\n"
    yield "| operation | DynamoDB | S3 | Lambda | rest | total |"
    yield "|---|---:|---:|---:|---:|---:|"
    for line in lines:
        amounts = (line.dynamodb, line.s3, line.compute, line.rest, line.total)
        yield f"| {line.name} | " + " | ".join(f"{MILLION * each:,.2f}" for each in amounts) + " |"
    yield "\n| one of | DynamoDB | S3 | Lambda | total |"
    yield "|---|---:|---:|---:|---:|"
    for what, line in bulk:
        each_one = (line.dynamodb, line.s3, line.compute, line.total)
        yield f"| {what} | " + " | ".join(f"${each:.4f}" for each in each_one) + " |"
    yield ""
    yield "Imports and collections list 1,000 objects a request; nothing is staged, nothing copied."
    yield "An import of a million takes two minutes of a worker with 2 GB, a collection four, which"
    yield "also reads each range once.\n"


def idle(lines: Iterable[IdleLine], pollers: int, seconds: int, told: int) -> Iterator[str]:
    """The idle month."""
    lines = list(lines)
    yield "## A month of doing nothing\n"
    yield f"Lambda asks each queue with {pollers} pollers, each for {seconds} s at a time, as long"
    yield "as a function listens.  *By the list* is without any allowance; *charged* is after what"
    yield "every account has free each month, if nothing else uses it up.  Ten repositories.\n"
    yield "| line | amount | by the list | charged |"
    yield "|---|---:|---:|---:|"
    for line in lines:
        mark = " †" if line.counted else ""
        yield f"| {line.what}{mark} | {line.amount} | ${line.listed:.3f} | ${line.charged:.3f} |"
    listed, charged = sum(each.listed for each in lines), sum(each.charged for each in lines)
    yield f"| **all** | | **${listed:.2f}** | **${charged:.2f}** |"
    yield ""
    yield "† counted by the promise, without allowances.  Alarms, custom metrics and the dashboard"
    yield "are free as long as the account has no more than 10, 10 and 3 of them; a second"
    yield "deployment in one account pays for its own.  Where a topic is told of alarms there are"
    yield f"{told} more.  Storage comes on top: a million objects are 0.25 GB of ranges, half a"
    yield "cent a month.\n"


def besides(secret_read: float, kms: float, stored: float) -> Iterator[str]:
    """Costs that belong to no operation."""
    yield "## What comes beside\n"
    yield "- **Cold starts** read the secret twice, its present version and the one before:"
    yield f"  ${2 * secret_read:.2f} for a million cold starts."
    yield "- **KMS**, where a bucket is encrypted by a key of yours: S3 asks KMS for each object"
    yield f"  that is read or written, at ${kms:.2f} a million, unless the bucket has a *bucket"
    yield "  key* (then about a hundredth).  The key itself is $1 a month.  The stack's own bucket"
    yield "  uses keys of S3, which cost nothing."
    yield "- **Noncurrent versions** of what was overwritten or deleted without a version stay for"
    yield f"  30 days, at ${stored:.3f} a GB and month.  Collection deletes by version: that is"
    yield "  gone at once.  Delete markers with nothing behind them, and what uploads left that"
    yield "  were not finished for 7 days, are removed by the bucket's own rules, for nothing.\n"


def servers(lines: Iterable[tuple[str, float, float, float]]) -> Iterator[str]:
    """Break-even with a fixed server."""
    yield "## Against a fixed server\n"
    yield "Nine reads to a write; million requests a month (and a second) from which the server is"
    yield "cheaper.  Its operation, its upgrades and its idle standby are not reckoned.\n"
    yield "| server | $ a month | through the HTTP API | through a function URL |"
    yield "|---|---:|---:|---:|"
    for what, price, gateway, url in lines:
        shown = [f"{each / 1e6:.0f} M ({each / 2_628_000:.0f}/s)" for each in (gateway, url)]
        yield f"| {what} | {price:.2f} | {shown[0]} | {shown[1]} |"
    yield ""
    yield "So: serverless for little and for spiky use; the embedded service on one machine where"
    yield "tens of requests come every second of the month.\n"


def teams(lines: Iterable[tuple[TeamLine, list[float]]]) -> Iterator[str]:
    """Monthly costs of teams, and the limit that each meets first."""
    yield "## Teams\n"
    yield "A member makes 200,000 reads, 20,000 list pages, 30,000 writes, 300 commits of 100,"
    yield "50 merges, 50 branches and 10,000 events a month; the rates are of the busiest second.\n"
    yield "| dollars a month | DynamoDB | S3 | Lambda | gateway, logs | clean-up | idle | total |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    lines = list(lines)
    for team, amounts in lines:
        shown = " | ".join(f"{each:,.2f}" for each in [*amounts, sum(amounts)])
        yield f"| {team.name} | {shown} |"
    yield "\n| load on limits | " + " | ".join(team.name for team, _ in lines) + " |"
    yield "|---|" + "---:|" * len(lines)
    for name, quota in QUOTAS.items():
        cells = [_load(team, name) for team, _ in lines]
        shown = " | ".join(
            f"{'**' if load > quota.limit else ''}{load:,.0f} of {quota.limit:,.0f}"
            f"{'**' if load > quota.limit else ''}"
            for load in cells
        )
        growing = "" if quota.can_grow else " (fixed)"
        yield f"| {quota.what}, {quota.unit}{growing} | {shown} |"
    yield ""
    yield "Everything on one branch with one shard is assumed; bold is above the limit.  At the"
    yield "last rate the account's gateway quota is met first (ask for more, or use a function"
    yield "URL), then the record of the one branch: spread readers over four branches or more, in"
    yield "repositories of their own, or let them name a commit id, which needs no record at all;"
    yield "then the one shard of staging: a branch of large commits has [more](scale.md).  A"
    yield "new table must be warmed for such a rate (`WarmThroughput`).  The objects' own PUTs are"
    yield "not in the sums.\n"


def _load(team: TeamLine, quota: str) -> float:
    reads, writes = team.reads_per_second, team.writes_per_second
    per_second = {
        "gateway": reads + writes,
        "lambda": (reads + writes) * 0.018,
        "table_reads": 2 * reads + writes,
        "table_writes": 2 * writes,
        "new_reads": 2 * reads + writes,
        "new_writes": 2 * writes,
        "record_reads": reads + writes,
        "record_writes": writes / 1_000 * 5,
        "shard_writes": writes,
        "s3_writes": writes,
    }
    return per_second[quota]


def price_table(prices: Iterable[Price]) -> Iterator[str]:
    """The prices and their sources."""
    yield "## Prices\n"
    yield "| what | $ | for | free each month | source |"
    yield "|---|---:|---|---:|---|"
    for each in prices:
        free = f"{each.allowance:g}" if each.allowance else ""
        yield f"| {each.what} | {each.dollars:g} | {each.unit} | {free} | {each.source} |"
