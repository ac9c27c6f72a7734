"""Random programs around garbage collection, and one run of one of them.  For tests only."""

from collections.abc import Sequence
from random import Random

from graveler import limits
from graveler.records import ABSENT
from simulator.gc.run import CollectRun
from simulator.gc.stage import PATHS, CollectStage
from simulator.gc.steps import drawn_cuts
from simulator.schedule import Actor, Breach, Call, Profile, SeededChoices, faithful

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
