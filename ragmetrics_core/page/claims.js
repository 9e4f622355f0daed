// The answer beside the texts: a sentence of it, when chosen, shows the passage that the judge names.

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

// One row's texts, and where passages of them are told, below the answer.
class Beside {
  constructor() {
    this.shown = [];
    this.told = element("div", { class: "passage", role: "status" });
    this.chosen = null;
  }

  // A sentence that shows the passage that the judge names for it.
  sentence(passage, ...children) {
    const made = clickable("span", { class: "claim" }, ...children);
    const choose = () => this.choose(made, passage);
    made.addEventListener("click", choose);
    made.addEventListener("keydown", (event) => {
      if (!["Enter", " "].includes(event.key)) return;
      event.preventDefault();
      choose();
    });
    return made;
  }

  choose(sentence, passage) {
    const again = this.chosen === sentence;
    if (this.chosen) this.chosen.setAttribute("aria-pressed", "false");
    for (const mark of document.querySelectorAll("mark.found")) mark.replaceWith(...mark.childNodes);
    this.chosen = again ? null : sentence;
    this.told.replaceChildren();
    if (again) return;
    sentence.setAttribute("aria-pressed", "true");
    this.told.append(element("p", { class: "muted" }, passage.note), ...(passage.words ? [text(passage.words, "text", 600)] : []));
    if (passage.span) this.mark(passage);
  }

  mark({ rank, span: [start, end] }) {
    const shown = this.shown[rank - 1];
    if (!shown) return;
    const whole = shown.textContent;
    const found = element("mark", { class: "found" }, whole.slice(start, end));
    shown.replaceChildren(whole.slice(0, start), found, whole.slice(end));
    shown.dispatchEvent(new Event("unfold"));
    for (let own = shown.closest("details"); own; own = own.parentElement.closest("details")) own.open = true;
    const column = shown.closest(".texts");
    if (column.scrollHeight > column.clientHeight) column.scrollTop += found.getBoundingClientRect().top - column.getBoundingClientRect().top - column.clientHeight / 3;
  }
}

// The answer with what the judge says of its sentences; what it calls unsupported is underlined.
function answerOf(row, judged, beside) {
  const { answer } = row.sample;
  if (!answer) return block("Answer", element("p", { class: "muted" }, "none"));
  const { sentences, elsewhere } = judged || { sentences: [{ parts: [[answer, false]] }], elsewhere: [] };
  const shown = element("div", { class: "text", dir: "auto" });
  for (const { parts, passage } of sentences) {
    const made = parts.map(([words, unsupported]) => (unsupported ? element("mark", { class: "unsupported" }, words) : words));
    shown.append(...(passage ? [beside.sentence(passage, ...made)] : made));
  }
  const lines = [
    sentences.some(({ passage }) => passage) && "Choose a sentence to see its passage in the texts.",
    sentences.some(({ parts }) => parts.some(([, unsupported]) => unsupported)) && "Underlined: unsupported, says the judge.",
  ];
  return [
    ...block("Answer", element("div", { class: "box" }, ...(answer.length > 3000 ? folding(shown, answer.length) : [shown]))),
    element("p", { class: "muted" }, lines.filter(Boolean).join(" ")),
    ...(elsewhere.length ? [element("p", { class: "muted" }, "Unsupported, in the judge's words:"), element("ul", { class: "text" }, ...elsewhere.map((claim) => element("li", {}, claim)))] : []),
    beside.told,
  ];
}
