"""Graphs as SVG text, over a few named places.  Pure."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 34, 34
_LEGEND = 210
_COLOURS = ("#1f6feb", "#d1622b", "#2f855a", "#7c3aed", "#6b7280", "#b7791f")


class Line(NamedTuple):
    """A quantity at each of the named places."""

    label: str
    values: Sequence[float]


def steps(title: str, names: Sequence[str], lines: Sequence[Line]) -> str:
    """Lines over named places at equal distances, on a logarithmic scale; each value has a mark.

    Values are greater than zero.  A line may be shorter than `names`: it then ends earlier.
    """
    values = [value for line in lines for value in line.values]
    low, high = (
        floor(log10(min(values))),
        max(ceil(log10(max(values))), floor(log10(min(values))) + 1),
    )
    across, down = _WIDTH - _LEFT - _RIGHT - _LEGEND, _HEIGHT - _TOP - _BOTTOM
    parts = _page(title)
    for power in range(low, high + 1):
        y = _TOP + down - down * (power - low) / (high - low)
        parts.append(_grid(y, _WIDTH - _RIGHT - _LEGEND))
        parts.append(_text(_LEFT - 6, y + 4, f"{10.0**power:,g}", "end"))
    places = [_LEFT + 20 + (across - 40) * at / max(1, len(names) - 1) for at in range(len(names))]
    parts += [_text(x, _HEIGHT - 12, name, "middle") for x, name in zip(places, names, strict=True)]
    for at, line in enumerate(lines):
        colour = _COLOURS[at % len(_COLOURS)]
        points = [
            (x, _TOP + down - down * (log10(value) - low) / (high - low))
            for x, value in zip(places, line.values, strict=False)
        ]
        parts.append(_polyline(points, colour))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        label_y = _TOP + 12 + 18 * at
        parts.append(
            _text(_WIDTH - _RIGHT - _LEGEND + 10, label_y, line.label, "start", colour=colour)
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _page(title: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 20, title, "start", "bold"),
    ]


def _grid(y: float, end: float) -> str:
    return f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{end}" y2="{y:.1f}" stroke="#dddddd"/>'


def _polyline(points: Sequence[tuple[float, float]], colour: str) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{places}"/>'


def _text(x: float, y: float, said: str, anchor: str, weight: str = "normal", **look: str) -> str:
    colour = look.get("colour", "#333333")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="{colour}">{escape(said)}</text>'
    )
