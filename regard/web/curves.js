// Curves on a canvas: axes with round numbers, and lines told apart by dash, mark and colour.

import { colour, make, sharp } from "./make.js";
import { say, shortNumber } from "./strings.js";

const FACE = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
const STYLES = [{ colour: "bar", dash: [], mark: false }, { colour: "mark", dash: [7, 4], mark: true }];
const HEIGHT = 190, LEFT = 56, RIGHT = 14, TOP = 10, BOTTOM = 30;

/** A figure with one or two lines, `{name, points: [[step, value], ...]}` each; it keeps its place when it is drawn again. */
export function curveFigure() {
  const caption = make("h3", {}), canvas = make("canvas", { role: "img" }), legend = make("ul", { class: "legend" }), note = make("p", { class: "note", hidden: true });
  const figure = make("figure", { class: "curve" }, caption, canvas, legend, note);
  return { figure, update: (title, lines, thinned) => {
    caption.textContent = title;
    const drawn = lines.filter((line) => line.points.length);
    canvas.setAttribute("aria-label", say("curve_label", { title, lines: drawn.map(sentence).join("; ") || say("curve_none") }));
    legend.replaceChildren(...lines.map((line, n) => make("li", {}, swatch(STYLES[n]), line.name)));
    legend.hidden = lines.length < 2;
    note.textContent = thinned ?? "";
    note.hidden = !thinned;
    paint(canvas, drawn, (line) => STYLES[lines.indexOf(line)]);
  } };
}

function sentence({ name, points }) {
  const values = points.map((point) => point[1]), [from, first] = points[0], [to, last] = points.at(-1);
  return say("line_label", {
    name, from, to, first: shortNumber(first), last: shortNumber(last), lowest: shortNumber(values.reduce((a, b) => Math.min(a, b))), highest: shortNumber(values.reduce((a, b) => Math.max(a, b))),
  });
}

/** A piece of a line as it is drawn, beside its name. */
function swatch(style) {
  const canvas = make("canvas", { "aria-hidden": "true" }), context = sharp(canvas, 34, 12);
  stroke(context, [[2, 6], [32, 6]], style);
  if (style.mark) dot(context, 17, 6, style);
  return canvas;
}

/** Where values lie on the canvas; the test of the pixels reads it from `data-frame`. */
function layout(lines, width) {
  const steps = lines.flatMap((line) => line.points.map((point) => point[0])), values = lines.flatMap((line) => line.points.map((point) => point[1]));
  const x = [steps.reduce((a, b) => Math.min(a, b)), steps.reduce((a, b) => Math.max(a, b))], y = roundRange(values);
  if (x[0] === x[1]) x[1] = x[0] + 1;
  return { left: LEFT, top: TOP, right: width - RIGHT, bottom: HEIGHT - BOTTOM, x, y: [y.low, y.high], gap: y.gap };
}

/** A range that begins and ends with a round number, and the gap between round numbers. */
export function roundRange(values) {
  const lowest = values.reduce((a, b) => Math.min(a, b)), highest = values.reduce((a, b) => Math.max(a, b));
  const spread = highest - lowest || Math.abs(highest) || 1, rough = spread / 4, power = 10 ** Math.floor(Math.log10(rough));
  const gap = power * [1, 2, 5, 10].find((step) => step * power >= rough);
  const low = lowest >= 0 && lowest < spread ? 0 : Math.floor(lowest / gap) * gap;
  return { low, high: Math.max(Math.ceil(highest / gap - 1e-9) * gap, low + gap), gap };
}

function paint(canvas, lines, styleOf) {
  const width = Math.max(240, canvas.parentElement.clientWidth || 320), context = sharp(canvas, width, HEIGHT);
  context.font = FACE;
  if (!lines.length) {
    context.fillStyle = colour("quiet");
    context.fillText(say("curve_none"), LEFT, HEIGHT / 2);
    delete canvas.dataset.frame;
    return;
  }
  const frame = layout(lines, width);
  canvas.dataset.frame = JSON.stringify(frame);
  axes(context, frame);
  for (const line of lines) {
    const places = line.points.map(([step, value]) => placeOf(frame, step, value)), style = styleOf(line);
    stroke(context, places, style);
    if (style.mark || places.length === 1) for (const [x, y] of places) dot(context, x, y, style, places.length > 60 ? 1.5 : 3);
  }
}

function placeOf({ left, top, right, bottom, x, y }, step, value) {
  return [left + ((step - x[0]) / (x[1] - x[0])) * (right - left), bottom - ((value - y[0]) / (y[1] - y[0])) * (bottom - top)];
}

function axes(context, frame) {
  const { left, top, right, bottom, x, y, gap } = frame;
  context.lineWidth = 1;
  context.setLineDash([]);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let n = 0; n <= Math.round((y[1] - y[0]) / gap); n++) {
    const value = y[0] + n * gap, [, at] = placeOf(frame, x[0], value);
    context.strokeStyle = colour("line");
    context.beginPath();
    context.moveTo(left, at);
    context.lineTo(right, at);
    context.stroke();
    context.fillStyle = colour("quiet");
    context.fillText(shortNumber(Math.abs(value) < gap / 1e6 ? 0 : value), left - 6, at);
  }
  context.textBaseline = "top";
  context.textAlign = "left";
  context.fillText(shortNumber(x[0]), left, bottom + 8);
  context.textAlign = "right";
  context.fillText(shortNumber(x[1]), right, bottom + 8);
  context.textAlign = "center";
  context.fillText(say("curve_step"), (left + right) / 2, bottom + 8);
  context.strokeStyle = colour("field");
  context.beginPath();
  context.moveTo(left, top);
  context.lineTo(left, bottom);
  context.lineTo(right, bottom);
  context.stroke();
}

function stroke(context, places, style) {
  context.strokeStyle = colour(style.colour);
  context.lineWidth = 2;
  context.setLineDash(style.dash);
  context.lineJoin = "round";
  context.beginPath();
  places.forEach(([x, y], n) => (n ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
  context.setLineDash([]);
}

function dot(context, x, y, style, radius = 3) {
  context.fillStyle = colour(style.colour);
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}
