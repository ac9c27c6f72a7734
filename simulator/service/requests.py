"""Requests drawn from the OpenAPI document, right and broken, and the judgement of every answer.

Names come from small pools, so most requests find what they name.  An answer comes within
`ANSWER_SECONDS`.  Its status is below 500 (or 501: not served here); from 400 on it is JSON with a
message, below it has a status and the shape that the document declares.
"""

import http.client
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote

import msgspec

from graveler.api.answers import MediaType
from graveler.api.operations import OPERATIONS
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


ANSWER_SECONDS = 120
NOT_SERVED = 501
_SHOWN = 300


class Fuzzer:
    """One kept connection and its results.  `wrong`: every answer that broke a rule.  `statuses`:
    how often each status was answered."""

    def __init__(self, host: str, port: int, authorization: str) -> None:
        self.wrong: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.operations: Counter[str] = Counter()  # with a status below 400
        self._authorization = authorization
        self._connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)

    def close(self) -> None:
        self._connection.close()

    def run(self, random: Random, count: int, enough: Callable[[], bool] = lambda: False) -> None:
        """Create the repositories, then send `count` requests, or fewer if `enough` returns
        true."""
        stream = Requests(random)
        self.send_all(stream.ground())
        for _ in range(count):
            if enough():
                break
            self.send(stream.draw())

    def send_all(self, requests: Iterable[Request]) -> None:
        for request in requests:
            self.send(request)

    def send(self, request: Request) -> None:
        """Send one request and judge its answer."""
        headers = dict(request.headers)
        if request.authorized:
            headers["Authorization"] = self._authorization
        if request.route.body:
            headers["Content-Type"] = "application/json"
        try:
            self._connection.request(request.route.method, request.target, request.body, headers)
            answer = self._connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            self._found(request, f"no answer: {type(error).__name__}: {error}")
            return
        self.statuses[answer.status] += 1
        if answer.status < 400:
            self.operations[request.route.operation] += 1
        fault = _judged(request, answer.status, answer.headers.get_content_type(), raw)
        if fault:
            self._found(request, f"{fault}: status={answer.status} body={raw[:_SHOWN]!r}")

    def _found(self, request: Request, fault: str) -> None:
        self.wrong.append(
            f"{request.route.method} {request.target[:_SHOWN]} headers={dict(request.headers)} "
            f"body={request.body[:_SHOWN]!r}: {fault}"
        )


def _judged(request: Request, status: int, kind: str, raw: bytes) -> str:
    """What is wrong with an answer; "" if nothing is."""
    route = request.route
    if status >= 500 and status != NOT_SERVED:
        return "failed"
    if route.method == "HEAD":
        return "body of a HEAD" if raw else ""
    if status >= 400 and status not in route.answers:
        return _judged_message(kind, raw)
    if status not in route.answers and status < 400:
        return "status that the document does not name"
    return _judged_shape(kind, raw, _DECLARED[route.operation, status])


def _judged_message(kind: str, raw: bytes) -> str:
    if kind != "application/json":
        return f"error that is not JSON: {kind}"
    try:
        message = json.loads(raw).get("message")
    except (ValueError, AttributeError):
        return "error that is not a JSON object"
    return "" if isinstance(message, str) and message else "error without a message"


def _judged_shape(kind: str, raw: bytes, declared: Any) -> str:
    if isinstance(declared, MediaType):
        return ""
    if kind != "application/json":
        return f"answer that is not JSON: {kind}"
    try:
        msgspec.json.decode(raw, type=declared)
    except ValueError as error:
        return f"answer of another shape: {error}"
    return ""


_DECLARED = {
    (operation.name, status): kind
    for operation in OPERATIONS
    for status, kind in operation.answers.items()
}
