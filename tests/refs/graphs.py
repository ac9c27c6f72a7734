"""Commit graphs as tables, with the answers worked out by brute force.

A graph is written as parents by number; ids are hashes of the numbers, so that their order has
nothing to do with the order of creation.  Ancestors are kept as sets of bits.
"""

import random
from collections.abc import Sequence
from hashlib import sha256

from graveler.core.errors import NotFound
from graveler.core.ids import CommitId
from graveler.core.records import Commit
from graveler.refs import graph


def id_of(number: int) -> CommitId:
    return CommitId(sha256(b"%d" % number).hexdigest())


class Table:
    """Commits by number and by id.  `lookup` counts the distinct and all of its calls."""

    def __init__(self) -> None:
        self.commits: dict[CommitId, Commit] = {}
        self.numbers: dict[CommitId, int] = {}
        self.parents: list[tuple[int, ...]] = []
        self.calls = 0

    def lookup(self, id: CommitId) -> Commit:
        self.calls += 1
        try:
            return self.commits[id]
        except KeyError:
            raise NotFound("commit not found") from None

    def add(self, *parents: int, created_ns: int = 0) -> int:
        number = len(self.parents)
        drawn = Commit("c", "m", created_ns, parents=tuple(id_of(parent) for parent in parents))
        id = id_of(number)
        self.commits[id] = graph.positioned(self.lookup, drawn)
        self.numbers[id] = number
        self.parents.append(parents)
        return number

    def add_line(self, count: int, *parents: int) -> int:
        """`count` commits in a row; the number of the last."""
        number = self.add(*parents)
        for _ in range(count - 1):
            number = self.add(number)
        return number

    def commit(self, number: int) -> Commit:
        return self.commits[id_of(number)]


def table(parents: Sequence[Sequence[int]]) -> Table:
    made = Table()
    for each in parents:
        made.add(*each)
    return made


def ancestors(parents: Sequence[Sequence[int]]) -> list[int]:
    """For each commit the set of its ancestors and itself, as bits."""
    sets: list[int] = []
    for number, mine in enumerate(parents):
        bits = 1 << number
        for parent in mine:
            bits |= sets[parent]
        sets.append(bits)
    return sets


def best_common(sets: Sequence[int], left: int, right: int) -> set[int]:
    """git's best common ancestors: common, and no ancestor of another common one."""
    common = sets[left] & sets[right]
    found = {number for number in range(common.bit_length()) if common >> number & 1}
    return {one for one in found if not any(two != one and sets[two] >> one & 1 for two in found)}


def random_parents(chance: random.Random) -> list[tuple[int, ...]]:
    """Lines, forks, merges, criss-crosses, octopuses and several roots, in random proportions."""
    size = chance.randint(2, 45)
    merge, fork, root = chance.random() * 0.5, chance.random(), chance.random() * 0.08
    criss_cross = chance.random() * 0.2
    parents: list[tuple[int, ...]] = [()]
    while len(parents) < size:
        count = len(parents)
        draw = chance.random()
        if draw < root:
            parents.append(())
        elif draw < root + merge and count > 1:
            many = 3 if chance.random() < 0.1 and count > 2 else 2
            parents.append(tuple(chance.sample(range(count), many)))
        elif draw < root + merge + criss_cross:
            # Two sides that leave `base` and merge one another's first commit, then go on.
            base = chance.randrange(count)
            parents += [(base,), (base,), (count, count + 1), (count + 1, count)]
        elif chance.random() < fork:
            base = chance.randrange(count)
            parents.append((base,))
        else:
            length = chance.randint(1, 8)
            parents += [(count - 1 + step,) for step in range(length)]
    return parents
