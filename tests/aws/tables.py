"""Tables of local engines: made patiently, and emptied between tests, which costs less."""

from functools import cache

from graveler.core.aws import AwsSession, CallPolicy, Client
from graveler.core.errors import Unavailable
from graveler.kv.dynamodb import DynamoStore
from tests.support.dynamodb_table import create_table
from tests.waiting import until


def wipe(session: AwsSession, store: DynamoStore) -> None:
    """Delete every row of the store's table."""
    pages = (
        _client(session)
        .get_paginator("scan")
        .paginate(TableName=store.table, ConsistentRead=True, ProjectionExpression="p, s")
    )
    rows: dict[bytes, list[bytes]] = {}
    for page in pages:
        for item in page["Items"]:
            rows.setdefault(item["p"]["B"], []).append(item["s"]["B"])
    for partition, keys in rows.items():
        store.delete(partition, keys)


@cache
def _client(session: AwsSession) -> Client:
    return session.client("dynamodb", CallPolicy(connect_seconds=10.0, read_seconds=60.0))


def new_table(session: AwsSession, name: str) -> None:
    """Return once the table `name` is there.  Local engines answer late on a busy machine, so the
    creation is repeated."""

    def is_there() -> bool:
        try:
            create_table(session, name)
        except Unavailable:
            return False
        return True

    until(is_there, f"table {name}")
