// The screen of all heads: each as a small picture, drawn when it comes into sight, sorted by what was measured.

import { make, moved } from "./make.js";
import { scaleName } from "./alignment.js";
import { attentionOf, attentionsWithHeads, isScreenDark, pixels, printing, scaleOf } from "./data.js";
import { drawing, exportBar, plain, tag } from "./export.js";
import { help } from "./glossary.js";
import { besideControl } from "./measures.js";
import { describe, kindOf, named } from "./names.js";
import { hatchingSvg } from "./pictures.js";
import { say } from "./strings.js";
import { merged } from "./units.js";

const ACROSS = 12, SIDE = 96, GAP = 26; // of the drawing for a file: heads in a row, pixels of one and below it

/** Fill the section with every head; each is drawn when it comes into sight. */
export async function drawHeads(section, context) {
  const { state, tell, signal } = context, heads = listed(context);
  const groups = state.sort === "place" ? byAttention(heads) : [["", heads]];
  const tiles = [], drawn = printing() ? picturesOf(section) : new Map();
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      draw(entry.target, context).catch((error) => { if (!signal.aborted) tell(error.message); });
    }
  }, { rootMargin: "200px" });
  signal.addEventListener("abort", () => watcher.disconnect());
  section.replaceChildren(make("p", { class: "note" }, say("below_each", { measure: say(captioned(context)) }), " ", help(captioned(context))));
  tell(say("gallery", { n: heads.length, measure: say(captioned(context)) }, heads.length === 1 ? "one" : ""), { hint: true });
  const few = groups.length > 1 && groups.every(([, members]) => members.length <= 4);
  const holder = make("div", { class: few ? "groups" : false });
  section.append(holder, exporter(context, heads, () => tiles));
  for (const [name, members] of groups) {
    const made = members.map((head) => tile(head, tiles.length + members.indexOf(head), { tiles, context, named: !name }));
    tiles.push(...made);
    const group = make("div", { class: members.length > 8 ? "tiles" : "tiles large" }, ...made);
    holder.append(name ? make("div", {}, make("h2", {}, named(name, context.trace)), group) : group);
  }
  const current = Math.max(0, tiles.findIndex((each) => each.getAttribute("aria-current") === "true"));
  if (tiles.length) tiles[current].tabIndex = 0;
  if (printing()) await drawForPaper(section, tiles, drawn, context);
  else tiles.forEach((each) => watcher.observe(each));
}

/** The pictures that are drawn already, by their heads; dark ones are of no use on paper. */
function picturesOf(section) {
  const tiles = isScreenDark() ? [] : section.querySelectorAll(".tiles [data-drawn]");
  return new Map([...tiles].map((tile) => [nameOf(tile), tile.querySelector("canvas")]));
}

function nameOf({ dataset }) {
  return `${dataset.name}/${dataset.head}`;
}

/** Draw every head for paper, which does not wait: what is not unpacked, or fetched, by then is said to be missing. */
async function drawForPaper(section, tiles, drawn, context) {
  const note = make("p", { class: "missing" });
  const count = () => {
    const missing = tiles.filter((tile) => !("drawn" in tile.dataset)).length;
    note.textContent = say("heads_missing", { n: missing, all: tiles.length });
    note.hidden = !missing;
  };
  for (const tile of tiles) {
    const canvas = drawn.get(nameOf(tile));
    if (!canvas) continue;
    tile.querySelector("canvas").replaceWith(canvas);
    tile.dataset.drawn = "";
  }
  section.prepend(note);
  count();
  await Promise.all(tiles.map((tile) => draw(tile, context).then(count)));
}

/** The measure written below each picture. */
function captioned({ trace, state }) {
  return state.sort in trace.measures ? state.sort : "entropy";
}

function listed({ trace, state }) {
  const heads = attentionsWithHeads(trace)
    .filter((one) => state.kind === "all" || kindOf(one.name) === state.kind)
    .flatMap((one) => one.heads.map((_, head) => ({ name: one.name, head })));
  const measure = trace.measures[state.sort];
  if (!measure) return heads;
  const value = ({ name, head }) => measure[name]?.[head] ?? (state.down === "1" ? -1e9 : 1e9); // what was not measured comes last
  const sign = state.down === "1" ? -1 : 1;
  return heads.sort((a, b) => sign * (value(a) - value(b)));
}

function byAttention(heads) {
  const groups = new Map();
  for (const head of heads) groups.set(head.name, [...(groups.get(head.name) ?? []), head]);
  return [...groups];
}

function tile({ name, head }, index, { tiles, context, named }) {
  const { trace, state, change, tell } = context, words = describe(name, trace);
  const label = (named ? `${words}\n` : "") + say("nth", { n: head });
  const measured = besideControl(trace, captioned(context), name, head);
  const all = Object.entries(trace.measures)
    .filter(([, table]) => table[name]?.[head] !== undefined)
    .map(([measure]) => say("measured", { measure: say(measure), value: besideControl(trace, measure, name, head, 3) }));
  const sentence = say("picture", { name: words, n: head, measures: all.join(", ") });
  const open = () => change({ screen: "alignment", attention: name, head: String(head), at: "" }, { step: true });
  const told = () => tell(sentence);
  return make("button", {
    type: "button", tabindex: "-1", title: sentence, "data-name": name, "data-head": head,
    "aria-current": String(state.attention === name && state.head === String(head)),
    onclick: open, onfocus: told, onpointerenter: told, onkeydown: (event) => walk(event, index, tiles),
  }, make("canvas", { "aria-hidden": "true", width: 1, height: 1 }),
    make("span", { class: "aloud" }, named ? "" : words), make("span", {}, label), make("span", { class: "number" }, measured));
}

function walk(event, index, tiles) {
  const across = tiles.filter((each) => each.offsetTop === tiles[index].offsetTop).length;
  const next = moved(event, index, tiles.length, across);
  if (next === null) return;
  event.preventDefault();
  tiles[index].tabIndex = -1;
  tiles[next].tabIndex = 0;
  tiles[next].focus();
}

async function draw(button, context) {
  const { trace, state, signal } = context;
  const settings = { level: state.level, specials: state.specials === "1", share: state.share === "1" };
  const shown = await merged(context, attentionOf(trace, button.dataset.name), Number(button.dataset.head), settings);
  if (signal.aborted || !shown.rows.length || !shown.columns.length) return;
  const canvas = button.querySelector("canvas");
  canvas.width = shown.columns.length;
  canvas.height = shown.rows.length;
  canvas.getContext("2d").putImageData(pixels(shown, scaleOf(shown, scaleName(shown.attention, state))), 0, 0);
  button.dataset.drawn = "";
}

/** The numbers of every head beside their controls, and all pictures as one. */
function exporter(context, heads, tilesOf) {
  const { trace } = context, measures = Object.keys(trace.measures);
  const entry = ({ name, head }) => ({
    attention: name, head, words: describe(name, trace),
    measures: Object.fromEntries(measures.map((measure) => [measure, trace.measures[measure][name]?.[head] ?? null])),
    controls: Object.fromEntries(measures.map((measure) => [measure, trace.controls?.[measure]?.[name]?.[head] ?? null])),
  });
  const columns = measures.flatMap((measure) => (trace.controls?.[measure] ? [measure, `${measure}, control`] : [measure]));
  const line = ({ attention, head, measures: values, controls }) => [attention, head,
    ...measures.flatMap((measure) => (trace.controls?.[measure] ? [values[measure] ?? "", controls[measure] ?? ""] : [values[measure] ?? ""]))];
  const svg = async () => {
    const tiles = tilesOf();
    await Promise.all(tiles.map((tile) => draw(tile, context)));
    const cells = tiles.map((tile, n) => {
      const x = (n % ACROSS) * (SIDE + 8), y = Math.floor(n / ACROSS) * (SIDE + GAP), canvas = tile.querySelector("canvas");
      const image = tag("image", { x, y, width: SIDE, height: SIDE, preserveAspectRatio: "none", style: "image-rendering: pixelated", href: canvas.toDataURL("image/png") });
      return tag("rect", { x, y, width: SIDE, height: SIDE, fill: "url\x28#hatched)" }) + image + tag("text", { x, y: y + SIDE + 12, "font-size": 10, fill: "#15202b" }, plain(`${tile.dataset.name} ${tile.dataset.head}`));
    });
    const size = [Math.min(ACROSS, tiles.length) * (SIDE + 8), Math.ceil(tiles.length / ACROSS) * (SIDE + GAP)];
    return drawing(...size, say("heads"), tag("defs", {}, hatchingSvg("hatched")), tag("rect", { width: size[0], height: size[1], fill: "#fff" }), ...cells);
  };
  return exportBar(context, "heads", { rows: () => [["attention", "head", ...columns], ...heads.map(entry).map(line)], json: () => heads.map(entry), svg });
}
