"""YAML as plain values: mappings, lists, texts, numbers, booleans and null.

Only these values can come out, whatever the text says: no object is constructed.  The text, the
depth, the aliases and the number of values are bounded before memory is used for them; an alias
counts as everything that it stands for.  `on`, `off`, `yes` and `no` are texts, as in YAML 1.2.
Every text can be encoded in UTF-8, and every number is finite, so all of it can be sent as JSON.
The only module that imports the YAML library.  For this folder.
"""

from math import isfinite
from typing import Any, Final

import yaml

from graveler.core import limits
from graveler.core.errors import Invalid

_PREFIX: Final = "tag:yaml.org,2002:"
_BOOLEANS: Final = {"true": True, "false": False}


def parse(text: bytes) -> Any:
    """The value of a YAML document.  Raises `Invalid`, whose text says what is wrong and where.

    Time: linear in the length of the text, which is at most `limits.action_file_length_bytes_max`.
    """
    if len(text) > limits.action_file_length_bytes_max:
        raise Invalid(f"it must have at most {limits.action_file_length_bytes_max} bytes")
    try:
        decoded = text.decode("utf-8")
        _check_bounds(decoded)
        node = yaml.compose(decoded, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise Invalid("it is not UTF-8") from error
    except yaml.YAMLError as error:
        raise Invalid(f"it is not YAML: {_where(error)}") from error
    except (ValueError, ArithmeticError, RecursionError) as error:
        # The library checks neither the code of an escape nor the length of a version.
        raise Invalid("it is not YAML: a number is out of range, or the depth") from error
    return None if node is None else _Values().of(node, 1)


def _check_bounds(text: str) -> None:
    """Count before a tree is built: depth, aliases, nodes and documents."""
    depth = aliases = nodes = documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        _check(depth, limits.action_yaml_depth_max, "levels")
        _check(aliases, limits.action_yaml_aliases_max, "aliases")
        _check(nodes, limits.action_yaml_nodes_max, "values")
        _check(documents, 1, "document")


def _check(count: int, count_max: int, unit: str) -> None:
    if count > count_max:
        raise Invalid(f"it must have at most {count_max} {unit}")


class _Values:
    """Makes values from nodes, and counts them."""

    def __init__(self) -> None:
        self._count = 0

    def of(self, node: yaml.Node, depth: int) -> Any:
        """The value of a node.  An alias of a node that contains it is too deep."""
        self._count += 1
        _check(self._count, limits.action_yaml_nodes_max, "values")
        _check(depth, limits.action_yaml_depth_max, "levels")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == _PREFIX + "seq":
            return [self.of(child, depth + 1) for child in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == _PREFIX + "map":
            return self._mapping(node, depth)
        raise Invalid(f"tag is not supported: {node.tag!r:.80} {_line(node)}")

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, child in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                raise Invalid(f"key must be a text: {_line(key_node)}")
            _check_encodable(key, key_node)
            if key in values:
                raise Invalid(f"key stands twice: {key!r:.80} {_line(key_node)}")
            values[key] = self.of(child, depth + 1)
        return values


def _scalar(node: yaml.ScalarNode) -> Any:
    text: str = node.value
    _check_encodable(text, node)
    kind = node.tag.removeprefix(_PREFIX)
    if kind == "null":
        return None
    if kind == "bool":
        return _BOOLEANS.get(text.lower(), text)
    if kind in ("int", "float"):
        return _number(text)
    if kind in ("str", "timestamp", "value"):
        return text
    raise Invalid(f"tag is not supported: {node.tag!r:.80} {_line(node)}")


def _check_encodable(text: str, node: yaml.Node) -> None:
    """Escapes such as `\\ud800` name halves of characters, which no other part could store."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"text is not Unicode: {_line(node)}") from error


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if isfinite(number) else text
    return text


def _line(node: yaml.Node) -> str:
    return f"line={node.start_mark.line + 1}"


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "unreadable"
    return f"{problem}" if mark is None else f"{problem} line={mark.line + 1}"
