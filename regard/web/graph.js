// The screen of a graph: a node in the middle of those it looked at, the thicker the line the more it took along it.

import { bars, make } from "./make.js";
import { attentionOf, page, weightsOf } from "./data.js";
import { change, state } from "./state.js";
import { number, percent, say } from "./strings.js";

const SVG = new DOMParser().parseFromString("<svg>", "text/html").body.firstChild.namespaceURI;
const SIZE = 640; // units on a side of the drawing
const RADII = [26, 18, 10]; // of nodes, ring by ring
const LISTED = 400; // edges in the table, at most

/** Fills the section; `tell` writes into the live line. */
export function drawGraph(section, tell) {
  const shown = edgesOf(attentionOf(state.attention), state.head);
  const place = Math.min(Math.max(0, Number(state.at) || 0), shown.length - 1);
  tell(sentence(shown[place]));
  section.replaceChildren(make("div", { class: "split" }, make("div", {}, drawing(shown, place), legend(), table(shown, place)), side()));
}

/** Every edge of one attention with its weight, those of each node that looks together, the strongest first. */
function edgesOf(attention, head) {
  const weights = weightsOf(attention, head), [rows, columns] = attention.shape;
  const [queries, keys] = [page.items[attention.query], page.items[attention.key]];
  const found = [];
  for (let row = 0; row < rows; row++) {
    const line = [...weights.subarray(row * columns, (row + 1) * columns)].map((weight, column) => ({ looking: queries[row].text, looked: keys[column].text, weight }));
    found.push(...line.filter((edge) => edge.weight > 0).sort((one, other) => other.weight - one.weight));
  }
  return found;
}

function sentence(edge) {
  const known = page.graph.told[edge.looked];
  const words = { query: edge.looking, key: edge.looked, percent: percent(edge.weight), value: number(edge.weight, 4), answer: known?.answer ?? "" };
  return say(edge.looking === edge.looked ? "own_edge" : "edge", words);
}

function svg(tag, given, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function drawing(shown, place) {
  const at = new Map(page.graph.nodes.map((node) => [node.text, node]));
  const across = (x) => (SIZE / 2) * (1 + x / 2.3), down = (y) => (SIZE / 2) * (1 - y / 2.3);
  const lines = shown.flatMap((edge, n) => {
    const [one, other] = [at.get(edge.looking), at.get(edge.looked)];
    if (!one || !other || one === other) return [];
    return [svg("line", {
      x1: across(one.x), y1: down(one.y), x2: across(other.x), y2: down(other.y), "data-edge": n, "data-weight": edge.weight,
      class: n === place ? "edge chosen" : "edge", "stroke-width": 0.5 + 14 * edge.weight,
    })];
  });
  const dots = page.graph.nodes.flatMap((node) => {
    const [x, y] = [across(node.x), down(node.y)];
    const off = node.ring === 2 ? 20 : 0;
    const turn = Math.hypot(node.x, node.y) || 1;
    return [
      svg("circle", { cx: x, cy: y, r: RADII[node.ring], fill: node.colour }),
      svg("text", { x: x + (off * node.x) / turn, y: y - (off * node.y) / turn, "text-anchor": "middle", "dominant-baseline": "central" }, node.text),
    ];
  });
  const words = { node: page.items.asked[0].text, n: page.graph.nodes.length - 1 };
  return svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", class: "neighbourhood", "aria-label": say("around", words) }, ...lines, ...dots);
}

function legend() {
  return make("ul", { class: "classes" }, ...Object.entries(page.graph.classes).map(([name, shade]) => {
    const dot = make("i", { "aria-hidden": "true" });
    dot.style.background = shade;
    return make("li", {}, dot, name);
  }));
}

function table(shown, place) {
  const names = ["looking", "looked", "weight", "answered", "known"];
  const rows = shown.slice(0, LISTED).map((edge, n) => {
    const known = page.graph.told[edge.looked] ?? {};
    const pick = make("button", { type: "button", "aria-pressed": String(n === place), "data-pick": n, onclick: () => {
      change({ at: String(n) });
      document.querySelector(`[data-pick="${n}"]`)?.focus();
    } }, edge.looked);
    return make("tr", { class: n === place ? "picked" : false }, make("th", { scope: "row" }, edge.looking), make("td", {}, pick),
      make("td", {}, number(edge.weight, 4)), make("td", {}, known.answer ?? ""), make("td", {}, known.label ?? ""));
  });
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, say(`${name}_graph`))));
  const left = shown.length > LISTED ? [make("p", { class: "note" }, say("more_edges", { n: shown.length - LISTED }))] : [];
  return make("div", {}, make("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": say("edges") },
    make("table", {}, make("caption", {}, say("edges")), make("thead", {}, head), make("tbody", {}, ...rows))), ...left);
}

function side() {
  const answers = (page.facts.answers ?? []).map(([word, share], n) => ({ word, share, text: percent(share), written: n === 0 }));
  return make("aside", {}, make("h2", {}, say("answers")), bars(answers), make("p", { class: "note" }, say("rings")));
}
