/* Data explorer: a question about the attempts of all runs, by choosing fields or by SQL. The address keeps the question. */
const MEASURES = {
  rate: ["pass rate", "avg(CASE WHEN counted THEN passed::int END)", pct],
  attempts: ["attempts", "count(*)", whole],
  cost: ["mean cost", "CASE WHEN count(DISTINCT cost_unit) = 1 THEN avg(cost) END", few],
  total_cost: ["total cost", "CASE WHEN count(DISTINCT cost_unit) = 1 THEN sum(cost) END", few],
  duration: ["median time", "median(duration_sec)", secs],
  tokens: ["mean tokens", "avg(tokens)", few],
  tool_calls: ["mean tool calls", "avg(tool_calls)", few],
  score: ["mean score", "avg(score)", few],
};
const SHOWN = ["task", "variant", "agent", "passed", "reason", "judge", "scorers", "duration_sec", "cost", "tokens", "run"];
const OPERATORS = {
  is: (column, value) => `${column}::VARCHAR = ${value}`,
  "is not": (column, value) => `${column}::VARCHAR IS DISTINCT FROM ${value}`,
  contains: (column, value) => `contains(lower(${column}::VARCHAR), lower(${value}))`,
  "at least": (column, value) => `TRY_CAST(${column} AS DOUBLE) >= TRY_CAST(${value} AS DOUBLE)`,
  "at most": (column, value) => `TRY_CAST(${column} AS DOUBLE) <= TRY_CAST(${value} AS DOUBLE)`,
  "is empty": (column) => `${column} IS NULL`,
};
/* The default filter: attempts that `ab retry` repeated in a new run did not pass before, so they would bias a rate. */
const NO_RETRIES = { column: "retry_of", how: "is empty", value: "" };
const LINKED = ["run_key", "attempt_id"]; /* always asked for, so that a row can lead to its attempt */
const quoted = (text) => "'" + String(text).replaceAll("'", "''") + "'";

/* The statement for a choice of fields. Names of columns come from the server's list, values are quoted. */
function statement(ask, columns) {
  const known = (name) => columns[name] !== undefined;
  const filters = ask.where
    .filter((filter) => known(filter.column) && OPERATORS[filter.how] && (filter.value !== "" || filter.how === "is empty"))
    .map((filter) => OPERATORS[filter.how](filter.column, quoted(filter.value)));
  const where = filters.length ? "\nWHERE " + filters.join("\n  AND ") : "";
  const group = [ask.group, ask.pivot].filter((name) => name && known(name));
  if (!group.length) {
    const chosen = [...new Set([...ask.columns.filter(known), ...LINKED])];
    const order = known(ask.sort) ? ask.sort + (ask.down ? " DESC" : "") + ", " : "";
    return `SELECT ${chosen.join(", ")}\nFROM attempts${where}\nORDER BY ${order}started_at DESC, task, repeat\nLIMIT 2000`;
  }
  const measures = Object.entries(MEASURES).map(([name, [, sql]]) => `${sql} AS ${name}`);
  const counts = "sum((passed AND counted)::int) AS passed, sum(counted::int) AS counted";
  const order = MEASURES[ask.sort] || group.includes(ask.sort) ? `${ask.sort}${ask.down ? " DESC NULLS LAST" : ""}, ` : "";
  return `SELECT ${[...group, ...measures, counts].join(",\n  ")}\nFROM attempts${where}\nGROUP BY ${group.join(", ")}\nORDER BY ${order}${group.join(", ")}\nLIMIT 2000`;
}

/* A question from an address, and the address of a question. */
function readAsk(query) {
  const text = (name, fallback) => (query[name] === undefined ? fallback : query[name]);
  let where = [{ ...NO_RETRIES }];
  try {
    const given = query.where && JSON.parse(query.where);
    if (given) {
      where = given.map((filter) => ({ column: String(filter.column), how: String(filter.how), value: String(filter.value) }));
    }
  } catch {
    /* the address was edited by hand */
  }
  return {
    group: text("group", "variant"),
    pivot: text("pivot", ""),
    measure: MEASURES[query.measure] ? query.measure : "rate",
    columns: text("columns", SHOWN.join(",")).split(",").filter(Boolean),
    where,
    sort: text("sort", ""),
    down: query.down === "1",
    sql: query.sql || "",
  };
}
function askAddress(ask) {
  const values = {
    group: ask.group,
    pivot: ask.pivot,
    measure: ask.measure === "rate" ? "" : ask.measure,
    columns: ask.columns.join(",") === SHOWN.join(",") ? "" : ask.columns.join(","),
    where: JSON.stringify(ask.where) === JSON.stringify([NO_RETRIES]) ? "" : JSON.stringify(ask.where),
    sort: ask.sort,
    down: ask.down ? "1" : "",
    sql: ask.sql,
  };
  const words = new URLSearchParams(Object.entries(values).filter(([name, value]) => value !== "" || name === "group"));
  return "#/explorer?" + words;
}

PAGES.explorer = {
  title: "Explorer",
  open: async (parts, query, still) => {
    D = ROOT;
    document.title = "Data explorer · AgentBench";
    const { columns, exports } = await getJson("/api/columns");
    if (still()) show(explorerView(columns, exports, readAsk(query), still));
  },
};

function explorerView(columns, exports, ask, still) {
  const names = Object.keys(columns);
  const result = h("div", { class: "stack", id: "result", "aria-live": "polite" });
  const sql = h("textarea", { class: "field", id: "sql", rows: "8", spellcheck: "false", "aria-label": "SQL" });
  let asked = 0;

  /* Ask the server. An answer that comes after a later question is not shown. */
  const run = async () => {
    const mine = ++asked;
    sql.value = ask.sql || statement(ask, columns);
    readdress(askAddress(ask));
    picker.hidden = Boolean(ask.group || ask.pivot || ask.sql);
    try {
      const answer = await postJson("/api/query", { sql: sql.value });
      if (!still() || mine !== asked) return;
      result.replaceChildren(...drawResult(answer, ask.sql ? null : ask, change));
      if (answer.pending) setTimeout(() => still() && mine === asked && run(), 1500);
    } catch (error) {
      if (still() && mine === asked) result.replaceChildren(problem(error));
    }
  };
  const change = (values) => {
    Object.assign(ask, { sql: "" }, values);
    run();
  };
  const save = async (form) => {
    try {
      const response = await request("/api/export", { sql: sql.value, format: form });
      if (!response.ok) throw new ViewError(await response.json(), response.status);
      const url = URL.createObjectURL(await response.blob());
      h("a", { href: url, download: "attempts." + form }).click();
      URL.revokeObjectURL(url);
    } catch (error) {
      result.prepend(problem(error));
    }
  };

  const select = (label, name, options) =>
    field(
      label,
      h(
        "select",
        { class: "field", id: name, onchange: (event) => change({ [name]: event.target.value, sort: "" }) },
        options.map(([key, words]) => h("option", { value: key, selected: key === ask[name] }, words)),
      ),
    );
  const fields = (none) => [["", none], ...names.map((name) => [name, name])];
  const picker = columnPicker(names, ask, change);
  const controls = h(
    "div",
    { class: "form" },
    select("Group by", "group", fields("no group: one row per attempt")),
    select("and by (pivot)", "pivot", fields("none")),
    select(
      "Plot",
      "measure",
      Object.entries(MEASURES).map(([key, [words]]) => [key, words]),
    ),
  );
  const runSql = () => {
    ask.sql = sql.value;
    run();
  };
  const sqlBox = h(
    "details",
    { open: Boolean(ask.sql) },
    h("summary", {}, "SQL"),
    h(
      "div",
      { class: "inset" },
      sql,
      h(
        "div",
        { class: "row" },
        h("button", { class: "toggle primary", id: "run-sql", onclick: runSql }, "Run"),
        h("span", { class: "sub" }, "One read-only statement over the table attempts (DuckDB), at most 10 s."),
      ),
    ),
  );
  const labels = { csv: "CSV", json: "JSON", parquet: "Parquet" };
  const saving = h(
    "div",
    { class: "row noprint" },
    h("span", { class: "sub" }, "Export:"),
    exports.map((form) => h("button", { class: "toggle", onclick: () => save(form) }, labels[form] || form)),
  );
  run();
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "row" },
      h("h1", {}, "Data explorer"),
      h("span", { class: "sub" }, "Every final attempt of every run, without retries in new runs (filter retry_of). The address keeps the question."),
    ),
    h("section", { class: "card noprint" }, h("div", { class: "body stack" }, controls, filterRows(names, ask, change), sqlBox)),
    picker,
    saving,
    result,
  );
}

function columnPicker(names, ask, change) {
  const toggle = (name, on) => change({ columns: names.filter((column) => (column === name ? on : ask.columns.includes(column))) });
  const box = (name) =>
    h("input", { type: "checkbox", checked: ask.columns.includes(name), onchange: (event) => toggle(name, event.target.checked) });
  return h(
    "details",
    { class: "card task noprint", id: "columns" },
    h("summary", {}, "Columns"),
    h(
      "div",
      { class: "choices inset" },
      names.map((name) => h("label", {}, box(name), name)),
    ),
  );
}

/* One row per filter. Values that occur are offered, so that a filter needs no typing. */
function filterRows(names, ask, change) {
  const holder = h("div", { class: "stack tight" });
  const offer = async (filter, list) => {
    const answer = await postJson("/api/query", {
      sql: `SELECT DISTINCT ${filter.column}::VARCHAR AS value FROM attempts WHERE value IS NOT NULL ORDER BY 1 LIMIT 200`,
    });
    list.replaceChildren(...answer.rows.map(([value]) => h("option", { value: safe(value) })));
  };
  const filterRow = (filter, i) => {
    const list = h("datalist", { id: "values-" + i });
    const set = (name) => (event) => {
      filter[name] = event.target.value;
      if (name === "column") offer(filter, list).catch(() => {});
      change({ where: ask.where });
    };
    const options = (values, chosen) => values.map((name) => h("option", { value: name, selected: name === chosen }, name));
    offer(filter, list).catch(() => {});
    return h(
      "div",
      { class: "row" },
      h("select", { class: "field", "aria-label": "field", onchange: set("column") }, options(names, filter.column)),
      h("select", { class: "field", "aria-label": "condition", onchange: set("how") }, options(Object.keys(OPERATORS), filter.how)),
      h("input", {
        class: "field",
        "aria-label": "value",
        list: list.id,
        autocomplete: "off",
        value: filter.value,
        onchange: set("value"),
      }),
      list,
      h("button", { class: "icon", "aria-label": "remove filter", onclick: () => remove(i) }, "×"),
    );
  };
  const remove = (i) => {
    ask.where.splice(i, 1);
    draw();
    change({ where: ask.where });
  };
  const add = () => {
    ask.where.push({ column: "suite", how: "is", value: "" });
    draw();
  };
  const draw = () =>
    holder.replaceChildren(
      ...ask.where.map(filterRow),
      h("div", {}, h("button", { class: "toggle", id: "add-filter", onclick: add }, "Add filter")),
    );
  draw();
  return holder;
}
