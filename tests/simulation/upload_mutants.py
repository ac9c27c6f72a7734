"""Breaches of the rules of uploads in parts; see `mutants.py`."""

from tests.simulation.edits import Edit
from tests.simulation.mutants import Mutant

UPLOADS, COMPLETIONS = "engine.objects.multipart", "engine.objects.multipart"

UPLOAD_MUTANTS = (
    Mutant(
        "U1a",
        "row and record are not written in one step: the record never says that it is completed",
        ("parts", "clean"),
        (
            Edit(
                COMPLETIONS,
                "_put_completion",
                "return area.stage_if(*__row__, other=...)",
                "return area.stage_if(*__row__)",
            ),
        ),
    ),
    Mutant(
        "U1b",
        "a repeated completion stages the object again",
        ("parts", "clean"),
        (
            Edit(
                UPLOADS,
                "complete",
                """
                if seen.upload.completed_ns:
                    ...
                """,
                "",
            ),
            Edit(
                UPLOADS,
                "complete",
                """
                if joined.upload.completed_ns:
                    ...
                """,
                "",
            ),
        ),
    ),
    Mutant(
        "U2a",
        "a completion with other parts than those of the plan is answered as if they were its own",
        ("parts", "clean"),
        (
            Edit(
                UPLOADS,
                "_planned",
                """
                if seen.upload.parts != digest:
                    ...
                """,
                "",
            ),
        ),
    ),
    Mutant(
        "U2b",
        "a plan is replaced although another call may have joined its parts",
        ("parts", "clean"),
        (
            Edit(
                UPLOADS,
                "_planned",
                """
                if seen.upload.entry:
                    if seen.upload.parts != digest:
                        ...
                    ...
                """,
                "",
            ),
        ),
    ),
)
