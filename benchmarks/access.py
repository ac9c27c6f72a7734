"""Cost of authorization: with what a process knows, and without it, in a lake of many users.

Run: python -m benchmarks.access [users] [policies]; prints one JSON object.  Times are medians in
microseconds on the embedded store; `requests` are those of the key-value store.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from graveler.assembly import open_embedded
from graveler.auth import accounts, credentials, directory, links
from graveler.auth.authenticator import Authenticator
from graveler.auth.entities import USERS, Link, User
from graveler.auth.permissions import Permission
from graveler.clock import SystemClock, SystemIds
from graveler.kv.counter import ObservedStore
from graveler.kv.store import Write
from graveler.requests import Counts

SECRET = bytes(range(32))
_BATCH = 1_000
_OBJECT = Permission("fs:ReadObject", "arn:lakefs:fs:::repository/lake/object/a/b/c")


def measure(users: int, policies: int, folder: Path) -> dict[str, Any]:
    """All figures, in a lake with so many users in one group of ten policies each."""
    counts, ids, clock = Counts(), SystemIds(), SystemClock()
    store = open_embedded(folder)
    kv = ObservedStore(store.ports.kv, counts)
    keeper = accounts.keeper(kv, clock, ids, SECRET)
    accounts.create(keeper, "admin", "", credentials.fresh(ids))
    for number in range(policies):
        statement = [
            {
                "effect": "allow",
                "action": ["fs:Read*", "fs:List*"],
                "resource": f"arn:lakefs:fs:::repository/r{number}/*",
            }
        ]
        directory.create_policy(keeper, f"p{number}", statement)
    groups = [directory.create_group(keeper, f"g{n}") for n in range(max(1, policies // 10))]
    for number in range(policies):
        links.add(keeper, links.OF_GROUP, f"g{number // 10 % len(groups)}", f"p{number}")
    for first in range(0, users, _BATCH):
        writes = []
        for number in range(first, min(users, first + _BATCH)):
            group = groups[number % len(groups)]
            user = User(f"u{number}", ids.stamp().hex(), clock.now_ns(),
                        groups=(Link(group.id, group.uid),))  # fmt: skip
            place = links.MEMBER.place(group, user.id)
            writes.append(Write(*USERS.place(user.id), USERS.encode(user), ids.stamp()))
            writes.append(Write(*place, b"\x01", ids.stamp()))
        for begin in range(0, len(writes), _BATCH):
            kv.set_many(writes[begin : begin + _BATCH])
    links.add(keeper, links.MEMBER, "u7", "Developers")
    auth = Authenticator(keeper, SECRET)
    caller = _caller(auth, keeper)
    known = counts.total()
    cached = _micros(lambda: auth.authorize(caller, (_OBJECT,), "lake"), 20_000)
    hot = counts.total() - known
    names = (f"u{number * 37 % users}" for number in count())
    fresh = counts.total()
    uncached = _micros(lambda: auth.access.view(next(names)), 1_000)
    result = {
        "users": users,
        "policies": policies,
        "authorize_cached_us": round(cached, 2),
        "authorize_cached_requests": hot,
        "rights_uncached_us": round(uncached, 1),
        "rights_uncached_requests": (counts.total() - fresh) / 1_000,
        "list_first_page_of_members_us": round(_micros(lambda: _page(kv), 20), 1),
    }
    store.close()
    return result


def _caller(auth: Authenticator, keeper: Any) -> Any:
    given, _ = credentials.create(keeper, "u7")
    token = auth.login(given.access_key_id, given.secret_access_key).token
    return auth.identify(b"", token)


def _page(kv: Any) -> list[User]:
    found = links.members(kv, "g0", "", "", 100)
    return [user for _, user in zip(range(100), found, strict=False)]


def _micros(call: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1e6


if __name__ == "__main__":
    amounts = [int(text) for text in sys.argv[1:]] or [50_000, 1_000]
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(*amounts, Path(folder) / "lake")))
