/* Queue: questions for the operator and attempts to adjudicate. The server writes what `ab operator` and `ab adjudicate` write. */
PAGES.queue = {
  title: "Queue",
  open: async (parts, query, still) => {
    D = ROOT;
    document.title = "Queue · AgentBench";
    const holder = h("div", { class: "stack" });
    const path = "/api/queue" + (query.run ? "?run=" + encodeURIComponent(query.run) : "");
    let shown = "";
    const refresh = async () => {
      const answer = await getJson(path);
      const now = JSON.stringify(answer);
      if (!still() || now === shown || holder.querySelector("form[data-touched]")) return;
      shown = now;
      const done = () => {
        shown = "";
        holder.querySelectorAll("form").forEach((form) => delete form.dataset.touched);
        refresh().catch(() => {});
      };
      holder.replaceChildren(...queueView(answer, query.run, done));
    };
    show(holder);
    every(2000, () => refresh().catch(() => {}));
    await refresh();
  },
};

function queueView(answer, run, done) {
  const open = answer.reviews.filter((review) => !review.adjudicated);
  const closed = answer.reviews.filter((review) => review.adjudicated);
  const counts = `${plural(answer.questions.length, "question")} for the operator, ${plural(open.length, "attempt")} to adjudicate`;
  const cards = (list) => list.map((review) => reviewCard(review, answer.categories, done));
  return [
    h(
      "div",
      { class: "row" },
      h("h1", {}, "Queue"),
      h("span", { class: "sub" }, counts + (run ? " in this run" : "")),
      run && h("a", { href: "#/queue" }, "Show all runs"),
    ),
    ROOT.read_only && h("div", { class: "note info" }, "This view is read-only: start it without --read-only to answer and adjudicate."),
    h("h2", {}, "Waiting for an operator"),
    answer.questions.length
      ? answer.questions.map((question) => questionCard(question, done))
      : h("p", { class: "card empty" }, "No attempt waits for an operator."),
    h("h2", {}, "To adjudicate"),
    open.length
      ? cards(open)
      : h("p", { class: "card empty" }, answer.reviews.length ? "Every flagged attempt is adjudicated." : "No attempt needs review."),
    answer.left_out > 0 && h("p", { class: "sub" }, `${whole(answer.left_out)} more in other runs; open a run and choose “To adjudicate”.`),
    closed.length > 0 &&
      h(
        "details",
        { class: "more", id: "adjudicated" },
        h("summary", {}, `Adjudicated (${closed.length})`),
        h("div", { class: "stack" }, cards(closed)),
      ),
  ]
    .flat()
    .filter(Boolean);
}

const field = (label, control) => h("label", { class: "field-label" }, label, control);
/* A form whose buttons act; its message says what happened. */
function actionForm(children, buttons, send, done) {
  const message = h("div", { role: "status" });
  const submit = async (event) => {
    event.preventDefault();
    const all = [...form.querySelectorAll("button")];
    all.forEach((button) => (button.disabled = true));
    try {
      const answer = await send(new FormData(form), event.submitter ? event.submitter.value : "");
      message.replaceChildren(badge("pass", answer.done));
      say(answer.done);
      delete form.dataset.touched;
      setTimeout(done, 900);
    } catch (error) {
      message.replaceChildren(problem(error));
      all.forEach((button) => (button.disabled = false));
    }
  };
  const touch = () => (form.dataset.touched = "1");
  const form = h(
    "form",
    { class: "stack tight", oninput: touch, onsubmit: submit },
    children,
    h("div", { class: "row" }, buttons),
    message,
  );
  return form;
}

function questionCard(question, done) {
  const reason = h("input", { class: "field", name: "reason", required: true, maxlength: "2000", autocomplete: "off" });
  const form = actionForm(
    [field("Why? The reason is recorded in the attempt's log.", reason)],
    [
      h("button", { class: "toggle primary", value: "continue" }, "Let it continue"),
      h("button", { class: "toggle", value: "stop" }, "Stop the attempt"),
    ],
    (data, decision) => act("decide", { run: question.run, question: question.id, decision, reason: data.get("reason") }),
    done,
  );
  return h(
    "section",
    { class: "card tile question" },
    h(
      "div",
      { class: "row" },
      badge("error", "paused"),
      h("a", { href: `#/run/${question.run}/live/${encodeURIComponent(question.attempt_id)}`, class: "strong" }, safe(question.task_id)),
      h("span", { class: "dim" }, `${safe(question.variant)} · repeat ${question.repeat}`),
      h("span", { class: "spacer" }),
      h("span", { class: "sub" }, "without an answer it is stopped at " + when(question.deadline_at).slice(11)),
    ),
    h("div", { class: "why" }, h("strong", {}, safe(question.rule)), ": ", safe(question.detail)),
    question.call && h("pre", {}, safe(question.call)),
    !ROOT.read_only && form,
  );
}

/* The form of one adjudication: truth, category, minutes, note. */
function adjudicationForm(review, categories, done) {
  const flagged = new Set(review.flagged);
  const truth = (value, words) => h("label", {}, h("input", { type: "radio", name: "truth", value, required: true }), words);
  const minutes = h("input", {
    class: "field",
    name: "minutes",
    type: "number",
    min: "0",
    step: "0.5",
    placeholder: "needed",
    required: true,
  });
  const note = h("input", { class: "field", name: "note", maxlength: "10000", autocomplete: "off" });
  const choice = (kind) =>
    h(
      "label",
      { title: safe(kind.description) },
      h("input", { type: "checkbox", name: "category", value: kind.id }),
      safe(kind.id),
      flagged.has(kind.id) ? " (flagged)" : "",
    );
  const hint = review.kind === "pass" ? " (needed if it is incorrect)" : review.flagged.length ? " (default: what it was rejected for)" : "";
  return actionForm(
    [
      h(
        "div",
        { class: "choices", role: "radiogroup", "aria-label": "Is the patch correct?" },
        h("strong", {}, "Is the patch correct?"),
        truth("correct", "correct"),
        truth("incorrect", "incorrect"),
        truth("undecidable", "cannot be decided"),
      ),
      h("div", { class: "form" }, field("Minutes of review", minutes), field("Note", note)),
      h(
        "details",
        { class: "more" },
        h("summary", {}, "Category: what is wrong with it" + hint),
        h("div", { class: "choices inset" }, categories.map(choice)),
      ),
    ],
    [h("button", { class: "toggle primary" }, "Record"), h("span", { class: "sub" }, "Does not change the verdict.")],
    (data) =>
      act("adjudicate", {
        run: review.run,
        attempt: review.attempt,
        truth: data.get("truth"),
        minutes: Number(data.get("minutes")),
        note: data.get("note"),
        categories: data.getAll("category"),
      }),
    done,
  );
}
/* The patch, loaded when it is opened. */
function patchDetails(review) {
  const holder = h("div", { class: "inset" });
  const load = async () => {
    if (holder.firstChild) return;
    holder.replaceChildren(h("p", { class: "sub" }, "Loading…"));
    try {
      const detail = await getJson(`/api/run/${review.run}/attempt/${encodeURIComponent(review.attempt)}`);
      holder.replaceChildren(diffTab(detail.diff, detail.record));
    } catch (error) {
      holder.replaceChildren(problem(error));
    }
  };
  return h("details", { class: "more", ontoggle: load }, h("summary", {}, "The patch"), holder);
}
function reviewCard(review, categories, done) {
  const address = `#/run/${review.run}/attempt/${encodeURIComponent(review.attempt)}`;
  return h(
    "section",
    { class: "card tile review", "data-attempt": review.attempt },
    h(
      "div",
      { class: "row" },
      badge(
        review.kind,
        review.kind === "pass" ? "PASS" : `${review.kind === "invalid" ? "INVALID " : ""}${review.reason || "FAIL"}`,
      ),
      h("a", { href: address, class: "strong" }, safe(review.task)),
      h("span", { class: "dim" }, `${safe(review.variant)} · repeat ${review.repeat} · ${safe(review.run_name)}`),
      h("span", { class: "spacer" }),
      review.adjudicated ? badge("none", review.adjudicated) : badge("accent", "open"),
    ),
    h(
      "ul",
      {},
      review.why.map((why) => h("li", {}, safe(why))),
    ),
    patchDetails(review),
    !ROOT.read_only && adjudicationForm(review, categories, done),
  );
}

/* On the page of an attempt: the same form, below the verdict. */
function adjudicateHere(index) {
  if (ROOT.read_only) return null;
  const row = D.attempts[index];
  const holder = h("div", {});
  const review = { run: D.keys[col(row, "run")], attempt: col(row, "id"), passed: kindOf(row) === "pass", flagged: [] };
  const judged = col(row, "truth");
  const open = async () => {
    if (holder.firstChild) return;
    const done = () => {
      scopes.clear();
      route();
    };
    try {
      const answer = await getJson("/api/categories");
      holder.replaceChildren(adjudicationForm(review, answer.categories, done));
    } catch (error) {
      holder.replaceChildren(problem(error));
    }
  };
  const title = judged ? `Adjudicated: ${judged}. Adjudicate again` : "Adjudicate: is this patch correct?";
  return h(
    "details",
    { id: "adjudicate", class: "noprint", ontoggle: open },
    h("summary", {}, title),
    h("div", { class: "inset" }, holder),
  );
}
