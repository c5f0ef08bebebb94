// The third screen: one head at one token, number by number, made again here and compared with the model's.

import { bars, colour, make, moved, sharp } from "./make.js";
import { attentionOf, hasSteps } from "./data.js";
import { recompute, vectorsOf } from "./score.js";
import { number, percent, say } from "./strings.js";

/** Fill the section with the arithmetic of one head at one token. */
export async function drawInside(section, context) {
  const { trace, source, state, tell, signal } = context, attention = attentionOf(trace, state.attention);
  if (!hasSteps(trace, attention)) return section.replaceChildren(make("p", {}, say("stepless")));
  if (source.live) await source.steps(trace, attention.name, { signal });
  const inside = trace.steps[attention.name];
  const items = trace.items[attention.key], queries = trace.items[attention.query];
  const head = state.head === "mean" ? 0 : Number(state.head);
  const place = Math.min(queries.length - 1, Math.max(0, Number(state.token) || 0));
  const token = visible(queries[place].text);
  const [vectors, weights] = await Promise.all([vectorsOf(context, inside, head), source.tensor(attention.heads[head], { signal })]);
  if (signal.aborted) return;
  const step = recompute(inside, vectors, place, items.length);
  const model = weights.subarray(place * items.length, (place + 1) * items.length);
  const stage = (title, ...rest) => make("li", {}, make("h2", {}, title), ...rest);
  const note = (text) => make("p", { class: "note" }, text);
  const length = Math.sqrt(step.output.reduce((sum, value) => sum + value * value, 0));
  const stages = [
    stage(say("query", { token }), note(say("queried", { n: step.query.length }, attention.query)), strip("q", step.query, tell)),
    stage(say("scores"), scored(inside), ledger(step, items, model, tell), verdict(inside, step, { model, rounded: trace.rounded })),
    stage(say("sum"), note(say("summed", { n: step.sum.length })), strip("∑", step.sum, tell)),
    stage(say("output"), note(say("projected", { length: number(length) })), strip("o", step.output, tell)),
  ];
  const prediction = attention.query === trace.predicted ? trace.predictions[place] : null;
  if (prediction) stages.push(stage(say("next", {}, trace.predicted), ...candidates(prediction, trace)));
  tell(say("stepped", { token }));
  section.replaceChildren(make("ol", { class: "steps" }, ...stages), everything(step, items, token));
  section.querySelectorAll("canvas.strip").forEach((canvas) => canvas.paint());
}

/** The text of a token; of one that is nothing but a space, a sign for it. */
export function visible(text) {
  return text.trim() || "␣";
}

function pretty(formula) {
  return formula.replaceAll(" . ", " · ").replace(/sqrt\((\d+)\)/, "√$1");
}

function scored(inside) {
  return make("p", { class: "note" }, say("scored", { formula: pretty(inside.formula) }));
}

/** A vector as small bars, up for plus and down for minus. */
function strip(name, numbers, tell, label = name, small = false) {
  const low = Math.min(...numbers), high = Math.max(...numbers), reach = Math.max(Math.abs(low), Math.abs(high), 1e-9);
  const words = say("strip", { name: label, n: numbers.length, low: number(low), high: number(high) });
  const canvas = make("canvas", { class: "strip", role: "img", "aria-label": words, tabindex: small ? false : "0" });
  let at = -1;
  canvas.paint = () => {
    const room = small ? 120 : Math.min(canvas.parentElement.clientWidth || 320, Math.max(240, 14 * numbers.length));
    const height = small ? 30 : 56, bar = room / numbers.length, context = sharp(canvas, room, height);
    numbers.forEach((value, i) => {
      const size = (value / reach) * (height / 2 - 2);
      context.fillStyle = i === at ? colour("ink") : colour(value < 0 ? "minus" : "bar");
      context.fillRect(i * bar, height / 2 - Math.max(0, size), Math.max(bar - (bar > 4 ? 1 : 0), 0.5), Math.abs(size));
    });
    context.fillStyle = colour("field");
    context.fillRect(0, height / 2, room, 0.5);
  };
  const show = (place) => {
    at = place;
    canvas.paint();
    tell(say("hover", { name: label, place, value: number(numbers[place], 4) }));
  };
  canvas.addEventListener("pointermove", (event) => {
    const part = event.offsetX / canvas.clientWidth;
    show(Math.min(numbers.length - 1, Math.max(0, Math.floor(part * numbers.length))));
  });
  canvas.addEventListener("keydown", (event) => {
    const next = moved(event, at, numbers.length);
    if (next === null) return;
    event.preventDefault();
    show(next);
  });
  return canvas;
}

/** A line per key, in the order in which the model computes. */
function ledger(step, items, model, tell) {
  const names = ["key", "vector", "raw", "scaled", ...(step.bias ? ["bias"] : []), "mask", "softmax", "weight", "value"];
  const lines = items.map((item, k) => {
    const text = visible(item.text), share = step.weights[k];
    const full = make("b");
    full.style.width = `${100 * share}%`;
    const cells = [
      make("td", {}, strip("k", step.key(k), tell, say("of", { name: "k", token: text }), true)),
      make("td", {}, number(step.raw[k])), make("td", {}, number(step.scaled[k])),
      ...(step.bias ? [make("td", {}, number(step.bias[k]))] : []),
      make("td", {}, say(step.seen[k] ? "seen" : "masked")),
      make("td", {}, number(share, 4), " ", make("span", { class: "meter", "aria-hidden": "true" }, full)),
      make("td", {}, number(model[k], 4)),
      make("td", {}, strip("v", step.value(k), tell, say("of", { name: "v", token: text }), true)),
    ];
    const words = step.seen[k]
      ? say("line", { key: text, raw: number(step.raw[k]), scaled: number(step.scaled[k]), percent: percent(share), value: number(share, 4) })
      : say("unseen", { key: text });
    return make("tr", {
      class: step.seen[k] ? "row" : "row unseen", tabindex: k ? "-1" : "0",
      onfocus: () => tell(words), onkeydown: (event) => walk(event, k, lines),
    }, make("th", { scope: "row" }, text), ...cells);
  });
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, say(name))));
  return make("div", { class: "scroll" }, make("table", { id: "ledger" }, make("thead", {}, head), make("tbody", {}, ...lines)));
}

function walk(event, k, lines) {
  if (event.target !== lines[k]) return;
  const next = ["ArrowLeft", "ArrowRight"].includes(event.key) ? null : moved(event, k, lines.length);
  if (next === null) return;
  event.preventDefault();
  lines[k].tabIndex = -1;
  lines[next].tabIndex = 0;
  lines[next].focus();
}

/** How far these weights are from the model's; weights kept in 16 bits cannot be nearer than their rounding. */
function verdict(inside, step, { model, rounded }) {
  if (inside.kind === "given") return make("p", { id: "check" }, say("given"));
  const difference = step.weights.reduce((most, weight, k) => Math.max(most, Math.abs(weight - model[k])), 0);
  const fine = difference < (rounded ? 1e-3 : 1e-4);
  const words = difference === 0 ? "exactly" : fine ? "check" : "differs";
  return make("p", { id: "check", class: fine ? "good" : "bad", "data-difference": difference },
    say(words, { difference: difference.toExponential(0) }));
}

function candidates(prediction, trace) {
  const gaps = { token: visible(prediction.written), percent: percent(prediction.probability), rank: prediction.rank + 1 };
  const text = say("predicted", gaps, trace.predicted);
  const entries = prediction.top.map(([word, share]) => ({
    word: word.trim() ? word.replace(/^ /, "␣") : "␣", share, text: percent(share), written: word === prediction.written,
  }));
  return [make("p", { class: "note" }, text), bars(entries)];
}

/** Every vector as a line of numbers, made only when somebody opens it. */
function everything(step, items, token) {
  const details = make("details", {}, make("summary", {}, say("vectors")));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    const of = (name, item) => say("of", { name, token: visible(item.text) });
    const lines = [
      [say("of", { name: "q", token }), step.query],
      ...items.map((item, k) => [of("k", item), step.key(k)]), ...items.map((item, k) => [of("v", item), step.value(k)]),
      ["∑", step.sum], ["o", step.output],
    ];
    const body = lines.map(([name, numbers]) =>
      make("tr", {}, make("th", { scope: "row" }, name), ...Array.from(numbers, (value) => make("td", {}, number(value)))));
    details.append(make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": say("vectors") },
      make("table", {}, make("tbody", {}, ...body))));
  });
  return details;
}
