"""Simulated runs of garbage collection beside all verbs that may begin to use a file.

Checks at every change:

- no file is deleted that a branch, a tag or a staged row of a live branch uses;
- no metarange or range is deleted of a commit that a ref leads to;
- nothing is deleted too early that a ref has led to until recently;
- files that they begin to use exist.

Afterwards, without clients, collection runs until nothing changes.  Then the stored files are the
files in use.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Literal

from graveler.block.address import FILES, is_ours
from graveler.core import limits, wire
from graveler.core.errors import Unavailable
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import ABSENT, TOMBSTONE, Absent, Commit
from graveler.engine.gc import retention
from graveler.engine.gc.listing import used_name
from graveler.kv.store import Row
from graveler.refs.keys import space
from simulator.blocks import SharedObjects, Step, storage_ports
from simulator.gc.stage import LIFE_SECONDS, PATHS, RULE, CollectStage
from simulator.gc.verbs import VERBS, Keeper, drawn_cuts
from simulator.ports import SimulatedClock
from simulator.schedule import Actor, Breach, Call, Choices, Profile, SeededChoices, World, faithful


class CollectRun:
    """One run; `wrong` lists the violations."""

    def __init__(
        self,
        stage: CollectStage,
        choices: Choices,
        cuts: Iterator[int] | Literal[Absent.ABSENT] = ABSENT,
        breach: Breach = faithful,
    ) -> None:
        """`cuts`: the collector is a job, and each of its attempts is cut off after this many
        requests."""
        self.stage = stage
        self.world = World(stage.rows, choices, breach)
        self.shared = SharedObjects(self.world, stage.objects)
        self.world.jumped_ns = 4 * 24 * 3600 * limits.SECOND_NS
        self.wrong: list[str] = []
        self.deleted = 0
        self._cuts = cuts
        self._records = space(stage.repo)
        self._led_to = self.led_to()
        self._refs = self._refs_now()
        # When the last ref to a commit was removed, and the refs before that.
        self._left: dict[str, tuple[int, retention.Heads]] = {}
        self.world.watches.append(self._on_row)
        self.shared.watches.append(self._on_deletion)

    # ---- performing ----

    def play(self, clients: Sequence[Sequence[Call]]) -> None:
        """Run all clients together."""
        self.world.play(clients, self._perform)

    def alone(self, *verbs: str) -> None:
        """Run verbs as a client that comes after the others."""
        for verb in verbs:
            VERBS[verb](self._keeper(self.world.pause), Call(98, verb))

    def settle(self) -> None:
        """Collect until nothing changes; report files that are left without use, or lost."""
        for _ in range(8):
            self.alone("leap", "leap", "leap", "sweep", "sweep", "collect")
        used = self.used() | self.tables(self.led_to())
        stored = self.stored()
        self.wrong += [f"lost in the end: {name}" for name in sorted(used - stored)]
        kept = self.kept()
        self.wrong += [f"content of a kept commit lost: {name}" for name in sorted(kept - stored)]
        self.wrong += [f"left over: {name}" for name in sorted(stored - used - kept)]

    def _perform(self, actor: Actor, call: Call) -> object:
        begun, life = self._seconds(), LIFE_SECONDS
        left = 0
        if call.verb == "collect":  # may stop and continue at any time
            life = 1 << 60
            left = 0 if self._cuts is ABSENT else next(self._cuts)

        def step() -> None:
            nonlocal left
            self.world.pause()
            left -= 1
            if self._seconds() - begun > life or left == 0:
                raise Unavailable("the operation was stopped")

        return VERBS[call.verb](self._keeper(step), call)

    def _keeper(self, step: Step) -> Keeper:
        ports = storage_ports(self.world, self.shared, self.stage.files, step, LIFE_SECONDS)
        by_steps = self._cuts is not ABSENT
        return Keeper(ports, self.stage.repo, self.world, by_steps=by_steps)

    def _seconds(self) -> float:
        return SimulatedClock(self.world, 0).steady_seconds()

    # ---- watching ----

    def _on_row(self, partition: bytes, key: bytes, row: Row | None) -> None:
        if partition != self._records or key[:2] not in (b"b/", b"t/"):
            return
        now = self.led_to()
        now_ns = SimulatedClock(self.world, 0).now_ns()
        self._left.update(dict.fromkeys(self._led_to - now, (now_ns, self._refs)))
        self._led_to, self._refs = now, self._refs_now()
        commit_id = ""
        if row is None:  # a deleted branch, whose record moves, or what the janitor removes
            return
        if key.startswith(b"b/"):
            branch = wire.decode_branch(row.value)
            commit_id = branch.commit if branch.live else ""
        elif key.startswith(b"t/"):
            commit_id = wire.decode_tag(row.value).commit
        if commit_id:
            lost = self._content(commit_id) - self.stored()
            self.wrong += [f"{key.decode()} put on what is not there: {name}" for name in lost]

    def _on_deletion(self, where: str) -> None:
        name = self._name(where)
        self.deleted += is_ours(name)
        if name in self.used() | self.tables(self.led_to()):
            self.wrong.append(f"deleted in use: {name}")
        if name in self._lately_used():
            self.wrong.append(f"deleted too early: {name}")

    def _lately_used(self) -> set[str]:
        """The files of commits to which no ref has led for less than `unreachable_days` of the
        rule.  Only the tables count of a commit that was condemned before its last ref left, or
        that would have expired by now if the ref had stayed: its successor is old enough."""
        days_ns = RULE.unreachable_days * 24 * 3600 * limits.SECOND_NS
        now_ns = SimulatedClock(self.world, 0).now_ns()
        used: set[str] = set()
        kept = cache(lambda refs: self._kept_by(refs, now_ns))
        for id, (left_ns, refs) in self._left.items():
            if id in self._led_to or left_ns <= now_ns - days_ns:
                continue
            row = self.world.rows[self._records].get(b"g/" + id.encode())
            mark = {} if row is None else wire.decode_pairs(row.value)
            had_expired = int(mark.get("since_ns", left_ns + 1)) <= left_ns
            is_over = had_expired or id not in kept(refs)
            used |= self.tables({id}) if is_over else self._content(id)
        return used

    def _name(self, where: str) -> str:
        return where.removeprefix(f"{self.stage.repo.namespace}/")

    def stored(self) -> set[str]:
        below = self.shared.names(self.stage.repo.namespace)
        return {name for name in map(self._name, below) if is_ours(name)}

    def led_to(self) -> set[str]:
        """The commits to which branches and tags lead."""
        rows = self.world.rows[self._records]
        todo: list[str] = []
        for key, row in rows.items():
            if key.startswith(b"t/"):
                todo.append(wire.decode_tag(row.value).commit)
            elif key.startswith(b"b/") and (branch := wire.decode_branch(row.value)).live:
                todo.append(branch.commit)
        found: set[str] = set()
        while todo:
            id = todo.pop()
            if id not in found:
                found.add(id)
                todo += self.stage.commit(id, rows[b"c/" + id.encode()].value).parents
        return found

    def tables(self, commits: set[str]) -> set[str]:
        """The metaranges and ranges of commits."""
        return {name for id in commits for name in self._content(id) if name.startswith(FILES)}

    def unreached(self) -> dict[CommitId, int]:
        """The commits that runs know as unreachable, with the time since when."""
        return {
            CommitId(key[2:].decode()): int(wire.decode_pairs(row.value)["since_ns"])
            for key, row in self.world.rows[self._records].items()
            if key.startswith(b"u/")
        }

    def used(self) -> set[str]:
        """What refs and staged rows of live branches use, computed without any verb."""
        used: set[str] = set()
        for key, row in self.world.rows[self._records].items():
            if key.startswith(b"t/"):
                used |= self._content(wire.decode_tag(row.value).commit)
            if key.startswith(b"b/"):
                branch = wire.decode_branch(row.value)
                if branch.live:
                    used |= self._content(branch.commit)
                    for token in branch.tokens_newest_first:
                        used |= self._staged(token)
        return used

    def _staged(self, token: str) -> set[str]:
        used: set[str] = set()
        for row in self.world.rows.get(b"s/%b/0" % token.encode(), {}).values():
            value = wire.decode_staged(row.value, row.order, row.version).value
            if value is not TOMBSTONE:
                used.add(used_name(self.stage.repo, wire.decode_entry(value)))
        return used

    def _content(self, commit_id: str) -> frozenset[str]:
        row = self.world.rows[self._records][b"c/" + commit_id.encode()]
        return self.stage.content_of(self.stage.commit(commit_id, row.value).metarange)

    def kept(self) -> set[str]:
        """The files of commits that the rule keeps.  A commit that lost its objects while a ref led
        to it does not get them back when no ref does."""
        rows = self.world.rows[self._records]
        over = {
            CommitId(key[2:].decode())
            for key, row in rows.items()
            if key.startswith(b"g/") and wire.decode_pairs(row.value).get("spent")
        }
        now_ns = SimulatedClock(self.world, 0).now_ns()
        found = self._kept_by(self._refs_now(), now_ns) - over
        return {name for id in found for name in self._content(id)}

    def _kept_by(self, refs: retention.Heads, now_ns: int) -> frozenset[CommitId]:
        """The commits that the rule keeps for these branches and tags."""
        history: dict[CommitId, Commit] = {
            CommitId(name := key[2:].decode()): self.stage.commit(name, row.value)
            for key, row in self.world.rows[self._records].items()
            if key.startswith(b"c/")
        }
        return frozenset(retention.kept(RULE, history, refs, self.unreached(), now_ns).commits)

    def _refs_now(self) -> retention.Heads:
        heads: list[tuple[BranchId, CommitId]] = []
        tagged: list[CommitId] = []
        for key, row in self.world.rows[self._records].items():
            if key.startswith(b"t/"):
                tagged.append(wire.decode_tag(row.value).commit)
            elif key.startswith(b"b/") and (branch := wire.decode_branch(row.value)).live:
                heads.append((BranchId(key[2:].decode()), branch.commit))
        return retention.Heads((*heads,), (*tagged,))


BRANCHES = ("main", "side", "new")
_PACES = (1.0, 1.0, 0.1, 0.03, 0.01)
_START_NS = 1_700_000_000 * limits.SECOND_NS
# The verbs during the first run, which condemns expired content, and during a later run, which
# deletes it.
_OLD = {
    "create": 4, "hard": 2, "merge": 3, "revert": 3, "pick": 3, "tag": 2, "commit_metarange": 3,
    "drop": 2, "upload": 2, "commit": 3, "describe": 1, "copy": 1, "reset": 1,
}  # fmt: skip
_NEW = {
    "upload": 4, "full": 1, "link": 1, "describe": 2, "copy": 1, "delete": 1, "commit": 8,
    "merge": 2, "revert": 1, "create": 2, "drop": 2, "reset_path": 1, "hard": 1, "tag": 1,
}  # fmt: skip
PROFILES = {
    "clean": Profile("clean"),
    "kill": Profile("kill", kill=0.006, zombie=0.006),
    "faults": Profile("faults", write_fault=0.03, delayed=0.02),
    "all": Profile("all", kill=0.004, zombie=0.004, write_fault=0.02, delayed=0.02),
}


class PacedChoices(SeededChoices):
    """Some clients are a hundred times slower than others, so their operations span whole runs of
    the collector."""

    def __init__(self, random: Random, profile: Profile) -> None:
        super().__init__(random, profile)
        self._paces: dict[int, float] = {}

    def actor(self, alive: Sequence[Actor], current: Actor | None) -> Actor:
        if len(alive) == 1:
            return alive[0]
        weights = []
        for each in alive:
            pace = self._paces.get(each.client)
            if pace is None:
                pace = self._paces[each.client] = self._random.choice(_PACES)
            weights.append(pace)
        return self._random.choices(alive, weights)[0]


# ---- programs ------------------------------------------------------------------------------------


def program(stage: CollectStage, choose: Random, *, is_first: bool) -> list[list[Call]]:
    """Two to four clients, a collector, and leaps of time."""
    weights = _OLD if is_first else _NEW
    clients = []
    for client in range(choose.randint(2, 4)):
        drawn = choose.choices(list(weights), list(weights.values()), k=choose.randint(1, 3))
        clients.append([_call(stage, choose, client, verb) for verb in drawn])
    if is_first and choose.random() < 0.5:
        turns = ["collect", "leap", "leap", "leap"] * 2 + ["collect"]
        clients.append([Call(90, verb) for verb in turns])
        return clients
    collects = ["collect"] * choose.randint(2, 4) if is_first else ["collect", "sweep"] * 2
    clients.append([Call(90, verb) for verb in collects])
    leaps = choose.choice((0, 4, 8)) if is_first else choose.choice((0, 0, 3))
    clients.append([Call(91, "leap") for _ in range(leaps)])
    return clients


def _call(stage: CollectStage, choose: Random, client: int, verb: str) -> Call:
    at = choose.randrange(len(stage.history))
    ref = stage.history[at] if choose.random() < 0.6 else choose.choice((*BRANCHES, "main~1"))
    dated = choose.choice((0, 0, _START_NS))
    arguments = (choose.choice(PATHS), ref, dated, stage.metaranges[at])
    branch = choose.choice(BRANCHES[1:] if verb in ("create", "drop") else BRANCHES[:2])
    return Call(client, verb, arguments, branch)


def check_collect_seed(
    stage: CollectStage, profile: str, seed: int, breach: Breach = faithful
) -> CollectRun:
    """Run one seed to its end.  For half of the seeds the collector is a job whose attempts are cut
    off."""
    random = Random(f"collect {profile} {seed}")
    cuts = drawn_cuts(Random(f"cuts {profile} {seed}")) if seed // 4 % 2 else ABSENT
    run = CollectRun(stage, PacedChoices(random, PROFILES[profile]), cuts, breach)
    is_first = random.random() < 0.5
    clients = program(stage, random, is_first=is_first)
    if not is_first:  # a run has condemned old content, and may continue at any time
        run.alone("sweep", "leap", "leap", "leap", "sweep", "collect")
        run.alone(*["leap"] * random.randint(2, 3))
    run.play(clients)
    if not run.wrong:
        lost = run.kept() - run.stored()
        run.wrong += [f"content of a kept commit lost: {name}" for name in sorted(lost)]
        run.settle()
    return run
