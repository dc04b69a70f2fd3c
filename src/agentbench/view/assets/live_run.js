/* One run: its report, and while it is made its progress, the current step of each worker and a log. */
const MAX_SHOWN_LOG = 300;
PAGES.run = {
  open: async ([key, ...rest], query, still) => {
    const base = `run/${key}/`;
    if (rest[0] === "live") return liveAttempt(key, rest[1], still);
    let data;
    try {
      data = await openScope(base, `/api/run/${key}/page`);
    } catch (error) {
      /* A run that has just begun has no records yet: its progress is shown all the same. */
      const { runs } = await getJson("/api/runs");
      const begun = runs.some((run) => run.key === key && run.state === "running");
      const live = begun && [h("h1", { class: "vh" }, "Run"), livePanel(key, still)];
      if (still()) show(h("div", { class: "stack" }, scopeNav(base, [], ""), live, problem(error)));
      return;
    }
    if (!still()) return;
    enter(data);
    document.title = data.title;
    const name = rest[0] || "";
    const review = data.attempts.filter((row) => col(row, "review")).length;
    const pages = [
      ["", "Overview"],
      ["attempts", `Attempts (${whole(data.attempts.length)})`],
      ["#/queue?run=" + key, `To adjudicate (${whole(review)})`],
      ["#/explorer?where=" + encodeURIComponent(JSON.stringify([{ column: "run_key", how: "is", value: key }])), "Explore"],
    ];
    const around = (view) =>
      h("div", { class: "stack" }, scopeNav(base, pages, name === "overview" ? "" : name), name === "" && livePanel(key, still), view);
    scopedRoute([name || "overview", ...rest.slice(1)], query, around);
  },
};

/* Progress, the step of each worker, and the log. Hidden for a run that is not running. */
function livePanel(key, still) {
  const panel = h("section", { class: "card", id: "live", hidden: true });
  const log = h("div", { class: "log", id: "log", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Log" });
  const steps = h("div", { class: "steps", id: "workers" });
  const head = h("div", { class: "stack tight" });
  const workers = new Map();
  let shown = null; /* number of attempts and state of the report below */
  let reload = null;
  panel.append(
    h("header", {}, h("h2", {}, "Live"), h("p", { class: "sub" }, "Updates as the run writes its log.")),
    h("div", { class: "body stack" }, head, steps, log),
  );

  const drawHead = (p) => {
    const questions =
      p.questions > 0 &&
      h("a", { href: "#/queue?run=" + key, class: "badge error" }, `${plural(p.questions, "question")} for the operator: answer`);
    head.replaceChildren(
      h(
        "div",
        { class: "row" },
        stateBadge(p.state),
        h("strong", { id: "progress" }, progressWords(p)),
        h("span", { class: "dim" }, speedWords(p)),
        questions || "",
      ),
      runMeter(p),
      h("div", { class: "row small" }, h("span", { class: "dim" }, "spent"), h("span", { class: "spent" }, spending(p, p.spending))),
    );
  };
  const addWorker = (worker) => {
    const link = h("a", { href: `#/run/${key}/live/${encodeURIComponent(worker.attempt)}`, class: "strong" }, taskWords(worker));
    const parts = { facts: h("span", { class: "dim" }), step: h("div", { class: "small mono" }), events: h("div", { class: "sub" }) };
    parts.node = h(
      "div",
      { class: "step", "data-attempt": worker.attempt },
      h("div", {}, link, parts.facts),
      parts.step,
      parts.events,
    );
    steps.append(parts.node);
    workers.set(worker.attempt, parts);
    return parts;
  };
  const drawWorker = (worker) => {
    const parts = workers.get(worker.attempt) || addWorker(worker);
    const words = worker.step ? safe(describe(worker.step)) : "";
    parts.facts.textContent = worker.tokens ? ` ${whole(worker.tokens)} tokens, cost ${few(worker.cost)}` : "";
    parts.step.textContent = worker.step ? `${safe(worker.step.type)} ${cut(words, 90)}` : "starting";
    parts.step.title = words;
    parts.events.textContent = plural(worker.events, "event") + (worker.step ? `, last at ${clock(worker.step.t)}` : "");
  };
  const addLog = (lines) => {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 30;
    log.append(
      ...lines.map((line) =>
        h(
          "div",
          { "data-seq": line.seq, "data-t": line.t },
          h("span", { class: "dim" }, clock(line.t) + " "),
          taskWords(line) + " ",
          h("strong", {}, safe(line.type)),
          " " + cut(safe(describe(line)), 200),
        ),
      ),
    );
    while (log.childElementCount > MAX_SHOWN_LOG) log.firstChild.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
  };
  /* Load the report below again when attempts have ended, at most every three seconds. */
  const refresh = (p) => {
    const now = `${p.counts ? p.counts.attempts : 0} ${p.state}`;
    if (shown !== null && now !== shown && !reload)
      reload = setTimeout(
        () => {
          reload = null;
          if (still()) refreshReport(key, still, panel).catch(() => {});
        },
        p.state === "running" ? 3000 : 300,
      );
    shown = now;
  };
  const take = (message) => {
    panel.hidden = message.progress.state !== "running" && !message.workers.length && panel.hidden;
    drawHead(message.progress);
    message.workers.forEach(drawWorker);
    for (const name of message.gone || []) {
      if (workers.has(name)) workers.get(name).node.remove();
      workers.delete(name);
    }
    addLog(message.log);
    refresh(message.progress);
  };
  const restart = (message) => {
    workers.clear();
    steps.replaceChildren();
    log.replaceChildren();
    take(message);
  };
  listen(`/api/run/${key}/live`, { snapshot: restart, update: take });
  return panel;
}
const taskWords = ({ task, repeat }) => safe(task) + (repeat > 1 ? ` · repeat ${repeat}` : "");
const clock = (t) => new Date(t / 1000).toISOString().slice(11, 19);
async function refreshReport(key, still, panel) {
  scopes.delete(`run/${key}/`);
  const data = await openScope(`run/${key}/`, `/api/run/${key}/page`);
  if (!still()) return;
  enter(data);
  const old = panel.nextElementSibling;
  if (old) old.replaceWith(overview());
}

/* The trace of an attempt that is being made. */
function liveAttempt(key, name, still) {
  const id = decodeURIComponent(name);
  D = { ...ROOT, base: `run/${key}/`, attempts: [], columns: [] };
  document.title = "Running attempt";
  let stream = null;
  const title = h("h1", {}, "Running attempt");
  const status = h("span", {}, badge("accent", "running"));
  const done = h("div", {});
  const end = () => {
    stream.close();
    status.replaceChildren(badge("none", "ended"));
    const verdict = h("a", { href: `#/run/${key}/attempt/${encodeURIComponent(id)}` }, "Show its verdict");
    done.replaceChildren(h("div", { class: "note info", role: "status" }, "The attempt has ended. ", verdict));
  };
  const follow = (take) => {
    const events = (list) => {
      const start = list.find((event) => event.type === "task_started");
      if (start) title.textContent = `${safe(start.payload.task_id)} · ${safe(start.payload.variant)}`;
      take(list);
    };
    stream = listen(`/api/run/${key}/follow/${encodeURIComponent(id)}`, { events, end });
  };
  show(
    h(
      "div",
      { class: "stack" },
      h("nav", { class: "sub-nav", "aria-label": "This run" }, h("a", { href: "#/run/" + key }, "← run")),
      h("div", { class: "row" }, title, status),
      done,
      traceTab(0, { trace: { events: 0, parts: 0, inline: [], follow } }),
    ),
  );
}
