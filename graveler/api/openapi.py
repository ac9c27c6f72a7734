"""Builds the OpenAPI document from all operations.  Pure.  Callers build it once."""

from collections.abc import Iterator
from typing import Any, Final

from graveler import __version__
from graveler.api import json_schemas
from graveler.api.answers import AnswerType, Content, Error
from graveler.api.bodies import may_lack
from graveler.api.cookies import COOKIE
from graveler.api.errors import STATUS
from graveler.api.json_schemas import Schema
from graveler.api.operation import API_PREFIX, Operation
from graveler.api.operations import OPERATIONS
from graveler.auth.permissions import Permission
from graveler.records import ABSENT

_SCHEMES: Final = {
    "basic_auth": {"type": "http", "scheme": "basic"},
    "jwt_token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "cookie_auth": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}


def document() -> dict[str, Any]:
    """The complete document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    schemas = json_schemas.components(_types())
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Graveler API",
            "version": __version__,
            "description": "Git for data lakes: repositories, branches, commits and objects.",
            "license": {"name": "Apache 2.0"},
        },
        "servers": [{"url": API_PREFIX}],
        "security": [{name: []} for name in _SCHEMES],
        "paths": paths,
        "components": {"securitySchemes": _SCHEMES, "schemas": schemas},
    }


def _types() -> Iterator[Any]:
    """Every type of a body or of a JSON answer."""
    yield Error
    for operation in OPERATIONS:
        if operation.body is not ABSENT:
            yield operation.body
        yield from (kind for kind in operation.answers.values() if not isinstance(kind, Content))


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in operation.path_parameters
        ]
        + list(_parameters(operation.query, "query"))
        + list(_parameters(operation.headers, "header")),
        "responses": _answers(operation),
    }
    if operation.body is not ABSENT:
        required = not may_lack(operation.body)
        content = {"application/json": {"schema": json_schemas.schema(operation.body)}}
        described["requestBody"] = {"required": required, "content": content}
    if operation.reads_body:
        described["requestBody"] = {"content": _upload_content()}
        described["x-validation-exclude-body"] = True
    if not operation.authenticated:
        described["security"] = []
    if operation.permissions:
        described["x-permissions"] = [_permission(each) for each in operation.permissions]
    if operation.conditional:
        described["x-conditional-permissions"] = [
            {"when": when, **_permission(each)} for when, each in operation.conditional
        ]
    return described


def _permission(permission: Permission) -> dict[str, str]:
    return {"action": permission.action, "resource": permission.pattern}


def _parameters(kind: Any, place: str) -> Iterator[dict[str, Any]]:
    if kind is ABSENT:
        return
    for name, (schema, is_required) in json_schemas.fields(kind).items():
        parameter = {"name": name, "in": place, "required": is_required, "schema": schema}
        if "description" in schema:
            parameter["description"] = schema.pop("description")
        yield parameter


def _answers(operation: Operation) -> dict[str, Any]:
    """Answers by status code.  An answer to HEAD has no body, whatever is declared."""
    answers = {str(STATUS[kind]): _failure(str(STATUS[kind])) for kind in operation.errors}
    answers |= {str(status): _answer(kind) for status, kind in operation.answers.items()}
    answers["default"] = _failure("failure")
    if operation.method == "HEAD":
        return {
            status: {"description": answer["description"]} for status, answer in answers.items()
        }
    return answers


def _failure(description: str) -> dict[str, Any]:
    return {"description": description, "content": _json(json_schemas.schema(Error))}


def _answer(kind: AnswerType) -> dict[str, Any]:
    if kind is Content.NOTHING:
        return {"description": "success"}
    if isinstance(kind, Content):
        return {"description": "success", "content": {kind.value: _CONTENTS[kind]}}
    schema = json_schemas.schema(kind)
    name = schema.get("$ref", "success").removeprefix(json_schemas.REFERENCE)
    return {"description": name, "content": _json(schema)}


_CONTENTS: Final = {Content.TEXT: {"schema": {"type": "string"}}, Content.BYTES: _BINARY}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _upload_content() -> dict[str, Any]:
    part = {"type": "object", "properties": {"content": _BINARY["schema"]}}
    return {"application/octet-stream": _BINARY, "multipart/form-data": {"schema": part}}
