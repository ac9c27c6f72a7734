"""Breaches of the rules of arriving objects and their batches; see `mutants.py`."""

from tests.simulation.edits import Edit
from tests.simulation.mutants import COMMIT, Mutant

ARRIVING, BATCHING, INTAKE = "engine.events.take_in", "engine.events.batches", "events.intake"

ARRIVAL_MUTANTS = (
    Mutant(
        "E1a",
        "an event that was seen before is dropped, whether it counted or not",
        ("arrivals", "crash"),
        (
            Edit(
                ARRIVING,
                "_step",
                """
                if has_counted:
                    __body__
                """,
                """
                if True:
                    __body__
                """,
            ),
        ),
    ),
    Mutant(
        "E1b",
        "an event that was seen before is staged again, whether it counted or not",
        ("arrivals", "clean"),
        (
            Edit(
                ARRIVING,
                "_step",
                """
                if has_counted:
                    __body__
                """,
                """
                if False:
                    __body__
                """,
            ),
        ),
    ),
    Mutant(
        "E1c",
        "an older event is staged over a newer one",
        ("arrivals", "clean"),
        (Edit(ARRIVING, "_step", "__arrival__.is_newer_than(...)", "False"),),
    ),
    Mutant(
        "E2a",
        "record and row are written in two steps",
        ("arrivals", "all"),
        (
            Edit(
                ARRIVING,
                "_put",
                "return area.stage_if(*__row__, other=...)",
                """
                if repo.kv.set_if(*write, condition) is not WRITTEN:
                    return False
                return area.stage_if(*__row__)
                """,
            ),
        ),
    ),
    Mutant(
        "E3a",
        "the branch is not read again after the rows were written",
        ("arrivals", "clean"),
        (Edit(ARRIVING, "take_in", "__now__.branch.staging == ...", "True"),),
    ),
    Mutant(
        "E3b",
        "a call vouches before it saw that its rows count",
        ("arrivals", "crash"),
        (
            Edit(
                ARRIVING,
                "take_in",
                "__now__ = fresh(...)",
                """
                arrivals.vouch(repo.kv, repo.record, rule.id, call, 0)
                __old__
                """,
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
                "_step",
                "_Verdict(IntakeResult.KNOWN, open=True, ours=True)",
                "_Verdict(IntakeResult.KNOWN)",
            ),
            Edit(ARRIVING, "_step", "_record(...)", "True"),
        ),
    ),
    Mutant(
        "B1a",
        "whether the batch was committed is asked of the first head only",
        ("arrivals", "clean"),
        (Edit(COMMIT, "_run_tries", "find_by_key(...)", "ABSENT"),),
    ),
    Mutant(
        "B1b",
        "a commit does not say of which batch it is",
        ("arrivals", "clean"),
        (
            Edit(
                BATCHING,
                "_request",
                "CommitRequest(*__columns__, once=...)",
                "CommitRequest(*__columns__)",
            ),
        ),
    ),
    Mutant(
        "B2",
        "a batch is noted before its objects are staged",
        ("arrivals", "clean"),
        (
            Edit(INTAKE, "_stage", "batches.note(...)", "noted"),
            Edit(
                INTAKE,
                "_stage",
                "__taken__ = arrivals.take_in(...) if ... else ()",
                """
                early = Delivery(len(objects), any(map(rule.marks, objects)))
                noted = batches.note(repo, rule, early)
                __old__
                """,
            ),
        ),
    ),
    Mutant(
        "B3",
        "a batch is forgotten before it is committed",
        ("arrivals", "crash"),
        (
            Edit(
                BATCHING,
                "commit_batch",
                "__made__: ... = ABSENT",
                """
                __old__
                _forget(repo, rule, batch)
                """,
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
                "_stage",
                "__became__ is not IntakeResult.OLD",
                "__became__ is IntakeResult.STAGED",
            ),
        ),
    ),
)
