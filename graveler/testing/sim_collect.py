"""Simulated runs of garbage collection beside everything that may begin to use a file.

Watched at every change: nothing that a branch, a tag or a staged row of a live branch uses is
deleted, and what they begin to use is there.  Afterwards, with everybody gone, collection goes on
until nothing moves: then what is stored is what is in use.  For tests only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from graveler import limits, wire
from graveler.committed.apply import apply
from graveler.engine import branching, commit, objects, repository, retention
from graveler.engine.candidates import FILES, is_ours, used_name
from graveler.engine.collect import CollectSettings
from graveler.engine.ports import EngineSettings, Ports, keyspace
from graveler.errors import Unavailable
from graveler.ids import BranchId, CommitId, MetarangeId
from graveler.kv.store import Row
from graveler.records import TOMBSTONE, BreakParameters, Commit, Repository
from graveler.refs import commits
from graveler.refs.retention import Retention
from graveler.refs.space import space
from graveler.staging import stack
from graveler.testing.schedule import Actor, Call, Choices, Profile, Rows, SeededChoices, World
from graveler.testing.sim_collect_verbs import CAREFUL, VERBS, Keeper
from graveler.testing.simulated import Deployment, SimulatedClock, client_ports
from graveler.testing.simulated_blocks import (
    MortalStore,
    Objects,
    SharedObjects,
    SimulatedBlocks,
    SimulatedRanges,
    Step,
)
from graveler.testing.stage import RememberedRanges

PATHS = ("a", "b", "c", "d")
BRANCHES = ("main", "side", "new")
LIFE_SECONDS = limits.import_seconds_max
_GRACE_SECONDS = 2 * LIFE_SECONDS
_PACES = (1.0, 1.0, 0.1, 0.03, 0.01)
_START_NS = 1_700_000_000 * limits.SECOND_NS
# What is done while the first run condemns what has expired, and while a later one deletes it.
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
RULE = Retention(default_days=1, unreachable_days=1)


@dataclass
class CollectStage:
    """A repository with some past; `history` are commits, oldest first, `metaranges` theirs."""

    rows: Rows
    objects: Objects
    files: RememberedRanges
    repo: Repository
    history: tuple[str, ...]
    metaranges: tuple[str, ...]
    uses: dict[str, frozenset[str]] = field(default_factory=dict)

    def content_of(self, metarange: str) -> frozenset[str]:
        """What a metarange uses: itself, ranges, objects."""
        known = self.uses.get(metarange)
        if known is None:
            names: set[str] = set()
            if metarange:
                found = self.files.read_metarange(self.repo.namespace, MetarangeId(metarange))
                names.add(FILES + metarange)
                for ref in found.ranges:
                    names.add(FILES + ref.id)
                    for chunk in self.files.open_range(self.repo.namespace, ref.id).chunks():
                        for _, value in chunk.records():
                            names.add(used_name(self.repo, wire.decode_entry(value)))
            known = self.uses[metarange] = frozenset(names)
        return known


def build_collect_stage() -> CollectStage:
    """One branch with four commits, one with one more, one commit that nothing leads to."""
    files = RememberedRanges()
    world = World({}, SeededChoices(Random(0), Profile()))
    shared = SharedObjects(world, {})
    ports = _ports_of(world, shared, files, lambda: None)
    breaks = BreakParameters(raggedness=2, salt=b"collect")
    new = repository.NewRepository("lake", "mem://b/lake", breaks=breaks)
    repo = repository.create(ports, new)
    retention.set_rule(ports, repo, RULE)
    made: list[tuple[str, str]] = []

    def save(branch: str, *paths: str) -> None:
        for path in paths:
            body = f"{path} {len(made)}".encode()
            objects.upload(ports, repo, branch, path, objects.Upload([body]))
        done = commit.commit(ports, repo, branch, commit.CommitRequest("past", "sim"))
        made.append((done.id, done.commit.metarange))

    save("main", *PATHS)
    branching.create_branch(ports, repo, "side", "main")
    save("main", "a")
    save("main", "b")
    save("side", "c")
    branching.create_branch(ports, repo, "lost", "side")
    save("lost", "d", "a")
    branching.delete_branch(ports, repo, "lost")
    save("main", "b", "c")
    for branch, path in (("main", "d"), ("side", "a")):
        objects.upload(ports, repo, branch, path, objects.Upload([b"staged"]))
        made.append(_died(ports, repo, branch))
    return CollectStage(
        rows={partition: keys.copy() for partition, keys in world.rows.items()},
        objects=dict(shared.held),
        files=files,
        repo=repo,
        history=tuple(id for id, _ in made),
        metaranges=tuple(metarange for _, metarange in made),
    )


def _died(ports: Ports, repo: Repository, branch: str) -> tuple[str, str]:
    """A committer that ended before it had a commit: its files are what the next one will write."""
    seen = branching.get_branch(ports, repo, branch).branch
    head = commits.get(ports.kv, repo, seen.commit)
    changes = stack.delta(ports.kv, seen.staging)
    return seen.commit, apply(keyspace(ports, repo), head.metarange, changes).metarange_id


def _ports_of(world: World, shared: SharedObjects, files: RememberedRanges, step: Step) -> Ports:
    blocks = SimulatedBlocks(shared, step)
    ranges = SimulatedRanges(files, blocks)
    ports = client_ports(world, Deployment(ranges, blocks, {}))
    store = MortalStore(world, step)
    settings = EngineSettings(bytes(32), _GRACE_SECONDS, LIFE_SECONDS)
    return replace(ports, kv=store, settings=settings)


class CollectRun:
    """One run; `wrong` says what was found."""

    def __init__(
        self, stage: CollectStage, choices: Choices, settings: CollectSettings = CAREFUL
    ) -> None:
        self.stage = stage
        self.settings = settings
        self.world = World(stage.rows, choices)
        self.world.jumped_ns = 4 * 24 * 3600 * limits.SECOND_NS
        self.shared = SharedObjects(self.world, stage.objects)
        self.wrong: list[str] = []
        self.deleted = 0
        self._records = space(stage.repo)
        self.world.watches.append(self._on_row)
        self.shared.watches.append(self._on_deletion)

    # ---- performing ----

    def play(self, clients: Sequence[Sequence[Call]]) -> None:
        """Everybody at once."""
        self.world.play(clients, self._perform)

    def alone(self, *verbs: str) -> None:
        """Somebody who comes afterwards."""
        for verb in verbs:
            VERBS[verb](self._keeper(self.world.pause), Call(98, verb))

    def settle(self) -> None:
        """Collect until nothing moves any more; say what is left that nobody uses, or was lost."""
        for _ in range(6):
            self.alone("leap", "leap", "leap", "sweep", "sweep", "collect")
        used = self.used()
        stored = self.stored()
        self.wrong += [f"lost in the end: {name}" for name in sorted(used - stored)]
        kept = self.kept()
        self.wrong += [f"content of a kept commit lost: {name}" for name in sorted(kept - stored)]
        self.wrong += [f"left over: {name}" for name in sorted(stored - used - kept)]

    def _perform(self, actor: Actor, call: Call) -> object:
        begun, life = self._seconds(), LIFE_SECONDS
        if call.verb == "collect":  # may stop and go on at any time
            life = 1 << 60

        def step() -> None:
            self.world.pause()
            if self._seconds() - begun > life:
                raise Unavailable("the operation was stopped")

        return VERBS[call.verb](self._keeper(step), call)

    def _keeper(self, step: Step) -> Keeper:
        ports = _ports_of(self.world, self.shared, self.stage.files, step)
        return Keeper(ports, self.stage.repo, self.world, self.settings)

    def _seconds(self) -> float:
        return SimulatedClock(self.world, 0).steady_seconds()

    # ---- watching ----

    def _on_row(self, partition: bytes, key: bytes, row: Row | None) -> None:
        if partition != self._records or row is None:
            return
        commit_id = ""
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
        self.deleted += 1
        if name in self.used():
            self.wrong.append(f"deleted in use: {name}")

    def _name(self, where: str) -> str:
        return where.removeprefix(f"{self.stage.repo.namespace}/")

    def stored(self) -> set[str]:
        return {name for name in map(self._name, self.shared.held) if is_ours(name)}

    def used(self) -> set[str]:
        """What refs and staged rows of live branches use, worked out without any of the verbs."""
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
        return self.stage.content_of(wire.decode_commit(row.value).metarange)

    def kept(self) -> set[str]:
        """What commits use that the rule keeps."""
        history: dict[CommitId, Commit] = {}
        heads: list[tuple[BranchId, CommitId]] = []
        tagged: list[CommitId] = []
        for key, row in self.world.rows[self._records].items():
            name = key[2:].decode()
            if key.startswith(b"c/"):
                history[CommitId(name)] = wire.decode_commit(row.value)
            elif key.startswith(b"t/"):
                tagged.append(wire.decode_tag(row.value).commit)
            elif key.startswith(b"b/") and (branch := wire.decode_branch(row.value)).live:
                heads.append((BranchId(name), branch.commit))
        now_ns = SimulatedClock(self.world, 0).now_ns()
        found = retention.kept(RULE, history, retention.Heads((*heads,), (*tagged,)), now_ns)
        return {name for id in found for name in self.stage.content_of(history[id].metarange)}


class PacedChoices(SeededChoices):
    """Some clients are a hundred times slower than others, so that what they do spans whole runs
    of the collector."""

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
    """Two to four clients, a collector, and time."""
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


def check_collect_seed(stage: CollectStage, profile: str, seed: int) -> CollectRun:
    """One run to its end."""
    random = Random(f"collect {profile} {seed}")
    run = CollectRun(stage, PacedChoices(random, PROFILES[profile]))
    is_first = random.random() < 0.5
    clients = program(stage, random, is_first=is_first)
    if not is_first:  # a run has condemned what is old, and may go on any time
        run.alone("sweep", "leap", "leap", "leap", "sweep", "collect")
        run.alone(*["leap"] * random.randint(2, 3))
    run.play(clients)
    if not run.wrong:
        lost = run.kept() - run.stored()
        run.wrong += [f"content of a kept commit lost: {name}" for name in sorted(lost)]
        run.settle()
    return run
