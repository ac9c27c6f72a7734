"""The parameters of the template: read from words, checked before anything is built, handed to SAM.

What CloudFormation would refuse after minutes is refused here at once, with every fault in one
message.  SAM reads `Name=value` on its command line by rules of its own, which cut JSON at the
first quote; so it gets a file.  For scripts/deploy.py.
"""

import contextlib
import difflib
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

OF_THE_LAYER = ("Runtime", "Architecture")  # variables of the command set them
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*=")
_BEGIN = re.compile(rf"\s+(?={_NAME.pattern}|--[a-z])")
_ESCAPE = re.compile(r"""\\["\\]""")  # in JSON
_UNREADABLE = re.compile(r"""\\[ "']""")  # SAM removes this backslash, even twice


class Failed(Exception):
    """A failure, with its remedy in the text."""


class _Loader(yaml.SafeLoader):
    """Reads `!Ref x` as {"!Ref": x}, and so on."""


def _tagged(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {f"!{suffix}": loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {f"!{suffix}": loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {f"!{suffix}": loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _tagged)


@functools.cache
def read(template: Path) -> dict[str, Any]:
    """A template."""
    found: dict[str, Any] = yaml.load(template.read_text(encoding="utf-8"), _Loader)
    return found


def words(text: str) -> list[str]:
    """The options and parameters in a text such as `A=1 B={"c": "d e"} --once`.

    A value ends where its JSON ends, or else where the next `Name=` or option begins: so JSON and
    spaces need no quotes.  A pair of quotes around a value is not part of it.
    """
    found: list[str] = []
    rest = text.strip()
    while rest:
        end = _end(rest)
        part, rest = rest[:end], rest[end:].lstrip()
        if part.startswith("--"):
            found += part.split()
            continue
        name, separator, value = part.partition("=")
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        found.append(name + separator + value)
    return found


def _end(text: str) -> int:
    """Where the first word of a text ends."""
    name = _NAME.match(text)
    start = name.end() if name else 0
    if text.startswith("{", start):
        with contextlib.suppress(ValueError):  # what is not JSON is refused later
            return json.JSONDecoder().raw_decode(text, start)[1]
    begin = _BEGIN.search(text, start)
    return begin.start() if begin else len(text)


def checked(
    given: Sequence[str], template: Mapping[str, Any], previous: Mapping[str, str]
) -> dict[str, str]:
    """The values in `Name=value` words.  `Name=` is the default, which switches a parameter off.

    `previous`: the values of the stack, which stay where none is given; empty if there is no stack.
    Raises `Failed` with every unknown name, every value that the template does not allow, and every
    rule that is broken.
    """
    declared = template["Parameters"]
    values, faults = _given(given, declared)
    kept = {
        name: _tidy(previous[name], each)
        for name, each in declared.items()
        if name in previous and name not in (*values, *OF_THE_LAYER)
    }
    for name, value in kept.items():
        refused = _faults(name, value, declared[name])
        faults += [f"the stack has {fault}; give a new value" for fault in refused]
    values |= {name: value for name, value in kept.items() if value != previous[name]}
    if not faults:
        faults = broken_rules(template, {**previous, **values})
        faults += _protection_too_early(values, previous)
    if faults:
        raise Failed("nothing was deployed:\n  " + "\n  ".join(faults))
    return values


def _given(words: Sequence[str], declared: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    values: dict[str, str] = {}
    faults: list[str] = []
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or name not in declared or name in OF_THE_LAYER or name in values:
            faults.append(_misplaced(word, declared, values))
            continue
        values[name] = _tidy(value or _default(declared[name]), declared[name])
        faults += _faults(name, values[name], declared[name])
        faults += _faults_of_sam(name, values[name])
    return values, faults


def in_force(template: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, str]:
    """Every parameter: its value, or its default."""
    declared = template["Parameters"]
    return {name: values.get(name, _default(each)) for name, each in declared.items()}


def written(values: Mapping[str, str], file: Path) -> str:
    """Write the values as SAM reads them, into a `.yaml`.  Returns what its option
    --parameter-overrides takes."""
    escaped = {
        name: _ESCAPE.sub(lambda found: f"\\u{ord(found[0][1]):04x}", value)
        for name, value in values.items()
    }
    file.write_text(json.dumps(escaped, ensure_ascii=False), encoding="utf-8")
    return f"file://{file.resolve()}"


def broken_rules(template: Mapping[str, Any], values: Mapping[str, str]) -> list[str]:
    """The descriptions of the template's rules that these values break, each once; and of one that
    no template can have."""
    refs = in_force(template, values)
    broken: dict[str, None] = {}
    for rule in template["Rules"].values():
        if _holds(rule.get("RuleCondition", {"!Equals": ["", ""]}), refs):
            for each in rule["Assertions"]:
                if not _holds(each["Assert"], refs):
                    broken[each["AssertDescription"]] = None
    at_once = template["Mappings"]["AtOnce"][refs["Concurrency"]]["Jobs"]
    if 0 < int(refs["WorkerReserved"]) < at_once:  # a rule of a template compares no numbers
        broken[
            f"WorkerReserved={refs['WorkerReserved']} is below the {at_once} jobs of Concurrency="
            f"{refs['Concurrency']}: messages would fail for want of a function."
        ] = None
    return list(broken)


def _holds(expression: Any, refs: Mapping[str, str]) -> bool:
    ((function, operands),) = expression.items()
    match function:
        case "!And":
            return all(_holds(each, refs) for each in operands)
        case "!Or":
            return any(_holds(each, refs) for each in operands)
        case "!Not":
            return not _holds(operands[0], refs)
        case "!Equals":
            left, right = (
                each if isinstance(each, str) else refs[each["!Ref"]] for each in operands
            )
            return left == right
        case "Fn::EachMemberEquals":
            return all(each == operands[1] for each in refs[operands[0]["!Ref"]].split(","))
    raise AssertionError(f"a rule has a function that is not known here: {function}")


def _protection_too_early(values: Mapping[str, str], previous: Mapping[str, str]) -> Iterator[str]:
    whole = {**previous, **values}
    makes_table = not whole.get("ExistingTable") and (
        not previous or previous.get("ExistingTable", "") != ""
    )
    if makes_table and whole.get("TableDeletionProtection") == "on":
        yield (
            "TableDeletionProtection=on must wait until the stack has made its table, because a "
            "deployment that is rolled back deletes it: deploy with TableDeletionProtection=off, "
            "then once more with on"
        )


def _default(declared: Mapping[str, Any]) -> str:
    return str(declared.get("Default", ""))


def _misplaced(word: str, declared: Mapping[str, Any], values: Mapping[str, str]) -> str:
    name, separator, _ = word.partition("=")
    if not separator:
        return f"{word!r} is not Name=value"
    if name in values:
        return f"{name} is given twice"
    if name in OF_THE_LAYER:
        return f"{name} is set by {name.upper()}=, because the layer is built for it"
    close = difflib.get_close_matches(name, declared, 1)
    return f"{name} is not a parameter of the template" + (f"; {close[0]} is" if close else "")


def _faults(name: str, value: str, declared: Mapping[str, Any]) -> Iterator[str]:
    allowed = [str(each) for each in declared.get("AllowedValues", ())]
    if allowed and value not in allowed:
        yield f"{name}={value} is not one of {', '.join(allowed)}"
    if declared["Type"] == "Number":
        yield from _number_faults(name, value, declared)
    if not _matches(value, declared):
        remedy = declared.get("ConstraintDescription", f"must match {declared['AllowedPattern']}")
        yield f"{name}={value:.200} {remedy}"


def _matches(value: str, declared: Mapping[str, Any]) -> bool:
    is_list = declared["Type"] == "CommaDelimitedList"
    members = [each.strip() for each in value.split(",")] if is_list else [value]
    pattern = declared.get("AllowedPattern", "(?s:.*)")
    return all(re.fullmatch(pattern, each) for each in members)


def _tidy(value: str, declared: Mapping[str, Any]) -> str:
    """Without the blanks beside commas, if the template does not take them."""
    return value if _matches(value, declared) else re.sub(r"\s*,\s*", ",", value.strip())


def _faults_of_sam(name: str, value: str) -> Iterator[str]:
    if value.startswith("{"):
        try:
            json.loads(value)
        except ValueError as error:
            yield f"{name}={value:.200} is not JSON: {error}"
    elif _UNREADABLE.search(value) or value.startswith(("'", '"')):
        yield f"{name}={value:.200} begins with a quote, or has a backslash before one or a space"


def _number_faults(name: str, value: str, declared: Mapping[str, Any]) -> Iterator[str]:
    if not re.fullmatch(r"[0-9]{1,15}", value):
        yield f"{name}={value:.200} is not a number"
        return
    least, most = declared.get("MinValue", 0), declared.get("MaxValue", 10**15)
    if not least <= int(value) <= most:
        yield f"{name}={value} is not between {least} and {most}"
