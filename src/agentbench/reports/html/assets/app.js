/* Routing, navigation, keyboard shortcuts. */

let turn = 0; /* counts navigations, so that an answer for an earlier page is not shown */
const show = (view) => {
  byId("main").replaceChildren(view);
  scrollTo(0, 0);
};
const problem = (error) =>
  h("div", { class: "note", role: "alert" }, safe(error.message), error.remedy && h("div", { class: "small" }, safe(error.remedy)));
const current = (name) =>
  document
    .querySelectorAll("#bar nav a")
    .forEach((a) => (a.dataset.page === name ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current")));

function address() {
  const [path, words] = location.hash.slice(2).split("?");
  return { parts: path.split("/"), query: Object.fromEntries(new URLSearchParams(words || "")) };
}
function use(data) {
  D = data;
  D.columns.forEach((name, i) => {
    C[name] = i;
  });
}
function route() {
  const { parts, query } = address();
  onScreen = location.hash;
  turn++;
  if (ROOT.live) return liveRoute(parts, query, turn);
  const name = D.single ? "attempt" : parts[0] || "overview";
  current(name === "attempt" ? "attempts" : name);
  document.title = D.title;
  scopedRoute(D.single ? ["attempt", 0, parts[0] === "attempt" ? parts[2] : ""] : parts, query);
}
/* Pages about the runs of the current scope. */
function scopedRoute(parts, query, around = (view) => view) {
  const name = parts[0] || "overview",
    mine = turn;
  if (name === "attempt") {
    const index = positionOf(parts[1]);
    if (!D.attempts[index]) return show(around(h("p", { class: "empty card" }, "No such attempt.")));
    if (query.seq) D.jump = Number(query.seq);
    document.title = col(D.attempts[index], "headline").slice(0, 60) + " · " + col(D.attempts[index], "task").slice(0, 60);
    if (!D.single && !AB.known.has("a" + index)) show(around(attemptHead(index)));
    const loaded = D.single ? Promise.resolve(D.single) : AB.load("a" + index);
    return loaded.then(
      (detail) => {
        if (mine === turn) {
          show(around(attemptView(index, parts[2], detail)));
          byId("main").focus({ preventScroll: true });
        }
      },
      (error) => {
        if (mine === turn) show(around(problem(error)));
      },
    );
  }
  const compared = D.methods ? leaderboardView : comparisonView;
  const views = {
    overview: D.runs.length ? overview : compared,
    leaderboard: D.methods ? leaderboardView : overview,
    attempts: () => attemptsView(query),
    review: reviewView,
    comparison: D.comparison ? comparisonView : overview,
  };
  show(around((views[name] || views.overview)()));
}

function chrome() {
  const review = ROOT.live ? 0 : D.attempts.filter((row) => col(row, "review")).length;
  const link = (page, words, count) =>
    h(
      "a",
      { href: page === "overview" ? "#/" : "#/" + page, "data-page": page },
      words,
      count ? h("span", { class: "count" }, whole(count)) : null,
    );
  const mark = s(
    "svg",
    { width: 22, height: 22, viewBox: "0 0 22 22", "aria-hidden": "true" },
    s("rect", { x: 1, y: 1, width: 20, height: 20, rx: 6, class: "f-accent" }),
    s("path", {
      d: "M6 11.5l3.4 3.4L16 8",
      fill: "none",
      stroke: "#fff",
      "stroke-width": 2.4,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
    }),
  );
  const theme = h(
    "button",
    {
      class: "icon",
      "aria-label": "toggle dark mode",
      title: "toggle dark mode",
      onclick: () => {
        const root = document.documentElement,
          dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
        root.dataset.theme = dark ? "light" : "dark";
      },
    },
    "◐",
  );
  byId("bar").append(
    h(
      "div",
      {},
      h("a", { class: "brand", href: "#/" }, mark, "AgentBench"),
      D.single
        ? h("nav", {})
        : ROOT.live
          ? h(
              "nav",
              { "aria-label": "Pages" },
              Object.entries(PAGES)
                .filter(([, page]) => page.title)
                .map(([name, page]) => link(name === "runs" ? "overview" : name, page.title)),
            )
          : h(
              "nav",
              { "aria-label": "Pages" },
              D.runs.length > 0 && link("overview", "Overview"),
              D.comparison && link("comparison", "Comparison"),
              D.methods && link("leaderboard", "Leaderboard"),
              D.runs.length > 0 && [link("attempts", "Attempts", D.attempts.length), link("review", "Review queue", review)],
            ),
      h("span", { class: "spacer" }),
      theme,
      h("button", { class: "icon", "aria-label": "keyboard shortcuts", title: "keyboard shortcuts", onclick: help }, "?"),
    ),
  );
  byId("foot").append(
    ROOT.live
      ? `AgentBench ${D.version}${D.read_only ? ", read-only" : ""}. Folders: ${D.roots.map(safe).join(", ")}`
      : `Generated ${D.made} by AgentBench ${D.version} from recorded data. This page loads nothing from the network.`,
  );
}
function help() {
  const keys = [
    ["/", "search"],
    ["↑ ↓ or j k", "move in a list"],
    ["Enter", "open"],
    ["[ ]", "previous, next attempt"],
    ["1 2 3 4 5", "verdict, diff, trace, record, replay"],
    ["Esc", "back to the list"],
    ["g o, g a, g r", "overview, attempts, review queue"],
    ["t", "toggle dark mode"],
  ];
  const box = h(
    "dialog",
    { "aria-label": "Keyboard shortcuts", onclose: () => box.remove() },
    h("h2", {}, "Keyboard shortcuts"),
    h(
      "table",
      {},
      h(
        "tbody",
        {},
        keys.map(([key, words]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, words))),
      ),
    ),
    h("form", { method: "dialog" }, h("button", { class: "toggle" }, "close")),
  );
  document.body.append(box);
  box.showModal();
}
let before = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape") {
    if (document.querySelector("dialog")) return;
    if (typing) event.target.blur();
    else if (/\/attempt\//.test(location.hash)) go(at("attempts"));
    return;
  }
  if (typing) return;
  const attempt = /\/attempt\/([^/?]+)/.exec(location.hash),
    tab = { 1: "verdict", 2: "diff", 3: "trace", 4: "record", 5: "replay" }[event.key];
  if (event.key === "/") {
    const box = byId("search") || byId("find");
    if (box) {
      event.preventDefault();
      box.focus();
    } else if (D.attempts) {
      go(at("attempts"));
      setTimeout(() => byId("search") && byId("search").focus(), 60);
    }
  } else if (event.key === "?") help();
  else if (event.key === "t" && before !== "g") document.querySelector('[aria-label="toggle dark mode"]').click();
  else if (before === "g" && { o: 1, a: 1, r: 1, c: 1 }[event.key])
    go(
      ROOT.live && !D.base
        ? { o: "#/", a: "#/explorer", r: "#/queue", c: "#/" }[event.key]
        : { o: at(""), a: at("attempts"), r: at("review"), c: at("comparison") }[event.key],
    );
  else if (tab && byId("tab-" + tab)) byId("tab-" + tab).click();
  else if (attempt && (event.key === "[" || event.key === "]")) {
    const order = D.order || D.attempts.map((_, i) => i),
      to = order[order.indexOf(positionOf(attempt[1])) + (event.key === "]" ? 1 : -1)];
    if (to !== undefined) go(at("attempt/" + ref(to)));
  } else if (/^(ArrowDown|j)$/.test(event.key) && D.list && D.list.body.isConnected && document.activeElement !== D.list.body) {
    D.list.body.focus();
    D.list.select(D.list.at + 1);
    event.preventDefault();
  }
  before = event.key;
});
addEventListener("hashchange", route);
addEventListener("beforeprint", () => {
  if (D.list && D.list.body.isConnected) D.list.all();
});
addEventListener("afterprint", () => {
  if (D.list && D.list.body.isConnected) D.list.paint();
});
const ROOT = JSON.parse(byId("data").textContent);
if (ROOT.live) D = ROOT;
else use(ROOT);
chrome();
route();
document.documentElement.dataset.ready = "1";
