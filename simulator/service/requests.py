"""Requests drawn from the OpenAPI document, with valid or broken parameters and bodies.

    stream = Requests(random)
    stream.draw()      one request to any operation
    stream.ground()    the requests that create the repositories which most requests name

Names come from small pools, so most requests find what they name, and operations follow one another
in any order.  A drawn value usually follows its schema, and is otherwise broken in
some way.  For tests only.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote

from simulator.service.described import (
    API_PREFIX,
    Described,
    Parameter,
    by_name,
    described,
    resolved,
)

REPOSITORIES = ("fuzz-a", "fuzz-b", "fuzz-c")
BRANCHES = ("main", "dev", "b2")
_BROKEN_SHARE = 0.12  # of values
_RARE = {"deleteRepository": 0.02, "setup": 0.2, "createPresignMultipartUpload": 0.2}
_PATHS = ("a", "a/b", "a/c", "d/e/f", "ä/ö", "x y", "a//b", "-", "~", "z" * 900)
_TAGS = ("v1", "v2.0", "t")
_REFS = (*BRANCHES, *_TAGS, "main~", "main^", "main@", "dev~2", "main$", "HEAD", "0" * 64)
_HOSTILE = (
    "", " ", ".", "..", "../../etc/passwd", "/", "//", "a\0b", "\r\nX: y", "%", "%2e%2e", "$", "~1",
    "*", "?", "#", "ä", "𝄞", "\u202e", "null", "true", "-1", "0", "9" * 40, "1e9", "NaN", "'",
    '"', "<script>", "{{7*7}}", "x" * 300, "x" * 1_025, "x" * 3_000, "main@{1}", "a..b", "\\",
)  # fmt: skip
_HEADERS = ("*", '"abc"', "", "W/x", "bytes=0-0", "bytes=-1", "bytes=9-2", "bytes=", "x" * 200, "ä")
_NUMBERS = (0, 1, -1, 2, 7, 64, 65, 1_000, 1_001, 1 << 31, 1 << 63, -(1 << 63), 10**30)
_STRANGE: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"": {}}, [None])

Draw = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send.  `target` is quoted already, and may be quoted wrongly."""

    route: Described
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    authorized: bool = True


class Requests:
    """A stream of requests, determined by its generator."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._serial = random.randrange(1 << 40)
        self._routes = list(described())
        self._weights = [_RARE.get(route.operation, 1.0) for route in self._routes]
        self._pools: Mapping[str, Sequence[str]] = {
            "repository": REPOSITORIES,
            "branch": BRANCHES,
            "destinationBranch": BRANCHES,
            "tag": _TAGS,
            "id": _TAGS,
            "path": _PATHS,
            "dest_path": _PATHS,
            "src_path": _PATHS,
            "prefix": ("", "a", "a/", "d/e"),
            "after": ("", "a", "m", "z"),
            "delimiter": ("", "/", "b"),
            "meta_range": ("0" * 64, "ab" * 32),
            "range": ("0" * 64, "ab" * 32),
            "default_branch": ("main",),
            "strategy": ("", "source-wins", "dest-wins"),
            "since": ("2020-01-01T00:00:00Z", "2999-01-01T00:00:00+02:00"),
            "content_type": ("", "text/plain"),
            "access_key_id": ("AKIA", "x"),
            "physical_address": ("data/x", "local://fuzz-a/data/x", "s3://b/k"),
            "source_metarange": ("", "0" * 64),
            "Range": ("bytes=0-0", "bytes=0-", "bytes=-2", "bytes=0-1,3-4"),
        } | dict.fromkeys(
            ("ref", "sourceRef", "leftRef", "rightRef", "commitId", "source", "src_ref", "stop_at"),
            _REFS,
        )

    def draw(self) -> Request:
        """A request to any operation, with any values."""
        (route,) = self._random.choices(self._routes, self._weights)
        target = API_PREFIX + self._path(route) + self._query(route)
        headers = {
            each.name: self._header(each)
            for each in route.of_place("header")
            if self._random.random() < 0.3
        }
        return Request(
            route, target, headers, self._body(route), self._random.random() > _BROKEN_SHARE / 4
        )

    def ground(self) -> Iterator[Request]:
        """The requests that create every repository of the pool, its branches and some content."""
        rows = by_name()
        for name in REPOSITORIES:
            yield _sent(rows["createRepository"], {}, self._creation(name))
            for branch in BRANCHES[1:]:
                given = {"name": branch, "source": "main"}
                yield _sent(rows["createBranch"], {"repository": name}, given)
            for path in _PATHS[:4]:
                route, where = rows["uploadObject"], {"repository": name, "branch": "main"}
                target = API_PREFIX + route.path.format_map(where) + "?path=" + quote(path)
                yield Request(route, target, {}, b"content")
            yield _sent(rows["commit"], {"repository": name, "branch": "main"}, {"message": "m"})
            yield _sent(rows["createTag"], {"repository": name}, {"id": "v1", "ref": "main"})

    # ---- parts ----

    def _path(self, route: Described) -> str:
        path = route.path
        for name in route.path_parameters:
            value = quote(self._text(name), safe="~^@$") if self._kept() else self._misquoted()
            path = path.replace("{" + name + "}", value, 1)
        return path

    def _query(self, route: Described) -> str:
        pieces = []
        for each in route.of_place("query"):
            if self._random.random() > (0.97 if each.required else 0.4):
                continue
            value = self._parameter(each)
            pieces.append(f"{each.name}={value}")
            if not self._kept():
                pieces.append(self._random.choice((f"{each.name}={value}", "junk", "=", "&", "%")))
        return "?" + "&".join(pieces) if pieces else ""

    def _parameter(self, each: Parameter) -> str:
        if not self._kept():
            return self._misquoted()
        kind = each.schema.get("type", "string")
        if kind == "integer":
            return str(self._random.choice(_NUMBERS[:9]))
        if kind == "boolean":
            return self._random.choice(("true", "false", "1", "0", "True"))
        return quote(self._random.choice(each.schema.get("enum", ("",))) or self._text(each.name))

    def _header(self, each: Parameter) -> str:
        if self._kept() and each.name in self._pools:
            return self._random.choice(self._pools[each.name])
        return self._random.choice(_HEADERS).encode().decode("latin-1")

    def _body(self, route: Described) -> bytes:
        if route.operation == "uploadObject":
            return self._random.randbytes(self._random.choice((0, 1, 100, 5_000)))
        if not route.body:
            return b"" if self._kept() else b"{}"
        if route.operation == "createRepository" and self._kept():
            return _encoded(self._creation(self._random.choice(REPOSITORIES)))
        raw = _encoded(self._value(route.body, ""))
        if self._kept():
            return raw
        at = self._random.randrange(len(raw) + 1)
        return self._random.choice(
            (b"", b"[" * 5_000, b"\xff", raw[:at], raw[:at] + b'"\x00{' + raw[at:], b"null", b"7")
        )

    def _creation(self, name: str) -> dict[str, Any]:
        self._serial += 1
        return {"name": name, "storage_namespace": f"local://fuzz/{name}-{self._serial}/"}

    def _value(self, schema: Mapping[str, Any], name: str) -> Any:
        """A value that follows its schema, or not."""
        schema = resolved(schema)
        if not self._kept() and self._random.random() < 0.3:
            return self._random.choice(_STRANGE)
        kind = schema.get("type", "string")
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return [self._value(schema["items"], name) for _ in range(self._random.randrange(4))]
        if kind == "integer":
            low, high = schema.get("minimum", 0), schema.get("maximum", 1 << 40)
            kept = self._random.choice((low, min(low + 1, high), high))
            return kept if self._kept() else self._random.choice(_NUMBERS)
        if kind == "boolean":
            return self._random.random() < 0.3
        return self._random.choice(schema.get("enum", ("",))) or self._text(name)

    def _object(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        required = schema.get("required", ())
        found = {
            name: self._value(each, name)
            for name, each in schema.get("properties", {}).items()
            if self._random.random() < (0.98 if name in required else 0.4)
        }
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping):  # False: no others are allowed
            for _ in range(self._random.randrange(3)):
                found[self._text("key")] = self._value(others, "value")
        return found

    def _text(self, name: str) -> str:
        if self._kept():
            return self._random.choice(self._pools.get(name, ("x", "y", "message", "a/b")))
        return self._random.choice(_HOSTILE)

    def _misquoted(self) -> str:
        hostile = self._random.choice(_HOSTILE)
        return self._random.choice((quote(hostile, safe=""), "%ff", "%zz", "%", "%00", "%c3%28"))

    def _kept(self) -> bool:
        return self._random.random() >= _BROKEN_SHARE


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def _sent(route: Described, where: Mapping[str, str], body: Mapping[str, Any]) -> Request:
    return Request(route, API_PREFIX + route.path.format_map(where), {}, _encoded(body))
