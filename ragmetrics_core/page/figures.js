// Figures of the scores, drawn from the same data as the table; their colours are those of the page.

function drawn(tag, properties, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const titled = (words) => drawn("title", {}, words);
const line = (kind, x1, y1, x2, y2) => drawn("line", { class: kind, x1, y1, x2, y2 });
const label = (x, y, words, anchor = "middle") => drawn("text", { x, y, "text-anchor": anchor }, words);

function canvas(role, words, width, height, ...parts) {
  return drawn("svg", { role, "aria-label": words, viewBox: "0 0 " + width + " " + height }, ...parts);
}

// Scores: ten bins on [0, 1], a score on an edge in the bin above and 1 in the last; below them the box.

const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function binned(scores) {
  const counts = Array(10).fill(0);
  for (const score of scores) counts[Math.min(9, Math.floor(Number((10 * score).toFixed(6))))] += 1;
  return counts;
}

// The value with so large a share of the sorted scores below it, between two neighbours on the line through both.
function quantile(scores, share) {
  const place = share * (scores.length - 1);
  const [below, above] = [scores[Math.floor(place)], scores[Math.ceil(place)]];
  return below + (place - Math.floor(place)) * (above - below);
}

function boxOf(scores) {
  const ordered = [...scores].sort((one, other) => one - other);
  const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ordered, share));
  const reach = 1.5 * (high - low);
  const within = ordered.filter((score) => score >= low - reach && score <= high + reach);
  const outside = [...new Set(ordered.filter((score) => score < low - reach || score > high + reach))];
  return { low, middle, high, least: within[0], most: within[within.length - 1], outside };
}

function steps(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((times) => times * power).find((value) => value >= rough));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, place) => place * step);
}

function scoresFigure(name, scores) {
  const x = (score) => 48 + 380 * score;
  const counts = binned(scores);
  const most = Math.max(...counts);
  const y = (count) => 160 - (148 * count) / most;
  const mean = average(scores);
  const { low, middle, high, least, most: largest, outside } = boxOf(scores);
  const bars = counts.map((count, place) => {
    const ends = [place / 10, (place + 1) / 10].map((end) => end.toFixed(1));
    const words = ends.join(" to ") + ": " + count;
    const bar = drawn("rect", { class: "mass", x: x(place / 10) + 1.5, width: 35, y: y(count), height: 160 - y(count) }, titled(words));
    if (!count) return bar;
    const whole = drawn("rect", { class: "hit", x: x(place / 10), width: 38, y: 8, height: 152 }, titled(words));
    const range = Number(ends[0]) + "~" + Number(ends[1]);
    return drawn("g", { role: "button", tabindex: "0", "aria-label": "Filter by " + name + " " + words, "data-key": "score." + name, "data-value": range }, whole, bar);
  });
  const box = drawn(
    "g", { class: "box-plot" },
    titled("median " + percent(middle) + ", quartiles " + percent(low) + " and " + percent(high) + ", mean " + percent(mean)),
    line("ink", x(least), 190, x(low), 190), line("ink", x(high), 190, x(largest), 190),
    line("ink", x(least), 184, x(least), 196), line("ink", x(largest), 184, x(largest), 196),
    drawn("rect", { class: "quartiles", x: x(low), width: x(high) - x(low), y: 179, height: 22 }),
    line("median", x(middle), 179, x(middle), 201),
    ...outside.map((score) => drawn("circle", { class: "outside", cx: x(score), cy: 190, r: 2 })),
    drawn("path", { class: "diamond", d: "M " + x(mean) + " 185 l 5 5 l -5 5 l -5 -5 z" }),
  );
  return canvas(
    "group", "Histogram and box plot of " + scores.length + " scores of " + name, 440, 250,
    ...steps(most).flatMap((count) => [line("axis", 43, y(count), 48, y(count)), label(40, y(count) + 4, count, "end")]),
    line("axis", 48, 8, 48, 160), line("axis", 43, 160, 433, 160),
    ...bars, line("mean", x(mean), 8, x(mean), 160), box,
    line("axis", 43, 214, 433, 214),
    ...[0, 0.2, 0.4, 0.6, 0.8, 1].flatMap((score) => [line("axis", x(score), 214, x(score), 218), label(x(score), 231, score)]),
    label(x(0.5), 247, "score"),
  );
}

for (const figure of document.querySelectorAll("figure[data-metric]")) {
  const place = metrics.indexOf(figure.dataset.metric);
  const scores = index.map((entry) => entry[3][place]).filter((value) => typeof value === "number");
  figure.prepend(scoresFigure(figure.dataset.metric, scores));
}

offer();
start();
