"""The judge of histories notices what it is for."""

import pytest

from tests.engine.history import NEVER, History, Observed, Span, violations


def _judged(writes: list[tuple[float, float, str]], look: tuple[float, float], saw: str) -> bool:
    history = History()
    for start, end, value in writes:
        history.wrote("k", value, Span(start, end))
    history.observed.append(Observed("look", Span(*look), {"k": saw} if saw else {}))
    return not violations(history)


@pytest.mark.parametrize(
    ("writes", "look", "saw", "legal"),
    [
        ([], (1, 2), "", True),
        ([], (1, 2), "x", False),
        ([(1, 2, "x")], (3, 4), "x", True),
        ([(1, 2, "x")], (3, 4), "", False),  # lost
        ([(1, 5, "x")], (3, 4), "", True),
        ([(1, 5, "x")], (3, 4), "x", True),
        ([(5, 6, "x")], (3, 4), "x", False),  # from the future
        ([(1, NEVER, "x")], (3, 4), "x", True),
        ([(1, NEVER, "x")], (3, 4), "", True),
        ([(1, 2, "x"), (3, 4, "y")], (5, 6), "x", False),  # stale
        ([(1, 2, "x"), (3, 7, "y")], (5, 6), "x", True),
        ([(1, 4, "x"), (2, 3, "y")], (5, 6), "x", True),  # at the same time
        ([(1, 2, "x"), (3, 4, "")], (5, 6), "x", False),  # deleted, and back
        ([(1, 2, ""), (3, 4, "x"), (5, 6, "")], (7, 8), "", True),
        ([(1, 2, ""), (3, 4, "x")], (5, 6), "", False),
    ],
)
def test_rule(
    writes: list[tuple[float, float, str]], look: tuple[float, float], saw: str, legal: bool
) -> None:
    assert _judged(writes, look, saw) == legal


def test_what_was_refused_is_nowhere() -> None:
    history = History()
    history.wrote("k", "x", Span(1, NEVER))
    history.answered("412", "x")
    history.observed.append(Observed("look", Span(2, 3), {"k": "x"}))
    assert violations(history)


def test_a_write_without_an_answer_counts_until_its_process_died() -> None:
    def legal(look: tuple[float, float], saw: str) -> bool:
        history = History()
        history.wrote("k", "x", Span(1, 2))
        history.might_have_written("k", "y", Span(3, 4))
        history.wrote("k", "z", Span(6, 7))
        history.looked(Observed("look", Span(*look), {"k": saw}))
        return not violations(history)

    assert legal((5, 5), "x") and legal((5, 5), "y")
    assert not legal((2, 2.5), "y")
    assert not legal((8, 9), "y") and not legal((8, 9), "x")
    assert legal((8, 9), "z")
