"""Breaches of the rules of shared commits (graveler/lanes.py); see `mutants.py`."""

from tests.simulation.edits import Edit
from tests.simulation.mutants import COMMIT, Mutant

LANES = "lanes"

LANE_MUTANTS = (
    Mutant(
        "L1",
        "a commit also serves calls that arrived after its seal",
        ("shared", "clean"),
        (
            Edit(LANES, "TurnLanes.run", "if ... and shares:\n    ...", ""),
            Edit(
                LANES,
                "TurnLanes.run",
                "own.is_done = not own.has_taken",
                """
                own.is_done = not own.has_taken
                if shares:
                    self._gather(lane, own)
                """,
            ),
        ),
    ),
    Mutant(
        "L2",
        "calls that wait for a commit inherit its error",
        ("shared", "clean"),
        (
            Edit(
                LANES,
                "TurnLanes.run",
                "own.result = work(own)",
                """
                try:
                    own.result = work(own)
                except Exception as error:
                    own.result, own.is_done = error, True
                    raise
                """,
            ),
            Edit(
                LANES,
                "TurnLanes.run",
                "return result",
                """
                if isinstance(own.result, Exception):
                    raise own.result
                return result
                """,
            ),
        ),
    ),
    Mutant(
        "L3",
        "calls that wait for a commit that fails are answered with the head",
        ("shared", "clean"),
        (
            Edit(LANES, "TurnLanes._leave", "if own.is_done:\n    __answer__", "__answer__"),
            Edit(LANES, "TurnLanes._leave", "not own.is_done", "False"),
            Edit(
                "engine.commits.heads",
                "in_lane",
                "return __result__",
                """
                from graveler.engine.commits.heads import commit_of, fresh
                from graveler.records import CommitEntry

                result = __result__
                if result is None:
                    head = fresh(repo, branch).branch.commit
                    return CommitEntry(head, commit_of(repo, head))
                return result
                """,
            ),
        ),
    ),
    Mutant(
        "L4",
        "a commit with allow_empty is shared",
        ("shared", "clean"),
        (
            Edit(
                COMMIT,
                "commit",
                "not request.allow_empty and request.once is ABSENT",
                "request.once is ABSENT",
            ),
        ),
    ),
    Mutant(
        "L5",
        "a commit whose swap got no answer offers itself after it has landed",
        ("shared", "amb"),
        (
            Edit(
                COMMIT,
                "_run_tries",
                "if result is not ABSENT:\n    return result",
                """
                if result is not ABSENT:
                    call.turn.offer()
                    call.turn.confirm(_Offer(result, seen.branch))
                    return result
                """,
            ),
        ),
    ),
    Mutant(
        "L6",
        "an offered commit is an answer, whatever the head is",
        ("shared", "delay"),
        (
            Edit(
                COMMIT,
                "_commit_staged",
                "offered is not None and offered.record == first.branch",
                "offered is not None",
            ),
        ),
    ),
    Mutant(
        "L7",
        "an offered commit also answers calls that came after it landed",
        ("shared", "clean"),
        (Edit(LANES, "TurnLanes.run", "own.is_done = not own.has_taken", "own.is_done = True"),),
    ),
    Mutant(
        "L8",
        "an offered commit is an answer if it is the head, whoever put it there",
        ("shared", "clean"),
        (
            Edit(
                COMMIT,
                "_install",
                "if isinstance(installed, Versioned):\n    __landed__",
                """
                if draft.made is not None:
                    call.turn.confirm(_Offer(draft.made, seen.branch))
                if isinstance(installed, Versioned):
                    __landed__
                """,
            ),
            Edit(
                COMMIT,
                "_commit_staged",
                "offered.record == first.branch",
                "offered.entry.id == first.branch.commit",
            ),
        ),
    ),
)
