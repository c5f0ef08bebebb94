// The screen of a graph: a node in the middle of those it looked at, the thicker the line the more it took along it.

import { bars, make, moved } from "./make.js";
import { attentionOf, printing, weightsOf } from "./data.js";
import { exportBar, fromSvg } from "./export.js";
import { neighbourhood } from "./neighbourhood.js";
import { number, percent, say } from "./strings.js";

const LISTED = 400; // edges in the table, at most
const WIDEST = 704, BESIDE = 18.5; // pixels of the drawing; rems of what stands beside it

/** Fill the section with the neighbourhood of a node. */
export async function drawGraph(section, context) {
  const { trace, state, change, tell, signal } = context, attention = attentionOf(trace, state.attention);
  const shown = await edgesOf(context, attention, state.head);
  const others = (await Promise.all(trace.attentions.filter((one) => one !== attention).map((one) => edgesOf(context, one, "mean")))).flat();
  if (signal.aborted) return;
  const sentence = (edge) => describe(trace, edge);
  const place = Math.min(Math.max(0, Math.trunc(Number(state.at)) || 0), shown.length - 1);
  const pick = (n) => change({ at: String(n) });
  tell(sentence(shown[place]));
  const scrolled = section.querySelector(".tall")?.scrollTop ?? 0;
  const drawn = neighbourhood({ trace, shown, place, others, size: room(section), pick, sentence });
  const left = make("div", {}, drawn.element, legend(trace), make("p", { class: "note" }, leftOut(drawn, shown)),
    make("p", { class: "note", id: "strongest" }, strongest(shown)), table({ trace, shown, place, pick }), exporter(context, shown, drawn.element));
  section.replaceChildren(make("div", { class: "split" }, left, side(trace, shown, shown[place].looking)));
  section.querySelector(".tall").scrollTop = scrolled;
}

/** What the page is about, in the reader's language. */
export function headline(trace) {
  const [label, share] = trace.facts.answers[0];
  return { text: say("one_node", { node: trace.items.asked[0].text }), answer: `${label} (${percent(share)})` };
}

/** Pixels across that the drawing has; known before anything is taken away, so that the reader's place on the page is kept. */
function room(section) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const alone = printing() || matchMedia("(max-width: 48rem)").matches;
  return Math.max(240, Math.min(WIDEST, section.clientWidth - (alone ? 0 : BESIDE * rem)));
}

/** Every edge of one attention with its weight, those of each node that looks together, the strongest first. */
async function edgesOf(context, attention, head) {
  const weights = await weightsOf(context, attention, head), [rows, columns] = attention.shape;
  const [queries, keys] = [context.trace.items[attention.query], context.trace.items[attention.key]];
  const found = [];
  for (let row = 0; row < rows; row++) {
    const line = [...weights.subarray(row * columns, (row + 1) * columns)]
      .map((weight, column) => ({ looking: queries[row].text, looked: keys[column].text, weight }))
      .filter((edge) => edge.weight > 0).sort((one, other) => other.weight - one.weight);
    found.push(...line.map((edge) => ({ ...edge, equal: 1 / line.length })));
  }
  return found;
}

/** The three strongest edges in one sentence, for those who do not see the drawing. */
function strongest(shown) {
  const order = [...shown].sort((one, other) => other.weight - one.weight).slice(0, 3);
  return say("strongest", { links: order.map(({ looking, looked, weight }) => say("link", { query: looking, key: looked, percent: percent(weight) })).join(", ") });
}

/** Every edge with its number, and the drawing. */
function exporter(context, shown, drawn) {
  const { trace, state } = context, exact = (value) => Number(value.toPrecision(7)), { name } = attentionOf(trace, state.attention);
  const lines = shown.map(({ looking, looked, weight, equal }) => [looking, looked, exact(weight), exact(equal)]);
  return exportBar(context, `${name}-${state.head}`, {
    rows: () => [["node", "looked at", "weight", "equal"], ...lines],
    json: () => ({ model: trace.model, attention: name, head: state.head, edges: lines.map(([node, looked, weight, equal]) => ({ node, looked, weight, equal })) }),
    svg: () => fromSvg(drawn, ["stroke", "stroke-width", "fill", "opacity", "font-size", "paint-order", "stroke-linecap"]),
  });
}

function describe(trace, edge) {
  const known = trace.graph.told[edge.looked];
  const words = {
    query: edge.looking, key: edge.looked, percent: percent(edge.weight), value: number(edge.weight, 4),
    answer: known?.answer ?? "", equal: percent(edge.equal),
  };
  return say(edge.looking === edge.looked ? "own_edge" : "edge", words);
}

function leftOut({ lines, faint, unnamed }, shown) {
  const drawn = say("drawn_edges", { n: lines, all: shown.length });
  return [drawn, ...(faint ? [say("faint")] : []), ...(unnamed ? [say("unnamed")] : [])].join(" ");
}

function legend(trace) {
  return make("ul", { class: "classes", "aria-label": say("answered_graph") }, ...Object.entries(trace.graph.classes).map(([name, shade]) => {
    const dot = make("i", { "aria-hidden": "true" });
    dot.style.background = shade;
    return make("li", {}, dot, name);
  }));
}

function table({ trace, shown, place, pick }) {
  const names = ["looking", "looked", "weight", "equal", "answered", "known"];
  const listed = shown.slice(0, LISTED);
  const chosen = (n) => pick(n).then(() => document.querySelector(`[data-pick="${n}"]`)?.focus());
  const rows = listed.map((edge, n) => {
    const known = trace.graph.told[edge.looked] ?? {};
    const button = make("button", {
      type: "button", tabindex: n === Math.min(place, LISTED - 1) ? "0" : "-1", "aria-pressed": String(n === place), "data-pick": n,
      onclick: () => chosen(n),
      onkeydown: (event) => {
        const next = moved(event, n, listed.length);
        if (next === null) return;
        event.preventDefault();
        chosen(next);
      },
    }, edge.looked);
    return make("tr", { class: n === place ? "picked" : false }, make("th", { scope: "row" }, edge.looking), make("td", {}, button),
      make("td", {}, number(edge.weight, 4)), make("td", {}, number(edge.equal, 4)), make("td", {}, known.answer ?? ""), make("td", {}, known.label ?? ""));
  });
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, say(`${name}_graph`))));
  const rest = shown.length > LISTED ? [make("p", { class: "note" }, say("more_edges", { n: shown.length - LISTED }))] : [];
  return make("div", {}, make("div", { class: "scroll tall", role: "group", "aria-label": say("edges") },
    make("table", { id: "edges" }, make("caption", {}, say("edges")), make("thead", {}, head), make("tbody", {}, ...rows))), ...rest);
}

/** The answers, those of the controls, and how evenly the node looked around. */
function side(trace, shown, node) {
  const answers = (trace.facts.answers ?? []).map(([word, share], n) => ({ word, share, text: percent(share), written: n === 0 }));
  const controls = Object.entries(trace.facts.controls ?? {}).map(([name, [label, share]]) =>
    make("tr", {}, make("th", { scope: "row" }, say(`${name}_control`)), make("td", {}, `${label} (${percent(share)})`)));
  const own = shown.filter((edge) => edge.looking === node);
  const bits = own.reduce((sum, edge) => sum - edge.weight * Math.log2(edge.weight), 0);
  const spread = { node, many: number(2 ** bits, 1), all: own.length };
  return make("aside", {}, make("h2", {}, say("answers")), bars(answers),
    ...(controls.length ? [make("h2", {}, say("controls_graph")), make("table", { id: "controls-graph" }, make("tbody", {}, ...controls))] : []),
    make("h2", {}, say("spread_graph")), make("p", { id: "spread" }, say("spread", spread)), make("p", { class: "note" }, say("rings")));
}
