/* Data, side files, routing, keyboard shortcuts. */
const AB = {
  waiting: new Map(), known: new Map(),
  /* Side files are scripts that register JSON, because pages opened from `file://` cannot read files. */
  put(key, json) { const value = JSON.parse(json); if (this.known.size > 200) this.known.clear(); this.known.set(key, value); const wait = this.waiting.get(key); if (wait) { this.waiting.delete(key); wait.resolve(value); } },
  load(key) {
    if (this.known.has(key)) return Promise.resolve(this.known.get(key));
    if (this.waiting.has(key)) return this.waiting.get(key).promise;
    const wait = {}; wait.promise = new Promise((resolve, reject) => { wait.resolve = resolve; wait.reject = reject; });
    this.waiting.set(key, wait);
    const script = document.createElement("script");
    script.src = "data/" + key + ".js"; script.onload = () => script.remove();
    script.onerror = () => { script.remove(); this.waiting.delete(key); wait.reject(new Error("data/" + key + ".js is missing: keep the data folder next to index.html")); };
    document.head.append(script);
    return wait.promise;
  },
};
window.AB = AB;
const go = (hash) => { location.hash = hash; };

function route() {
  const [path, words] = location.hash.slice(2).split("?"), query = Object.fromEntries(new URLSearchParams(words || "")), parts = path.split("/");
  const name = D.single ? "attempt" : parts[0] || "overview";
  document.querySelectorAll("nav a").forEach((a) => (a.dataset.page === (name === "attempt" ? "attempts" : name) ? a.setAttribute("aria-current", "page") : a.removeAttribute("aria-current")));
  const main = byId("main"), show = (view) => { main.replaceChildren(view); scrollTo(0, 0); };
  if (name === "attempt") {
    const index = D.single ? 0 : Number(parts[1]), tab = D.single ? parts[0] === "attempt" ? parts[2] : "" : parts[2];
    if (!D.attempts[index]) return show(h("p", { class: "empty card" }, "No such attempt."));
    if (query.seq) D.jump = Number(query.seq);
    document.title = col(D.attempts[index], "headline").slice(0, 60) + " · " + col(D.attempts[index], "task").slice(0, 60);
    const mine = (D.turn = (D.turn || 0) + 1);
    (D.single ? Promise.resolve(D.single) : AB.load("a" + index)).then((detail) => { if (mine === D.turn) { show(attemptView(index, tab, detail)); main.focus({ preventScroll: true }); } }, (error) => show(h("div", { class: "note" }, error.message)));
    return;
  }
  D.turn = (D.turn || 0) + 1;
  document.title = D.title;
  const compared = D.methods ? leaderboardView : comparisonView;
  const views = { overview: D.runs.length ? overview : compared, leaderboard: D.methods ? leaderboardView : overview, attempts: () => attemptsView(query), review: reviewView, comparison: D.comparison ? comparisonView : overview };
  show((views[name] || views.overview)());
}

function chrome() {
  const review = D.attempts.filter((row) => col(row, "review")).length;
  const link = (page, words, count) => h("a", { href: page === "overview" ? "#/" : "#/" + page, "data-page": page }, words, count ? h("span", { class: "count" }, whole(count)) : null);
  const mark = s("svg", { width: 22, height: 22, viewBox: "0 0 22 22", "aria-hidden": "true" }, s("rect", { x: 1, y: 1, width: 20, height: 20, rx: 6, class: "f-accent" }), s("path", { d: "M6 11.5l3.4 3.4L16 8", fill: "none", stroke: "#fff", "stroke-width": 2.4, "stroke-linecap": "round", "stroke-linejoin": "round" }));
  const theme = h("button", { class: "icon", "aria-label": "toggle dark mode", title: "toggle dark mode", onclick: () => { const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches; root.dataset.theme = dark ? "light" : "dark"; } }, "◐");
  byId("bar").append(h("div", {}, h("a", { class: "brand", href: "#/" }, mark, "AgentBench"), D.single ? h("nav", {}) : h("nav", { "aria-label": "Pages" }, D.runs.length > 0 && link("overview", "Overview"), D.comparison && link("comparison", "Comparison"), D.methods && link("leaderboard", "Leaderboard"), D.runs.length > 0 && [link("attempts", "Attempts", D.attempts.length), link("review", "Review queue", review)]), h("span", { class: "spacer" }), theme, h("button", { class: "icon", "aria-label": "keyboard shortcuts", title: "keyboard shortcuts", onclick: help }, "?")));
  byId("foot").append(`Generated ${D.made} by AgentBench ${D.version} from recorded data. This page loads nothing from the network.`);
}
function help() {
  const keys = [["/", "search"], ["↑ ↓ or j k", "move in a list"], ["Enter", "open"], ["[ ]", "previous, next attempt"], ["1 2 3 4", "verdict, diff, trace, record"], ["Esc", "back to the list"], ["g o, g a, g r", "overview, attempts, review queue"], ["t", "toggle dark mode"]];
  const box = h("dialog", { "aria-label": "Keyboard shortcuts", onclose: () => box.remove() }, h("h2", {}, "Keyboard shortcuts"), h("table", {}, h("tbody", {}, keys.map(([key, words]) => h("tr", {}, h("td", {}, h("kbd", {}, key)), h("td", {}, words))))), h("form", { method: "dialog" }, h("button", { class: "toggle" }, "close")));
  document.body.append(box); box.showModal();
}
let before = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape") { if (document.querySelector("dialog")) return; if (typing) event.target.blur(); else if (/^#\/attempt\//.test(location.hash)) go("#/attempts"); return; }
  if (typing) return;
  const attempt = /^#\/attempt\/(\d+)/.exec(location.hash), tab = { 1: "verdict", 2: "diff", 3: "trace", 4: "record" }[event.key];
  if (event.key === "/") { const box = byId("search") || byId("find"); if (box) { event.preventDefault(); box.focus(); } else { go("#/attempts"); setTimeout(() => byId("search") && byId("search").focus(), 60); } }
  else if (event.key === "?") help();
  else if (event.key === "t" && before !== "g") document.querySelector('[aria-label="toggle dark mode"]').click();
  else if (before === "g" && { o: 1, a: 1, r: 1, c: 1 }[event.key]) go({ o: "#/", a: "#/attempts", r: "#/review", c: "#/comparison" }[event.key]);
  else if (tab && byId("tab-" + tab)) byId("tab-" + tab).click();
  else if (attempt && (event.key === "[" || event.key === "]")) { const order = D.order || D.attempts.map((_, i) => i), to = order[order.indexOf(Number(attempt[1])) + (event.key === "]" ? 1 : -1)]; if (to !== undefined) go("#/attempt/" + to); }
  else if (/^(ArrowDown|j)$/.test(event.key) && D.list && D.list.body.isConnected && document.activeElement !== D.list.body) { D.list.body.focus(); D.list.select(D.list.at + 1); event.preventDefault(); }
  before = event.key;
});
addEventListener("hashchange", route);
addEventListener("beforeprint", () => { if (D.list && D.list.body.isConnected) D.list.all(); });
addEventListener("afterprint", () => { if (D.list && D.list.body.isConnected) D.list.paint(); });
D = JSON.parse(byId("data").textContent);
D.columns.forEach((name, i) => { C[name] = i; });
chrome(); route();
document.documentElement.dataset.ready = "1";
