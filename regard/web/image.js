// The screen of a picture: as it is, and beside it a map of where each word, or the answer, looked in it.

import { bars, make, moved } from "./make.js";
import { attentionOf } from "./data.js";
import { curves } from "./deletion_curves.js";
import { exportBar } from "./export.js";
import { cover, exactValues, highest, legend, mapsSvg, nameOf, rangeOf, seen, sentence, strongest, table } from "./image_map.js";
import { besideOf, besidePicker, differenceNote, otherField, otherOf } from "./image_pair.js";
import { measured } from "./measures.js";
import { describe } from "./names.js";
import { percent, say } from "./strings.js";

const SIDES = ["first", "second"]; // as Compare calls them
const FINE = 600; // pixels on a side of the canvas that boxes are drawn on
const BOXES = ["#ffb000", "#64b5ff", "#ff6f91", "#7ee081"];

/** Fill the section with a picture and where one word, or the answer, looked in it; and another word's or picture's map beside it. */
export async function drawImage(section, context) {
  const { trace, state, change, tell, signal } = context, attention = attentionOf(trace, state.attention);
  const shown = await seen(context, trace, attention), other = await otherOf(context, attention);
  if (signal.aborted) return;
  const [word, region] = chosen(shown), beside = besideOf(shown, word, other), maps = [{ shown, word }, ...(beside ? [beside] : [])];
  const lettered = (text, n) => (paired ? say("listed", { name: say(`compare.${SIDES[n]}`), values: text }) : text);
  const side = make("aside", {}), holder = make("div", {}), paired = Boolean(beside && beside.shown === other);
  section.replaceChildren(make("div", { class: "split" }, holder, side));
  const pick = (number, place) => change({ at: `${number},${place}` });
  const choose = (place) => pick(word, place).then(() => focus("#over"));
  holder.append(scrubber(shown, word, (number) => pick(number, highest(shown, number)).then(() => focus(`[data-word="${number}"]`))));
  if (state.paint === "numbers") holder.append(...maps.map((map) => table(map.shown, map.word)));
  else holder.append(panels(maps, { region, choose, paired }), make("p", { id: "keys", class: "note" }, say("regions", {}, shown.form)), ...cropNote(shown));
  if (beside) holder.append(scaleNote(maps), ...differenceNote(maps));
  holder.append(...besidePicker(shown, word, { other, beside, change }), ...otherField(context));
  holder.append(make("p", { class: "note", id: "strongest" }, maps.map((map, n) => lettered(strongest(map.shown, map.word), n)).join(" ")), exporter(context, maps, paired));
  tell(maps.filter((map) => region in map.shown.regions).map((map) => sentence(map.shown, map.word, region)).map((text, n) => lettered(text, n)).join(" "));
  maps.slice(0, paired ? 2 : 1).forEach((map, n) => fillSide(side, map, paired ? titleOf(map, n) : ""));
}

/** The picture and its maps; two pictures each with its own map, side by side, or below each other where there is no room. */
function panels(maps, { region, choose, paired }) {
  const range = rangeOf(maps), [{ shown }] = maps;
  const stages = maps.map((map, n) => stage(map, { range, region, choose, first: n === 0 }));
  if (!paired) return make("div", { class: "panels" }, untouched(shown, region), ...stages);
  return make("div", { class: "compare-pair maps" }, ...maps.map((map, n) => make("div", { role: "group", "aria-label": titleOf(map, n) },
    make("h2", {}, titleOf(map, n)), make("div", { class: "panels" }, untouched(map.shown, region), stages[n]))));
}

/** Which of two pictures it is, and what was answered. */
function titleOf({ shown }, n) {
  return say("listed", { name: say(`compare.${SIDES[n]}`), values: [shown.trace.facts.text, shown.trace.facts.answer].filter(Boolean).join(" → ") });
}

/** That two maps have the same colours. */
function scaleNote(maps) {
  const [least, most] = rangeOf(maps).map((value) => percent(value));
  return make("p", { class: "note", id: "scale" }, say("same_scale", { least, most }));
}

function focus(name) {
  document.querySelector(name)?.focus();
}

function chosen(shown) {
  const { at } = shown.state, [word, region] = at.split(",").map(Number);
  if (at && word < shown.words.length && region < shown.regions.length) return [word, region];
  return [0, highest(shown, 0)];
}

/** The words in a row, one of which is chosen; arrow keys go through them. */
function scrubber(shown, word, choose) {
  const walk = (event) => {
    const next = moved(event, word, shown.words.length);
    if (next === null) return;
    event.preventDefault();
    choose(next);
  };
  const buttons = shown.words.map((item, n) => make("button", {
    type: "button", "aria-pressed": String(n === word), tabindex: n === word ? "0" : "-1", "data-word": n, dir: "auto",
    onclick: () => choose(n), onkeydown: walk,
  }, item.name));
  return make("div", { class: "scrubber", role: "group", "aria-label": say(shown.attention.query, {}, "side") }, ...buttons);
}

/** A box in shares of the sides, as a style. */
function boxStyle([left, top, right, bottom]) {
  return { left: `${100 * left}%`, top: `${100 * top}%`, width: `${100 * (right - left)}%`, height: `${100 * (bottom - top)}%` };
}

/** A frame around a region, if the picture has as many. */
function framed(shown, region) {
  if (!(region in shown.regions)) return "";
  const frame = make("span", { class: "framed", "aria-hidden": "true" });
  Object.assign(frame.style, boxStyle(shown.regions[region].box));
  return frame;
}

function panel(shown, caption, ...layers) {
  const { width, height } = shown.picture, scaled = make("div", { class: "pictured" }, ...layers);
  scaled.style.aspectRatio = `${width} / ${height}`;
  scaled.dataset.paint = shown.state.paint;
  return make("figure", {}, scaled, make("figcaption", {}, caption));
}

/** The picture as the model was shown it, with nothing over it but a frame. */
function untouched(shown, region) {
  const { source, width, height } = shown.picture, crops = shown.trace.facts.crops ?? [];
  const image = make("img", { src: source, width, height, alt: shown.trace.facts.text ?? "" });
  return panel(shown, say("picture_itself"), image, framed(shown, region), ...(crops.length ? [boxes(crops)] : []));
}

/** The map of one word: by itself in colours, or as light on the picture. */
function stage({ shown, word }, { range, region, choose, first }) {
  const { source, width, height } = shown.picture, name = nameOf(shown, word);
  const across = Math.max(2, Math.round(1 / (shown.regions[0].box[2] - shown.regions[0].box[0])));
  const over = make("canvas", first ? {
    id: "over", class: "over", tabindex: "0", role: "application", "aria-describedby": "keys",
    "aria-label": say("covered", { n: shown.regions.length, word: name }, shown.form),
    onkeydown: (event) => {
      const next = moved(event, region, shown.regions.length, across);
      if (next === null) return;
      event.preventDefault();
      choose(next);
    },
  } : { class: "over", role: "img", "aria-label": say("covered", { n: shown.regions.length, word: name }, shown.form) });
  over.addEventListener("click", (event) => { const place = under(event, shown); if (place >= 0) choose(place); });
  cover(over, shown, word, range);
  const image = shown.state.paint === "map" ? [] : [make("img", { src: source, width, height, alt: "" })];
  const map = panel(shown, say("map_of", { word: name }, shown.form), ...image, over, framed(shown, region));
  map.append(legend(shown, range));
  return map;
}

/** What was cut out of the picture, as boxes; a dot marks the top left of each crop. */
function boxes(crops) {
  const words = crops.map((corners, n) => listed(n + 1, corners.map(([x, y]) => `${percent(x)} ${percent(y)}`)));
  const canvas = make("canvas", { class: "crops", role: "img", "aria-label": `${say("crops")} ${words.reduce((one, other) => say("also", { one, other }))}` });
  Object.assign(canvas, { width: FINE, height: FINE });
  const pen = canvas.getContext("2d");
  pen.lineWidth = 4;
  crops.forEach((corners, n) => {
    const places = corners.map(([x, y]) => [x * FINE, y * FINE]);
    pen.strokeStyle = pen.fillStyle = BOXES[n % BOXES.length];
    pen.beginPath();
    places.forEach(([x, y]) => pen.lineTo(x, y));
    pen.closePath();
    pen.stroke();
    pen.beginPath();
    pen.arc(...places[0], 9, 0, 2 * Math.PI);
    pen.fill();
  });
  return canvas;
}

/** A name and what belongs to it. */
function listed(name, values) {
  return say("listed", { name, values: values.join(", ") });
}

function cropNote(shown) {
  return (shown.trace.facts.crops ?? []).length ? [make("p", { class: "note" }, say("crops"))] : [];
}

function under(event, shown) {
  const area = event.currentTarget.getBoundingClientRect();
  const x = (event.clientX - area.left) / area.width, y = (event.clientY - area.top) / area.height;
  return shown.regions.findIndex(({ box: [left, top, right, bottom] }) => x >= left && x < right && y >= top && y < bottom);
}

/** The answer's probabilities, and every number that was measured, of one picture. */
function fillSide(side, { shown, word }, title) {
  const answers = shown.trace.facts.answers ?? [];
  if (answers.length) {
    const entries = answers.map(([text, share]) => ({ word: text, share, text: percent(share), written: text.trim() === shown.words[word].name }));
    side.append(make("h2", {}, title || say("answers")), bars(entries));
  }
  side.append(...measured(shown.trace), ...curves(shown.trace, shown.attention.name));
  side.hidden = !side.children.length;
}

/** The numbers of the maps that are shown, and the maps as a drawing beside their pictures. */
function exporter(context, maps, paired) {
  const [{ shown, word }] = maps, several = maps.length > 1;
  const title = (map) => say("map_of", { word: nameOf(map.shown, map.word) }, map.shown.form);
  const named = (map, n) => (paired ? say("listed", { name: say(`compare.${SIDES[n]}`), values: title(map) }) : title(map));
  const lines = (map) => exactValues(map.shown, map.word).map((value, place) => [...map.shown.regions[place].box, value ?? say("masked_cell")]);
  const plain = (map) => ({
    word: nameOf(map.shown, map.word),
    regions: exactValues(map.shown, map.word).map((weight, place) => ({ box: map.shown.regions[place].box, weight })),
  });
  const common = { model: shown.trace.model, attention: shown.attention.name, head: shown.state.head }, corners = ["left", "top", "right", "bottom", "weight"];
  return exportBar(context, `${shown.attention.name}-${maps.map((map) => map.word).join("+")}`, {
    rows: () => (several ? [["map", ...corners], ...maps.flatMap((map, n) => lines(map).map((line) => [named(map, n), ...line]))] : [corners, ...lines(maps[0])]),
    json: () => (several ? { ...common, maps: maps.map((map, n) => ({ name: named(map, n), picture: map.shown.trace.facts.text ?? "", ...plain(map) })) } : { ...common, ...plain({ shown, word }) }),
    svg: () => mapsSvg(maps, rangeOf(maps), `${maps.map(named).join("; ")}, ${describe(shown.attention.name, shown.trace)}`),
  });
}
