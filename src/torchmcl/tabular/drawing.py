"""Small charts as SVG, and the page around them."""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchmcl.errors import printable
from torchmcl.runs.tables import Table

__all__ = ["bars", "density", "figure", "horizontal", "intervals", "page", "reliability", "shares", "table"]

Array = NDArray[np.float64]
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 360, 220, 52, 30, 10, 24

STYLE = """
:root { color-scheme: light dark; --ink: #1c2530; --paper: #ffffff; --soft: #5d6b7a; --line: #d6dce3; --main: #2f6fb5;
  --light: #a9c7e8; --other: #c8553d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --paper: #14191f; --soft: #9aa7b4; --line: #36404b;
  --main: #6fa8e0; --light: #2c4a69; --other: #e8866f; } }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
h1 { font-size: 1.6rem; margin: 0.5rem 0; } h2 { font-size: 1.2rem; margin: 1.5rem 0 0.5rem; }
.scroll { overflow-x: auto; margin-bottom: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } thead th { color: var(--soft); font-weight: 600; }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); }
figure { margin: 0; } figcaption { font-size: 0.9rem; color: var(--soft); margin-bottom: 0.25rem; }
svg { width: 100%; height: auto; display: block; } text { font-size: 11px; fill: var(--soft); }
.axis { stroke: var(--line); } .main { fill: var(--main); } .stroke { stroke: var(--main); fill: none;
  stroke-width: 2; }
.light { stroke: var(--light); stroke-width: 2; } .other { fill: var(--other); } .mark { stroke: var(--other);
  stroke-dasharray: 4 3; fill: none; }
"""


def page(title: str, body: str) -> str:
    """A complete document that loads nothing."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{html.escape(printable(title))}</title><style>{STYLE}</style></head>'
        # Control characters are not allowed in HTML, and are commands for a terminal that prints the file.
        f"<body><main>{printable(body)}</main></body></html>\n"
    )


def table(description: Table) -> str:
    """A table that scrolls by itself where the screen is narrow."""
    head = "".join(f'<th scope="col">{html.escape(each)}</th>' for each in description.headings)
    rows = "".join(
        "<tr>" + "".join(_cell(index, text, bold) for index, (text, bold) in enumerate(cells)) + "</tr>"
        for cells in description.texts()
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def figure(title: str, svg: str) -> str:
    """A chart with its title."""
    words = html.escape(title)
    labeled = svg.replace("<svg", f'<svg role="img" aria-label={_quoted(title)}', 1)
    return f"<figure><figcaption>{words}</figcaption>{labeled}</figure>"


def reliability(levels: Sequence[dict[str, Any]]) -> str:
    """Coverage with its confidence interval against the stated level."""
    x, y = _scale(0.4, 1.0, LEFT, WIDTH - RIGHT), _scale(0.4, 1.0, HEIGHT - BOTTOM, TOP)
    parts = [f'<path class="mark" d="M{x(0.4):.1f} {y(0.4):.1f}L{x(1):.1f} {y(1):.1f}"/>']
    for each in levels:
        at = x(each["level"])
        low, high = y(max(each["low"], 0.4)), y(each["high"])
        parts.append(f'<path class="light" d="M{at:.1f} {low:.1f}V{high:.1f}"/>')
        parts.append(f'<circle class="main" cx="{at:.1f}" cy="{y(max(each["coverage"], 0.4)):.1f}" r="4"/>')
    ticks = (0.5, 0.8, 0.9, 0.95)
    return _svg([*parts, *_ticks(ticks, x, (0.4, 0.6, 0.8, 1.0), y)])


def bars(values: Sequence[float | int], reference: float | int | None) -> str:
    """Bars, with a dashed line where they should end."""
    top = max([*values, reference or 0.0, 1e-9]) * 1.1
    y = _scale(0, top, HEIGHT - BOTTOM, TOP)
    step = (WIDTH - LEFT - RIGHT) / max(len(values), 1)
    parts = [
        f'<rect class="main" x="{LEFT + index * step + 1:.1f}" y="{y(value):.1f}" width="{max(step - 2, 1):.1f}" '
        f'height="{y(0) - y(value):.1f}"/>'
        for index, value in enumerate(values)
    ]
    if reference is not None:
        parts.append(f'<path class="mark" d="M{LEFT} {y(reference):.1f}H{WIDTH - RIGHT}"/>')
    return _svg([*parts, *_ticks((), None, (0, round(top / 1.1, 3)), y)])


def shares(rows: Sequence[dict[str, Any]], level: float | int) -> str:
    """Coverage of parts of the rows with confidence intervals, and the level that they should have."""
    height = 24 * len(rows) + BOTTOM + TOP
    x = _scale(0.0, 1.0, 120, WIDTH - RIGHT)
    parts = [f'<path class="mark" d="M{x(level):.1f} {TOP}V{height - BOTTOM}"/>']
    for index, each in enumerate(rows):
        at = TOP + 24 * index + 12
        parts.append(f'<text x="114" y="{at + 4}" text-anchor="end">{html.escape(each["name"][:18])}</text>')
        parts.append(f'<path class="light" d="M{x(each["low"]):.1f} {at}H{x(each["high"]):.1f}"/>')
        parts.append(f'<circle class="main" cx="{x(each["coverage"]):.1f}" cy="{at}" r="4"/>')
    parts += [
        f'<text x="{x(value):.1f}" y="{height - 10}" text-anchor="middle">{value:g}</text>'
        for value in (0.0, 0.5, 1.0)
    ]
    return _svg(parts, height)


def horizontal(pairs: Sequence[tuple[str, float | int]]) -> str:
    """Named bars, one below another."""
    height = 20 * max(len(pairs), 1) + TOP + 6
    x = _scale(0.0, max([value for _, value in pairs] + [1e-9]), 120, WIDTH - 48)
    parts = []
    for index, (name, value) in enumerate(pairs):
        at = TOP + 20 * index
        parts.append(f'<text x="114" y="{at + 12}" text-anchor="end">{html.escape(name[:18])}</text>')
        parts.append(
            f'<rect class="main" x="120" y="{at + 2}" width="{max(x(value) - 120, 0.5):.1f}" height="13"/>'
        )
        parts.append(f'<text x="{x(value) + 4:.1f}" y="{at + 12}">{value:.2f}</text>')
    return _svg(parts, height)


def intervals(low: Array, high: Array, y: Array) -> str:
    """Intervals in the order of their middle, with the true targets."""
    order = np.argsort(low + high, kind="stable")
    bottom, top = float(min(low.min(), y.min())), float(max(high.max(), y.max()))
    across, up = _scale(0, max(len(y) - 1, 1), LEFT, WIDTH - RIGHT), _scale(bottom, top, HEIGHT - BOTTOM, TOP)
    parts = []
    for index, row in enumerate(order):
        at = across(index)
        inside = low[row] <= y[row] <= high[row]
        parts.append(f'<path class="light" d="M{at:.1f} {up(low[row]):.1f}V{up(high[row]):.1f}"/>')
        kind = "main" if inside else "other"
        parts.append(f'<circle class="{kind}" cx="{at:.1f}" cy="{up(y[row]):.1f}" r="1.8"/>')
    return _svg([*parts, *_ticks((), None, (bottom, top), up)])


def density(x: Array, curve: Array, y: float | int) -> str:
    """A density, with the target that came."""
    ends = float(min(x[0], y)), float(max(x[-1], y))
    across, up = (
        _scale(*ends, LEFT, WIDTH - RIGHT),
        _scale(0, float(curve.max()) or 1.0, HEIGHT - BOTTOM, TOP),
    )
    line = "L".join(f"{across(a):.1f} {up(b):.1f}" for a, b in zip(x, curve, strict=True))
    parts = [
        f'<path class="stroke" d="M{line}"/>',
        f'<path class="mark" d="M{across(y):.1f} {TOP}V{HEIGHT - BOTTOM}"/>',
    ]
    return _svg([*parts, *_ticks((float(x[0]), float(x[-1])), across, (), up)])


def _svg(parts: Sequence[str], height: float | int = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}">{"".join(parts)}</svg>'


def _scale(low: float | int, high: float | int, start: float | int, end: float | int) -> Any:
    span = high - low or 1.0
    return lambda value: start + (float(value) - low) / span * (end - start)


def _ticks(xs: Sequence[float | int], across: Any, ys: Sequence[float | int], up: Any) -> list[str]:
    base = HEIGHT - BOTTOM
    parts = [f'<path class="axis" d="M{LEFT} {base}H{WIDTH - RIGHT}"/>']
    parts += [
        f'<text x="{across(each):.1f}" y="{HEIGHT - 10}" text-anchor="middle">{_number(each)}</text>'
        for each in xs
    ]
    parts += [
        f'<text x="{LEFT - 6}" y="{up(each) + 4:.1f}" text-anchor="end">{_number(each)}</text>' for each in ys
    ]
    return parts


def _number(value: float | int) -> str:
    """Three digits in at most seven characters, which is what fits beside an axis."""
    value = float(f"{value:.3g}")
    for unit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if unit <= abs(value) < 1e12:
            return f"{value / unit:.3g}{suffix}"
    return f"{value:.3g}" if 1e-4 <= abs(value) < 1e3 else f"{value:.1g}"


def _cell(index: int, text: str, bold: bool) -> str:
    shown = html.escape(text)
    if index == 0:
        return f'<th scope="row">{shown}</th>'
    return f"<td>{f'<strong>{shown}</strong>' if bold else shown}</td>"


def _quoted(text: str) -> str:
    return '"' + html.escape(text, quote=True) + '"'
