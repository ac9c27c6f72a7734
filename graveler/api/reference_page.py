"""The page `/docs`: all operations, with parameters, bodies, answers and permissions.

The page is made from the OpenAPI document, once for each process.  It is plain HTML: it needs no
script, no other file and no network, so that it works offline and under the strictest policy of
browsers.  Pure.  Used by pages.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from graveler.api.json_schemas import REFERENCE

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


def rendered(document: Mapping[str, Any]) -> str:
    """The content of the page."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            shown = "".join(_operation(method, path, operation))
            by_tag.setdefault(operation["tags"][0], []).append(shown)
    tags = sorted(by_tag)
    links = " · ".join(f'<a href="#tag-{escape(tag)}">{escape(tag)}</a>' for tag in tags)
    pieces = [
        f"<h1>{escape(document['info']['title'])} {escape(document['info']['version'])}</h1>",
        f"<p>{escape(document['info']['description'])} All paths lie below "
        f"<code>{escape(document['servers'][0]['url'])}</code>. "
        'The same as <a href="/openapi.json">OpenAPI</a>.</p>',
        f'<p>{links} · <a href="#schemas">schemas</a></p>',
    ]
    for tag in tags:
        pieces += [f'<h2 id="tag-{escape(tag)}">{escape(tag)}</h2>', *by_tag[tag]]
    pieces.append('<h2 id="schemas">Schemas</h2>')
    for name, schema in sorted(document["components"]["schemas"].items()):
        pieces += _schema(name, schema)
    return "".join(pieces)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    name = escape(operation["operationId"])
    yield f'<details id="{name}"><summary><code>{method.upper()} {escape(path)}</code> '
    yield f"{escape(operation['summary'])}</summary><p>Operation <code>{name}</code>.</p>"
    rows = [
        (each["name"], each["in"], _type(each["schema"]), each.get("description", ""))
        for each in operation["parameters"]
    ]
    yield _table(("parameter", "in", "type", "meaning"), rows)
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<p>Body: <code>{escape(kind)}</code> {_linked(content['schema'])}</p>"
    answers = [
        (status, answer["description"], _answer(answer))
        for status, answer in operation["responses"].items()
    ]
    yield _table(("status", "answer", "type"), answers)
    needed = operation.get("x-permissions", [])
    yield _table(("permission", "on"), [(each["action"], each["resource"]) for each in needed])
    sometimes = operation.get("x-conditional-permissions", [])
    more = [(each["when"], each["action"], each["resource"]) for each in sometimes]
    yield _table(("also if", "permission", "on"), more)
    yield "</details>"


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code> '
    yield f"{escape(schema.get('description', ''))}</summary>"
    required = schema.get("required", ())
    rows = [
        (field, "yes" if field in required else "", _type(each), each.get("description", ""))
        for field, each in schema.get("properties", {}).items()
    ]
    yield _table(("field", "required", "type", "meaning"), rows)
    yield "</details>"


def _answer(answer: Mapping[str, Any]) -> "_Html":
    shown = [_linked(content["schema"]) for content in answer.get("content", {}).values()]
    return _Html(", ".join(shown))


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
