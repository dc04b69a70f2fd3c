/* The editor of a suite's scenario: one row per scorer with the fields of its type; the change is shown as a diff before it is saved. */
function scenarioView(scenario) {
  const rows = scenario.scorers.map((scorer) => ({ ...scorer })),
    list = h("div", { class: "stack", id: "scorer-rows" }),
    preview = h("div", { class: "stack", id: "preview" });
  const locked = !scenario.editable || ROOT.read_only,
    why = ROOT.read_only ? "This view is read-only." : "The bundled suite cannot be edited; `ab init` creates a suite of your own.";
  const stale = () => preview.replaceChildren();
  const input = (row, spec) => {
    const value = row[spec.name],
      set = (v) => {
        if (v === "" || (Array.isArray(v) && !v.length)) delete row[spec.name];
        else row[spec.name] = v;
        stale();
      };
    const label = spec.name + (spec.required ? "" : " (optional)");
    if (spec.kind === "number")
      return field(
        label,
        h("input", {
          class: "field",
          type: "number",
          disabled: locked,
          value: value ?? "",
          "data-field": spec.name,
          oninput: (e) => set(e.target.value === "" ? "" : Number(e.target.value)),
        }),
      );
    if (spec.kind === "list")
      return field(
        label + ", one per line",
        h(
          "textarea",
          {
            class: "field",
            rows: "2",
            disabled: locked,
            "data-field": spec.name,
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
      h("input", { class: "field", disabled: locked, value: value ?? "", "data-field": spec.name, oninput: (e) => set(e.target.value) }),
    );
  };
  const required = (row) => (row.type === "llm_judge" ? false : (row.required ?? scenario.types[row.type].required));
  const requiredBox = (row) =>
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
    );
  const remove = (i) => () => {
    rows.splice(i, 1);
    stale();
    draw();
  };
  const removeButton = (i) => h("button", { class: "toggle", disabled: locked, onclick: remove(i) }, "Remove");
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
            type.fields.map((spec) => input(row, spec)),
          ),
          h(
            "div",
            { class: "row" },
            h("span", { class: "sub" }, safe(type.about)),
            h("span", { class: "spacer" }),
            requiredBox(row),
            removeButton(i),
          ),
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
