"""The declaration of an operation: what contradicts itself cannot be declared."""

from collections.abc import Callable
from typing import Any

import pytest

from graveler.api.operation import NOTHING, Body, Operation, Query, Resource, declaration
from graveler.auth.permissions import Permission
from graveler.core.records import ABSENT
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import needed
from graveler.http.service import Call

READ = (Permission("fs:ReadRepository", "arn:lakefs:fs:::repository/{repository}"),)
PLACE = "/repositories/{repository}/things"


class Source(Body, frozen=True):
    """Where a thing comes from."""

    path: str

    @property
    def is_folder(self) -> bool:
        """Whether it names a folder."""
        return self.path.endswith("/")


class Things(Body, frozen=True):
    """Things to make."""

    paths: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    name: str = ""


class Search(Query, frozen=True):
    """Which things."""

    path: str = ""


def declared(
    endpoint: Callable[..., Any], permissions: tuple[Permission, ...] = READ, **more: Any
) -> Operation:
    method, answers = more.pop("method", "POST"), more.pop("answers", NOTHING)
    known = ("things", method, "makeThings", PLACE, answers, *permissions)
    return declaration(*known, runs=Runs.POOL, **more)(endpoint)


def make(call: Call, body: Things, query: Search) -> Answer:
    """Make things.

    They last.
    """
    return NO_CONTENT


def test_the_endpoint_says_what_it_takes() -> None:
    whole = declared(make)
    assert (whole.body, whole.query, whole.headers) == (Things, Search, ABSENT)
    assert whole.summary == "Make things"
    assert whole.path_parameters == ("repository",)
    assert whole.authenticated


def test_an_operation_without_a_permission_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="permissions are needed"):
        declared(make, ())


def test_an_open_operation_has_no_permissions() -> None:
    def health(call: Call) -> Answer:
        """Check."""
        return NO_CONTENT

    known = ("healthCheck", "/healthcheck", NOTHING)
    assert not Resource("health").get(*known)(health).authenticated
    with pytest.raises(TypeError, match="permissions are needed"):
        Resource("health").get(*known, *READ)(health)


@pytest.mark.parametrize("name", ["{branch}", "{paths[].path.x}", "{name[]}", "{other[]}"])
def test_a_permission_names_what_the_operation_has(name: str) -> None:
    def bare(call: Call) -> Answer:
        """Make nothing."""
        return NO_CONTENT

    with pytest.raises(TypeError, match="has no"):
        declared(bare, (Permission("fs:WriteObject", name),))


def test_only_the_last_value_is_a_list() -> None:
    with pytest.raises(TypeError, match="last value"):
        declared(make, (Permission("fs:WriteObject", "{paths[]}/{name}"),))


def _no_docstring(call: Call) -> Answer:
    return NO_CONTENT


def _no_call(body: Things) -> Answer:
    """Make."""
    return NO_CONTENT


def _no_answer(call: Call) -> None:
    """Make."""


def _no_body(call: Call, body: dict[str, Any]) -> Answer:
    """Make."""
    return NO_CONTENT


def _no_query(call: Call, query: Things) -> Answer:
    """Make."""
    return NO_CONTENT


def _unknown(call: Call, path: str) -> Answer:
    """Make."""
    return NO_CONTENT


async def _coroutine(call: Call) -> Answer:
    """Make."""
    return NO_CONTENT


@pytest.mark.parametrize(
    ("endpoint", "rule"),
    [
        (_no_docstring, "summary"),
        (_no_call, "first parameter"),
        (_no_answer, "returns an Answer"),
        (_no_body, "body is no Body"),
        (_no_query, "query is no Query"),
        (_unknown, "unknown parameters"),
        (_coroutine, "STREAM"),
    ],
)
def test_an_endpoint_that_fits_no_operation_is_refused(
    endpoint: Callable[..., Any], rule: str
) -> None:
    with pytest.raises(TypeError, match=rule):
        declared(endpoint)


@pytest.mark.parametrize(
    ("more", "rule"),
    [({"method": "GET"}, "no body"), ({"method": "LIST"}, "method"), ({"answers": {}}, "answers")],
)
def test_a_declaration_that_contradicts_itself_is_refused(more: dict[str, Any], rule: str) -> None:
    with pytest.raises(TypeError, match=rule):
        declared(make, **more)


def _needed(resource: str, body: Things, path: str = "") -> list[str]:
    one = declared(make, (Permission("fs:WriteObject", resource),))
    found = needed(one.templates, {"repository": "lake"}, Search(path), body)
    assert {each.action for each in found} <= {"fs:WriteObject"}
    return [each.resource for each in found]


def test_permissions_are_resolved_from_the_path_the_query_and_the_body() -> None:
    assert _needed("r/{repository}/{name}", Things(name="n")) == ["r/lake/n"]
    assert _needed("r/{repository}/{path}", Things(), "a/*") == ["r/lake/a/*"]
    assert _needed("everything", Things()) == ["everything"]


def test_a_property_chooses_among_the_items_of_a_list() -> None:
    body = Things(sources=(Source("a"), Source("b/"), Source("c/")))
    assert _needed("{repository}/{sources[is_folder].path}", body) == ["lake/b/", "lake/c/"]
    assert _needed("{repository}/{sources[is_folder].path}", Things(sources=(Source("a"),))) == []
    assert _needed("{repository}/{sources[is_folder].path}", Things()) == ["lake/*"]
    for name in ("is_nothing", "path"):
        with pytest.raises(TypeError, match=f"no items with {name}"):
            declared(make, (Permission("fs:WriteObject", f"{{sources[{name}].path}}"),))


def test_a_permission_may_concern_everything_below() -> None:
    one = declared(make, (Permission("fs:WriteObject", "{repository}/{paths[]}/", below=True),))
    found = needed(one.templates, {"repository": "lake"}, Search(), Things(("a",)))
    assert found == (Permission("fs:WriteObject", "lake/a/", below=True),)
    assert [each.pattern for each in found] == ["lake/a/*"]


def test_each_item_of_a_list_needs_its_own_permission() -> None:
    assert _needed("{repository}/{paths[]}/", Things(("a", "b"))) == ["lake/a/", "lake/b/"]
    body = Things(sources=(Source("a"), Source("b")))
    assert _needed("{repository}/{sources[].path}", body) == ["lake/a", "lake/b"]


def test_an_empty_list_needs_the_permission_for_everything() -> None:
    assert _needed("{repository}/{paths[]}", Things()) == ["lake/*"]
