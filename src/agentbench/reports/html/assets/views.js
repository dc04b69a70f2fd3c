/* Overview, list of attempts, review queue, comparison. */
const KINDS = ["pass", "fail", "error", "invalid"];
const C = {}; /* column name -> index in the row of an attempt */
let D = null;

const col = (row, name) => row[C[name]];
const kindOf = (row) => KINDS[col(row, "kind")];
const wordOf = (row) => ({ pass: "PASS", fail: "FAIL", error: "ERROR", invalid: "INVALID" })[kindOf(row)];
const runOf = (row) => D.runs[col(row, "run")];

const GATE_NAMES = ["patch applies", "builds", "passes checks", "is safe"];
function dots(gates) {
  const kinds = { p: "pass", f: "fail", e: "error" };
  return h(
    "span",
    { class: "dots", role: "img", "aria-label": [...gates].map((g, i) => `${GATE_NAMES[i]}: ${kinds[g]}`).join(", ") },
    [...gates].map((g, i) => h("span", { class: "dot " + kinds[g], title: `${GATE_NAMES[i]}: ${kinds[g]}`, "aria-hidden": "true" }, i + 1)),
  );
}
const verdictBadge = (verdict) =>
  badge({ PASS: "pass", FAIL: "fail", ERROR: "error", unparseable: "error" }[verdict] || "none", verdict || "none");

function overview() {
  const many = D.runs.length > 1;
  if (D.live && !D.runs.some((run) => run.attempts))
    return h("section", {}, h("h1", { class: "vh" }, "Run"), h("p", { class: "card empty" }, "No attempt has ended yet."));
  return h(
    "div",
    { class: "stack" },
    D.runs.some((run) => run.altered.length) &&
      h(
        "div",
        { class: "note", role: "alert" },
        h("strong", {}, "Altered records: "),
        D.runs
          .flatMap((run) => run.altered.map((record) => `${many ? run.name + ": " : ""}${safe(record.place)} ${safe(record.why)}`))
          .join("; "),
        ". Run `ab verify`.",
      ),
    D.comparison && comparisonHero(true),
    D.methods && leaderboardHero(true),
    h("section", {}, h("h1", { class: "vh" }, "Runs"), h("div", { class: "grid " + (many ? "four" : "") }, D.runs.map(runCard))),
    D.runs.some((run) => run.deviations.length) &&
      h(
        "div",
        { class: "note", role: "note" },
        h("strong", {}, "Protocol deviations: "),
        D.runs.flatMap((run) => run.deviations.map((deviation) => (many ? run.name + ": " : "") + safe(deviation))).join("; "),
      ),
    matrixCard(),
    h("div", { class: "grid two" }, ratesCard(), reasonsCard()),
    timeCard(),
    costCard(),
    phaseCard(),
    distributionCard(),
    h(
      "div",
      { class: "grid two" },
      card(
        "Gates and weights",
        "Every gate must pass. These weights were used for the scores; they are a policy choice, not a measurement.",
        weightsFigure(D.weights),
      ),
      survivalCard(),
    ),
    h("div", { class: "grid two" }, projectionCard(), tradeoffCard()),
    h(
      "div",
      { class: "grid " + (many ? "two" : "") },
      D.runs.map((run) => detailsOfRun(run, many)),
    ),
  );
}

function runCard(run) {
  const c = run.rates.contract,
    invalid = run.rates.invalid;
  return h(
    "a",
    { class: "card tile", href: at("attempts?run=" + D.runs.indexOf(run)) },
    h(
      "div",
      { class: "row" },
      h("span", { class: "eyebrow" }, safe(run.variants.join(", ") || run.name)),
      run.incomplete && badge("error", "incomplete"),
      run.provisional && badge("error", "provisional"),
    ),
    h("div", { class: "big num" }, c.share === null ? "–" : pct(c.share)),
    h(
      "div",
      { class: "sub" },
      c.total ? `${c.count} of ${c.total} passed` : "no scorable attempts",
      c.interval ? ` · 95% CI ${pct(c.interval.low)} to ${pct(c.interval.high)}` : "",
    ),
    h(
      "div",
      { class: "sub" },
      plural(run.tasks, "task") + " · " + plural(run.attempts, "attempt") + (invalid.count ? " · " + invalid.count + " invalid" : ""),
    ),
    h(
      "div",
      { class: "small", style: { color: "var(--ink-2)" } },
      "agent " + safe(run.agents.join(", ")) + (run.models.length ? " · " + safe(run.models.join(", ")) : ""),
    ),
    run.signature && h("div", { class: "small", style: { color: "var(--ink-2)" } }, safe(run.signature)),
  );
}

function ratesCard() {
  const rows = D.runs.flatMap((run, i) =>
    [
      ["contract", "contract"],
      ["acceptance", "acceptance"],
    ].map(([key, name]) => {
      const rate = run.rates[key];
      return {
        name: (D.runs.length > 1 ? run.name + " · " : "") + name,
        value: rate.share,
        low: rate.interval && rate.interval.low,
        high: rate.interval && rate.interval.high,
        fill: key === "contract" ? "f-accent" : "f-line",
        tip: `${rate.count} of ${rate.total}`,
        note: rate.interval ? `${pct(rate.interval.low)} to ${pct(rate.interval.high)}` : "",
      };
    }),
  );
  const errors = D.runs.map((run) => run.rates);
  return card(
    "Rates with 95% confidence intervals",
    "Contract: all four gates pass. Acceptance: all mandatory checks pass. The denominators differ.",
    forest(rows, { low: 0, high: 1, label: "Rates with confidence intervals", format: (v) => Math.round(v * 100) + "%" }),
    tableOf(
      [["run", "name"], ["contract", "num"], ["acceptance", "num"], ["acceptance errors", "num"], ["invalid", "num"], "bounds"],
      D.runs.map((run) => [
        safe(run.name),
        ...["contract", "acceptance", "acceptance_error", "invalid"].map((key) => run.acceptance_unknown && key.startsWith("acceptance") ? "unknown: imported" : `${run.rates[key].count} of ${run.rates[key].total}`),
        h(
          "td",
          { class: "num", title: "share of all attempts if every undecided one fails, and if every one passes" },
          run.undecided.attempts ? `${pct(run.undecided.worst)} to ${pct(run.undecided.best)}` : "–",
        ),
      ]),
      { class: "tight" },
    ),
  );
}

function reasonsCard() {
  const counts = {};
  for (const run of D.runs) for (const [name, n] of Object.entries(run.failure_reasons)) counts[name] = (counts[name] || 0) + n;
  const rows = Object.entries(counts)
    .sort((x, y) => y[1] - x[1])
    .map(([name, value]) => ({
      name,
      value,
      words: whole(value),
      cls: /SETUP|BASELINE|SANDBOX|INTERRUPTED|OPERATOR/.test(name) ? "f-invalid" : name === "ACCEPTANCE_ERROR" ? "f-error" : "f-fail",
    }));
  return card(
    "Failure reasons",
    "One per attempt: the first that applies.",
    rows.length ? bars(rows, "Failure reasons", 60) : h("p", { class: "empty" }, "Every attempt passed."),
    h("h3", { style: { "margin-top": "14px" } }, "Gate outcomes"),
    h(
      "table",
      {},
      h(
        "tbody",
        {},
        vectors()
          .slice(0, 8)
          .map(([gates, n]) => h("tr", {}, h("td", {}, dots(gates)), h("td", { class: "r" }, plural(n, "attempt")))),
      ),
    ),
  );
}
function vectors() {
  const counts = {};
  for (const row of D.attempts) counts[col(row, "gates")] = (counts[col(row, "gates")] || 0) + 1;
  return Object.entries(counts).sort((x, y) => y[1] - x[1]);
}

function matrixCard() {
  const tasks = new Map();
  D.attempts.forEach((row, i) => {
    const cells = tasks.get(col(row, "task")) || D.runs.map(() => []);
    cells[col(row, "run")].push(i);
    tasks.set(col(row, "task"), cells);
  });
  const share = (cells) => {
    const all = cells.flat();
    return all.filter((i) => kindOf(D.attempts[i]) === "pass").length / all.length;
  };
  const sorted = [...tasks.entries()].sort((x, y) => share(x[1]) - share(y[1]) || (x[0] < y[0] ? -1 : 1));
  const limit = 60;
  const cell = (picked) => {
    if (!picked.length) return h("span", { class: "dim" }, "not run");
    const kinds = picked.map((i) => kindOf(D.attempts[i])),
      passed = kinds.filter((k) => k === "pass").length;
    const kind = new Set(kinds).size === 1 ? kinds[0] : "mixed";
    const reason = col(D.attempts[picked[0]], "reason");
    const words =
      picked.length > 1
        ? `${passed} of ${picked.length} passed`
        : kind === "pass"
          ? "passed"
          : (kind === "invalid" ? "invalid: " : "") +
            String(reason || kind)
              .toLowerCase()
              .replaceAll("_", " ");
    const href =
      picked.length > 1
        ? at("attempts?q=" + encodeURIComponent("task:" + col(D.attempts[picked[0]], "task")) + "&run=" + col(D.attempts[picked[0]], "run"))
        : at("attempt/" + ref(picked[0]));
    return h(
      "a",
      { class: "cell " + kind, href, title: safe(col(D.attempts[picked[0]], "headline")) },
      h("span", { "aria-hidden": "true" }, MARK[kind] || "±"),
      words,
    );
  };
  return h(
    "section",
    { class: "card" },
    h(
      "header",
      {},
      h("h2", {}, "Tasks"),
      h(
        "p",
        { class: "sub" },
        `${plural(tasks.size, "task")}, hardest first` + (tasks.size > limit ? `; showing ${limit}, see Attempts for all` : ""),
      ),
    ),
    h(
      "div",
      { class: "body scroll" },
      h(
        "table",
        { class: "matrix" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "task"),
            D.runs.map((run) => h("th", { scope: "col" }, safe(run.name))),
          ),
        ),
        h(
          "tbody",
          {},
          sorted.slice(0, limit).map(([task, cells]) =>
            h(
              "tr",
              {},
              h(
                "th",
                {
                  scope: "row",
                  class: "name",
                  style: { position: "static", color: "var(--ink)", "font-weight": "500", "font-size": "13.5px" },
                },
                safe(task),
              ),
              cells.map((picked) => h("td", {}, cell(picked))),
            ),
          ),
        ),
      ),
    ),
  );
}

function timeCard() {
  return card(
    "Time by outcome",
    "Duration of an attempt.",
    tableOf(
      [["run", "name"], "outcome", ["attempts", "r"], ["median", "r"], ["90th percentile", "r"], ["longest", "r"]],
      D.runs.flatMap((run) =>
        run.times.map((row) => [safe(run.name), row.outcome, row.attempts, secs(row.median_sec), secs(row.p90_sec), secs(row.longest_sec)]),
      ),
    ),
  );
}
function costCard() {
  const units = new Set(D.runs.flatMap((run) => run.cost.map((cost) => cost.unit))),
    same = units.size === 1;
  return card(
    "Cost",
    same ? `Unit: ${safe([...units][0])}.` : "Different units are not added.",
    tableOf(
      [
        ["run", "name"],
        !same && ["unit", "dim"],
        ...["model", "execution", "human", "overhead", "judge", "total", "per pass", "tokens"].map((words) => [words, "r"]),
      ],
      D.runs.flatMap((run) =>
        run.cost.map((cost) => [
          safe(run.name),
          !same && safe(cost.unit),
          ...["lm", "exec", "human", "overhead", "judge", "total", "per_pass"].map((key) => few(cost[key])),
          whole(run.tokens),
        ]),
      ),
      { class: "tight" },
    ),
  );
}
function phaseCard() {
  const names = [...new Set(D.runs.flatMap((run) => run.cost.flatMap((cost) => Object.keys(cost.phases))))];
  const over = D.runs.reduce((sum, run) => sum + run.overruns.length, 0);
  return card(
    "Cost by phase",
    over ? `${plural(over, "attempt")} cost more than the cap.` : "No attempt cost more than its cap.",
    tableOf(
      [["run", "name"], ["unit", "dim"], ...names.map((name) => [name, "r"])],
      D.runs.flatMap((run) => run.cost.map((cost) => [safe(run.name), safe(cost.unit), ...names.map((key) => few(cost.phases[key] || 0))])),
      { class: "tight" },
    ),
  );
}
function distributionCard() {
  const range = (q, format) => `${format(q[1])} (${format(q[0])} to ${format(q[2])})`;
  const rows = D.runs.flatMap((run) => run.distributions);
  if (!rows.length) return null;
  return card(
    "Distributions",
    "Median (lower to upper quartile) of an attempt.",
    h(
      "details",
      { class: "more", open: rows.length <= 12 },
      h("summary", {}, plural(rows.length, "row")),
      tableOf(
        [["run", "name"], "stratum", "value", "outcome", ...["attempts", "cost", "tokens", "time"].map((words) => [words, "r"])],
        D.runs.flatMap((run) =>
          run.distributions.map((row) => [
            safe(run.name),
            safe(row.dimension),
            safe(row.value),
            row.outcome,
            row.attempts,
            row.cost ? `${range(row.cost, few)} ${safe(row.unit)}` : "unknown",
            range(row.tokens, few),
            range(row.seconds, secs),
          ]),
        ),
        { class: "tight" },
      ),
    ),
  );
}
function survivalCard() {
  if (!D.runs.length) return null;
  const figure = survival(D.runs, "time_to_success", "time in the agent phase", (v) => (v ? secs(v) : "0"));
  return card(
    "Success over time",
    "Kaplan–Meier estimate; attempts stopped by a cap or undecided are censored.",
    figure || h("p", { class: "empty" }, "No attempt passed."),
  );
}
const unitWords = (unit) => (unit === "hours" ? "hours" : `cost (${safe(unit)})`);
function projectionCard() {
  const p = D.projection,
    x = [10, 20, 50, 100, 200, 500, 1000];
  const series = D.runs.map((run) => ({
    name: run.name,
    cls: colourOf(run),
    points: [[0, 0], ...x.map((n) => [n, n * run.projection.per_attempt])],
  }));
  return card(
    "Cost projection",
    `Model: mean recorded cost of an attempt (${D.runs.map((run) => plural(run.projection.attempts, "attempt")).join(", ")}; reviews excluded) times the number of attempts` +
      (p.unit === "hours" ? ", in hours because no prices are recorded." : "."),
    lines(series, {
      label: "Projected cost by number of attempts",
      xlabel: "attempts",
      ylabel: unitWords(p.unit),
      xformat: (v) => whole(Math.round(v)),
      yformat: few,
    }),
    legend(D.runs),
  );
}
function tradeoffCard() {
  const z = 1.96,
    half = (p, n) => (z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n))) / (1 + (z * z) / n);
  const p = D.projection,
    sizes = [5, 8, 12, 20, 30, 50, 80, 120, 200, 320, 500];
  const series = D.runs
    .filter((run) => run.rates.contract.share !== null)
    .map((run) => ({
      name: run.name,
      cls: colourOf(run),
      run,
      points: sizes.map((n) => [n * run.projection.per_attempt, half(run.rates.contract.share, n)]),
    }));
  if (!series.length) return null;
  const recorded = series
    .map((line) => D.runs.find((run) => run.name === line.name))
    .filter((run) => run.rates.contract.interval)
    .map(
      (run) =>
        `${safe(run.name)} ±${few((run.rates.contract.interval.high - run.rates.contract.interval.low) * 50)} points for ${few(run.projection.per_attempt * run.projection.attempts)} ${p.unit === "hours" ? "hours" : safe(p.unit)}`,
    );
  return card(
    "Cost and precision",
    "Model: cost of a 95% confidence interval of a given half-width at these rates and mean costs, with one attempt per task." +
      (recorded.length ? ` Recorded: ${recorded.join("; ")}.` : ""),
    lines(series, {
      label: "Half-width of the interval by cost",
      xlabel: unitWords(p.unit),
      ylabel: "half-width, points",
      xformat: few,
      yformat: (v) => "±" + few(v * 100),
    }),
    legend(series.map((line) => line.run)),
  );
}

function listed(title, lines) {
  return lines && lines.length
    ? h(
        "details",
        {},
        h("summary", {}, h("span", { class: "grow" }, title), h("span", { class: "count" }, lines.length)),
        h(
          "div",
          { class: "inset" },
          lines.map((line) => h("div", { class: "small mono", style: { "overflow-wrap": "anywhere" } }, safe(line))),
        ),
      )
    : null;
}
function detailsOfRun(run, many) {
  const strata =
    run.strata.length &&
    h(
      "details",
      {},
      h("summary", {}, h("span", { class: "grow" }, "Strata"), h("span", { class: "count" }, run.strata.length)),
      h(
        "div",
        { class: "inset" },
        tableOf(
          ["stratum", "value", "tasks", "contract rate", "95% CI"],
          run.strata.map((stratum) => [
            safe(stratum.dimension),
            safe(stratum.value),
            stratum.tasks,
            `${stratum.contract.count} of ${stratum.contract.total} (${pct(stratum.contract.share)})`,
            stratum.contract.interval ? `${pct(stratum.contract.interval.low)} to ${pct(stratum.contract.interval.high)}` : "–",
          ]),
        ),
      ),
    );
  const repeats =
    run.pass_k.length &&
    h(
      "details",
      {},
      h("summary", {}, h("span", { class: "grow" }, "Repeats: pass@k and pass^k")),
      h(
        "div",
        { class: "inset" },
        tableOf(
          ["k", "at least one of k passes", "all k pass", "tasks"],
          run.pass_k.map((row) => [row.k, pct(row.pass_at_k), pct(row.pass_hat_k), row.tasks]),
        ),
      ),
    );
  const truth =
    run.truth.length &&
    h(
      "details",
      { open: true },
      h("summary", {}, h("span", { class: "grow" }, `False positives and negatives (${plural(run.adjudications, "adjudication")})`)),
      h(
        "div",
        { class: "inset" },
        tableOf(
          ["category", "false positives of flagged", "correct but rejected", "false negatives of actual", "defect but passed"],
          run.truth.map((row) => [
            safe(row.category),
            `${row.false_positive.count} of ${row.false_positive.total}`,
            row.correct_rejected,
            `${row.false_negative.count} of ${row.false_negative.total}`,
            row.defects_passed,
          ]),
        ),
      ),
    );
  return card(
    many ? safe(run.name) : "About this run",
    null,
    facts([
      ["run", run.folder],
      ["suite", run.suite],
      ["harness", run.versions.join(", ")],
      [
        "assurance",
        Object.entries(run.assurance)
          .map(([k, n]) => `${k} ${n}`)
          .join(", "),
      ],
      [
        "mean score",
        run.mean_score === null ? "none" : `${run.mean_score.toFixed(3)} over ${plural(run.scored, "attempt")} that passed all gates`,
      ],
      [
        "commands of programs",
        Object.entries(run.commands)
          .map(([k, n]) => `${k.replace("_", " ")} ${n}`)
          .join(", "),
      ],
      ["superseded", run.superseded || ""],
    ]),
    strata || null,
    repeats || null,
    truth || null,
    listed("Flaky tasks", run.flaky),
    listed("Enforced limits", run.enforced),
    listed("Reproducibility", run.artifacts),
  );
}

/* --- attempts --------------------------------------------------------------------------------------------------------- */
const COLUMNS = [
  ["verdict", "kind", "104px"],
  ["task", "task", "minmax(150px,1.4fr)"],
  ["run", "run", "minmax(90px,.8fr)"],
  ["why", "headline", "minmax(150px,2.2fr)"],
  ["gates", "gates", "100px"],
  ["scorers", "workspace", "74px"],
  ["judge", "judge", "74px"],
  ["run badge", "badge", "100px"],
  ["score", "score", "54px", "r"],
  ["time", "duration", "76px", "r"],
  ["cost", "cost", "84px", "r"],
];
/* Hide columns without any value. */
function columnsShown() {
  const any = (name, none) => D.attempts.some((row) => !none.includes(col(row, name)));
  const gone = {
    workspace: !any("workspace", ["N/A", null]),
    judge: !any("judge", [null]),
    cost: !any("cost", [0, null]),
    run: D.runs.length < 2,
    score: !any("score", [null]),
  };
  return COLUMNS.filter(([, key]) => !gone[key]);
}
function filtered(query) {
  const words = (query.q || "").toLowerCase().split(/\s+/).filter(Boolean);
  const exact = words.filter((w) => w.startsWith("task:")).map((w) => w.slice(5)),
    loose = words.filter((w) => !w.startsWith("task:"));
  const matches = [];
  D.attempts.forEach((row, i) => {
    if (query.run !== undefined && query.run !== "" && String(col(row, "run")) !== query.run) return;
    if (query.verdict && kindOf(row) !== query.verdict) return;
    if (query.reason && col(row, "reason") !== query.reason) return;
    if (query.review && !col(row, "review")) return;
    if (exact.length && !exact.includes(String(col(row, "task")).toLowerCase())) return;
    if (loose.length) {
      const hay = (col(row, "task") + " " + col(row, "headline") + " " + runOf(row).name + " " + col(row, "badge")).toLowerCase();
      if (!loose.every((w) => hay.includes(w))) return;
    }
    matches.push(i);
  });
  if (query.sort) {
    const [name, down] = query.sort.startsWith("-") ? [query.sort.slice(1), -1] : [query.sort, 1];
    const value = (i) => col(D.attempts[i], name);
    matches.sort((x, y) => {
      const a = value(x),
        b = value(y);
      if (a === b) return x - y;
      if (a === null) return 1;
      if (b === null) return -1;
      return (a < b ? -1 : 1) * down;
    });
  }
  return matches;
}
function attemptsView(query) {
  const list = new VirtualList({
    rowHeight: 40,
    height: () => Math.max(320, innerHeight - 250),
    label: "Attempts",
    draw: (i) => attemptRow(i, keys),
    open: (i) => go(at("attempt/" + ref(i))),
  });
  const state = { ...query },
    columns = columnsShown(),
    keys = new Set(columns.map((column) => column[1]));
  const total = h("span", { class: "sub", id: "total" });
  const head = h("div", { class: "vt-head" });
  const refresh = () => {
    const matches = filtered(state);
    D.order = matches;
    list.show(matches);
    total.textContent =
      `${whole(matches.length)} of ${whole(D.attempts.length)} attempts` +
      (D.omitted ? `; ${whole(D.omitted)} more are not on this page, use --format csv for all` : "");
    say(total.textContent);
    const text = Object.entries(state)
      .filter(([, v]) => v)
      .map(([k, v]) => k + "=" + encodeURIComponent(v))
      .join("&");
    readdress(at("attempts") + (text ? "?" + text : ""));
    head.replaceChildren(
      ...columns.map(([title, key, , cls]) =>
        h(
          "span",
          { class: cls },
          h(
            "button",
            {
              onclick: () => {
                state.sort = state.sort === key ? "-" + key : key;
                refresh();
              },
              "aria-label": "sort by " + title,
            },
            title + (state.sort === key ? " ↑" : state.sort === "-" + key ? " ↓" : ""),
          ),
        ),
      ),
    );
    empty.hidden = matches.length > 0;
  };
  const select = (name, label, options) =>
    h(
      "select",
      {
        class: "field",
        "aria-label": label,
        id: "f-" + name,
        onchange: (e) => {
          state[name] = e.target.value;
          refresh();
        },
      },
      h("option", { value: "" }, label),
      options.map(([value, words]) => h("option", { value, selected: String(state[name] ?? "") === value }, words)),
    );
  const reasons = [...new Set(D.attempts.map((row) => col(row, "reason")).filter(Boolean))].sort();
  const empty = h("p", { class: "empty", hidden: true }, "No attempts match these filters.");
  const search = h("input", {
    class: "field search",
    type: "search",
    id: "search",
    placeholder: "Search tasks and reasons   ( / )",
    "aria-label": "Search",
    value: state.q || "",
    oninput: (e) => {
      state.q = e.target.value;
      refresh();
    },
  });
  const view = h(
    "div",
    { class: "stack" },
    h("div", { class: "row" }, h("h1", {}, "Attempts"), total),
    h(
      "div",
      { class: "filters" },
      search,
      D.runs.length > 1 &&
        select(
          "run",
          "all runs",
          D.runs.map((run, i) => [String(i), safe(run.name)]),
        ),
      select(
        "verdict",
        "all verdicts",
        KINDS.map((k) => [k, k]),
      ),
      select(
        "reason",
        "all reasons",
        reasons.map((r) => [r, r]),
      ),
      h(
        "button",
        {
          class: "toggle",
          id: "f-review",
          "aria-pressed": state.review ? "true" : "false",
          onclick: (e) => {
            state.review = state.review ? "" : "1";
            e.target.setAttribute("aria-pressed", state.review ? "true" : "false");
            refresh();
          },
        },
        "needs review",
      ),
    ),
    h("div", { class: "vt", style: { "--cols": columns.map((column) => column[2]).join(" ") } }, head, list.body, empty),
  );
  refresh();
  D.list = list;
  return view;
}
function attemptRow(i, keys) {
  const row = D.attempts[i],
    repeat = col(row, "repeat");
  const cells = {
    kind: () => h("span", {}, badge(kindOf(row), wordOf(row))),
    task: () =>
      h(
        "a",
        { href: at("attempt/" + ref(i)), tabindex: "-1", style: { color: "inherit", "font-weight": "570" } },
        safe(col(row, "task")),
        repeat > 1 && h("span", { class: "dim" }, " · " + repeat),
      ),
    run: () => h("span", { class: "dim" }, safe(runOf(row).name)),
    headline: () =>
      h(
        "span",
        { class: "lines", title: safe(col(row, "headline")) },
        col(row, "review") ? h("span", { title: "needs review" }, "⚑ ") : "",
        safe(col(row, "why")),
      ),
    gates: () => h("span", {}, dots(col(row, "gates"))),
    workspace: () => h("span", {}, small(col(row, "workspace"))),
    judge: () => h("span", {}, small(col(row, "judge"))),
    badge: () => h("span", { class: "dim" }, safe(col(row, "badge"))),
    score: () => h("span", { class: "r" }, col(row, "score") === null ? "–" : col(row, "score").toFixed(2)),
    duration: () => h("span", { class: "r" }, secs(col(row, "duration"))),
    cost: () => h("span", { class: "r" }, few(col(row, "cost"))),
  };
  return h(
    "div",
    { class: "vt-row" },
    [...keys].map((key) => cells[key]()),
  );
}
const small = (verdict) => (verdict && verdict !== "N/A" ? verdictBadge(verdict) : h("span", { class: "dim" }, verdict || "none"));

/* Commands that work as they are, in the folder where the page was made. A defect in a passed attempt needs a category. */
const shell = (word) => (/^[\w./:+@%-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
const adjudicateCommands = (row) =>
  ["correct", kindOf(row) === "pass" ? "incorrect --category invariant_violation" : "incorrect"].map(
    (truth) => `ab adjudicate ${shell(safe(runOf(row).path))} --attempt ${safe(col(row, "id"))} --truth ${truth} --minutes 5`,
  );

function reviewView() {
  const picked = D.attempts.map((row, i) => i).filter((i) => col(D.attempts[i], "review"));
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "row" },
      h("h1", {}, "Review queue"),
      h("span", { class: "sub" }, plural(picked.length, "attempt") + " flagged for review. Adjudications do not change verdicts."),
    ),
    picked.length
      ? h(
          "div",
          { class: "stack" },
          picked.slice(0, 300).map((i) => {
            const row = D.attempts[i],
              judged = col(row, "truth");
            return h(
              "section",
              { class: "card tile" },
              h(
                "div",
                { class: "row" },
                badge(kindOf(row), wordOf(row)),
                h(
                  "a",
                  { href: at("attempt/" + ref(i)), style: { "font-weight": "620" } },
                  safe(col(row, "task")) + (col(row, "repeat") > 1 ? " · " + col(row, "repeat") : ""),
                ),
                h("span", { class: "dim" }, safe(runOf(row).name)),
                h("span", { class: "spacer" }),
                judged
                  ? badge(judged === "correct" ? "pass" : judged === "incorrect" ? "fail" : "none", "adjudicated: " + judged)
                  : badge("accent", "open"),
              ),
              h("div", { class: "why" }, safe(col(row, "headline"))),
              h(
                "ul",
                { style: { margin: "0", "padding-left": "18px" } },
                (D.reviews[i] || ["needs review"]).map((why) => h("li", {}, safe(why))),
              ),
              adjudicateCommands(row).map((line) => h("pre", { class: "copy" }, line)),
            );
          }),
          picked.length > 300 && h("p", { class: "dim" }, `and ${picked.length - 300} more: filter Attempts by “needs review”`),
        )
      : h("p", { class: "empty card" }, "No attempts need review."),
  );
}

/* --- leaderboard ------------------------------------------------------------------------------------------------------- */
function leaderboardHero(link) {
  const [, word, rest] = /^([^:]*): (.*)$/.exec(D.methods.decision) || [0, safe(D.methods.decision), ""];
  return h(
    "section",
    { class: "card hero " + (D.methods.best_set.length < D.methods.methods.length ? "pass" : "invalid") },
    h(
      "div",
      { class: "row" },
      h("span", { class: "eyebrow" }, plural(D.methods.methods.length, "method")),
      h("span", { class: "spacer" }),
      link && h("a", { href: at("leaderboard") }, "Leaderboard →"),
    ),
    h("div", { class: "lead" }, safe(word), h("div", { class: "rest" }, safe(rest))),
  );
}
function leaderboardView() {
  const m = D.methods,
    names = m.methods.map((method) => method.name),
    best = new Set(m.best_set),
    strengths = m.methods.some((method) => method.strength !== null);
  const rows = m.methods.map((method, i) => ({
    name: method.name,
    value: method.rate.share,
    low: method.rate.interval && method.rate.interval.low,
    high: method.rate.interval && method.rate.interval.high,
    fill: "f-k",
    stroke: "s-k",
    cls: "k" + (i % 6),
    tip: `${method.rate.count} of ${method.rate.total}`,
    note: method.rate.interval ? `${pct(method.rate.interval.low)} to ${pct(method.rate.interval.high)}` : "",
  }));
  const cell = (row, column) => {
    const pair = m.pairs.find((each) => (each.a === row && each.b === column) || (each.a === column && each.b === row));
    return pair
      ? h(
          "td",
          { class: "num", style: pair.better ? { "font-weight": "680" } : {} },
          `${pts(pair.b === row ? pair.difference : -pair.difference)}, p = ${pair.adjusted_p_value < 0.001 ? "< 0.001" : pValue(pair.adjusted_p_value, D.methods.alpha)}`,
        )
      : h("td", { class: "dim" }, row === column ? "–" : "");
  };
  const terms = [safe(m.cost_unit), m.cost_basis].filter(Boolean).join(", ");
  const notes = [
    ...(m.left_out.length ? [`${plural(m.left_out.length, "task")} left out: no counted attempt from every method`] : []),
    ...m.differences,
    ...m.remarks,
    ...m.deviations,
  ];
  return h(
    "div",
    { class: "stack" },
    h("h1", { class: "vh" }, "Leaderboard"),
    leaderboardHero(false),
    notes.length > 0 && h("div", { class: "note" }, safe(notes.join("; "))),
    card(
      `Leaderboard (${m.rate} rate)`,
      "The best set has every method that no other method beats significantly.",
      tableOf(
        [
          ["method", "name"],
          ["rate", "num"],
          ["attempts", "num"],
          [`cost per attempt${m.cost_unit ? ` (${terms})` : ""}`, "num"],
          "best set",
          strengths && ["strength", "num"],
        ],
        m.methods.map((method, i) => [
          h("span", { class: "legend" }, h("span", {}, h("i", { class: "k" + (i % 6) }), safe(method.name))),
          pct(method.rate.share),
          `${method.rate.count} of ${method.rate.total}`,
          method.other_unit
            ? `not comparable (${safe(method.other_unit)})`
            : method.cost_per_attempt === null
              ? "unknown"
              : few(method.cost_per_attempt),
          best.has(method.name) ? "yes" : "",
          strengths && (method.strength === null ? "–" : (method.strength >= 0 ? "+" : "−") + Math.abs(method.strength).toFixed(2)),
        ]),
      ),
    ),
    h(
      "div",
      { class: "grid two" },
      card(
        "Rates with 95% confidence intervals",
        null,
        forest(rows, { low: 0, high: 1, label: "Rates of methods with confidence intervals", format: (v) => Math.round(v * 100) + "%" }),
      ),
      m.front.length
        ? card(
            "Cost and quality",
            "Dashed: no method is cheaper and better.",
            scatter(
              m.methods.map((method) => ({ ...method, front: m.front.includes(method.name) })),
              { label: "Cost and rate of methods", xlabel: `cost per attempt (${terms})` },
            ),
          )
        : card("Cost and quality", null, h("p", { class: "empty" }, safe(`There is no front: ${m.cost_problem}.`))),
    ),
    card(
      "Pairwise differences",
      `Row minus column in points, on ${plural(m.tasks.length, "task")}; p-values adjusted by Holm's method, bold is significant.`,
      tableOf(
        ["", ...names.map(safe)],
        names.map((row) => [h("th", { scope: "row" }, safe(row)), ...names.map((column) => cell(row, column))]),
      ),
    ),
  );
}

/* --- comparison ------------------------------------------------------------------------------------------------------- */
function comparisonHero(link) {
  const c = D.comparison,
    kind = c.better ? "pass" : "invalid",
    [, word, rest] = /^([^:]*): (.*)$/.exec(c.decision) || [0, safe(c.decision), ""];
  return h(
    "section",
    { class: "card hero " + (D.gate ? { holds: "pass", fails: "fail", undecided: "error" }[D.gate.verdict] : kind) },
    h(
      "div",
      { class: "row" },
      h("span", { class: "eyebrow" }, "A"),
      h("strong", {}, safe(c.a.name)),
      h("span", { class: "eyebrow" }, "vs. B"),
      h("strong", {}, safe(c.b.name)),
      c.labels.map((label) => badge("error", label.toLowerCase())),
      c.cannot_detect && badge("error", "underpowered"),
      link && h("span", { class: "spacer" }),
      link && h("a", { href: at("comparison") }, "Comparison →"),
    ),
    D.gate && h("div", { class: "row" }, badge({ holds: "pass", fails: "fail", undecided: "error" }[D.gate.verdict], D.gate.line)),
    h("div", { class: "lead" }, word, h("div", { class: "rest" }, safe(rest))),
  );
}
function comparisonView() {
  const c = D.comparison,
    main = c.comparisons[c.rate],
    other = Object.entries(c.comparisons).filter(([k]) => k !== c.rate);
  const rows = [];
  const span = (interval) => (interval ? `${pts(interval.low)} to ${pts(interval.high)}` : "no CI");
  const add = (name, interval) =>
    interval &&
    rows.push({
      name,
      value: main.difference,
      low: interval.low,
      high: interval.high,
      stroke: "s-accent",
      tip: interval.method,
      note: span(interval),
    });
  const looks = c.stopping && c.stopping.decision,
    adjusted = looks && looks.adjusted_interval;
  add("adjusted for looks", adjusted);
  add(main.interval ? main.interval.method : "", main.interval);
  add("bootstrap over tasks", main.bootstrap);
  add("bootstrap over repositories", main.bootstrap_by_repository);
  for (const [name, comparison] of other)
    rows.push({
      name: name + " rate",
      value: comparison.difference,
      low: comparison.interval && comparison.interval.low,
      high: comparison.interval && comparison.interval.high,
      stroke: "s-ink",
      fill: "f-line",
      note: span(comparison.interval),
    });
  if (c.undecided_bounds && c.undecided_bounds[1] - c.undecided_bounds[0] > 1e-9)
    rows.push({
      name: "undecided bounds",
      value: null,
      low: c.undecided_bounds[0],
      high: c.undecided_bounds[1],
      stroke: "s-b",
      note: span({ low: c.undecided_bounds[0], high: c.undecided_bounds[1] }),
    });
  const reach = Math.max(
    0.1,
    ...rows.flatMap((r) => [Math.abs(r.low ?? 0), Math.abs(r.high ?? 0), Math.abs(r.value ?? 0)]),
    main.minimum_detectable_effect || 0,
  );
  const edge = Math.min(1, Math.ceil(reach * 10) / 10),
    mde = main.minimum_detectable_effect;
  const t = main.contingency;
  const held = c.comparability;
  const heldLines = [
    ...held.across_versions.map((x) => "Different contract versions: " + x),
    ...held.differences,
    ...held.remarks,
    ...held.deviations,
    ...held.unknown_conditions,
  ];
  const numbers = facts([
    ["A", pct(main.share_a)],
    ["B", pct(main.share_b)],
    ["p (adjusted for looks)", looks ? pValue(looks.adjusted_p, c.alpha) : ""],
    ["p (McNemar mid-p)", main.mcnemar_mid_p === null ? "" : pValue(main.mcnemar_mid_p, c.alpha)],
    ["p (McNemar exact)", main.mcnemar_exact === null ? "" : pValue(main.mcnemar_exact, c.alpha)],
    ["p (sign-flip)", main.sign_flip === null ? "" : pValue(main.sign_flip, c.alpha)],
    ["cost", c.a.cost === null || c.b.cost === null ? "" : `A ${few(c.a.cost)}, B ${few(c.b.cost)} ${safe(c.cost_unit || "")}`],
    ["safety violations only in B", c.new_safety.join(", ")],
  ]);
  return h(
    "div",
    { class: "stack" },
    h("h1", { class: "vh" }, "Comparison"),
    comparisonHero(false),
    D.gate &&
      card(
        "Gate",
        "Exit code " + D.gate.exit_code + ": 0 holds, 1 fails, 2 undecided.",
        h(
          "table",
          {},
          h(
            "tbody",
            {},
            D.gate.conditions.map((condition) =>
              h(
                "tr",
                {},
                h("td", { class: "mono" }, condition.name),
                h("td", {}, badge({ holds: "pass", fails: "fail", undecided: "error" }[condition.verdict], condition.verdict)),
                h("td", { class: "why" }, safe(condition.why)),
              ),
            ),
          ),
        ),
      ),
    c.stopping &&
      h(
        "div",
        { class: "note info" },
        h("strong", {}, "Stopping rule: "),
        safe(c.stopping.rule_text),
        ". ",
        safe(c.stopping.decision_text || "The first look is not complete"),
        ". Other intervals and p-values are not adjusted for the looks.",
      ),
    h(
      "div",
      { class: heldLines.length ? "note" : "note info" },
      heldLines.length
        ? [h("strong", {}, "Comparability: "), safe(heldLines.join("; "))]
        : "Comparable: A and B have the same contracts, configuration class, seeds and harness version.",
    ),
    h(
      "div",
      { class: "grid two" },
      card(
        "B − A",
        mde === null
          ? "Underpowered: no effect is reliably detectable if tasks differ as they do here."
          : `Minimum detectable effect: ${(mde * 100).toFixed(1)} points (grey band).`,
        forest(rows, {
          low: -edge,
          high: edge,
          zero: true,
          band: mde === null ? [-edge, edge] : [-mde, mde],
          label: "Difference of rates with confidence intervals",
          format: (v) => (v ? pts(v).replace(/\.0$/, "") : "0"),
        }),
        numbers,
      ),
      card(
        t ? "Tasks by outcome" : "Notes",
        `${plural(main.tasks, "task")}, ${c.rate} rate`,
        t &&
          h(
            "table",
            {},
            h("thead", {}, h("tr", {}, h("th", {}), h("th", {}, "B passed"), h("th", {}, "B did not pass"))),
            h(
              "tbody",
              {},
              h(
                "tr",
                {},
                h("th", {}, "A passed"),
                h("td", { class: "big" }, t.both),
                h("td", { class: "big", style: { color: "var(--a)" } }, t.only_a),
              ),
              h(
                "tr",
                {},
                h("th", {}, "A did not pass"),
                h("td", { class: "big", style: { color: "var(--b)" } }, t.only_b),
                h("td", { class: "big" }, t.neither),
              ),
            ),
          ),
        main.notes.length > 0 &&
          h(
            "ul",
            { class: "small dim", style: { "padding-left": "18px", margin: "12px 0 0" } },
            main.notes.map((n) => h("li", {}, safe(n))),
          ),
      ),
    ),
    h(
      "div",
      { class: "grid two" },
      card(
        "Difference by task",
        c.flips.length ? `${plural(c.flipped, "task")} with different results` + (c.flipped > 24 ? ", showing the 24 largest" : "") : null,
        c.flips.length ? flipsFigure(c.flips) : h("p", { class: "empty" }, "No task differs."),
      ),
      powerCard(main),
    ),
    strataCard(c),
    c.flips.length > 0 && flipsCard(c),
    survivalCard(),
  );
}
/* Effects that this comparison detects, and how reliably. */
function powerCard(main) {
  const mde = main.minimum_detectable_effect;
  if (!main.power_curve.length) return card("Power", null, h("p", { class: "empty" }, "No difference can be detected with these tasks."));
  return card(
    "Power",
    "Probability that a true difference of this size is significant, if as many tasks differ as here (approximation). " +
      (mde === null ? "No difference reaches 80%." : `80% at ${(mde * 100).toFixed(1)} points.`),
    lines([{ name: "power", cls: "k2", points: main.power_curve }], {
      label: "Power by true difference",
      xlabel: "true difference of the rates, points",
      ylabel: "power",
      xformat: (v) => few(v * 100),
      yformat: (v) => Math.round(v * 100) + "%",
      ymax: 1,
    }),
  );
}
function flipsCard(c) {
  const side = (flip, ids, whys) =>
    flip[ids].length
      ? flip[ids]
          .slice(0, 5)
          .map((id, n) =>
            h(
              "div",
              {},
              h("a", { href: at("attempt/" + ref(id)), class: "v-" + kindOf(D.attempts[id]) }, safe(flip[whys][n] || "attempt")),
            ),
          )
      : safe(flip[whys].join(", ") || "–");
  const diffs = (flip) =>
    flip.attempts_a.length > 0 && flip.attempts_b.length > 0
      ? h(
          "button",
          { class: "toggle", "aria-label": "diffs of " + safe(flip.task), onclick: (e) => bothDiffs(e.target.closest("tr"), flip) },
          "Diffs",
        )
      : "";
  const rows = c.flips
    .slice(0, 300)
    .map((flip) => [
      safe(flip.task),
      `${Math.round(flip.a * 100)}% → ${Math.round(flip.b * 100)}%`,
      side(flip, "attempts_a", "why_a"),
      side(flip, "attempts_b", "why_b"),
      diffs(flip),
    ]);
  const more = c.flipped > 300 ? ` Showing the 300 largest of ${whole(c.flipped)}; use --format csv for all.` : "";
  return card(
    "Tasks that differ",
    "Links lead to the attempts; Diffs shows both patches side by side." + more,
    tableOf([["task", "name"], ["A → B", "num"], "A", "B", "patches"], rows),
  );
}
/* Effect in each stratum: descriptive, because a comparison is powered for all tasks together. */
function strataCard(c) {
  const [a, b] = [c.a.run, c.b.run].map((i) => (i === null ? null : D.runs[i]));
  if (!a || !b || !a.strata.length) return null;
  const rows = a.strata
    .map((row) => [row, b.strata.find((other) => other.dimension === row.dimension && other.value === row.value)])
    .filter(([, other]) => other);
  return card(
    "Effect by stratum",
    "Descriptive: rates of A and B in each stratum, not adjusted for the number of strata.",
    tableOf(
      ["stratum", "value", "tasks", ["A", "num"], ["B", "num"], ["B − A", "num"]],
      rows.map(([row, other]) => [
        safe(row.dimension),
        safe(row.value),
        row.tasks,
        ...[row, other].map(({ contract }) => (contract.total ? `${contract.count} of ${contract.total} (${pct(contract.share)})` : "–")),
        row.contract.share === null || other.contract.share === null ? "–" : pts(other.contract.share - row.contract.share) + " points",
      ]),
      { id: "strata" },
    ),
  );
}
/* Both patches of a task side by side, below its row. */
function bothDiffs(row, flip) {
  const next = row.nextElementSibling;
  if (next && next.classList.contains("both")) return next.remove();
  const cell = h("td", { colspan: "5" }, h("p", { class: "sub" }, "Loading…"));
  row.after(h("tr", { class: "both" }, cell));
  Promise.all([flip.attempts_a[0], flip.attempts_b[0]].map((i) => AB.load("a" + i))).then(
    (details) => {
      cell.replaceChildren(
        h(
          "div",
          { class: "grid two" },
          details.map((detail, n) =>
            h(
              "section",
              { class: "stack" },
              h(
                "h3",
                {},
                `${n ? "B" : "A"} · ${safe(detail.record.variant)}: ${safe(col(D.attempts[n ? flip.attempts_b[0] : flip.attempts_a[0]], "headline"))}`,
              ),
              diffTab(detail.diff, detail.record),
            ),
          ),
        ),
      );
    },
    (error) => cell.replaceChildren(problem(error)),
  );
}
