/* Charts: SVG elements with labels as text nodes. */
function frame(width, height, label, ...children) {
  return s(
    "svg",
    { class: "fig", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, preserveAspectRatio: "xMidYMid meet" },
    s("title", {}, label),
    children,
  );
}
const text = (x, y, words, more) => s("text", { x, y, ...(more || {}) }, safe(words));

/* A chart is drawn as wide as its card on a phone, so that its text keeps its size. */
const chartWidth = () => Math.max(280, Math.min(640, innerWidth - 66));
/* The layout of a chart of rows: their names stand in a column beside them, on a phone above them. */
function rowLayout(column) {
  const width = chartWidth(),
    narrow = width < 500;
  return {
    width,
    narrow,
    left: narrow ? 0 : column,
    above: narrow ? 20 : 0,
    rowName: (words, middle) =>
      narrow
        ? text(0, middle - 14, cut(safe(words), 28))
        : text(column - 10, middle + 4, cut(safe(words), Math.floor(column / 6.6)), { "text-anchor": "end" }),
  };
}

/* Bars with words behind them; `room` is the space for the words. */
function bars(rows, label, room) {
  const largest = Math.max(1e-12, ...rows.map((r) => r.value)),
    { width, left, above, rowName } = rowLayout(190),
    step = 27 + above;
  return frame(
    width,
    rows.length * step + 4,
    label,
    rows.map((row, i) => {
      const y = i * step + above,
        w = Math.max(2, ((width - left - room) * row.value) / largest);
      return s(
        "g",
        {},
        rowName(row.name, y + 13),
        s("rect", { x: left, y: y + 4, width: w, height: 18, rx: 4, class: row.cls || "f-accent" }),
        text(left + w + 8, y + 17, row.words, { class: "strong" }),
      );
    }),
  );
}

/* Forest plot: shares with intervals; `zero` draws a line at no difference. */
function forest(rows, { low, high, zero, label, format, band }) {
  const { width, narrow, left: column, above, rowName } = rowLayout(170),
    left = column || 14,
    right = rows.some((row) => row.note) && !narrow ? 130 : 20,
    step = 34 + above,
    span = high - low || 1;
  const x = (v) => left + ((Math.min(high, Math.max(low, v)) - low) / span) * (width - left - right);
  const bottom = rows.length * step + 6,
    ticks = [0, 1, 2, 3, 4].map((i) => low + (span * i) / 4);
  return frame(
    width,
    bottom + 24,
    label,
    ticks.map((t) => [
      s("line", { x1: x(t), x2: x(t), y1: 0, y2: bottom, class: "grid" }),
      text(x(t), bottom + 16, format(t), { "text-anchor": "middle", class: "dimt" }),
    ]),
    band &&
      s("rect", { x: x(band[0]), y: 0, width: Math.max(0, x(band[1]) - x(band[0])), height: bottom, class: "f-line", opacity: ".35" }),
    zero && s("line", { x1: x(0), x2: x(0), y1: 0, y2: bottom, class: "s-ink", "stroke-dasharray": "4 3" }),
    rows.map((row, i) => {
      const y = i * step + above + 17;
      return s(
        "g",
        { class: row.cls },
        rowName(row.name, y),
        row.low !== null &&
          row.low !== undefined &&
          s("line", {
            x1: x(row.low),
            x2: x(row.high),
            y1: y,
            y2: y,
            class: row.stroke || "s-accent",
            "stroke-width": 5,
            "stroke-linecap": "round",
            opacity: ".45",
          }),
        row.value !== null && row.value !== undefined && s("circle", { cx: x(row.value), cy: y, r: 6, class: row.fill || "f-accent" }),
        row.note && text(width, narrow ? y - 14 : y + 4, row.note, { "text-anchor": "end", class: "dimt" }),
        s("title", {}, safe(row.tip || "")),
      );
    }),
  );
}

/* Round numbers from 0 up to `largest`, in about four steps. */
function ticks(largest) {
  const rough = largest / 4.5,
    power = 10 ** Math.floor(Math.log10(rough)),
    step = [1, 2, 2.5, 5, 10].find((n) => n * power >= rough * 0.999) * power;
  return Array.from({ length: Math.floor(largest / step + 1e-9) + 1 }, (_, i) => i * step);
}

function lines(series, { label, xlabel, ylabel, xformat, yformat, ymax, step }) {
  const width = chartWidth(),
    height = 262,
    left = 54,
    bottom = 40,
    top = 22,
    right = 14;
  const xs = series.flatMap((line) => line.points.map((p) => p[0])),
    ys = series.flatMap((line) => line.points.map((p) => p[1]));
  const xmax = Math.max(...xs) || 1,
    high = ymax ?? (Math.max(...ys) || 1);
  const x = (v) => left + (v / xmax) * (width - left - right),
    y = (v) => top + (1 - v / high) * (height - top - bottom);
  const path = (points) =>
    points
      .map(
        (p, i) =>
          (i === 0 ? "M" : step ? `H${x(p[0]).toFixed(1)} V` : "L") +
          (i === 0 || !step ? `${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}` : y(p[1]).toFixed(1)),
      )
      .join(" ");
  return frame(
    width,
    height,
    label,
    ticks(high).map((v) => [
      s("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }),
      text(left - 8, y(v) + 4, yformat(v), { "text-anchor": "end", class: "dimt" }),
    ]),
    ticks(xmax).map((v) => [
      s("line", { x1: x(v), x2: x(v), y1: height - bottom, y2: height - bottom + 4, class: "axis" }),
      text(x(v), height - bottom + 18, xformat(v), { "text-anchor": v > xmax * 0.97 ? "end" : "middle", class: "dimt" }),
    ]),
    text((left + width) / 2, height - 4, xlabel, { "text-anchor": "middle", class: "dimt" }),
    ylabel && text(0, 10, ylabel, { class: "dimt" }),
    series.map((line) =>
      s(
        "g",
        { class: line.cls },
        s("path", { d: path(line.points), class: "s-k", "stroke-width": 2.4, "stroke-linejoin": "round" }, s("title", {}, safe(line.name))),
      ),
    ),
  );
}
/* A and B of a comparison keep their colours beside other runs, and methods of a leaderboard have the colour of their place. */
function colourOf(run) {
  const i = D.runs.indexOf(run);
  if (D.methods) return "k" + (D.methods.methods.findIndex((method) => method.run === i) % 6);
  if (!D.comparison) return "k" + (i % 6);
  const pair = [D.comparison.a.run, D.comparison.b.run],
    place = pair.indexOf(i);
  return (
    "k" +
    (place >= 0
      ? place
      : 2 +
        (D.runs
          .map((_, n) => n)
          .filter((n) => !pair.includes(n))
          .indexOf(i) %
          4))
  );
}
const legend = (runs) =>
  h(
    "div",
    { class: "legend" },
    runs.map((run) => h("span", {}, h("i", { class: colourOf(run) }), safe(run.name))),
  );

/* Cost and rate of methods with their intervals. The dashed line joins methods that none is cheaper and better than. */
function scatter(methods, { label, xlabel }) {
  const width = chartWidth(),
    height = 300,
    left = 54,
    right = 20,
    top = 26,
    bottom = 42,
    xmax = 1.08 * (Math.max(...methods.map((method) => method.cost_per_attempt)) || 1);
  const x = (v) => left + (v / xmax) * (width - left - right),
    y = (v) => top + (1 - v) * (height - top - bottom),
    front = methods.filter((method) => method.front).sort((a, b) => a.cost_per_attempt - b.cost_per_attempt);
  return frame(
    width,
    height,
    label,
    [0, 0.25, 0.5, 0.75, 1].map((v) => [
      s("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }),
      text(left - 8, y(v) + 4, v * 100 + "%", { "text-anchor": "end", class: "dimt" }),
    ]),
    ticks(xmax).map((v) => text(x(v), height - bottom + 18, few(v), { "text-anchor": "middle", class: "dimt" })),
    text((left + width) / 2, height - 4, xlabel, { "text-anchor": "middle", class: "dimt" }),
    s("path", {
      d: front
        .map((method, i) => (i ? "L" : "M") + x(method.cost_per_attempt).toFixed(1) + " " + y(method.rate.share).toFixed(1))
        .join(" "),
      class: "s-ink",
      "stroke-dasharray": "5 4",
    }),
    methods.map((method, i) =>
      s(
        "g",
        { class: "k" + (i % 6) },
        method.rate.interval &&
          s("line", {
            x1: x(method.cost_per_attempt),
            x2: x(method.cost_per_attempt),
            y1: y(method.rate.interval.low),
            y2: y(method.rate.interval.high),
            class: "s-k",
            "stroke-width": 4,
            opacity: ".4",
            "stroke-linecap": "round",
          }),
        s(
          "circle",
          { cx: x(method.cost_per_attempt), cy: y(method.rate.share), r: 6, class: "f-k" },
          s("title", {}, `${safe(method.name)}: ${pct(method.rate.share)} for ${few(method.cost_per_attempt)}`),
        ),
      ),
    ),
  );
}

function survival(runs, key, xlabel, xformat) {
  const withData = runs.filter((run) => run[key] && run[key].steps.length);
  if (!withData.length) return null;
  const largest = 1.04 * Math.max(...withData.map((run) => run[key].steps[run[key].steps.length - 1][0]));
  const series = withData.map((run) => {
    const points = [[0, 0], ...run[key].steps.map((p) => [p[0], 1 - p[1]])];
    points.push([largest, points[points.length - 1][1]]);
    return { name: run.name, cls: colourOf(run), points };
  });
  return h(
    "div",
    { class: "stack" },
    lines(series, { label: "Share passed by " + xlabel, xlabel, xformat, yformat: (v) => Math.round(v * 100) + "%", ymax: 1, step: true }),
    legend(withData),
  );
}

function weightsFigure(sets) {
  const gates = [
    ["1", "patch applies"],
    ["2", "builds"],
    ["3", "passes checks"],
    ["4", "is safe"],
  ];
  const width = chartWidth(),
    columns = width < 500 ? 2 : 4,
    box = (width + 12) / columns,
    below = 56 * (4 / columns - 1),
    cls = ["k0", "k4", "k3"],
    step = columns === 2 ? 98 : 82,
    label = (set) => (sets.length > 1 ? `${set.runs.map(safe).join(", ")}: ${plural(set.tasks, "task")}` : "then the score, weighted:");
  return frame(
    width,
    68 + below + step * sets.length,
    "All gates must pass; then the score is weighted",
    gates.map(([id, name], i) => {
      const x = (i % columns) * box,
        y = 56 * Math.floor(i / columns);
      return s(
        "g",
        {},
        s("rect", { x, y: y + 4, width: box - 12, height: 46, rx: 8, class: "f-soft" }),
        text(x + 14, y + 24, id, { class: "strong" }),
        text(x + 14, y + 41, name, { class: "dimt" }),
        i < 3 && (i + 1) % columns > 0 && text(x + box - 6, y + 32, "›", { "text-anchor": "middle" }),
      );
    }),
    sets.map((set, row) => {
      const y = below + row * step;
      let x = 0;
      return s(
        "g",
        {},
        text(0, 76 + y, label(set), { class: "dimt" }),
        Object.entries(set.weights)
          .filter(([, weight]) => weight > 0)
          .map(([name, weight], i) => {
            const w = weight * width,
              at = x,
              lines = columns === 2 ? [name, weight.toFixed(2)] : [`${name} ${weight.toFixed(2)}`];
            x += w;
            return s(
              "g",
              { class: cls[i % 3] },
              s("rect", { x: at, y: 86 + y, width: Math.max(0, w - 4), height: 30, rx: 6, class: "f-k", opacity: ".85" }),
              lines.map((line, n) => text(at + 2, 134 + y + 16 * n, line)),
            );
          }),
      );
    }),
  );
}

function flipsFigure(flips) {
  const shown = flips.slice(0, 24),
    { width, left, above, rowName } = rowLayout(220),
    middle = (width + left) / 2,
    half = (width - left) / 2 - 46,
    step = 24 + above;
  return frame(
    width,
    shown.length * step + 22,
    "Tasks that differ: A better on the left, B better on the right",
    text(middle - 8, 12, "A better", { "text-anchor": "end", class: "dimt" }),
    text(middle + 8, 12, "B better", { class: "dimt" }),
    s("line", { x1: middle, x2: middle, y1: 18, y2: shown.length * step + 20, class: "s-ink" }),
    shown.map((flip, i) => {
      const y = i * step + above + 21,
        gain = flip.b - flip.a,
        w = Math.abs(gain) * half;
      return s(
        "g",
        {},
        rowName(flip.task, y + 11),
        s("rect", { x: gain > 0 ? middle : middle - w, y: y + 3, width: w, height: 16, rx: 4, class: gain > 0 ? "f-b" : "f-a" }),
        text(gain > 0 ? middle + w + 6 : middle - w - 6, y + 15, pts(gain), { "text-anchor": gain > 0 ? "start" : "end", class: "dimt" }),
      );
    }),
  );
}
