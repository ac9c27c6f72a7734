"""The text and tables of build/measured/cost.md; the figures come from cost.py."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from benchmarks.metering import Spent
from benchmarks.prices import AS_OF, LAKEFS, MILLION, SECONDS, Price, dollars
from graveler.core import limits

AUTHORIZATIONS = (
    "authorization, rights known",
    "authorization, rights too old",
    "authorization, rights not known",
    "authorization, first request with a key",
)
HEAD = f"""# What it costs on AWS

`python -m benchmarks.cost --write` writes this page.
Requests are counted: the verbs run on metered memory drivers.
A read unit is a strongly consistent read of 4 KB; a write unit is a write of 1 KB.
A transaction counts twice, and each row of a batch counts.
Prices are for us-east-1, on demand, {AS_OF}.
The last section lists them; the command fetches nothing.
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


def _shown(spent: Spent) -> str:
    rows = ", ".join(f"{count} {name}" for name, count in spent.requests.items() if count)
    stored = [
        f"{count:g} {what}"
        for count, what in ((spent.s3_writes, "PUT"), (spent.s3_reads, "GET or HEAD"))
        if count
    ]
    return "; ".join([rows, *stored])


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
    yield "The branch has one shard, and the caches are warm."
    yield "Caches keep credentials and the repository record for seconds."
    yield "They keep commits and tables forever."
    yield "The requests of lakeFS (July 2026) were counted at a proxy in front of a local engine."
    yield "Dollars are for a million operations and include only DynamoDB and S3 requests.\n"
    yield "| operation | Graveler | requests | read, write units | $ | lakeFS | requests | $ |"
    yield "|---|---|---:|---:|---:|---|---:|---:|"
    for name, peer in LAKEFS.items():
        spent = counted[name]
        yield (
            f"| {name} | {_shown(spent)} | {_requests(spent):g} "
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
        *AUTHORIZATIONS,
    ):
        spent = counted[name]
        yield (
            f"| {name} | {_shown(spent) or 'none'} | {_requests(spent):g} "
            f"| {spent.reads:g}, {spent.writes:g} | {_per_million(spent):.2f} | | | |"
        )
    both = _per_million(counted["commit of 100"])
    both += _per_million(counted["clean-up after a commit of 100"])
    yield ""
    yield "A commit deletes nothing; the janitor deletes the rows an hour later, in batches of 25."
    yield f"A commit of 100 and its clean-up cost ${both:.1f} per million together;"
    yield f"the same commit costs ${LAKEFS['commit of 100'].dollars} in lakeFS."
    yield ""
    yield "The counted commits rewrite one range; each further range costs one more PUT."
    yield "A list page costs one more Query for each further shard of the branch."
    yield "A branch has one shard until one of its commits folds in more than"
    yield f"{limits.staging_shard_rows_count:,} rows.\n"
    yield from _rights(counted)


def _rights(counted: Mapping[str, Spent]) -> Iterator[str]:
    refreshed = counted["authorization, rights too old"]
    month = _per_million(refreshed) * SECONDS / limits.access_seconds_max / MILLION
    yield "Every request is authorized; the other lines are for callers whose rights are known."
    yield "The counted caller is in one group with ten policies."
    yield f"A function keeps rights for {limits.access_seconds_max} seconds, then it reads them"
    yield "again with the next request."
    yield "So a caller who sends requests in every second of a month costs at most"
    yield f"${month:.2f} for each sandbox that serves it.\n"


def goals(found: Iterable[GoalLine], fitting: Mapping[int, int]) -> Iterator[str]:
    """The cost goals."""
    yield "## Cost goals\n"
    yield "| goal | at most | measured | holds | parts |"
    yield "|---|---:|---:|---|---|"
    for goal in found:
        parts = " + ".join(f"{what} {amount:.3f}" for what, amount in goal.parts.items())
        holds = "yes" if goal.found <= goal.limit else "**no**"
        yield f"| {goal.what} | ${goal.limit:.2f} | ${goal.found:.2f} | {holds} | {parts} |"
    yield ""
    yield "The first two goals count only DynamoDB and S3 requests,"
    yield "without the PUT of the object itself ($5 per million)."
    yield "A write is a row of up to 1 KB, in a commit that rewrites one range."
    yield f"The first limit leaves room for {fitting[100]} rewritten range in a commit of 100,"
    yield f"and for {fitting[1000]} in a commit of 1,000."
    yield ""


def price_list(
    lines: Iterable[Line], bulk: Iterable[tuple[str, Line]], logged: Mapping[str, int]
) -> Iterator[str]:
    """The price list: dollars per million operations."""
    lines = list(lines)
    yield "## Dollars per million\n"
    yield "Assumptions:\n"
    yield "- A function runs on arm64 with 1 GB of memory, or 2 GB for a commit of 1,000."
    yield "- It computes for 8 ms, and waits 5 ms for each DynamoDB request and 30 ms for each S3"
    yield "  request, one after the other."
    yield "- Commits, diffs and merges compute for another 50 ms to 1.5 s."
    yield "- Each call returns 1 KB; a list page returns 30 KB."
    yield "- Bytes of the log, with the lines of Lambda and of the gateway:"
    yield "  " + ", ".join(f"{name} {count:,}" for name, count in logged.items()) + "."
    yield "- A delivery has 100 events and takes 4 ms for each event.\n"
    yield "*Rest* is the gateway, the logs and the bytes of the answer."
    yield "The *rest* of an event is 1.2 requests to the queue and its share of the log.\n"
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
    yield "Imports and collections list 1,000 objects with each request."
    yield "A worker with 2 GB needs two minutes to import a million objects, and four to collect"
    yield "them.\n"
    (stranger,) = [line for line in lines if line.name == "a stranger's request"]
    yield "*A stranger's request* has an access key that nobody has."
    yield "Strangers cost at most what `RequestsPerSecond` lets in: a thousand a second cost"
    yield f"${3_600_000 * stranger.total:.2f} an hour.\n"


def idle(
    lines: Iterable[IdleLine], pollers: int, seconds: int, deployed: Mapping[str, int]
) -> Iterator[str]:
    """The idle month."""
    lines = list(lines)
    yield "## An idle month\n"
    yield f"Lambda polls each queue with {pollers} pollers while a function listens;"
    yield f"each poll waits up to {seconds} s."
    yield "*List price* ignores all free allowances."
    yield "*Charged* subtracts what every account has free each month, if nothing else uses it."
    yield "The store has ten repositories.\n"
    yield "| item | amount | list price | charged |"
    yield "|---|---:|---:|---:|"
    for line in lines:
        mark = " †" if line.counted else ""
        yield f"| {line.what}{mark} | {line.amount} | ${line.listed:.3f} | ${line.charged:.3f} |"
    listed, charged = sum(each.listed for each in lines), sum(each.charged for each in lines)
    yield f"| **all** | | **${listed:.2f}** | **${charged:.2f}** |"
    yield ""
    yield "† counts towards the cost goal, at list price."
    yield "Alarms, custom metrics and the dashboard are free while the account has no more than 10,"
    yield "10 and 3 of them."
    yield "A second deployment in one account pays for its own."
    alarms, metrics = deployed["conditional_alarms"], deployed["busy_metrics"]
    yield f"If a topic receives the alarms, the stack has up to {alarms} more."
    yield f"The other functions write up to {metrics} metrics more, which are paid for the hours"
    yield f"that have data: at most ${dollars('metric', metrics):.2f} a month at list price."
    yield "Storage is not in the sum: a million objects have 0.25 GB of ranges, half a cent a"
    yield "month.\n"


def besides(secret_read: float, kms: float, stored: float) -> Iterator[str]:
    """Costs that belong to no operation."""
    yield "## Other costs\n"
    yield "- **Cold starts** read two versions of the secret:"
    yield f"  ${2 * secret_read:.2f} for a million cold starts."
    yield "- **KMS**: if your own key encrypts a bucket, S3 asks KMS for each object, at"
    yield f"  ${kms:.2f} a million; with a *bucket key* it costs about a hundredth of that."
    yield "- **Noncurrent versions** remain for 30 days after an object is overwritten, or deleted"
    yield f"  without a version, at ${stored:.3f} a GB and month."
    yield "  A collection deletes by version, so these bytes disappear at once.\n"


def servers(lines: Iterable[tuple[str, float, float]]) -> Iterator[str]:
    """Break-even with a fixed server."""
    yield "## Compared with a fixed server\n"
    yield "The load has nine reads for each write."
    yield "The last column gives the number of requests from which the server is cheaper: millions"
    yield "a month, and requests a second."
    yield "The costs of its operation, its upgrades and its idle standby are not included.\n"
    yield "| server | $ a month | requests |"
    yield "|---|---:|---:|"
    for what, price, count in lines:
        yield f"| {what} | {price:.2f} | {count / 1e6:.0f} M ({count / SECONDS:.0f}/s) |"
    yield ""
    yield "Use serverless for low or spiky load."
    yield "Use the embedded service on one machine for tens of requests in every second of the"
    yield "month.\n"


def teams(lines: Iterable[tuple[TeamLine, list[float]]]) -> Iterator[str]:
    """Monthly costs of teams."""
    yield "## Teams\n"
    yield "A member makes 200,000 reads, 20,000 list pages, 30,000 writes, 300 commits of 100,"
    yield "50 merges, 50 branches and 10,000 events a month.\n"
    yield "| dollars a month | DynamoDB | S3 | Lambda | gateway, logs | clean-up | idle | total |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    lines = list(lines)
    for team, amounts in lines:
        shown = " | ".join(f"{each:,.2f}" for each in [*amounts, sum(amounts)])
        yield f"| {team.name} | {shown} |"
    yield ""
    yield "All load is on one branch with one shard; the last column needs several of them, and a"
    yield "higher gateway quota of the account (scale.md)."
    yield "Such a rate needs a warmed table (`WarmThroughput`)."
    yield "The PUTs of the objects are not in the sums.\n"


def price_table(prices: Iterable[Price]) -> Iterator[str]:
    """The prices; those that were not checked again are marked."""
    yield "## Prices\n"
    yield "From published summaries of the price pages, 2025 and 2026."
    yield "Prices marked * are known list prices that were not checked again.\n"
    yield "| what | $ | for | free each month |"
    yield "|---|---:|---|---:|"
    for each in prices:
        free = f"{each.allowance:g}" if each.allowance else ""
        mark = "" if "summaries" in each.source else " *"
        yield f"| {each.what}{mark} | {each.dollars:g} | {each.unit} | {free} |"
