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

function offer() {
  const place = document.getElementById("labels");
  const buttons = metrics.filter((name) => labelsOf(name).length).map((name) => {
    const count = labelsOf(name).length;
    const button = element("button", { type: "button" }, "Download " + count + (count === 1 ? " label of " : " labels of ") + name);
    button.addEventListener("click", () => download("labels." + name.replace(/\W+/g, "_") + ".jsonl", labelsOf(name).map((own) => JSON.stringify(own) + "\n").join(""), "application/jsonl"));
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
