/* Runs: all runs with state, progress and results; two of them can be compared. */
const STATES = { running: "accent", finished: "none", incomplete: "error", interrupted: "error", imported: "none", unreadable: "fail", unknown: "none" };
const stateBadge = (state) => badge(STATES[state] || "none", state);
const when = (text) => (/^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(String(text)) ? String(text).slice(0, 16).replace("T", " ") : safe(text || "–"));
const about = (seconds) =>
  seconds < 60 ? "less than a minute" : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;

function runMeter(run) {
  const counts = run.counts;
  if (!counts) return h("span", { class: "dim" }, run.problem ? "" : "reading…");
  const total = Math.max(run.planned || 0, counts.attempts + (run.running || 0)) || 1;
  const parts = [
    ["pass", counts.passed, "passed"],
    ["fail", counts.not_passed, "not passed"],
    ["invalid", counts.not_counted, "not counted"],
    ["running", run.running || 0, "running"],
  ].filter(([, n]) => n);
  const label = parts.map(([, n, words]) => `${n} ${words}`).join(", ") + ` of ${total}`;
  const bar = ([kind, n, words]) => h("i", { class: kind, title: `${n} ${words}`, style: { width: (100 * n) / total + "%" } });
  return h("div", { class: "meter", role: "img", "aria-label": label }, parts.map(bar));
}
/* Done, running and waiting attempts; and how long the rest will take. */
function progressWords(run) {
  const done = run.counts ? run.counts.attempts : 0;
  if (run.state !== "running")
    return run.counts ? `${run.planned === null ? "" : whole(done) + " of "}${plural(run.planned ?? done, "attempt")}` : "";
  const words = [`${whole(done)} done`, `${whole(run.running || 0)} running`];
  if (run.waiting !== null && run.waiting !== undefined) words.push(`${whole(run.waiting)} waiting`);
  return words.join(" · ");
}
const speedWords = (run) =>
  [run.per_hour ? `${few(run.per_hour)} attempts per hour` : "", run.eta_sec ? `${about(run.eta_sec)} left` : ""]
    .filter(Boolean)
    .join(" · ");
function runResult(run) {
  const counts = run.counts;
  if (run.problem) return safe(run.problem);
  if (!counts) return "";
  if (!counts.attempts) return "no result yet";
  const counted = counts.passed + counts.not_passed;
  return [
    run.altered ? "ALTERED: " + safe(run.altered) : "",
    run.not_sealed ? "NOT SEALED: " + safe(run.not_sealed) : "",
    `${counts.passed} of ${counted} passed` + (counted ? ` (${Math.round((100 * counts.passed) / counted)}%)` : ""),
    counts.not_counted ? `${counts.not_counted} not counted` : "",
    counts.needs_review ? `${counts.needs_review} to review` : "",
  ]
    .filter(Boolean)
    .join(", ");
}
/* A run of `ab retry` that repeats attempts of another: its rate says nothing about the suite. */
function retryWords(retry) {
  return `retry of ${retry.kind === "errors" ? "the errors" : "what did not pass"} in ${safe(retry.name || retry.run_id || "another run")}`;
}
const suitesOf = (run) => (run.counts && run.counts.suites.length ? run.counts.suites : [run.suite].filter(Boolean));
/* What was spent, also by superseded attempts. A cap is for all runs that one command made, so it is compared with what they spent together. */
function spending(run, running = 0) {
  const unit = (run.counts && run.counts.unit) || "";
  const amount = (value) => (unit ? money(value, unit) : few(value));
  const own = (run.counts ? run.counts.spent : 0) + running;
  const superseded = run.counts && run.counts.superseded_spent;
  const unknown = run.counts ? run.counts.unknown_costs : 0;
  const words = [superseded && `${amount(superseded)} of it superseded`, own && unknown && `unknown for ${plural(unknown, "attempt")}`];
  const note = h("div", { class: "sub" }, words.filter(Boolean).join(", "));
  if (!run.cap) return own ? [amount(own), note] : unknown ? "unknown" : "–";
  const spent = run.study_spent + running;
  const share = Math.min(1, spent / run.cap);
  return [
    unit === "usd" ? `${amount(spent)} of ${amount(run.cap)}` : `${few(spent)} of ${amount(run.cap)}`,
    h(
      "div",
      { class: "meter", role: "img", "aria-label": `${Math.round(100 * share)}% of the cap is spent` },
      h("i", { class: share > 0.9 ? "fail" : "running", style: { width: 100 * share + "%" } }),
    ),
    note,
  ];
}

function runsPage(query, still) {
  const chosen = new Set((query.with || "").split(",").filter(Boolean));
  const state = { q: query.q || "", state: query.state || "", suite: query.suite || "", study: query.study || "" };
  let runs = [];
  let signature = "";
  let pending = 0;
  const total = h("span", { class: "sub", id: "total" });
  const body = h("tbody", {});
  const hint = h("span", { class: "sub", id: "hint" });
  const studyNote = h("div", { class: "row noprint", hidden: true });
  const choose = (name) => (event) => {
    state[name] = event.target.value;
    draw();
  };
  const suites = h("select", { class: "field", "aria-label": "suite", onchange: choose("suite") });
  const compare = h(
    "button",
    { class: "toggle primary", id: "compare", disabled: true, onclick: () => go("#/compare/" + [...chosen].join("/")) },
    "Compare",
  );

  const textOf = (run) =>
    [run.name, run.suite, run.variant, run.model, ...(run.counts ? [...run.counts.agents, ...run.counts.variants] : [])]
      .join(" ")
      .toLowerCase();
  const matches = () =>
    runs.filter(
      (run) =>
        (!state.state || run.state === state.state) &&
        (!state.suite || suitesOf(run).includes(state.suite)) &&
        (!state.study || run.study_id === state.study) &&
        (!state.q || textOf(run).includes(state.q.toLowerCase())),
    );
  /* Oldest first: the earlier run is A. A third choice replaces the first. */
  const pick = (key, on) => {
    on ? chosen.add(key) : chosen.delete(key);
    while (chosen.size > 2) chosen.delete([...chosen][0]);
    draw();
  };
  const together = (run) => (run.study_id ? runs.filter((other) => other.study_id === run.study_id).length : 1);
  const row = (run) =>
    h(
      "tr",
      { "data-run": run.key },
      h(
        "td",
        {},
        h("input", {
          type: "checkbox",
          "aria-label": "select " + safe(run.name) + " to compare",
          checked: chosen.has(run.key),
          disabled: !run.counts,
          onchange: (event) => pick(run.key, event.target.checked),
        }),
      ),
      h(
        "td",
        { class: "name" },
        h(
          "a",
          { href: "#/run/" + run.key, class: "strong" },
          safe(run.variant || (run.counts && run.counts.variants.join(", ")) || run.name),
        ),
        h("div", { class: "sub" }, safe(run.suite || ""), run.model ? " · " + safe(run.model) : ""),
        run.retry_of && h("div", { class: "sub" }, retryWords(run.retry_of)),
      ),
      h("td", {}, runResult(run)),
      h("td", {}, stateBadge(run.state)),
      h(
        "td",
        { class: "progress" },
        runMeter(run),
        h("div", { class: "sub" }, progressWords(run)),
        h("div", { class: "sub" }, speedWords(run)),
      ),
      h("td", { class: "r" }, spending(run)),
      h(
        "td",
        { class: "num dim", title: safe(run.path) },
        when(run.created_at),
        !state.study &&
          together(run) > 1 &&
          h(
            "div",
            {},
            h("a", { class: "small", href: "#/runs?study=" + encodeURIComponent(run.study_id) }, `1 of ${together(run)} variants`),
          ),
      ),
    );
  const draw = () => {
    const shown = matches();
    const limit = 300;
    if (state.study && !chosen.size && shown.length === 2)
      shown
        .slice()
        .reverse()
        .forEach((run) => chosen.add(run.key));
    body.replaceChildren(...shown.slice(0, limit).map(row));
    const altered = shown.filter((run) => run.altered).length;
    const unsealed = shown.filter((run) => run.not_sealed).length;
    total.textContent =
      (altered ? `ALTERED: ${plural(altered, "run")}, see \`ab verify\`. ` : "") +
      (unsealed ? `NOT SEALED: ${plural(unsealed, "run")}. ` : "") +
      `${whole(shown.length)} of ${plural(runs.length, "run")}` +
      (shown.length > limit ? `, showing the newest ${limit}` : "") +
      (pending ? `; reading ${whole(pending)} more` : "");
    compare.disabled = chosen.size !== 2;
    hint.textContent = ["Select two runs to compare them.", "Select one more run to compare.", ""][chosen.size];
    const names = [...new Set(runs.flatMap(suitesOf))].sort();
    suites.replaceChildren(
      h("option", { value: "" }, "all suites"),
      ...names.map((name) => h("option", { value: name, selected: state.suite === name }, safe(name))),
    );
    suites.hidden = names.length < 2;
    studyNote.hidden = !state.study;
    studyNote.replaceChildren(...(state.study ? [badge("line", "variants of one run"), h("a", { href: "#/runs" }, "Show all runs")] : []));
    const words = new URLSearchParams(Object.entries({ ...state, with: [...chosen].join(",") }).filter(([, value]) => value));
    readdress("#/" + (String(words) ? "runs?" + words : ""));
  };
  const refresh = async () => {
    const answer = await getJson("/api/runs");
    const now = JSON.stringify(answer);
    if (!still() || now === signature) return;
    signature = now;
    runs = answer.runs;
    pending = answer.pending;
    empty.hidden = runs.length > 0;
    draw();
    if (pending) setTimeout(() => still() && refresh().catch(() => {}), 700);
  };
  const empty = h(
    "p",
    { class: "card empty", hidden: true },
    "No runs in the served folders yet. ",
    h("code", {}, "ab run --suite demo --agent reference"),
    " makes one.",
  );
  const search = h("input", {
    class: "field search",
    type: "search",
    id: "search",
    placeholder: "Search runs   ( / )",
    "aria-label": "Search runs",
    value: state.q,
    oninput: choose("q"),
  });
  const states = h(
    "select",
    { class: "field", id: "f-state", "aria-label": "state", onchange: choose("state") },
    h("option", { value: "" }, "all states"),
    ["running", "finished", "incomplete", "interrupted", "imported", "unreadable"].map((name) => h("option", { value: name, selected: state.state === name }, name)),
  );
  const head = ["", "method", "result", "state", "progress", "spent", "started"].map((words, i) =>
    h("th", { scope: "col", class: i === 5 ? "r" : null }, words || h("span", { class: "vh" }, "compare")),
  );
  show(
    h(
      "div",
      { class: "stack" },
      h("div", { class: "row" }, h("h1", {}, "Runs"), total),
      h("div", { class: "filters" }, search, states, suites, compare, hint),
      studyNote,
      empty,
      h(
        "section",
        { class: "card" },
        h("div", { class: "body scroll" }, h("table", { id: "runs" }, h("thead", {}, h("tr", {}, head)), body)),
      ),
    ),
  );
  every(1500, () => refresh().catch(() => {}));
  return refresh();
}
