// What the table shows: conditions, which stand in the page's address. Several values of one field are alternatives;
// of several fields, all must hold.

const search = document.getElementById("search");
const panel = document.getElementById("facets");
const chips = document.getElementById("chips");
const conditions = new Map();

const counted = (count, noun) => count.toLocaleString("en") + " " + noun + (count === 1 ? "" : "s");

// A field: what it is called, its values with their names, and which of them a row has.
const fields = new Map();

function field(key, name, labels, of) {
  const counts = new Map();
  for (const place of index.keys()) for (const value of of(place)) counts.set(value, (counts.get(value) || 0) + 1);
  const values = Object.keys(labels).filter((value) => counts.has(value));
  if (values.length) fields.set(key, { name, labels, of, counts, values });
}

const OUTCOMES = { failed: "failed", undefined: "not scored", unjudged: "without a result" };
field("outcome", "Outcome", OUTCOMES, (place) => {
  const outcomes = index[place][3];
  return outcomes.every((own) => own === null) ? ["unjudged"] : ["failed", "undefined"].filter((own) => outcomes.includes(own));
});
field("group", "Fault", Object.fromEntries(columns.groups.map((name) => [name, name])), (place) => [index[place][4]]);
const GRADES = Object.fromEntries(["exact", "inferred", "incomplete"].map((grade) => [grade, grade]));
field("captured", "Captured", GRADES, (place) => [index[place][6]].filter(Boolean));
for (const [name, { values, of }] of Object.entries(columns.facets)) {
  if (!values) continue; // one of too many, which are only counted
  const labels = { ...values.map((value) => value || "(empty)"), none: "(none)" };
  field("metadata." + name, name, labels, (place) => [of[place] === null ? "none" : String(of[place])]);
}
const unlisted = Object.values(columns.facets).filter((own) => !own.values).length;

// In the address a value of the metadata stands as it is, not as its number.
const written = (key, value) => (key.startsWith("metadata.") ? fields.get(key).labels[value] : value);
const read = (key, text) => (key.startsWith("metadata.") ? fields.get(key).values.find((value) => fields.get(key).labels[value] === text) : text);

const metricOf = (key) => (key.startsWith("score.") ? metrics.indexOf(key.slice(6)) : -1);

function limits(range) {
  const found = /^([\d.]*)~([\d.]*)$/.exec(range);
  return found && [Number(found[1] || 0), Number(found[2] || 1)];
}

// A score on the upper edge belongs to the range above, as in the histogram; 1 to the last.
function between(score, [low, high]) {
  const own = Number(score.toFixed(6));
  return own >= low && (own < high || high >= 1);
}

function passes(place) {
  for (const [key, values] of conditions) {
    const metric = metricOf(key);
    // what the judge says of it is not known yet
    if ((metric >= 0 || key === "group" || key === "outcome") && isBlind(place)) return false;
    const score = metric < 0 ? null : index[place][3][metric];
    const found = metric < 0 ? fields.get(key).of(place).some((own) => values.has(own)) : typeof score === "number" && [...values].some((range) => between(score, limits(range)));
    if (!found) return false;
  }
  return true;
}

// A condition that is there goes, another comes; of a score there is one range at a time.
function turn(key, value) {
  const values = conditions.get(key) || new Set();
  const there = values.delete(value);
  if (metricOf(key) >= 0) values.clear();
  if (!there) values.add(value);
  if (values.size) conditions.set(key, values);
  else conditions.delete(key);
  refresh();
  return !there;
}

function inWords(key, value) {
  if (metricOf(key) < 0) return fields.get(key).name + ": " + fields.get(key).labels[value];
  const [low, high] = limits(value);
  return key.slice(6) + " from " + low + (high < 1 ? " to below " + high : " to 1");
}

// What is chosen: a button each that takes it away, the panel, the bars and buttons elsewhere, and the address.
function tell() {
  const all = [...conditions].flatMap(([key, values]) => [...values].map((value) => [key, value]));
  const buttons = all.map(([key, value]) => {
    const made = element("button", { type: "button", class: "chip", "aria-label": "Take away the filter " + inWords(key, value) }, inWords(key, value), " ×");
    made.addEventListener("click", () => {
      turn(key, value);
      (chips.querySelector("button") || search).focus();
    });
    return made;
  });
  if (buttons.length || search.value) {
    const none = element("button", { type: "button", class: "link" }, "Show all");
    none.addEventListener("click", () => {
      conditions.clear();
      search.value = "";
      refresh();
      search.focus();
    });
    buttons.push(none);
  }
  chips.replaceChildren(...buttons);
  for (const own of document.querySelectorAll("[data-key][data-value]")) {
    const on = Boolean(conditions.get(own.dataset.key)?.has(own.dataset.value));
    if (own.tagName === "INPUT") own.checked = on;
    else own.setAttribute("aria-pressed", String(on));
  }
  for (const own of panel.querySelectorAll("input[data-end]")) {
    const [range] = conditions.get(own.dataset.key) || [];
    if (own !== document.activeElement) own.value = range ? range.split("~")[Number(own.dataset.end)] : "";
  }
  const asked = [...(search.value ? [["search", search.value]] : []), ...all.map(([key, value]) => [key, written(key, value)])];
  if (openedIndex !== null) asked.push(["row", openedIndex + 1]);
  if (order.by !== "worst" || order.down) asked.push(["sort", order.by + (order.down ? " down" : "")]);
  if (asked.length || location.hash.includes("=")) history.replaceState(null, "", "#" + new URLSearchParams(asked));
}

// The filters, the order and the opened row of the address; it is brought into view where it names any.
async function fromAddress() {
  const asked = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  search.value = asked.get("search") || "";
  conditions.clear();
  for (const [key, text] of asked) {
    const value = fields.has(key) ? read(key, text) : metricOf(key) >= 0 && limits(text) ? text : undefined;
    const known = metricOf(key) >= 0 || (fields.has(key) && fields.get(key).values.includes(value));
    if (value !== undefined && known) conditions.set(key, new Set([...(conditions.get(key) || []), value]));
  }
  const [by, down] = (asked.get("sort") || "worst").split(" ");
  openedIndex = null;
  const row = Number(asked.get("row"));
  await (Object.hasOwn(keys, by) ? sortBy(by, down === "down") : refresh());
  if (row) await openRow(row - 1);
  else if (conditions.size || search.value) document.getElementById("samples").scrollIntoView();
}

// The panel: a range for each metric, boxes for everything else.
function rangeOf(name) {
  const ends = ["from", "to"].map((word, end) => {
    const made = element("input", { type: "number", min: "0", max: "1", step: "0.05", placeholder: String(end), "aria-label": name + " " + word });
    made.dataset.key = "score." + name;
    made.dataset.end = end;
    made.addEventListener("input", () => {
      const [low, high] = [...made.closest("fieldset").querySelectorAll("input")].map((own) => own.value);
      if (low || high) conditions.set("score." + name, new Set([low + "~" + high]));
      else conditions.delete("score." + name);
      refresh();
    });
    return made;
  });
  return element("fieldset", {}, element("legend", {}, name), ends[0], " to ", ends[1]);
}

function boxesOf([key, { name, labels, counts, values }]) {
  const boxes = values.map((value) => {
    const made = element("input", { type: "checkbox" });
    made.dataset.key = key;
    made.dataset.value = value;
    return element("label", {}, made, " " + labels[value] + " ", element("span", { class: "muted" }, counts.get(value).toLocaleString("en")));
  });
  return element("fieldset", {}, element("legend", {}, name), ...boxes);
}

// What is shown, as files.

function download(name, text, type) {
  const link = element("a", { download: name, href: URL.createObjectURL(new Blob([text], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// A cell of a CSV; the data says which texts a spreadsheet would take for a formula.
function cellOf(value, isFormula) {
  if (value === undefined || value === null) return "";
  const text = (isFormula ? "'" : "") + value;
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function csvOf(place, names) {
  const { index: at, problem, sample, results, formulas } = recorded(place);
  const cells = { row: at + 1, id: index[place][1], question: (sample || {}).question, answer: (sample || {}).answer, fault: index[place][4], problem };
  metrics.forEach((name, metric) => {
    const own = index[place][3][metric];
    cells[name] = typeof own === "number" ? own : undefined;
    cells[name + "_status"] = typeof own === "number" ? "scored" : own;
    cells[name + "_reason"] = ((results || {})[name] || {}).reason;
  });
  return names.map((name) => cellOf(cells[name], (formulas || []).includes(name))).join(",") + "\r\n";
}

async function save(kind) {
  await ready;
  const names = ["row", "id", "question", "answer", "fault", ...metrics.flatMap((name) => [name, name + "_status", name + "_reason"]), "problem"];
  const csv = () => "\ufeff" + names.map((name) => cellOf(name)).join(",") + "\r\n" + shown.map((place) => csvOf(place, names)).join("");
  if (kind === "csv") download("samples.csv", csv(), "text/csv");
  else download("samples.jsonl", shown.map((place) => JSON.stringify(detail(place)) + "\n").join(""), "application/jsonl");
}

function prepareFilters() {
  panel.append(...metrics.map(rangeOf), ...[...fields].map(boxesOf));
  if (unlisted) panel.append(element("p", { class: "muted" }, counted(unlisted, "more field") + ": use search."));
  const chosen = (event) => {
    const own = event.target.closest("[data-key][data-value]");
    if (!own || own.disabled) return;
    if (turn(own.dataset.key, own.dataset.value) && !panel.contains(own)) document.getElementById("samples").scrollIntoView();
  };
  document.addEventListener("click", chosen);
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("g[data-key]") && ["Enter", " "].includes(event.key)) {
      event.preventDefault();
      chosen(event);
    }
  });
  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 120);
  });
  for (const kind of ["csv", "jsonl"]) document.getElementById("save-" + kind).addEventListener("click", () => save(kind));
  addEventListener("hashchange", () => (location.hash.includes("=") ? fromAddress() : tell())); // a link to a section keeps the filters
}
