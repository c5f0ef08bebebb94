// Texts whose words light up: pointing at, focusing or tapping a word shows what it looked at, and by which it was looked at.

import { attentionOf, merged } from "./data.js";
import { make, moved } from "./make.js";
import { describe } from "./names.js";
import { percent, say } from "./strings.js";

const SHOWN = 0.03; // shares below this get neither a bar nor a number
const NUMBERED = 5; // words with the largest shares get a number
const THICKEST = 7; // pixels of the bar of a word that got everything
const MASK = "<mask>", GAP = /\[MASK\]|<mask>/i, UNKNOWN = /^(?:<unk>|\[UNK\]|<mask>)$/, WORD = /[\p{L}\p{N}\p{M}]+|[^\s]/u;
const SPOKEN = 3; // links in the sentence

/** The words of a trace and how much each looked at each, with the texts they stand in; `text` is what was written, where less is shown than the trace has. */
export async function linksOf(context, { text = null } = {}) {
  const { trace } = context, attention = attentionOf(trace, "");
  const shown = await merged(context, attention, "mean", { level: "word", specials: false, share: false });
  const same = attention.query === attention.key || attention.key === "fed";
  if (attention.key === "fed") shiftBack(shown);
  const texts = { target: text ?? trace.facts.answer, source: trace.facts.text };
  const partsOf = (units, name) => inText(units, texts[name] ?? "", { cut: text !== null && name === "target" });
  return { ...shown, attention, same, rowParts: partsOf(shown.rows, attention.query), columnParts: partsOf(shown.columns, attention.key) };
}

/** What was written lies one place later among what had been written already: make both sides the same words. */
function shiftBack(shown) {
  const width = shown.columns.length, values = new Float32Array(shown.rows.length ** 2);
  const place = shown.columns.map(({ places }) => shown.rows.findIndex((row) => row.places.includes(places[0] - 1)));
  shown.rows.forEach((_, row) => place.forEach((column, c) => {
    if (column >= 0) values[row * shown.rows.length + column] += shown.values[row * width + c];
  }));
  Object.assign(shown, { values, columns: shown.rows });
}

/** A text cut at its words: `{text}` between them, `{text, index}` of each; words that it does not spell so are joined by blanks. */
export function inText(units, text, { cut = false } = {}) {
  const parts = [];
  let at = 0;
  for (const [index, unit] of units.entries()) {
    if (UNKNOWN.test(unit.text)) unit.text = text.slice(at).match(unit.text === MASK ? GAP : WORD)?.[0] ?? unit.text; // the reader knows it
    const place = text.indexOf(unit.text, at);
    if (place < 0 && cut && index === units.length - 1) break;
    if (place < 0) return units.flatMap((each, n) => [...(n ? [{ text: " " }] : []), { text: each.text, index: n }]);
    if (place > at) parts.push({ text: text.slice(at, place) });
    parts.push({ text: unit.text, index });
    at = place + unit.text.length;
  }
  if (at < text.length) parts.push({ text: text.slice(at) });
  return parts;
}

/** Where in its text a word begins. */
export function offsetOf(parts, index) {
  let at = 0;
  for (const part of parts) {
    if (part.index === index) return at;
    at += part.text.length;
  }
  return at;
}

/** The words that one word looked at, or that looked at it, the strongest first. */
export function strongest(links, side, index) {
  const others = side === "row" ? links.columns : links.rows, width = links.columns.length;
  return others
    .map((unit, n) => ({ n, text: unit.text, share: links.values[side === "row" ? index * width + n : n * width + index] }))
    .sort((one, other) => other.share - one.share);
}

/** One sentence with the three strongest links of a word. */
export function sentenceOf(links, side, index, listed = list) {
  const unit = (side === "row" ? links.rows : links.columns)[index];
  const found = strongest(links, side, index).filter(({ share }) => share >= 0.005).slice(0, SPOKEN);
  if (!found.length) return say("use.looked_nowhere", { word: unit.text }, side);
  return say("use.looked", { word: unit.text, links: listed(found.map(({ text, share }) => say("use.link", { word: text, percent: percent(share) }))) }, side);
}

function list(parts) {
  return new Intl.ListFormat(say("lang"), { type: "conjunction" }).format(parts);
}

/** The two texts, or the one that looked at itself; `onPick(row)` is told which written word was chosen. */
export function linkedView(links, { context, titles, onPick = null, picked = null, marked = null }) {
  const state = { side: "row", index: picked, kept: picked !== null };
  const sides = links.same ? ["row"] : ["column", "row"];
  const lines = Object.fromEntries(sides.map((side) => [side, lineOf(links, side, { titles, marked })]));
  const light = (side, index, { aloud = true } = {}) => {
    paint(links, lines, side, index);
    if (aloud && index !== null) context.tell(sentenceOf(links, side, index));
  };
  const leave = () => { if (state.kept) light(state.side, state.index, { aloud: false }); else light("row", null); };
  const choose = (side, index) => {
    const again = state.kept && state.side === side && state.index === index;
    Object.assign(state, { side, index: again ? null : index, kept: !again });
    press(lines, state);
    if (again) leave();
    else light(side, index);
    onPick?.(side === "row" && !again ? index : null);
  };
  for (const side of sides) listen(lines[side], side, { light, leave, choose });
  press(lines, state);
  leave();
  const note = make("p", { class: "note" }, say("use.how", {
    attention: describe(links.attention.name, links.trace), n: links.attention.heads.length, equal: percent(1 / Math.max(1, links.columnParts.filter(({ index }) => index !== undefined).length)),
  }, links.attention.heads.length === 1 ? "one" : ""));
  return { element: make("div", { class: "use-linked" }, ...sides.map((side) => lines[side].element), note), choose, lines };
}

/** A text as words that can be pointed at, one of which is a stop of the Tab key. */
function lineOf(links, side, { titles, marked }) {
  const parts = side === "row" ? links.rowParts : links.columnParts, words = [];
  const elements = parts.map(({ text, index }) => {
    if (index === undefined) return make("span", {}, text);
    const share = make("small", { "aria-hidden": "true" });
    const word = make("button", {
      type: "button", class: "use-word", tabindex: words.length ? "-1" : "0", "aria-pressed": "false", "data-word": index,
    }, make("span", { class: marked?.(side, index) ? "letters marked" : "letters" }, text), share);
    words[index] = word;
    return word;
  });
  const line = make("p", { class: "use-line", dir: "auto" }, ...elements);
  const title = titles[side];
  return { element: make("div", { class: `use-text ${side}`, role: "group", "aria-label": title }, make("h3", {}, title), line), line, words };
}

function listen({ words }, side, { light, leave, choose }) {
  words.forEach((word, index) => {
    word.addEventListener("pointerenter", (event) => { if (event.pointerType !== "touch") light(side, index); });
    word.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") leave(); });
    word.addEventListener("focus", () => { if (word.matches(":focus-visible")) light(side, index); });
    word.addEventListener("blur", leave);
    word.addEventListener("click", () => choose(side, index));
    word.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && word.getAttribute("aria-pressed") === "true") { event.stopPropagation(); choose(side, index); }
      const next = moved(event, index, words.length);
      if (next === null) return;
      event.preventDefault();
      words[next].focus();
    });
  });
}

/** Show which word is chosen; the Tab key comes back to it. */
function press(lines, { side, index }) {
  for (const [name, { words }] of Object.entries(lines)) {
    words.forEach((word, n) => {
      const pressed = name === side && n === index;
      word.setAttribute("aria-pressed", String(pressed));
      word.tabIndex = pressed || (n === 0 && !(name === side && index !== null)) ? 0 : -1;
    });
  }
}

/** Bars below the words that belong to this one, and numbers below the largest. */
function paint(links, lines, side, index) {
  const other = links.same || side === "column" ? "row" : "column";
  for (const [name, { words }] of Object.entries(lines)) {
    words.forEach((word, n) => {
      word.classList.toggle("lit", name === side && n === index);
      if (name !== other || index === null) word.lastChild.textContent = "";
      if (name !== other || index === null) word.style.removeProperty("--bar-height");
    });
  }
  if (index === null) return;
  strongest(links, side, index).forEach(({ n, share }, rank) => {
    const word = lines[other].words[n], seen = share >= SHOWN;
    if (!word) return; // of a text that is cut before it
    word.lastChild.textContent = seen && rank < NUMBERED ? String(Math.round(100 * share)) : "";
    if (seen) word.style.setProperty("--bar-height", `${Math.max(1, Math.round(THICKEST * share))}px`);
    else word.style.removeProperty("--bar-height");
  });
}
