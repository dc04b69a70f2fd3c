/* Tasks: suites, their tasks with checks and pass rates, and the editor of a suite's scenario. */
PAGES.tasks = {
  title: "Tasks",
  open: async ([suite, part], query, still) => {
    D = ROOT;
    document.title = "Tasks · AgentBench";
    const view = !suite
      ? suitesView(await getJson("/api/suites"))
      : part === "scenario"
        ? scenarioView(await getJson(`/api/suite/${suite}/scenario`))
        : suiteView(await getJson("/api/suite/" + suite));
    if (still()) show(view);
  },
};
function suitesView(answer) {
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "row" }, h("h1", {}, "Suites"), h("span", { class: "sub" }, "in " + safe(answer.tasks_dir))),
    h(
      "section",
      { class: "card" },
      h(
        "div",
        { class: "body scroll" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["suite", "tasks", "tasks with attempts", "scenario"].map((x) => h("th", { scope: "col" }, x)),
            ),
          ),
          h(
            "tbody",
            {},
            answer.suites.map((one) =>
              h(
                "tr",
                {},
                h("td", {}, h("a", { href: "#/tasks/" + encodeURIComponent(one.name), style: { "font-weight": "620" } }, safe(one.name))),
                h("td", { class: "num" }, one.tasks),
                h("td", { class: "num" }, one.attempted),
                h("td", {}, h("a", { href: `#/tasks/${encodeURIComponent(one.name)}/scenario` }, "scorers")),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}
function suiteView(suite) {
  const rate = (one) =>
    `${safe(one.variant)}: ${one.passed} of ${one.counted} passed${one.attempts > one.counted ? `, ${one.attempts - one.counted} not counted` : ""}`;
  const task = (one) =>
    h(
      "details",
      { class: "card", style: { padding: "0 14px" } },
      h(
        "summary",
        {},
        one.problems.length ? badge("fail", "invalid") : badge(one.locked ? "pass" : "none", one.locked ? "locked" : "not locked"),
        h("span", { class: "grow" }, h("strong", {}, safe(one.id)), h("span", { class: "dim" }, one.title ? " " + safe(one.title) : "")),
        h("span", { class: "sub" }, one.rates.map(rate).join(" · ") || "no attempts"),
      ),
      h(
        "div",
        { class: "inset" },
        one.problems.length
          ? h(
              "ul",
              {},
              one.problems.map((line) => h("li", { class: "mono small" }, safe(line))),
            )
          : [
              h("pre", {}, safe(one.statement)),
              facts([
                [
                  "strata",
                  Object.entries(one.strata)
                    .map(([k, v]) => `${k} ${v}`)
                    .join(", "),
                ],
                ["limits", one.limits],
                ["scorers", one.scorers.join(", ")],
              ]),
              h(
                "table",
                {},
                h(
                  "thead",
                  {},
                  h(
                    "tr",
                    {},
                    ["check", "layer", "", "fail-to-pass", "pass-to-pass", "command"].map((x) => h("th", { scope: "col" }, x)),
                  ),
                ),
                h(
                  "tbody",
                  {},
                  one.checks.map((check) =>
                    h(
                      "tr",
                      {},
                      h("td", {}, safe(check.id)),
                      h("td", {}, safe(check.layer)),
                      h("td", {}, check.mandatory ? "mandatory" : "diagnostic"),
                      h("td", { class: "num" }, check.fail_to_pass),
                      h("td", { class: "num" }, check.pass_to_pass),
                      h("td", { class: "mono name" }, safe(check.command)),
                    ),
                  ),
                ),
              ),
            ],
      ),
    );
  return h(
    "div",
    { class: "stack" },
    h(
      "nav",
      { class: "sub-nav", "aria-label": "Suite" },
      h("a", { href: "#/tasks" }, "← suites"),
      h("a", { href: `#/tasks/${encodeURIComponent(suite.name)}/scenario` }, "Edit the scorers (scenario.yaml)"),
    ),
    h("div", { class: "row" }, h("h1", {}, safe(suite.name)), h("span", { class: "sub" }, plural(suite.tasks.length, "task"))),
    h("div", { class: "stack", style: { gap: "8px" } }, suite.tasks.map(task)),
  );
}
/* The editor: one row per scorer with the fields of its type; the change is shown as a diff before it is saved. */
function scenarioView(scenario) {
  const rows = scenario.scorers.map((one) => ({ ...one })),
    list = h("div", { class: "stack", id: "scorer-rows" }),
    preview = h("div", { class: "stack", id: "preview" });
  const locked = !scenario.editable || ROOT.read_only,
    why = ROOT.read_only ? "This view is read-only." : "The bundled suite cannot be edited; `ab init` creates a suite of your own.";
  const stale = () => preview.replaceChildren();
  const input = (row, one) => {
    const value = row[one.name],
      set = (v) => {
        if (v === "" || (Array.isArray(v) && !v.length)) delete row[one.name];
        else row[one.name] = v;
        stale();
      };
    const label = one.name + (one.required ? "" : " (optional)");
    if (one.kind === "number")
      return field(
        label,
        h("input", {
          class: "field",
          type: "number",
          disabled: locked,
          value: value ?? "",
          "data-field": one.name,
          oninput: (e) => set(e.target.value === "" ? "" : Number(e.target.value)),
        }),
      );
    if (one.kind === "list")
      return field(
        label + ", one per line",
        h(
          "textarea",
          {
            class: "field",
            rows: "2",
            disabled: locked,
            "data-field": one.name,
            oninput: (e) =>
              set(
                e.target.value
                  .split("\n")
                  .map((x) => x.trim())
                  .filter(Boolean),
              ),
          },
          (value || []).join("\n"),
        ),
      );
    return field(
      label,
      h("input", { class: "field", disabled: locked, value: value ?? "", "data-field": one.name, oninput: (e) => set(e.target.value) }),
    );
  };
  const required = (row) => (row.type === "llm_judge" ? false : (row.required ?? scenario.types[row.type].required));
  const draw = () =>
    list.replaceChildren(
      ...rows.map((row, i) => {
        const type = scenario.types[row.type] || { fields: [], about: "unknown type" };
        return h(
          "section",
          { class: "card tile scorer-row" },
          h(
            "div",
            { class: "form" },
            field(
              "name",
              h("input", {
                class: "field",
                disabled: locked,
                value: row.name || "",
                "data-field": "name",
                oninput: (e) => {
                  row.name = e.target.value;
                  stale();
                },
              }),
            ),
            field(
              "type",
              h(
                "select",
                {
                  class: "field",
                  disabled: locked,
                  "data-field": "type",
                  onchange: (e) => {
                    rows[i] = { name: row.name, type: e.target.value };
                    stale();
                    draw();
                  },
                },
                Object.keys(scenario.types).map((name) => h("option", { value: name, selected: name === row.type }, name)),
              ),
            ),
            type.fields.map((one) => input(row, one)),
            h(
              "label",
              { class: "row" },
              h("input", {
                type: "checkbox",
                disabled: locked || row.type === "llm_judge",
                checked: required(row),
                "data-field": "required",
                onchange: (e) => {
                  row.required = e.target.checked;
                  stale();
                },
              }),
              "required",
            ),
            h(
              "button",
              {
                class: "toggle",
                disabled: locked,
                onclick: () => {
                  rows.splice(i, 1);
                  stale();
                  draw();
                },
              },
              "Remove",
            ),
          ),
          h("div", { class: "sub" }, safe(type.about)),
        );
      }),
    );
  const review = async () => {
    try {
      const answer = await postJson("/api/scenario/preview", { suite: scenario.suite, scorers: rows });
      const save = h(
        "button",
        {
          class: "toggle primary",
          id: "save",
          disabled: answer.problems.length > 0 || !answer.diff,
          onclick: async () => {
            save.disabled = true;
            try {
              const done = await act("scenario", { suite: scenario.suite, scorers: rows, digest: scenario.digest });
              preview.replaceChildren(h("div", { class: "note info", role: "status" }, safe(done.done)));
              scenario.digest = (await getJson(`/api/suite/${encodeURIComponent(scenario.suite)}/scenario`)).digest;
            } catch (error) {
              preview.append(problem(error));
            }
          },
        },
        "Save",
      );
      preview.replaceChildren(
        answer.problems.length
          ? h(
              "div",
              { class: "note", role: "alert" },
              h("strong", {}, "The scenario is not valid:"),
              h(
                "ul",
                {},
                answer.problems.map((line) => h("li", {}, safe(line))),
              ),
            )
          : "",
        answer.diff
          ? h("div", { class: "file" }, h("div", { class: "diff" }, diffTable(answer.diff.replace(/\n$/, "").split("\n"), "scenario.yaml")))
          : h("p", { class: "card empty" }, "Nothing has changed."),
        answer.diff
          ? h("div", { class: "row" }, save, h("span", { class: "sub" }, "Tasks that froze their scenario or have a lock keep theirs."))
          : "",
      );
      preview.scrollIntoView({ block: "nearest" });
    } catch (error) {
      preview.replaceChildren(problem(error));
    }
  };
  draw();
  return h(
    "div",
    { class: "stack" },
    h(
      "nav",
      { class: "sub-nav", "aria-label": "Suite" },
      h("a", { href: "#/tasks/" + encodeURIComponent(scenario.suite) }, "← " + safe(scenario.suite)),
    ),
    h("div", { class: "row" }, h("h1", {}, "Scorers of " + safe(scenario.suite)), h("span", { class: "sub mono" }, safe(scenario.path))),
    locked && h("div", { class: "note info" }, why),
    scenario.problems.length > 0 &&
      h(
        "div",
        { class: "note" },
        scenario.problems.map((line) => h("div", {}, safe(line))),
      ),
    rows.length === 0 && h("p", { class: "sub" }, "This suite has no scorers yet."),
    list,
    !locked &&
      h(
        "div",
        { class: "row" },
        h(
          "button",
          {
            class: "toggle",
            id: "add-scorer",
            onclick: () => {
              rows.push({ name: "", type: "command" });
              stale();
              draw();
            },
          },
          "Add a scorer",
        ),
        h("button", { class: "toggle primary", id: "review", onclick: review }, "Review the change"),
      ),
    preview,
  );
}
