"use strict";
// The table of samples: sorted, searched and filtered here; rows are made as they are needed. Every text from a
// sample goes into the page through textContent only.
const data = (id) => document.getElementById(id).textContent;
const columns = JSON.parse(data("columns"));
const index = JSON.parse(data("index"));
// Everything else of the rows is packed, the worst first, and there when "ready" is; by the index of the row.
let lines = null;
const ready = unpack(data("details"));
const metrics = columns.metrics;
const FIRST_ROWS = 40; // as many as are printed; what stands below the table is not far away
const MORE_ROWS = 100;
const turnsOf = new Map();
for (const entry of index) if (entry[7]) turnsOf.set(entry[7], (turnsOf.get(entry[7]) || 0) + 1);

const body = document.querySelector("#table > tbody");
const sorter = document.getElementById("sort");
const more = document.getElementById("more");
let order = { by: "worst", down: false };
let shown = [];
let made = 0;
let openedIndex = null; // of the row that the address names

async function unpack(base64) {
  const packed = atob(base64);
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at += 1) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const found = new Map();
  for (const line of (await new Response(stream).text()).split("\n")) {
    const start = /^\{"index":(\d+)/.exec(line);
    if (start) found.set(Number(start[1]), line);
  }
  lines = found;
  const left = document.getElementById("left");
  if (found.size < index.length) left.textContent = "The texts of the " + found.size.toLocaleString("en") + " rows with the lowest scores are on this page; those of the others would make it too large, and are in the results file (--out).";
  left.hidden = found.size === index.length;
}

function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class") made.className = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

// A row as the report writes it, with what was cut of it, less what else the page adds.
const detail = (place) => {
  const { journey, advice, answer, use, claims, formulas, texts, ...row } = recorded(place);
  return row;
};

// What is empty says nothing and is left out. That nothing was shown is known, and metadata are the caller's own.
function withoutEmpty(value) {
  for (const [name, inner] of Object.entries(value)) {
    const isEmpty = inner === "" || inner === null || (typeof inner === "object" && !Object.keys(inner).length);
    if (isEmpty && !Array.isArray(value) && name !== "shown") delete value[name];
    else if (name !== "metadata" && typeof inner === "object" && inner !== null) withoutEmpty(inner);
  }
  return value;
}

const recorded = (place) => {
  const own = index[place];
  const line = lines.get(own[0]);
  if (line) {
    const { journey, answer, use, ...row } = JSON.parse(line); // these three the page itself made
    return { ...withoutEmpty(row), journey, answer, use };
  }
  return { index: own[0], problem: "Its texts are not on this page, which would be too large with them; they are in the results file (--out).", sample: null, results: {} };
};

// Sorting ------------------------------------------------------------------------------------------------

const isFault = (entry) => columns.faults.some((names) => names.includes(entry[4]));

// Faults first, those of the weakest stage before others, then what the judge is unsure of; then the lowest score of a row, then
// the mean of its scores.
function worst(entry) {
  const units = entry[3].filter((value) => typeof value === "number").map((value) => Math.round(value * 10000));
  const groups = [...columns.faults, columns.open];
  const found = groups.findIndex((names) => names.includes(entry[4]));
  const place = found < 0 ? groups.length : found;
  if (!units.length) return isFault(entry) ? [place, -1, -1] : null;
  return [place, Math.min(...units), units.reduce((sum, unit) => sum + unit, 0) / units.length];
}

function compared(left, right) {
  if (Array.isArray(left)) return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
  return left < right ? -1 : left > right ? 1 : 0;
}

const keys = {
  worst: { name: "worst first", of: worst },
  row: { name: "row", of: (entry) => entry[0] },
  sample: { name: "question", of: (entry) => (entry[1] + " " + entry[2]).trim().toLowerCase() || null },
  group: { name: "fault", of: (entry) => entry[4] },
  words: { name: "what shows it", of: (entry) => entry[5].toLowerCase() || null },
};
metrics.forEach((name, place) => {
  keys["m" + place] = { name, of: (entry) => (typeof entry[3][place] === "number" ? entry[3][place] : null) };
});

function sorted(places) {
  const of = keys[order.by].of;
  const sign = order.down ? -1 : 1;
  const tells = !["row", "sample"].includes(order.by); // what the judge says
  const values = new Map(places.map((place) => [place, tells && isBlind(place) ? null : of(index[place])]));
  return places.sort((one, other) => {
    const [left, right] = [values.get(one), values.get(other)];
    if (left === null || right === null) return (left === null) - (right === null) || one - other;
    return sign * compared(left, right) || one - other;
  });
}

function sortBy(by, down) {
  order = { by, down };
  sorter.value = by;
  for (const head of document.querySelectorAll("#table > thead th")) {
    const own = head.dataset.key === by;
    head.setAttribute("aria-sort", own ? (down ? "descending" : "ascending") : "none");
    head.querySelector(".arrow").textContent = own ? (down ? " ▼" : " ▲") : "";
  }
  return refresh();
}

// Searching ----------------------------------------------------------------------------------------------

const haystacks = [];

function texts(value, found) {
  if (typeof value === "string") found.push(value);
  else if (value && typeof value === "object") Object.values(value).forEach((item) => texts(item, found));
  return found;
}

function holds(place, words) {
  if (haystacks[place] === undefined) {
    haystacks[place] = texts(detail(place), []).join("\n").toLowerCase();
  }
  return words.every((word) => haystacks[place].includes(word));
}

// The table ----------------------------------------------------------------------------------------------

function score(value, place) {
  const cell = element("td", { class: "score", "data-label": metrics[place] });
  if (typeof value === "number") {
    const bar = element("i");
    bar.style.width = 100 * value + "%";
    cell.append(value.toFixed(2), element("span", { class: "bar", "aria-hidden": "true" }, bar));
    if (value <= columns.yes_above) cell.classList.add("low");
  } else {
    const words = value === "undefined" ? "not scored" : value || "–";
    cell.append(element("span", { class: "status " + (value || "undefined") }, words));
  }
  return cell;
}

function rowOf(place) {
  const entry = index[place];
  const row = element("tr", { class: "row" });
  row.dataset.place = place;
  const toggle = element("button", { type: "button", "aria-expanded": "false" }, "▸ " + (entry[0] + 1));
  toggle.setAttribute("aria-label", "Open row " + (entry[0] + 1));
  const title = element("td", { class: "title wide" }, entry[2] || "(no question)");
  if (entry[1]) title.append(element("div", { class: "muted title" }, entry[1]));
  if (turnsOf.get(entry[7]) > 1) title.append(element("div", { class: "muted title" }, entry[7] + ", turn " + entry[8]));
  const hidden = isBlind(place);
  const group = element("td", { class: isFault(entry) && !hidden ? "guess no" : "guess" }, hidden ? "to label" : entry[4]);
  const words = element("td", { class: "words wide" }, element("div", { dir: "auto" }, hidden ? "" : entry[5]));
  row.append(element("td", { class: "number" }, toggle), group, title, words, ...entry[3].map((value, metric) => score(hidden ? null : value, metric)));
  return row;
}

async function refresh() {
  if (search.value && !lines) await ready;
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  shown = sorted([...index.keys()].filter((place) => passes(place) && (!words.length || holds(place, words))));
  made = 0;
  body.replaceChildren();
  grow(FIRST_ROWS);
  document.getElementById("count").textContent = shown.length.toLocaleString("en") + " of " + counted(index.length, "row");
  tell();
}

function grow(count) {
  body.append(...shown.slice(made, made + count).map(rowOf));
  made = Math.min(made + count, shown.length);
  more.hidden = made >= shown.length;
}

// Opens a row by its index, wherever it stands in the order, and brings it into view.
async function openRow(index_) {
  const at = shown.findIndex((place) => index[place][0] === index_);
  if (at < 0) return;
  if (at >= made) grow(at + 1 - made);
  const row = body.querySelector('tr.row[data-place="' + shown[at] + '"]');
  if (!row.matches(".open")) await toggle(row);
  row.scrollIntoView();
  row.querySelector("button").focus({ preventScroll: true });
}

async function toggle(row) {
  if (!lines) await ready;
  const button = row.querySelector("button");
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  button.textContent = (open ? "▸" : "▾") + button.textContent.slice(1);
  row.classList.toggle("open", !open);
  const ownIndex = index[Number(row.dataset.place)][0];
  if (open) {
    row.nextElementSibling.remove();
    if (openedIndex === ownIndex) openedIndex = null;
    tell();
    return;
  }
  openedIndex = ownIndex;
  tell();
  const cell = element("td", { colspan: String(metrics.length + 4) });
  cell.append(...opened(detail(Number(row.dataset.place)), columns));
  row.after(element("tr", { class: "detail" }, cell));
}

function head(key, kind) {
  const words = keys[key].name.split("_").flatMap((word, at) => (at ? ["_", element("wbr"), word] : [word]));
  const button = element("button", { type: "button" }, ...words, element("span", { class: "arrow" }));
  button.addEventListener("click", () => sortBy(key, order.by === key && !order.down));
  const cell = element("th", { class: kind, scope: "col" }, button);
  cell.dataset.key = key;
  return cell;
}

function start() {
  document.querySelector("#table > thead tr").append(
    head("row", "place"),
    head("group", "guess"),
    head("sample", "text"),
    head("words", "text"),
    ...metrics.map((name, place) => head("m" + place, "score")),
  );
  for (const [key, { name }] of Object.entries(keys)) sorter.append(element("option", { value: key }, name));
  sorter.addEventListener("change", () => sortBy(sorter.value, false));
  more.addEventListener("click", () => grow(MORE_ROWS));
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr.row");
    const selecting = String(getSelection()) && !event.target.closest("button");
    if (row && !selecting) toggle(row);
  });
  document.addEventListener("keydown", keyboard);
  prepareFilters();
  fromAddress();
}

// "/" searches; the arrows, Home and End go from row to row, the first time where the table is in view; Escape closes a row from within it.
function keyboard(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !typing) {
    event.preventDefault();
    search.focus();
  }
  const row = event.target.closest("tr.row, tr.detail");
  if (row && event.key === "Escape") {
    const own = row.matches(".detail") ? row.previousElementSibling : row;
    if (own.matches(".open")) toggle(own);
    own.querySelector("button").focus();
  }
  const first = body.querySelector("tr.row button");
  const inView = first && first.getBoundingClientRect().top > 0 && first.getBoundingClientRect().bottom < innerHeight;
  if (event.key === "ArrowDown" && inView && (event.target === document.body || event.target.id === "samples")) {
    event.preventDefault();
    first.focus();
  }
  if (!row || row.matches(".detail") || !["ArrowDown", "ArrowUp", "Home", "End"].includes(event.key)) return;
  event.preventDefault();
  const rows = [...body.querySelectorAll("tr.row")];
  const at = { ArrowDown: rows.indexOf(row) + 1, ArrowUp: rows.indexOf(row) - 1, Home: 0, End: rows.length - 1 }[event.key];
  if (rows[at]) rows[at].querySelector("button").focus();
}

// What if: of the sentences on cuts, that of the slider is shown.
const cut = document.getElementById("cut");
function showCut() {
  [...document.querySelectorAll("#cuts li")].forEach((line, at) => { line.hidden = at + 1 !== Number(cut.value); });
}
if (cut) {
  cut.addEventListener("input", showCut);
  showCut();
}
