// The screen of one attention: a matrix, ribbons or a table, with the chosen word's list and what was measured beside it.

import { bars, make } from "./make.js";
import { LAYERS, pattern } from "./cells.js";
import { attentionOf, hasSteps, highest, palette, scaleOf } from "./data.js";
import { exportBar } from "./export.js";
import { tableView } from "./grid.js";
import { maskedSentence } from "./masks.js";
import { matrixView } from "./matrix.js";
import { measured } from "./measures.js";
import { describe } from "./names.js";
import { layersSvg, matrixSvg, ribbonSvg } from "./pictures.js";
import { best, ribbonView } from "./ribbon.js";
import { number, percent, say } from "./strings.js";
import { countSentences, merged } from "./units.js";

const MOST_LAYERS = 4;

/** Fill the section with one attention of the trace. */
export async function drawAlignment(section, context) {
  const { trace, state, tell, signal } = context, attention = attentionOf(trace, state.attention);
  const sentence = sentenceOf(trace, attention, state), choices = choicesOf(state, sentence);
  const shown = await merged(context, attention, state.head, choices);
  const layers = await layersOf(context, attention, choices);
  if (signal.aborted) return;
  section.replaceChildren();
  const tools = make("div", { class: "tools" }, ...sentencePicker(context, attention, sentence), ...layerPicker(context, attention, layers));
  if (!shown.rows.length || !shown.columns.length) {
    section.append(tools, make("p", {}, say("nothing")));
    return;
  }
  const side = make("aside", {}), holder = make("div", {}), split = make("div", { class: "split" }, holder, side);
  section.append(tools, split);
  split.classList.toggle("alone", state.view === "table" && !Object.keys(trace.numbers).length);
  const scale = scaleOf(shown, scaleName(attention, state)), gold = goldOf(shown, state), words = captionOf(shown);
  fillSide(side, shown, { row: null, gold, state });
  const view = build(context, shown, { holder, scale, gold, layers, pick: picker(context, shown, { side, gold }), words });
  holder.append(view.element);
  if (state.view === "matrix") {
    holder.append(layers.length > 1 ? layerLegend(shown, layers) : legend(shown, scaleName(attention, state)));
    split.classList.add("close"); // the room is measured: now the list may stand beside the picture, however narrow that is
  }
  holder.append(make("p", { class: "note", id: "strongest" }, strongest(shown)), exporter(context, shown, { scale, layers, words }));
  if (state.view === "table") tell(words);
  else tell(say("prompt"), { hint: true });
  restore(shown, view, state);
}

function build(context, shown, { holder, scale, gold, layers, pick, words }) {
  const { trace, state, change } = context, keyed = hasSteps(trace, shown.attention);
  if (state.view === "table") return tableView(shown, words, best);
  if (state.view === "ribbon") return ribbonView(shown, scale, { pick });
  const open = (row) => { if (keyed) change(stepOf(shown, row, state), { step: true }); };
  const unfold = (name, unit) => change({ unfolded: toggle(state.unfolded, name, unit.word), at: "" });
  const zoomed = (cell) => change({ zoom: String(cell) }, { quiet: true });
  return matrixView(shown, scale, { room: holder.clientWidth || 600, gold, pick, open, keyed, unfold, layers, zoom: Number(state.zoom) || 0, zoomed });
}

/** What happens when the reader points at a cell; `kept` if it stays chosen. */
function picker({ tell, change, state }, shown, { side, gold }) {
  return (row, column, kept) => {
    tell(cellSentence(shown, row, column));
    if (!kept) return;
    fillSide(side, shown, { row, gold, state });
    change({ at: `${row},${column}` }, { quiet: true });
  };
}

/** How the weights are put together, as the state has it. */
function choicesOf(state, sentence) {
  return { level: state.level, specials: state.specials === "1", share: state.share === "1", unfolded: state.unfolded, sentence };
}

/** Lines of self-attention are coloured each by itself unless asked otherwise: one strong cell would make all others white. */
export function scaleName(attention, { scale }) {
  if (scale !== "auto") return scale;
  return attention.query === attention.key || attention.key === "fed" ? "row" : "max";
}

/** The sentence that is shown, or null for all; long texts begin with their first. */
function sentenceOf(trace, attention, { sentence }) {
  if (sentence === "all") return null;
  const { count, long } = countSentences(trace, attention);
  if (sentence === "") return long ? 0 : null;
  return Math.min(count - 1, Math.max(0, Math.trunc(Number(sentence)) || 0));
}

/** Buttons to go from sentence to sentence. */
function sentencePicker({ trace, change }, attention, sentence) {
  const { count } = countSentences(trace, attention);
  if (count < 2) return [];
  const go = (to) => change({ sentence: to, at: "" });
  const button = (text, name, to, off) => make("button", { type: "button", "aria-label": say(name), disabled: off, onclick: () => go(to) }, text);
  const words = sentence === null ? say("all_sentences", { n: count }) : say("one_sentence", { n: sentence + 1, all: count });
  const other = sentence === null ? ["0", "by_sentence"] : ["all", "together"];
  return [make("div", { class: "sentences", role: "group", "aria-label": say("sentences") },
    button("‹", "sentence_before", String((sentence ?? 1) - 1), !sentence),
    make("span", {}, words),
    button("›", "sentence_after", String((sentence ?? -1) + 1), sentence === count - 1),
    make("button", { type: "button", onclick: () => go(other[0]) }, say(other[1])))];
}

/** Heads that are laid over one another, with their numbers, colours and patterns. */
async function layersOf(context, attention, choices) {
  const heads = context.state.view === "matrix" ? overlaid(context.state, attention) : [];
  if (heads.length < 2) return [];
  return Promise.all(heads.map(async (head, n) => {
    const shown = await merged(context, attention, head, choices);
    return { head, values: shown.values, scale: scaleOf(shown, scaleName(attention, context.state)), style: LAYERS[n] };
  }));
}

function overlaid({ over }, attention) {
  const heads = over.split(",").filter(Boolean).map(Number).filter((head) => head >= 0 && head < attention.heads.length);
  return [...new Set(heads)].slice(0, MOST_LAYERS);
}

/** Boxes to lay up to four heads over one another. */
function layerPicker({ state, change }, attention) {
  if (attention.heads.length < 2 || state.view !== "matrix") return [];
  const chosen = overlaid(state, attention);
  const boxes = attention.heads.map((_, head) => {
    const box = make("input", {
      type: "checkbox", name: `over-${head}`, checked: chosen.includes(head), disabled: !chosen.includes(head) && chosen.length >= MOST_LAYERS,
      onchange: () => change({ over: (box.checked ? [...chosen, head] : chosen.filter((other) => other !== head)).join(",") }),
    });
    return make("label", { class: "check" }, box, say("nth", { n: head }));
  });
  return [make("details", { class: "over-heads", open: chosen.length > 0 }, make("summary", {}, say("over")), make("div", { class: "boxes" }, ...boxes))];
}

/** The cell the address names, if the matrix has it. */
function restore(shown, view, state) {
  const [row, column] = state.at.split(",").map(Number);
  if (state.at && view.select && row < shown.rows.length && column < shown.columns.length) view.select(row, column);
  else view.draw?.();
}

function toggle(unfolded, side, word) {
  const name = `${side[0]}${word}`, parts = unfolded.split(".").filter(Boolean);
  return (parts.includes(name) ? parts.filter((part) => part !== name) : [...parts, name]).join(".");
}

function stepOf(shown, row, state) {
  const head = state.head === "mean" ? "0" : state.head;
  return { screen: "inside", attention: shown.attention.name, head, token: String(shown.rows[row].places[0]) };
}

function captionOf(shown) {
  const { name, query, key } = shown.attention;
  return say("caption", { name: describe(name, shown.trace), queries: say(query, {}, "side"), keys: say(key, {}, "side") });
}

function cellSentence(shown, row, column) {
  const place = row * shown.columns.length + column, value = shown.values[place];
  if (shown.masked?.[place]) return maskedSentence(shown, row, column);
  const text = say("cell", { query: shown.rows[row].text, key: shown.columns[column].text, percent: percent(value), value: number(value, 4) });
  return best(shown, row) === column ? `${text} ${say("best")}` : text;
}

/** The three strongest links in one sentence, for those who do not see the picture. */
function strongest(shown) {
  const width = shown.columns.length;
  const links = highestThree(shown.values).map((place) => say("link", {
    query: shown.rows[Math.floor(place / width)].text, key: shown.columns[place % width].text, percent: percent(shown.values[place]),
  }));
  return say("strongest", { links: links.join(", ") });
}

/** The places of the three highest numbers, without sorting all of them. */
export function highestThree(values) {
  const top = [];
  let least = 0; // what a number has to exceed
  for (let place = 0; place < values.length; place++) {
    if (!(values[place] > least)) continue;
    top.push(place);
    top.sort((one, other) => values[other] - values[one]);
    top.length = Math.min(3, top.length);
    if (top.length === 3) least = values[top[2]];
  }
  return top;
}

/** Links made by hand, as boxes around rows and columns; they join words read to words written. */
function goldOf(shown, state) {
  if (state.level === "subword" || shown.attention.query !== "target" || shown.attention.key !== "source") return [];
  const places = (units, word) => units.flatMap((unit, n) => (!unit.special && unit.word === word ? [n] : []));
  return shown.trace.gold
    .map(([read, written, sure]) => ({ rows: places(shown.rows, written), columns: places(shown.columns, read), sure }))
    .filter(({ rows, columns }) => rows.length && columns.length);
}

function fillSide(side, shown, { row, gold, state }) {
  side.replaceChildren();
  if (row !== null) {
    const width = shown.columns.length, query = shown.rows[row].text;
    const order = shown.columns.map((unit, c) => ({ word: unit.text, share: shown.values[row * width + c] })).filter((_, c) => !shown.masked?.[row * width + c]);
    order.sort((a, b) => b.share - a.share);
    const listed = order.slice(0, 6);
    if (state.share === "0" && shown.hidden[row] > 0.0005) listed.push({ word: say("hidden"), share: shown.hidden[row] });
    side.append(make("h2", {}, say("looked", { query })), bars(listed.map((entry) => ({ ...entry, text: percent(entry.share) }))));
  }
  side.append(...measured(shown.trace));
  if (gold.length && state.view === "matrix") side.append(make("p", { class: "note" }, say("links")));
  side.hidden = !side.children.length;
}

/** What the colours mean. */
function legend(shown, scale) {
  const colours = palette(shown.trace), steps = [];
  for (let i = 0; i < 256; i += 15) steps.push(`rgb(${colours[3 * i]} ${colours[3 * i + 1]} ${colours[3 * i + 2]})`);
  const ramp = make("i", { "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, ${steps.join(",")})`;
  const top = scale === "full" ? 1 : highest(shown.values);
  const end = scale === "row" ? say("row_top") : number(top, 2) + (scale === "root" ? ` (${say("root")})` : "");
  const hatched = shown.masked ? [make("i", { class: "hatched", "aria-hidden": "true" }), make("span", {}, say("hatched"))] : [];
  return make("div", { class: "ramp" }, make("span", {}, number(0, 2)), ramp, make("span", {}, end), ...hatched);
}

/** Which colour and pattern is which head. */
function layerLegend(shown, layers) {
  const hidden = shown.masked ? [make("li", {}, make("i", { class: "hatched", "aria-hidden": "true" }), say("hatched"))] : [];
  return make("ul", { class: "layers" }, ...layers.map(({ head, style }) => {
    const canvas = make("canvas", { width: 24, height: 16, "aria-hidden": "true" }), context = canvas.getContext("2d");
    context.fillStyle = pattern(context, style);
    context.fillRect(0, 0, 24, 16);
    return make("li", {}, canvas, say("nth", { n: head }));
  }), ...hidden);
}

/** The numbers as they are, without the rounding of the screen; those of every head that is laid over the others. */
function exporter(context, shown, { scale, layers, words }) {
  const { trace, attention } = shown, several = layers.length > 1;
  const heads = several ? layers : [{ head: context.state.head, values: shown.values }];
  const head = heads.map((layer) => layer.head).join("+");
  const exact = (value, place) => (shown.masked?.[place] ? null : Number(value.toPrecision(7)));
  const table = ({ values }) => {
    const cells = [...values].map(exact), width = shown.columns.length;
    return shown.rows.map((_, r) => cells.slice(r * width, (r + 1) * width));
  };
  const texts = (units) => units.map((unit) => unit.text), said = (cell) => cell ?? say("masked_cell");
  const common = { model: trace.model, attention: attention.name, level: context.state.level, rows: texts(shown.rows), columns: texts(shown.columns) };
  const matrix = () => [["", ...common.columns], ...table(heads[0]).map((line, r) => [common.rows[r], ...line.map(said)])];
  const pairs = () => {
    const tables = heads.map(table), lines = common.rows.flatMap((query, r) => common.columns.map((key, c) => [query, key, ...tables.map((each) => said(each[r][c]))]));
    return [["query", "key", ...heads.map((layer) => `head ${layer.head}`)], ...lines];
  };
  const draw = context.state.view === "ribbon" ? ribbonSvg : matrixSvg;
  return exportBar(context, `${attention.name}-${head}`, {
    rows: several ? pairs : matrix,
    json: () => (several ? { ...common, heads: heads.map((layer) => ({ head: layer.head, weights: table(layer) })) } : { ...common, head, weights: table(heads[0]) }),
    svg: () => (several ? layersSvg(shown, layers, words) : draw(shown, scale, words)),
  });
}
