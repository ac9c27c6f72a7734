"""Writes the types of the API for the page: ui/src/api/types.ts, from the OpenAPI document.

    Graveler().openapi() ──► interfaces of all shapes, and a map of all operations
    permissions.ACTIONS  ──► the names of all actions, for the pages about rights

A field or a path that the API does not have then fails the type check of the page.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from graveler.api.app import Graveler
from graveler.auth.permissions import ACTIONS

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "ui" / "src" / "api" / "types.ts"
_PLAIN: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def typed(schema: Mapping[str, Any]) -> str:
    """The TypeScript type of a JSON schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " | ".join(typed(each) for each in schema[several])
    if "allOf" in schema:
        return " & ".join(typed(each) for each in schema["allOf"])
    kind = schema.get("type")
    if kind == "array":
        return f"Array<{typed(schema.get('items', {}))}>"
    if kind == "object" and "properties" in schema:
        return "{ " + " ".join(_fields(schema)) + " }"
    if kind == "object":
        rest = schema.get("additionalProperties")
        return f"Record<string, {typed(rest) if isinstance(rest, dict) else 'unknown'}>"
    return _PLAIN.get(kind or "", "unknown")


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    needed = set(schema.get("required", ()))
    for name, field in schema["properties"].items():
        yield f"{json.dumps(name)}{'' if name in needed else '?'}: {typed(field)};"


def _parameters(operation: Mapping[str, Any], place: str) -> str:
    chosen = [each for each in operation.get("parameters", ()) if each["in"] == place]
    fields = (
        f"{json.dumps(each['name'])}{'' if each.get('required') else '?'}: {typed(each['schema'])};"
        for each in chosen
    )
    return "{ " + " ".join(fields) + " }" if chosen else "{}"


def _content(holder: Mapping[str, Any]) -> str:
    schema = holder.get("content", {}).get("application/json", {}).get("schema")
    return "unknown" if schema is None else typed(schema)


def _answer(operation: Mapping[str, Any]) -> str:
    good = [answer for code, answer in operation["responses"].items() if code.startswith("2")]
    return " | ".join(dict.fromkeys(_content(each) for each in good)) or "unknown"


def lines(description: Mapping[str, Any]) -> Iterator[str]:
    """The module, line by line."""
    yield "// Written by scripts/page_types.py from the OpenAPI document of the service."
    for name, schema in description["components"]["schemas"].items():
        yield f"export type {name} = {typed(schema)};"
    yield "export interface Operations {"
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if method not in ("get", "put", "post", "delete", "patch", "head"):
                continue
            yield (
                f"  {json.dumps(f'{method.upper()} {path}')}: {{"
                f" path: {_parameters(operation, 'path')};"
                f" query: {_parameters(operation, 'query')};"
                f" body: {_content(operation.get('requestBody', {}))};"
                f" answer: {_answer(operation)} }};"
            )
    yield "}"
    yield f"export const ACTIONS: readonly string[] = {json.dumps(sorted(ACTIONS))};"


def main() -> None:
    """Write the types, unless they stand there already."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    text = "\n".join(lines(Graveler().openapi())) + "\n"
    if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
