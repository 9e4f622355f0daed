// What an opened row shows: each thing once, every number with its word. Fields that are empty are left out of the data.

const percent = (value) => (typeof value === "number" ? value.toFixed(2) : "–");

function block(title, ...children) {
  return [element("h3", {}, title), ...children];
}

// A text of a sample or a judge; a long one is folded.
function text(value, kind, most = 1500) {
  const shown = element("div", { class: kind || "text", dir: "auto" }, value);
  return value && value.length > most ? element("div", {}, ...folding(shown, value.length)) : shown;
}

function box(head, ...children) {
  const labels = head.filter(Boolean).map((part) => (typeof part === "string" ? element("span", {}, part) : part));
  return element("div", { class: "box" }, element("div", { class: "head" }, ...labels), ...children);
}

// Children are made when they are asked for.
function folded(title, make) {
  const made = element("details", {}, element("summary", {}, title));
  made.addEventListener("toggle", () => made.append(...make()), { once: true });
  return made;
}

const raw = (value) => element("pre", { tabindex: "0" }, typeof value === "string" ? value : JSON.stringify(value, null, 2));

const facts = (entries) =>
  element("dl", { class: "facts" }, ...entries.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, text(value === "" ? "(empty)" : value === null ? "(none)" : typeof value === "string" ? value : JSON.stringify(value), "text", 500)))));

const ofKind = (row, kind) =>
  Object.values(row.results || {}).find((result) => result.evidence && result.evidence.kind === kind);

// The texts, beside the answer -----------------------------------------------------------------------------

function verdictOf(chunk) {
  if (!chunk) return [];
  const { useful, probability } = chunk;
  const words = (useful ? "useful" : "not useful") + (probability === undefined ? "" : ", score " + percent(probability));
  const verdict = useful === undefined ? element("span", {}, "not judged") : element("span", { class: useful ? "yes" : "no" }, (useful ? "✓ " : "✗ ") + words);
  return [
    verdict,
    chunk.precision !== undefined && "share useful so far " + percent(chunk.precision),
    chunk.duplicate_of && "same as #" + chunk.duplicate_of,
  ];
}

// What was measured of a text: the answer without it, what is new in that marked.
function measuredOf(use, told, place) {
  const measured = use && use.passages && use.passages[place];
  if (!measured) return {};
  const effect = measured.effect === undefined ? "" : ", changes " + percent(measured.effect) + " of the words";
  const kind = { used: "yes", redundant: "yes", "not used": "no" }[measured.verdict] || "muted";
  const label = element("span", { class: kind }, "measured: " + measured.verdict + effect);
  const sentences = told && told.passages[place];
  const marked = (sentences || []).flatMap(([words, isNew]) => [isNew ? element("mark", {}, words) : words, " "]);
  const without = sentences && folded("the answer without it", () => [element("div", { class: "text", dir: "auto" }, ...(marked.length ? marked : ["(empty)"]))]);
  return { label, parts: [measured.why ? text(measured.why, "muted text") : null, without].filter(Boolean) };
}

function textOf(context, place, chunk, beside, measured = {}) {
  const shown = text(context.text, "text", 500);
  if (beside) beside.shown[place] = shown.querySelector(".text") || shown;
  const labels = ["#" + (place + 1), ...verdictOf(chunk), measured.label, context.id && "id " + context.id];
  if (context.score !== undefined) labels.push("retriever's score " + context.score.toPrecision(4));
  const reason = chunk && chunk.reason ? text(chunk.reason, "muted text") : null;
  const metadata = context.metadata ? folded("metadata", () => [facts(Object.entries(context.metadata))]) : null;
  return box(labels, shown, reason, ...(measured.parts || []), metadata);
}

function textsOf(row, beside, told) {
  const contexts = row.sample.contexts || [];
  if (!contexts.length) return block("Retrieved texts", element("p", { class: "muted" }, "none"));
  const utilization = ofKind(row, "context_utilization");
  const chunks = (utilization && utilization.evidence.chunks) || [];
  const boxes = contexts.map((context, place) => textOf(context, place, chunks[place], beside, told === undefined ? {} : measuredOf(row.sample.use, told, place)));
  const rest = boxes.splice(6);
  if (rest.length) boxes.push(element("details", {}, element("summary", {}, counted(rest.length, "more text")), ...rest));
  return block(counted(contexts.length, "retrieved text"), ...boxes);
}

// What the retriever returned where less reached the generator; texts that stand above are named only.
function retrievedOf({ contexts, retrieved }) {
  if (!retrieved) return [];
  const above = (contexts || []).map((context) => context.text);
  const shown = () => retrieved.map((context, place) => {
    const same = above.indexOf(context.text);
    if (same < 0) return textOf(context, place);
    return element("p", { class: "muted" }, "#" + (place + 1) + ": text #" + (same + 1) + " above" + (context.score === undefined ? "" : ", retriever's score " + context.score.toPrecision(4)));
  });
  return [folded(counted(retrieved.length, "text") + " returned by the retriever, before reranking or cutting", shown)];
}

// The scores -----------------------------------------------------------------------------------------------

function pollsOf(evidence, sample, result) {
  const counts = ["yes", "no", "abstained", "missing"].filter((name) => evidence[name]);
  const parts = evidence.asked === 1 ? [] : [element("p", {}, counts.map((name) => evidence[name] + " " + name).join(", ") + " of " + counted(evidence.asked, "poll"))];
  if (evidence.repeatability) {
    const [low, high] = evidence.repeatability.map(percent);
    parts.push(element("p", { class: "muted" }, "Asked again, this judge would say yes in a share of " + low + " to " + high + ": its repeatability, not the probability that it is right."));
  }
  if (evidence.cause) parts.push(element("p", {}, "Likely cause, a hypothesis: " + evidence.cause.replaceAll("_", " ") + ". " + (evidence.remedy || "")));
  const told = new Set([result.reason]);
  const polls = (evidence.polls || []).flatMap((poll) => {
    const fresh = poll.reason && !told.has(poll.reason);
    told.add(poll.reason);
    const dissent = evidence.dissent && poll.reason === evidence.dissent;
    const claims = (poll.unsupported || []).filter((claim) => !(evidence.unsupported || []).includes(claim));
    if (!fresh && !claims.length) return [];
    const verdict = element("span", { class: poll.verdict === "yes" ? "yes" : "no" }, poll.verdict);
    const items = claims.map((claim) => element("li", {}, text(claim)));
    return [box([verdict, dissent && "strongest dissent"], fresh ? text(poll.reason) : null, items.length ? element("ul", {}, ...items) : null)];
  });
  if (polls.length) parts.push(folded("What else the polls say", () => polls));
  if (evidence.dissent && !told.has(evidence.dissent)) parts.push(element("h4", {}, "Strongest dissent"), text(evidence.dissent));
  return parts;
}

function rankingOf(evidence) {
  const { random_order: random, lift, noise_share: noise } = evidence;
  const lines = [
    noise !== undefined && Math.round(100 * noise) + " % of the texts are not useful.",
    lift !== undefined && (evidence.useful || 0) > 0 && evidence.chunks.length > 1 && "The same verdicts in random order would score " + percent(random) + "; this order " + (lift < 0 ? "loses " : "gains ") + percent(Math.abs(lift)) + ".",
  ];
  return [element("p", { class: "muted" }, lines.filter(Boolean).join(" ")), evidence.formula ? folded("Formula", () => [text(evidence.formula)]) : null];
}

function matrixOf(evidence) {
  const names = evidence.context_ids.map((id, place) => element("th", { scope: "col", title: id || "" }, "#" + (place + 1)));
  const placeOf = (cells) => {
    const chances = cells.map((cell) => cell.probability || 0);
    const best = Math.max(0, ...chances);
    return best > columns.yes_above ? "in #" + (chances.indexOf(best) + 1) : "in none";
  };
  const rows = evidence.facts.map((fact, place) => {
    const cells = (evidence.cells[place] || []).map((cell) => {
      const made = element("td", { class: "cell" }, percent(cell.probability));
      if (cell.probability !== undefined) {
        made.style.backgroundColor = "rgba(var(--heat), " + (0.4 * cell.probability).toFixed(2) + ")";
        if (cell.probability > columns.yes_above) made.classList.add("covered");
      }
      made.title = [cell.mode, cell.mass !== undefined && "mass " + percent(cell.mass), cell.reason].filter(Boolean).join("; ");
      return made;
    });
    const weight = fact.weight !== 1 ? " (weight " + fact.weight + ")" : "";
    return element("tr", {}, element("th", { scope: "row", class: "fact" }, text(fact.text + weight, "text", 500)), element("td", {}, placeOf(evidence.cells[place] || [])), ...cells);
  });
  const table = element(
    "table", { class: "heat" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "fact"), element("th", { scope: "col" }, "found"), ...names)),
    element("tbody", {}, ...rows),
  );
  const lines = [
    "Facts from " + (evidence.facts_from === "sample" ? "the row" : "the reference") + "; per text of the " + evidence.evaluated + " the score that it holds the fact, in bold above " + columns.yes_above + ".",
    evidence.contexts_value !== undefined && "Over what reached the generator the score is " + percent(evidence.contexts_value) + ".",
  ];
  return [element("div", { class: "scroll", tabindex: "0" }, table), element("p", { class: "muted" }, lines.filter(Boolean).join(" "))];
}

function ratingsOf(evidence, sample, result) {
  const { ratings } = evidence;
  const band = evidence.band && text("Band of the rubric: " + evidence.band, "muted text");
  if (ratings.length === 1) return [band];
  return [band, ...ratings.map((rating, place) => {
    const reason = rating.reason && rating.reason !== result.reason ? text(rating.reason, "muted text") : null;
    return box(["reference " + (place + 1), percent(rating.score), place === evidence.best && "best match"], reason);
  })];
}

// Each sentence of the answer with what it cites, and what is wrong with it.
function citationsOf(evidence) {
  const nameOf = (citation) => "#" + citation.rank + (citation.irrelevant ? " (irrelevant)" : "");
  const verdictOf = (statement) => {
    if (!statement.claims) return "makes no claim";
    return statement.supported ? "supported" : statement.fault;
  };
  const rows = evidence.statements.map((statement) => {
    const cited = [...(statement.citations || []).map(nameOf), ...(statement.dangling || []).map((label) => label + " (dangling)")];
    return element("tr", {}, element("th", { scope: "row", class: "fact" }, text(statement.text, "text", 500)), element("td", {}, cited.join(", ") || "nothing"), element("td", {}, verdictOf(statement)));
  });
  const heads = ["sentence", "cites", "verdict"].map((name) => element("th", { scope: "col" }, name));
  const table = element("table", { class: "heat" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  const lines = [
    "Recall " + percent(evidence.recall) + ": " + evidence.supported + " of " + counted(evidence.claims, "sentence") + " with a claim supported.",
    evidence.precision !== undefined && "Precision " + percent(evidence.precision) + ": " + evidence.precise + " of " + counted(evidence.citations, "citation") + " precise.",
  ];
  return [element("div", { class: "scroll", tabindex: "0" }, table), element("p", { class: "muted" }, lines.filter(Boolean).join(" ")), folded("Formula", () => [text(evidence.formula)])];
}

function fieldsOf(evidence) {
  const entries = Object.entries(evidence).filter(([name]) => name !== "kind").map(([name, value]) => [name.replaceAll("_", " "), value]);
  return entries.length ? [facts(entries)] : [];
}

const SHOWN = { context_adherence: pollsOf, context_recall: ratingsOf, retrieval_accuracy: matrixOf, context_utilization: rankingOf, citation_quality: citationsOf };

function resultOf(name, result, row) {
  const { sample } = row;
  const value = result.value === undefined ? result.status : percent(result.value);
  const made = element("section", { class: "card" }, element("h4", {}, name + ": " + value), text(result.reason || ""), ...peopleOf(name, result, row));
  const { error, evidence } = result;
  if (error) made.append(box([error.type], error.message === result.reason ? null : text(error.message), error.raw ? folded("raw reply", () => [raw(error.raw)]) : null));
  if (evidence) made.append(...(SHOWN[evidence.kind] || fieldsOf)(evidence, sample, result).filter(Boolean));
  if (evidence && evidence.cells) made.classList.add("whole");
  return made;
}

// Who judged and what it cost, of all results together.
function costOf(results) {
  const usages = results.map((result) => result.usage || {});
  const sum = (name) => usages.reduce((all, usage) => all + (usage[name] || 0), 0);
  const judges = [...new Set(results.map((result) => result.judge).filter(Boolean))];
  const cost = usages.every((usage) => usage.cost !== undefined) ? "$" + sum("cost").toFixed(4) : "price unknown";
  const tokens = sum("prompt_tokens").toLocaleString("en") + " tokens sent, " + sum("completion_tokens").toLocaleString("en") + " received";
  const rest = [["stored", "taken from the store"], ["repairs", "asked for again"], ["faults", "repeated after faults"]].filter(([name]) => sum(name)).map(([name, words]) => sum(name) + " " + words);
  const calls = sum("calls") + sum("stored") ? [counted(sum("calls"), "call"), tokens, cost, ...rest].join(", ") : "no calls";
  return element("p", { class: "muted" }, (judges.length ? "Judged by " + judges.join(", ") + ": " + calls : calls[0].toUpperCase() + calls.slice(1)) + ".");
}

// Conversations: what each claim rests on, and what each call brought ---------------------------------------

const RESTS_ON = {
  evidence: "evidence of this turn",
  earlier: "evidence of an earlier turn",
  user: "the user's words",
  own: "the assistant's own words",
  none: "nothing",
};

function claimOf(claim) {
  const kind = { evidence: "yes", earlier: "yes", user: "muted" }[claim.needs] || "no";
  return element("li", { class: "text", dir: "auto" }, claim.claim || "", " — ", element("span", { class: kind }, RESTS_ON[claim.needs]));
}

function groundsOf(row) {
  const adherence = ofKind(row, "context_adherence");
  const grounds = adherence && adherence.evidence.ledger;
  if (!grounds) return [];
  const { claims } = recorded(index.findIndex((entry) => entry[0] === row.index));
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
  ];
  return [...boxes, element("p", { class: "muted" }, facts.filter(Boolean).join(" "))];
}

function turnOf(place) {
  const entry = index[place];
  const scores = metrics.map((name, at) => typeof entry[3][at] === "number" && name.replaceAll("_", " ") + " " + entry[3][at].toFixed(2));
  const title = "Turn " + entry[8] + ": " + entry[2] + " (" + (scores.filter(Boolean).join(", ") || "no score") + ")";
  const made = folded(title, () => {
    const row = detail(place);
    if (!row.sample) return [text(row.problem)];
    return [text("User: " + (row.sample.question || "none")), text("Answer: " + (row.sample.answer || "none")), ...groundsOf(row), ...callsOf(row)].filter(Boolean);
  });
  made.classList.add("box", "text");
  return made;
}

// The other turns, folded; this one stands below.
function conversationOf(place) {
  const [name, own] = index[place].slice(7);
  const all = own && name ? [...index.keys()].filter((other) => index[other][7] === name) : [];
  const turns = all.sort((one, other) => index[one][8] - index[other][8] || one - other);
  if (turns.length < 2) return [];
  const shown = () => turns.map((other) => (other === place ? element("p", { class: "box" }, "Turn " + own + ": this row") : turnOf(other)));
  return [folded("Conversation " + name + ": turn " + own + " of " + turns.length, shown)];
}

// The row --------------------------------------------------------------------------------------------------

// A short question stands in the row above.
function questionOf({ question, history, standalone_question: rewritten }, title) {
  const earlier = () => history.map((turn) => text(turn.role + ": " + turn.content, "muted text"));
  return [
    ...(history ? [folded("What was said before (" + history.length + ")", earlier)] : []),
    ...((question || "").trim() === title ? [] : block("Question", text(question || "none"))),
    rewritten ? text("Rewritten for retrieval: " + rewritten, "muted text") : null,
  ];
}

function referenceOf({ reference, answer }) {
  if (!reference) return [];
  const boxes = reference.map((one) => element("div", { class: "box" }, one === answer ? element("span", { class: "muted" }, "the same text as the answer") : text(one)));
  return block(reference.length > 1 ? "References" : "Reference", ...boxes);
}

function originOf({ metadata, generator }) {
  const entries = [...Object.entries(metadata || {}), ...(generator ? [["generator", generator]] : [])];
  return [entries.length ? folded("Metadata", () => [facts(entries)]) : null];
}

function cutOf(cut) {
  const entries = Object.entries(cut);
  const lines = entries.slice(0, 5).map(([name, count]) => name + " (" + counted(count, "more character") + ")");
  if (entries.length > 5) lines.push(counted(entries.length - 5, "other text"));
  return element("p", { class: "banner" }, "What is cut on this page: " + lines.join(", ") + ". The results file has it whole.");
}

// What became of each passage and fact ------------------------------------------------------------------------

const yesOrNo = (value) => (value === undefined ? "–" : element("span", { class: value ? "yes" : "no" }, value ? "✓ yes" : "✗ no"));
const inText = (passage) => (passage.context === undefined ? "" : ", text #" + passage.context);

function keptOf(passage) {
  if (passage.kept === undefined) return "–";
  if (!passage.kept) return element("span", { class: "no" }, "✗ dropped" + (passage.dropped_by ? " by " + passage.dropped_by : ""));
  return "kept" + (passage.rank_kept === undefined ? "" : ", rank " + passage.rank_kept);
}

function shownOf(passage) {
  if (passage.shown === undefined) return "–";
  if (passage.shown === "not shown") return passage.kept === false ? "–" : element("span", { class: "no" }, "✗ not shown");
  return (passage.shown === "cut" ? "cut to " + Math.round(100 * passage.share) + " %" : "whole") + inText(passage);
}

// The stages of a passage; a stage of which nothing is known of any passage has no column.
const STAGES_OF_PASSAGE = [
  ["retrieved", (passage) => passage.retriever !== undefined, (passage) => (passage.retriever || "–") + (passage.retriever_rank === undefined ? "" : ", rank " + passage.retriever_rank)],
  ["kept", (passage) => passage.kept !== undefined, keptOf],
  ["shown", (passage) => passage.shown !== undefined, shownOf],
  ["useful", (passage) => passage.useful !== undefined, (passage) => yesOrNo(passage.useful)],
  ["cited", (passage) => passage.cited !== undefined, (passage) => yesOrNo(passage.cited)],
];

function passagesOf({ passages }) {
  const stages = STAGES_OF_PASSAGE.filter(([, isKnown]) => passages.some(isKnown));
  if (!stages.length) return [];
  const name = (passage) => (passage.rank !== undefined ? "#" + passage.rank : passage.context !== undefined ? "text #" + passage.context : "found inside");
  const rows = passages.map((passage) => element("tr", {}, element("th", { scope: "row" }, name(passage)), ...stages.map(([title, , cell]) => element("td", { "data-label": title }, cell(passage)))));
  const tableOf = (some) => element("div", { class: "scroll", tabindex: "0" }, element("table", { class: "stack way" }, element("thead", {}, element("tr", {}, ...["passage", ...stages.map(([title]) => title)].map((title) => element("th", { scope: "col" }, title)))), element("tbody", {}, ...some)));
  const rest = rows.splice(20);
  return [tableOf(rows), rest.length ? folded(counted(rest.length, "more passage"), () => [tableOf(rest)]) : null];
}

function factsOf({ facts }, row) {
  if (!facts.length) return [];
  const accuracy = ofKind(row, "retrieval_accuracy");
  const texts = accuracy ? accuracy.evidence.facts : [];
  const items = facts.map((fact, place) => {
        const words = fact.known ? fact.lost || "shown to the model" : "not known what became of it";
    const where = fact.passages ? "; passages #" + fact.passages.join(", #") : "";
    const kind = fact.known ? (fact.lost ? "no" : "yes") : "muted";
    return element("li", { class: "text", dir: "auto" }, (texts[place] || { text: "fact " + (place + 1) }).text + " — ", element("span", { class: kind }, words), where);
  });
  return [element("h4", {}, "Facts of the reference"), element("ul", {}, ...items)];
}

function wayOf(journey, row) {
  if (!journey) return [];
  const parts = [...passagesOf(journey), ...factsOf(journey, row)].filter(Boolean);
  const unknown = Object.entries(journey.unknown).map(([stage, why]) => stage + " (" + why + ")");
  if (unknown.length) parts.push(element("p", { class: "muted" }, "Not known: " + unknown.join("; ") + "."));
  return parts.length ? block("What became of each passage", ...parts) : [];
}

// What to try, as the rule of the row's fault says it.
function remedyOf(advice) {
  return advice ? element("p", { class: "banner" }, "What to try: " + advice) : null;
}

// What a person needs to say yes or no, without what the judge says.
// The passages that unsupported claims left the answer with.
function originsOf(use) {
  if (!use || !use.claims.length) return [];
  const from = (places) => (places.length ? "leaves the answer without #" + places.join(", #") : "no passage: it stays without any, from the rest of the prompt or the model itself");
  return block("Where unsupported claims come from", element("ul", { class: "text" }, ...use.claims.map(([claim, places]) => element("li", {}, claim + " — " + from(places)))));
}

function unjudged(row, title) {
  const { sample } = row;
  const asked = Object.entries(row.results).flatMap(([name, result]) => peopleOf(name, result, row));
  const show = element("button", { type: "button" }, "Labelled: show what the judge says");
  show.addEventListener("click", () => refresh().then(() => openRow(row.index)));
  const texts = textsOf({ sample, results: {} });
  return [...questionOf(sample, title), ...answerOf(row, null, new Beside()), ...referenceOf(sample), ...texts, ...block("What do you say?", ...asked), show].filter(Boolean);
}

function opened(row, columns) {
  const sample = row.sample;
  if (!sample) return block(lines.has(row.index) ? "Bad row" : "Left out", text(row.problem || ""));
  const place = index.findIndex((entry) => entry[0] === row.index);
  const title = index[place][2];
  if (isBlind(place)) return unjudged(row, title);
  const { advice, journey, answer, use } = recorded(place);
  const beside = new Beside();
  const results = Object.entries(row.results || {});
  const calls = sample.ledger ? block("Evidence by call", ...groundsOf(row), ...callsOf(row)) : [];
  const answered = [...questionOf(sample, title), ...answerOf(row, answer, beside), ...referenceOf(sample)].filter(Boolean);
  const texts = element("div", { class: "texts", tabindex: "0" }, ...textsOf(row, beside, use || null).filter(Boolean));
  return [
    row.cut ? cutOf(row.cut) : null,
    remedyOf(advice),
    sample.error ? element("p", { class: "banner text" }, "The application's run failed: " + sample.error) : null,
    ...((sample.capture || {}).warnings || []).map((warning) => element("p", { class: "banner text" }, warning)),
    ...conversationOf(place),
    element("div", { class: "beside" }, element("div", {}, ...answered), texts),
    ...calls,
    ...wayOf(journey, row),
    ...originsOf(use),
    ...(results.length ? block("Scores", element("div", { class: "cards" }, ...results.map(([name, result]) => resultOf(name, result, row)))) : []),
    ...(results.length ? [costOf(results.map(([, result]) => result))] : []),
    ...retrievedOf(sample),
    ...originOf(sample),
    folded("Everything recorded of this row", () => [raw(row)]),
  ].filter(Boolean);
}
