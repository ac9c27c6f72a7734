"""What a ref expression names."""

import pytest

from graveler.core.errors import Invalid, NotFound
from graveler.engine import names
from graveler.engine.names import RefView
from tests.engine.lake import Lake
from tests.engine.test_requests import Counted


@pytest.fixture
def named(lake: Lake) -> Lake:
    """A branch with two commits, and a tag on the first."""
    lake.commit_of(a="1")
    names.create_tag(lake.opened, "v1", "main")
    lake.commit_of(a="2")
    return lake


def test_expressions_by_type(named: Lake) -> None:
    head, first = named.head(), names.get_tag(named.opened, "v1")
    for text, kind, commit, branch in (
        ("main", "branch", head, "main"),
        ("main$", "branch", head, "main"),
        ("main@", "commit", head, "main"),
        ("main~1", "commit", first, "main"),
        ("main@~1", "commit", first, "main"),
        ("main^", "commit", first, "main"),
        ("v1", "tag", first, ""),
        ("v1@", "commit", first, ""),
        (head, "commit", head, ""),
        (head[:10], "commit", head, ""),
        (f"{head}~", "commit", first, ""),
    ):
        assert names.get_ref(named.opened, text) == RefView(kind, commit, branch, False), text


def test_a_branch_is_dirty_while_something_differs_from_its_head(named: Lake) -> None:
    def dirty(text: str) -> bool:
        return names.get_ref(named.opened, text).dirty

    named.put("b", "1")
    assert dirty("main") and dirty("main$")
    assert not dirty("main@") and not dirty("v1")
    named.delete("b")
    assert not dirty("main")  # the rows that are left repeat what is committed
    named.put("a", "2")
    assert not dirty("main")
    named.delete("a")
    assert dirty("main")
    named.commit()
    assert not dirty("main")


def test_what_names_nothing_is_refused(named: Lake) -> None:
    for text in ("none", "main~9", "main^2", "0" * 64):
        with pytest.raises(NotFound):
            names.get_ref(named.opened, text)
    for text in ("", "main$~1", "v1$", "a b"):
        with pytest.raises(Invalid):
            names.get_ref(named.opened, text)


def test_requests() -> None:
    counted = Counted()
    lake = counted.lake
    lake.commit_of(a="1", b="2")
    names.create_tag(lake.opened, "v1", "main")

    def spent(text: str) -> dict[str, int]:
        return dict(counted.of(lambda: names.get_ref(lake.opened, text)))

    assert spent("main") == {"get": 1, "scan": 1}
    assert spent("main@") == {"get": 1}
    assert spent("v1") == {"get": 2}
    assert spent(lake.head()) == {}
    lake.put("p", "1")
    assert spent("main") == {"get": 1, "scan": 2}
