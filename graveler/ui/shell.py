"""The paths of the page, and the headers that bound what it can do.

    /  /repositories…  /auth/…  /setup ──► the shell: one document, which reads its path
    /_ui/<digest>/…                    ──► its files

The shell asks no store and needs no credentials; what it shows comes from the API.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from graveler.core.records import ABSENT, Absent
from graveler.http.answers import NOSNIFF, Answer, Headers
from graveler.ui import assets
from graveler.ui.assets import PREFIX, SHELL, STATIC

OPEN_PAGES: Final = ("/repositories", "/auth", "/setup", "/login")
_DEPTH_MAX: Final = 32  # of a path that is answered with the shell
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

    def __init__(self, folder: Path = STATIC, storage_origins: Sequence[str] = ()) -> None:
        self._folder = folder
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

    def answer(self, path: str, headers: Mapping[bytes, bytes]) -> Answer | Literal[Absent.ABSENT]:
        """The answer to a GET of `path`, below the place where the service is mounted; `ABSENT` if
        it is no path of the page, or if the page is not built."""
        if path.startswith(PREFIX):
            return assets.asset(self._bundle, path, headers)
        if not _is_page(path) or not self._bundle.is_built:
            return ABSENT
        depth = path.count("/") - 1
        tag = f"{self._bundle.digest}-{depth}"
        return assets.chosen(self._shell(depth), tag, self._headers, headers)

    def _shell(self, depth: int) -> tuple[bytes, bytes]:
        """The document for a path with this many folders.  Its base is relative, so that a proxy
        may serve it below any path."""
        known = self._shells.get(depth)
        if known is None:
            base = ("../" * depth or "./").encode()
            where = b'="_ui/%b/' % self._bundle.digest.encode()
            document = self._bundle.files[SHELL][0].replace(b'="./', where)
            document = document.replace(b"<head>", b'<head><base href="%b" />' % base, 1)
            known = self._shells[depth] = (document, assets.compressed(document))
        return known


def _is_page(path: str) -> bool:
    if path == "/":
        return True
    if path.count("/") > _DEPTH_MAX:
        return False
    return any(path == page or path.startswith(page + "/") for page in OPEN_PAGES)
