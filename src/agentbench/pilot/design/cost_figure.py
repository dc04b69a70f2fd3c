"""Draw the cost projection as a self-contained SVG: cumulative cost over attempts, with scenarios and the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape

from agentbench.pilot.design.cost_model import Projection

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 30, 60, 60
MAX_SCALE = 4.0
"""A budget beyond this multiple of the pessimistic scenario is not drawn: the projection would be a flat line."""
LABEL = "Projected cost (a model from cost_inputs.json, not spending)"
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.axis{stroke:#888;fill:none}.band{fill:#0b62a4;fill-opacity:.15}"
    ".expected{fill:none;stroke:#0b62a4;stroke-width:2}.budget{stroke:#bb2434;stroke-width:1.5;stroke-dasharray:6 4}"
    ".stage{stroke:#ccc}"
)


def cost_figure(projection: Projection, budget: float) -> str:
    """Return the figure."""
    points = _points(projection)
    attempts, expected = points[-1]
    most = expected * projection.inputs.high
    shown = budget <= MAX_SCALE * most
    top = (max(most, budget) if shown else most) * 1.05 or 1.0

    def x(count: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * count / max(1, attempts)

    def y(cost: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * cost / top

    def line(points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x(count):.1f},{y(cost):.1f}" for count, cost in points)

    high = [(count, cost * projection.inputs.high) for count, cost in points]
    low = [(count, cost * projection.inputs.low) for count, cost in reversed(points)]
    bottom = HEIGHT - BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(LABEL)}</title><style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="24">{escape(LABEL)}</text>',
        f'<text x="{LEFT}" y="44">{_legend(projection, budget, shown=shown)}</text>',
        f'<polygon class="band" points="{line([*high, *low])}"/>',
        f'<polyline class="expected" points="{line(points)}"/>',
        f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}"/>',
    ]
    if shown:
        parts.append(
            f'<line class="budget" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(budget):.1f}" y2="{y(budget):.1f}"/>'
        )
    for step in range(5):
        cost = top * step / 4
        parts.append(f'<text x="{LEFT - 8}" y="{y(cost) + 4:.1f}" text-anchor="end">{cost:.3g}</text>')
    parts += _stage_marks(projection, x, bottom)
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">attempts</text></svg>'
    )
    return "\n".join(parts) + "\n"


def _legend(projection: Projection, budget: float, *, shown: bool) -> str:
    band = f"Band: factors {projection.inputs.low:g} to {projection.inputs.high:g}."
    return f"{band} {'Dashed: total budget' if shown else 'Above the figure: total budget'} {budget:g}."


def _points(projection: Projection) -> list[tuple[float, float]]:
    """Return (attempts, expected cost) after each row of the projection, from zero."""
    points = [(0.0, 0.0)]
    for row in projection.rows:
        points.append((points[-1][0] + row.attempts, row.cumulative))
    return points


def _stage_marks(projection: Projection, x: Callable[[float], float], bottom: int) -> list[str]:
    parts: list[str] = []
    count = 0
    for index, row in enumerate(projection.rows):
        count += row.attempts
        last = index + 1 == len(projection.rows) or projection.rows[index + 1].stage != row.stage
        if last:
            parts.append(f'<line class="stage" x1="{x(count):.1f}" x2="{x(count):.1f}" y1="{TOP}" y2="{bottom}"/>')
            label = escape(f"{row.stage}: {count}")
            parts.append(f'<text x="{x(count) - 4:.1f}" y="{bottom + 20}" text-anchor="end">{label}</text>')
    return parts
