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

function steps(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((times) => times * power).find((value) => value >= rough));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, place) => place * step);
}

function scoresFigure(name) {
  const x = (score) => 48 + 380 * score;
  const counts = columns.histograms[name];
  const mean = columns.means[name];
  const most = Math.max(...counts);
  const y = (count) => 160 - (148 * count) / most;
  const bars = counts.map((count, place) => {
    const ends = [place / 10, (place + 1) / 10].map((end) => end.toFixed(1));
    const words = ends.join(" to ") + ": " + count;
    const bar = drawn("rect", { class: "mass", x: x(place / 10) + 1.5, width: 35, y: y(count), height: 160 - y(count) }, titled(words));
    if (!count) return bar;
    const whole = drawn("rect", { class: "hit", x: x(place / 10), width: 38, y: 8, height: 152 }, titled(words));
    const range = Number(ends[0]) + "~" + Number(ends[1]);
    return drawn("g", { role: "button", tabindex: "0", "aria-label": "Filter by " + name + " " + words, "data-key": "score." + name, "data-value": range }, whole, bar);
  });
  const [lowest, lower, median, upper, highest] = columns.boxes[name];
  const quartiles = [lower, median, upper].map((score) => score.toFixed(2)).join(", ");
  const box = drawn("g", { class: "quartiles" },
    titled("Quartiles " + quartiles), line("axis", x(lowest), 206, x(highest), 206),
    drawn("rect", { x: x(lower), width: x(upper) - x(lower), y: 200, height: 12 }), line("median", x(median), 198, x(median), 214));
  return canvas(
    "group", "Histogram and box plot of the scores of " + name, 440, 218,
    ...steps(most).flatMap((count) => [line("axis", 43, y(count), 48, y(count)), label(40, y(count) + 4, count, "end")]),
    line("axis", 48, 8, 48, 160), line("axis", 43, 160, 433, 160),
    ...bars, line("mean", x(mean), 8, x(mean), 160),
    ...[0, 0.2, 0.4, 0.6, 0.8, 1].flatMap((score) => [line("axis", x(score), 160, x(score), 164), label(x(score), 177, score)]),
    label(x(0.5), 193, "score"), box,
  );
}

for (const figure of document.querySelectorAll("figure[data-metric]")) figure.prepend(scoresFigure(figure.dataset.metric));

offer();
start();
