"""Reads the XML of request bodies: bounded, without document types, without entities.

    parse(b"<Delete><Quiet>true</Quiet></Delete>", "Delete", bounds).value("Quiet") == "true"

The parser is expat of the standard library.  A body with a document type is refused where it
begins, so no entity is ever declared, expanded or fetched.  Each operation bounds the bytes and the
elements of its bodies, and only the first element may have attributes: time follows elements and
attributes much more than bytes.  The length of tags is checked before the parser begins, because it
reads all attributes of a tag before it tells of the tag.  The encoding is UTF-8, whatever the body
declares.  Namespaces are left out, because some clients write one and some write none.  Pure.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn
from xml.parsers import expat

from graveler import limits
from graveler.gateway.errors import S3Error

_SEPARATOR: Final = " "
# No tag is long: from each "<" it is at most so far to the next "<" or ">", and that is where a tag
# ends, because values with either are refused.  ("<!" begins no tag.)  Both read a body once.
_LONG_TAG: Final = re.compile(rb"<[^<>]{%d}" % limits.xml_tag_length_max)
_TAG_WITH_MORE: Final = re.compile(rb"""<(?!!|(?:[^<>"']++|"[^<>"]*+"|'[^<>']*+')*+>)""")


class Bounds(NamedTuple):
    """How long a body may be, and how many elements it may have."""

    bytes_max: int
    elements_max: int


@dataclass(frozen=True, slots=True)
class Node:
    """An element: its name without a namespace, its own text, its children in order."""

    name: str
    text: str = ""
    children: "tuple[Node, ...]" = ()

    def every(self, name: str) -> "Iterator[Node]":
        """The children with a name."""
        return (child for child in self.children if child.name == name)

    def value(self, name: str, default: str = "") -> str:
        """The text of the one child with a name.  Raises `S3Error` if there are several."""
        values = [child.text for child in self.every(name)]
        if len(values) > 1:
            raise S3Error("MalformedXML")
        return values[0] if values else default


@dataclass(slots=True)
class _Element:
    """An element that is not closed yet."""

    name: str
    pieces: list[str] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)


class _Builder:
    """Makes nodes of the events of the parser."""

    def __init__(self, elements_max: int) -> None:
        self._open = [_Element("")]
        self._left = elements_max
        self._namespaces_left = limits.xml_namespaces_max

    def start(self, name: str, attributes: object) -> None:
        depth = len(self._open)
        self._left -= 1
        if self._left < 0 or depth > limits.xml_depth_max or (attributes and depth > 1):
            raise S3Error("MalformedXML")
        self._open.append(_Element(name.rpartition(_SEPARATOR)[2]))

    def declare(self, _prefix: str | None, _uri: str | None) -> None:
        self._namespaces_left -= 1
        if self._namespaces_left < 0:
            raise S3Error("MalformedXML")

    def end(self, _name: str) -> None:
        element = self._open.pop()
        node = Node(element.name, "".join(element.pieces), tuple(element.children))
        self._open[-1].children.append(node)

    def text(self, text: str) -> None:
        self._open[-1].pieces.append(text)

    def refuse(self, *_declaration: Any) -> NoReturn:
        raise S3Error("MalformedXML")

    @property
    def root(self) -> Node:
        return self._open[0].children[0]


def parse(body: bytes, root: str, bounds: Bounds) -> Node:
    """The document of a body, whose first element must be `root`.

    Raises `S3Error`: MaxMessageLengthExceeded for a body that is too long; MalformedXML for
    anything that is no such document, too deep, or of too many elements, and for tags that are too
    long or have `>` in an attribute.
    """
    if len(body) > bounds.bytes_max:
        raise S3Error("MaxMessageLengthExceeded")
    if _LONG_TAG.search(body) or _TAG_WITH_MORE.search(body):
        raise S3Error("MalformedXML")
    builder = _Builder(bounds.elements_max)
    parser = expat.ParserCreate("utf-8", _SEPARATOR)
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.StartNamespaceDeclHandler = builder.declare
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.refuse
    parser.EntityDeclHandler = builder.refuse
    parser.ProcessingInstructionHandler = builder.refuse
    try:
        body.decode("utf-8")  # otherwise a byte order mark would choose UTF-16
        parser.Parse(body, True)
    except (expat.ExpatError, UnicodeDecodeError) as error:
        raise S3Error("MalformedXML") from error
    node = builder.root
    if node.name != root:
        raise S3Error("MalformedXML")
    return node
