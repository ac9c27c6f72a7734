"""Simulated runs of garbage collection beside everything that may begin to use a file.

Watched at every change: nothing that a branch, a tag or a staged row of a live branch uses is
deleted, and what they begin to use is there.  Afterwards, with everybody gone, collection goes on
until nothing moves: then what is stored is what is in use.  For tests only.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from graveler import limits, wire
from graveler.engine import retention
from graveler.engine.candidates import is_ours, used_name
from graveler.errors import Unavailable
from graveler.ids import BranchId, CommitId
from graveler.kv.store import Row
from graveler.records import ABSENT, TOMBSTONE, Absent, Commit
from graveler.refs.space import space
from graveler.testing.schedule import Actor, Call, Choices, World
from graveler.testing.sim_collect_objects import Keeper
from graveler.testing.sim_collect_stage import LIFE_SECONDS, RULE, CollectStage
from graveler.testing.sim_collect_verbs import VERBS
from graveler.testing.simulated import SimulatedClock
from graveler.testing.simulated_blocks import SharedObjects, Step, storage_ports


class CollectRun:
    """One run; `wrong` says what was found."""

    def __init__(
        self,
        stage: CollectStage,
        choices: Choices,
        cuts: Iterator[int] | Literal[Absent.ABSENT] = ABSENT,
    ) -> None:
        """`cuts`: the collector is a job, and its runs are cut off after so many requests."""
        self.stage = stage
        self.world = World(stage.rows, choices)
        self.world.jumped_ns = 4 * 24 * 3600 * limits.SECOND_NS
        self.shared = SharedObjects(self.world, stage.objects)
        self.wrong: list[str] = []
        self.deleted = 0
        self._cuts = cuts
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
        left = 0
        if call.verb == "collect":  # may stop and go on at any time
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
        self.deleted += is_ours(name)
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
