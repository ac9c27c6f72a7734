"""Graphs of samples over time, as SVG text.  Pure.  For report.py."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 34, 34
_COLOURS = ("#1f6feb", "#d1622b")
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


class Line(NamedTuple):
    """A quantity over minutes."""

    label: str
    values: Sequence[float]


def graph(title: str, minutes: Sequence[float], lines: Sequence[Line]) -> str:
    """Lines over time, from zero upwards, on a white background."""
    top = _round_up(max((max(line.values) for line in lines), default=1.0))
    end = max(minutes[-1], 1e-9)
    across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 20, title, "start", "bold"),
    ]
    for step in range(5):
        y = _TOP + down - down * step / 4
        parts.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" '
            'stroke="#dddddd"/>'
        )
        parts.append(_text(_LEFT - 6, y + 4, f"{top * step / 4:g}", "end"))
        x = _LEFT + across * step / 4
        label = f"{end * step / 4:.3g}" + (" min" if step == 4 else "")
        parts.append(_text(x, _HEIGHT - 12, label, "end" if step == 4 else "middle"))
    for at, line in enumerate(lines):
        colour = _COLOURS[at % len(_COLOURS)]
        points = " ".join(
            f"{_LEFT + across * minute / end:.1f},{_TOP + down - down * value / top:.1f}"
            for minute, value in zip(minutes, line.values, strict=True)
        )
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>'
        )
        parts.append(_text(_WIDTH - _RIGHT - 170 * at, 20, line.label, "end", colour=colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(x: float, y: float, said: str, anchor: str, weight: str = "normal", **look: str) -> str:
    colour = look.get("colour", "#333333")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="{colour}">{escape(said)}</text>'
    )


def _round_up(value: float) -> float:
    """The next number of one or two digits that four steps divide evenly."""
    scale = 1.0
    while scale * _STEPS[-1] < value:
        scale *= 10
    while scale >= value > 0:
        scale /= 10
    return next((scale * step for step in _STEPS if scale * step >= value), 1.0)
