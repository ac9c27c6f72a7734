"""AWS prices and quotas for the pages of costs and of scale.  Nothing is fetched.

us-east-1, US dollars, on demand, November 2026.  Every price names its source and the date of the
source.  Check them against the pages of your own region before you sign anything.
"""

from typing import Final, NamedTuple

MILLION: Final = 1_000_000
SECONDS: Final = 730 * 3_600  # in a month
AS_OF: Final = "November 2026"


class Price(NamedTuple):
    """Dollars for one `unit`.  `allowance`: units per month that are free for every account."""

    what: str
    dollars: float
    unit: str
    allowance: float
    source: str


_DOCS = "AWS documentation"
_PRESS = "published summaries of the price page"
_KNOWN = "known list price, not checked again"

PRICES: Final = {
    "write": Price("DynamoDB write unit", 0.625, "million", 0, f"{_PRESS}, 2025"),
    "read": Price("DynamoDB read unit", 0.125, "million", 0, f"{_PRESS}, 2025"),
    "table": Price("DynamoDB storage", 0.25, "GB-month", 25, f"{_PRESS}, 2025"),
    "recovery": Price("DynamoDB point-in-time recovery", 0.20, "GB-month", 0, _KNOWN),
    "s3_write": Price("S3 PUT, COPY, POST, LIST", 5.00, "million", 0, f"{_PRESS}, April 2026"),
    "s3_read": Price("S3 GET, HEAD", 0.40, "million", 0, f"{_PRESS}, April 2026"),
    "s3_store": Price("S3 storage", 0.023, "GB-month", 0, f"{_PRESS}, April 2026"),
    "gateway": Price("HTTP API request", 1.00, "million", 0, f"{_PRESS}, 2026"),
    "invoke": Price("Lambda request", 0.20, "million", 1, f"{_PRESS}, September 2026"),
    "compute": Price("Lambda, arm64", 13.3334, "million GB-s", 0.4, f"{_PRESS}, September 2026"),
    "queue": Price("SQS request", 0.40, "million", 1, _KNOWN),
    "schedule": Price("EventBridge Scheduler call", 1.00, "million", 14, _KNOWN),
    "logs": Price("CloudWatch Logs", 0.50, "GB", 5, _KNOWN),
    "alarm": Price("CloudWatch alarm", 0.10, "month", 10, _KNOWN),
    "metric": Price("CloudWatch custom metric", 0.30, "month", 10, _KNOWN),
    "dashboard": Price("CloudWatch dashboard", 3.00, "month", 3, _KNOWN),
    "secret": Price("Secrets Manager secret", 0.40, "month", 0, f"{_PRESS}, 2026"),
    "secret_read": Price("Secrets Manager read", 5.00, "million", 0, f"{_PRESS}, 2026"),
    "kms": Price("KMS request", 3.00, "million", 0.02, _KNOWN),
    "container_processor": Price("Fargate vCPU, x86", 0.04048, "hour", 0, f"{_PRESS}, 2026"),
    "container_memory": Price("Fargate memory, x86", 0.004445, "GB-hour", 0, f"{_PRESS}, 2026"),
    "balancer": Price("network load balancer", 0.0225, "hour", 0, _KNOWN),
    "balancer_unit": Price("network load balancer, TLS traffic", 0.006, "GB", 0, _KNOWN),
    "address": Price("public IPv4 address", 0.005, "hour", 0, _KNOWN),
    "egress": Price("data out to the internet", 0.09, "GB", 100, f"{_PRESS}, April 2026"),
}


class Server(NamedTuple):
    """A fixed server for comparison; dollars per month."""

    what: str
    dollars: float


SERVERS: Final = (
    Server("lakeFS on t4g.small, EBS, IPv4, with DynamoDB", 17.5),
    Server("lakeFS on t4g.small, RDS db.t4g.micro", 31.5),
    Server("the same behind a load balancer", 54.0),
    Server("2 × t4g.medium, Multi-AZ RDS, load balancer", 130.0),
)


class Peer(NamedTuple):
    """Requests of one lakeFS operation, July 2026, on DynamoDB and S3 with warm caches.

    Counted at a proxy.  `dollars`: per million operations.
    """

    requests: str
    dynamodb: float
    s3: float
    dollars: float


LAKEFS: Final = {
    "upload": Peer("3.05 Get, 1 Put; 1 PUT", 4.05, 1, 6.01),
    "stat, staged": Peer("2 Get", 2, 0, 0.25),
    "stat, committed": Peer("2 Get", 2, 0, 0.25),
    "delete": Peer("2.05 Get, 1 conditional Put", 3.05, 0, 0.88),
    "list page": Peer("1.05 Get, 1 Query", 2.05, 0, 0.26),
    "create branch": Peer("4.1 Get, 1 conditional Put, 0.1 Query", 5.2, 0, 1.15),
    "commit of 1": Peer(
        "5.3 Get, 1 Put, 3 conditional Put, 4 Query, 2 Delete; 2 PUT", 15.3, 2, 14.9
    ),
    "commit of 100": Peer("4.3 Get, 4 Put, 3.3 Query, 101 Delete; 2 PUT", 112.6, 2, 76.6),
    "diff of 1": Peer("2 Get", 2, 0, 0.25),
    "merge of 1": Peer("5.2 Get, 4 Put, 4 Query, 1 Delete; 2 PUT", 14.2, 2, 14.3),
}


def dollars(name: str, units: float) -> float:
    """The price of `units` single units, even if the list price is for a million."""
    price = PRICES[name]
    return price.dollars * units / (MILLION if price.unit.startswith("million") else 1)
