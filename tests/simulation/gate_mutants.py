"""Breaches of the rules of branch protection and of pull requests; see `mutants.py`."""

from tests.simulation.edits import Edit
from tests.simulation.mutants import COMMIT, OBJECTS, RESETTING, WRITING, Mutant

PROTECTION, PULL_MERGE = "engine.protection", "engine.pulls.merge"

GATE_MUTANTS = (
    Mutant(
        "G1a",
        "writes are staged without a look at the rules",
        ("guard", "clean"),
        (Edit(WRITING, "write", "protection.check_staging(...)", ""),),
    ),
    Mutant(
        "G1b",
        "conditional writes are staged without a look at the rules",
        ("guard", "clean"),
        (Edit(WRITING, "write_if", "protection.check_staging(...)", ""),),
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
        (Edit(RESETTING, "reset", "protection.check_staging(...)", ""),),
    ),
    Mutant(
        "G1f",
        "the rules are those of the record that the request began with",
        ("guard", "clean"),
        (Edit(PROTECTION, "is_protected", "_current(repo)", "repo.record"),),
    ),
    Mutant(
        "G3a",
        "the commit of an attempt that died is not looked for",
        ("pulls", "crash"),
        (Edit(PULL_MERGE, "find_landed", "find_by_key(...) if ... else ABSENT", "ABSENT"),),
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
