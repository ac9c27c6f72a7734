"""Replays recorded requests against a server and says where the answers differ.

Lines of the recording name what changes from run to run: `${name}` for values that an answer
defined or that the run chose, `<hex64>`, `<time>` and the like for the rest.  A validation message
is compared by the field that it names only.  Where the recorded server was wrong, `RIGHT` says what
is right instead.
"""

import base64
import http.client
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.waiting import PATIENCE_SECONDS

ADMINISTRATOR = ("AKIAIOSFDNN7EXAMPLEQ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")

_PATTERNS = {
    "hex64": r"[0-9a-f]{64}",
    "time": r"\d{9,11}",
    "rfc3339": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
    "http-date": r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT",
    "20": r"[0-9a-v]{20}",
    "signature": r"[A-Za-z0-9_-]+",
    "uuid": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "cookie": r"[A-Za-z0-9._-]+",
    "presigned-url": r"https?://[^?]+\?\S*X-Amz-Signature=[0-9a-f]{64}\S*",
    "id": r"[0-9a-v]{20}",
    "version": r"\d+\.\d+\.\d+",
    "log-page": r"log:[A-Za-z0-9_-]+",
}
# The recorded server was a development build; clients expect the three integers of a release.
_VERSIONS = {'"version": "dev"': '"version": "<version>"'}
_MARK = re.compile(r"<(" + "|".join(_PATTERNS) + r")>")
_NAME = re.compile(r"\$\{([a-z0-9]+)\}")
_FIELD = re.compile(r'parameter "([^"]+)"|Error at "/([^"]*)"')
_VALIDATION = ("has an error:", "doesn't match schema")

ANY = object()  # any body will do


def _lacking_other(recorded: dict[str, Any]) -> dict[str, Any]:
    """A listing without the path `other`."""
    results = [line for line in recorded["results"] if line["path"] != "other"]
    pagination = {**recorded["pagination"], "results": len(results)}
    return {"pagination": pagination, "results": results}


def _lacking_newest(recorded: dict[str, Any]) -> dict[str, Any]:
    """A log without its first commit."""
    results = recorded["results"][1:]
    pagination = {**recorded["pagination"], "results": len(results)}
    return {"pagination": pagination, "results": results}


def _with_empty_descriptions(recorded: dict[str, Any]) -> dict[str, Any]:
    """A list of pull requests that the generated client can read."""
    results = [{**line, "description": ""} for line in recorded["results"]]
    return {**recorded, "results": results}


def _with_access_control(recorded: dict[str, Any]) -> dict[str, Any]:
    """The state of a service with users, groups and policies."""
    return {**recorded, "login_config": {**recorded["login_config"], "RBAC": "internal"}}


# id -> what is right instead of what was recorded: status, then the JSON body (ANY: whatever; a
# function: made from what was recorded).
RIGHT: dict[str, tuple[int, Any]] = {
    "setup.state": (200, _with_access_control),
    # users, groups, policies and keys, which the recorded edition keeps to itself
    "auth.users": (200, ANY),
    "auth.groups": (200, ANY),
    "auth.policies": (200, ANY),
    "auth.user-create": (201, ANY),
    "auth.credentials": (200, ANY),
    "repo.create.bad-branch": (400, ANY),
    "object.get.presign": (302, ANY),
    "object.physical-address.presign": (200, ANY),
    # conditions and ranges as RFC 9110 has them
    "object.upload.if-none-match.other": (201, ANY),
    "object.upload.if-match": (412, ANY),
    "object.get.range-past-end": (416, ANY),
    "object.get.range-malformed": (200, ANY),
    "object.get.range-two": (200, ANY),
    "object.link.elsewhere": (400, ANY),
    "object.link.other-path": (400, ANY),
    "object.bulk-delete.unknown-branch": (404, {"message": "branch not found"}),
    "commit.unknown-branch": (404, {"message": "branch not found"}),
    "commit.get.caret-2": (404, ANY),
    "commit.get.malformed": (400, ANY),
    "mergebase": (
        200,
        {"base_commit_id": "${c3}", "destination_commit_id": "${c3}", "source_commit_id": "${d1}"},
    ),
    "pick.again": (400, ANY),
    # what follows from a link that was refused
    "diff.uncommitted": (200, _lacking_other),
    "diff.uncommitted.delimiter": (200, _lacking_other),
    "metarange.unknown": (404, ANY),
    "protection.bad-pattern": (400, ANY),
    "pull.list": (200, _with_empty_descriptions),  # clients refuse a request without one
    "usage": (200, ANY),  # other requests in another month
    "gc.prepare-commits": (501, ANY),
    "gc.prepare-uncommitted": (501, ANY),
    "metadata.object": (200, ANY),  # tables of version 2 are longer
    "import.inside-itself": (400, ANY),  # without the namespace, which may be of another repository
    "import.other-store": (400, ANY),
    "import.no-paths": (400, ANY),
    "async.commit": (202, ANY),
    "log.amount-0": (200, _lacking_newest),  # the commit of the import without paths
    "commit.metadata-null": (201, ANY),
    "delete.get": (404, {"message": "repository not found"}),
}


@dataclass
class Run:
    """One replay: what the answers have defined so far."""

    address: tuple[str, int]
    names: dict[str, str] = field(default_factory=dict)
    below: str = ""  # what stands before each path
    administrator: tuple[str, str] = ADMINISTRATOR
    right: Mapping[str, tuple[int, Any]] = field(default_factory=lambda: RIGHT)

    def fill(self, text: str) -> str:
        """`text` with its names replaced."""
        return _NAME.sub(lambda match: self.names[match[1]], text)


def lines(path: Path, swapped: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """The recorded requests, in order; each text of `swapped` stands for what it maps to."""
    texts = {**_VERSIONS, **(swapped or {})}
    places = re.compile("|".join(map(re.escape, texts)))
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(places.sub(lambda match: texts[match[0]], line))


def replay(run: Run, line: Mapping[str, Any]) -> list[str]:
    """Send one request; what is wrong with its answer."""
    try:
        status, headers, body = _send(run, line["request"])
    except KeyError as missing:
        return [f"no answer has defined {missing}"]
    expected = dict(line["response"])
    if line["id"] in run.right:
        expected = _right(run.right[line["id"]], expected)
    if status == line["response"]["status"]:
        _keep(run, line.get("keep", {}), body, headers)
    return list(_differences(run, expected, status, headers, body))


def _right(correction: tuple[int, Any], recorded: dict[str, Any]) -> dict[str, Any]:
    status, body = correction
    right: dict[str, Any] = {"status": status, "headers": {}}
    if callable(body):
        right["json"] = body(recorded["json"])
    elif body is not ANY:
        right["json"] = body
    return right


def _send(run: Run, request: Mapping[str, Any]) -> tuple[int, dict[str, str], bytes]:
    query = {name: run.fill(value) for name, value in request.get("query", {}).items()}
    target = run.below + quote(run.fill(request["path"]), safe="/~^@$")
    if query:
        target += "?" + urlencode(query)
    headers = {name: run.fill(value) for name, value in request.get("headers", {}).items()}
    body = _body(run, request, headers)
    auth = request.get("auth", run.administrator)
    if auth is not False:
        token = base64.b64encode(":".join(auth).encode()).decode()
        headers["Authorization"] = "Basic " + token
    connection = http.client.HTTPConnection(*run.address, timeout=PATIENCE_SECONDS)
    try:
        connection.request(request["method"], target, body, headers)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read()
    finally:
        connection.close()


def _body(run: Run, request: Mapping[str, Any], headers: dict[str, str]) -> bytes | None:
    if "json" in request:
        headers["Content-Type"] = "application/json"
        return run.fill(json.dumps(request["json"])).encode()
    if "text" in request:
        text: str = request["text"]
        return text.encode()
    if "base64" in request:
        return base64.b64decode(request["base64"])
    if "form" in request:
        headers["Content-Type"] = "multipart/form-data; boundary=xYzZy"
        parts = [
            f'--xYzZy\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in request["form"].items()
        ]
        return "".join([*parts, "--xYzZy--\r\n"]).encode()
    return None


def _keep(run: Run, keep: Mapping[str, str], body: bytes, headers: Mapping[str, str]) -> None:
    for name, where in keep.items():
        source, _, key = where.partition(".")
        run.names[name] = json.loads(body)[key] if source == "json" else headers[key.lower()]


def _differences(
    run: Run, expected: Mapping[str, Any], status: int, headers: Mapping[str, str], body: bytes
) -> Iterator[str]:
    if status != expected["status"]:
        yield f"status {status}, expected {expected['status']}: {body[:300]!r}"
        return
    for name, value in expected["headers"].items():
        if not _same_text(run, value, headers.get(name, "(absent)")):
            yield f"header {name}: {headers.get(name)!r}, expected {run.fill(value)!r}"
    if "json" in expected:
        found = json.loads(body)
        if not _same(run, expected["json"], found):
            yield f"body {json.dumps(found)}, expected {run.fill(json.dumps(expected['json']))}"
    if "text" in expected and not _same_text(run, expected["text"], body.decode()):
        yield f"body {body!r}, expected {expected['text']!r}"
    if "bytes" in expected and len(body) != expected["bytes"]:
        yield f"{len(body)} bytes, expected {expected['bytes']}"


def _same(run: Run, expected: Any, found: Any) -> bool:
    if isinstance(expected, dict):
        if not isinstance(found, dict) or expected.keys() != found.keys():
            return False
        if set(expected) == {"message"} and any(m in expected["message"] for m in _VALIDATION):
            return _names_the_field(expected["message"], found["message"])
        return all(_same(run, value, found[key]) for key, value in expected.items())
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(expected) == len(found)
            and all(_same(run, one, other) for one, other in zip(expected, found, strict=True))
        )
    if isinstance(expected, str) and _MARK.search(expected):
        number = isinstance(found, int) and not isinstance(found, bool)
        if number != (expected == "<time>"):
            return False
        return _same_text(run, expected, str(found))
    if isinstance(expected, str):
        return isinstance(found, str) and run.fill(expected) == found
    return type(expected) is type(found) and bool(expected == found)


def _names_the_field(expected: str, found: str) -> bool:
    match = _FIELD.search(expected)
    wanted = (match[1] or match[2]) if match else "request body"
    return wanted in found


def _same_text(run: Run, expected: str, found: str) -> bool:
    pieces: list[str] = []
    at = 0
    filled = run.fill(expected)
    for match in _MARK.finditer(filled):
        pieces += [re.escape(filled[at : match.start()]), _PATTERNS[match[1]]]
        at = match.end()
    pieces.append(re.escape(filled[at:]))
    return re.fullmatch("".join(pieces), found) is not None
