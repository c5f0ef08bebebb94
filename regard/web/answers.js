// Answers in the form that fits them: texts, bars of labels, marked words, numbers, pictures made of pixels, boxes.

import { bars, make } from "./make.js";
import { number, percent, say } from "./strings.js";

const GAP = /\[MASK\]|<mask>/i; // as texts are written

/** What tells answers apart: the names of their members; the first that has them all draws it. */
const VIEWS = [
  [["each"], eachView],
  [["gaps", "filled"], gapsView],
  [["tags", "words"], tagsView],
  [["choices", "probabilities"], choicesView],
  [["question", "start"], spanView],
  [["near"], nearView],
  [["hits"], hitsView],
  [["box"], boxView],
  [["all", "label"], labelsView],
  [["pixels"], (answer) => pixelsView(answer.pixels)],
  [["picture", "seed"], (answer) => pixelsView(answer.picture)],
  [["answer", "right"], rememberedView],
  [["count"], (answer) => figureView(String(answer.count), answer.probability)],
  [["value"], (answer) => figureView(typeof answer.value === "number" ? number(answer.value) : answer.value, answer.probability)],
  [["score", "texts"], (answer) => figureView(number(answer.score))],
  [["label"], (answer) => figureView(answer.label, answer.probability)],
];

/** The answer drawn; a text stands for itself. */
export function answerView(answer, tools) {
  const fitting = VIEWS.find(([names]) => names.every((name) => answer[name] !== undefined));
  return fitting ? fitting[1](answer, tools) : textView(answer);
}

/** The words of an answer, for the live line and for comparisons. */
export function answerText(answer) {
  if (answer.each) return answer.each.map(answerText).join(", ");
  if (answer.tags) return answer.words.map((word, n) => `${word}/${answer.tags[n]}`).join(" ");
  if (answer.hits) return answer.hits.length ? answer.hits[0].text : "";
  if (answer.near) return answer.near.map(({ word }) => word).join(", ");
  if (answer.value !== undefined) return typeof answer.value === "number" ? number(answer.value) : answer.value;
  if (answer.pixels) return say("use.made", { width: answer.pixels[0].length, height: answer.pixels.length });
  if (answer.texts) return number(answer.score);
  return String(answer.translation ?? answer.filled ?? answer.caption ?? answer.answer ?? answer.label ?? answer.count ?? answer.text ?? "");
}

/** A text, with the other answers of the search below it. */
function textView(answer) {
  const others = (answer.alternatives ?? []).map((other) => make("li", { dir: "auto" }, other.translation ?? other.answer));
  const notes = [
    answer.unfinished ? say("use.unfinished") : "", answer.foreign ? say("use.foreign", { language: answer.foreign }) : "", answer.kept ? say("use.kept") : "",
  ].filter(Boolean).map((text) => make("p", { class: "note" }, text));
  const listed = others.length ? [make("h3", {}, say("use.others")), make("ol", { class: "use-others" }, ...others)] : [];
  return make("div", {}, make("p", { class: "use-answer-text", dir: "auto" }, answerText(answer) || say("use.nothing")), ...listed, ...notes);
}

function shares(entries) {
  return bars(entries.map(({ word, share, written }) => ({ word, share, written, text: percent(share) })));
}

function labelsView({ label, all }) {
  const entries = Object.entries(all).sort((one, other) => other[1] - one[1]);
  return shares(entries.map(([word, share]) => ({ word, share, written: word === label })));
}

function choicesView({ choices, probabilities, number: chosen }) {
  return shares(choices.map((word, n) => ({ word, share: probabilities[n], written: n + 1 === chosen })));
}

/** An answer for each picture of a sequence, in their order. */
function eachView({ each }, { draft }) {
  return make("ol", { class: "use-each" }, ...each.map((answer, n) => make("li", {},
    make("img", { src: draft.askedPictures?.[n]?.url ?? "", alt: say("use.nth_picture", { n: n + 1 }) }), answerView(answer, { draft }))));
}

/** One number or one word, large, with its probability. */
function figureView(text, probability) {
  const sure = probability === undefined || probability === null ? [] : [make("p", { class: "note" }, say("use.sure", { percent: percent(probability) }))];
  return make("div", {}, make("p", { class: "use-figure" }, text), ...sure);
}

/** The text with the answer to a question lit up in it; places are counted in characters, not in halves of them. */
function spanView({ answer, start, end, probability, no_answer: none }, { draft }) {
  const letters = Array.from(draft.asked?.[1] ?? draft.texts[1] ?? "");
  const text = make("p", { class: "use-passage", dir: "auto" },
    letters.slice(0, start).join(""), make("mark", {}, letters.slice(start, end).join("")), letters.slice(end).join(""));
  const missing = !answer ? [make("p", {}, say("use.no_answer", { percent: percent(none ?? 0) }))] : [];
  return make("div", {}, make("p", { class: "use-figure" }, answer || "–"), ...missing, make("p", { class: "note" }, say("use.sure", { percent: percent(probability) })), text);
}

/** Words with their tags below them; tags of one kind have one colour, and their name. */
function tagsView({ words, tags, probabilities }) {
  const kinds = [...new Set(tags)];
  return make("ul", { class: "use-tags" }, ...words.map((word, n) => make("li", { class: `tag tag-${kinds.indexOf(tags[n]) % 8}`, title: percent(probabilities[n]) },
    make("span", { dir: "auto" }, word), make("b", {}, tags[n]), make("small", {}, percent(probabilities[n])))));
}

/** The filled text, and what else could stand in each gap; choosing one fills it. */
function gapsView({ text, filled, gaps }, { fill }) {
  const lists = gaps.map((gap, n) => {
    const choose = (token) => fill(fillGap(text, n, token));
    const entries = gap.map(({ token, probability }) => candidate(token, probability, () => choose(token)));
    return make("div", {}, make("h3", {}, say("use.gap", { n: n + 1 }, gaps.length === 1 ? "one" : "")), make("ul", { class: "use-candidates" }, ...entries));
  });
  return make("div", {}, make("p", { class: "use-answer-text", dir: "auto" }, filled), ...lists);
}

/** Whether a text has a gap to be filled. */
export function hasGap(text) {
  return GAP.test(text ?? "");
}

/** The text with its gap of that number filled. */
function fillGap(text, place, token) {
  let n = -1;
  return text.replace(new RegExp(GAP, "gi"), (gap) => { n += 1; return n === place ? token : gap; });
}

/** What could be chosen, with a bar and a number. */
export function candidate(word, share, onclick, { pressed = false, title = "" } = {}) {
  const full = make("b");
  full.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  return make("li", {}, make("button", { type: "button", class: "use-candidate", "aria-pressed": String(pressed), title, onclick },
    make("span", { class: "word", dir: "auto" }, word), make("span", { class: "meter", "aria-hidden": "true" }, full), make("span", { class: "number" }, percent(share))));
}

/** Neighbours of a word; choosing one asks for its own. */
function nearView({ near }, { put }) {
  return make("ul", { class: "use-candidates" }, ...near.map(({ word, cosine }) => cosineRow(word, cosine, () => put(word))));
}

function cosineRow(word, cosine, onclick) {
  const row = candidate(word, cosine, onclick);
  row.querySelector(".number").textContent = number(cosine, 2);
  return row;
}

/** Lines by how near their meaning is; the number is the cosine. */
function hitsView({ hits }) {
  return make("ol", { class: "use-hits" }, ...hits.map(({ text, score }) => {
    const full = make("b");
    full.style.width = `${100 * Math.min(1, Math.max(0, score))}%`;
    return make("li", {}, make("span", { dir: "auto" }, text), make("span", { class: "meter", "aria-hidden": "true" }, full), make("span", { class: "number" }, number(score, 2)));
  }), make("li", { class: "note" }, say("use.cosine")));
}

/** The picture with a box around what was located. */
function boxView({ label, probability, box }, { draft, limits }) {
  const holder = make("div", { class: "use-boxed" });
  const image = make("img", { src: draft.picture?.url ?? "", alt: say("use.boxed", { label }) });
  const frame = make("span", { class: "framed", "aria-hidden": "true" });
  const place = () => {
    const [left, top, right, bottom] = box, width = limits?.width ?? image.naturalWidth, height = limits?.height ?? image.naturalHeight;
    Object.assign(frame.style, {
      left: `${(100 * left) / width}%`, top: `${(100 * top) / height}%`, width: `${(100 * (right - left)) / width}%`, height: `${(100 * (bottom - top)) / height}%`,
    });
  };
  image.addEventListener("load", place);
  holder.append(image, frame);
  return make("div", {}, figureView(String(label), probability), holder);
}

/** A picture that was made, dot by dot, as large as there is room for. */
function pixelsView(rows) {
  const height = rows.length, width = rows[0].length;
  const canvas = make("canvas", { class: "use-made", width, height, role: "img", "aria-label": say("use.made", { width, height }) });
  const image = new ImageData(width, height);
  rows.flat().forEach((dot, n) => {
    const [red, green = red, blue = red] = [dot].flat();
    image.data.set([red, green, blue, 255], 4 * n);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Bits that were answered above those that are right; wrong ones are underlined and marked by a sign. */
function rememberedView({ answer, right, errors, bits }) {
  const letters = [...answer].map((bit, n) => (bit === right[n] ? bit : make("del", { class: "use-wrong" }, bit)));
  return make("div", {},
    make("dl", { class: "use-bits" }, make("dt", {}, say("use.answered")), make("dd", {}, ...letters), make("dt", {}, say("use.right")), make("dd", {}, right)),
    make("p", { class: "note" }, say("use.wrong_bits", { errors, bits })));
}
