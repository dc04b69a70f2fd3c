/* Tasks: suites and their tasks with checks, validation, audit and pass rates. */
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
const suiteAddress = (name) => "#/tasks/" + encodeURIComponent(name);

function suitesView(answer) {
  const rows = answer.suites.map((suite) => [
    h("a", { href: suiteAddress(suite.name), class: "strong" }, safe(suite.name)),
    suite.tasks,
    suite.attempted,
    h("a", { href: suiteAddress(suite.name) + "/scenario" }, "edit the scorers"),
  ]);
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "row" }, h("h1", {}, "Suites"), h("span", { class: "sub" }, "in " + safe(answer.tasks_dir))),
    h("section", { class: "card" }, h("div", { class: "body" }, tableOf(["suite", "tasks", "tasks with attempts", "scenario"], rows))),
  );
}

function suiteView(suite) {
  const missing = suite.tasks.filter((task) => !task.problems.length && !task.validation).length;
  return h(
    "div",
    { class: "stack" },
    h(
      "nav",
      { class: "sub-nav noprint", "aria-label": "Suite" },
      h("a", { href: "#/tasks" }, "← suites"),
      h("a", { href: suiteAddress(suite.name) + "/scenario" }, "Edit the scorers (scenario.yaml)"),
    ),
    h("div", { class: "row" }, h("h1", {}, safe(suite.name)), h("span", { class: "sub" }, plural(suite.tasks.length, "task"))),
    missing > 0 &&
      h(
        "div",
        { class: "note info" },
        missing === 1 ? "1 task is not validated as it is now: " : `${whole(missing)} tasks are not validated as they are now: `,
        h("code", {}, `ab validate-tasks --suite ${safe(suite.name)}`),
        " checks that the baseline fails and the reference passes.",
      ),
    h("div", { class: "stack tight" }, suite.tasks.map(taskCard)),
    suite.left_out > 0 && h("p", { class: "sub" }, `${whole(suite.left_out)} more tasks are not shown.`),
  );
}

function taskCard(task) {
  const rate = (entry) => `${safe(entry.variant)} ${entry.passed}/${entry.counted}`;
  const attempts = task.rates.length
    ? "passed: " + task.rates.slice(0, 4).map(rate).join(" · ") + (task.rates.length > 4 ? " …" : "")
    : "no attempts";
  const marks = task.problems.length
    ? badge("fail", "invalid file")
    : [validationBadge(task.validation), task.audit && auditBadge(task.audit), task.locked && badge("line", "locked")];
  return h(
    "details",
    { class: "card task" },
    h(
      "summary",
      {},
      h("span", { class: "grow" }, h("strong", {}, safe(task.id)), h("span", { class: "dim" }, task.title ? " " + safe(task.title) : "")),
      marks,
      h("span", { class: "sub" }, attempts),
    ),
    h(
      "div",
      { class: "inset stack" },
      task.problems.length
        ? h(
            "ul",
            {},
            task.problems.map((line) => h("li", { class: "mono small" }, safe(line))),
          )
        : taskDetails(task),
    ),
  );
}
const validationBadge = (validation) =>
  !validation ? badge("none", "not validated") : badge(validation.valid ? "pass" : "fail", validation.valid ? "valid" : "not valid");
const auditBadge = (audit) =>
  badge(
    audit.sound ? "pass" : "fail",
    audit.kill_rate === null ? "audited" : `audit: ${audit.killed} of ${audit.killed + audit.survived} rejected`,
  );

function taskDetails(task) {
  const strata = Object.entries(task.strata)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
  const checks = task.checks.map((check) => [
    safe(check.id),
    safe(check.layer),
    check.mandatory ? "mandatory" : "diagnostic",
    check.fail_to_pass,
    check.pass_to_pass,
    h("td", { class: "mono name" }, safe(check.command)),
  ]);
  const rates = task.rates.map((rate) => [
    safe(rate.variant),
    `${rate.passed} of ${rate.counted} passed`,
    rate.attempts - rate.counted,
    secs(rate.seconds),
    h("a", { href: attemptsOf({ task: task.id, variant: rate.variant }) }, "attempts"),
  ]);
  return [
    h("pre", {}, safe(task.statement)),
    facts([
      ["strata", strata],
      ["limits", task.limits],
      ["scorers", task.scorers.join(", ")],
      ["validation", validationWords(task.validation)],
      ["audit", auditWords(task.audit)],
    ]),
    h("h3", {}, "Checks"),
    tableOf(["check", "layer", "role", "fail-to-pass", "pass-to-pass", "command"], checks),
    h("h3", {}, "Attempts"),
    rates.length
      ? tableOf(["method", "result", "not counted", "mean time", ""], rates)
      : h("p", { class: "sub" }, "No attempts in the served runs."),
    task.audit && task.audit.survived > 0 && auditSurvivors(task.audit),
  ];
}
/* The address of the attempts with these values in the explorer. */
function attemptsOf(values) {
  const where = [...Object.entries(values).map(([column, value]) => ({ column, how: "is", value })), NO_RETRIES];
  return "#/explorer?group=&where=" + encodeURIComponent(JSON.stringify(where));
}
function validationWords(validation) {
  if (!validation) return "none for the task as it is now";
  const flaky = validation.flaky.length ? `, flaky: ${validation.flaky.join(", ")}` : "";
  return `baseline ${validation.baseline}, reference ${validation.reference}${flaky}${validation.why ? ": " + validation.why : ""} (${when(validation.at)})`;
}
function auditWords(audit) {
  if (!audit) return "none for the task as it is now; `ab task audit` makes one";
  const rate = audit.kill_rate === null ? "" : `, ${audit.killed} of ${audit.killed + audit.survived} mutations rejected`;
  return `empty patch ${audit.noop}, reference ${audit.reference}${rate}${audit.sound || !audit.why ? "" : ": " + audit.why} (${when(audit.at)})`;
}
function auditSurvivors(audit) {
  const accepted = audit.tried.filter((mutation) => mutation.result === "survived").slice(0, 50);
  return h(
    "details",
    { class: "more" },
    h("summary", {}, `${plural(audit.survived, "mutation")} that the checks accepted`),
    accepted.map((mutation) =>
      h(
        "div",
        {},
        h("h3", {}, safe(`${mutation.operator} at ${mutation.path}:${mutation.line}: ${mutation.what}`)),
        h("div", { class: "diff" }, diffTable(mutation.diff.split("\n"), mutation.path)),
      ),
    ),
  );
}
