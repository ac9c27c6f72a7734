"""The file `.lakefs_ref.yaml`, which links a folder with a prefix.  lakectl reads and writes it.

    src: lakefs://lake/main/data/
    at_head: <64 hexadecimal digits>
    active_operation: ""

Other keys are not written, because lakectl drops them.  Imports no slow modules, because a command
without an address looks for the file.
"""

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from graveler.errors import Invalid

STATE_FILE: Final = ".lakefs_ref.yaml"
_BYTES_MAX: Final = 64 << 10
_LINE: Final = re.compile(r"(src|at_head|active_operation):(?: +(.*?))? *")
_COMMIT: Final = re.compile(r"[0-9a-f]{64}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@~^+=-]*")


class Prefix(NamedTuple):
    """What a folder is linked with: a prefix at a ref.  `path` is empty or ends with a slash."""

    repository: str
    ref: str
    path: str = ""

    def __str__(self) -> str:
        return f"lakefs://{self.repository}/{self.ref}/{self.path}"


@dataclass(frozen=True, slots=True)
class Link:
    """The state of a linked folder.  `head`: the commit with which it was in step.  `operation`:
    one that has begun and not ended."""

    source: Prefix
    head: str
    operation: str = ""

    def during(self, operation: str) -> "Link":
        """The same with another operation."""
        return replace(self, operation=operation)


def linked_above(folder: Path) -> Path | None:
    """The linked folder that `folder` is, or is in; none if there is none."""
    places = (folder, *folder.parents)
    return next((place for place in places if os.path.exists(place / STATE_FILE)), None)


def read_link(root: Path) -> Link | None:
    """The link of a folder; none if it has no such file.  Raises `Invalid`, with the name of the
    file, if that cannot be read as what it is."""
    file = root / STATE_FILE
    try:
        with open(file, "rb", opener=_unfollowed) as handle:
            content = handle.read(_BYTES_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Invalid(f"file cannot be read: {file}: {error.strerror}") from error
    try:
        return parse(content)
    except Invalid as error:
        raise Invalid(f"{file}: {error}") from error


def _unfollowed(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def dump(link: Link) -> bytes:
    """The content of the file."""
    values = {"src": str(link.source), "at_head": link.head, "active_operation": link.operation}
    lines = [f"{key}: {_scalar(value)}\n" for key, value in values.items()]
    return "".join(lines).encode()


def parse(content: bytes) -> Link:
    """The link in a file.  Raises `Invalid`."""
    values = _quick(content)
    if values is None:
        from graveler.hooks import yaml_text  # the owner of the YAML library

        document = yaml_text.parse(content)
        if not isinstance(document, dict):
            raise Invalid("it has no keys")
        values = {str(key): value for key, value in document.items()}
    texts = {key: _text(values, key) for key in ("src", "at_head", "active_operation")}
    if not _COMMIT.fullmatch(texts["at_head"]):  # perhaps a file that was written in part
        raise Invalid("at_head must be the id of a commit")
    return Link(prefix(texts["src"]), texts["at_head"], texts["active_operation"])


def prefix(uri: str) -> Prefix:
    """The prefix that `lakefs://repository/ref/path` names.  Raises `Invalid`."""
    rest = uri.removeprefix("lakefs://")
    repository, _, rest = rest.partition("/")
    ref, _, path = rest.partition("/")
    if not uri.startswith("lakefs://") or not repository or not ref:
        raise Invalid(f"source invalid: it must be lakefs://REPOSITORY/REF/PREFIX: {uri!r}")
    return Prefix(repository, ref, path if not path or path.endswith("/") else path + "/")


def _text(values: dict[str, Any], key: str) -> str:
    value = values.get(key)
    if value is None and key != "src":
        return ""
    if not isinstance(value, str | int):
        raise Invalid(f"{key} must be a text")
    return str(value)


def _scalar(text: str) -> str:
    # A JSON string without escapes of slashes is a YAML string.
    return text if _PLAIN.fullmatch(text) and not text.isdigit() else json.dumps(text)


def _quick(content: bytes) -> dict[str, Any] | None:
    """The values of a file as both tools write it; none if it looks otherwise.  It saves the import
    of the YAML library."""
    values: dict[str, Any] = {}
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None
    for line in lines:
        match = _LINE.fullmatch(line)
        value = (match[2] or "") if match else ""
        is_empty = value in ('""', "''", "")
        if match is None or match[1] in values or not (is_empty or _PLAIN.fullmatch(value)):
            return None
        values[match[1]] = "" if is_empty else value
    return values if len(values) == 3 else None
