// The screen of one step: one head at one token, number by number, made again here and compared with the model's.

import { bars, make, moved } from "./make.js";
import { attentionOf, hasSteps } from "./data.js";
import { exportBar } from "./export.js";
import { help } from "./glossary.js";
import { named } from "./names.js";
import { stepSvg } from "./pictures.js";
import { productsOf, recompute, vectorsOf } from "./score.js";
import { strip } from "./strip.js";
import { number, percent, say, withMinus } from "./strings.js";
import { walkThrough } from "./walk.js";

/** Fill the section with the arithmetic of one head at one token. */
export async function drawInside(section, context) {
  const { trace, source, state, tell, signal } = context, attention = attentionOf(trace, state.attention);
  if (!hasSteps(trace, attention)) return section.replaceChildren(make("p", {}, say("stepless")));
  if (source.live) await source.steps(trace, attention.name, { signal });
  const inside = trace.steps[attention.name], items = trace.items[attention.key], queries = trace.items[attention.query];
  const head = state.head === "mean" ? 0 : Number(state.head);
  const place = Math.min(queries.length - 1, Math.max(0, Number(state.token) || 0));
  const [vectors, weights] = await Promise.all([vectorsOf(context, inside, head), source.tensor(attention.heads[head], { signal })]);
  if (signal.aborted) return;
  const step = recompute(inside, vectors, place, items.length);
  const shown = {
    inside, vectors, place, items, step, token: visible(queries[place].text), attention, trace, head,
    model: weights.subarray(place * items.length, (place + 1) * items.length),
    products: (k) => productsOf(inside, vectors, place, k),
  };
  shown.pair = pairOf(state, shown);
  const stages = stagesOf(shown, context);
  tell(say("stepped", { token: shown.token }));
  const list = make("ol", { class: "steps" }, ...stages.map(({ element }) => element));
  section.replaceChildren(walkThrough(stages, context), list, make("p", { class: "note" }, named(attention.name, trace)),
    everything(shown), exporter(context, shown));
  section.querySelectorAll("canvas.strip").forEach((canvas) => canvas.paint());
}

/** The text of a token; of one that is nothing but a space, a sign for it. */
export function visible(text) {
  return text.trim() || "␣";
}

/** The key whose product with the query is shown: the one in the address, or the strongest. */
function pairOf({ pair }, { items, step }) {
  const asked = Number(pair);
  if (pair !== "" && asked >= 0 && asked < items.length) return asked;
  return step.weights.reduce((most, weight, k) => (weight > step.weights[most] ? k : most), 0);
}

/** What happens one after the other, each with a sentence that says it aloud. */
function stagesOf(shown, context) {
  const { step, inside, items, attention, trace, token } = shown, { tell } = context;
  const note = (text) => make("p", { class: "note" }, text);
  const stage = (name, title, words, ...rest) => ({ element: make("li", { "data-stage": name }, make("h2", {}, title, " ", help(name)), ...rest), sentence: words });
  const length = Math.sqrt(step.output.reduce((sum, value) => sum + value * value, 0));
  const best = pairOf({ pair: "" }, shown), gaps = { token, key: visible(items[best].text), percent: percent(step.weights[best]) };
  const masked = step.seen.reduce((count, seen) => count + (seen ? 0 : 1), 0);
  const table = ledger(shown, context);
  const stages = [
    stage("query", say("query", { token }), say("walk_query", gaps), strip("q", step.query, tell), note(say("queried", { n: step.query.length }, attention.query))),
    stage("score", say("scores"), say("walk_score", gaps), scored(inside), product(shown, context), table, verdict(inside, step, { model: shown.model, rounded: trace.rounded })),
    stage("scaled", say("scale_stage"), say("walk_scale", gaps), note(say(inside.scale === 1 ? "unscaled" : "scaled_by", { scale: number(inside.scale, 4) }))),
    stage("mask", say("mask_stage"), say(masked ? "walk_mask" : "walk_unmasked", { n: masked }), note(say(masked ? "walk_mask" : "walk_unmasked", { n: masked }))),
    stage("softmax", say("softmax_stage"), say("walk_softmax", gaps), bars(topShares(step, items))),
    stage("sum", say("sum"), say("walk_sum", gaps), note(say("summed", { n: step.sum.length })), strip("∑", step.sum, tell)),
    stage("projection", say("output"), say("walk_projection", gaps), note(say("projected", { length: number(length) })), strip("o", step.output, tell)),
  ];
  const prediction = attention.query === trace.predicted ? trace.predictions[shown.place] : null;
  if (prediction) {
    const written = { token: visible(prediction.written), percent: percent(prediction.probability) };
    stages.push(stage("probability", say("next", {}, trace.predicted), say("walk_next", written, trace.predicted), ...candidates(prediction, trace)));
  }
  return stages;
}

function topShares(step, items) {
  const order = [...step.weights.keys()].sort((one, other) => step.weights[other] - step.weights[one]).slice(0, 5);
  return order.map((k) => ({ word: visible(items[k].text), share: step.weights[k], text: percent(step.weights[k]) }));
}

function pretty(formula) {
  return formula.replaceAll(" . ", " · ").replace(/sqrt\((\d+)\)/, "√$1");
}

function scored(inside) {
  return make("p", { class: "note" }, say("scored", { formula: pretty(inside.formula) }));
}

/** The query, one key, and what each feature adds to the score: their products, one by one. */
function product(shown, { tell }) {
  const { inside, step, pair, items, token } = shown, parts = shown.products(pair);
  if (!parts) return "";
  const key = visible(items[pair].text), names = inside.kind === "dot" ? ["q", "k", "q × k"] : ["q", "k", inside.kind === "additive" ? "v · tanh(q + k)" : "q + k"];
  const row = (name, numbers, label) => make("div", { class: "product" }, make("span", { class: "formula" }, name), make("div", {}, strip(name, numbers, tell, { label })));
  return make("div", { id: "product", "data-sum": parts.products.reduce((sum, value) => sum + value, 0) },
    make("p", { class: "note" }, say("product", { token, key, n: parts.products.length, raw: number(step.raw[pair]) })),
    row(names[0], parts.left, say("of", { name: "q", token })), row(names[1], parts.right, say("of", { name: "k", token: key })),
    row(names[2], parts.products, names[2]));
}

/** A line per key, in the order in which the model computes. */
function ledger(shown, { tell, change }) {
  const { step, items, model, pair } = shown;
  const names = ["key", "vector", "raw", "scaled", ...(step.bias ? ["bias"] : []), "mask", "softmax", "weight", "value"];
  const lines = items.map((item, k) => {
    const text = visible(item.text), share = step.weights[k], full = make("b");
    full.style.width = `${100 * share}%`;
    const cells = [
      make("td", {}, strip("k", step.key(k), tell, { label: say("of", { name: "k", token: text }), small: true })),
      make("td", {}, number(step.raw[k])), make("td", {}, number(step.scaled[k])),
      ...(step.bias ? [make("td", {}, number(step.bias[k]))] : []),
      make("td", { class: step.seen[k] ? false : "masked" }, say(step.seen[k] ? "seen" : "masked")),
      make("td", {}, number(share, 4), " ", make("span", { class: "meter", "aria-hidden": "true" }, full)),
      make("td", {}, number(model[k], 4)),
      make("td", {}, strip("v", step.value(k), tell, { label: say("of", { name: "v", token: text }), small: true })),
    ];
    const words = step.seen[k]
      ? say("line", { key: text, raw: number(step.raw[k]), scaled: number(step.scaled[k]), percent: percent(share), value: number(share, 4) })
      : say("unseen", { key: text });
    const choose = () => change({ pair: String(k) }).then(() => document.querySelectorAll("#ledger tbody tr")[k]?.focus());
    return make("tr", {
      class: step.seen[k] ? "row" : "row unseen", tabindex: k === pair ? "0" : "-1", "aria-selected": String(k === pair),
      onfocus: () => tell(words), onclick: choose, onkeydown: (event) => walk(event, k, lines, choose),
    }, make("th", { scope: "row", dir: "auto" }, text), ...cells);
  });
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, say(name))));
  return make("div", { class: "scroll" }, make("table", { id: "ledger", role: "grid", "aria-label": say("ledger") }, make("thead", {}, head), make("tbody", {}, ...lines)));
}

function walk(event, k, lines, choose) {
  if (event.target !== lines[k]) return;
  if (event.key === "Enter") return choose();
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
    say(words, { difference: withMinus(difference.toExponential(0)) }));
}

function candidates(prediction, trace) {
  const gaps = { token: visible(prediction.written), percent: percent(prediction.probability), rank: prediction.rank + 1 };
  const text = say("predicted", gaps, trace.predicted);
  const entries = prediction.top.map(([word, share]) => ({
    word: word.trim() ? word.replace(/^ /, "␣") : "␣", share, text: percent(share), written: word === prediction.written,
  }));
  return [make("p", { class: "note" }, text), bars(entries)];
}

/** Every vector with its name. */
function vectorsWithNames({ step, items, token }) {
  const of = (name, item) => say("of", { name, token: visible(item.text) });
  return [
    [say("of", { name: "q", token }), step.query],
    ...items.map((item, k) => [of("k", item), step.key(k)]), ...items.map((item, k) => [of("v", item), step.value(k)]),
    ["∑", step.sum], ["o", step.output],
  ];
}

/** Every vector as a line of numbers, made only when somebody opens it. */
function everything(shown) {
  const details = make("details", {}, make("summary", {}, say("vectors")));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    const body = vectorsWithNames(shown).map(([name, numbers]) =>
      make("tr", {}, make("th", { scope: "row" }, name), ...Array.from(numbers, (value) => make("td", {}, number(value)))));
    details.append(make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": say("vectors") },
      make("table", {}, make("tbody", {}, ...body))));
  });
  return details;
}

/** The ledger as numbers, and as bars in a drawing. */
function exporter(context, shown) {
  const { step, items, model, attention, head, place, token } = shown;
  const exact = (value) => Number(value.toPrecision(7));
  const lines = items.map((item, k) => [visible(item.text), exact(step.raw[k]), exact(step.scaled[k]), step.bias ? exact(step.bias[k]) : 0,
    step.seen[k] ? 1 : 0, exact(step.weights[k]), exact(model[k])]);
  return exportBar(context, `${attention.name}-${head}-step-${place}`, {
    rows: () => [["token", "score", "scaled", "bias", "visible", "softmax", "model"], ...lines],
    json: () => ({
      model: context.trace.model, attention: attention.name, head, place, token, formula: shown.inside.formula,
      keys: lines.map(([key, raw, scaled, bias, seen, softmax, weight]) => ({ key, raw, scaled, bias, visible: Boolean(seen), softmax, model: weight })),
      vectors: Object.fromEntries(vectorsWithNames(shown).map(([name, numbers]) => [name, Array.from(numbers, exact)])),
    }),
    svg: () => stepSvg(lines.map(([key, , , , , softmax]) => [key, softmax]), say("stepped", { token })),
  });
}
