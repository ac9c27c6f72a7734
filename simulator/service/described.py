"""Operations as the OpenAPI document describes them: what a client knows before it sends a request.

for operation in described(): …
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from graveler.api.app import Graveler
from graveler.api.openapi import REFERENCE

API_PREFIX: Final[str] = "/api/v1"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter in the query, in a header or in the path."""

    name: str
    place: str
    schema: Mapping[str, Any]
    required: bool


@dataclass(frozen=True, slots=True)
class Described:
    """One operation.  `body`: the schema of its JSON body; empty if it has none.  `answers`: the
    schema of each declared status below 400 or with an answer of its own; empty: not JSON."""

    operation: str
    tag: str
    method: str
    path: str
    parameters: tuple[Parameter, ...]
    body: Mapping[str, Any]
    answers: Mapping[int, Mapping[str, Any]]
    authenticated: bool

    @property
    def path_parameters(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.parameters if each.place == "path")

    def of_place(self, place: str) -> tuple[Parameter, ...]:
        """The parameters in one place."""
        return tuple(each for each in self.parameters if each.place == place)


@cache
def _document() -> Mapping[str, Any]:
    return Graveler().openapi()


def schemas() -> Mapping[str, Mapping[str, Any]]:
    """The schemas of the document, by name."""
    found: Mapping[str, Mapping[str, Any]] = _document()["components"]["schemas"]
    return found


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, if it is a reference."""
    if "$ref" in schema:
        return schemas()[schema["$ref"].removeprefix(REFERENCE)]
    return schema


@cache
def described() -> tuple[Described, ...]:
    """All operations."""
    return tuple(_operations())


def by_name() -> dict[str, Described]:
    """All operations by their name."""
    return {each.operation: each for each in described()}


def _operations() -> Iterator[Described]:
    for path, methods in _document()["paths"].items():
        for method, operation in methods.items():
            yield Described(
                operation["operationId"],
                operation["tags"][0],
                method.upper(),
                path,
                tuple(
                    Parameter(each["name"], each["in"], each["schema"], each["required"])
                    for each in operation["parameters"]
                ),
                _json_schema(operation.get("requestBody", {})),
                {
                    int(status): _json_schema(answer)
                    for status, answer in operation["responses"].items()
                    if status != "default" and _json_schema(answer) != {"$ref": REFERENCE + "Error"}
                },
                operation.get("security") != [],
            )


def _json_schema(described: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = (
        described.get("content", {}).get("application/json", {}).get("schema", {})
    )
    return schema
