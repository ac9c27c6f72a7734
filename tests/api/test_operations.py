"""The collection of operations is whole: names, places, the exact open lists, the document."""

import re
from typing import Any

import msgspec
import pytest
from fastapi.openapi.models import OpenAPI

from graveler.api import openapi
from graveler.api.answers import MediaType
from graveler.api.app import Graveler
from graveler.api.operation import BY_ITEM, FOR_EVERY_CALLER, OPEN, UNAUDITED, Operation
from graveler.api.operations import OPERATIONS
from graveler.core.records import ABSENT
from graveler.http.errors import STATUS
from simulator.service.described import Described, described, schemas
from tests.api.serving import Client


def test_exactly_these_operations_need_no_credentials() -> None:
    assert {
        "healthCheck",
        "getSetupState",
        "setup",
        "login",
        "externalPrincipalLogin",
        "stsLogin",
        "getAuthCapabilities",
    } == OPEN
    assert {each.operation for each in described() if not each.authenticated} == OPEN


def test_exactly_these_operations_need_no_permission() -> None:
    assert {"getCurrentUser", "mayI", "postStatsEvents"} == FOR_EVERY_CALLER
    assert {"deleteObjects"} == BY_ITEM
    without = {each.name for each in OPERATIONS if not each.permissions}
    assert without <= OPEN | FOR_EVERY_CALLER


def test_exactly_these_operations_change_nothing_and_have_a_body() -> None:
    assert {"mayI", "postStatsEvents", "beatBulkJob", "beatCollectionTurn"} == UNAUDITED
    for each in OPERATIONS:
        reads = each.method in ("GET", "HEAD") or each.name in UNAUDITED
        assert each.audited is not reads, each.name
    assert {each.name for each in OPERATIONS} >= UNAUDITED


def test_each_name_and_each_place_is_taken_once() -> None:
    operations = [each.operation for each in described()]
    assert len(operations) == len(set(operations))
    places = [(each.method, re.sub(r"\{\w+\}", "{}", each.path)) for each in described()]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_the_names_of_a_path_and_of_parameters_differ(operation: Operation) -> None:
    """An error text may name any of them."""
    names = [*operation.path_parameters]
    if operation.query is not ABSENT:
        names += operation.query.__struct_encode_fields__
    assert len(names) == len(set(names))


def test_types_with_one_name_are_one_type() -> None:
    """Else msgspec would give both a long name in the document."""
    kinds: list[Any] = [each.body for each in OPERATIONS if each.body is not ABSENT]
    for operation in OPERATIONS:
        kinds += [kind for kind in operation.answers.values() if not isinstance(kind, MediaType)]
    assert all(re.fullmatch(r"\w+", name) for name in openapi.components(kinds))


def test_the_document_is_openapi_and_covers_every_operation(client: Client) -> None:
    served = client.raw("GET", "/openapi.json")
    assert served.status == 200
    assert served.json == msgspec.to_builtins(Graveler().openapi())
    OpenAPI.model_validate(served.json)
    for operation in OPERATIONS:
        shown = served.json["paths"][operation.path][operation.method.lower()]
        assert shown["operationId"] == operation.name
        assert shown["summary"]
        assert shown["tags"] == [operation.tag]
        named = {place: names_in(shown, place) for place in ("path", "query", "header")}
        assert named == {
            "path": list(operation.path_parameters),
            "query": list(getattr(operation.query, "__struct_encode_fields__", ())),
            "header": list(getattr(operation.headers, "__struct_encode_fields__", ())),
        }
        statuses = {*operation.answers, *(STATUS[kind] for kind in operation.errors), "default"}
        assert shown["responses"].keys() == {str(status) for status in statuses}
        has_body = operation.body is not ABSENT or operation.reads_body
        assert ("requestBody" in shown) == has_body
        assert (shown.get("security") == []) == (not operation.authenticated)
        needed = [tuple(each.values()) for each in shown.get("x-permissions", [])]
        assert needed == [(each.action, each.pattern) for each in operation.permissions]
        sometimes = [tuple(each.values()) for each in shown.get("x-conditional-permissions", [])]
        assert sometimes == [
            (when, each.action, each.pattern) for when, each in operation.conditional
        ]
    count = sum(len(methods) for methods in served.json["paths"].values())
    assert count == len(described())


def names_in(shown: dict[str, Any], place: str) -> list[str]:
    """The names of an operation's parameters of one kind."""
    return [each["name"] for each in shown["parameters"] if each["in"] == place]


@pytest.mark.parametrize("one", described(), ids=lambda each: each.operation)
def test_every_operation_answers_something(one: Described) -> None:
    assert [status for status in one.answers if status < 400]


def test_every_reference_of_the_document_leads_somewhere() -> None:
    whole = Graveler().openapi()

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            found = [value["$ref"]] if "$ref" in value else []
            return found + [each for inner in value.values() for each in references(inner)]
        if isinstance(value, list | tuple):
            return [each for inner in value for each in references(inner)]
        return []

    named = set(references(whole))
    assert {reference.removeprefix(openapi.REFERENCE) for reference in named} <= set(schemas())
