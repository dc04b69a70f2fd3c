/* Queue: questions for the operator and attempts to adjudicate. The server writes what `ab operator` and `ab adjudicate` write. */
PAGES.queue = {
  title: "Queue",
  open: async (parts, query, still) => {
    D = ROOT;
    document.title = "Queue · AgentBench";
    const holder = h("div", { class: "stack" });
    let shown = "";
    const refresh = async () => {
      const answer = await getJson("/api/queue"),
        now = JSON.stringify(answer);
      if (!still() || now === shown || holder.querySelector("form[data-touched]")) return;
      shown = now;
      holder.replaceChildren(
        ...queueView(answer, () => {
          shown = "";
          holder.querySelectorAll("form").forEach((form) => delete form.dataset.touched);
          refresh();
        }),
      );
    };
    show(holder);
    every(2000, () => refresh().catch(() => {}));
    await refresh();
  },
};
function queueView(answer, done) {
  const open = answer.reviews.filter((one) => !one.adjudicated).length;
  return [
    h(
      "div",
      { class: "row" },
      h("h1", {}, "Queue"),
      h(
        "span",
        { class: "sub" },
        `${plural(answer.questions.length, "question")} for the operator, ${plural(open, "attempt")} to adjudicate`,
      ),
    ),
    ROOT.read_only && h("div", { class: "note info" }, "This view is read-only: start it without --read-only to answer and adjudicate."),
    h("h2", {}, "Waiting for an operator"),
    answer.questions.length
      ? answer.questions.map((one) => questionCard(one, done))
      : h("p", { class: "card empty" }, "No attempt waits for an operator."),
    h("h2", {}, "To adjudicate"),
    answer.reviews.length
      ? answer.reviews.map((one) => reviewCard(one, answer.categories, done))
      : h("p", { class: "card empty" }, "No attempt needs review."),
    answer.left_out > 0 &&
      h("p", { class: "sub" }, `${whole(answer.left_out)} more in runs that are not shown here; open the run's review queue.`),
  ]
    .flat()
    .filter(Boolean);
}
const field = (label, control) => h("label", { class: "field-label" }, label, control);
/* A form whose buttons act; its message says what happened. */
function actionForm(children, buttons, send, done) {
  const message = h("div", { role: "status" });
  const form = h(
    "form",
    {
      class: "stack",
      style: { gap: "10px" },
      oninput: () => {
        form.dataset.touched = "1";
      },
      onsubmit: async (event) => {
        event.preventDefault();
        const all = [...form.querySelectorAll("button")];
        all.forEach((one) => {
          one.disabled = true;
        });
        try {
          const answer = await send(new FormData(form), event.submitter ? event.submitter.value : "");
          message.replaceChildren(badge("pass", answer.done));
          say(answer.done);
          delete form.dataset.touched;
          setTimeout(done, 900);
        } catch (error) {
          message.replaceChildren(problem(error));
          all.forEach((one) => {
            one.disabled = false;
          });
        }
      },
    },
    children,
    h("div", { class: "row" }, buttons),
    message,
  );
  return form;
}
function questionCard(one, done) {
  const form = actionForm(
    [
      field(
        "Why? The reason is recorded in the attempt's log.",
        h("input", { class: "field", name: "reason", required: true, maxlength: "2000", autocomplete: "off" }),
      ),
    ],
    [
      h("button", { class: "toggle primary", value: "continue" }, "Let it continue"),
      h("button", { class: "toggle", value: "stop" }, "Stop the attempt"),
    ],
    (data, decision) => act("decide", { run: one.run, question: one.id, decision, reason: data.get("reason") }),
    done,
  );
  return h(
    "section",
    { class: "card tile question" },
    h(
      "div",
      { class: "row" },
      badge("error", "paused"),
      h("a", { href: `#/run/${one.run}/live/${encodeURIComponent(one.attempt_id)}`, style: { "font-weight": "620" } }, safe(one.task_id)),
      h("span", { class: "dim" }, `${safe(one.variant)} · repeat ${one.repeat}`),
      h("span", { class: "spacer" }),
      h("span", { class: "sub" }, "without an answer it is stopped at " + when(one.deadline_at).slice(11)),
    ),
    h("div", { class: "why" }, h("strong", {}, safe(one.rule)), ": ", safe(one.detail)),
    !ROOT.read_only && form,
  );
}
function reviewCard(one, categories, done) {
  const flagged = new Set(one.flagged),
    truth = (value, words) => h("label", {}, h("input", { type: "radio", name: "truth", value, required: true }), words);
  const form = actionForm(
    [
      h(
        "div",
        { class: "choices", role: "radiogroup", "aria-label": "Is the patch correct?" },
        h("strong", {}, "Is the patch correct?"),
        truth("correct", "correct"),
        truth("incorrect", "incorrect"),
        truth("undecidable", "cannot be decided"),
      ),
      h(
        "div",
        { class: "form" },
        field(
          "Minutes of review",
          h("input", { class: "field", name: "minutes", type: "number", min: "0", step: "0.5", value: "5", required: true }),
        ),
        field("Note", h("input", { class: "field", name: "note", maxlength: "10000", autocomplete: "off" })),
      ),
      h(
        "details",
        { class: "more" },
        h(
          "summary",
          {},
          "What is wrong with it" +
            (one.flagged.length ? " (default: what it was rejected with)" : " (needed if an attempt that passed is incorrect)"),
        ),
        h(
          "div",
          { class: "choices inset" },
          categories.map((kind) =>
            h(
              "label",
              { title: safe(kind.description) },
              h("input", { type: "checkbox", name: "category", value: kind.id }),
              safe(kind.id),
              flagged.has(kind.id) ? " (flagged)" : "",
            ),
          ),
        ),
      ),
    ],
    [h("button", { class: "toggle primary" }, "Record")],
    (data) =>
      act("adjudicate", {
        run: one.run,
        attempt: one.attempt,
        truth: data.get("truth"),
        minutes: Number(data.get("minutes")),
        note: data.get("note"),
        categories: data.getAll("category"),
      }),
    done,
  );
  return h(
    "section",
    { class: "card tile review", "data-attempt": one.attempt },
    h(
      "div",
      { class: "row" },
      badge(one.passed ? "pass" : "fail", one.passed ? "PASS" : one.reason || "FAIL"),
      h("a", { href: `#/run/${one.run}/attempt/${encodeURIComponent(one.attempt)}`, style: { "font-weight": "620" } }, safe(one.task)),
      h("span", { class: "dim" }, `${safe(one.variant)} · repeat ${one.repeat} · ${safe(one.run_name)}`),
      h("span", { class: "spacer" }),
      one.adjudicated ? badge("none", one.adjudicated) : badge("accent", "open"),
    ),
    h(
      "ul",
      { style: { margin: "0", "padding-left": "18px" } },
      one.why.map((why) => h("li", {}, safe(why))),
    ),
    !ROOT.read_only && form,
  );
}
