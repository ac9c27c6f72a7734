"""How rows and conditions are written as DynamoDB items and expressions.

    p   partition (key)       v   value                           ttl  seconds since 1970 after
    s   key (sort key)        w   version, the write's stamp           which DynamoDB may remove the
                              o   order                                row; only where `_LIVES` sets
                                                                       a lifetime

All attributes are binary except the order and `ttl`.  A change here changes the stored format.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from graveler.core import limits
from graveler.core.aws import Failure, is_busy
from graveler.core.errors import Corrupt
from graveler.core.records import Absent
from graveler.kv.store import ABSENT, Guarded, Matches, Moved, Paired, Place, Row, guard_of

Item = Mapping[str, Any]

PARTITION: Final = "p"
SORT: Final = "s"
VERSION: Final = "w"
TTL: Final = "ttl"
_VALUE: Final = "v"
_ORDER: Final = "o"
_LIVES: Final = {
    b"e/": 15 * 24 * 3600,  # event records: no queue redelivers an event after so long
    b"ended/": 13 * 3600,  # ended sessions: no session token is valid for so long
}
_ABSENT: Final = f"attribute_not_exists({PARTITION})"


# ---- rows ----------------------------------------------------------------------------------------


def key_of(partition: bytes, key: bytes) -> Item:
    """The primary key of a row."""
    return {PARTITION: {"B": partition}, SORT: {"B": key}}


def item_of(place: Place, row: Row, now_ns: int) -> Item:
    """The whole item of a row.  `row_of` and `place_of` are its inverses."""
    item = {
        **key_of(*place),
        _VALUE: {"B": row.value},
        VERSION: {"B": row.version},
        _ORDER: {"N": str(row.order)},
    }
    for prefix, seconds in _LIVES.items():
        if place[0].startswith(prefix):
            item[TTL] = {"N": str(now_ns // limits.SECOND_NS + seconds)}
    return item


def row_of(item: Item) -> Row:
    """The row of an item.  Raises `Corrupt` for an item that `item_of` cannot have made."""
    try:
        return Row(item[_VALUE]["B"], item[VERSION]["B"], int(item[_ORDER]["N"]))
    except (KeyError, ValueError) as error:
        raise Corrupt(f"dynamodb item is not a row: attributes={sorted(item)}") from error


def sort_key_of(item: Item) -> bytes:
    """The row's key.  Raises `Corrupt` for an item without a valid sort key."""
    return place_of({PARTITION: {"B": b""}, **item})[1]


def place_of(item: Item) -> Place:
    """The row's place.  Raises `Corrupt` for an item without valid keys."""
    try:
        return item[PARTITION]["B"], item[SORT]["B"]
    except KeyError as error:
        raise Corrupt(f"dynamodb item has no key of Graveler: attributes={sorted(item)}") from error


# ---- conditions ----------------------------------------------------------------------------------


def if_holds(condition: Matches | Literal[Absent.ABSENT]) -> dict[str, Any]:
    """The condition expression for one row."""
    if condition is ABSENT:
        return {"ConditionExpression": _ABSENT}
    return {
        "ConditionExpression": f"{VERSION} = :w",
        "ExpressionAttributeValues": {":w": {"B": condition.version}},
    }


def if_newer(order: int) -> dict[str, Any]:
    """The condition expression: the row is absent or has a smaller order."""
    return {
        "ConditionExpression": f"{_ABSENT} OR {_ORDER} < :o",
        "ExpressionAttributeValues": {":o": {"N": str(order)}},
    }


def transaction(
    table: str, place: Place, row: Row, condition: Guarded | Moved | Paired, now_ns: int
) -> dict[str, Any]:
    """The transaction that writes `row` if all conditions hold.  Its first item is the row."""
    put = {"Item": item_of(place, row, now_ns)}
    if isinstance(condition, Moved):
        old = {"Key": key_of(*condition.place)}
        removal = _in_transaction(table, "Delete", old, Matches(condition.version))
        return {"TransactItems": [{"Put": {"TableName": table, **put}}, removal]}
    items = [_in_transaction(table, "Put", put, condition.row)]
    if isinstance(condition, Guarded):
        items.append(_checked(table, condition.place, guard_of(condition)))
    else:
        also = condition.write
        item = item_of((also.partition, also.key), Row(also.value, also.version), now_ns)
        items.append(_in_transaction(table, "Put", {"Item": item}, condition.other))
        if condition.guard is not ABSENT:
            guard = condition.guard
            items.append(_checked(table, guard.place, Matches(guard.version)))
    return {"TransactItems": items}


def _checked(table: str, place: Place, condition: Matches | Literal[Absent.ABSENT]) -> Item:
    return _in_transaction(table, "ConditionCheck", {"Key": key_of(*place)}, condition)


def _in_transaction(
    table: str, verb: str, arguments: Item, condition: Matches | Literal[Absent.ABSENT]
) -> Item:
    shown = {"TableName": table, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    return {verb: {**arguments, **if_holds(condition), **shown}}


def stretch(partition: bytes, start: bytes, end: bytes) -> dict[str, Any]:
    """The narrowest key condition that includes every row with `start` <= key < `end`.

    It may include two rows too many, which the caller drops: the row at `end`, because DynamoDB
    allows only one condition on the sort key; and, if `start` is longer than a key may be, the row
    at its first bytes, because DynamoDB refuses longer values.
    """
    longest = limits.kv_key_length_bytes_max
    low, high = start[:longest], end[:longest]
    condition, values = f"{PARTITION} = :p", {":p": {"B": partition}}
    if low:
        values[":a"] = {"B": low}
    if high:
        values[":b"] = {"B": high}
    if low and high:
        condition += f" AND {SORT} BETWEEN :a AND :b"
    elif low:
        condition += f" AND {SORT} >= :a"
    elif high:
        condition += f" AND {SORT} <= :b"
    return {
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": values,
        "ProjectionExpression": f"{SORT}, {_VALUE}, {VERSION}, {_ORDER}",  # fewer are faster
    }


# ---- refusals ------------------------------------------------------------------------------------

CONDITION_FAILED: Final = "ConditionalCheckFailedException"
IN_PROGRESS: Final = "TransactionInProgressException"  # an earlier send of the same transaction


class Cancellation(NamedTuple):
    """Why DynamoDB cancelled a transaction, whose first item is the row.

    `declined`: a condition did not hold.
    `busy`: the only reasons were load or another transaction.
    `row`: the stored row, if the condition on it failed and the row exists; otherwise ABSENT.
    """

    declined: bool
    busy: bool
    row: Row | Literal[Absent.ABSENT]


def cancellation(failure: Failure) -> Cancellation:
    """The cancellation on a cancelled transaction, from the reasons that DynamoDB gives."""
    reasons: Sequence[Item] = failure.answer.get("CancellationReasons", ())
    codes = [str(reason.get("Code", "None")) for reason in reasons]
    wrong = [code for code in codes if code != "None"]
    declined = "ConditionalCheckFailed" in wrong
    busy = bool(wrong) and all(is_busy(code) for code in wrong)
    item = reasons[0].get("Item") if reasons else None
    return Cancellation(declined, busy, row_of(item) if item else ABSENT)
