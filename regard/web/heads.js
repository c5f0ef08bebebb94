// The second screen: every head as a small picture, drawn when it comes into sight, sorted by what was measured.

import { make, moved } from "./make.js";
import { attentionOf, attentionsWithHeads, called, merged, pixels, printing, scaleOf } from "./data.js";
import { number, say } from "./strings.js";

/** The name of an attention without the numbers of its layers. */
export function kindOf(name) {
  return name.replace(/\.\d+/g, "");
}

/** Fill the section with every head; each is drawn when it comes into sight. */
export async function drawHeads(section, context) {
  const { state, tell, signal } = context, heads = listed(context);
  const groups = state.sort === "place" ? byAttention(heads) : [["", heads]];
  const tiles = [];
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      draw(entry.target, context).catch((error) => { if (!signal.aborted) tell(error.message); });
    }
  }, { rootMargin: "200px" });
  signal.addEventListener("abort", () => watcher.disconnect());
  section.replaceChildren();
  tell(say("gallery", { n: heads.length, measure: say(captioned(context)) }, heads.length === 1 ? "one" : ""), { hint: true });
  const few = groups.length > 1 && groups.every(([, members]) => members.length <= 4);
  const holder = make("div", { class: few ? "groups" : false });
  section.append(holder);
  for (const [name, members] of groups) {
    const made = members.map((head) => tile(head, tiles.length + members.indexOf(head), { tiles, context, named: !name }));
    tiles.push(...made);
    const drawn = make("div", { class: members.length > 8 ? "tiles" : "tiles large" }, ...made);
    holder.append(name ? make("div", {}, make("h2", {}, called(name)), drawn) : drawn);
  }
    const current = Math.max(0, tiles.findIndex((each) => each.getAttribute("aria-current") === "true"));
  if (tiles.length) tiles[current].tabIndex = 0;
  if (printing()) await Promise.all(tiles.map((each) => draw(each, context)));
  else tiles.forEach((each) => watcher.observe(each));
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
  const { trace, state, change, tell } = context, value = trace.measures[captioned(context)]?.[name]?.[head];
  const label = (named ? `${name.replaceAll(".", ".\u200b")}\n` : "") + say("nth", { n: head }); // breaks after dots
  const measured = value === undefined ? "" : number(value, 2);
  const all = Object.entries(trace.measures)
    .filter(([, table]) => table[name]?.[head] !== undefined)
    .map(([measure, table]) => say("measured", { measure: say(measure), value: number(table[name][head]) }));
  const sentence = say("picture", { name, n: head, measures: all.join(", ") });
  const open = () => change({ screen: "alignment", attention: name, head: String(head), at: "" }, { step: true });
  const told = () => tell(sentence);
  return make("button", {
    type: "button", tabindex: "-1", title: sentence, "data-name": name, "data-head": head,
    "aria-current": String(state.attention === name && state.head === String(head)),
    onclick: open, onfocus: told, onpointerenter: told, onkeydown: (event) => walk(event, index, tiles),
  }, make("canvas", { "aria-hidden": "true", width: 1, height: 1 }), 
    make("span", { class: "aloud" }, named ? "" : name), make("span", {}, label), make("span", { class: "number" }, measured));
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
  canvas.getContext("2d").putImageData(pixels(shown, scaleOf(shown, state.scale)), 0, 0);
}
