/* The data source of a live view: HTTP and server-sent events. Routes of the view and the message when the server is gone. */
const scopes = new Map(); /* address of a run or comparison -> its data */
let streams = [];

class ViewError extends Error {
  constructor(answer, status) {
    super([answer.error || "The server answered with status " + status, ...(answer.problems || [])].join("\n"));
    this.remedy = answer.remedy;
    this.status = status;
    this.problems = answer.problems || [];
  }
}
async function request(path, body, headers = {}) {
  let response;
  try {
    response = await fetch(
      path,
      body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) },
    );
  } catch {
    offline("The server does not answer. Start `ab view` again; this page tries again by itself.");
    throw new ViewError({ error: "The server does not answer." }, 0);
  }
  if (response.status === 401) offline("This page belongs to an earlier `ab view`. Open the address that the current one printed.");
  else offline("");
  return response;
}
async function getJson(path) {
  const response = await request(path),
    value = await response.json();
  if (!response.ok) throw new ViewError(value, response.status);
  return value;
}
async function postJson(path, body, headers) {
  const response = await request(path, body, headers),
    value = await response.json();
  if (!response.ok) throw new ViewError(value, response.status);
  return value;
}
const act = (name, body) => postJson("/api/actions/" + name, body, { "x-ab-action": ROOT.action || "" });

function offline(words) {
  const old = byId("offline");
  if (old) old.remove();
  if (words) document.body.append(h("div", { class: "note", id: "offline", role: "alert" }, words));
}
/* An event source that ends when the page is left. The browser connects again by itself; a refused one is tried again here. */
function listen(path, handlers) {
  let source = null,
    closed = false;
  const connect = () => {
    source = new EventSource(path);
    source.onopen = () => offline("");
    source.onerror = () => {
      if (closed) return;
      offline("The connection to the server is lost; trying again.");
      if (source.readyState === EventSource.CLOSED)
        setTimeout(() => {
          if (!closed)
            getJson("/api/runs").then(connect, () => {
              if (!closed) setTimeout(connect, 2000);
            });
        }, 1000);
    };
    /* The server says why it cannot send anything: trying again would not help. */
    source.addEventListener("problem", (event) => {
      entry.close();
      offline(safe(JSON.parse(event.data).error));
    });
    for (const [name, handler] of Object.entries(handlers))
      source.addEventListener(name, (event) => handler(JSON.parse(event.data), source));
  };
  const entry = {
    close: () => {
      closed = true;
      source.close();
    },
  };
  connect();
  streams.push(entry);
  return entry;
}
function every(milliseconds, action) {
  const timer = setInterval(() => {
    if (!document.hidden) action();
  }, milliseconds);
  streams.push({ close: () => clearInterval(timer) });
}

AB.load = async function (key) {
  if (this.known.has(key)) return this.known.get(key);
  const [, kind, index, part] = /^([at])(\d+)(?:-(\d+))?$/.exec(key),
    row = D.attempts[index];
  const known = this.known,
    path = `/api/run/${D.keys[col(row, "run")]}/attempt/${encodeURIComponent(col(row, "id"))}`;
  const value = await getJson(kind === "a" ? path : `${path}/trace/${part}`);
  if (known.size > 60) known.clear();
  known.set(key, value);
  return value;
};
async function openScope(base, path) {
  const cached = scopes.get(base);
  if (cached && cached.data.closed && Date.now() - cached.at < 3000) return cached.data;
  const data = await getJson(path);
  const before = scopes.get(base);
  if (scopes.size > 6) scopes.clear();
  scopes.set(base, {
    at: Date.now(),
    data: {
      ...data,
      live: true,
      base,
      order: before && before.data.order && before.data.attempts.length === data.attempts.length ? before.data.order : undefined,
    },
  });
  return scopes.get(base).data;
}
function enter(data) {
  if (D !== data) AB.known.clear();
  use(data);
}
function liveRoute(parts, query, mine) {
  streams.forEach((stream) => stream.close());
  streams = [];
  const name = parts[0] || "runs",
    page = PAGES[name];
  if (!page) {
    D = ROOT;
    return show(h("p", { class: "card empty" }, "No such page. ", h("a", { href: "#/" }, "Runs")));
  }
  current({ runs: "overview", run: "overview", compare: "overview" }[name] || name);
  const still = () => mine === turn;
  Promise.resolve()
    .then(() => page.open(parts.slice(1), query, still))
    .catch((error) => {
      if (still()) show(problem(error));
    });
}
const scopeNav = (base, items, name) =>
  h(
    "nav",
    { class: "sub-nav noprint", "aria-label": "This run" },
    h("a", { href: "#/" }, "← runs"),
    items.map(([path, words]) =>
      h("a", { href: path.startsWith("#") ? path : "#/" + base + path, "aria-current": path === name ? "page" : null }, words),
    ),
  );

PAGES.runs = {
  title: "Runs",
  open: (parts, query, still) => {
    D = ROOT;
    document.title = ROOT.title;
    return runsPage(query, still);
  },
};
/* The run that is being made, as soon as there is one: `ab run --view` opens this page before it starts. With several variants there is
   one run for each: the list of them. */
PAGES.latest = {
  open: async (parts, query, still) => {
    const look = async () => {
      const { runs } = await getJson("/api/runs");
      const run = runs.find((entry) => entry.state === "running");
      if (!run || !still()) return;
      const several = run.study_id && runs.filter((entry) => entry.study_id === run.study_id).length > 1;
      go(several ? "#/runs?study=" + encodeURIComponent(run.study_id) : "#/run/" + run.key);
    };
    D = ROOT;
    show(
      h("div", { class: "card empty", role: "status" }, h("h1", {}, "Waiting for the run to start"), h("a", { href: "#/" }, "All runs")),
    );
    every(500, () => look().catch(() => {}));
    await look();
  },
};
PAGES.compare = {
  open: async ([a, b, ...rest], query, still) => {
    const base = `compare/${a}/${b}/`,
      data = await openScope(base, `/api/compare/${a}/${b}/page`);
    if (!still()) return;
    enter(data);
    document.title = data.title;
    const name = rest[0] || "comparison";
    scopedRoute([name, ...rest.slice(1)], query, (view) =>
      h(
        "div",
        { class: "stack" },
        scopeNav(
          base,
          [
            ["comparison", "Comparison"],
            ["overview", "Both runs"],
            ["attempts", "Attempts"],
          ],
          name,
        ),
        view,
      ),
    );
  },
};
