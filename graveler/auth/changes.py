"""What the service itself changes when it identifies a caller, for the audit trail.

The first token of a subject makes its user, and a newer token changes its groups (subjects.py), in
whatever request the token comes, also in one that only reads.  So each such change is noted where
it is made, and has a line of its own beside that of its request (http/audit.py).

For this folder and api/.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from graveler.auth import arns
from graveler.errors import Refused
from graveler.kv.wait import WouldWait

CREATES_USER: Final = "tokenCreatesUser"
JOINS_GROUPS: Final = "tokenJoinsGroups"
LEAVES_GROUPS: Final = "tokenLeavesGroups"


class Change(NamedTuple):
    """What a token has changed: `operation` as the trail calls it, whose token it is, which
    resources.  `done`: it has happened; otherwise it may have."""

    operation: str
    user: str
    uid: str
    resources: tuple[str, ...]
    done: bool = True


def created(user: str, uid: str) -> Change:
    """A user was made.  Pure."""
    return Change(CREATES_USER, user, uid, (_user(user),))


def regrouped(user: str, uid: str, before: Iterable[str], after: Iterable[str]) -> list[Change]:
    """The groups of a user were set: one change for those that it joins, and one for those that it
    leaves.  Pure."""
    old, new = set(before), set(after)
    return [
        Change(operation, user, uid, (_user(user), *(_group(name) for name in sorted(names))))
        for operation, names in ((JOINS_GROUPS, new - old), (LEAVES_GROUPS, old - new))
        if names
    ]


@contextmanager
def unless_done(changes: list[Change], possible: list[Change]) -> Iterator[None]:
    """Notes that changes may have happened, if the block fails otherwise than by a refusal, or by
    the wish to be repeated in a thread."""
    try:
        yield
    except (Refused, WouldWait):
        raise
    except BaseException:
        changes += [each._replace(done=False) for each in possible]
        raise


def _user(id: str) -> str:
    return arns.resource("auth", f"user/{id}")


def _group(id: str) -> str:
    return arns.resource("auth", f"group/{id}")
