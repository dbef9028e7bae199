// Charts as SVG: lines that are told apart without colour, bars with two ends, a table of the same numbers below each.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
const WIDE = 420, HIGH = 264, LEFT = 56, RIGHT = 14, TOP = 26, BOTTOM = 44;

function element(name, attributes = {}, text = null, space = SVG) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

const html = (name, attributes = {}, text = null) => element(name, attributes, text, null);

function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1).replace(".0e", "e").replace("e+", "e");
  return String(Number(value.toPrecision(3)));
}

function ticks(from, to, log) {
  if (log) {
    const first = Math.ceil(from - 1e-9), last = Math.floor(to + 1e-9), step = Math.max(1, Math.ceil((last - first) / 5));
    const decades = [];
    for (let k = first; k <= last; k += step) decades.push(k);
    return decades.length > 1 ? decades : [from, to];
  }
  const raw = (to - from) / 4, ten = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((m) => m * ten).find((s) => s >= raw) || ten;
  const found = [];
  for (let k = Math.ceil(from / step); k * step <= to + step * 1e-9; k += 1) found.push(k * step);
  return found;
}

// An axis that maps values to places; values that it cannot show (infinite, or not above 0 on a log axis) have none.
function axis(values, log, low, high, zero) {
  const shown = values.filter((v) => Number.isFinite(v) && (!log || v > 0)).map((v) => (log ? Math.log10(v) : v));
  if (!shown.length) return null;
  let from = Math.min(...shown), to = Math.max(...shown);
  if (zero && !log) from = Math.min(0, from);
  if (to - from < 1e-12) { from -= log ? 0.5 : Math.abs(from) / 2 || 1; to += log ? 0.5 : Math.abs(to) / 2 || 1; }
  const place = (v) => (Number.isFinite(v) && (!log || v > 0) ? low + ((log ? Math.log10(v) : v) - from) / (to - from) * (high - low) : null);
  const marks = ticks(from, to, log).map((t) => ({ at: low + (t - from) / (to - from) * (high - low), text: short(log ? 10 ** t : t) }));
  return { place, marks };
}

function pathOf(curve, x, y) {
  let path = "", pen = false;
  curve.x.forEach((value, i) => {
    const a = x.place(Number(value)), b = y.place(Number(curve.y[i]));
    if (a === null || b === null) { pen = false; return; }
    path += `${pen ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`;
    pen = true;
  });
  return path;
}

function frame(figure, words) {
  figure.querySelectorAll(":scope > :not(figcaption)").forEach((old) => old.remove());
  const svg = element("svg", { viewBox: `0 0 ${WIDE} ${words.high || HIGH}`, role: "img", "aria-label": words.title });
  figure.append(svg);
  return svg;
}

// A table that scrolls by itself where it is wider than the screen; a head of empty cells is none.
function tableOf(label, head, rows) {
  const scroll = html("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label }), body = html("table");
  const line = (cells, tag) => { const tr = html("tr"); cells.forEach((cell) => tr.append(html(tag, {}, cell))); body.append(tr); };
  if (head.some((cell) => cell)) line(head, "th");
  rows.forEach((row) => line(row, "td"));
  scroll.append(body);
  return scroll;
}

// What a reader of the picture learns, as a table: for screen readers, and for whoever wants the numbers.
function table(figure, head, rows) {
  const details = html("details");
  details.append(html("summary", {}, "The numbers"), tableOf(figure.querySelector("figcaption").textContent, head, rows));
  figure.append(details);
}

function drawLines(figure, chart) {
  const title = figure.querySelector("figcaption").textContent;
  const svg = frame(figure, { title: `${title}: ${chart.curves.map((c) => c.label).join(", ")}` });
  const logX = chart.x.scale === "log", logY = chart.y.scale === "log";
  const x = axis(chart.curves.flatMap((c) => c.x.map(Number)), logX, LEFT, WIDE - RIGHT, true);
  const y = axis(chart.curves.flatMap((c) => c.y.map(Number)), logY, HIGH - BOTTOM, TOP, true);
  if (!x || !y) { message(figure, "Nothing finite is proven here."); return; }
  for (const mark of y.marks) {
    svg.append(element("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: mark.at, y2: mark.at }));
    svg.append(element("text", { x: LEFT - 6, y: mark.at + 4, "text-anchor": "end" }, mark.text));
  }
  for (const mark of x.marks) svg.append(element("text", { x: mark.at, y: HIGH - BOTTOM + 17, "text-anchor": "middle" }, mark.text));
  svg.append(element("line", { class: "axis", x1: LEFT, x2: WIDE - RIGHT, y1: HIGH - BOTTOM, y2: HIGH - BOTTOM }));
  svg.append(element("text", { x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 6, "text-anchor": "middle" }, chart.x.label));
  svg.append(element("text", { x: 2, y: 13 }, chart.y.label));
  if (chart.here !== undefined && x.place(chart.here) !== null) {
    const at = x.place(chart.here);
    svg.append(element("line", { class: "here", x1: at, x2: at, y1: TOP, y2: HIGH - BOTTOM }));
  }
  const key = html("ul", { class: "key" });
  chart.curves.forEach((curve, i) => {
    const dash = DASHES[i % 4];
    const line = element("path", { class: "line", d: pathOf(curve, x, y), "stroke-dasharray": dash });
    line.style.stroke = `var(--c${i % 4})`;
    svg.append(line);
    const item = html("li"), sample = element("svg", { viewBox: "0 0 26 8", "aria-hidden": "true" });
    const stroke = element("path", { class: "line", d: "M0 4H26", "stroke-dasharray": dash });
    stroke.style.stroke = `var(--c${i % 4})`;
    sample.append(stroke);
    item.append(sample, html("span", {}, curve.label));
    key.append(item);
  });
  figure.append(key);
  const xs = chart.curves[0].x, every = Math.max(1, Math.floor(xs.length / 8));
  const rows = xs.map((value, i) => [short(Number(value)), ...chart.curves.map((c) => (c.y[i] === undefined ? "" : short(Number(c.y[i]))))]);
  table(figure, [chart.x.label, ...chart.curves.map((c) => c.label)], rows.filter((_, i) => i % every === 0 || i === xs.length - 1));
}

// Horizontal bars: one number, or from a lower to an upper end; a row without numbers says why.
function drawBars(figure, rows) {
  const step = 44, high = rows.length * step + 8;
  const svg = frame(figure, { title: `${figure.querySelector("figcaption").textContent}: ${rows.map((r) => `${r.label} ${r.text}`).join("; ")}`, high });
  const largest = Math.max(...rows.map((r) => (Number.isFinite(Number(r.upper)) ? Number(r.upper) : 0)), 1e-9);
  rows.forEach((row, i) => {
    const at = i * step, upper = Number(row.upper), lower = row.lower === null || row.lower === undefined ? upper : Number(row.lower);
    svg.append(element("text", { class: "bar-text", x: 2, y: at + 14, "font-weight": row.here ? 700 : 400 }, `${row.label}${row.here ? " (this one)" : ""}`));
    svg.append(element("text", { class: "bar-text", x: WIDE - 2, y: at + 14, "text-anchor": "end", "font-weight": row.here ? 700 : 400 }, row.text));
    if (!Number.isFinite(upper)) return;
    const bar = element("rect", { x: 2, y: at + 20, width: Math.max(2, (WIDE - 4) * lower / largest), height: 12, rx: 3 });
    bar.style.fill = row.here ? "var(--c0)" : "var(--c2)";
    svg.append(bar);
    if (upper > lower) {
      const open = element("rect", { x: 2 + (WIDE - 4) * lower / largest, y: at + 20.5, width: (WIDE - 4) * (upper - lower) / largest, height: 11, "stroke-dasharray": "3 3" });
      open.style.fill = "none";
      open.style.stroke = "var(--c1)";
      svg.append(open);
    }
  });
  table(figure, ["loader", "ε", "remark"], rows.map((r) => [r.label, r.text, r.reason || ""]));
}

function message(figure, text) {
  figure.querySelectorAll(":scope > :not(figcaption)").forEach((old) => old.remove());
  figure.append(html("p", { class: "message" }, text));
}
