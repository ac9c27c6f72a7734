"""The files of the page, read once, at the first request that wants one.

They are immutable: their address has the digest of all of them.  The API reads none of them.
"""

import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from graveler.http.answers import BY_CODING, GZIP, NOSNIFF, Answer, Headers, takes_gzip

STATIC: Final = Path(__file__).parent / "static"
SHELL: Final = "index.html"
MANIFEST: Final = "manifest.json"  # of Vite: the files of each module; not served
_ENTRY: Final = "index.html"
_PAGES: Final = "src/pages/"
PREFIX: Final = "/_ui/"
_DIGEST_LENGTH: Final = 16
_KINDS: Final = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
}
_IMMUTABLE: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_SAME_ORIGIN: Final = (b"cross-origin-resource-policy", b"same-origin")
_POLICY: Final = b"content-security-policy"
_INERT: Final = (_POLICY, b"default-src 'none'; sandbox")  # if opened alone
_WORKER: Final = (_POLICY, b"default-src 'none'; script-src 'self'")  # a script may be a worker


class Bundle(NamedTuple):
    """The files by name, each as it is and compressed, and the digest of all."""

    digest: str
    files: Mapping[str, tuple[bytes, bytes]]
    modules: Mapping[str, tuple[str, ...]]  # by page: the files that it needs beside the entry's

    @property
    def is_built(self) -> bool:
        """Whether there is a page at all."""
        return SHELL in self.files


def load(folder: Path = STATIC) -> Bundle:
    """The files of a folder; none if the folder does not exist."""
    names = sorted(path for path in folder.rglob("*") if path.suffix in _KINDS)
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in names}
    whole = hashlib.sha256()
    for name, content in contents.items():
        whole.update(b"%d %b %d " % (len(name), name.encode(), len(content)) + content)
    files = {name: (content, compressed(content)) for name, content in contents.items()}
    return Bundle(whole.hexdigest()[:_DIGEST_LENGTH], files, _modules(folder / MANIFEST))


def _modules(manifest: Path) -> dict[str, tuple[str, ...]]:
    """The files of each page by the name of its module; none if there is no manifest."""
    if not manifest.is_file():
        return {}
    known = json.loads(manifest.read_bytes())

    def files_of(name: str, seen: set[str]) -> set[str]:
        if name in seen:
            return set()
        seen.add(name)
        inside = [files_of(each, seen) for each in known[name].get("imports", ())]
        return {known[name]["file"]}.union(*inside)

    entry = files_of(_ENTRY, set())
    return {
        name.removeprefix(_PAGES).partition(".")[0]: tuple(sorted(files_of(name, set()) - entry))
        for name in known
        if name.startswith(_PAGES)
    }


def compressed(content: bytes) -> bytes:
    """`content` in gzip; the same bytes each time."""
    return gzip.compress(content, 9, mtime=0)


def asset(bundle: Bundle, path: str, headers: Mapping[bytes, bytes]) -> Answer:
    """The answer for a path below `PREFIX`.  An old digest is not found: a page that is older than
    the service loads itself anew."""
    digest, _, name = path.removeprefix(PREFIX).partition("/")
    if digest != bundle.digest or name not in bundle.files or name == SHELL:
        return Answer(404, ((b"cache-control", b"no-store"), NOSNIFF))
    kind = _KINDS["." + name.rpartition(".")[2]]
    bounds = _WORKER if kind.startswith(b"text/javascript") else _INERT
    return chosen(
        bundle.files[name],
        f"{digest}/{name}",
        ((b"content-type", kind), NOSNIFF, _IMMUTABLE, _SAME_ORIGIN, bounds),
        headers,
    )


def chosen(
    content: tuple[bytes, bytes], tag: str, own: Headers, headers: Mapping[bytes, bytes]
) -> Answer:
    """The content in the coding that the client takes; 304 if it has it already."""
    is_coded = takes_gzip(headers)
    etag = f'"{tag}{"-gzip" if is_coded else ""}"'.encode()
    own = (*own, (b"etag", etag), BY_CODING)
    if headers.get(b"if-none-match") == etag:
        return Answer(304, own)
    if is_coded:
        return Answer(200, (*own, GZIP), content[1])
    return Answer(200, own, content[0])
