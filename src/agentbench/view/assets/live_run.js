/* One run: its report, and while it is made its progress, the current step of each worker and a log. */
const MAX_SHOWN_LOG = 300;
PAGES.run = {
  open: async ([key, ...rest], query, still) => {
    const base = `run/${key}/`;
    if (rest[0] === "live") return liveAttempt(key, rest[1], still);
    const data = await openScope(base, `/api/run/${key}/page`);
    if (!still()) return;
    enter(data);
    document.title = data.title;
    const name = rest[0] || "";
    const around = (view) =>
      h(
        "div",
        { class: "stack" },
        scopeNav(
          base,
          [
            ["", "Overview"],
            ["attempts", `Attempts (${whole(data.attempts.length)})`],
            ["review", "Review queue"],
          ],
          name === "overview" ? "" : name,
        ),
        name === "" && livePanel(key, still),
        view,
      );
    scopedRoute([name || "overview", ...rest.slice(1)], query, around);
  },
};
function livePanel(key, still) {
  const panel = h("section", { class: "card", id: "live", hidden: true });
  const workers = new Map(),
    log = h("div", { class: "log", id: "log", tabindex: "0", role: "log", "aria-label": "Log" }),
    steps = h("div", { class: "steps", id: "workers" }),
    head = h("div", { class: "stack", style: { gap: "8px" } });
  let made = null,
    planned = null,
    reload = null;
  panel.append(
    h("header", {}, h("h2", {}, "Live"), h("p", { class: "sub" }, "Updates as the run writes its log.")),
    h("div", { class: "body stack" }, head, steps, log),
  );
  const drawHead = (p) => {
    const facts = [
      `${whole(p.counts ? p.counts.attempts : 0)} done`,
      `${p.running} running`,
      p.waiting === null ? "" : `${p.waiting} waiting`,
      p.per_hour ? `${few(p.per_hour)} attempts per hour` : "",
      p.eta_sec ? `about ${secs(p.eta_sec)} left` : "",
      p.spending || (p.counts && p.counts.spent)
        ? `spent ${money((p.counts ? p.counts.spent : 0) + p.spending, p.counts ? p.counts.unit : "usd")}${p.cap ? " of " + money(p.cap, "usd") : ""}`
        : "",
    ].filter(Boolean);
    head.replaceChildren(
      h(
        "div",
        { class: "row" },
        stateBadge(p.state),
        h("strong", { id: "progress" }, facts.join(" · ")),
        p.questions > 0 && h("a", { href: "#/queue", class: "badge error" }, `${plural(p.questions, "question")} for the operator`),
      ),
      runMeter(p),
    );
  };
  const drawWorker = (worker) => {
    const node = h(
      "div",
      { class: "step", "data-attempt": worker.attempt },
      h(
        "div",
        {},
        h("a", { href: `#/run/${key}/live/${encodeURIComponent(worker.attempt)}`, style: { "font-weight": "620" } }, safe(worker.task)),
        worker.repeat > 1 ? " · " + worker.repeat : "",
        h("span", { class: "dim" }, worker.tokens ? ` ${whole(worker.tokens)} tokens` : ""),
      ),
      h(
        "div",
        { class: "small mono", title: worker.step ? safe(describe(worker.step)) : "" },
        worker.step ? `${safe(worker.step.type)} ${cut(safe(describe(worker.step)), 90)}` : "starting",
      ),
      h("div", { class: "sub" }, plural(worker.events, "event")),
    );
    const old = workers.get(worker.attempt);
    if (old) old.replaceWith(node);
    else steps.append(node);
    workers.set(worker.attempt, node);
  };
  const addLog = (lines) => {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 30;
    log.append(
      ...lines.map((line) =>
        h(
          "div",
          {},
          h("span", { class: "dim" }, new Date(line.t / 1000).toISOString().slice(11, 19) + " "),
          safe(line.task) + " ",
          h("strong", {}, safe(line.type)),
          " " + cut(safe(describe(line)), 200),
        ),
      ),
    );
    while (log.childElementCount > MAX_SHOWN_LOG) log.firstChild.remove();
    if (atEnd) log.scrollTop = log.scrollHeight;
  };
  /* The report below is loaded again when attempts have been finished, at most every three seconds. */
  const finished = (p) => {
    const now = p.counts ? p.counts.attempts + p.state : p.state;
    if (made !== null && now !== made && !reload)
      reload = setTimeout(
        () => {
          reload = null;
          if (still()) {
            scopes.delete(`run/${key}/`);
            refreshReport(key, still, panel);
          }
        },
        planned === "running" ? 3000 : 300,
      );
    made = now;
    planned = p.state;
  };
  const take = (message, whole) => {
    if (whole) {
      workers.clear();
      steps.replaceChildren();
      log.replaceChildren();
    }
    panel.hidden = message.progress.state !== "running" && !message.workers.length && panel.hidden;
    drawHead(message.progress);
    message.workers.forEach(drawWorker);
    (message.gone || []).forEach((name) => {
      const node = workers.get(name);
      if (node) node.remove();
      workers.delete(name);
    });
    addLog(message.log);
    finished(message.progress);
  };
  listen(`/api/run/${key}/live`, { snapshot: (message) => take(message, true), update: (message) => take(message, false) });
  return panel;
}
async function refreshReport(key, still, panel) {
  const data = await openScope(`run/${key}/`, `/api/run/${key}/page`);
  if (!still()) return;
  enter(data);
  const report = overview(),
    old = panel.nextElementSibling;
  if (old) old.replaceWith(report);
}
/* The trace of an attempt that is being made. */
function liveAttempt(key, name, still) {
  const id = decodeURIComponent(name);
  D = { ...ROOT, base: `run/${key}/`, attempts: [], columns: [] };
  document.title = "Running attempt";
  let stream = null;
  const title = h("h1", {}, "Running attempt"),
    done = h("div", {});
  const follow = (take) => {
    stream = listen(`/api/run/${key}/follow/${encodeURIComponent(id)}`, {
      events: (events) => {
        const start = events.find((event) => event.type === "task_started");
        if (start) title.textContent = `${safe(start.payload.task_id)} · ${safe(start.payload.variant)}`;
        take(events);
      },
      end: () => {
        stream.close();
        done.replaceChildren(
          h(
            "div",
            { class: "note info", role: "status" },
            "The attempt has ended. ",
            h("a", { href: `#/run/${key}/attempt/${encodeURIComponent(id)}` }, "Show its verdict"),
          ),
        );
      },
    });
  };
  show(
    h(
      "div",
      { class: "stack" },
      h("nav", { class: "sub-nav", "aria-label": "This run" }, h("a", { href: "#/run/" + key }, "← run")),
      h("div", { class: "row" }, title, badge("accent", "running")),
      done,
      traceTab(0, { trace: { events: 0, parts: 0, inline: [], follow } }),
    ),
  );
}
