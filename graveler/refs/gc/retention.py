"""The retention rule of a repository: how many days commits are kept, for each branch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from graveler import wire
from graveler.clock import Ids
from graveler.ids import BranchId
from graveler.kv.replace import replace_row
from graveler.kv.store import Store
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.keys import setting_key, space

FOREVER: Final = 0  # days
UNREACHABLE_DAYS_DEFAULT: Final = 7
_NAME = "retention"
_BRANCH = "branch:"


@dataclass(frozen=True, slots=True)
class Retention:
    """The number of days that a commit is kept after another commit followed it; 0: for ever.

    `default_days` is for all branches that `branches` does not name.  `unreachable_days` is for
    commits that no branch and no tag leads to; it counts from the time when garbage collection
    first found the commit so (unreachable.py).
    """

    default_days: int = FOREVER
    unreachable_days: int = UNREACHABLE_DAYS_DEFAULT
    branches: Mapping[BranchId, int] = field(default_factory=dict)

    def days(self, branch: BranchId) -> int:
        """The number of days of a branch."""
        return self.branches.get(branch, self.default_days)


def get(kv: Store, repository: Repository) -> Retention:
    """The rule.  If none is set, the default: no commit expires that a branch or tag leads to.  One
    request."""
    rule = find(kv, repository)
    return Retention() if rule is ABSENT else rule


def find(kv: Store, repository: Repository) -> Retention | Literal[Absent.ABSENT]:
    """The rule; ABSENT if none is set.  One request."""
    row = kv.get(space(repository), setting_key(_NAME))
    pairs = {} if row is ABSENT else wire.decode_pairs(row.value)
    if not pairs:
        return ABSENT
    branches = {
        BranchId(name[len(_BRANCH) :]): int(days)
        for name, days in pairs.items()
        if name.startswith(_BRANCH)
    }
    return Retention(int(pairs["default_days"]), int(pairs["unreachable_days"]), branches)


def put(kv: Store, repository: Repository, retention: Retention, ids: Ids) -> None:
    """Replace the whole rule atomically.  Two requests."""
    pairs = {
        "default_days": str(retention.default_days),
        "unreachable_days": str(retention.unreachable_days),
        **{_BRANCH + name: str(days) for name, days in retention.branches.items()},
    }
    _replace(kv, repository, pairs, ids)


def end(kv: Store, repository: Repository, ids: Ids) -> None:
    """Remove the rule.  The row stays, with an empty value and a new version, so a late duplicate
    of `put` fails.  Two requests."""
    _replace(kv, repository, {}, ids)


def _replace(kv: Store, repository: Repository, pairs: dict[str, str], ids: Ids) -> None:
    raw = wire.encode_pairs(pairs)
    replace_row(kv, (space(repository), setting_key(_NAME)), ids, lambda row, lost: raw)
