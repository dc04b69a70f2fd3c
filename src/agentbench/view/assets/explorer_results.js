/* Answers of the data explorer: a chart, a pivot table, or rows that can be sorted and lead to their attempts. */
const MAX_SHOWN_ROWS = 500;
const MAX_CHARTED = 30;
const MAX_PIVOTED = 40;
const cellText = (value) =>
  value === null
    ? "–"
    : typeof value === "object"
      ? JSON.stringify(value)
      : typeof value === "number" && !Number.isInteger(value)
        ? few(value)
        : String(value);

/* Wilson's interval. */
function wilson(k, n) {
  const z = 1.959964;
  const p = k / n;
  const d = 1 + (z * z) / n;
  const centre = (p + (z * z) / (2 * n)) / d;
  const half = (z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n))) / d;
  return [Math.max(0, centre - half), Math.min(1, centre + half)];
}

/* `ask` is null for an answer to SQL of the user; `change` asks again with other values. */
function drawResult(answer, ask, change) {
  const seconds = `${plural(answer.rows.length, "row")}${answer.truncated ? " (more were cut off)" : ""} in ${secs(answer.seconds)}`;
  const note = h(
    "p",
    { class: "sub", id: "shown" },
    seconds + (answer.pending ? `; ${plural(answer.pending, "run")} still being read` : ""),
  );
  const altered =
    answer.altered.length > 0 &&
    h(
      "div",
      { class: "note", role: "alert" },
      h("strong", {}, `ALTERED: ${plural(answer.altered.length, "run")}: `),
      safe(cut(answer.altered.join(", "), 300)),
      ". Their attempts have a text in the field altered; run `ab verify`.",
    );
  const unsealed =
    answer.not_sealed.length > 0 &&
    h(
      "div",
      { class: "note", role: "alert" },
      h("strong", {}, `NOT SEALED: ${plural(answer.not_sealed.length, "run")}: `),
      safe(cut(answer.not_sealed.join(", "), 300)),
      ". Nothing shows whether their records were edited.",
    );
  const body = () => {
    if (!answer.rows.length) return [note, h("p", { class: "card empty" }, "No attempts match.")];
    const group = ask ? [ask.group, ask.pivot].filter(Boolean) : [];
    if (!group.length) return [rowsTable(answer, ask, change), note];
    const chart = chartOf(answer, ask, group);
    return group.length === 2 ? [pivotTable(answer, ask), chart, note] : [chart, groupTable(answer, ask, group, change), note];
  };
  return [altered, unsealed, ...body()].filter(Boolean);
}
const section = (...body) => h("section", { class: "card" }, h("div", { class: "body scroll" }, body));

/* Show the attempts of a group: its values become filters. */
function attemptsLink(ask, values, words, label) {
  const filters = Object.entries(values).map(([column, value]) =>
    value === null ? { column, how: "is empty", value: "" } : { column, how: "is", value: String(value) },
  );
  return h(
    "a",
    { href: askAddress({ ...ask, group: "", pivot: "", sort: "", where: [...ask.where, ...filters] }), "aria-label": label || null },
    words,
  );
}
function sortableHead(name, words, ask, change) {
  if (!ask) return h("th", { scope: "col" }, safe(words));
  const on = ask.sort === name;
  const sort = () => change({ sort: name, down: on ? !ask.down : true });
  return h(
    "th",
    { scope: "col", "aria-sort": on ? (ask.down ? "descending" : "ascending") : null },
    h("button", { class: "sort", onclick: sort }, safe(words), on ? (ask.down ? " ↓" : " ↑") : ""),
  );
}

function rowsTable(answer, ask, change) {
  const at = Object.fromEntries(answer.columns.map((name, i) => [name, i]));
  const shown = answer.columns.map((name, i) => [name, i]).filter(([name]) => !ask || ask.columns.includes(name));
  const link = (row) => {
    if (at.run_key === undefined || at.attempt_id === undefined) return null;
    return h("td", {}, h("a", { href: `#/run/${row[at.run_key]}/attempt/${encodeURIComponent(row[at.attempt_id])}` }, "open"));
  };
  const cell = (value) => {
    const words = safe(cut(cellText(value), 300));
    return h("td", { class: typeof value === "number" ? "num" : words.length > 40 ? "name" : "short" }, words);
  };
  const linked = link(answer.rows[0]) !== null;
  return section(
    h(
      "table",
      { class: "tight", id: "table" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          linked && h("th", {}, h("span", { class: "vh" }, "attempt")),
          shown.map(([name]) => sortableHead(name, name, ask, change)),
        ),
      ),
      h(
        "tbody",
        {},
        answer.rows.slice(0, MAX_SHOWN_ROWS).map((row) =>
          h(
            "tr",
            {},
            link(row),
            shown.map(([, i]) => cell(row[i])),
          ),
        ),
      ),
    ),
    answer.rows.length > MAX_SHOWN_ROWS &&
      h("p", { class: "sub" }, `Showing ${MAX_SHOWN_ROWS} of ${whole(answer.rows.length)} rows; an export has all.`),
  );
}

function groupTable(answer, ask, [name], change) {
  const format = (column, value) =>
    value === null ? "–" : MEASURES[column] ? MEASURES[column][2](value) : safe(cut(cellText(value), 200));
  const shown = answer.columns.map((column, i) => [column, i]).filter(([column]) => column === name || MEASURES[column]);
  const rows = answer.rows.slice(0, MAX_SHOWN_ROWS).map((row) =>
    h(
      "tr",
      {},
      shown.map(([column, i]) => h("td", { class: column === name ? "name" : "num" }, format(column, row[i]))),
      h("td", {}, attemptsLink(ask, { [name]: row[0] }, "attempts", "attempts of " + safe(cellText(row[0])))),
    ),
  );
  return section(
    h(
      "table",
      { class: "tight", id: "table" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          shown.map(([column]) => sortableHead(column, MEASURES[column] ? MEASURES[column][0] : column, ask, change)),
          h("th", {}, ""),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

function pivotTable(answer, ask) {
  const value = answer.columns.indexOf(ask.measure);
  const [words, , format] = MEASURES[ask.measure];
  const keysOf = (i) => [...new Map(answer.rows.map((row) => [cellText(row[i]), row[i]]))];
  const columns = keysOf(1).slice(0, MAX_PIVOTED);
  const cells = new Map(answer.rows.map((row) => [cellText(row[0]) + "\u0000" + cellText(row[1]), row[value]]));
  const cell = (row, column) => {
    const found = cells.get(row[0] + "\u0000" + column[0]);
    if (found === undefined || found === null) return h("td", { class: "num dim" }, "–");
    return h(
      "td",
      { class: "num" },
      attemptsLink(
        ask,
        { [ask.group]: row[1], [ask.pivot]: column[1] },
        format(found),
        safe(`${row[0]}, ${column[0]}: ${format(found)}, show attempts`),
      ),
    );
  };
  return section(
    h(
      "table",
      { class: "tight", id: "table" },
      h("caption", { class: "sub" }, `${words} by ${ask.group} and ${ask.pivot}`),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, safe(ask.group)),
          columns.map(([name]) => h("th", { scope: "col" }, safe(cut(name, 60)))),
        ),
      ),
      h(
        "tbody",
        {},
        keysOf(0)
          .slice(0, MAX_SHOWN_ROWS)
          .map((row) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, safe(cut(row[0], 80))),
              columns.map((column) => cell(row, column)),
            ),
          ),
      ),
    ),
  );
}

function chartOf(answer, ask, group) {
  const at = Object.fromEntries(answer.columns.map((name, i) => [name, i]));
  const [words, , format] = MEASURES[ask.measure];
  const label = (row) => cut(group.map((_, i) => cellText(row[i])).join(" · "), 24);
  const all = answer.rows.filter((row) => row[at[ask.measure]] !== null);
  const rows = all.slice(0, MAX_CHARTED);
  const title = `${words} by ${group.join(" and ")}`;
  if (!rows.length)
    return h(
      "p",
      { class: "card empty" },
      ask.measure.endsWith("cost") ? "Costs are in several units: filter by cost_unit." : `No ${words} is recorded.`,
    );
  const interval = (row) => {
    const [passed, counted] = [row[at.passed], row[at.counted]];
    const [low, high] = wilson(passed, counted);
    return {
      name: label(row),
      value: row[at.rate],
      low,
      high,
      tip: `${passed} of ${counted}`,
      note: `${pct(row[at.rate])} (${passed} of ${counted})`,
    };
  };
  const figure =
    ask.measure === "rate"
      ? forest(rows.map(interval), { low: 0, high: 1, label: title, format: (v) => Math.round(v * 100) + "%" })
      : bars(
          rows.map((row) => ({ name: label(row), value: row[at[ask.measure]], words: format(row[at[ask.measure]]) })),
          title,
          110,
        );
  const notes = [
    ask.measure === "rate" ? "95% Wilson intervals over attempts that count; repeats of a task are not independent." : "",
    all.length > MAX_CHARTED ? `First ${MAX_CHARTED} of ${whole(all.length)} groups.` : "",
  ];
  return card(title, notes.filter(Boolean).join(" "), figure);
}
