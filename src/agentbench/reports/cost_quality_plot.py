"""Draw cost against pass rate as a self-contained SVG, with confidence intervals and the cost-quality front."""

from __future__ import annotations

from xml.sax.saxutils import escape

from agentbench.core.errors import InputError
from agentbench.reports.compare import CompareReport, MethodLine
from agentbench.reports.number_format import amount, percent

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 180, 40, 60
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.axis{stroke:#888}.grid{stroke:#e3e3e3}.ci{stroke:#888;stroke-width:1.5}"
    ".front{fill:none;stroke:#0b62a4;stroke-width:2;stroke-dasharray:5 4}.point{fill:#fff;stroke:#555;stroke-width:2}"
    ".best{fill:#0b62a4;stroke:#0b62a4}"
)


def cost_quality_svg(report: CompareReport) -> str:
    """Return the plot.

    Raises:
        InputError: a cost is unknown, so the methods cannot be placed.
    """
    costs = [line.cost for line in report.methods if line.cost is not None]
    if len(costs) < len(report.methods):
        raise InputError(f"--plot needs costs in one unit for every method: {report.cost_problem}")
    scale = _Scale(max(costs) or 1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>Cost and {report.rate} rate of {len(report.methods)} methods</title><style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        *_axes(report, scale),
    ]
    line = " ".join(
        f"{scale.x(_cost(report.methods[index])):.1f},{scale.y(report.methods[index].share):.1f}"
        for index in report.front
    )
    parts.append(f'<polyline class="front" points="{line}"/>')
    for index, method in enumerate(report.methods):
        parts += _point(method, scale, best=index in report.best)
    parts.append(f'<text x="{LEFT}" y="22">Filled: best set. Dashed: no method is cheaper and better.</text></svg>')
    return "\n".join(parts) + "\n"


class _Scale:
    def __init__(self, largest: float) -> None:
        self.largest = largest

    def x(self, cost: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * cost / (self.largest * 1.05)

    def y(self, share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def _axes(report: CompareReport, scale: _Scale) -> list[str]:
    parts = []
    for step in range(5):
        share, cost = step / 4, scale.largest * step / 4
        y, x = scale.y(share), scale.x(cost)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{escape(amount(cost))}</text>')
    bottom = HEIGHT - BOTTOM
    parts.append(f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    label = escape(f"cost per attempt ({report.cost_terms})")
    parts.append(f'<text x="{middle}" y="{HEIGHT - 16}" text-anchor="middle">{label}</text>')
    return parts


def _point(line: MethodLine, scale: _Scale, *, best: bool) -> list[str]:
    x, y = scale.x(_cost(line)), scale.y(line.share)
    interval = line.rate.interval
    label = escape(f"{line.name} {percent(line.share)}")
    parts = []
    if interval:
        parts.append(
            f'<line class="ci" x1="{x:.1f}" x2="{x:.1f}" y1="{scale.y(interval.low):.1f}" y2="{scale.y(interval.high):.1f}"/>'
        )
    style = "point best" if best else "point"
    parts.append(f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="6"><title>{label}</title></circle>')
    parts.append(f'<text x="{x + 11:.1f}" y="{y + 4:.1f}">{label}</text>')
    return parts


def _cost(line: MethodLine) -> float:
    return line.cost or 0.0
