"""The table of routes is whole: endpoints, the exact open list, the OpenAPI document."""

import re
from typing import Any

import pytest
from fastapi.openapi.models import OpenAPI

from graveler.api.endpoints import ENDPOINTS
from graveler.api.openapi import document
from graveler.api.routes import ROUTES, UNAUTHENTICATED
from graveler.api.schemas import CATALOGUE, REQUESTS
from graveler.api.table import Route
from tests.api.serving import Client


def test_exactly_these_operations_need_no_credentials() -> None:
    assert UNAUTHENTICATED == (
        "healthCheck",
        "getSetupState",
        "setup",
        "login",
        "getAuthCapabilities",
    )


def test_every_row_has_an_endpoint_and_every_endpoint_a_row() -> None:
    operations = [route.operation for route in ROUTES]
    assert len(operations) == len(set(operations))
    assert set(operations) == set(ENDPOINTS)
    places = [(route.method, re.sub(r"\{\w+\}", "{}", route.path)) for route in ROUTES]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_a_row_names_schemas_of_the_catalogue_and_an_action(route: Route) -> None:
    assert route.body == "" or route.body in REQUESTS
    assert route.answers
    assert all(name == "" or name in CATALOGUE for name in route.answers.values())
    assert bool(route.action) == route.authenticated or route.operation == "postStatsEvents"
    known = {*route.path_parameters, *(each.name for each in route.parameters)}
    if route.body:
        known |= set(CATALOGUE[route.body]["properties"])
    assert set(re.findall(r"\{(\w+)\}", route.resource)) <= known


def test_the_document_is_openapi_and_covers_every_row(client: Client) -> None:
    served = client.raw("GET", "/openapi.json")
    assert served.status == 200
    assert served.json == document()
    OpenAPI.model_validate(served.json)
    for route in ROUTES:
        operation = served.json["paths"][route.path][route.method.lower()]
        assert operation["operationId"] == route.operation
        declared = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert declared == set(route.path_parameters)
        assert ("requestBody" in operation) == (
            bool(route.body) or route.operation == "uploadObject"
        )
        assert (operation.get("security") == []) == (not route.authenticated)
    count = sum(len(methods) for methods in served.json["paths"].values())
    assert count == len(ROUTES)


def test_every_reference_of_the_document_leads_somewhere() -> None:
    whole = document()

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            found = [value["$ref"]] if "$ref" in value else []
            return found + [each for inner in value.values() for each in references(inner)]
        if isinstance(value, list | tuple):
            return [each for inner in value for each in references(inner)]
        return []

    for reference in references(whole):
        at = whole
        for step in reference.removeprefix("#/").split("/"):
            at = at[step]
