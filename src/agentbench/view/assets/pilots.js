/* Pilots: stages with their criteria, spending, stopping rules, decisions and runs. */
PAGES.pilots = {
  title: "Pilots",
  open: async (parts, query, still) => {
    D = ROOT;
    document.title = "Pilots · AgentBench";
    const holder = h("div", { class: "stack" });
    const empty = h("p", { class: "card empty" }, "No pilot in the served folders. Give the folder of a pilot to `ab view`.");
    let shown = "";
    const refresh = async () => {
      const { pilots } = await getJson("/api/pilots");
      const now = JSON.stringify(pilots);
      if (!still() || now === shown) return;
      shown = now;
      holder.replaceChildren(h("h1", {}, "Pilots"), ...(pilots.length ? pilots.map(pilotCard) : [empty]));
    };
    show(holder);
    every(3000, () => refresh().catch(() => {}));
    await refresh();
  },
};
const TONES = { complete: "pass", stopped: "fail", blocked: "fail", running: "accent", next: "accent" };

function pilotCard(pilot) {
  if (pilot.problem) return card(safe(pilot.name), safe(pilot.path), h("div", { class: "note" }, safe(pilot.problem)));
  const status = pilot.status;
  const head = h(
    "header",
    {},
    h("h2", {}, safe(pilot.name)),
    badge(TONES[status.phase] || "none", status.phase),
    h("p", { class: "sub" }, `${safe(pilot.path)} · next: ${safe(status.next)}`),
  );
  const rules = status.stopping.map((rule) => [
    safe(rule.rule),
    h("td", {}, safe(rule.state), rule.stops && [" ", badge("fail", "stops"), " " + safe(rule.why)]),
  ]);
  const decisions = pilot.decisions.map((decision) => [
    when(decision.at),
    safe(decision.stage),
    h("td", { class: "name" }, safe(decision.text)),
  ]);
  const runs = pilot.runs.map((run) => [
    h("a", { href: "#/run/" + run.key }, safe(run.variant || run.name)),
    stateBadge(run.state),
    h("td", { class: "name dim" }, safe(run.name)),
  ]);
  return h(
    "section",
    { class: "card" },
    head,
    h(
      "div",
      { class: "body stack" },
      status.stages.length > 0 && h("div", { class: "grid three" }, status.stages.map(stageCard)),
      facts([
        ["spent", spentOfBudget(status.spending)],
        ["registration", status.registration_id],
        ["removed tasks", status.removals.join("; ")],
        ["deviations", status.deviations.join("; ")],
      ]),
      rules.length > 0 && tableOf(["stopping rule", "state"], rules),
      decisions.length > 0 && tableOf(["time", "stage", "decision"], decisions),
      runs.length > 0 && tableOf(["run", "state", "folder"], runs),
    ),
  );
}
function stageCard(stage) {
  const share = stage.planned ? (100 * stage.made) / stage.planned : 0;
  const label = `${stage.made} of ${stage.planned} attempts`;
  const open = stage.state === "waiting";
  const criterionItem = (criterion) =>
    h(
      "li",
      {},
      badge(criterion.met ? "pass" : open ? "none" : "fail", criterion.met ? "met" : open ? "not yet" : "not met"),
      ` ${safe(criterion.name)}: ${safe(criterion.evidence)}`,
    );
  const criteria = (title, list) => list.length > 0 && [h("h3", {}, title), h("ul", { class: "small plain" }, list.map(criterionItem))];
  return h(
    "section",
    { class: "card tile" },
    h("div", { class: "row" }, h("h3", {}, safe(stage.name)), badge(TONES[stage.state] || "none", stage.state)),
    h("div", { class: "meter", role: "img", "aria-label": label }, h("i", { class: "running", style: { width: share + "%" } })),
    h("div", { class: "sub" }, label),
    criteria("Entry", stage.entry),
    criteria("Exit", stage.exit),
  );
}
const spentOfBudget = (money) => (money.budget ? `${few(money.spent)} of ${few(money.budget)} ${safe(money.unit || "")}` : "");
