"use strict";
/* Helpers that build the page: elements by name, text as text nodes. Nothing is parsed as markup. */
const SVG = "http://www.w3.org/2000/svg";

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, style] of Object.entries(value)) node.style.setProperty(key, style);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(4)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}
const h = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);

/* Control and bidirectional characters in untrusted text are shown as escapes. */
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const safe = (text) => String(text ?? "").replace(ODD, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const cut = (text, limit) => (text.length > limit ? text.slice(0, limit - 1) + "…" : text);

const pct = (x) => (x === null || x === undefined ? "undefined" : (x * 100).toFixed(1) + "%");
/* With the digits that show the sign, and for p-values the side of the significance level. */
const pts = (x) =>
  (x >= 0 ? "+" : "−") + Math.abs(x * 100).toFixed([1, 2, 3, 4, 5, 6, 7, 8].find((n) => !x || Number(Math.abs(x * 100).toFixed(n))) || 9);
const pValue = (p, alpha) => p.toPrecision([3, 4, 5, 6, 7, 8, 9, 10].find((n) => Number(p.toPrecision(n)) <= alpha === p <= alpha) || 12);
const whole = (n) => Number(n).toLocaleString("en-US");
const few = (x) =>
  x === null || x === undefined
    ? "–"
    : Math.abs(x) >= 1e15
      ? x.toExponential(2)
      : Number(Number(x).toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 8 });
function secs(x) {
  if (x === null || x === undefined) return "–";
  if (x < 1) return Math.round(x * 1000) + " ms";
  if (x < 100) return x.toFixed(1) + " s";
  if (x < 6000) return Math.floor(x / 60) + " min " + Math.round(x % 60) + " s";
  return (x / 3600).toFixed(1) + " h";
}
const plural = (n, noun) => whole(n) + " " + noun + (n === 1 ? "" : "s");
const money = (x, unit) => (unit === "usd" ? "$" + few(x) : few(x) + " " + safe(unit || ""));

const MARK = { pass: "✓", fail: "✕", error: "!", invalid: "–", none: "–" };
const badge = (kind, text) =>
  h("span", { class: "badge " + kind }, MARK[kind] && h("span", { "aria-hidden": "true" }, MARK[kind]), safe(text));
const card = (title, sub, ...body) =>
  h(
    "section",
    { class: "card" },
    h("header", {}, h("h2", {}, title), sub && h("p", { class: "sub" }, sub)),
    h("div", { class: "body" }, body),
  );
const facts = (pairs) =>
  h(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, v]) => v !== null && v !== undefined && v !== "")
      .map(([k, v]) => [h("dt", {}, k), h("dd", {}, v instanceof Node ? v : safe(v))]),
  );
/* A table. A column is its words, or [words, class of its cells]; "r" aligns numbers at the right. A cell may be a whole <td>. */
function tableOf(columns, rows, attributes = {}) {
  const specs = columns.filter(Boolean).map((column) => (Array.isArray(column) ? column : [column]));
  const head = specs.map(([words, kind]) => h("th", { scope: "col", class: kind === "r" ? "r" : null }, words));
  const cell = (value, i) =>
    value instanceof HTMLTableCellElement ? value : h("td", { class: specs[i][1] || (typeof value === "number" ? "num" : null) }, value);
  const row = (cells) => h("tr", {}, cells.filter((value) => value !== false).map(cell));
  return h("div", { class: "scroll" }, h("table", attributes, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map(row))));
}
const say = (text) => {
  byId("say").textContent = text;
};

/* A virtual list: only rows in view exist in the DOM. */
class VirtualList {
  constructor({ height, rowHeight, draw, open, label, fit }) {
    this.rowHeight = rowHeight;
    this.draw = draw;
    this.open = open;
    this.items = [];
    this.at = -1;
    this.pad = h("div", { class: "vt-pad" });
    this.body = h(
      "div",
      { class: "vt-body", tabindex: "0", role: "listbox", "aria-label": label, onkeydown: (e) => this.key(e) },
      this.pad,
    );
    this.limit = height;
    this.fit = fit;
    this.body.addEventListener("scroll", () => requestAnimationFrame(() => this.paint()));
  }
  show(items, at = -1) {
    this.items = items;
    this.at = at;
    const tall = items.length * this.rowHeight;
    this.pad.style.height = tall + "px";
    this.pad.style.position = "relative";
    this.body.style.height = Math.min(Math.max(tall, this.rowHeight), this.limit()) + 2 + "px";
    this.last = null;
    this.paint();
  }
  /* For printing: up to 3000 rows. */
  all() {
    this.whole = true;
    this.last = null;
    this.paint();
    this.whole = false;
    this.last = null;
  }
  paint() {
    const from = this.whole ? 0 : Math.max(0, Math.floor(this.body.scrollTop / this.rowHeight) - 8);
    const to = Math.min(this.items.length, this.whole ? 3000 : from + Math.ceil(this.limit() / this.rowHeight) + 20);
    const now = from + ":" + to + ":" + this.at;
    if (now === this.last) return;
    this.last = now;
    const rows = [];
    for (let i = from; i < to; i++) {
      const row = this.draw(this.items[i], i);
      row.style.top = i * this.rowHeight + "px";
      row.setAttribute("role", "option");
      row.id = "row-" + i;
      row.setAttribute("aria-selected", i === this.at ? "true" : "false");
      row.setAttribute("aria-setsize", this.items.length);
      row.setAttribute("aria-posinset", i + 1);
      row.addEventListener("click", (event) => {
        if (!event.target.closest("a")) {
          this.select(i);
          this.open(this.items[i], i);
        }
      });
      rows.push(row);
    }
    this.pad.replaceChildren(...rows);
    if (this.at >= 0) this.body.setAttribute("aria-activedescendant", "row-" + this.at);
  }
  select(i) {
    if (!this.items.length) return;
    this.at = Math.max(0, Math.min(this.items.length - 1, i));
    const top = this.at * this.rowHeight,
      view = this.body.clientHeight;
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    else if (top + this.rowHeight > this.body.scrollTop + view) this.body.scrollTop = top + this.rowHeight - view;
    this.paint();
  }
  key(event) {
    const page = Math.floor(this.body.clientHeight / this.rowHeight) - 1;
    const move = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 }[event.key];
    if (move) {
      event.preventDefault();
      event.stopPropagation();
      this.select((this.at < 0 && move > 0 && move < 1e9 ? -1 : this.at) + move);
      if (this.follow) this.open(this.items[this.at], this.at);
    }
    if (event.key === "Enter" && this.at >= 0) {
      event.preventDefault();
      this.open(this.items[this.at], this.at);
    }
  }
}
