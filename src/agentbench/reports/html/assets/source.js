/* Where data comes from, and addresses inside the page. A static report reads side files; a live view replaces AB.load. */
const AB = {
  waiting: new Map(),
  known: new Map(),
  /* Side files are scripts that register JSON, because pages opened from `file://` cannot read files. */
  put(key, json) {
    const value = JSON.parse(json);
    if (this.known.size > 200) this.known.clear();
    this.known.set(key, value);
    const wait = this.waiting.get(key);
    if (wait) {
      this.waiting.delete(key);
      wait.resolve(value);
    }
  },
  load(key) {
    if (this.known.has(key)) return Promise.resolve(this.known.get(key));
    if (this.waiting.has(key)) return this.waiting.get(key).promise;
    const wait = {};
    wait.promise = new Promise((resolve, reject) => {
      wait.resolve = resolve;
      wait.reject = reject;
    });
    this.waiting.set(key, wait);
    const script = document.createElement("script");
    script.src = "data/" + key + ".js";
    script.onload = () => script.remove();
    script.onerror = () => {
      script.remove();
      this.waiting.delete(key);
      wait.reject(new Error("data/" + key + ".js is missing: keep the data folder next to index.html"));
    };
    document.head.append(script);
    return wait.promise;
  },
};
window.AB = AB;
const go = (hash) => {
  location.hash = hash;
};
/* The address of the page on screen. `location.hash` is ahead of it from a link or key until the browser reports the change. */
let onScreen = "";
/* Let the address follow what the page on screen shows, unless the reader has asked for another page in the meantime. */
const readdress = (hash) => {
  if (location.hash !== onScreen) return;
  history.replaceState(null, "", hash);
  onScreen = location.hash;
};
/* An address inside the current scope: a static report has one scope, a live view one per run or comparison. */
const at = (path) => "#/" + (D.base || "") + path;
/* The name of an attempt in an address: its position in a static report, its id in a live view, where positions change. */
const ref = (index) => (D.base ? encodeURIComponent(col(D.attempts[index], "id")) : index);
const positionOf = (name) => (D.base ? D.attempts.findIndex((row) => col(row, "id") === decodeURIComponent(name)) : Number(name));
/* Pages of a live view by the first part of their address: {title, open(parts, query)}. A static report has none. */
const PAGES = {};
