"""Computes what Graveler costs on AWS: counts requests and multiplies by prices.

    python -m benchmarks.cost

Requests are counted (cost_operations.py).  Prices come from prices.py, and the deployed resources
from template.yaml.  The run time of a function is an assumption: arm64, 1 GB (2 GB for a commit of
1,000), the constants below; 1 KB an answer, 30 KB a list page; 100 events in a delivery.
"""

import argparse
import re
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks import cost_gateway
from benchmarks.cost_operations import EVENTS, measured
from benchmarks.metering import Spent
from benchmarks.prices import LAKEFS, MILLION, PRICES, SECONDS, SERVERS, dollars
from benchmarks.single import ROOT, print_table
from graveler.engine.events.take_in import IntakeResult

OWN_MS, KV_MS, S3_MS = 8, 5, 30  # a request itself, each KV request, each S3 request
POLLERS, POLL_SECONDS = 5, 20  # event source mapping on an idle queue
RANGES_OF_A_MILLION = 100  # docs/measured/scale.md
IMPORT_SECONDS, COLLECT_SECONDS = 120, 240
QUEUE_REQUESTS = 1.2  # for one message, received and deleted in batches
# Bytes of the log: what Lambda writes at each call (START, END, REPORT), and the lines of the
# functions, which tests/aws/test_operator_log.py measures.
CALL_BYTES, GATEWAY_BYTES = 330, 400  # the latter: the access log of the HTTP API
LINE_BYTES = REQUEST_BYTES, AUDIT_BYTES, METRIC_BYTES = 590, 740, 280
_READS = ("stat, committed", "stat, staged", "list page", "upload address", "diff of 1")


class Operation(NamedTuple):
    """A line of the price list: its requests, and the run time of a function with `gb` of
    memory."""

    name: str
    spent: Spent
    milliseconds: float
    gb: float = 1.0
    answer_bytes: int = 1_000
    delivered: int = 0  # messages in one delivery of a queue; 0: an HTTP request

    @property
    def log_bytes(self) -> int:
        """The lines of a call: changes and denials have one of the audit trail, commits one of a
        metric."""
        if self.delivered:
            return CALL_BYTES + METRIC_BYTES
        audit = 0 if self.name in _READS else AUDIT_BYTES
        metric = METRIC_BYTES if self.name.startswith("commit") else 0
        return CALL_BYTES + GATEWAY_BYTES + REQUEST_BYTES + audit + metric

    @property
    def dynamodb(self) -> float:
        """The DynamoDB part in dollars.  The following properties are in dollars, too."""
        return dollars("read", self.spent.reads) + dollars("write", self.spent.writes)

    @property
    def s3(self) -> float:
        return dollars("s3_write", self.spent.s3_writes) + dollars("s3_read", self.spent.s3_reads)

    @property
    def compute(self) -> float:
        return dollars("invoke", 1 / (self.delivered or 1)) + dollars(
            "compute", self.milliseconds / 1_000 * self.gb
        )

    @property
    def rest(self) -> float:
        """Gateway or queue, logs, and the bytes of the answer."""
        logs = dollars("logs", self.log_bytes / 1e9)
        if self.delivered:
            return logs / self.delivered + dollars("queue", QUEUE_REQUESTS)
        return logs + dollars("gateway", 1) + dollars("egress", self.answer_bytes / 1e9)

    @property
    def total(self) -> float:
        return self.dynamodb + self.s3 + self.compute + self.rest


def operations(counted: Mapping[str, Spent]) -> dict[str, Operation]:
    """The price list of API requests and of one event."""

    def request(name: str, extra_ms: float = 0, **more: float) -> Operation:
        spent = counted[name]
        waits = KV_MS * spent.kv_requests + S3_MS * (spent.s3_writes + spent.s3_reads)
        return Operation(name, spent, OWN_MS + waits + extra_ms, **more)  # type: ignore[arg-type]

    event = counted["delivery of 100 events"].shared_by(EVENTS)
    found = [
        request("stat, committed"),
        request("stat, staged"),
        request("list page", answer_bytes=30_000),
        request("stage"),
        request("upload address"),
        request("link"),
        request("upload"),
        request("delete"),
        request("create branch"),
        request("commit of 1", 100),
        request("commit of 100", 200),
        request("commit of 1,000", 1_500, gb=2.0),
        request("diff of 1", 50),
        request("merge of 1", 200),
        request("a stranger's request"),
        Operation("an event", event, 4, delivered=EVENTS),
    ]
    return {each.name: each for each in found}


# ---- bulk work -----------------------------------------------------------------------------------


def bulk(counted: Mapping[str, Spent]) -> list[tuple[str, Operation]]:
    """One import of a million objects, and one garbage collection over them; dollars each."""
    base = counted["import"]
    lists = base.s3_writes / 2 * 1_000  # `base` has the requests for 2,000 objects
    beats = IMPORT_SECONDS
    imported = Spent(
        base.requests,
        base.reads + beats,
        base.writes + beats,
        lists + RANGES_OF_A_MILLION + 1,
    )
    run = counted["garbage collection"]
    commits = 1_000
    files = RANGES_OF_A_MILLION + 2 * commits
    collected = Spent(
        run.requests,
        run.reads + commits / 8,  # commit records of 500 bytes each
        run.writes,
        MILLION / 1_000 + files / 1_000 + 2,
        files,
    )
    return [
        (
            "import of 1,000,000 objects",
            Operation("import", imported, 1_000 * IMPORT_SECONDS, gb=2.0, delivered=1),
        ),
        (
            "garbage collection of 1,000,000 objects, 1,000 commits kept",
            Operation("collect", collected, 1_000 * COLLECT_SECONDS, gb=2.0, delivered=1),
        ),
    ]


# ---- idle ----------------------------------------------------------------------------------------


class Idle(NamedTuple):
    """A line of the idle month: dollars at list price, and dollars after the free allowances."""

    what: str
    amount: str
    listed: float
    charged: float


def deployed() -> dict[str, int]:
    """The resources in template.yaml with a monthly price, and the custom metrics of the functions.

    The janitor writes its metrics every month, even without requests.
    """
    text = (ROOT / "template.yaml").read_text(encoding="utf-8")
    janitor = custom_metrics("janitor")
    every = {name for each in ("api", "events", "worker") for name in custom_metrics(each)}
    minutes = [int(each) for each in re.findall(r"rate\((\d+) minutes?\)", text)]
    return {
        "secrets": text.count("Type: AWS::SecretsManager::Secret"),
        "alarms": len(re.findall(r"Type: AWS::CloudWatch::Alarm\n +Properties", text)),
        "conditional_alarms": len(re.findall(r"Type: AWS::CloudWatch::Alarm\n +Condition", text)),
        "dashboards": text.count("Type: AWS::CloudWatch::Dashboard"),
        "metrics": len(janitor),
        "busy_metrics": len(every),
        "polled": len(re.findall(r"Type: SQS\n", text)),
        "calls": sum(round(SECONDS / 60 / each) for each in minutes),
    }


def custom_metrics(function: str) -> set[str]:
    """The names of the metrics that a function writes."""
    text = (ROOT / "functions" / function / "handler.py").read_text(encoding="utf-8")
    names = set(re.findall(r"add_metric\(\s*f?\"([^\"]+)\"", text))
    if "Events{taken.value.title()}" in names:
        names.remove("Events{taken.value.title()}")
        names |= {f"Events{result.value.title()}" for result in IntakeResult}
    return names


def _line(what: str, price: str, units: float, shown: str) -> Idle:
    allowance = PRICES[price].allowance
    scale = MILLION if PRICES[price].unit.startswith("million") else 1
    charged = max(0.0, units - allowance * scale)
    return Idle(what, shown, dollars(price, units), dollars(price, charged))


def idle_lines() -> list[Idle]:
    """Everything that is charged without any request, for ten repositories."""
    has = deployed()
    polls = has["polled"] * POLLERS * SECONDS / POLL_SECONDS
    calls = has["calls"]
    gb_seconds = calls * 0.06
    rounds = SECONDS / 900
    reads = calls + rounds * (6 + 6 * 10)  # lists; clean-up, jobs and rule of each of 10
    logs = calls * (CALL_BYTES + METRIC_BYTES) / 1e9
    return [
        _line("Secrets Manager", "secret", has["secrets"], f"{has['secrets']} secret"),
        _line(
            "polling of queues by Lambda",
            "queue",
            polls,
            f"{has['polled']} queues, {polls / MILLION:.2f} M receives",
        ),
        _line("schedules", "schedule", calls, f"{calls:,} calls"),
        _line("functions: requests", "invoke", calls, f"{calls:,}"),
        _line("functions: time", "compute", gb_seconds, f"{gb_seconds:,.0f} GB-s"),
        _line("DynamoDB: rounds and rules", "read", reads, f"{reads:,.0f} read units"),
        _line("logs", "logs", logs, f"{logs * 1000:.0f} MB"),
        _line("alarms", "alarm", has["alarms"], f"{has['alarms']}"),
        _line("metrics of the janitor", "metric", has["metrics"], f"{has['metrics']}"),
        _line("dashboard", "dashboard", has["dashboards"], f"{has['dashboards']}"),
        _line("table of 100 MB", "table", 0.1, "0.1 GB"),
        _line("point-in-time recovery", "recovery", 0.1, "0.1 GB"),
    ]


# ---- teams ---------------------------------------------------------------------------------------


class Team(NamedTuple):
    """A month of a team: the number of each operation."""

    name: str
    often: Mapping[str, float]


def _busy(people: int) -> Mapping[str, float]:
    return {
        "stat, committed": 200_000 * people,
        "list page": 20_000 * people,
        "stage": 30_000 * people,
        "commit of 100": 300 * people,
        "merge of 1": 50 * people,
        "create branch": 50 * people,
        "an event": 10_000 * people,
    }


TEAMS = (
    Team("a team of 10", _busy(10)),
    Team("a team of 100", _busy(100)),
    Team(
        "10,000 reads/s and 2,000 writes/s, all month",
        {
            "stat, committed": 10_000 * SECONDS,
            "stage": 2_000 * SECONDS,
            "commit of 1,000": 2 * SECONDS,
        },
    ),
)


def month(team: Team, prices: Mapping[str, Operation], counted: Mapping[str, Spent]) -> list[float]:
    """A month in dollars: DynamoDB, S3, functions, gateway and logs, clean-up, idle."""
    lines = [(prices[name], often) for name, often in team.often.items()]
    cleaned = 0.0
    for rows in ("100", "1,000"):
        spent = counted[f"clean-up after a commit of {rows}"]
        each = Operation("clean-up", spent, 0)
        cleaned += team.often.get(f"commit of {rows}", 0) * (each.dynamodb + each.s3)
    return [
        sum(each.dynamodb * often for each, often in lines),
        sum(each.s3 * often for each, often in lines),
        sum(each.compute * often for each, often in lines),
        sum(each.rest * often for each, often in lines),
        cleaned,
        sum(line.charged for line in idle_lines()),
    ]


def break_even(prices: Mapping[str, Operation]) -> list[tuple[str, float, float]]:
    """Each server, its price, and the number of requests a month that cost as much.

    The mix has nine reads to a write.
    """
    mix = [(prices["stat, committed"], 0.9), (prices["stage"], 0.1)]
    one = sum(each.total * share for each, share in mix)
    return [(server.what, server.dollars, server.dollars / one) for server in SERVERS]


def main() -> None:
    """Print the tables.  A read unit is a strongly consistent read of 4 KB, a write unit a write of
    1 KB; a transaction counts twice, and each row of a batch counts."""
    argparse.ArgumentParser(prog="python -m benchmarks.cost", description=main.__doc__).parse_args()
    counted = measured()
    prices = operations(counted)
    print_table(
        "Requests, on one shard with warm caches; $ per million of DynamoDB and S3, and lakeFS's",
        ("reads", "writes", "PUT", "GET", "$", "lakeFS, $"),
        [(name, *_requests(name, spent)) for name, spent in counted.items()],
    )
    parts = ("DynamoDB", "S3", "Lambda", "rest", "total")
    listed = [(each.name, *_parts(each, MILLION)) for each in prices.values()]
    print_table("A million operations, $", parts, listed)
    print_table("One of, $", parts, [(what, *_parts(each, 1)) for what, each in bulk(counted)])
    idle = idle_lines()
    sums = ("all", sum(each.listed for each in idle), sum(each.charged for each in idle))
    print_table(
        "An idle month of ten repositories, $",
        ("list price", "charged"),
        [*((f"{each.what}: {each.amount}", each.listed, each.charged) for each in idle), sums],
    )
    print_table("Deployed", ("number",), list(deployed().items()))
    cost_gateway.show(counted)
    print_table(
        "A fixed server: from how many requests it is cheaper, nine reads to a write",
        ("$ a month", "M a month", "a second"),
        [
            (what, price, count / MILLION, count / SECONDS)
            for what, price, count in break_even(prices)
        ],
    )
    print_table(
        "Teams, $ a month",
        ("DynamoDB", "S3", "Lambda", "rest", "clean-up", "idle", "total"),
        [
            (team.name, *amounts, sum(amounts))
            for team, amounts in ((team, month(team, prices, counted)) for team in TEAMS)
        ],
    )


def _requests(name: str, spent: Spent) -> tuple[object, ...]:
    line = Operation(name, spent, 0)
    peer = LAKEFS[name].dollars if name in LAKEFS else ""
    price = MILLION * (line.dynamodb + line.s3)
    return f"{spent.reads:g}", f"{spent.writes:g}", spent.s3_writes, spent.s3_reads, price, peer


def _parts(line: Operation, count: int) -> list[float]:
    amounts = (line.dynamodb, line.s3, line.compute, line.rest, line.total)
    return [count * each for each in amounts]


if __name__ == "__main__":
    main()
