"""What a branch record says about a swap that got no answer."""

import pytest

from graveler.core.ids import CommitId, StagingToken
from graveler.core.records import Branch, BranchState
from graveler.engine.commits.search import SwapState, is_replaced, swap_over, swap_state

HEAD, MADE, OTHER = (CommitId(letter * 64) for letter in "abc")


def record(rev: int, commit: CommitId, origin: str = "t0", rewinds: int = 0) -> Branch:
    return Branch(
        rev=rev,
        state=BranchState.LIVE,
        staging=StagingToken("t1.1"),
        sealed=(),
        commit=commit,
        origin=origin,
        rewinds=rewinds,
    )


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (record(5, HEAD), SwapState.OPEN),
        (record(6, OTHER), SwapState.LOST),
        (record(9, OTHER), SwapState.LOST),
        (record(6, OTHER, rewinds=1), SwapState.LOST),  # by that one change
        (record(7, OTHER, rewinds=1), SwapState.UNKNOWN),
        # A branch that was made anew begins at revision 1.
        *((record(rev, OTHER, origin="t9"), SwapState.UNKNOWN) for rev in (1, 5, 6, 9)),
    ],
)
def test_a_swap_of_which_the_history_has_no_commit(now: Branch, expected: SwapState) -> None:
    sent = swap_over(record(5, HEAD), MADE)
    assert swap_state(sent, now) is expected


def test_the_record_that_a_swap_made_has_not_replaced_it() -> None:
    sent = swap_over(record(5, HEAD), MADE)
    assert not is_replaced(sent, record(6, MADE))
    assert is_replaced(sent, record(6, HEAD))  # a renewal
