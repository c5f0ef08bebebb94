// The choices above a screen: which attention and head, by words or pieces, in which colours and order.

import { attentionOf, attentionsToPictures, attentionsWithHeads, called, hasWords, isMap } from "./data.js";
import { kindOf } from "./heads.js";
import { visible } from "./inside.js";
import { make } from "./make.js";
import { say } from "./strings.js";

const find = (id) => document.getElementById(id);
const named = (names, form = "") => names.map((name) => [name, say(name, {}, form)]);

/** Which choices each screen offers, and what there is to choose. */
const CHOICES = {
  attention: { on: ["graph", "image", "alignment", "inside"], options: (context) => names(context).map((name) => [name, called(name)]) },
  head: { on: ["graph", "image", "alignment", "inside"], options: headOptions },
  token: { on: ["inside"], options: tokenOptions },
  kind: { on: ["heads"], options: ({ trace }) => named(["all", ...new Set(attentionsWithHeads(trace).map((one) => kindOf(one.name)))]) },
  sort: { on: ["heads"], options: ({ trace }) => named(["place", ...Object.keys(trace.measures)]) },
  paint: { on: ["image"], options: () => named(["light", "colours", "numbers"], "image") },
  view: { on: ["alignment"], options: () => named(["matrix", "ribbon", "table"]) },
  level: { on: ["alignment", "heads"], options: () => named(["word", "subword"]) },
  scale: { on: ["alignment", "heads"], options: () => named(["max", "full", "row", "root"]) },
};
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

function tokenOptions({ trace, state }) {
  return trace.items[attentionOf(trace, state.attention).query].map((item, n) => [String(n), `${n} ${visible(item.text)}`]);
}

/** Make the choices once; `change` is told what was chosen. */
export function buildControls(change) {
  const fields = Object.entries(CHOICES).map(([name, { on }]) => {
    const select = make("select", { name, onchange: () => change({ [name]: select.value, ...forget(name) }) });
    return make("label", { class: "field", "data-on": on.join(" ") }, make("span", { "data-say": name }), select);
  });
  const checks = Object.entries(CHECKS).map(([name, on]) => {
    const box = make("input", { type: "checkbox", name, onchange: () => change({ [name]: box.checked ? "1" : "0", at: "" }) });
    return make("label", { class: "check", "data-on": on.join(" ") }, box, make("span", { "data-say": name }));
  });
  find("controls").append(...fields, ...checks);
  find("controls").addEventListener("submit", (event) => event.preventDefault());
}

/** A cell of one matrix means nothing in a matrix of other words. */
function forget(name) {
  return ["attention", "level"].includes(name) ? { at: "" } : {};
}

/** Fill in what there is to choose on this screen, and what is chosen. */
export function fillControls(context) {
  const { trace, state } = context, form = find("controls"), field = (name) => form.elements[name].closest("label");
  for (const label of form.children) label.hidden = !trace || !label.dataset.on.split(" ").includes(state.screen);
  form.hidden = [...form.children].every((label) => label.hidden);
  if (form.hidden) return;
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
