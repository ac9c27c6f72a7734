"""One simulated run: production verbs perform a program, and every change of a row is watched.

Checks during the run (I1, I4, I5, I11): every head has its commit record; the first parent of a new
head is the head before it; no client deletes rows of a token that a branch names; no hook vetoed
the head.  What callers saw is judged afterwards (invariants.py).
"""

from collections.abc import Sequence
from random import Random

from graveler.core import wire
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import ABSENT, TOMBSTONE, Branch, Commit, Versioned
from graveler.core.turns import FREE
from graveler.engine.ports import Ports
from graveler.kv.store import Row
from graveler.refs.keys import branch_key, space
from simulator.blocks import SharedObjects, SimulatedBlocks
from simulator.ports import (
    GROWING,
    SETTLED,
    VETOED,
    Deployment,
    VetoingHooks,
    client_ports,
    stepped_turns,
)
from simulator.schedule import Actor, Breach, Call, Choices, World, faithful, without_frames
from simulator.stage import BRANCHES, NO_BRANCH, Content, Stage, value_of
from simulator.verbs.calls import VERBS, Client
from simulator.verbs.landings import ELSEWHERE
from simulator.verbs.uploads import SOURCE_KEY

JANITOR, AFTERWARDS = 99, 98
NO_HEAD = CommitId("")
SLOW_STEP_NS = 60_000_000  # equal commits then rarely fall into one second


class BranchHistory:
    """The history of one branch: its heads, each with the step from which it was the head, and the
    tokens that the branch names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heads: list[tuple[int, CommitId]] = []
        self.tokens: frozenset[str] = frozenset()
        self.live = True
        self.sealed: tuple[str, ...] = ()

    def note(self, step: int, branch: Branch) -> None:
        self.live, self.sealed = branch.live, branch.sealed if branch.live else ()
        self.tokens = frozenset(branch.tokens_newest_first) if branch.live else frozenset()
        self.heads.append((step, branch.commit if branch.live else NO_HEAD))

    def gone(self, step: int) -> None:
        self.live, self.sealed, self.tokens = False, (), frozenset()
        self.heads.append((step, NO_HEAD))

    def installed(self, since: int) -> list[str]:
        """The heads to which the branch moved since a step."""
        pairs = zip(self.heads, self.heads[1:], strict=False)
        return [after for (_, before), (step, after) in pairs if after != before and step >= since]


class Run:
    """A world with clients; `wrong` lists the violations."""

    def __init__(
        self,
        stage: Stage,
        choices: Choices,
        options: Random | None = None,
        processes: int = 0,
        breach: Breach = faithful,
    ) -> None:
        """`options` draws what differs between runs beside the choices; without it, nothing
        differs.  `processes`: how many the clients share; 0: each has its own."""
        self.stage = stage
        self.world = World(stage.rows, choices, breach)
        self.world.processes = processes
        self._turns = [stepped_turns(self.world) for _ in range(processes)]
        self.wrong: list[str] = []
        self.leaked = 0
        draw = options.random if options is not None else lambda: 0.99
        sharding = draw()
        self.repo = stage.sharded if sharding < 0.1 else stage.repo
        settings = GROWING if 0.1 <= sharding < 0.2 else SETTLED
        if draw() < 0.3:
            self.world.step_ns = SLOW_STEP_NS
        self._skews = options is not None
        self._steps_back = False
        self._deployment = Deployment(
            stage.ports.ranges,
            stage.ports.blocks,
            stage.commits,
            draw() < 0.5,
            settings,
            self.repo,
        )
        self._draw = draw
        self._clients: dict[int, Client] = {}
        self._commits: dict[str, Commit] = {}
        self.records = space(stage.repo)
        self._watched = {branch_key(BranchId(name)): BranchHistory(name) for name in BRANCHES}
        for key, watched in self._watched.items():
            row = self.world.rows[self.records][key]
            branch = wire.decode_branch(row.value)
            watched.note(0, branch)
            self.world.past[BranchId(watched.name)] = [Versioned(branch, row.version)]
        self.world.watches.append(self._watch)

    # ---- performing ----

    def play(self, clients: Sequence[Sequence[Call]], *, sweeps: int = 0) -> None:
        """Run the clients, and beside them a janitor that sweeps `sweeps` times; then let all
        delayed writes arrive."""
        janitor = [Call(JANITOR, "sweep") for _ in range(sweeps)]
        verbs = {call.verb for calls in clients for call in calls}
        self._steps_back = "hard_back" in verbs
        if "protect" in verbs:  # no cache holds the record, so that a rule is in force at once
            self._deployment = self._deployment._replace(repository=ABSENT)
        if "commit_vetoed" in verbs:
            self.veto()
        if not verbs.isdisjoint(("upload_parts", "upload_many")):
            source = self.stage.start[SOURCE_KEY] or ""
            copied = {f"{self.stage.repo.namespace}/data/{source}": source.encode()}
            shared = SharedObjects(self.world, copied)
            blocks = SimulatedBlocks(shared, self.world.pause)
            self._deployment = self._deployment._replace(blocks=blocks)
        if "pull_merge" in verbs:
            self.propose()
            if "hard" in verbs:  # merges of one second are equal commits, and cannot be told apart
                self.world.step_ns = SLOW_STEP_NS
        self.world.play([*clients, janitor], self.perform)

    def veto(self) -> None:
        """Let hooks of the repository veto the commits of `commit_vetoed`."""
        self._deployment = self._deployment._replace(hooks=VetoingHooks())

    def propose(self) -> None:
        """Open the pull request of the stage."""
        for key, row in self.stage.pull_rows.items():
            self.world.put(self.records, key, row)

    def perform(self, actor: Actor, call: Call) -> object:
        return VERBS[call.verb](self.client(actor.client), call)

    def client(self, number: int) -> Client:
        found = self._clients.get(number)
        if found is None:
            skew = int(self._draw() * 80) - 40 if self._skews else 0
            is_drawn = self._turns and number < AFTERWARDS
            turns = self._turns[number % len(self._turns)] if is_drawn else FREE
            ports = client_ports(self.world, self._deployment, skew, turns)
            found = self._clients[number] = Client(ports, self.stage, self.repo)
        return found

    def ports(self) -> Ports:
        """The ports of a client that comes after the run."""
        return self.client(AFTERWARDS).ports

    def alone(self, call: Call) -> Call:
        """Perform a call with no other client and without faults."""
        call.start = self.world.step
        try:
            call.answer = VERBS[call.verb](self.client(AFTERWARDS), call)
        except Exception as error:
            call.error = without_frames(error)
        call.end = self.world.step
        return call

    # ---- looking ----

    def watched(self, branch: str) -> BranchHistory:
        return self._watched[branch_key(BranchId(branch))]

    def commit_record(self, commit: str) -> Commit | None:
        known = self.stage.commits.get(CommitId(commit)) or self._commits.get(commit)
        if known is None:
            row = self.world.rows[self.records].get(b"c/" + commit.encode())
            if row is None:
                return None
            known = self._commits[commit] = wire.decode_commit(row.value)
        return known

    def content_of(self, commit: str) -> Content:
        """The content of a commit, which must exist."""
        record = self.commit_record(commit)
        assert record is not None, f"no such commit: {commit}"
        return self.stage.content_of(record.metarange)

    def shown(self, branch: str) -> Content | str:
        """What a reader of the branch sees, computed from the rows without any verb."""
        row = self.world.rows[self.records].get(branch_key(BranchId(branch)))
        record = ABSENT if row is None else wire.decode_branch(row.value)
        if record is ABSENT or not record.live:
            return NO_BRANCH
        if self.commit_record(record.commit) is None:
            self.wrong.append(f"I1 the head of {branch} is not there: {record.commit}")
            return NO_BRANCH
        content = dict(self.content_of(record.commit))
        for token in (*record.sealed, record.staging):
            for shard in range(int(token.rpartition(".")[2])):
                for key, row in self.world.rows.get(
                    b"s/%b/%d" % (token.encode(), shard), {}
                ).items():
                    staged = wire.decode_staged(row.value, row.order, row.version).value
                    if staged is TOMBSTONE:
                        content.pop(key.decode(), None)
                    else:
                        content[key.decode()] = value_of(wire.decode_entry(staged))
        return content

    # ---- watching ----

    def _watch(self, partition: bytes, key: bytes, row: Row | None) -> None:
        if partition == self.records:
            watched = self._watched.get(key)
            if watched is not None and row is None:
                watched.gone(self.world.step)
            elif watched is not None and row is not None:
                self._changed(watched, wire.decode_branch(row.value))
        elif row is None and partition.startswith(b"s/"):
            token = partition[2:].rpartition(b"/")[0].decode()
            if any(token in watched.tokens for watched in self._watched.values()):
                self.wrong.append(f"I4 row of a named token deleted: {token=}")

    def _changed(self, watched: BranchHistory, new: Branch) -> None:
        before = watched.heads[-1][1]
        if new.live and before and new.commit != before and new.commit not in self.stage.commits:
            record = self.commit_record(new.commit)
            if record is None:
                self.wrong.append(f"I1 head without a commit record: {new.commit}")
            elif VETOED in record.message:
                self.wrong.append(f"I11 a vetoed commit became the head: {new.commit}")
            elif record.parents[:1] != (before,) and not self._was_chosen(watched, new.commit):
                self.wrong.append(f"I5 first parent of {new.commit} is not the head {before}")
        watched.note(self.world.step, new)

    def _was_chosen(self, watched: BranchHistory, commit: CommitId) -> bool:
        """Whether a reset may have put the branch on the commit: one made elsewhere, or one behind
        a head."""
        record = self.commit_record(commit)
        if record is not None and record.committer == ELSEWHERE:
            return True
        known = any(head == commit for _, head in watched.heads)
        return self._steps_back and (
            known or b"c/" + commit.encode() in self.stage.rows[self.records]
        )
