"""The names and types of JSON that scripts may rely on: `json_names.json`, a line a name.

    log[].parents[]    string

`python -m tests.cli.kept_names` adds the names of new fields.  It removes and changes none.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from scripts.cli_schemas import document

FILE: Final = Path(__file__).with_name("json_names.json")
Names = Mapping[str, str]


def names(whole: Mapping[str, Any]) -> dict[str, str]:
    """The types of all names, by the path to them from a command.  Several types have bars between
    them; `?` marks a name that may be absent."""
    found: dict[str, set[str]] = {}
    optional: set[str] = set()
    for path, schema in [*whole["commands"].items(), ("(failure)", whole["failure"])]:
        for place, kind, is_needed in _walked(whole["$defs"], path, schema, True):
            found.setdefault(place, set()).add(kind)
            if not is_needed:
                optional.add(place)
    return {
        place: "|".join(sorted(kinds)) + ("?" if place in optional else "")
        for place, kinds in sorted(found.items())
    }


def _walked(
    types: Mapping[str, Any], path: str, schema: Mapping[str, Any], is_needed: bool
) -> Iterator[tuple[str, str, bool]]:
    if "$ref" in schema:
        schema = types[schema["$ref"].rpartition("/")[2]]
    for variant in schema.get("anyOf", ()):
        yield from _walked(types, path, variant, is_needed)
    usual = "string" if "enum" in schema else "any"
    kinds = schema.get("type", () if "anyOf" in schema else usual)
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        yield path, kind, is_needed
    if isinstance(schema.get("items"), dict):
        yield from _walked(types, f"{path}[]", schema["items"], True)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _walked(types, f"{path}.*", schema["additionalProperties"], True)
    for name, inner in schema.get("properties", {}).items():
        needed = name in schema.get("required", ())
        yield from _walked(types, f"{path}.{name}", inner, needed)


def broken(kept: Names, present: Names) -> list[str]:
    """What scripts relied on and would not find.  A command may print a further kind of document,
    and a name that was absent at times may be always there."""
    lines = []
    for place, kind in kept.items():
        now = present.get(place, "nothing")
        is_document = not {".", "["} & set(place.removeprefix("(failure)"))
        further = set(now.split("|")) >= set(kind.split("|")) if is_document else False
        if now not in (kind, kind.removesuffix("?")) and not further:
            lines.append(f"{place}: {kind} became {now}")
    return lines


def read() -> dict[str, str]:
    """The names that are kept."""
    stored: dict[str, str] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    return stored


def main() -> None:
    argparse.ArgumentParser(description="Adds new names to json_names.json.").parse_args()
    every = {**names(document()), **read()}
    FILE.write_text(json.dumps(every, indent=0, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
