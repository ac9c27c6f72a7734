"""Builds the OpenAPI document from the table of routes.  Pure.  Callers build it once."""

from typing import Any

from graveler import __version__
from graveler.api.cookies import COOKIE
from graveler.api.routes import API_PREFIX, ROUTES
from graveler.api.schema_words import of
from graveler.api.schemas import CATALOGUE
from graveler.api.table import Parameter, Route

_SCHEMES = {
    "basic_auth": {"type": "http", "scheme": "basic"},
    "jwt_token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "cookie_auth": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}
_BINARY = {"schema": {"type": "string", "format": "binary"}}


def document() -> dict[str, Any]:
    """The complete document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
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
        "components": {"securitySchemes": _SCHEMES, "schemas": dict(CATALOGUE)},
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in route.path_parameters
        ]
        + [_parameter(each) for each in route.parameters],
        "responses": _answers(route),
    }
    if route.body:
        required = bool(CATALOGUE[route.body].get("required"))
        operation["requestBody"] = {"required": required, "content": _json(route.body)}
    elif route.operation == "uploadObject":
        operation["requestBody"] = {"content": _upload_content()}
        operation["x-validation-exclude-body"] = True
    if not route.authenticated:
        operation["security"] = []
    if route.action:
        operation["x-action"] = route.action
        operation["x-resource"] = route.resource
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "schema": parameter.schema,
    }
    if parameter.description:
        shape["description"] = parameter.description
    return shape


def _answers(route: Route) -> dict[str, Any]:
    """Answers by status code.  An answer to HEAD has no body, even if the route declares one."""
    answers = {str(status): _answer(name) for status, name in route.answers.items()}
    answers["default"] = {"description": "failure", "content": _json("Error")}
    if route.method == "HEAD":
        return {
            status: {"description": answer["description"]} for status, answer in answers.items()
        }
    return answers


def _answer(name: str) -> dict[str, Any]:
    if not name:
        return {"description": "success"}
    return {"description": name, "content": _json(name)}


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": of(name)}}


def _upload_content() -> dict[str, Any]:
    part = {"type": "object", "properties": {"content": _BINARY["schema"]}}
    return {"application/octet-stream": _BINARY, "multipart/form-data": {"schema": part}}
