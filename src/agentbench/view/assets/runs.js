/* Runs: all runs with state, progress and results; two of them can be compared. */
function runMeter(run) {
  const c = run.counts,
    total = Math.max(run.planned || 0, c ? c.attempts : 0) || 1,
    running = run.running || 0;
  if (!c) return h("span", { class: "dim" }, "reading…");
  const parts = [
    ["pass", c.passed, "passed"],
    ["fail", c.not_passed, "not passed"],
    ["invalid", c.invalid, "invalid"],
    ["running", running, "running"],
  ].filter(([, n]) => n);
  return h(
    "div",
    { class: "meter", role: "img", "aria-label": parts.map(([, n, words]) => `${n} ${words}`).join(", ") + ` of ${total}` },
    parts.map(([kind, n, words]) => h("i", { class: kind, title: `${n} ${words}`, style: { width: (100 * n) / total + "%" } })),
  );
}
const STATES = { running: "accent", finished: "none", interrupted: "error", unreadable: "fail", unknown: "none" };
const stateBadge = (state) => badge(STATES[state] || "none", state);
const when = (text) => (/^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(String(text)) ? String(text).slice(0, 16).replace("T", " ") : safe(text || "–"));
function runResult(run) {
  const c = run.counts;
  if (run.problem) return safe(run.problem);
  if (!c) return "";
  const counted = c.passed + c.not_passed;
  return (
    `${c.passed} of ${counted} passed` +
    (counted ? ` (${Math.round((100 * c.passed) / counted)}%)` : "") +
    (c.invalid ? `, ${c.invalid} invalid` : "") +
    (c.needs_review ? `, ${c.needs_review} to review` : "")
  );
}
const spentOf = (run) =>
  run.counts && run.counts.spent
    ? money(run.counts.spent, run.counts.unit) + (run.cap ? ` of ${money(run.cap, "usd")}` : "")
    : run.cap
      ? `0 of ${money(run.cap, "usd")}`
      : "–";

function runsPage(query, still) {
  const chosen = new Set((query.with || "").split(",").filter(Boolean)),
    state = { q: query.q || "", state: query.state || "", suite: query.suite || "" };
  let runs = [],
    signature = "",
    pause = 0;
  const total = h("span", { class: "sub", id: "total" }),
    body = h("tbody", {}),
    suites = h("select", {
      class: "field",
      "aria-label": "all suites",
      onchange: (e) => {
        state.suite = e.target.value;
        draw();
      },
    });
  const compare = h(
    "button",
    { class: "toggle primary", id: "compare", disabled: true, onclick: () => go("#/compare/" + [...chosen].join("/")) },
    "Compare",
  );
  const hint = h("span", { class: "sub", id: "hint" });
  const matches = () =>
    runs.filter(
      (run) =>
        (!state.state || run.state === state.state) &&
        (!state.suite || run.suite === state.suite) &&
        (!state.q ||
          `${run.name} ${run.suite} ${run.variant} ${run.model} ${run.counts ? run.counts.agents.concat(run.counts.variants).join(" ") : ""}`
            .toLowerCase()
            .includes(state.q.toLowerCase())),
    );
  const pick = (key, on) => {
    on ? chosen.add(key) : chosen.delete(key);
    while (chosen.size > 2) chosen.delete([...chosen][0]);
    draw();
  };
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
          onchange: (e) => pick(run.key, e.target.checked),
        }),
      ),
      h(
        "td",
        { class: "name" },
        h(
          "a",
          { href: "#/run/" + run.key, style: { "font-weight": "620" } },
          safe(run.variant || (run.counts && run.counts.variants.join(", ")) || run.name),
        ),
        h("div", { class: "sub" }, safe(run.suite || ""), run.model ? " · " + safe(run.model) : ""),
      ),
      h("td", {}, stateBadge(run.state)),
      h(
        "td",
        { style: { "min-width": "130px" } },
        runMeter(run),
        h(
          "div",
          { class: "sub" },
          run.counts ? `${whole(run.counts.attempts)}${run.planned === null ? "" : " of " + whole(run.planned)} attempts` : "",
        ),
      ),
      h("td", {}, runResult(run)),
      h("td", { class: "r" }, spentOf(run)),
      h("td", { class: "num dim", title: safe(run.path) }, when(run.created_at)),
    );
  const draw = () => {
    const shown = matches(),
      limit = 300;
    body.replaceChildren(...shown.slice(0, limit).map(row));
    total.textContent =
      `${whole(shown.length)} of ${whole(runs.length)} runs` +
      (shown.length > limit ? `, showing the newest ${limit}` : "") +
      (pause ? `; reading ${whole(pause)} more` : "");
    compare.disabled = chosen.size !== 2;
    hint.textContent = chosen.size === 2 ? "" : chosen.size === 1 ? "Select one more run to compare." : "Select two runs to compare them.";
    const names = [...new Set(runs.map((run) => run.suite).filter(Boolean))].sort();
    suites.replaceChildren(
      h("option", { value: "" }, "all suites"),
      ...names.map((name) => h("option", { value: name, selected: state.suite === name }, safe(name))),
    );
    suites.hidden = names.length < 2;
    const words = Object.entries({ ...state, with: [...chosen].join(",") })
      .filter(([, value]) => value)
      .map(([key, value]) => key + "=" + encodeURIComponent(value))
      .join("&");
    history.replaceState(null, "", "#/" + (words ? "runs?" + words : ""));
  };
  const refresh = async () => {
    const answer = await getJson("/api/runs"),
      now = JSON.stringify(answer);
    if (!still() || now === signature) return;
    signature = now;
    runs = answer.runs;
    pause = answer.pending;
    empty.hidden = runs.length > 0;
    draw();
    if (pause)
      setTimeout(() => {
        if (still()) refresh();
      }, 700);
  };
  const empty = h(
    "p",
    { class: "card empty", hidden: true },
    "No runs in the served folders yet. ",
    h("code", {}, "ab run --suite demo --agent reference"),
    " makes one.",
  );
  show(
    h(
      "div",
      { class: "stack" },
      h("div", { class: "row" }, h("h1", {}, "Runs"), total),
      h(
        "div",
        { class: "filters" },
        h("input", {
          class: "field search",
          type: "search",
          id: "search",
          placeholder: "Search runs   ( / )",
          "aria-label": "Search runs",
          value: state.q,
          oninput: (e) => {
            state.q = e.target.value;
            draw();
          },
        }),
        h(
          "select",
          {
            class: "field",
            id: "f-state",
            "aria-label": "all states",
            onchange: (e) => {
              state.state = e.target.value;
              draw();
            },
          },
          h("option", { value: "" }, "all states"),
          ["running", "finished", "interrupted", "unreadable"].map((name) =>
            h("option", { value: name, selected: state.state === name }, name),
          ),
        ),
        suites,
        compare,
        hint,
      ),
      empty,
      h(
        "section",
        { class: "card" },
        h(
          "div",
          { class: "body scroll" },
          h(
            "table",
            { id: "runs" },
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                ["", "method", "state", "progress", "result", "spent", "started"].map((x, i) =>
                  h("th", { scope: "col", class: i === 5 ? "r" : null }, x || h("span", { class: "vh" }, "compare")),
                ),
              ),
            ),
            body,
          ),
        ),
      ),
    ),
  );
  every(1500, () => refresh().catch(() => {}));
  return refresh();
}
