// The tree of a search as a drawing: a column for every step, a row for every rank; and the same numbers as a table.

import { make, shorten } from "./make.js";
import { describe, fateOf, spell, textOf } from "./search_tree.js";
import { number, say } from "./strings.js";

const SVG = new DOMParser().parseFromString("<svg>", "text/html").body.firstChild.namespaceURI;
const COLUMN = 96, ROW = 50, WIDTH = 74, HEIGHT = 38, TOP = 26, CUT = 9; // pixels
const LETTERS = 9; // of a token in its box
const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

/** The drawing; `pick` is told which hypothesis was chosen, `hear` which one has the focus. */
export function treeView(tree, chosen, { pick, hear }) {
  const width = COLUMN * (tree.steps + 1), height = TOP + ROW * tree.rows;
  const lines = tree.nodes.filter((node) => node.place).map((node) => link(tree, node));
  const heads = Array.from({ length: tree.steps }, (_, step) => text(COLUMN * (step + 1) + WIDTH / 2, 16, String(step + 1), "step"));
  const boxes = tree.nodes.map((node) => box(tree, node));
  const element = svg("svg", { id: "tree", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": say("decode.drawing", { steps: tree.steps }) }, ...lines, ...heads, ...boxes);
  let focused = chosen;

  function mark(place) {
    boxes[focused].setAttribute("tabindex", "-1");
    boxes[place].setAttribute("tabindex", "0");
    focused = place;
  }

  function select(place) {
    boxes.forEach((each) => each.setAttribute("aria-pressed", "false"));
    boxes[place].setAttribute("aria-pressed", "true");
    mark(place);
  }

  const placeOf = (event) => event.target.closest?.("[data-place]")?.dataset.place;
  element.addEventListener("click", (event) => { if (placeOf(event)) pick(Number(placeOf(event))); });
  boxes.forEach((each, place) => each.addEventListener("focus", () => { // on the drawing it would make that a stop of the Tab key
    mark(place);
    hear(place);
  }));
  element.addEventListener("pointerover", (event) => { if (placeOf(event)) hear(Number(placeOf(event))); });
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pick(focused);
    }
    if (!KEYS.includes(event.key)) return;
    event.preventDefault();
    focus(step(tree, focused, event.key));
  });

  function focus(place) {
    mark(place);
    boxes[place].focus({ preventScroll: true });
    boxes[place].scrollIntoView?.({ block: "nearest", inline: "nearest" });
  }

  select(chosen);
  return { element, focus };
}

/** Where an arrow key leads: to the parent, to the best child, or along the ranks of a step; Home and End to both ends of the answer. */
function step(tree, place, key) {
  const node = tree.nodes[place], best = [...node.children].sort((one, other) => Number(tree.nodes[other].is_best ?? 0) - Number(tree.nodes[one].is_best ?? 0))[0];
  const beside = (offset) => tree.nodes.find((other) => other.step === node.step && other.row === node.row + offset)?.place ?? place;
  if (key === "Home") return 0;
  if (key === "End") return tree.winner;
  if (key === "ArrowLeft") return Math.max(0, node.parent);
  if (key === "ArrowRight") return best ?? place;
  return beside(key === "ArrowUp" ? -1 : 1);
}

function cornerOf(node) {
  return [COLUMN * node.step, TOP + ROW * node.row];
}

/** The line from a hypothesis to its parent: thick along the answer, dashed where the search did not go on. */
function link(tree, node) {
  const [across, down] = cornerOf(node), [from, above] = cornerOf(tree.nodes[node.parent]);
  const middle = HEIGHT / 2, bend = (COLUMN - WIDTH) / 2, start = from + WIDTH;
  const path = `M${start} ${above + middle} C${start + bend} ${above + middle} ${across - bend} ${down + middle} ${across} ${down + middle}`;
  return svg("path", { class: `link ${fateOf(node)}`, d: path });
}

/** A box per fate: full for the answer, round if kept, doubly framed if ended, with cut corners and dashed if left out. */
function box(tree, node) {
  const [across, down] = cornerOf(node), fate = fateOf(node);
  const frame = { x: across, y: down, width: WIDTH, height: HEIGHT };
  const shape = fate === "pruned" ? svg("path", { d: octagon(across, down) }) : svg("rect", { ...frame, rx: node.fate === "ended" ? 0 : 9 });
  const inner = node.fate === "ended" ? [svg("rect", { x: across + 3, y: down + 3, width: WIDTH - 6, height: HEIGHT - 6, class: "inner" })] : [];
  const token = shorten(spell(tree, node), LETTERS), score = node.place ? number(node.normalized ?? node.total, 2) : "";
  const words = [text(across + WIDTH / 2, down + (score ? 16 : 24), token, "token"), ...(score ? [text(across + WIDTH / 2, down + 31, score, "total")] : [])];
  return svg("g", {
    class: `hypothesis ${fate}`, role: "button", tabindex: "-1", "aria-pressed": "false", "data-place": node.place,
    "aria-label": `${[token, score].filter(Boolean).join(" ")}. ${describe(tree, node.place)}`,
  }, shape, ...inner, ...words);
}

function octagon(across, down) {
  const right = across + WIDTH, bottom = down + HEIGHT;
  return `M${across + CUT} ${down} H${right - CUT} L${right} ${down + CUT} V${bottom - CUT} L${right - CUT} ${bottom} H${across + CUT} L${across} ${bottom - CUT} V${down + CUT} Z`;
}

/** Every hypothesis as a line of numbers. */
export function treeTable(tree) {
  const names = ["step", "token", "hypothesis", "gain", "total", "score", "fate"];
  const lines = tree.nodes.slice(1).map((node) => make("tr", { "data-place": node.place },
    make("td", {}, String(node.step)), make("th", { scope: "row" }, spell(tree, node)), make("td", { class: "text" }, textOf(tree, node.place)),
    make("td", {}, number(node.log_probability)), make("td", {}, number(node.total)),
    make("td", {}, node.normalized === undefined ? "–" : number(node.normalized)), make("td", { class: "text" }, say(`decode.${fateOf(node)}`))));
  const head = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, say(`decode.column_${name}`))));
  return make("table", { id: "hypotheses" }, make("caption", {}, say("decode.table")), make("thead", {}, head), make("tbody", {}, ...lines));
}

function text(across, down, words, kind) {
  return svg("text", { x: across, y: down, class: kind, "text-anchor": "middle" }, words);
}

function svg(tag, given, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
