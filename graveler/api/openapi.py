"""The OpenAPI document of all operations, and the page `/docs` that shows it.  Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

import msgspec

from graveler.api.answers import WHOLE, AnswerType, Error, MediaType
from graveler.api.input import may_lack
from graveler.api.operation import API_PREFIX, Operation
from graveler.auth.permissions import Permission
from graveler.core.records import ABSENT
from graveler.http.errors import STATUS
from graveler.http.front import COOKIE

# ---- schemas -------------------------------------------------------------------------------------

Schema = dict[str, Any]
REFERENCE: Final = "#/components/schemas/"
_INT64: Final = (-(2**63), 2**63 - 1)


def components(types: Iterable[Any]) -> dict[str, Schema]:
    """The schemas of these types, and of all types that they contain, by name."""
    _, schemas = _made(types)
    return {name: _adapted(schema) for name, schema in schemas.items()}


def schema_of(kind: Any) -> Schema:
    """The schema of one type: for a type with a name, a reference to it."""
    (raw,), _ = _made([kind])
    return _adapted(raw)


def fields_of(kind: Any) -> dict[str, tuple[Schema, bool]]:
    """The schema of each field of a type, and whether it is required."""
    _, schemas = _made([kind])
    whole = schemas[kind.__name__]
    return {
        name: (_adapted(raw), name in whole["required"])
        for name, raw in whole["properties"].items()
    }


def _made(types: Iterable[Any]) -> tuple[tuple[Schema, ...], dict[str, Schema]]:
    return msgspec.json.schema_components(types, ref_template=REFERENCE + "{name}")


def _adapted(raw: Mapping[str, Any]) -> Schema:
    schema = {name: _part(name, value) for name, value in raw.items() if name != "title"}
    if "anyOf" in schema:
        others = [each for each in schema["anyOf"] if each != {"type": "null"}]
        if len(others) == 1 and len(others) < len(schema["anyOf"]):
            del schema["anyOf"]
            schema |= {**others[0], "nullable": True}
    if "enum" in schema:
        schema = {"type": "string", **schema}
    if "pattern" in schema:
        schema["pattern"] = schema["pattern"].removesuffix(WHOLE)
    if schema.get("type") == "integer":
        schema = _integer(schema)
    if schema.get("default", ...) in ("", [], {}, ()):
        del schema["default"]
    return schema


def _part(name: str, value: Any) -> Any:
    if name == "properties":
        return {each: _adapted(raw) for each, raw in value.items()}
    if name == "anyOf":
        return [_adapted(each) for each in value]
    if name in ("items", "additionalProperties") and isinstance(value, Mapping):
        return _adapted(value)
    return value


def _integer(schema: Schema) -> Schema:
    lowest, highest = _INT64
    rest = dict(schema)
    if rest.get("minimum") == lowest:
        del rest["minimum"]
    if rest.get("maximum") == highest:
        del rest["maximum"]
    return rest


# ---- the document --------------------------------------------------------------------------------

_SCHEMES: Final = {
    "basic_auth": {"type": "http", "scheme": "basic"},
    "jwt_token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "cookie_auth": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}


TITLE: Final = "Graveler API"
DESCRIPTION: Final = "Git for data lakes: repositories, branches, commits and objects."
LICENSE: Final = {"name": "Apache 2.0"}
_EVERYWHERE: Final = [{"url": "/"}]


def complete(document: dict[str, Any], operations: Sequence[Operation]) -> None:
    """Add to FastAPI's document what FastAPI does not know of `operations`: the schemas, and what
    proves an identity.  Their paths become relative to the URL of the API."""
    paths: dict[str, Any] = {}
    for path, methods in document["paths"].items():
        if path.startswith(API_PREFIX + "/"):
            paths[path.removeprefix(API_PREFIX)] = methods
        else:
            paths[path] = {"servers": _EVERYWHERE, **methods}
    document["paths"] = paths
    document["security"] = [{name: []} for name in _SCHEMES]
    parts = document.setdefault("components", {})
    parts["securitySchemes"] = {**parts.get("securitySchemes", {}), **_SCHEMES}
    parts["schemas"] = {**parts.get("schemas", {}), **components(_types(operations))}


def below(document: dict[str, Any], root: str) -> dict[str, Any]:
    """The document of an application that is mounted at `root`."""
    paths = {
        path: {**methods, "servers": [{"url": root or "/"}]} if "servers" in methods else methods
        for path, methods in document["paths"].items()
    }
    return {**document, "servers": [{"url": root + API_PREFIX}], "paths": paths}


def _types(operations: Iterable[Operation]) -> Iterator[Any]:
    """Every type of a body or of a JSON answer."""
    yield Error
    for operation in operations:
        if operation.body is not ABSENT:
            yield operation.body
        yield from (kind for kind in operation.answers.values() if not isinstance(kind, MediaType))


def described(operation: Operation) -> dict[str, Any]:
    """What the document says of an operation, beside its name, its summary and its tag."""
    described: dict[str, Any] = {
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
        content = {"application/json": {"schema": schema_of(operation.body)}}
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
    for name, (schema, is_required) in fields_of(kind).items():
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
    return {"description": description, "content": _json(schema_of(Error))}


def _answer(kind: AnswerType) -> dict[str, Any]:
    if kind is MediaType.NOTHING:
        return {"description": "success"}
    if isinstance(kind, MediaType):
        return {"description": "success", "content": {kind.value: _CONTENTS[kind]}}
    schema = schema_of(kind)
    name = schema.get("$ref", "success").removeprefix(REFERENCE)
    return {"description": name, "content": _json(schema)}


_CONTENTS: Final = {MediaType.TEXT: {"schema": {"type": "string"}}, MediaType.BYTES: _BINARY}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _upload_content() -> dict[str, Any]:
    part = {"type": "object", "properties": {"content": _BINARY["schema"]}}
    return {"application/octet-stream": _BINARY, "multipart/form-data": {"schema": part}}


# ---- the page ------------------------------------------------------------------------------------

_RULES: Final = (
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "maxItems",
    "pattern",
    "default",
)


_UNTAGGED: Final = "others"


def page(document: Mapping[str, Any], root: str = "") -> str:
    """The content of the page.  `root`: where the application is mounted."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method == "servers":
                continue
            shown = "".join(_operation_html(method, path, operation))
            by_tag.setdefault(operation.get("tags", [_UNTAGGED])[0], []).append(shown)
    tags = sorted(by_tag)
    links = " · ".join(f'<a href="#tag-{escape(tag)}">{escape(tag)}</a>' for tag in tags)
    pieces = [
        f"<h1>{escape(document['info']['title'])} {escape(document['info']['version'])}</h1>",
        f"<p>{escape(document['info']['description'])} All paths lie below "
        f"<code>{escape(document['servers'][0]['url'])}</code>. "
        f'The same as <a href="{escape(root)}/openapi.json">OpenAPI</a>.</p>',
        f'<p>{links} · <a href="#schemas">schemas</a></p>',
    ]
    for tag in tags:
        pieces += [f'<h2 id="tag-{escape(tag)}">{escape(tag)}</h2>', *by_tag[tag]]
    pieces.append('<h2 id="schemas">Schemas</h2>')
    for name, schema in sorted(document["components"]["schemas"].items()):
        pieces += _schema_html(name, schema)
    return "".join(pieces)


def _operation_html(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    name = escape(operation["operationId"])
    yield f'<details id="{name}"><summary><code>{method.upper()} {escape(path)}</code> '
    yield f"{escape(operation['summary'])}</summary><p>Operation <code>{name}</code>.</p>"
    rows = [
        (each["name"], each["in"], _type(each["schema"]), each.get("description", ""))
        for each in operation.get("parameters", ())
    ]
    yield _table(("parameter", "in", "type", "meaning"), rows)
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<p>Body: <code>{escape(kind)}</code> {_linked(content['schema'])}</p>"
    answers = [
        (status, answer["description"], _linked_types(answer.get("content", {})))
        for status, answer in operation["responses"].items()
    ]
    yield _table(("status", "answer", "type"), answers)
    needed = operation.get("x-permissions", [])
    yield _table(("permission", "on"), [(each["action"], each["resource"]) for each in needed])
    sometimes = operation.get("x-conditional-permissions", [])
    more = [(each["when"], each["action"], each["resource"]) for each in sometimes]
    yield _table(("also if", "permission", "on"), more)
    yield "</details>"


def _schema_html(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code> '
    yield f"{escape(schema.get('description', ''))}</summary>"
    required = schema.get("required", ())
    rows = [
        (field, "yes" if field in required else "", _type(each), each.get("description", ""))
        for field, each in schema.get("properties", {}).items()
    ]
    yield _table(("field", "required", "type", "meaning"), rows)
    yield "</details>"


def _linked_types(contents: Mapping[str, Any]) -> "_Html":
    return _Html(", ".join(_linked(content["schema"]) for content in contents.values()))


def _type(schema: Mapping[str, Any]) -> "_Html":
    rules = [f"{rule}: {schema[rule]}" for rule in _RULES if rule in schema]
    return _Html(_linked(schema) + escape("".join(f"; {rule}" for rule in rules)))


def _linked(schema: Mapping[str, Any]) -> str:
    """The type of a value as HTML; a schema with a name is a link."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(REFERENCE))
        return f'<a href="#schema-{name}">{name}</a>'
    if schema.get("type") == "array":
        return f"array of {_linked(schema.get('items', {}))}"
    if "additionalProperties" in schema:
        return f"object of {_linked(schema['additionalProperties'])}"
    return escape(schema.get("format", schema.get("type", "anything")))


class _Html(str):
    """Text that is HTML already."""


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{lines}</table>"


def _cell(text: str) -> str:
    return f"<td>{text if isinstance(text, _Html) else escape(text)}</td>"
