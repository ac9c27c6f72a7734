"""Draws the commit graph of the sample lake as SVG, from a real run of `graveler demo`.

    .venv/bin/python scripts/commit_graph.py

Writes docs/measured/graphs/commit-graph.svg.  Commits, branches and tags come from the API.  The
row of `main` has its first parents; all other commits are on the second row.  Colours are readable
on a light and on a dark page.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape

from graveler.client import connect
from graveler.client.session import Session

TARGET = Path(__file__).resolve().parents[1] / "docs" / "measured" / "graphs" / "commit-graph.svg"
REPOSITORY = "airports"
_COLUMN, _ROW, _LEFT, _TOP = 205, 90, 90, 78
_COLOURS = ("#2f81f7", "#d4702b")  # main, other branches
_TEXT = "#7d8590"


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    message: str
    parents: tuple[str, ...]
    names: tuple[str, ...]  # branches and tags that lead to it


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "lake"
        command = [str(Path(sys.executable).with_name("graveler")), "demo", "--store", str(store)]
        with subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
        ) as service:
            try:
                assert service.stdout is not None
                for line in service.stdout:
                    if "Serving until interrupted" in line:
                        break
                commits = _commits(_session(store))
            finally:
                service.terminate()
    TARGET.write_text(drawing(commits), encoding="utf-8")
    sys.stdout.write(f"wrote {TARGET}: {len(commits)} commits\n")
    return 0


def _session(store: Path) -> Session:
    """A session with the credentials that the demo has saved."""
    saved = (store / "credentials").read_text(encoding="utf-8")
    url, auth = (_value(saved, name) for name in ("GRAVELER_API", "GRAVELER_AUTH"))
    key, _, secret = auth.partition(":")
    return connect(url.removesuffix("/api/v1"), key, secret)


def _value(saved: str, name: str) -> str:
    match = re.search(rf"^export {name}='?([^'\n]+)'?$", saved, re.MULTILINE)
    assert match is not None, f"the saved credentials have no {name}"
    return match[1]


def _commits(session: Session) -> list[Commit]:
    """All commits of `main`, oldest first."""
    place = f"/repositories/{REPOSITORY}"
    names: dict[str, list[str]] = {}
    for kind in ("branches", "tags"):
        for ref in _results(session, f"{place}/{kind}"):
            names.setdefault(ref["commit_id"], []).append(ref["id"])
    log = _results(session, f"{place}/refs/{quote('main')}/commits?amount=100")
    return [
        Commit(
            commit["id"],
            commit["message"],
            tuple(commit["parents"]),
            tuple(sorted(names.get(commit["id"], ()))),
        )
        for commit in reversed(log)
    ]


def _results(session: Session, path: str) -> list[dict[str, Any]]:
    page = session.call("GET", path)
    assert not page["pagination"]["has_more"]
    return list(page["results"])


def drawing(commits: Sequence[Commit]) -> str:
    """The SVG of commits that are given oldest first."""
    by_id = {commit.id: commit for commit in commits}
    trunk = _first_parents(by_id, commits[-1])
    places = {
        commit.id: (
            _LEFT + column * _COLUMN,
            _TOP if commit.id in trunk else _TOP + _ROW,
        )
        for column, commit in enumerate(commits)
    }
    width, height = _LEFT * 2 + (len(commits) - 1) * _COLUMN + 40, _TOP + _ROW + 80
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="ui-monospace, monospace" font-size="14" role="img">',
        "<title>Commit graph of the sample lake</title>",
    ]
    parts += [
        _edge(places[parent], places[commit.id], commit.id in trunk and place == 0)
        for commit in commits
        for place, parent in enumerate(commit.parents)
    ]
    for commit in commits:
        parts += _node(commit, places[commit.id], on_trunk=commit.id in trunk)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _first_parents(by_id: Mapping[str, Commit], head: Commit) -> set[str]:
    ids, commit = {head.id}, head
    while commit.parents:
        commit = by_id[commit.parents[0]]
        ids.add(commit.id)
    return ids


def _edge(begin: tuple[int, int], end: tuple[int, int], on_trunk: bool) -> str:
    (x, y), (to_x, to_y) = begin, end
    bend = 60
    colour = _COLOURS[0] if on_trunk else _COLOURS[1]
    path = f"M{x},{y} C{x + bend},{y} {to_x - bend},{to_y} {to_x},{to_y}"
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="3"/>'


def _node(commit: Commit, place: tuple[int, int], *, on_trunk: bool) -> list[str]:
    x, y = place
    colour = _COLOURS[0 if on_trunk else 1]
    message = commit.message if len(commit.message) <= 24 else f"{commit.message[:22]}…"
    # On the first row names stand above the text, on the second below it.
    lines = [(message, _TEXT), (commit.id[:12], _TEXT)]
    lines += [(" ".join(commit.names), colour)] if commit.names else []
    first = y - 18 * len(lines) + 2 if on_trunk else y + 28
    ordered = lines[::-1] if on_trunk else lines
    return [
        f'<circle cx="{x}" cy="{y}" r="8" fill="{colour}"/>',
        *(
            f'<text x="{x}" y="{first + 18 * row}" text-anchor="middle" fill="{fill}">'
            f"{escape(text)}</text>"
            for row, (text, fill) in enumerate(ordered)
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
