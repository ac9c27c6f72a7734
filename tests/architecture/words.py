"""What no tracked file may say: traces of a machine, of a registry, or of unfinished work.

The patterns are spelled so that they do not match their own source.
"""

import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from tests.architecture.source import ROOT

# Recorded material keeps its own words; the licence is not ours to word.
RECORDED = ("tests/data/", "LICENSE")


class Banned(NamedTuple):
    """One thing no file may say, how to recognise it, and what to do instead."""

    name: str
    pattern: re.Pattern[str]
    remedy: str


def _banned(name: str, pattern: str, remedy: str) -> Banned:
    return Banned(name, re.compile(pattern), remedy)


BANNED = (
    _banned(
        "machine path",
        r"(?<![\w.])[/](?:work|root|home|Users)[/][\w.]|(?<![\w.])[/]opt[/](?:pypi|wheels)|[.][.][/]shared[/]",
        "write a path inside the repository, or pass it in",
    ),
    _banned(
        "registry",
        r"pypi[.]org|pythonhosted[.]org|registry[.]npmjs|(?<!no-emit-)in[d]ex-url|(?<!no-emit-)find-lin[k]s",
        "the machine's own package settings apply: name no registry and no index",
    ),
    _banned(
        "unfinished work",
        r"\b(?:TO[D]O|FIX[M]E|XX[X]|HAC[K])\b",
        "finish it, or write a decision in docs/explanation/adr/ and say why there",
    ),
    _banned(
        "way of making",
        r"(?i)\b(?:chat[g]pt|clau[d]e|co[p]ilot|lang[u]age model|\bLL[M]s?\b|sub[a]gents?"
        r"|this sess[i]on(?!'s (?:key|connection))|the br[i]ef\b|is[s]ue \d+|is[s]ues show)\b",
        "the project speaks only of itself",
    ),
)


def tracked_files() -> list[str]:
    """The files under version control; every file of the tree when there is no repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        return [path for path in listed.stdout.split("\0") if path]
    visible = (path for path in ROOT.rglob("*") if path.is_file())
    relative = (path.relative_to(ROOT) for path in visible)
    return sorted(p.as_posix() for p in relative if not _ignored(p.parts))


def _ignored(parts: tuple[str, ...]) -> bool:
    hidden = any(part.startswith(".") and part not in (".ci", ".gitignore") for part in parts)
    return hidden or "__pycache__" in parts or parts[0] in ("build", "dist")


def findings(path: str, text: str) -> Iterator[str]:
    """Each banned thing in the text, as `path:line: what it says: remedy`."""
    for banned in BANNED:
        for match in banned.pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: {banned.name} {match[0]!r}: {banned.remedy}"
