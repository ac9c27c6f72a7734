"""What the optional S3 gateway of a deployment costs (infra/gateway.yaml), for cost.py."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from benchmarks.metering import Spent
from benchmarks.prices import MILLION, SECONDS, dollars
from benchmarks.single import ROOT, print_table

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


def show(counted: Mapping[str, Spent]) -> None:
    """The tables: one task behind an internal load balancer, as the template deploys it, at list
    price (NAT gateways and interface endpoints are not counted); and a million requests, which need
    neither Lambda nor the HTTP API."""
    charges = idle()
    charges.append(Charge("all", "", sum(each.dollars for each in charges)))
    charges.append(Charge("each address of the internet", "", dollars("address", HOURS)))
    charges.append(Charge("traffic at the balancer", "1 GB", dollars("balancer_unit", 1)))
    print_table("The S3 gateway, idle: $ a month", ("amount", "$"), charges)
    print_table(
        "A million requests to the gateway, $",
        ("DynamoDB", "S3", "log", "total"),
        [(name, *_requests(counted[verb], reads)) for name, (verb, reads) in _VERBS.items()],
    )


def _requests(spent: Spent, reads: int) -> tuple[float, float, float, float]:
    units = dollars("read", MILLION * spent.reads) + dollars("write", MILLION * spent.writes)
    stored = dollars("s3_write", MILLION * spent.s3_writes)
    stored += dollars("s3_read", MILLION * (spent.s3_reads + reads))
    log = dollars("logs", MILLION * _LOG_BYTES / 1e9)
    return units, stored, log, units + stored + log
