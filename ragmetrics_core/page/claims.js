// The answer beside the texts: a sentence of it, when chosen, shows the passage that supports it.

const clickable = (tag, properties, ...children) => element(tag, { role: "button", tabindex: "0", "aria-pressed": "false", ...properties }, ...children);

// A folded text is shown whole on request, or where something in it is looked for.
function folding(shown, length) {
  const words = ["Show all " + length.toLocaleString("en") + " characters", "Show less"];
  const button = element("button", { type: "button", class: "link" }, words[0]);
  const turnTo = (folded) => {
    shown.classList.toggle("folded", folded);
    button.textContent = words[folded ? 0 : 1];
    button.setAttribute("aria-expanded", String(!folded));
  };
  turnTo(true);
  button.addEventListener("click", () => turnTo(!shown.classList.contains("folded")));
  for (const event of ["unfold", "focusin"]) shown.addEventListener(event, () => turnTo(false));
  return [shown, button];
}

// Sentences and words, in scripts without blanks, too.

const SEGMENTS = typeof Intl.Segmenter === "function" ? new Intl.Segmenter(undefined, { granularity: "sentence" }) : null;
const sentencesIn = (words) => (SEGMENTS ? [...SEGMENTS.segment(words)].map((own) => own.segment) : [words]);
const termsIn = (words) => new Set(words.toLowerCase().match(/[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]|[\p{L}\p{N}]+/gu) || []);

// Where a text stands in another, whatever its blanks and capitals; null if it does not.
function locate(words, within, from = 0) {
  const exact = within.indexOf(words.trim(), from);
  if (exact >= 0) return [exact, exact + words.trim().length];
  const parts = words.trim().split(/\s+/);
  if (parts.length > 200) return null;
  const pattern = parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\s+");
  const found = new RegExp(pattern, "iu").exec(within.slice(from));
  return found && found[0] ? [from + found.index, from + found.index + found[0].length] : null;
}

// The sentence of the texts that shares most words with a claim, rare ones counting more; null if few are shared.
function closest(claim, texts) {
  const passages = texts.flatMap((own, at) => sentencesIn(own).map((words) => ({ words, rank: at + 1, terms: termsIn(words) })));
  const wanted = [...termsIn(claim)];
  const weights = wanted.map((term) => 1 / (1 + passages.filter((one) => one.terms.has(term)).length));
  const all = weights.reduce((sum, own) => sum + own, 0);
  let best = null;
  for (const one of passages) {
    const score = wanted.reduce((sum, term, at) => sum + (one.terms.has(term) ? weights[at] : 0), 0);
    if (score && (!best || score > best.score)) best = { ...one, score };
  }
  const count = best && wanted.filter((term) => best.terms.has(term)).length;
  if (!best || 3 * count < wanted.length || 5 * best.score < all) return null;
  return { rank: best.rank, words: best.words.trim(), note: "The closest passage by words (" + count + " of " + wanted.length + " shared), in #" + best.rank + ". The judge names none." };
}

function named(one) {
  const lost = [...new Set([...(one.uncovered || []), ...(one.numbers || [])])];
  const found = Math.round(100 * one.coverage) + " % of its terms found";
  const missing = lost.length ? "; not found: " + lost.join(", ") : "";
  if (!one.evidence) return { note: "The judge found no passage: " + found + missing + "." };
  return { rank: one.rank, words: one.evidence, note: "The judge's passage, in #" + one.rank + ": " + found + missing + "." };
}

// One row's texts, and where passages of them are told: below the answer, or in the claim's item of a list.
class Beside {
  constructor(texts) {
    this.texts = texts;
    this.shown = [];
    this.told = element("div", { class: "passage", role: "status" });
    this.home = element("div", {}, this.told);
    this.chosen = null;
  }

  // A claim that shows its passage: the judge's, where it names one, else the closest by words.
  claim(tag, words, one, ...children) {
    const made = clickable(tag, { class: "claim" }, ...(children.length ? children : [words]));
    const choose = () => this.choose(made, one ? named(one) : closest(words, this.texts));
    made.addEventListener("click", choose);
    made.addEventListener("keydown", (event) => {
      if (!["Enter", " "].includes(event.key)) return;
      event.preventDefault();
      choose();
    });
    return made;
  }

  choose(claim, passage) {
    const again = this.chosen === claim;
    if (this.chosen) this.chosen.setAttribute("aria-pressed", "false");
    for (const mark of document.querySelectorAll("mark.found")) mark.replaceWith(...mark.childNodes);
    this.chosen = again ? null : claim;
    this.told.replaceChildren();
    (claim.closest("li") || this.home).append(this.told);
    if (again) return;
    claim.setAttribute("aria-pressed", "true");
    const note = passage ? passage.note : "No text shares enough of its words, and the judge names no passage.";
    const quoted = passage && passage.words ? text(passage.words.length > 600 ? passage.words.slice(0, 600) + " …" : passage.words) : null;
    this.told.append(element("p", { class: "muted" }, note), ...(quoted ? [quoted] : []));
    if (passage && passage.words) this.mark(passage);
  }

  mark({ rank, words }) {
    const shown = this.shown[rank - 1];
    if (!shown) return;
    const place = locate(words, shown.textContent);
    if (!place) return;
    const whole = shown.textContent;
    const found = element("mark", { class: "found" }, whole.slice(...place));
    shown.replaceChildren(whole.slice(0, place[0]), found, whole.slice(place[1]));
    shown.dispatchEvent(new Event("unfold"));
    for (let own = shown.closest("details"); own; own = own.parentElement.closest("details")) own.open = true;
    const column = shown.closest(".texts");
    if (column.scrollHeight > column.clientHeight) column.scrollTop += found.getBoundingClientRect().top - column.getBoundingClientRect().top - column.clientHeight / 3;
  }
}

// Where each sentence of the answer stands: as the judge divided it, else as the browser does.
function sentencesOf(answer, judged) {
  let at = 0;
  const found = judged.map((one) => ({ one, place: locate(one.sentence, answer) })).filter(({ place }) => place);
  if (found.length) return found.sort((one, other) => one.place[0] - other.place[0]);
  return sentencesIn(answer).flatMap((words) => {
    const start = at + words.length - words.trimStart().length;
    at += words.length;
    return words.trim() ? [{ place: [start, start + words.trim().length] }] : [];
  });
}

// The answer, sentence by sentence; marked what the judge found unsupported, where it stands there word for word.
function answerOf(row, beside) {
  const { answer } = row.sample;
  if (!answer) return block("Answer", element("p", { class: "muted" }, "none"));
  const evidence = (ofKind(row, "context_adherence") || { evidence: {} }).evidence;
  const claims = (evidence.unsupported || []).map((claim) => ({ claim, place: locate(claim, answer) }));
  const marks = claims.map(({ place }) => place).filter(Boolean).sort((one, other) => one[0] - other[0]);
  const shown = element("div", { class: "text", dir: "auto" });
  let at = 0;
  for (const { place: [start, end], one } of sentencesOf(answer, evidence.sentences || [])) {
    if (start < at) continue;
    const words = answer.slice(start, end);
    shown.append(answer.slice(at, start), beside.claim("span", words, one, ...pieces(answer, start, end, marks)));
    at = end;
  }
  shown.append(answer.slice(at));
  const missing = claims.filter(({ place }) => !place).map(({ claim }) => element("li", {}, beside.claim("span", claim, null)));
  const lines = [
    beside.texts.length && "Choose a sentence to see its passage in the texts.",
    marks.length && "Underlined: unsupported, says the judge.",
  ];
  return [
    ...block("Answer", element("div", { class: "box" }, ...(answer.length > 3000 ? folding(shown, answer.length) : [shown]))),
    element("p", { class: "muted" }, lines.filter(Boolean).join(" ")),
    ...(missing.length ? [element("p", { class: "muted" }, "Unsupported, in the judge's words:"), element("ul", { class: "text" }, ...missing)] : []),
    beside.home,
  ];
}

// A part of a text, with what stands in one of the marks in an element of its own.
function pieces(whole, start, end, marks) {
  const found = [];
  let at = start;
  for (const [low, high] of marks) {
    const [from, to] = [Math.max(low, at), Math.min(high, end)];
    if (to <= from) continue;
    found.push(whole.slice(at, from), element("mark", { class: "unsupported" }, whole.slice(from, to)));
    at = to;
  }
  return [...found, whole.slice(at, end)];
}
