// The choices above a screen: which attention and head, by words or pieces, in which colours and order.

import { attentionOf, attentionsToPictures, attentionsWithHeads, hasWords, isMap } from "./data.js";
import { visible } from "./inside.js";
import { help } from "./glossary.js";
import { make } from "./make.js";
import { describe, describeKind, kindOf } from "./names.js";
import { say } from "./strings.js";

const find = (id) => document.getElementById(id);
const named = (names, form = "") => names.map((name) => [name, say(name, {}, form)]);

/** Which choices each screen offers, and what there is to choose. */
const CHOICES = {
  attention: { on: ["graph", "image", "alignment", "inside"], options: (context) => names(context).map((name) => [name, describe(name, context.trace)]) },
  head: { on: ["graph", "image", "alignment", "inside"], options: headOptions },
  token: { on: ["inside"], options: tokenOptions },
  kind: { on: ["heads"], options: kindOptions },
  sort: { on: ["heads"], options: ({ trace }) => named(["place", ...Object.keys(trace.measures)]) },
  paint: { on: ["image"], options: () => named(["map", "colours", "light", "numbers"], "image") },
  view: { on: ["alignment"], options: () => named(["matrix", "ribbon", "table"]) },
  level: { on: ["alignment", "heads"], options: () => named(["word", "part", "subword"]) },
  scale: { on: ["alignment", "heads"], options: () => named(["auto", "max", "full", "row", "root"]) },
};
/** Terms that need a word of explanation beside their choice. */
const TERMS = { attention: "attention", head: "head", level: "token", specials: "special tokens", share: "softmax" };
const NARROW = matchMedia("(max-width: 48rem)");
const CHECKS = { specials: ["alignment", "heads"], share: ["alignment", "heads"], down: ["heads"] };

/** Names of the attentions that a screen can show. */
export function names({ trace, state }) {
  const all = trace.attentions.map((one) => one.name);
  if (state.screen === "image") return attentionsToPictures(trace).map((one) => one.name);
  return state.screen === "inside" && trace.stepped.length ? all.filter((name) => trace.stepped.includes(name)) : all;
}

function headOptions({ trace, state }) {
  const heads = attentionOf(trace, state.attention).heads.map((_, n) => [String(n), say("nth", { n })]);
  if (state.screen === "inside") return heads;
  return heads.length > 1 ? [["mean", say("mean", { n: heads.length })], ...heads] : [["mean", say("only")]];
}

function kindOptions({ trace }) {
  const kinds = [...new Set(attentionsWithHeads(trace).map(({ name }) => kindOf(name)))];
  return [["all", say("all")], ...kinds.map((kind) => [kind, describeKind(kind, trace)])];
}

function tokenOptions({ trace, state }) {
  return trace.items[attentionOf(trace, state.attention).query].map((item, n) => [String(n), `${n} ${visible(item.text)}`]);
}

/** Make the choices once; `change` is told what was chosen. */
export function buildControls(change) {
  const fields = Object.entries(CHOICES).map(([name, { on }]) => {
    const select = make("select", { name, onchange: () => change({ [name]: select.value, ...forget(name) }) });
    return choice(name, on, make("label", { class: "field" }, make("span", { "data-say": name }), select));
  });
  const checks = Object.entries(CHECKS).map(([name, on]) => {
    const box = make("input", { type: "checkbox", name, onchange: () => change({ [name]: box.checked ? "1" : "0", at: "" }) });
    return choice(name, on, make("label", { class: "check" }, box, make("span", { "data-say": name })));
  });
  find("controls").append(...fields, ...checks);
  find("controls").addEventListener("submit", (event) => event.preventDefault());
  fold();
}

/** A choice with room for what explains its term. */
function choice(name, on, label) {
  return make("div", { class: "choice", "data-on": on.join(" "), "data-term": TERMS[name] }, label, make("span", { class: "explain" }));
}

/** On a narrow page all choices lie behind one button, so that the picture comes first. */
function fold() {
  const form = find("controls"), folded = make("details", { id: "choices" }, make("summary", { "data-say": "how_shown" }));
  form.replaceWith(folded);
  folded.append(form);
  folded.open = !NARROW.matches;
  NARROW.addEventListener("change", () => { folded.open = !NARROW.matches; });
}

/** The "?" buttons in the language that is spoken now. */
function explainChoices(form, lang) {
  if (form.dataset.lang === lang) return;
  form.dataset.lang = lang;
  for (const { dataset, lastChild } of form.children) if (dataset.term) lastChild.replaceChildren(help(dataset.term));
}

/** A cell of one matrix means nothing in a matrix of other words. */
function forget(name) {
  return ["attention", "level"].includes(name) ? { at: "" } : {};
}

/** Fill in what there is to choose on this screen, and what is chosen. */
export function fillControls(context) {
  const { trace, state } = context, form = find("controls"), field = (name) => form.elements[name].closest(".choice");
  for (const part of form.children) part.hidden = !trace || !part.dataset.on.split(" ").includes(state.screen);
  form.hidden = find("choices").hidden = [...form.children].every((part) => part.hidden);
  if (form.hidden) return;
  explainChoices(form, state.lang);
  for (const [name, { options }] of Object.entries(CHOICES)) {
    const select = form.elements[name];
    select.replaceChildren(...options(context).map(([value, text]) => make("option", { value }, text)));
    select.value = state[name];
  }
  for (const name of Object.keys(CHECKS)) form.elements[name].checked = state[name] === "1";
  field("down").hidden ||= state.sort === "place";
  for (const name of ["level", "specials"]) field(name).hidden ||= Boolean(trace.graph); // nodes are no words
  field("level").hidden ||= !hasWords(trace); // nor are regions
  field("head").hidden ||= isMap(trace, attentionOf(trace, state.attention));
}
