// What an opened row shows. Fields that are empty are left out of the data.

const percent = (value) => (typeof value === "number" ? value.toFixed(2) : "–");

function block(title, ...children) {
  return [element("h3", {}, title), ...children];
}

function text(value, kind) {
  return element("div", { class: kind || "text", dir: "auto" }, value);
}

function box(head, ...children) {
  const labels = head.filter(Boolean).map((part) => (typeof part === "string" ? element("span", {}, part) : part));
  return element("div", { class: "box" }, element("div", { class: "head" }, ...labels), ...children);
}

function folded(title, value) {
  const shown = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return element("details", {}, element("summary", {}, title), element("pre", {}, shown));
}

const ofKind = (row, kind) =>
  Object.values(row.results || {}).find((result) => result.evidence && result.evidence.kind === kind);

// The answer with the claims that the judge found unsupported, where they stand in it word for word.
function marked(answer, claims) {
  const spans = [];
  const lower = answer.toLowerCase();
  const missing = [];
  for (const claim of claims) {
    const start = lower.length === answer.length ? lower.indexOf(claim.trim().toLowerCase()) : answer.indexOf(claim);
    if (start < 0 || !claim.trim()) missing.push(claim);
    else spans.push([start, start + claim.trim().length]);
  }
  const shown = element("div", { class: "text", dir: "auto" });
  let at = 0;
  for (const [start, end] of spans.sort((one, other) => one[0] - other[0])) {
    if (end <= at) continue;
    shown.append(answer.slice(at, Math.max(at, start)));
    shown.append(element("mark", { title: "unsupported" }, answer.slice(Math.max(at, start), end)));
    at = end;
  }
  shown.append(answer.slice(at));
  return [shown, missing];
}

function answerOf(row) {
  const adherence = ofKind(row, "context_adherence");
  const claims = (adherence && adherence.evidence.unsupported) || [];
  if (!row.sample.answer) return block("Answer", element("p", { class: "muted" }, "none"));
  const [shown, missing] = marked(row.sample.answer, claims);
  const parts = block("Answer", element("div", { class: "box" }, shown));
  if (missing.length) {
    const items = missing.map((claim) => element("li", { dir: "auto", class: "text" }, element("mark", {}, claim)));
    parts.push(element("p", { class: "muted" }, "Unsupported, in the judge's words:"), element("ul", {}, ...items));
  }
  return parts;
}

function verdictOf(chunk) {
  if (!chunk) return [];
  const verdict =
    chunk.useful === undefined
      ? element("span", {}, "not judged")
      : element("span", { class: chunk.useful ? "yes" : "no" }, chunk.useful ? "✓ useful" : "✗ not useful");
  return [
    verdict,
    "P@" + chunk.rank + " " + percent(chunk.precision),
    chunk.probability !== undefined && "p " + percent(chunk.probability),
    chunk.grade !== undefined && "grade " + chunk.grade,
    chunk.duplicate_of && "same as " + chunk.duplicate_of,
  ];
}

function contextsOf(title, contexts, chunks) {
  if (!contexts || !contexts.length) return block(title, element("p", { class: "muted" }, "none"));
  const boxes = contexts.map((context, place) => {
    const chunk = chunks && chunks[place];
    const labels = ["#" + (place + 1), ...verdictOf(chunk), context.id && "id " + context.id];
    if (context.score !== undefined) labels.push("score " + context.score.toPrecision(4));
    const reason = chunk && chunk.reason ? text(chunk.reason, "muted text") : null;
    const metadata = context.metadata ? folded("metadata", context.metadata) : null;
    return box(labels, element("div", { class: "text clip", dir: "auto", tabindex: "0" }, context.text), reason, metadata);
  });
  return block(title, ...boxes);
}

function pollsOf(evidence) {
  const counts = ["yes", "no", "abstained", "missing"].filter((name) => evidence[name]);
  const parts = [element("p", {}, counts.map((name) => evidence[name] + " " + name).join(", ") + " of " + evidence.asked + " asked")];
  if (evidence.repeatability) {
    const [low, high] = evidence.repeatability.map(percent);
    parts.push(element("p", { class: "muted" }, "Repeatability of this judge " + low + " – " + high + "; not the probability that it is right."));
  }
  for (const poll of evidence.polls || []) {
    const verdict = element("span", { class: poll.verdict === "yes" ? "yes" : "no" }, poll.verdict);
    const labelled = evidence.ledger && evidence.ledger.claims && evidence.ledger.claims[evidence.polls.indexOf(poll)];
    const claims = labelled ? labelled.map(claimOf) : (poll.unsupported || []).map((claim) => element("li", { class: "text", dir: "auto" }, claim));
    parts.push(box([verdict], text(poll.reason || ""), claims.length ? element("ul", {}, ...claims) : null));
  }
  if (evidence.dissent) parts.push(element("h4", {}, "Strongest dissent"), text(evidence.dissent));
  if (evidence.cause) parts.push(element("p", {}, "Likely cause (a hypothesis): " + evidence.cause.replaceAll("_", " ") + ". " + (evidence.remedy || "")));
  if (evidence.sentences) parts.push(...sentencesOf(evidence.sentences));
  return parts;
}

// Conversations: what each claim rests on, and what each call brought.

const RESTS_ON = {
  evidence: "evidence of this turn",
  earlier: "evidence of an earlier turn",
  user: "the user's words",
  own: "the assistant's own words",
  none: "nothing",
};

function claimOf(claim) {
  const kind = { evidence: "yes", earlier: "yes", user: "muted" }[claim.needs] || "no";
  return element("li", { class: "text", dir: "auto" }, (claim.claim || "") + " — ", element("span", { class: kind }, RESTS_ON[claim.needs]));
}

function groundsOf(row) {
  const adherence = ofKind(row, "context_adherence");
  const grounds = adherence && adherence.evidence.ledger;
  if (!grounds) return [];
  const { yes, no, polls } = adherence.evidence;
  const side = yes > no ? "yes" : "no"; // a poll of the majority speaks for all
  const claims = (grounds.claims || []).find((own, at) => own.length && polls[at].verdict === side);
  const shares = Object.entries(grounds.shares || {}).filter(([, share]) => share);
  const lines = [
    shares.length && "Claims rest on: " + shares.map(([needs, share]) => Math.round(100 * share) + " % " + RESTS_ON[needs]).join(", ") + ".",
    grounds.kept && "Of the evidence of earlier turns " + grounds.kept[0] + " of " + grounds.kept[1] + " texts were still shown.",
    grounds.note,
  ];
  return [claims ? element("ul", {}, ...claims.map(claimOf)) : null, element("p", { class: "muted" }, lines.filter(Boolean).join(" "))];
}

function callsOf(row) {
  const { ledger } = row.sample;
  const table = (ofKind(row, "context_utilization") || { evidence: {} }).evidence.ledger || { calls: [] };
  const gains = (ofKind(row, "retrieval_accuracy") || { evidence: {} }).evidence.ledger || [];
  const boxes = (ledger.calls || []).map((call, place) => {
    const verdict = (table.calls.find((line) => line.call === place) || {}).verdict;
    if (call.turn !== ledger.turn && !verdict) return null;
    const gain = gains.find((one) => one.call === place);
    const items = call.items || [];
    const labels = [
      verdict ? element("span", { class: verdict === "useful" ? "yes" : "no" }, (verdict === "useful" ? "✓ " : "✗ ") + verdict) : call.kind,
      call.turn !== ledger.turn && "turn " + call.turn, "step " + call.step, call.name, call.agent && "agent " + call.agent,
      call.turn === ledger.turn && items.length + (items.length === 1 ? " text" : " texts") + (call.shown ? ", " + call.shown.length + " shown" : ""),
      gain && "facts: alone " + percent(gain.alone) + ", gain " + percent(gain.gain) + ", together " + percent(gain.total),
    ];
    const texts = items.map((item) => element("li", { class: "text", dir: "auto" }, item.text));
    const shown = texts.length ? element("details", {}, element("summary", {}, "what it brought"), element("ul", {}, ...texts)) : null;
    return box(labels, call.query ? text(call.query, "muted text") : null, call.error ? text("failed: " + call.error) : null, shown);
  });
  const facts = [
    table.wasted !== undefined && "Calls that brought nothing useful: " + Math.round(100 * table.wasted) + " %.",
    table.repeats && "Texts brought again: " + Math.round(100 * table.repeats) + " %.",
    table.first_useful && "Useful calls: " + table.first_useful + " to " + table.last_useful + " of " + table.calls.length + ".",
    table.call_ap !== undefined && "Average precision inside calls " + percent(table.call_ap) + ".",
    table.order_range && "Over other orders of parallel calls the score is " + table.order_range.map(percent).join(" to ") + ".",
  ];
  return [...boxes, element("p", { class: "muted" }, facts.filter(Boolean).join(" "))];
}

const evidenceOf = (row) => [...groundsOf(row), ...callsOf(row)].filter(Boolean);

function turnOf(place, current) {
  const entry = index[place];
  const scores = metrics.map((name, at) => typeof entry[3][at] === "number" && name.replaceAll("_", " ") + " " + entry[3][at].toFixed(2));
  const title = "Turn " + entry[8] + ": " + entry[2] + " (" + (scores.filter(Boolean).join(", ") || "no score") + ")";
  const made = element("details", { class: "box" }, element("summary", { class: "text", dir: "auto" }, title));
  const fill = () => {
    const row = detail(place);
    made.append(text("User: " + (row.sample.question || "none")), text("Answer: " + (row.sample.answer || "none")), ...evidenceOf(row));
  };
  if (current) fill();
  else made.addEventListener("toggle", fill, { once: true });
  made.open = current;
  return made;
}

function conversationOf(place) {
  const [name, own] = index[place].slice(7);
  if (!own) return [];
  const all = [...index.keys()].filter((other) => other === place || (name && index[other][7] === name));
  const turns = all.sort((one, other) => index[one][8] - index[other][8] || one - other);
  if (turns.length < 2) return block("Evidence by call", ...evidenceOf(detail(place)));
  return block("Conversation " + name, ...turns.map((other) => turnOf(other, other === place)));
}

function sentencesOf(sentences) {
  const boxes = sentences.map((one) => {
    const lost = [...(one.uncovered || []), ...(one.numbers || [])];
    const note = lost.length ? "not found: " + lost.join(", ") : "";
    const best = one.evidence ? text("best match, in #" + one.rank + ": " + one.evidence, "muted text") : null;
    return box([Math.round(100 * one.coverage) + " % of its terms found", note], text(one.sentence), best);
  });
  return [element("h4", {}, "Sentence by sentence"), ...boxes];
}

function matrixOf(evidence) {
  const names = evidence.context_ids.map((id, place) => element("th", { scope: "col", title: id || "" }, "#" + (place + 1)));
  const rows = evidence.facts.map((fact, place) => {
    const cells = (evidence.cells[place] || []).map((cell) => {
      const made = element("td", { class: "cell" }, percent(cell.probability));
      if (cell.probability !== undefined) {
        made.style.backgroundColor = "rgba(var(--heat), " + (0.4 * cell.probability).toFixed(2) + ")";
        if (cell.probability > 0.5) made.classList.add("covered");
      }
      made.title = [cell.mode, cell.mass !== undefined && "mass " + percent(cell.mass), cell.reason].filter(Boolean).join("; ");
      return made;
    });
    const weight = fact.weight !== 1 ? " (weight " + fact.weight + ")" : "";
    return element("tr", {}, element("th", { scope: "row", class: "fact text", dir: "auto" }, fact.text + weight), ...cells);
  });
  const table = element(
    "table", { class: "heat" },
    element("thead", {}, element("tr", {}, element("th", {}, "fact \\ " + evidence.evaluated), ...names)),
    element("tbody", {}, ...rows),
  );
  const lines = [
    "Facts from " + (evidence.facts_from === "sample" ? "the sample" : "the reference") + "; covered above 0.5, in bold.",
    evidence.soft !== undefined && "Soft mean " + percent(evidence.soft) + ".",
    evidence.contexts_value !== undefined && "Over what reached the generator: " + percent(evidence.contexts_value) + ".",
    evidence.control !== undefined && "\"Found\" in a foreign context: " + percent(evidence.control) + ".",
  ];
  return [element("div", { class: "scroll", tabindex: "0" }, table), element("p", { class: "muted" }, lines.filter(Boolean).join(" "))];
}

function ratingsOf(evidence, sample) {
  return evidence.ratings.map((rating, place) =>
    box(
      ["reference " + (place + 1), percent(rating.score), rating.band, place === evidence.best && "best match"],
      text((sample.reference || [])[place] || ""),
      rating.reason ? text(rating.reason, "muted text") : null,
    ),
  );
}

function fieldsOf(evidence) {
  const items = Object.entries(evidence).filter(([name]) => name !== "kind").map(([name, value]) => {
    const shown = typeof value === "string" ? value : JSON.stringify(value, null, 1);
    return element("div", {}, element("dt", {}, name.replaceAll("_", " ")), element("dd", { class: "text", dir: "auto" }, shown));
  });
  return items.length ? [element("dl", { class: "facts" }, ...items)] : [];
}

const SHOWN = { context_adherence: pollsOf, context_recall: ratingsOf, retrieval_accuracy: matrixOf, context_utilization: () => [] };

function costOf(usage) {
  const price = usage.cost === undefined ? "price unknown" : "$" + usage.cost.toFixed(4);
  const tokens = (usage.prompt_tokens || 0) + " + " + (usage.completion_tokens || 0) + " tokens";
  const rest = ["stored", "repairs", "faults"].filter((name) => usage[name]).map((name) => usage[name] + " " + name);
  return [usage.calls + (usage.calls === 1 ? " call" : " calls"), tokens, price, ...rest].join(", ");
}

// People correct the judge: what they say of its verdicts stays in this browser, until it is downloaded as labels.

const KEPT = "ragmetrics " + columns.run;
let said = {};
try {
  said = JSON.parse(localStorage.getItem(KEPT)) || {};
} catch {
  // Where the browser keeps nothing, it is kept as long as the page is open.
}

function labelsOf(name) {
  const found = Object.entries(said[name] || {}).filter(([, own]) => own.word !== "unsure");
  return found.map(([id, own]) => ({ id, label: Number(own.yes === (own.word === "agree")) }));
}

function download(name, lines) {
  const link = element("a", { download: name, href: URL.createObjectURL(new Blob([lines], { type: "application/jsonl" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function offer() {
  const place = document.getElementById("labels");
  const buttons = metrics.filter((name) => labelsOf(name).length).map((name) => {
    const count = labelsOf(name).length;
    const button = element("button", { type: "button" }, "Download " + count + (count === 1 ? " label of " : " labels of ") + name);
    button.addEventListener("click", () => download("labels." + name.replace(/\W+/g, "_") + ".jsonl", labelsOf(name).map((own) => JSON.stringify(own) + "\n").join("")));
    return button;
  });
  place.replaceChildren(...buttons);
}

function peopleOf(name, result, sample) {
  if (!sample.id || result.value === undefined) return [];
  const yes = result.value >= 0.5;
  const kept = (said[name] || {})[sample.id];
  const choices = ["agree", "disagree", "unsure"].map((word) => {
    const input = element("input", { type: "radio", name: name + " of " + sample.id, value: word });
    input.checked = Boolean(kept) && kept.word === word;
    input.addEventListener("change", () => {
      said[name] = { ...said[name], [sample.id]: { word, yes } };
      try {
        localStorage.setItem(KEPT, JSON.stringify(said));
      } catch {
        // As above.
      }
      offer();
    });
    return element("label", {}, input, " " + word);
  });
  return [element("fieldset", { class: "people" }, element("legend", {}, "The judge says " + (yes ? "yes" : "no") + " (" + percent(result.value) + "). And you?"), ...choices)];
}

function resultOf(name, result, sample) {
  const value = result.value === undefined ? result.status : result.value.toFixed(3);
  const parts = [...block(name + ": " + value), text(result.reason || ""), ...peopleOf(name, result, sample)];
  const evidence = result.evidence || {};
  if (result.error) parts.push(box([result.error.type], text(result.error.message), result.error.raw ? folded("raw reply", result.error.raw) : null));
  if (evidence.formula) parts.push(element("p", { class: "muted" }, evidence.formula));
  if (evidence.lift !== undefined) parts.push(element("p", { class: "muted" }, "Random order of the same verdicts: " + percent(evidence.random_order) + "; lift " + percent(evidence.lift) + "."));
  parts.push(...(SHOWN[evidence.kind] || fieldsOf)(evidence, sample));
  const source = [result.judge && "Judge " + result.judge, result.usage && costOf(result.usage)].filter(Boolean).join("; ");
  parts.push(element("p", { class: "muted" }, source));
  parts.push(folded("All fields of this result", result));
  return parts;
}

function provenanceOf(sample) {
  const rest = { ...sample };
  for (const name of ["question", "answer", "contexts", "reference", "retrieved"]) delete rest[name];
  const parts = [];
  const capture = sample.capture || {};
  if (capture.provenance) {
    const items = Object.entries(capture.provenance).map(([field, from]) =>
      element("div", {}, element("dt", {}, field), element("dd", { class: "text", dir: "auto" }, from)));
    parts.push(...block("Where each field came from", element("dl", { class: "facts" }, ...items)));
  }
  for (const warning of capture.warnings || []) parts.push(element("p", { class: "banner" }, warning));
  if (Object.keys(rest).length) parts.push(folded("Everything else known of this sample", rest));
  return parts;
}

function opened(row, columns) {
  const sample = row.sample;
  if (!sample) return block(lines.has(row.index) ? "Not a sample" : "Left out", text(row.problem || ""));
  const utilization = ofKind(row, "context_utilization");
  const chunks = utilization && utilization.evidence.chunks;
  const place = index.findIndex((entry) => entry[0] === row.index);
  const code = index[place][4];
  const parts = [];
  if (code) parts.push(element("p", { class: "banner" }, "Hypothesis: " + titles[code] + ". " + columns.remedies[code]));
  if (sample.error) parts.push(element("p", { class: "banner text" }, "The application's run failed: " + sample.error));
  parts.push(...conversationOf(place));
  const history = (sample.history || []).map((turn) => text(turn.role + ": " + turn.content, "muted text"));
  const earlier = history.length > 4 ? [element("details", {}, element("summary", {}, "What was said before (" + history.length + ")"), ...history)] : history;
  parts.push(...block("Question", ...earlier, text(sample.question || "none")));
  if (sample.standalone_question) parts.push(text("Rewritten for retrieval: " + sample.standalone_question, "muted text"));
  parts.push(...answerOf(row));
  if (sample.reference) parts.push(...block("Reference", ...sample.reference.map((one) => element("div", { class: "box" }, text(one)))));
  parts.push(...contextsOf("Contexts", sample.contexts, chunks));
  if (sample.retrieved) parts.push(...contextsOf("Retrieved before reranking or cutting", sample.retrieved, null));
  for (const [name, result] of Object.entries(row.results || {})) parts.push(...resultOf(name, result, sample));
  parts.push(...provenanceOf(sample));
  return parts;
}

offer();
start();
