/* One attempt: verdict, gates, scorers, judge, diff, trace. */
const GATES = { G1: "patch applies", G2: "builds", G3: "passes checks", G4: "is safe" };

/* The verdict, shown while the rest of the attempt is loaded. */
function attemptHead(index) {
  const row = D.attempts[index],
    kind = kindOf(row);
  return h(
    "article",
    { class: "stack", "aria-busy": "true" },
    h(
      "section",
      { class: "card hero " + kind },
      h(
        "div",
        { class: "row" },
        badge(kind, wordOf(row)),
        h("h1", {}, safe(col(row, "task"))),
        h("span", { class: "dim" }, safe(runOf(row).name)),
      ),
      h("div", { class: "lead" }, safe(col(row, "headline"))),
      h("div", { class: "sub" }, "Loading the evidence…"),
    ),
  );
}
function attemptView(index, tab, detail) {
  const row = D.attempts[index],
    record = detail.record,
    kind = kindOf(row);
  const order = D.order && D.order.includes(index) ? D.order : D.attempts.map((_, i) => i),
    place = order.indexOf(index);
  const step = (by, words, label) =>
    h(
      "button",
      {
        class: "icon",
        disabled: order[place + by] === undefined,
        "aria-label": label,
        title: label,
        onclick: () => go(at("attempt/" + ref(order[place + by]))),
      },
      words,
    );
  const panel = h("div", { id: "panel", role: "tabpanel" });
  const names = [
    ["verdict", "Verdict"],
    ["diff", "Diff" + (record.patch ? ` (${record.patch.files})` : "")],
    ["trace", `Agent Trace (${whole(detail.trace.events)})`],
    ["record", "Record"],
    ["replay", "Replay"],
  ];
  const views = {
    verdict: () => verdictTab(record, detail, index),
    diff: () => diffTab(detail.diff, record),
    trace: () => traceTab(index, detail),
    record: () => recordTab(record),
    replay: () => replayTab(index, detail),
  };
  const buttons = names.map(([name, words]) =>
    h("button", { role: "tab", id: "tab-" + name, "aria-selected": "false", onclick: () => open(name) }, words),
  );
  const open = (name) => {
    buttons.forEach((button) => {
      const on = button.id === "tab-" + name;
      button.setAttribute("aria-selected", on ? "true" : "false");
      button.tabIndex = on ? 0 : -1;
    });
    readdress(at(`attempt/${ref(index)}/${name}`));
    panel.replaceChildren(views[name]());
  };
  const bar = h(
    "div",
    {
      class: "tabs",
      role: "tablist",
      onkeydown: (e) => {
        const now = buttons.indexOf(document.activeElement),
          to = { ArrowRight: now + 1, ArrowLeft: now - 1 }[e.key];
        if (now >= 0 && buttons[to]) {
          buttons[to].focus();
          buttons[to].click();
        }
      },
    },
    buttons,
  );
  const view = h(
    "article",
    { class: "stack" },
    detail.altered &&
      h("div", { class: "note", role: "alert" }, h("strong", {}, "ALTERED: "), safe(detail.altered), ". Run `ab verify`."),
    h(
      "div",
      { class: "row" },
      !D.single && h("a", { href: at("attempts") }, "← attempts"),
      h("span", { class: "spacer" }),
      !D.single && step(-1, "←", "previous attempt"),
      !D.single && step(1, "→", "next attempt"),
    ),
    h(
      "section",
      { class: "card hero " + kind },
      h(
        "div",
        { class: "row" },
        badge(kind, wordOf(row)),
        h("h1", {}, safe(detail.task.title || record.task_id)),
        h(
          "span",
          { class: "dim" },
          `${detail.task.title ? safe(record.task_id) + " · " : ""}${safe(record.suite)} · repeat ${record.repeat} · ${safe(record.variant)}`,
        ),
        record.needs_review && badge("accent", "needs review"),
      ),
      h("div", { class: "lead" }, safe(col(row, "headline"))),
      detail.task.statement &&
        h("details", { id: "statement" }, h("summary", {}, "Task statement"), h("pre", {}, safe(detail.task.statement))),
      detail.review.length > 0 &&
        h(
          "ul",
          { class: "small", style: { margin: "0", "padding-left": "18px" } },
          detail.review.map((why) => h("li", {}, safe(why))),
        ),
      ROOT.live && adjudicateHere(index),
    ),
    independentVerdicts(record, row),
    bar,
    panel,
  );
  open(views[tab] ? tab : "verdict");
  return view;
}

/* Contract, scorers and judge are independent: none changes another. */
function independentVerdicts(record, row) {
  const judge = record.judge,
    tile = (name, value, sub) =>
      h(
        "section",
        { class: "card tile" },
        h("span", { class: "eyebrow" }, name),
        h("div", { class: "value" }, value),
        h("div", { class: "sub" }, sub),
      );
  const objective = record.workspace_verdict,
    disagreements = [];
  if (judge && judge.verdict === "PASS" && objective === "FAIL") disagreements.push("the judge passes, a required scorer fails");
  if (judge && judge.verdict === "FAIL" && objective === "PASS") disagreements.push("the scorers pass, the judge fails");
  if (record.result.passed && objective === "FAIL")
    disagreements.push("the contract passes, a required scorer in the live workspace fails");
  if (!record.result.passed && objective === "PASS" && record.scorers.length)
    disagreements.push("the contract does not pass, the scorers in the live workspace pass");
  if (judge && judge.verdict === "PASS" && !record.result.passed) disagreements.push("the judge passes, the contract does not");
  if (judge && judge.verdict === "FAIL" && record.result.passed) disagreements.push("the contract passes, the judge fails");
  for (const tag of record.tags)
    if (tag.id === "oracle.disagreement")
      disagreements.push(
        "live workspace and grading replica disagree about the same command" +
          (tag.attributes.command ? ": " + safe(tag.attributes.command) : ""),
      );
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "grid four", id: "gates3" },
      tile(
        "Contract",
        [badge(kindOf(row), wordOf(row)), dots(col(row, "gates"))],
        `${record.run_status.replace("_", " ")}${record.attribution ? ", attributed to " + record.attribution : ""} · assurance ${col(row, "assurance") || "none"}${record.decoy_coverage === null ? "" : ` (decoys for ${pct(record.decoy_coverage)} of fail-to-pass tests)`}`,
      ),
      tile(
        "Scorers",
        verdictBadge(record.scorers.length ? objective : "N/A"),
        record.scorers.length
          ? `${plural(record.scorers.length, "scorer")}, mean score ${record.mean_score === null ? "–" : record.mean_score.toFixed(2)}`
          : "no scorers configured",
      ),
      tile("Judge", verdictBadge(judge ? judge.verdict : "none"), judge ? safe(judge.failure_mode || judge.model) : "no judge configured"),
      tile(
        "Run badge",
        badge(record.run_badge === "completed" ? "pass" : "error", record.run_badge),
        safe(record.termination.code.replaceAll("_", " ")),
      ),
    ),
    disagreements.length > 0 &&
      h("div", { class: "note", role: "note", id: "disagreements" }, h("strong", {}, "Verdicts disagree: "), disagreements.join("; "), "."),
  );
}

const SHOWN_TESTS = 12;
const named = (names) =>
  h(
    "ul",
    { class: "mono small names" },
    names.map((name) => h("li", {}, safe(name))),
  );
function verdictTab(record, detail, index) {
  const seq = (n) =>
    h(
      "a",
      {
        href: at(`attempt/${ref(index)}/trace?seq=${n}`),
        onclick: (e) => {
          e.preventDefault();
          D.jump = n;
          byId("tab-trace").click();
        },
      },
      "event " + n,
    );
  const checks = record.checks.map((check) =>
    h(
      "details",
      { open: check.outcome !== "pass" && check.mandatory },
      h(
        "summary",
        {},
        badge(check.outcome, check.outcome),
        h(
          "span",
          { class: "grow" },
          h("strong", {}, safe(check.id)),
          h(
            "span",
            { class: "dim" },
            ` ${check.mandatory ? "mandatory" : "diagnostic"} · ${safe(check.layer)} · ${check.assurance} · ${secs(check.duration_sec)}`,
          ),
        ),
      ),
      h(
        "div",
        { class: "inset" },
        check.why && h("div", { class: "why" }, safe(check.why)),
        h("pre", {}, "$ " + safe(check.command)),
        check.failing_tests.length > 0 &&
          h(
            "div",
            {},
            h("h3", {}, plural(check.failing_tests.length, "failing test")),
            named(check.failing_tests.slice(0, SHOWN_TESTS)),
            check.failing_tests.length > SHOWN_TESTS &&
              h(
                "details",
                { class: "more" },
                h("summary", {}, whole(check.failing_tests.length - SHOWN_TESTS) + " more"),
                named(check.failing_tests.slice(SHOWN_TESTS, 2000)),
              ),
          ),
      ),
    ),
  );
  return h(
    "div",
    { class: "grid verdict" },
    h(
      "div",
      { class: "stack" },
      card(
        "Gates",
        null,
        Object.entries(record.gates).map(([gate, result], i) =>
          h(
            "div",
            { class: "gate" },
            h("strong", {}, i + 1),
            h("span", {}, GATES[gate]),
            badge(result.outcome, result.outcome),
            h("span", { class: "why" }, safe(result.why || (result.passed ? "" : "no reason recorded"))),
          ),
        ),
      ),
      record.checks.length > 0 && card("Acceptance checks", "Run in a fresh sandbox that the agent never touched.", checks),
      detail.outputs.map((output) => card("Output of check " + output.check, output.note || null, h("pre", {}, safe(output.text)))),
      detail.agent.map((output) =>
        card(
          `${output.stream} of the agent's program`,
          output.cut ? "last part" : null,
          h("pre", { class: "agent-output" }, safe(output.text)),
        ),
      ),
      record.scorers.length > 0 && scorersCard(record),
      judgeCard(record.judge),
    ),
    h(
      "div",
      { class: "stack" },
      card(
        "Attempt",
        null,
        facts([
          ["agent", record.agent],
          ["model", record.model.name || "none"],
          ["ended", record.termination.code.replaceAll("_", " ")],
          ["reason", record.termination.rationale],
          ["category", record.termination.category || ""],
          [
            "progress",
            record.progress.f2p_total || record.progress.p2p_total
              ? `${record.progress.f2p_passed} of ${record.progress.f2p_total} fail-to-pass, ${record.progress.p2p_kept} of ${record.progress.p2p_total} ${record.checks.every((check) => check.f2p_total) ? "pass-to-pass" : "other required"} tests passed`
              : "",
          ],
          ["score", record.score === null ? "none: a gate did not pass" : record.score.toFixed(3)],
          ["patch", patchSummary(record)],
          ["time", `${secs(record.duration_sec)}, agent ${secs(record.usage.wall_sec)}`],
          [
            "usage",
            `${plural(record.usage.tool_calls, "tool call")}, ${plural(record.usage.model_requests, "model request")}, ${whole(record.usage.prompt_tokens + record.usage.completion_tokens)} tokens`,
          ],
          ["cost", record.cost.method_id || record.cost.total ? money(record.cost.total, record.cost.unit) : "unknown"],
          [
            "cost by phase",
            Object.entries(record.cost.phases || {})
              .filter(([, value]) => value)
              .map(([name, value]) => `${name} ${few(value)}`)
              .join(", "),
          ],
          ["limits", `${record.limits.timeout_sec} s agent phase, ${record.limits.tool_timeout_sec} s per command`],
        ]),
      ),
      card(
        "Components",
        null,
        Object.entries(record.components).map(([name, value]) =>
          h(
            "div",
            { class: "row", style: { "justify-content": "space-between", padding: "3px 0" } },
            h("span", { class: "dim" }, name),
            h("span", { class: "num" }, value === null ? "–" : value.toFixed(2)),
          ),
        ),
      ),
      record.tags.length > 0 &&
        card(
          "Tags",
          "With the events that prove them.",
          record.tags.map((tag) =>
            h(
              "div",
              { class: "row", style: { padding: "4px 0" } },
              badge("line", tag.id),
              tag.gate && h("span", { class: "dim small" }, GATES[tag.gate]),
              tag.evidence.slice(0, 6).map(seq),
              h(
                "span",
                { class: "small dim", style: { "overflow-wrap": "anywhere" } },
                safe(
                  Object.entries(tag.attributes)
                    .map(
                      ([k, v]) =>
                        `${k} ${tag.id === "budget.overrun" ? money(v / 1e6, record.cost.unit) : typeof v === "object" ? JSON.stringify(v) : v}`,
                    )
                    .join(", "),
                ),
              ),
            ),
          ),
        ),
      detail.findings.length > 0 &&
        card(
          "Findings",
          "From the inspection of the patch and from monitors.",
          detail.findings.map((finding) =>
            h(
              "div",
              { style: { padding: "6px 0", "border-top": "1px solid var(--line)" } },
              h(
                "div",
                { class: "row" },
                badge({ gate: "fail", terminate: "fail", penalty: "error", error: "error" }[finding.severity] || "none", finding.severity),
                h("strong", {}, safe(finding.rule)),
                seq(finding.seq),
              ),
              h(
                "div",
                { class: "why" },
                safe((finding.path ? finding.path + (finding.line ? ":" + finding.line : "") + ": " : "") + finding.detail),
              ),
              finding.excerpt && h("pre", {}, safe(finding.excerpt)),
            ),
          ),
        ),
    ),
  );
}

function scorersCard(record) {
  const rows = record.scorers.map((scorer) =>
    h(
      "details",
      { class: "scorer", open: scorer.verdict === "FAIL" && scorer.required },
      h(
        "summary",
        {},
        verdictBadge(scorer.verdict),
        h(
          "span",
          { class: "grow" },
          h("strong", {}, safe(scorer.name)),
          h("span", { class: "dim" }, " " + safe(scorer.type)),
          !scorer.required && [" ", badge("line", "advisory")],
        ),
        h("span", { class: "num dim" }, scorer.score === null ? "–" : scorer.score.toFixed(2)),
      ),
      h("div", { class: "inset" }, h("pre", {}, safe(scorer.detail || "no detail"))),
    ),
  );
  return h(
    "section",
    { class: "card", id: "scorers" },
    h(
      "header",
      {},
      h("h2", {}, "Scorers"),
      h("span", { class: "spacer" }),
      h("span", { class: "dim" }, "OVERALL"),
      verdictBadge(record.workspace_verdict),
      h("span", { class: "num dim" }, "mean " + (record.mean_score === null ? "–" : record.mean_score.toFixed(2))),
    ),
    h("div", { class: "body" }, rows),
  );
}

const factBadge = (verdict) =>
  badge(
    /^(true|supported|verified|pass|correct|yes)/i.test(verdict)
      ? "pass"
      : /^(false|refuted|contradicted|fail|incorrect|no)/i.test(verdict)
        ? "fail"
        : "none",
    verdict,
  );
function judgeCard(judge) {
  if (!judge) return null;
  const tile = (name, value) =>
    h(
      "div",
      { class: "score" },
      h("div", { class: "sub" }, name),
      h("div", { class: "big num" }, value === null ? "–" : value, h("span", { class: "sub" }, value === null ? "" : " / 5")),
    );
  return h(
    "section",
    { class: "card", id: "judge" },
    h("header", {}, h("h2", {}, "Judge verdict"), h("span", { class: "spacer" }), verdictBadge(judge.verdict)),
    h(
      "div",
      { class: "body stack" },
      h(
        "div",
        { class: "tiles" },
        tile("Task completion", judge.task_completion),
        tile("Instruction adherence", judge.instruction_adherence),
        tile("Efficiency", judge.efficiency),
      ),
      judge.failure_mode && h("div", { class: "row" }, h("span", { class: "dim" }, "failure mode"), badge("fail", judge.failure_mode)),
      judge.facts.length > 0 &&
        tableOf(
          [["claim", "name"], "verdict", ["evidence", "name"]],
          judge.facts.map((fact) => [safe(fact.claim), factBadge(fact.verdict), safe(fact.evidence)]),
          { id: "facts" },
        ),
      judge.reasoning && h("pre", {}, safe(judge.reasoning)),
      h("div", { class: "sub" }, `${safe(judge.model)} · scored ${safe(judge.scored_at)}`),
    ),
  );
}

/* --- diff ------------------------------------------------------------------------------------------------------------- */
const MAX_LINES = 3000;
function diffTab(diff, record) {
  if (!diff)
    return h("p", { class: "card empty" }, record.patch ? "The patch is no longer in the run directory." : "No patch was extracted.");
  if (!diff.text) return h("p", { class: "card empty" }, "The patch is empty.");
  const files = [];
  for (const line of diff.text.split("\n")) {
    if (line.startsWith("diff --git ") || !files.length)
      files.push({ name: line.startsWith("diff --git ") ? line.slice(11).replace(/^a\/(.*) b\/.*$/, "$1") : "patch", lines: [] });
    files[files.length - 1].lines.push(line);
  }
  for (const file of files) file.lines = withoutNames(file.lines);
  let budget = MAX_LINES;
  const out = files.map((file, n) => {
    const plus = file.lines.filter((l) => l.startsWith("+") && !l.startsWith("+++")).length,
      minus = file.lines.filter((l) => l.startsWith("-") && !l.startsWith("---")).length;
    const here = h("div", { class: "diff" }),
      open = budget > 0 && n < 60;
    if (open) {
      budget -= file.lines.length;
      here.append(diffTable(file.lines, file.name));
    }
    return h(
      "details",
      {
        class: "file",
        open,
        ontoggle: (e) => {
          if (e.target.open && !here.firstChild) here.append(diffTable(file.lines, file.name));
        },
      },
      h(
        "summary",
        {},
        h("span", { class: "grow" }, safe(file.name)),
        h("span", { class: "plus" }, "+" + plus),
        h("span", { class: "minus" }, "−" + minus),
      ),
      here,
    );
  });
  return h(
    "div",
    { class: "stack" },
    diff.cut &&
      h(
        "div",
        { class: "note" },
        `Showing the beginning of ${whole(diff.bytes)} bytes; the full patch is ${safe(record.patch.path)} in the run directory.`,
      ),
    out,
  );
}
/* The lines of a file without those that only name it: its title does. */
function withoutNames(lines) {
  const first = lines.findIndex((line) => line.startsWith("@@"));
  return lines.filter((line, i) => i >= first || !/^(diff --git|index|---|\+\+\+) /.test(line));
}
function diffTable(lines, name = "") {
  const body = h("tbody", {}),
    language = languageOf(name);
  let left = 0,
    right = 0;
  const part = lines.slice(0, MAX_LINES);
  for (const line of part) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    let cls = "ctx",
      a = "",
      b = "";
    if (hunk) {
      cls = "hunk";
      left = +hunk[1];
      right = +hunk[2];
    } else if (
      /^(diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename |GIT binary|Binary )/.test(line) &&
      !left
    )
      cls = "meta";
    else if (/^(diff |index |new file|deleted file|rename )/.test(line)) cls = "meta";
    else if (line.startsWith("+")) {
      cls = "add";
      b = right++;
    } else if (line.startsWith("-")) {
      cls = "del";
      a = left++;
    } else if (line.startsWith(" ")) {
      a = left++;
      b = right++;
    } else cls = "meta";
    body.append(
      h(
        "tr",
        { class: cls },
        h("td", { class: "ln" }, a),
        h("td", { class: "ln" }, b),
        h("td", { class: "tx" }, cls === "meta" || cls === "hunk" ? safe(cut(line, 4000)) || " " : coloured(cut(line, 4000), language)),
      ),
    );
  }
  return h(
    "div",
    {},
    h("table", {}, body),
    lines.length > MAX_LINES && h("p", { class: "empty" }, `${whole(lines.length - MAX_LINES)} more lines in the patch file`),
  );
}
function recordTab(record) {
  return h(
    "div",
    { class: "stack" },
    card(
      "Identity",
      null,
      facts(
        [
          "attempt_id",
          "run_id",
          "study_id",
          "contract_id",
          "task_digest",
          "acceptance_id",
          "env_digest",
          "config_class",
          "harness_version",
          "seed",
          "observability",
          "supersedes",
          "trace_head",
        ].map((name) => [name, record[name] === null ? "none" : h("span", { class: "mono" }, safe(record[name]))]),
      ),
    ),
    card(
      "Full record",
      "One line of attempts.jsonl; long values are truncated.",
      h("pre", { style: { "max-height": "none" } }, safe(JSON.stringify(record, null, 2))),
    ),
  );
}

function patchSummary({ patch, result }) {
  if (!patch) return "none";
  if (!patch.files && result.failure_reason === "PATCH_INVALID") return "cannot be applied, so its changes are not counted";
  return `${plural(patch.files, "file")}, +${patch.added} −${patch.removed}`;
}
