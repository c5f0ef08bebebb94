// The drawing of a neighbourhood: nodes in rings, lines as thick as weights, and as many names and numbers as have room.

import { make } from "./make.js";
import { percent, say } from "./strings.js";

const SVG = new DOMParser().parseFromString("<svg>", "text/html").body.firstChild.namespaceURI;
const LARGEST = [26, 18, 10]; // radii of nodes, ring by ring
const LETTERS = 12, DIGITS = 11; // pixels of names and of weights, however narrow the page
const LONGEST = 12; // letters of a name
const ALONG = [0.62, 0.5, 0.74]; // places of a weight on its line, tried in turn
const APART = 3; // pixels between two lines of one pair of nodes that looked at each other

/** The drawing, how many of the edges it shows, whether there are others, and whether names had to be left out. */
export function neighbourhood({ trace, shown, place, others, size, pick, sentence }) {
  const nodes = placed(trace, size), at = new Map(nodes.map((node) => [node.text, node]));
  const faint = others.flatMap((edge) => {
    const [one, other] = [at.get(edge.looking), at.get(edge.looked)];
    const outward = one && other && other.ring === one.ring + 1;
    return outward && !shown.some((each) => joins(each, edge)) ? [svg("line", { ...ends(one, other), class: "faint" })] : [];
  });
  const lines = shown.flatMap((edge, n) => line(edge, n, { at, shown, place, pick, sentence }));
  const dots = nodes.map((node) => dot(node, shown, pick));
  const texts = labels(nodes, lines, { shown, place, size });
  const words = { node: trace.items.asked[0].text, n: nodes.length - 1 };
  const given = { viewBox: `0 0 ${size} ${size}`, width: size, height: size, role: "img", class: "neighbourhood", "aria-label": say("around", words) };
  const named = texts.filter((text) => text.dataset.node !== undefined).length;
  const element = svg("svg", given, ...faint, ...lines.map((one) => one.element), ...dots, ...texts);
  return { element, lines: lines.length, faint: faint.length > 0, unnamed: named < nodes.length };
}

/** Nodes with their pixels: as large as their ring leaves room for, and names outside the last ring. */
function placed(trace, size) {
  const outside = Math.max(0, ...trace.graph.nodes.filter((node) => node.ring === 2).map((node) => width(name(node), LETTERS)));
  const unit = (size / 2 - Math.min(size / 5, outside + LARGEST[2] + 8)) / 2;
  const nodes = trace.graph.nodes.map((node) => ({ ...node, across: size / 2 + unit * node.x, down: size / 2 - unit * node.y }));
  const radii = [Math.min(LARGEST[0], unit / 4), ...[1, 2].map((ring) => Math.min(LARGEST[ring], 0.42 * closest(nodes.filter((node) => node.ring === ring))))];
  return nodes.map((node) => ({ ...node, radius: radii[node.ring] }));
}

function closest(nodes) {
  let least = Infinity;
  nodes.forEach((one, n) => nodes.slice(n + 1).forEach((other) => {
    least = Math.min(least, Math.hypot(one.across - other.across, one.down - other.down));
  }));
  return least;
}

function line(edge, n, { at, shown, place, pick, sentence }) {
  const [one, other] = [at.get(edge.looking), at.get(edge.looked)];
  if (!one || !other) return [];
  const given = { "data-edge": n, class: n === place ? "edge chosen" : "edge", "stroke-width": 0.5 + 14 * edge.weight };
  const back = one !== other && shown.some((each) => each.looking === edge.looked && each.looked === edge.looking);
  const where = one === other
    ? { cx: one.across, cy: one.down, r: one.radius + 2 + (0.5 + 14 * edge.weight) / 2 }
    : ends(one, other, back ? APART : 0);
  const element = svg(one === other ? "circle" : "line", { ...given, ...where }, svg("title", {}, sentence(edge)));
  element.addEventListener("click", () => pick(n));
  return [{ element, where, edge, n, own: one === other }];
}

/** Whether two edges join the same nodes, whoever looks. */
function joins(one, other) {
  return [one.looking, one.looked].sort().join("\n") === [other.looking, other.looked].sort().join("\n");
}

/** From one node to another; `aside` pixels to the left of where one looks. */
function ends(one, other, aside = 0) {
  const [x, y] = [other.across - one.across, other.down - one.down], length = Math.hypot(x, y) || 1;
  const [right, below] = [(aside * y) / length, (-aside * x) / length];
  return { x1: one.across + right, y1: one.down + below, x2: other.across + right, y2: other.down + below };
}

function dot(node, shown, pick) {
  const given = { cx: node.across, cy: node.down, r: node.radius, fill: node.colour, "data-node": node.text, class: "node" };
  const element = svg("circle", given, svg("title", {}, [node.text, node.answer].filter(Boolean).join(": ")));
  const n = shown.findIndex((edge) => edge.looked === node.text);
  if (n >= 0) element.addEventListener("click", () => pick(n));
  return element;
}

/** Names and weights, those that matter most first; one that would cover another is left out. */
function labels(nodes, lines, { shown, place, size }) {
  const taken = [], found = [];
  const put = (box, around, make) => {
    const inside = box.left >= 0 && box.top >= 0 && box.right <= size && box.bottom <= size;
    if (!inside || [...taken, ...around].some((other) => meet(box, other))) return false;
    taken.push(box);
    found.push(make());
    return true;
  };
  const circles = (node) => nodes.filter((each) => each !== node).map((each) => boxOf(each.across, each.down, 2 * each.radius, 2 * each.radius));
  const nameOf = (node) => {
    const { x, y, anchor } = beside(node), box = boxOf(x, y, width(name(node), LETTERS), LETTERS, anchor);
    put(box, node.ring === 2 ? circles(node) : [], () => text(name(node), { x, y, "text-anchor": anchor, "data-node": node.text }));
  };
  const weightOf = ({ where, edge, n, own }) => !own && ALONG.some((share) => {
    const [x, y] = [where.x1 + share * (where.x2 - where.x1), where.y1 + share * (where.y2 - where.y1)];
    const box = boxOf(x, y, width(percent(edge.weight), DIGITS), DIGITS);
    return put(box, circles(null), () => text(percent(edge.weight), { x, y, "text-anchor": "middle", "data-weight": n, class: "weight" }));
  });
  const chosen = shown[place], first = (node) => (node.text === chosen.looking || node.text === chosen.looked ? -1 : node.ring);
  const order = [...nodes].sort((one, other) => first(one) - first(other));
  const heavy = [...lines].sort((one, other) => (other.n === place) - (one.n === place) || other.edge.weight - one.edge.weight);
  order.filter((node) => first(node) < 2).forEach(nameOf);
  heavy.forEach(weightOf);
  order.filter((node) => first(node) === 2).forEach(nameOf);
  return found;
}

/** Where a name stands: on its node, or outside the last ring. */
function beside(node) {
  if (node.ring < 2) return { x: node.across, y: node.down, anchor: "middle" };
  const length = Math.hypot(node.x, node.y), [right, up] = [node.x / length, node.y / length];
  const anchor = right > 0.3 ? "start" : right < -0.3 ? "end" : "middle";
  const away = node.radius + (anchor === "middle" ? LETTERS * 0.75 : 4);
  return { x: node.across + away * right, y: node.down - away * up, anchor };
}

function boxOf(x, y, wide, high, anchor = "middle") {
  const left = x - { start: 0, middle: wide / 2, end: wide }[anchor];
  return { left, right: left + wide, top: y - high / 2, bottom: y + high / 2 };
}

function meet(one, other) {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}

/** Names of nodes often begin alike, so that a long one keeps its end. */
function name(node) {
  return node.text.length > LONGEST ? `${node.text.slice(0, 5)}…${node.text.slice(5 + 1 - LONGEST)}` : node.text;
}

let pen = null;

/** Pixels of a text, without laying out the trace. */
function width(words, letters) {
  pen ??= make("canvas").getContext("2d");
  pen.font = `${letters}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(words).width + 2;
}

function text(words, given) {
  return svg("text", { "dominant-baseline": "central", ...given }, words);
}

function svg(tag, given, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
