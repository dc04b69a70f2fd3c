/* Pilots: stages with their criteria, spending, stopping rules and decisions. */
PAGES.pilots = {
  title: "Pilots",
  open: async (parts, query, still) => {
    D = ROOT;
    document.title = "Pilots · AgentBench";
    const { pilots } = await getJson("/api/pilots");
    if (still())
      show(
        h(
          "div",
          { class: "stack" },
          h("h1", {}, "Pilots"),
          pilots.length
            ? pilots.map(pilotCard)
            : h("p", { class: "card empty" }, "No pilot in the served folders. Give the folder of a pilot to `ab view`."),
        ),
      );
  },
};
const TONES = { complete: "pass", stopped: "fail", running: "accent", next: "accent" };
function pilotCard(pilot) {
  if (pilot.problem) return card(safe(pilot.name), safe(pilot.path), h("div", { class: "note" }, safe(pilot.problem)));
  const status = pilot.status,
    money = status.spending;
  const criteria = (title, list) =>
    list.length > 0 && [
      h("h3", {}, title),
      h(
        "ul",
        { class: "small", style: { "padding-left": "18px" } },
        list.map((one) =>
          h("li", {}, badge(one.met ? "pass" : "fail", one.met ? "met" : "not met"), ` ${safe(one.name)}: ${safe(one.evidence)}`),
        ),
      ),
    ];
  const stages = status.stages.map((one) =>
    h(
      "section",
      { class: "card tile" },
      h("div", { class: "row" }, h("h3", {}, safe(one.name)), badge(TONES[one.state] || "none", one.state)),
      h("div", { class: "sub" }, `${one.made} of ${one.planned} attempts`),
      criteria("Entry", one.entry),
      criteria("Exit", one.exit),
    ),
  );
  return h(
    "section",
    { class: "card" },
    h(
      "header",
      {},
      h("h2", {}, safe(pilot.name)),
      badge(TONES[status.phase] || "none", status.phase),
      h("p", { class: "sub" }, `${safe(pilot.path)} · next: ${safe(status.next)}`),
    ),
    h(
      "div",
      { class: "body stack" },
      stages.length > 0 && h("div", { class: "grid three" }, stages),
      facts([
        ["spent", money.budget ? `${few(money.spent)} of ${few(money.budget)} ${safe(money.unit)}` : ""],
        ["registration", status.registration_id],
        ["removed", status.removals.join("; ")],
        ["deviations", status.deviations.join("; ")],
      ]),
      status.stopping.length > 0 &&
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["stopping rule", "state"].map((x) => h("th", { scope: "col" }, x)),
            ),
          ),
          h(
            "tbody",
            {},
            status.stopping.map((rule) =>
              h(
                "tr",
                {},
                h("td", {}, safe(rule.rule)),
                h("td", {}, safe(rule.state), rule.stops && [" ", badge("fail", "stops"), " " + safe(rule.why)]),
              ),
            ),
          ),
        ),
      pilot.decisions.length > 0 &&
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["time", "stage", "decision"].map((x) => h("th", { scope: "col" }, x)),
            ),
          ),
          h(
            "tbody",
            {},
            pilot.decisions.map((one) =>
              h(
                "tr",
                {},
                h("td", { class: "num" }, when(one.at)),
                h("td", {}, safe(one.stage)),
                h("td", { class: "name" }, safe(one.text)),
              ),
            ),
          ),
        ),
    ),
  );
}
