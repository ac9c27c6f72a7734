"""What the optional S3 gateway of a deployment costs (infra/gateway.yaml), for cost.py."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from benchmarks.metering import Spent
from benchmarks.prices import MILLION, SECONDS, dollars
from benchmarks.written import ROOT

TEMPLATE: Final = ROOT / "infra" / "gateway.yaml"
HOURS: Final = SECONDS / 3_600
ZONES: Final = 2
_LOG_BYTES: Final = 200  # a line of the access log
_OWN_CHECK_SECONDS: Final = 30  # how often the container asks itself

# Operations of S3, and the verb that each is.  The second number: further reads of S3.
_VERBS: Final = {
    "PUT": ("upload", 0),
    "GET": ("stat, staged", 1),
    "HEAD": ("stat, staged", 0),
    "LIST": ("list page", 0),
    "DELETE": ("delete", 0),
}


class Charge(NamedTuple):
    """A line of the idle month, in dollars."""

    what: str
    amount: str
    dollars: float


class Sizes(NamedTuple):
    """What the template deploys by default: processors and GB of one task, and the seconds between
    two checks of its health."""

    processors: float
    gb: float
    check_seconds: int


def deployed() -> Sizes:
    """The defaults of the template."""
    text = TEMPLATE.read_text(encoding="utf-8")
    processors = re.search(r'\n  Cpu:\n    Type: String\n    Default: "(\d+)"', text)
    memory = re.search(r"\n  Memory:\n    Type: Number\n    Default: (\d+)", text)
    seconds = re.search(r"HealthCheckIntervalSeconds: (\d+)", text)
    assert processors and memory and seconds, "the template has the three values"
    return Sizes(int(processors[1]) / 1_024, int(memory[1]) / 1_024, int(seconds[1]))


def idle() -> list[Charge]:
    """A month of one task and an internal load balancer that nobody uses."""
    sizes = deployed()
    checks = ZONES * SECONDS / sizes.check_seconds
    lines = checks + SECONDS / _OWN_CHECK_SECONDS
    return [
        Charge(
            "Fargate, processors",
            f"{sizes.processors:g} vCPU",
            dollars("container_processor", sizes.processors * HOURS),
        ),
        Charge(
            "Fargate, memory",
            f"{sizes.gb:g} GB",
            dollars("container_memory", sizes.gb * HOURS),
        ),
        Charge("network load balancer", "1", dollars("balancer", HOURS)),
        Charge(
            "logs of health",
            f"{lines * _LOG_BYTES / 1e6:,.0f} MB",
            dollars("logs", lines * _LOG_BYTES / 1e9),
        ),
    ]


def section(counted: Mapping[str, Spent]) -> Iterator[str]:
    """The section of the page."""
    yield "## The S3 gateway\n"
    yield "It is optional (docs/how-to/gateway-on-aws.md), and costs by the hour."
    yield "On loopback, on a machine that runs anyway, an idle month costs nothing."
    yield "One task behind an internal load balancer, as `infra/gateway.yaml` deploys it, at list"
    yield "price; checks of its health ask neither the table nor a bucket:\n"
    yield "| item | amount | $ a month |"
    yield "|---|---:|---:|"
    charges = idle()
    for each in charges:
        yield f"| {each.what} | {each.amount} | {each.dollars:.2f} |"
    yield f"| **all** | | **{sum(each.dollars for each in charges):.2f}** |"
    yield ""
    address = dollars("address", HOURS)
    yield f"Each address of the internet costs ${address:.2f} a month more: an internet-facing load"
    yield f"balancer has one in each of its {ZONES} zones, and a task has one with `PublicIp`."
    yield "NAT gateways, interface endpoints of the VPC and disk above 20 GiB are not counted."
    yield f"Traffic costs ${dollars('balancer_unit', 1):.3f} a GB at the load balancer.\n"
    yield "A request needs neither Lambda nor the HTTP API."
    yield "Dollars for a million, with a line of the log for each:\n"
    yield "| request | DynamoDB | S3 | log | total |"
    yield "|---|---:|---:|---:|---:|"
    log = dollars("logs", MILLION * _LOG_BYTES / 1e9)
    for name, (verb, reads) in _VERBS.items():
        spent = counted[verb]
        units = dollars("read", MILLION * spent.reads) + dollars("write", MILLION * spent.writes)
        stored = dollars("s3_write", MILLION * spent.s3_writes)
        stored += dollars("s3_read", MILLION * (spent.s3_reads + reads))
        total = units + stored + log
        yield f"| {name} | {units:.2f} | {stored:.2f} | {log:.2f} | {total:.2f} |"
    yield ""
    yield "A body of more than 8 MiB costs a PUT of S3 for each 8 MiB, and two more; an upload in"
    yield "parts costs one for each part, as at S3 itself.\n"
