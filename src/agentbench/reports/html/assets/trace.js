/* The trace: a timeline, a list of events, one event in full. */
const GROUPS = [
  ["setup", "setup", /^(attempt_opened|task_started|identity_bound|setup_|briefing|stage_changed)/],
  ["agent", "agent", /^(agent_turn|delegation)/],
  ["model", "model", /^llm_/],
  ["tool", "tools", /^tool_call/],
  ["change", "changes", /^(workspace_mutated|patch_)/],
  ["check", "acceptance", /^(build_|static_|tests_|acceptance_check|scorer_result|judge_result|gates_decided)/],
  ["monitor", "monitors", /^(monitor_alert|intervention|operator_decision|resource_sample|integrity_finding)/],
  ["end", "end", /./],
];
const groupOf = (type) => GROUPS.find(([, , fits]) => fits.test(type))[0];
const ACTORS = ["agent", "harness", "monitor", "operator"];

function describe(event) {
  const p = event.payload || {},
    t = event.type;
  const ok = (o) => (o === "pass" ? "pass" : o);
  if (t === "tool_call_started")
    return `${p.tool} ${typeof p.arguments === "object" ? (p.arguments.command ?? p.arguments.path ?? p.arguments.query ?? p.arguments.glob ?? (p.arguments.unified_diff ? "(patch)" : "")) : ""}`;
  if (t === "tool_call_finished")
    return `${p.tool} ${p.ok ? "ok" : p.error_type || "not ok"}${p.exit_code === null || p.exit_code === undefined ? "" : ", exit " + p.exit_code}, ${secs(p.duration_us / 1e6)}`;
  if (t === "workspace_mutated" || t === "patch_applied" || t === "patch_extracted")
    return `${plural((p.files || []).length + (p.omitted || 0), "file")}${p.outcome && p.outcome !== "pass" ? ", " + p.outcome + ": " + p.why : ""} ${(
      p.files || []
    )
      .slice(0, 3)
      .map((f) => f.path)
      .join(", ")}`;
  if (t === "acceptance_check") return `${p.check_id}: ${ok(p.outcome)}${p.why ? ", " + p.why : ""}`;
  if (/_started$/.test(t) && p.command) return p.command;
  if (/_finished$/.test(t) && p.outcome) return `${p.step}: ${p.outcome}, ${secs(p.duration_us / 1e6)}`;
  if (t === "setup_command_finished") return `exit ${p.exit_code}${p.cached ? ", cached" : ", " + secs(p.duration_us / 1e6)}`;
  if (t === "termination") return `${p.code}: ${p.rationale}`;
  if (t === "monitor_alert") return `${p.severity} ${p.rule}: ${p.detail}`;
  if (t === "integrity_finding") return `${p.severity} ${p.rule}: ${p.detail}`;
  if (t === "intervention") return `${p.action}: ${p.detail}`;
  if (t === "operator_decision") return `${p.decision}: ${p.justification}`;
  if (t === "gates_decided")
    return Object.entries(p.gates || {})
      .map(([g, o]) => `${GATES[g] || g}: ${o.outcome}`)
      .join(", ");
  if (t === "scorer_result") return `${p.name}: ${p.verdict}`;
  if (t === "judge_result") return `${p.verdict} ${p.failure_mode || ""}`;
  if (t === "llm_request") return `${p.model}`;
  if (t === "llm_response")
    return [
      p.status,
      `${whole(p.prompt_tokens)} + ${whole(p.completion_tokens)} tokens`,
      p.cost_micro_usd ? "cost " + few(p.cost_micro_usd / 1e6) : "",
      secs(p.duration_us / 1e6),
    ]
      .filter(Boolean)
      .join(", ");
  if (t === "agent_turn_started") return `turn ${p.turn}`;
  if (t === "stage_changed")
    return `${p.before || "start"} → ${p.after}: ${p.reason ? (p.before === "plan" ? "plan: " : "") + p.reason : p.cause}`;
  if (t === "resource_sample")
    return `${p.phase}: ${p.memory_bytes ? (p.memory_bytes / 1048576).toFixed(1) + " MB" : ""} ${p.cpu_us ? secs(p.cpu_us / 1e6) + " cpu" : ""}`;
  if (t === "briefing") return cut(p.text || "", 120);
  if (t === "identity_bound") return `${p.backend} ${p.snapshot}`;
  if (t === "task_finished") return `${p.passed ? "passed" : p.reason || "not passed"} after ${secs(p.duration_us / 1e6)}`;
  return "";
}

function traceTab(index, detail) {
  let total = detail.trace.events;
  const holder = h("div", { class: "stack" }),
    stream = detail.trace.follow;
  if (!total && !stream) return h("p", { class: "card empty" }, detail.trace.note || "The run directory has no trace.");
  const off = new Set(),
    actorsOff = new Set(),
    state = { q: "" };
  let events = detail.trace.inline || [],
    parts = 0,
    opened = false;
  const strip = h("div", {}),
    count = h("span", { class: "sub", id: "shown" }),
    pane = h(
      "div",
      { class: "card pane", id: "event", tabindex: "0", "aria-label": "Selected event" },
      h("p", { class: "empty" }, "Select an event."),
    );
  const list = new VirtualList({
    rowHeight: 34,
    height: () => Math.max(300, innerHeight - 330),
    label: "Events",
    draw: (event) => row(event),
    open: (event) => showEvent(event),
  });
  list.follow = true;
  const more = h("div", { class: "row noprint" });
  const start = () => (events.length ? events[0].t : 0);
  const row = (event) =>
    h(
      "div",
      { class: "vt-row slim ev" },
      h("span", { class: "dim num" }, event.seq),
      h("span", { class: "dim num", style: { "text-align": "right" } }, secs((event.t - start()) / 1e6)),
      h("span", { class: "sw c-" + groupOf(event.type), title: event.actor }),
      h("span", { class: "mono" }, safe(event.type)),
      h("span", {}, cut(safe(describe(event)), 160)),
    );
  const showEvent = (event) => {
    pane.replaceChildren(eventCard(event, start()));
    pane.scrollTop = 0;
  };
  const refresh = () => {
    const q = state.q.toLowerCase();
    const matches = events.filter(
      (e) =>
        !off.has(groupOf(e.type)) &&
        !actorsOff.has(e.actor) &&
        (!q || (e.type + " " + JSON.stringify(e.payload)).toLowerCase().includes(q)),
    );
    list.show(matches);
    count.textContent = `${whole(matches.length)} of ${whole(total)} events`;
    say(count.textContent);
    strip.replaceChildren(
      stripFigure(matches, events, (e) => {
        const i = matches.indexOf(e);
        list.select(i);
        showEvent(e);
      }),
    );
  };
  const chips = GROUPS.map(([name, words]) =>
    h(
      "button",
      {
        class: "chip c-" + name,
        "aria-pressed": "true",
        "data-group": name,
        onclick: (e) => {
          off.has(name) ? off.delete(name) : off.add(name);
          e.currentTarget.setAttribute("aria-pressed", off.has(name) ? "false" : "true");
          refresh();
        },
      },
      h("i"),
      words,
    ),
  );
  const actors = ACTORS.map((name) =>
    h(
      "button",
      {
        class: "chip",
        "aria-pressed": "true",
        "data-actor": name,
        onclick: (e) => {
          actorsOff.has(name) ? actorsOff.delete(name) : actorsOff.add(name);
          e.currentTarget.setAttribute("aria-pressed", actorsOff.has(name) ? "false" : "true");
          refresh();
        },
      },
      name,
    ),
  );
  const load = async (upto) => {
    while (parts < Math.min(upto, detail.trace.parts)) {
      events = events.concat(await AB.load(`t${index}-${parts}`));
      parts++;
    }
    buttons();
    refresh();
    if (D.jump !== undefined) {
      const to = D.jump;
      let at = list.items.findIndex((e) => e.seq === to);
      if (at < 0 && parts < detail.trace.parts) return load(parts + 1);
      D.jump = undefined;
      if (at >= 0) {
        list.select(at);
        showEvent(list.items[at]);
      }
    } else if (!opened) openFirstTurn();
    opened = true;
  };
  /* A running attempt: new events are appended; while following, the last one is shown. */
  function followEvents() {
    const button = h(
      "button",
      {
        class: "toggle",
        id: "follow",
        "aria-pressed": "true",
        onclick: () => {
          const on = button.getAttribute("aria-pressed") !== "true";
          button.setAttribute("aria-pressed", on ? "true" : "false");
          if (on) last();
        },
      },
      "follow",
    );
    const last = () => {
      if (list.items.length) {
        list.select(list.items.length - 1);
        showEvent(list.items[list.items.length - 1]);
      }
    };
    let waiting = false;
    holder.prepend(
      h(
        "div",
        { class: "row noprint" },
        button,
        h("span", { class: "sub" }, "The attempt is running; new events appear as they are written."),
      ),
    );
    stream((more) => {
      events = events.concat(more);
      total = events.length;
      if (!waiting) {
        waiting = true;
        requestAnimationFrame(() => {
          waiting = false;
          const chosen = list.at;
          refresh();
          list.at = chosen;
          if (button.getAttribute("aria-pressed") === "true") last();
        });
      }
    });
    list.body.addEventListener("pointerdown", () => button.setAttribute("aria-pressed", "false"));
    opened = true;
  }
  const openFirstTurn = () => {
    const at = list.items.findIndex((e) => e.type === "agent_turn_started" || e.type === "tool_call_started" || e.type === "llm_request");
    if (at >= 0) {
      list.select(at);
      showEvent(list.items[at]);
    }
  };
  const buttons = () =>
    more.replaceChildren(
      ...(parts < detail.trace.parts
        ? [
            h("span", { class: "sub" }, `${whole(events.length)} of ${whole(total)} events loaded`),
            h("button", { class: "toggle", id: "more", onclick: () => load(parts + 1) }, "load more"),
            h("button", { class: "toggle", onclick: () => load(1e9) }, "load all"),
          ]
        : []),
    );
  holder.append(
    strip,
    h(
      "div",
      { class: "filters" },
      h("input", {
        class: "field search",
        type: "search",
        id: "find",
        placeholder: "Find in events",
        "aria-label": "Find in events",
        oninput: (e) => {
          state.q = e.target.value;
          refresh();
        },
      }),
      h("span", { class: "who" }, chips),
      h("span", { class: "who" }, "by", actors),
      count,
    ),
    more,
    h("div", { class: "trace" }, h("div", { class: "vt" }, list.body), pane),
  );
  if (stream) followEvents();
  if (detail.trace.note) holder.prepend(h("div", { class: "note" }, safe(detail.trace.note)));
  if (detail.trace.inline) {
    parts = detail.trace.parts;
    load(0);
  } else load(1);
  return holder;
}

function stripFigure(matches, events, pick) {
  const width = 1200,
    height = 64,
    t0 = events.length ? events[0].t : 0,
    t1 = events.length ? events[events.length - 1].t : 1,
    span = Math.max(1, t1 - t0);
  const x = (t) => ((t - t0) / span) * (width - 4) + 2,
    sample = matches.length > 1500 ? matches.filter((_, i) => i % Math.ceil(matches.length / 1500) === 0) : matches;
  return h(
    "section",
    { class: "card", style: { padding: "12px 16px 6px" } },
    s(
      "svg",
      {
        class: "fig",
        viewBox: `0 0 ${width} ${height}`,
        role: "img",
        "aria-label": `Events over ${secs(span / 1e6)}`,
        preserveAspectRatio: "none",
        style: { height: "64px" },
      },
      s("line", { x1: 0, x2: width, y1: 46, y2: 46, class: "axis" }),
      sample.map((e) => {
        const d = e.payload && e.payload.duration_us && !e.payload.cached && groupOf(e.type) !== "end" ? e.payload.duration_us : 0,
          x1 = x(e.t),
          x0 = Math.max(2, x(e.t - d));
        return s(
          "rect",
          {
            x: d ? x0 : x1 - 1,
            y: d ? 8 : 34,
            width: Math.max(2.5, x1 - x0),
            height: d ? 26 : 12,
            rx: 2,
            class: "f-tag c-" + groupOf(e.type),
            opacity: d ? ".8" : ".7",
            onclick: () => pick(e),
            style: { cursor: "pointer" },
          },
          s("title", {}, safe(`${e.seq} ${e.type} ${cut(describe(e), 100)}`)),
        );
      }),
    ),
    h(
      "div",
      { class: "row small dim", style: { "justify-content": "space-between" } },
      h("span", {}, "0"),
      h("span", {}, secs(span / 1e6)),
    ),
  );
}

/* One table per file, so that each has the colours of its language. */
function splitDiff(text) {
  const parts = text.split(/^(?=diff --git )/m).filter(Boolean);
  return parts.map((part) => diffTable(part.replace(/\n$/, "").split("\n"), (/^diff --git a\/.* b\/(.*)$/m.exec(part) || [0, ""])[1]));
}
const isExcerpt = (v) => v && typeof v === "object" && "text" in v && "total_bytes" in v;
function eventCard(event, start) {
  const p = event.payload || {},
    plainPairs = [],
    blocks = [];
  for (const [name, value] of Object.entries(p)) {
    if (isExcerpt(value)) {
      if (value.text)
        blocks.push([
          name + (value.truncated ? ` (beginning of ${whole(value.total_bytes)} bytes)` : ""),
          value.text,
          /^(diff|patch)$/.test(name),
        ]);
    } else if (value === null || value === "" || (Array.isArray(value) && !value.length)) continue;
    else if (typeof value === "object") {
      if (name === "arguments" && typeof value.unified_diff === "string") blocks.push(["unified_diff", value.unified_diff, true]);
      else blocks.push([name, JSON.stringify(value, null, 2), false]);
    } else if (String(value).length > 140 || String(value).includes("\n")) blocks.push([name, String(value), false]);
    else plainPairs.push([name, name.endsWith("_us") ? secs(value / 1e6) : String(value)]);
  }
  return h(
    "div",
    {},
    h(
      "header",
      { style: { display: "flex", gap: "10px", padding: "14px 18px 0", "align-items": "center" } },
      h("span", { class: "sw c-" + groupOf(event.type) }),
      h("h2", { class: "mono" }, safe(event.type)),
      h("span", { class: "spacer" }),
      h("span", { class: "dim small" }, `event ${event.seq} · ${safe(event.actor)} · ${secs((event.t - start) / 1e6)}`),
    ),
    h(
      "div",
      { class: "body stack", style: { padding: "12px 18px 18px", gap: "12px" } },
      plainPairs.length > 0 && facts(plainPairs),
      blocks.map(([name, words, diff]) =>
        h(
          "div",
          {},
          h("h3", { style: { margin: "0 0 4px" } }, safe(name)),
          diff
            ? h(
                "div",
                { class: "diff", style: { border: "1px solid var(--line)", "border-radius": "8px", "max-height": "460px" } },
                splitDiff(words),
              )
            : h("pre", {}, safe(words)),
        ),
      ),
      h("details", { class: "more" }, h("summary", {}, "Raw event"), h("pre", {}, safe(JSON.stringify(event, null, 2)))),
    ),
  );
}
