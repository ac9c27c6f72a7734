"""The link of a folder with a prefix: the file `.lakefs_ref.yaml`, as lakectl has it; and Git.

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

from graveler.core.errors import Invalid

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


# ---- Git -----------------------------------------------------------------------------------------

_MARKER: Final = "# ignored by lakectl local:"
_COMMIT_KEY: Final = "git_commit_id"
_GIT_SECONDS: Final = 10
# Files of a branch are no repository, whatever their names.
_SAFE: Final = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")


def git_ignore(root: Path) -> Path | None:
    """Add the folder to `.gitignore` of its working copy, unless it is there.  Returns the file if
    it was changed.  A file that cannot be written, or is not UTF-8, stays as it is."""
    place = git_top(root)
    if place is None:
        return None
    try:
        return _add_section(root, place)
    except (OSError, ValueError):
        return None


def _add_section(root: Path, place: Path) -> Path | None:
    folder = root.resolve().relative_to(place.resolve()).as_posix()
    head = "" if folder == "." else f"{folder}/"
    file = place / ".gitignore"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if f"{head}*" in text.splitlines():
        return None
    section = f"\n{_MARKER}\n{head}*\n!{head}{STATE_FILE}\n\n"
    with file.open("a", encoding="utf-8") as stream:
        stream.write(section if not text or text.endswith("\n") else f"\n{section}")
    return file


def git_metadata(root: Path) -> dict[str, str]:
    """What a commit says of the working copy."""
    commit = _git(root, "rev-parse", "--short", "HEAD")
    return {_COMMIT_KEY: commit} if commit else {}


def git_top(root: Path) -> Path | None:
    """The working copy that a folder is in.  A configuration that names another place is not
    followed."""
    text = _git(root, "rev-parse", "--show-toplevel")
    if not text or not os.path.lexists(Path(text) / ".git"):
        return None
    return Path(text) if root.resolve().is_relative_to(Path(text).resolve()) else None


def _git(folder: Path, *words: str) -> str:
    """What git prints; nothing if it fails."""
    if not any(os.path.lexists(each / ".git") for each in (folder, *folder.parents)):
        return ""  # saves a process
    import subprocess  # slow; a command without an address imports this module

    try:
        result = subprocess.run(
            ["git", *_SAFE, *words],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""
