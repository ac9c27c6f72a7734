"""Creates the table that the DynamoDB driver expects.

Deployments declare the same keys in their template, with backups and encryption.  The table bills
per request.  Its time-to-live attribute is `ttl`.
"""

from typing import Final

from graveler.core.aws import FAILURES, AwsSession, Client, failure_of, unavailable
from graveler.core.clock import Clock, SystemClock
from graveler.core.errors import Unavailable
from graveler.kv.dynamodb_items import PARTITION, SORT, TTL

_WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.25


def create_table(session: AwsSession, table: str, clock: Clock | None = None) -> None:
    """Create the table unless it exists, and wait until it is active.  Raises `Unavailable`."""
    chosen = clock or SystemClock()
    client = session.client("dynamodb")
    keys = ((PARTITION, "HASH"), (SORT, "RANGE"))
    try:
        client.create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": n, "AttributeType": "B"} for n, _ in keys],
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
        )
        is_new = True
    except FAILURES as error:
        failure = failure_of(error)
        if failure.code != "ResourceInUseException":
            raise unavailable(failure, f"create dynamodb {table=}", write=False) from error
        is_new = False
    try:
        _wait(client, table, chosen)
        if is_new:
            client.update_time_to_live(
                TableName=table,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL},
            )
    except FAILURES as error:
        failure = failure_of(error)
        if failure.code != "UnknownOperationException":  # some local engines have no time to live
            raise unavailable(failure, f"create dynamodb {table=}", write=False) from error
    finally:
        client.close()


def _wait(client: Client, table: str, clock: Clock) -> None:
    begun = clock.steady_seconds()
    while client.describe_table(TableName=table)["Table"]["TableStatus"] != "ACTIVE":
        if clock.steady_seconds() - begun > _WAIT_SECONDS:
            raise Unavailable(f"dynamodb table is not ready after a minute: {table=}")
        clock.sleep(_POLL_SECONDS)
