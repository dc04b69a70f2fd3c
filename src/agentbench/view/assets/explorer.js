/* Data explorer: every attempt of every run as a table, grouped or pivoted, as a chart, or by SQL. The address keeps the question. */
const MEASURES = {
  rate: ["pass rate", "avg(CASE WHEN counted THEN passed::int END)", pct],
  attempts: ["attempts", "count(*)", whole],
  cost: ["mean cost", "avg(cost)", few],
  duration: ["median time", "median(duration_sec)", secs],
  tokens: ["mean tokens", "avg(tokens)", few],
  tool_calls: ["mean tool calls", "avg(tool_calls)", few],
  score: ["mean score", "avg(score)", few],
};
const SHOWN = ["task", "variant", "agent", "passed", "reason", "judge", "scorers", "duration_sec", "cost", "tokens", "run"];
const OPERATORS = {
  is: (c, v) => `${c}::VARCHAR = ${v}`,
  "is not": (c, v) => `${c}::VARCHAR IS DISTINCT FROM ${v}`,
  contains: (c, v) => `contains(lower(${c}::VARCHAR), lower(${v}))`,
  "at least": (c, v) => `TRY_CAST(${c} AS DOUBLE) >= TRY_CAST(${v} AS DOUBLE)`,
  "at most": (c, v) => `TRY_CAST(${c} AS DOUBLE) <= TRY_CAST(${v} AS DOUBLE)`,
};
const quoted = (text) => "'" + String(text).replaceAll("'", "''") + "'";

/* The statement for a choice of fields. Names of columns come from the server's list, values are quoted. */
function statement(ask, columns) {
  const known = (name) => columns[name] !== undefined;
  const filters = ask.where
    .filter((one) => known(one.column) && OPERATORS[one.how] && one.value !== "")
    .map((one) => OPERATORS[one.how](one.column, quoted(one.value)));
  const where = filters.length ? "\nWHERE " + filters.join("\n  AND ") : "";
  const group = [ask.group, ask.pivot].filter((name) => name && known(name));
  if (!group.length)
    return `SELECT ${ask.columns.filter(known).join(", ") || "*"}\nFROM attempts${where}\nORDER BY started_at DESC, task, repeat\nLIMIT 2000`;
  return `SELECT ${group.join(", ")}, ${Object.entries(MEASURES)
    .map(([name, [, sql]]) => `${sql} AS ${name}`)
    .join(
      ", ",
    )},\n  sum((passed AND counted)::int) AS passed, sum(counted::int) AS counted\nFROM attempts${where}\nGROUP BY ALL ORDER BY ALL\nLIMIT 2000`;
}
/* Wilson's interval. */
function wilson(k, n) {
  const z = 1.959964,
    p = k / n,
    d = 1 + (z * z) / n,
    c = (p + (z * z) / (2 * n)) / d,
    half = (z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n))) / d;
  return [Math.max(0, c - half), Math.min(1, c + half)];
}
PAGES.explorer = {
  title: "Explorer",
  open: async (parts, query, still) => {
    D = ROOT;
    document.title = "Data explorer · AgentBench";
    const { columns, exports } = await getJson("/api/columns");
    if (!still()) return;
    show(explorerView(columns, exports, readAsk(query), still));
  },
};
function readAsk(query) {
  const text = (name, fallback) => (query[name] === undefined ? fallback : query[name]);
  let where = [];
  try {
    where = JSON.parse(query.where || "[]").map((one) => ({ column: String(one.column), how: String(one.how), value: String(one.value) }));
  } catch {
    /* an address that somebody changed */
  }
  return {
    group: text("group", "variant"),
    pivot: text("pivot", ""),
    measure: MEASURES[query.measure] ? query.measure : "rate",
    columns: text("columns", SHOWN.join(",")).split(",").filter(Boolean),
    where,
    sql: query.sql || "",
  };
}
function explorerView(columns, exports, ask, still) {
  const names = Object.keys(columns),
    result = h("div", { class: "stack", id: "result", "aria-live": "polite" }),
    filters = h("div", { class: "stack", style: { gap: "8px" } });
  const sql = h("textarea", { class: "field", id: "sql", rows: "6", spellcheck: "false", "aria-label": "SQL" });
  let own = Boolean(ask.sql);
  const select = (label, id, value, options, change) =>
    h(
      "label",
      { class: "field-label" },
      label,
      h(
        "select",
        {
          class: "field",
          id,
          onchange: (e) => {
            change(e.target.value);
            own = false;
            run();
          },
        },
        options.map(([key, words]) => h("option", { value: key, selected: key === value }, words)),
      ),
    );
  const fields = [["", "none"], ...names.map((name) => [name, name])];
  const drawFilters = () =>
    filters.replaceChildren(
      ...ask.where.map((one, i) =>
        h(
          "div",
          { class: "row" },
          h(
            "select",
            {
              class: "field",
              "aria-label": "field",
              onchange: (e) => {
                one.column = e.target.value;
                changed();
              },
            },
            names.map((name) => h("option", { value: name, selected: name === one.column }, name)),
          ),
          h(
            "select",
            {
              class: "field",
              "aria-label": "condition",
              onchange: (e) => {
                one.how = e.target.value;
                changed();
              },
            },
            Object.keys(OPERATORS).map((name) => h("option", { value: name, selected: name === one.how }, name)),
          ),
          h("input", {
            class: "field",
            "aria-label": "value",
            value: one.value,
            onchange: (e) => {
              one.value = e.target.value;
              changed();
            },
          }),
          h(
            "button",
            {
              class: "icon",
              "aria-label": "remove filter",
              onclick: () => {
                ask.where.splice(i, 1);
                drawFilters();
                changed();
              },
            },
            "×",
          ),
        ),
      ),
      h(
        "div",
        {},
        h(
          "button",
          {
            class: "toggle",
            id: "add-filter",
            onclick: () => {
              ask.where.push({ column: "suite", how: "is", value: "" });
              drawFilters();
            },
          },
          "Add filter",
        ),
      ),
    );
  const changed = () => {
    own = false;
    run();
  };
  const run = async () => {
    if (!own) sql.value = statement(ask, columns);
    const saved = {
      group: ask.group,
      pivot: ask.pivot,
      measure: ask.measure,
      columns: ask.columns.join(","),
      where: ask.where.length ? JSON.stringify(ask.where) : "",
      sql: own ? sql.value : "",
    };
    history.replaceState(
      null,
      "",
      "#/explorer?" +
        Object.entries(saved)
          .filter(([, value]) => value !== "")
          .map(([key, value]) => key + "=" + encodeURIComponent(value))
          .join("&") +
        (ask.group ? "" : "&group="),
    );
    picker.hidden = Boolean(ask.group) || own;
    try {
      const answer = await postJson("/api/query", { sql: sql.value });
      if (!still()) return;
      result.replaceChildren(...drawResult(answer, own ? null : ask));
      if (answer.pending)
        setTimeout(() => {
          if (still()) run();
        }, 1500);
    } catch (error) {
      if (still()) result.replaceChildren(problem(error));
    }
  };
  const save = async (form) => {
    try {
      const response = await exportResult(sql.value, form),
        url = URL.createObjectURL(await response.blob()),
        link = h("a", { href: url, download: "attempts." + form });
      link.click();
      URL.revokeObjectURL(url);
    } catch (error) {
      result.prepend(problem(error));
    }
  };
  const picker = h(
    "details",
    { class: "card", style: { padding: "0 14px" } },
    h("summary", {}, "Columns"),
    h(
      "div",
      { class: "choices", style: { "padding-bottom": "12px" } },
      names.map((name) =>
        h(
          "label",
          {},
          h("input", {
            type: "checkbox",
            checked: ask.columns.includes(name),
            onchange: (e) => {
              ask.columns = names.filter((one) => (one === name ? e.target.checked : ask.columns.includes(one)));
              changed();
            },
          }),
          name,
        ),
      ),
    ),
  );
  drawFilters();
  if (own) sql.value = ask.sql;
  run();
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "row" },
      h("h1", {}, "Data explorer"),
      h("span", { class: "sub" }, "Every final attempt of every run. The address keeps the question; share it or bookmark it."),
    ),
    h(
      "section",
      { class: "card" },
      h(
        "div",
        { class: "body stack", style: { gap: "12px" } },
        h(
          "div",
          { class: "form" },
          select("Group by", "group", ask.group, fields, (v) => {
            ask.group = v;
          }),
          select("and by (pivot)", "pivot", ask.pivot, fields, (v) => {
            ask.pivot = v;
          }),
          select(
            "Show",
            "measure",
            ask.measure,
            Object.entries(MEASURES).map(([key, [words]]) => [key, words]),
            (v) => {
              ask.measure = v;
            },
          ),
        ),
        filters,
        h(
          "details",
          { open: own },
          h("summary", {}, "SQL"),
          h(
            "div",
            { class: "inset" },
            sql,
            h(
              "div",
              { class: "row" },
              h(
                "button",
                {
                  class: "toggle primary",
                  id: "run-sql",
                  onclick: () => {
                    own = true;
                    run();
                  },
                },
                "Run",
              ),
              h("span", { class: "sub" }, "One read-only statement over the table attempts (DuckDB)."),
            ),
          ),
        ),
      ),
    ),
    picker,
    h(
      "div",
      { class: "row noprint" },
      h("span", { class: "sub" }, "Export:"),
      exports.map((form) =>
        h("button", { class: "toggle", onclick: () => save(form) }, { csv: "CSV", json: "JSON", parquet: "Parquet" }[form] || form),
      ),
    ),
    result,
  );
}
async function exportResult(sql, form) {
  const response = await request("/api/export", { sql, format: form });
  if (!response.ok) throw new ViewError(await response.json(), response.status);
  return response;
}
function drawResult(answer, ask) {
  const note = h(
    "p",
    { class: "sub", id: "shown" },
    `${plural(answer.rows.length, "row")}${answer.truncated ? " (more were cut off)" : ""} in ${secs(answer.seconds)}${answer.pending ? `; ${plural(answer.pending, "run")} still being read` : ""}`,
  );
  if (!answer.rows.length) return [note, h("p", { class: "card empty" }, "No attempts match.")];
  const grouped = ask && (ask.group || ask.pivot);
  return [
    grouped && chartOf(answer, ask),
    ask && ask.group && ask.pivot ? pivotTable(answer, ask) : plainTable(answer, grouped),
    note,
  ].filter(Boolean);
}
const cellText = (value) =>
  value === null
    ? "–"
    : typeof value === "object"
      ? JSON.stringify(value)
      : typeof value === "number" && !Number.isInteger(value)
        ? few(value)
        : String(value);
function plainTable(answer, grouped) {
  const at = (name) => answer.columns.indexOf(name),
    key = at("run_key"),
    id = at("attempt_id");
  const format = (name, value) =>
    grouped && MEASURES[name] && value !== null ? MEASURES[name][2](value) : safe(cut(cellText(value), 300));
  const link = (row) => (key >= 0 && id >= 0 ? h("a", { href: `#/run/${row[key]}/attempt/${encodeURIComponent(row[id])}` }, "open") : null);
  const hidden = new Set(["run_key"]);
  const names = answer.columns.map((name, i) => [name, i]).filter(([name]) => !hidden.has(name));
  return h(
    "section",
    { class: "card" },
    h(
      "div",
      { class: "body scroll" },
      h(
        "table",
        { class: "tight", id: "table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            names.map(([name]) => h("th", { scope: "col" }, safe(grouped && MEASURES[name] ? MEASURES[name][0] : name))),
            key >= 0 && id >= 0 && h("th", {}, ""),
          ),
        ),
        h(
          "tbody",
          {},
          answer.rows.slice(0, 500).map((row) =>
            h(
              "tr",
              {},
              names.map(([name, i]) => h("td", { class: typeof row[i] === "number" ? "num" : "name" }, format(name, row[i]))),
              link(row) && h("td", {}, link(row)),
            ),
          ),
        ),
      ),
      answer.rows.length > 500 && h("p", { class: "sub" }, `Showing 500 of ${whole(answer.rows.length)} rows; export has all.`),
    ),
  );
}
function pivotTable(answer, ask) {
  const [row, column, value] = [ask.group, ask.pivot, ask.measure].map((name) => answer.columns.indexOf(name));
  const key = (x) => cellText(x),
    rows = [...new Set(answer.rows.map((one) => key(one[row])))],
    columns = [...new Set(answer.rows.map((one) => key(one[column])))].slice(0, 40);
  const cells = new Map(answer.rows.map((one) => [key(one[row]) + "\u0000" + key(one[column]), one[value]]));
  return h(
    "section",
    { class: "card" },
    h(
      "div",
      { class: "body scroll" },
      h(
        "table",
        { class: "tight", id: "table" },
        h("caption", { class: "sub" }, `${MEASURES[ask.measure][0]} by ${ask.group} and ${ask.pivot}`),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, safe(ask.group)),
            columns.map((name) => h("th", { scope: "col" }, safe(name))),
          ),
        ),
        h(
          "tbody",
          {},
          rows.slice(0, 500).map((name) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, safe(cut(name, 200))),
              columns.map((other) => {
                const v = cells.get(name + "\u0000" + other);
                return h("td", { class: "num" }, v === undefined || v === null ? "–" : MEASURES[ask.measure][2](v));
              }),
            ),
          ),
        ),
      ),
    ),
  );
}
function chartOf(answer, ask) {
  const at = (name) => answer.columns.indexOf(name),
    value = at(ask.measure),
    [words, , format] = MEASURES[ask.measure];
  const label = (row) =>
    [ask.group, ask.pivot]
      .filter(Boolean)
      .map((name) => cellText(row[at(name)]))
      .join(" · ");
  const rows = answer.rows.filter((row) => row[value] !== null).slice(0, 30);
  if (!rows.length) return null;
  const title = `${words} by ${[ask.group, ask.pivot].filter(Boolean).join(" and ")}`;
  const figure =
    ask.measure === "rate"
      ? forest(
          rows.map((row) => {
            const [low, high] = wilson(row[at("passed")], row[at("counted")]);
            return {
              name: label(row),
              value: row[value],
              low,
              high,
              tip: `${row[at("passed")]} of ${row[at("counted")]}`,
              note: `${pct(row[value])} (${row[at("passed")]} of ${row[at("counted")]})`,
            };
          }),
          { low: 0, high: 1, label: title, format: (v) => Math.round(v * 100) + "%" },
        )
      : valueBars(
          rows.map((row) => ({ name: label(row), value: row[value], words: format(row[value]) })),
          title,
        );
  return card(
    title,
    (ask.measure === "rate" ? "95% Wilson intervals over attempts that count; repeats of a task are not independent." : "") +
      (answer.rows.length > 30 ? " First 30 groups." : ""),
    figure,
  );
}
function valueBars(rows, label) {
  const largest = Math.max(1e-12, ...rows.map((row) => row.value)),
    left = 190,
    width = 640,
    step = 27;
  return frame(
    width,
    rows.length * step + 4,
    label,
    rows.map((row, i) => {
      const w = Math.max(2, ((width - left - 110) * row.value) / largest);
      return s(
        "g",
        {},
        text(left - 10, i * step + 17, cut(safe(row.name), 28), { "text-anchor": "end" }),
        s("rect", { x: left, y: i * step + 4, width: w, height: 18, rx: 4, class: "f-accent" }),
        text(left + w + 8, i * step + 17, row.words, { class: "strong" }),
      );
    }),
  );
}
