/* Replay: a slider over the steps of an attempt that shows the workspace diff after each step.
   The log has one diff per step. They are composed without the files: an edit script is a list of
   [kept lines], [deleted line] and [added line], and two of them in a row make one. */
function parsePatch(text) {
  const files = new Map();
  let file = null,
    old = 0;
  for (const line of text.split("\n")) {
    const head = /^diff --git a\/(.*) b\/(.*)$/.exec(line),
      hunk = /^@@ -(\d+)(?:,(\d+))? \+\d+/.exec(line);
    if (head) {
      file = { name: head[2], ops: [], binary: false };
      old = 1;
      files.set(head[2], file);
    } else if (!file) continue;
    else if (hunk) {
      const start = hunk[2] === "0" ? +hunk[1] + 1 : +hunk[1];
      if (start > old) file.ops.push({ keep: start - old });
      old = start;
      file.inside = true;
    } else if (/^(GIT binary|Binary )/.test(line)) file.binary = true;
    else if (!file.inside) continue;
    else if (line.startsWith("+")) file.ops.push({ add: line.slice(1) });
    else if (line.startsWith("-")) {
      file.ops.push({ del: line.slice(1) });
      old++;
    } else if (line.startsWith(" ")) {
      file.ops.push({ keep: 1, text: line.slice(1) });
      old++;
    }
  }
  return files;
}
/* Apply the edit `second` to the result of the edit `first`: one edit from the beginning to the end. */
function composeEdits(first, second) {
  const out = [],
    a = first.map((op) => ({ ...op })),
    b = second.map((op) => ({ ...op }));
  let i = 0,
    j = 0;
  while (i < a.length || j < b.length) {
    const x = a[i],
      y = b[j];
    if (x && x.del !== undefined) {
      out.push(x);
      i++;
    } else if (y && y.add !== undefined) {
      out.push(y);
      j++;
    } else if (!y) {
      out.push(x);
      i++;
    } else if (!x) {
      out.push(y);
      j++;
    } else if (x.add !== undefined) {
      if (y.keep) {
        out.push(x);
        if (--y.keep === 0) j++;
      } else j++;
      i++;
    } else {
      const n = y.keep ? Math.min(x.keep, y.keep) : 1;
      if (y.keep) {
        out.push(n === 1 && (x.text ?? y.text) !== undefined ? { keep: 1, text: x.text ?? y.text } : { keep: n });
        if ((y.keep -= n) === 0) j++;
      } else {
        out.push(y);
        j++;
      }
      if ((x.keep -= n) === 0) i++;
    }
  }
  return tidyEdit(out);
}
/* Within a block of changes: deletions first, and lines that are added back as they were are kept. */
function tidyEdit(ops) {
  const out = [];
  for (let i = 0; i < ops.length;) {
    if (ops[i].keep) {
      out.push(ops[i++]);
      continue;
    }
    const dels = [],
      adds = [];
    for (; i < ops.length && !ops[i].keep; i++) (ops[i].del !== undefined ? dels : adds).push(ops[i]);
    const front = [],
      back = [];
    while (dels.length && adds.length && dels[0].del === adds[0].add) {
      front.push({ keep: 1, text: dels.shift().del });
      adds.shift();
    }
    while (dels.length && adds.length && dels[dels.length - 1].del === adds[adds.length - 1].add) {
      back.unshift({ keep: 1, text: dels.pop().del });
      adds.pop();
    }
    out.push(...front, ...dels, ...adds, ...back);
  }
  return out;
}
const isChange = (op) => op.add !== undefined || op.del !== undefined;
/* Lines of a unified diff with up to three known lines of context. */
function editLines(ops) {
  const near = ops.map((_, i) => {
    for (let d = -3; d <= 3; d++) if (ops[i + d] && isChange(ops[i + d])) return true;
    return false;
  });
  const lines = [];
  let left = 1,
    right = 1,
    open = false;
  ops.forEach((op, i) => {
    const shown = isChange(op) || (near[i] && op.text !== undefined);
    if (shown && !open) lines.push(`@@ -${left} +${right} @@`);
    open = shown;
    if (op.add !== undefined) {
      lines.push("+" + op.add);
      right++;
    } else if (op.del !== undefined) {
      lines.push("-" + op.del);
      left++;
    } else {
      if (shown) lines.push(" " + op.text);
      left += op.keep;
      right += op.keep;
    }
  });
  return lines;
}
/* The workspace after each of these events: [{event, files: Map name -> ops, lost}] */
function replaySteps(events) {
  const steps = [];
  let files = new Map(),
    lost = 0;
  for (const event of events) {
    if (
      event.type !== "workspace_mutated" &&
      !(event.type === "patch_applied" && event.payload.call_id && event.payload.outcome === "pass")
    )
      continue;
    const diff = event.payload.diff,
      whole = diff && diff.text && !diff.truncated && diff.encoding !== "base64" && !/… \(\d+ more characters\)$/.test(diff.text);
    files = new Map(files);
    if (whole)
      for (const [name, file] of parsePatch(diff.text)) {
        if (file.binary) lost++;
        else files.set(name, composeEdits(files.get(name) || [], file.ops));
      }
    else if ((event.payload.files || []).some((file) => !file.generated)) lost++;
    steps.push({ event, files, lost });
  }
  return steps;
}
async function allEvents(index, detail) {
  if (detail.trace.inline) return detail.trace.inline;
  let events = [];
  for (let part = 0; part < detail.trace.parts; part++) events = events.concat(await AB.load(`t${index}-${part}`));
  return events;
}
function replayTab(index, detail) {
  const holder = h("div", { class: "stack", id: "replay" }, h("p", { class: "card empty" }, "Loading the trace…"));
  allEvents(index, detail).then(
    (events) => holder.replaceChildren(...replayView(index, replaySteps(events), events)),
    (error) => holder.replaceChildren(problem(error)),
  );
  return holder;
}
function replayView(index, steps, events) {
  if (!steps.length) return [h("p", { class: "card empty" }, "The attempt did not change the workspace, or its log has no diffs.")];
  const words = h("div", { class: "row small", id: "replay-step", "aria-live": "polite" }),
    files = h("div", { class: "stack" });
  const call = (event) => events.find((start) => start.type === "tool_call_started" && start.payload.call_id === event.payload.call_id);
  const draw = (n) => {
    const step = steps[n],
      cause = step.event.payload.call_id && call(step.event);
    words.replaceChildren(
      h("strong", {}, `Step ${n + 1} of ${steps.length}`),
      h(
        "a",
        {
          href: at(`attempt/${ref(index)}/trace?seq=${step.event.seq}`),
          onclick: (e) => {
            e.preventDefault();
            D.jump = step.event.seq;
            byId("tab-trace").click();
          },
        },
        "event " + step.event.seq,
      ),
      h("span", { class: "mono dim" }, cause ? cut(safe(describe(cause)), 140) : ""),
      step.lost ? badge("error", `${plural(step.lost, "change")} without a diff`) : "",
    );
    const changed = [...step.files].map(([name, ops]) => [name, editLines(ops)]).filter(([, lines]) => lines.length);
    files.replaceChildren(
      ...(changed.length
        ? changed.map(([name, lines]) =>
            h(
              "details",
              { class: "file", open: true },
              h(
                "summary",
                {},
                h("span", { class: "grow" }, safe(name)),
                h("span", { class: "plus" }, "+" + lines.filter((l) => l.startsWith("+")).length),
                h("span", { class: "minus" }, "−" + lines.filter((l) => l.startsWith("-")).length),
              ),
              h("div", { class: "diff" }, diffTable(lines, name)),
            ),
          )
        : [h("p", { class: "card empty" }, "After this step the workspace is as it was at the start.")]),
    );
  };
  const slider = h("input", {
    type: "range",
    id: "replay-slider",
    min: 0,
    max: steps.length - 1,
    value: steps.length - 1,
    "aria-label": "Step of the attempt",
    oninput: (e) => draw(Number(e.target.value)),
  });
  const move = (by) => {
    slider.value = Number(slider.value) + by;
    draw(Number(slider.value));
  };
  draw(steps.length - 1);
  return [
    h(
      "section",
      { class: "card tile" },
      h(
        "div",
        { class: "row" },
        h("button", { class: "icon", "aria-label": "previous step", onclick: () => move(-1) }, "←"),
        slider,
        h("button", { class: "icon", "aria-label": "next step", onclick: () => move(1) }, "→"),
      ),
      words,
      h("div", { class: "sub" }, "The workspace compared with the start of the attempt, after each step that changed it."),
    ),
    files,
  ];
}
