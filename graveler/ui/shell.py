"""The paths of the page, and the headers that bound what it can do.

    /  /repositories…  /auth/…  /setup ──► the shell: one document, which reads its path
    /_ui/<digest>/…                    ──► its files

The shell asks no store and needs no credentials; what it shows comes from the API.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, quote

from graveler.core.records import ABSENT, Absent
from graveler.http.answers import NOSNIFF, Answer, Headers
from graveler.ui import assets
from graveler.ui.assets import PREFIX, SHELL, STATIC

OPEN_PAGES: Final = ("/repositories", "/auth", "/setup", "/login")
_DEPTH_MAX: Final = 32  # of a path that is answered with the shell
_QUERY_MAX, _FIELDS_MAX = 4096, 32
_NO_CACHE: Final = (b"cache-control", b"no-cache")
_HTML: Final = (b"content-type", b"text/html; charset=utf-8")


def policy(storage_origins: Sequence[str] = ()) -> bytes:
    """The Content-Security-Policy of the page.  `storage_origins`: where signed URLs lead, if that
    is not the service itself."""
    storage = "".join(f" {origin}" for origin in storage_origins)
    rules = (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        f"img-src 'self' blob:{storage}",
        f"connect-src 'self'{storage}",
        "worker-src 'self'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types graveler",
    )
    return "; ".join(rules).encode("ascii")


class Page:
    """Answers the paths of the page.  Nothing is read before the first of them."""

    def __init__(
        self, folder: Path = STATIC, storage_origins: Sequence[str] = (), dollars: str = ""
    ) -> None:
        """`storage_origins`: as for `policy`.  `dollars`: what requests cost, as text."""
        self._folder = folder
        self._dollars = dollars
        self._headers: Headers = (
            _HTML,
            NOSNIFF,
            _NO_CACHE,
            (b"content-security-policy", policy(storage_origins)),
            (b"x-frame-options", b"DENY"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
        )
        self._shells: dict[int, tuple[bytes, bytes]] = {}

    @cached_property
    def _bundle(self) -> assets.Bundle:
        return assets.load(self._folder)

    def answer(
        self, path: str, headers: Mapping[bytes, bytes], query: str = ""
    ) -> Answer | Literal[Absent.ABSENT]:
        """The answer to a GET of `path`, below the place where the service is mounted; `ABSENT` if
        it is no path of the page, or if the page is not built."""
        if path.startswith(PREFIX):
            return assets.asset(self._bundle, path, headers)
        if not _is_page(path) or not self._bundle.is_built:
            return ABSENT
        depth = path.count("/") - 1
        tag = "-".join((self._bundle.digest, str(depth), *self._dollars.split()))
        links = self._links(path, query, "../" * depth)
        own = (*self._headers, (b"link", links)) if links else self._headers
        return assets.chosen(self._shell(depth), tag, own, headers)

    def _links(self, path: str, query: str, base: str) -> bytes:
        """What the page will ask for first, so that the browser asks while it reads the script."""
        bundle = self._bundle
        fields = _fields(query)
        names = bundle.modules.get(_module(path, fields), ())
        links = [f"<{base}_ui/{bundle.digest}/{name}>; rel=modulepreload" for name in names]
        asked = _first_request(path, fields)
        if asked:
            links.append(f"<{base}api/v1{asked}>; rel=preload; as=fetch; crossorigin")
        return ", ".join(links).encode("ascii")

    def _shell(self, depth: int) -> tuple[bytes, bytes]:
        """The document for a path with this many folders.  Its base is relative, so that a proxy
        may serve it below any path."""
        known = self._shells.get(depth)
        if known is None:
            base = ("../" * depth or "./").encode()
            where = b'="_ui/%b/' % self._bundle.digest.encode()
            document = self._bundle.files[SHELL][0].replace(b'="./', where)
            head = b'<head><base href="%b" />' % base
            if self._dollars:
                head += b'<meta name="dollars" content="%b" />' % self._dollars.encode("ascii")
            document = document.replace(b"<head>", head, 1)
            known = self._shells[depth] = (document, assets.compressed(document))
        return known


def _is_page(path: str) -> bool:
    if path == "/":
        return True
    if path.count("/") > _DEPTH_MAX:
        return False
    return any(path == page or path.startswith(page + "/") for page in OPEN_PAGES)


# The modules of pages whose name is not that of the path.
_MODULES: Final = {"object": "file", "settings": "settings/index"}
_DETAILS: Final = {"commits": "commit", "pulls": "pull", "jobs": "job", "actions": "run"}
_BY_FIELD: Final = {("objects", "showChanges"): "changes", ("compare", "file"): "filediff"}
# By page and names of fields: the request that shows its first rows, as the page writes it.
_ASKED: Final[Mapping[tuple[str, ...], str]] = {
    ("branches",): "branches?amount=50",
    ("objects", "ref"): "refs/{ref}/objects/ls?amount=60&delimiter=%2F&user_metadata=false",
    ("objects", "path", "ref"): (
        "refs/{ref}/objects/ls?prefix={path}&amount=60&delimiter=%2F&user_metadata=false"
    ),
    ("objects", "ref", "showChanges"): "branches/{ref}/diff?amount=100&delimiter=%2F",
    ("object", "path", "ref"): "refs/{ref}/objects/stat?path={path}",
    ("compare", "compare", "ref"): (
        "refs/{ref}/diff/{compare}?amount=100&delimiter=%2F&type=three_dot"
    ),
    ("commits", "ref"): "graph?{heads}&amount=60",
    ("storage", "ref"): "refs/{ref}/objects/summary?amount=1000",
}
_PLAIN: Final = re.compile(r"[\w.-]*", re.ASCII)  # what a browser writes as it is


def _fields(query: str) -> dict[str, str]:
    """The fields of a query; none of one that no page writes."""
    try:
        return dict(parse_qsl(query[:_QUERY_MAX], max_num_fields=_FIELDS_MAX))
    except ValueError:
        return {}


def _module(path: str, fields: Mapping[str, str]) -> str:
    """The name of the module that shows a path; a name of none if it is the entry's."""
    _, first, *rest = path.split("/")
    if first == "auth":
        return "entry" if rest[:1] == ["login"] else "access/index"
    if first in ("setup", "login"):
        return "entry"
    if len(rest) < 2:
        return ""
    _, page, *inside = rest
    for (of, field), module in _BY_FIELD.items():
        if of == page and field in fields:
            return module
    is_detail = page in _DETAILS and inside and inside[0] != "create"
    return _DETAILS[page] if is_detail else _MODULES.get(page, page)


def _first_request(path: str, fields: Mapping[str, str]) -> str:
    """The request of the API that shows the first rows, as the page writes it; empty: not known."""
    if path in ("/", "/repositories"):
        return "" if fields else "/repositories?amount=100"
    _, first, repo, page, *more = (*path.split("/"), "", "")
    asked = _ASKED.get((page, *sorted(fields)), "")
    ref, folder = fields.get("ref", ""), fields.get("path", "")
    heads = list(filter(None, ref.split(","))) if page == "commits" else [ref]
    names = (repo, *heads, fields.get("compare", ""), *folder.split("/"))
    is_known = asked and heads and first == "repositories" and not any(more)
    if not is_known or not all(map(_PLAIN.fullmatch, names)):
        return ""
    values = {name: quote(value, safe="") for name, value in fields.items()}
    values["heads"] = "&".join(f"heads={head}" for head in heads)
    return f"/repositories/{repo}/{asked.format_map(values)}"
