"""The programs that are simulated: families of verbs with weights, and profiles of faults.

A program is some clients with one to four calls each, drawn from a seed.
"""

from bisect import bisect
from dataclasses import replace
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from simulator.schedule import Call, Profile, Scheduler
from simulator.verbs.arrivals import drawn

SCHEDULERS: tuple[Scheduler, ...] = ("uniform", "pct", "sticky")


class Family(NamedTuple):
    """Verbs and their weights, the keys and branches that they use, and the range of the number of
    clients.  `processes`: how many processes the clients share; 0: each has its own."""

    weights: dict[str, float]
    keys: tuple[str, ...] = ("k1", "k2")
    branches: tuple[str, ...] = ("main",)
    clients: tuple[int, int] = (2, 4)
    processes: int = 0


FAMILIES: dict[str, Family] = {
    "core": Family({"write": 5, "delete": 2, "read": 3, "list": 1, "commit": 4}),
    "commits": Family({"write": 4, "delete": 1, "commit": 6, "list": 1}),
    "merge": Family({"write": 4, "delete": 1, "read": 2, "list": 2, "commit": 3, "merge": 3,
        "hard": 0.5}, keys=("k1", "k2", "m1", "m2")),
    "reset": Family({"write": 5, "delete": 1, "read": 3, "list": 1, "commit": 3, "reset": 1.5,
        "prefix": 1, "reset_path": 0.5}),
    "branch": Family({"write": 5, "delete": 1, "read": 3, "commit": 3, "drop": 1.5,
        "create": 2}),
    "cond": Family({"create_only": 6, "read": 2, "commit": 4, "write": 0.5, "delete": 1},
        keys=("k2", "k2", "k1")),
    "match": Family({"replace_only": 6, "create_only": 1, "read": 2, "commit": 4,
        "delete": 0.5}, keys=("k1", "k1", "k2")),
    "replay": Family({"write": 2, "delete": 0.5, "list": 2, "commit": 3, "merge": 1,
        "squash": 1, "revert": 2, "pick": 2}, keys=("k1", "k2", "m1", "r1")),
    "import": Family({"write": 3, "delete": 0.5, "list": 2, "read": 1, "commit": 3,
        "import": 3}, keys=("k1", "i/a", "i/c")),
    "bulk": Family({"write": 4, "delete_many": 4, "read": 2, "list": 1, "commit": 4}),
    "upload": Family({"link": 4, "link_only": 2, "write": 1, "delete": 2, "read": 2,
        "commit": 4}),
    "batches": Family({"upload_many": 6, "write": 1, "delete": 1, "commit": 4, "read": 2,
        "list": 1, "reset": 0.3, "drop": 0.3, "create": 0.3}),
    "parts": Family({"upload_parts": 5, "finish": 3, "abort_uploads": 0.7, "write": 2,
        "delete": 0.7, "commit": 3, "read": 2, "list": 0.5}, keys=("k1", "k1", "k2")),
    "note": Family({"note": 4, "write": 3, "delete": 1, "read": 2, "commit": 4}),
    "crowd": Family({"write": 4, "commit": 6, "merge": 0.3}, clients=(4, 7)),
    "empty": Family({"commit_empty": 5, "commit": 2, "write": 3, "list": 1}),
    "tags": Family({"tag": 5, "untag": 4, "tag_of": 3, "tags": 1}, keys=("v1", "v1", "v2")),
    "pairs": Family({"pair": 5, "unpair": 3, "pairs": 3}, keys=("p1", "p1", "p2")),
    "cancel": Family({"import_job": 4, "cancel": 4, "write": 1, "commit": 2, "list": 1},
        keys=("k1", "i/a")),
    "cluster": Family({"bulk_job": 5, "cancel": 2, "beat": 1, "import_job": 1, "write": 2,
        "commit": 3, "list": 1}, keys=("k1", "i/a", "i/c")),
    "beside": Family({"bulk_job": 3, "bulk_merge": 3, "write": 5, "delete": 2,
        "create_only": 1, "commit": 5, "commit_empty": 0.5, "reset": 0.3, "prefix": 0.5,
        "hard": 0.2, "read": 1, "list": 1}, keys=("k1", "k2", "i/a", "i/c")),
    "splice": Family({"splice": 5, "bulk_job": 1, "bulk_merge": 1, "write": 3, "delete": 1,
        "commit": 4, "cancel": 0.5, "reset": 0.3, "hard": 0.3, "list": 1}, keys=("k1", "i/a",
        "i/b", "i/c")),
    "streams": Family({"batch": 6, "splice": 0.5, "write": 2, "commit": 2, "cancel": 0.3,
        "hard": 0.6, "read": 0.5, "list": 1}, keys=("k1", "k2", "i/a")),
    "pack": Family({"pack": 4, "breaks": 2, "write": 3, "delete": 1, "commit": 4, "merge": 1,
        "list": 1}, keys=("k1", "m1")),
    "adopt": Family({"record": 1, "adopt": 3, "write": 3, "list": 2, "commit": 3,
        "hard": 0.5}),
    "back": Family({"hard_back": 4, "commit": 4, "write": 4, "list": 2, "read": 1}),
    "arrivals": Family({"arrive": 6, "tick": 2, "write": 2, "delete": 0.5, "commit": 3,
        "merge": 0.3, "hard": 0.1, "reset": 0.3, "read": 1, "list": 0.5}, keys=("k1", "k1",
        "k2", "m1")),
    "guard": Family({"protect": 2, "unprotect": 1.5, "write": 4, "delete": 1, "delete_many": 1,
        "note": 0.5, "commit": 4, "reset": 0.5, "merge": 0.5, "read": 1, "list": 0.5}),
    "pulls": Family({"pull_merge": 5, "pull_close": 1, "pull_open": 1.5, "advance": 3,
        "write": 2, "commit": 3, "list": 1}),
    "rollbacks": Family({"pull_merge": 5, "pull_close": 1, "pull_open": 1.5, "advance": 2,
        "hard": 1.5, "write": 1, "commit": 1.5, "list": 0.5}),
    "twins": Family({"write": 5, "delete": 1, "commit": 6, "list": 1}, branches=("main",
        "twin")),
    "shared": Family({"write": 5, "delete": 1, "commit": 7, "commit_empty": 1,
        "commit_vetoed": 1, "merge": 0.5, "reset": 0.2, "list": 1}, clients=(3, 6),
        processes=2),
}  # fmt: skip
PROFILES = {
    "clean": Profile("clean", jump=0.002),
    "crash": Profile("crash", kill=0.02, zombie=0.02, jump=0.002),
    "amb": Profile("amb", write_fault=0.06, jump=0.002),
    "delay": Profile("delay", delayed=0.06, jump=0.002),
    "all": Profile("all", kill=0.015, zombie=0.015, write_fault=0.05, delayed=0.03, jump=0.004),
    "aging": Profile("aging", write_fault=0.02, delayed=0.02, jump=0.08),
    "storm": Profile("storm", kill=0.004, write_fault=0.2, delayed=0.2, jump=0.002),
}
# Verbs whose every call has a value of its own.
_OWN_VALUES = frozenset(
    [
        "create_only",
        "replace_only",
        "link_only",
        "link",
        "breaks",
        "upload_parts",
        "bulk_merge",
        "splice",
        "batch",
    ]
)
_SCHEDULED = {
    name: [replace(profile, scheduler=scheduler) for scheduler in SCHEDULERS]
    for name, profile in PROFILES.items()
}


def profile_of(name: str, seed: int) -> Profile:
    """The profile, with a scheduler by the seed."""
    return _SCHEDULED[name][seed % 3]


def sweeps_of(name: str, seed: int) -> int:
    """How often the janitor sweeps beside the clients: in one of four runs, and always if time
    jumps often."""
    return 8 if name == "aging" else 4 if seed % 4 == 0 else 0


def program(family: Family, choose: Random) -> list[list[Call]]:
    """Some clients with one to four calls each."""
    verbs, totals = list(family.weights), list(accumulate(family.weights.values()))
    draw, keys = choose.random, family.keys
    clients, serial = [], 0
    fewest, most = family.clients
    for client in range(fewest + int(draw() * (most - fewest + 1))):
        calls = []
        for at in [draw() * totals[-1] for _ in range(1 + int(draw() * 4))]:
            verb = verbs[bisect(totals, at, 0, len(verbs) - 1)]
            serial += 1
            key = keys[int(draw() * len(keys))]
            branch = family.branches[int(draw() * len(family.branches))]
            calls.append(Call(client, verb, arguments(verb, key, serial, draw()), branch))
        clients.append(calls)
    return clients


def arguments(verb: str, key: str, serial: int, chance: float) -> tuple[Any, ...]:
    """The arguments of a call; sometimes a value that is there already, so that nothing changes."""
    if verb == "arrive":
        return drawn(key, serial, chance)
    if verb == "delete_many":
        return ("k1", "k2")
    if verb == "upload_many":
        return _uploads(key, serial, chance)
    if verb == "note":
        return (key, str(serial))
    value = f"{key}-0" if chance < 0.15 and verb not in _OWN_VALUES else f"{key}-{serial}"
    return (key, value)


def _uploads(key: str, serial: int, chance: float) -> tuple[str, ...]:
    """Paths and values of several uploads: of two paths, of one twice, or both."""
    other = "k2" if key == "k1" else "k1"
    paths = (key, other) if chance < 0.5 else (key, key) if chance < 0.7 else (key, other, key)
    return tuple(text for at, path in enumerate(paths) for text in (path, f"{path}-{serial}-{at}"))
