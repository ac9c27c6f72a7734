"""A process of the race: four threads, each adds to one counter until it was told so n times.

    racing_writer.py URL TABLE N     prints: answered "written", answered "unknown"

Three threads write on a condition on the row, the fourth on the row and a guard: single writes and
transactions meet on one row.
"""

import argparse
import threading

from graveler.core.aws import AwsSession, AwsSettings, CallPolicy
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import OutcomeUnknown, Unavailable
from graveler.core.requests import RetryPolicy
from graveler.kv.dynamodb import DynamoStore
from graveler.kv.retry import retrying_store
from graveler.kv.store import ABSENT, WRITTEN, Condition, Guarded, Matches, Store

PLACE, GUARD, GUARD_VERSION = (b"race", b"counter"), (b"race", b"guard"), b"g"


def add(store: Store, ids: SystemIds, guarded: bool, told: list[str]) -> bool:
    """One attempt to add one; whether it is over."""
    row = store.get(*PLACE)
    assert row is not ABSENT
    seen = Matches(row.version)
    condition: Condition = Guarded(seen, GUARD, GUARD_VERSION) if guarded else seen
    try:
        more = b"%d" % (int(row.value) + 1)
        outcome = store.set_if(*PLACE, more, ids.stamp(), condition)
    except OutcomeUnknown:
        told.append("unknown")
        return True
    except Unavailable:
        return False
    if outcome is WRITTEN:
        told.append("written")
    return outcome is WRITTEN


def race(store: Store, times: int) -> list[str]:
    """What the four threads were told."""
    ids, told = SystemIds(), list[str]()

    def run(guarded: bool) -> None:
        for _ in range(times):
            while not add(store, ids, guarded, told):
                pass

    threads = [threading.Thread(target=run, args=(number == 3,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("url", help="where DynamoDB is")
    parser.add_argument("table", help="its name")
    parser.add_argument("times", type=int, help="how often each thread adds")
    given = parser.parse_args()
    session = AwsSession(AwsSettings("us-east-1", given.url, "test", "test"))
    store = DynamoStore(session, given.table, policy=CallPolicy(10.0, 60.0))
    told = race(retrying_store(store, SystemClock(), RetryPolicy()), given.times)
    print(told.count("written"), told.count("unknown"))


if __name__ == "__main__":
    main()
