"""Breaches of the rules of branch protection and of pull requests; see `mutants.py`."""

from tests.simulation.edits import Edit
from tests.simulation.mutants import COMMIT, OBJECTS, RESETTING, WRITING, Mutant

PROTECTION = "engine.protection"
PULL_ATTEMPTS, PULL_MERGE = "engine.pulls", "engine.pulls"
NO_NOTE = Edit(PULL_MERGE, "_merged", "_key_of(...)._replace(...)", "attempts.key_of(seen, since)")

GATE_MUTANTS = (
    Mutant(
        "G1a",
        "writes are staged without a look at the rules",
        ("guard", "clean"),
        (Edit(WRITING, "write_row", "protection.check_staging(...)", ""),),
    ),
    Mutant(
        "G1b",
        "conditional writes are staged without a look at the rules",
        ("guard", "clean"),
        (Edit(WRITING, "write_row_if", "protection.check_staging(...)", ""),),
    ),
    Mutant(
        "G1c",
        "a bulk deletion does not look at the rules",
        ("guard", "clean"),
        (Edit(OBJECTS, "delete_many", "todo and protection.is_protected(...)", "False"),),
    ),
    Mutant(
        "G1d",
        "commits do not look at the rules",
        ("guard", "clean"),
        (
            Edit(COMMIT, "commit", "protection.check_commit(...)", ""),
            Edit(COMMIT, "_run_tries", "_check_still_open(...)", ""),
        ),
    ),
    Mutant(
        "G1e",
        "a reset does not look at the rules",
        ("guard", "clean"),
        (
            Edit(RESETTING, "reset", "protection.check_staging(...)", ""),
            Edit(RESETTING, "reset", "_check_rule(...)", ""),
        ),
    ),
    Mutant(
        "G1f",
        "the rules are those of the record that the request began with",
        ("guard", "clean"),
        (Edit(PROTECTION, "is_protected", "_current(repo)", "repo.record"),),
    ),
    Mutant(
        "G3a",
        "a merge neither looks for what an earlier one landed nor notes its swap",
        ("pulls", "crash"),
        (
            Edit(PULL_MERGE, "_found_landed", "_look_for(...)", "()"),
            NO_NOTE,
        ),
    ),
    Mutant(
        "G3b",
        "a merge notes no swap, so that a hard reset hides what it landed",
        ("rollbacks", "crash"),
        (NO_NOTE,),
    ),
    Mutant(
        "G3c",
        "a merge notes its swap over the one of another merge",
        ("rollbacks", "all"),
        (
            Edit(
                PULL_ATTEMPTS,
                "_begin_attempt.store.noted",
                "not is_open or not is_known",
                "not is_open",
            ),
        ),
    ),
    Mutant(
        "G3d",
        "a slow merge lands beside one of the next opening, or after a merge that was reset away",
        ("rollbacks", "clean"),
        (
            Edit(
                PULL_ATTEMPTS,
                "_begin_attempt.store.noted",
                "not is_open or not is_known",
                "not is_known",
            ),
        ),
    ),
    Mutant(
        "G5a",
        "a slow merge ends the next opening of the request",
        ("pulls", "crash"),
        (
            Edit(
                PULL_MERGE,
                "_end.change",
                "record.state is PullState.MERGED or record.opening != seen.opening",
                "record.state is PullState.MERGED",
            ),
        ),
    ),
)
