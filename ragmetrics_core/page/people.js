// People label rows beside the judge: what they say stays in this browser, until it is downloaded as labels.

const KEPT = "ragmetrics " + columns.digest; // of all that the rows hold: labels never move to another report
let said = {};

// Other windows of this page say something, too.
function recall() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT)) || {};
    for (const [name, own] of Object.entries(kept)) said[name] = { ...said[name], ...own };
  } catch {
    // Where the browser keeps nothing, it is kept as long as the page is open.
  }
}

function keep(name, id, own) {
  recall();
  said[name] = { ...said[name], [id]: own };
  try {
    localStorage.setItem(KEPT, JSON.stringify(said));
  } catch {
    // As above.
  }
  offer();
}

recall();
addEventListener("storage", (event) => {
  if (event.key !== KEPT) return;
  recall();
  for (const input of document.querySelectorAll(".people input")) input.checked = wordOf(input.dataset.metric, input.dataset.id) === input.value;
  offer();
});

const wordOf = (name, id) => ((said[name] || {})[id] || {}).word;

// A label is found again by the id of its sample, without one by the number of its row: an id that rows share, or one cut short, is no name.
const labelId = (id, row) => id || "row " + (row + 1);
const ids = new Map();
for (const entry of index) ids.set(labelId(entry[1], entry[0]), (ids.get(labelId(entry[1], entry[0])) || 0) + 1);
const alone = (id) => ids.get(id) === 1;

const numberOf = (name, id) => ({ yes: 1, no: 0 })[wordOf(name, id)] ?? null;

// The labels of a metric: of all rows that were drawn, null where none was given, and of others that have one. A label says of which
// texts it is, and of how many rows how many were drawn: only a whole draw is a random sample.
function labelsOf(name) {
  const found = [];
  for (const [place, entry] of index.entries()) {
    const id = labelId(entry[1], entry[0]);
    const label = alone(id) ? numberOf(name, id) : null;
    const isDrawn = Boolean(toLabel) && toLabel.of[place] === 0;
    if (label === null && !isDrawn) continue;
    const draw = isDrawn ? { drawn: toLabel.of.filter((value) => value === 0).length, of: toLabel.among } : {};
    found.push({ id, label, metric: name, ...draw, texts: recorded(place).texts });
  }
  return found;
}
const countOf = (name) => Object.keys(said[name] || {}).filter((id) => alone(id) && numberOf(name, id) !== null).length;

// A row that was drawn for people does not show what the judge says before it has a label, if it can have one.
const toLabel = columns.facets["to label"];
function isBlind(place) {
  const id = labelId(index[place][1], index[place][0]);
  const isScored = index[place][3].some((value) => typeof value === "number");
  return Boolean(toLabel) && toLabel.of[place] === 0 && isScored && alone(id) && !metrics.some((name) => wordOf(name, id));
}

function offer() {
  const place = document.getElementById("labels");
  const buttons = metrics.filter(countOf).map((name) => {
    const count = countOf(name);
    const button = element("button", { type: "button" }, "Download " + count + (count === 1 ? " label of " : " labels of ") + name);
    button.addEventListener("click", async () => {
      await ready;
      download("labels." + name.replace(/\W+/g, "_") + ".jsonl", labelsOf(name).map((own) => JSON.stringify(own) + "\n").join(""), "application/jsonl");
    });
    return button;
  });
  const nameless = index.filter((entry) => entry[3].some((value) => typeof value === "number") && !alone(labelId(entry[1], entry[0])));
  const why = nameless.length ? [" ", element("span", { class: "muted" }, whyNotLabelled(nameless))] : [];
  place.replaceChildren(...buttons, ...why);
}

function whyNotLabelled(entries) {
  if (entries.length > 1) return counted(entries.length, "row") + " share an id, so they cannot be labelled.";
  const [entry] = entries;
  return "Row " + (entry[0] + 1) + " shares its id, so it cannot be labelled.";
}

function peopleOf(name, result, row) {
  if (result.value === undefined) return [];
  const id = labelId(row.sample.id, row.index);
  if (!alone(id)) return [element("p", { class: "muted people-not" }, "This row shares its id, so it cannot be labelled.")];
  const judge = "The judge says " + (result.value > columns.yes_above ? "yes" : "no") + " (" + percent(result.value) + "). ";
  const asks = name + (columns.asks[name] ? ": " + columns.asks[name] : ", yes or no?");
  const isHidden = isBlind(index.findIndex((entry) => entry[0] === row.index));
  const choices = ["yes", "no", "unsure"].map((word) => {
    const input = element("input", { type: "radio", name: name + " of " + id, value: word, "data-metric": name, "data-id": id });
    input.checked = wordOf(name, id) === word;
    input.addEventListener("change", () => keep(name, id, { word }));
    return element("label", {}, input, " " + word);
  });
  return [element("fieldset", { class: "people" }, element("legend", {}, (isHidden ? "" : judge) + asks), ...choices)];
}
