"""Breaches of the rules of uploads that share a batch (engine/objects/write.py); see
`mutants.py`."""

from tests.simulation.edits import Edit
from tests.simulation.mutants import Mutant

MANY = "engine.objects.write"

BATCH_MUTANTS = (
    Mutant(
        "Q1",
        "an upload is done when its row is written, whichever token is open afterwards",
        ("batches", "clean"),
        (Edit(MANY, "_is_done", "is_written and each.token == before", "is_written"),),
    ),
    Mutant(
        "Q2",
        "the branch record that ends an upload is the cached one",
        ("batches", "clean"),
        (
            Edit(
                MANY,
                "_is_done",
                "second_read(each.repo, each.branch, only)",
                "cached(each.repo, each.branch)",
            ),
        ),
    ),
    Mutant(
        "Q3",
        "a row without an answer counts as written",
        ("batches", "amb"),
        (Edit(MANY, "_is_done", "is_written and each.token == before", "each.token == before"),),
    ),
    Mutant(
        "Q4",
        "of several uploads of one path, the first is staged",
        ("batches", "clean"),
        (
            Edit(
                MANY,
                "_stage_many",
                "{each.place: each for each in todo}",
                "{each.place: each for each in reversed(todo)}",
            ),
        ),
    ),
    Mutant(
        "Q5",
        "an upload whose branch went away is refused, although an earlier row may be in a commit",
        ("batches", "all"),
        (Edit(MANY, "_is_done", "ABSENT if each.attempt > 1 else before", "before"),),
    ),
    Mutant(
        "Q6",
        "uploads of one path are done, whatever became of the one that was staged",
        ("batches", "amb"),
        (Edit(MANY, "_stage_many", "isinstance(outcome, GravelerError)", "False"),),
    ),
    Mutant(
        "Q7",
        "an upload that met a seal goes on in the sealed token",
        ("batches", "clean"),
        (
            Edit(MANY, "_is_done", "each.token = seen.branch.staging", ""),
            Edit(
                MANY,
                "_is_done",
                "is_written and each.token == before",
                "is_written and seen.branch.staging == before",
            ),
        ),
    ),
)
