"""Breaches of the rules of arriving objects and their batches; see `mutants.py`."""

from tests.simulation.mutants import COMMIT, Mutant
from tests.simulation.patching import Edit

ARRIVING, BATCHING, INTAKE = "engine.events.take_in", "engine.events.batches", "events.intake"

_IS_VOUCHED = "    if has_counted:\n"
_STAGE = "    try:\n        return area.stage_if(\n"
_TAKE_IN = "    taken = arriving.take_in(ports, repo, rule, list(told.values())) if told else ()\n"

ARRIVAL_MUTANTS = (
    Mutant(
        "E1a",
        "an event that was seen before is dropped, whether it counted or not",
        ("arrivals", "crash"),
        (Edit(ARRIVING, _IS_VOUCHED, "    if True:\n"),),
    ),
    Mutant(
        "E1b",
        "an event that was seen before is staged again, whether it counted or not",
        ("arrivals", "clean"),
        (Edit(ARRIVING, _IS_VOUCHED, "    if False:\n"),),
    ),
    Mutant(
        "E1c",
        "an older event is staged over a newer one",
        ("arrivals", "clean"),
        (
            Edit(
                ARRIVING,
                "    if arrival.is_newer_than(event.sequencer):\n        return",
                "    if False:\n        return",
            ),
        ),
    ),
    Mutant(
        "E2a",
        "record and row are written in two steps",
        ("arrivals", "all"),
        (
            Edit(
                ARRIVING,
                _STAGE,
                "    try:\n"
                "        if ports.kv.set_if(*write, condition) is not WRITTEN:\n"
                "            return False\n"
                "        return area.stage_if(\n",
            ),
            Edit(ARRIVING, "            other=area.Beside(condition, write),\n", ""),
        ),
    ),
    Mutant(
        "E3a",
        "the branch is not read again after the rows were written",
        ("arrivals", "clean"),
        (
            Edit(
                ARRIVING,
                "        counts = now.branch.staging == round_.seen.branch.staging\n",
                "        counts = True\n",
            ),
        ),
    ),
    Mutant(
        "E3b",
        "a call vouches before it saw that its rows count",
        ("arrivals", "crash"),
        (
            Edit(
                ARRIVING,
                "        now = fresh(ports, repo, rule.branch)\n",
                "        arrivals.vouch(ports.kv, repo, rule.id, call, 0)\n"
                "        now = fresh(ports, repo, rule.branch)\n",
            ),
        ),
    ),
    Mutant(
        "E3c",
        "a call that finds the row of another one in the open token does not answer for it",
        ("arrivals", "all"),
        (
            Edit(
                ARRIVING,
                "_Verdict(Taken.KNOWN, open=True, ours=True) if joined else _AGAIN\n",
                "_Verdict(Taken.KNOWN)\n",
            ),
            Edit(
                ARRIVING,
                "        joined = _record(round_, event, look.stored)\n",
                "        joined = True\n",
            ),
        ),
    ),
    Mutant(
        "B1a",
        "whether the batch was committed is asked of the first head only",
        ("arrivals", "clean"),
        (
            Edit(
                COMMIT,
                "            made = made_once(ports, repo, attempt.request.once, base)\n",
                "            made: CommitEntry | Literal[Absent.ABSENT] = ABSENT\n",
            ),
        ),
    ),
    Mutant(
        "B1b",
        "a commit does not say of which batch it is",
        ("arrivals", "clean"),
        (
            Edit(
                BATCHING,
                "        once=Once(BATCH_KEY, closing.batch, closing.since),\n",
                "",
            ),
        ),
    ),
    Mutant(
        "B2",
        "a batch is noted before its objects are staged",
        ("arrivals", "clean"),
        (
            Edit(
                INTAKE,
                _TAKE_IN,
                "    early = Delivery(len(told), any(map(rule.marks, told)))\n"
                "    noted = batches.note(ports, repo, rule, early)\n" + _TAKE_IN,
            ),
            Edit(INTAKE, "batches.note(ports, repo, rule, delivery)\n", "noted\n"),
        ),
    ),
    Mutant(
        "B3",
        "a batch is forgotten before it is committed",
        ("arrivals", "crash"),
        (
            Edit(
                BATCHING,
                "    made: CommitId | Literal[Absent.ABSENT] = ABSENT\n    try:\n",
                "    made: CommitId | Literal[Absent.ABSENT] = ABSENT\n"
                "    _forget(ports, repo, rule, batch)\n    try:\n",
            ),
        ),
    ),
    Mutant(
        "B4",
        "a delivery whose events are all known is not noted",
        ("arrivals", "crash"),
        (
            Edit(
                INTAKE,
                "if became is not Taken.OLD]\n",
                "if became is Taken.STAGED]\n",
            ),
        ),
    ),
)
