// The frame: title, screens, controls, language; everything is drawn again from the state.

import { make } from "./make.js";
import { attentionOf, called, form, headed, mapped, page, pictured, whenRecoloured, worded } from "./data.js";
import { addressOf, change, onChange, readAddress, screens, state } from "./state.js";
import { drawAlignment } from "./alignment.js";
import { drawGraph, headline } from "./graph.js";
import { drawHeads, kindOf } from "./heads.js";
import { drawImage } from "./image.js";
import { drawInside, visible } from "./inside.js";
import { say, speak } from "./strings.js";

const DRAWN = { graph: drawGraph, image: drawImage, alignment: drawAlignment, heads: drawHeads, inside: drawInside };
const SCREENS = Object.fromEntries(screens.map((name) => [name, DRAWN[name]]));
const find = (id) => document.getElementById(id);

/** The live line; a hint on how to use the page means nothing on paper. */
function tell(text, { hint = false } = {}) {
  find("read").textContent = text;
  find("read").classList.toggle("hint", hint);
}


/** Which choices each screen offers, and what there is to choose. */
const CHOICES = {
  attention: { on: ["graph", "image", "alignment", "inside"], options: () => names().map((name) => [name, called(name)]) },
  head: { on: ["graph", "image", "alignment", "inside"], options: headOptions },
  token: { on: ["inside"], options: tokenOptions },
  kind: { on: ["heads"], options: () => ["all", ...new Set(headed.map((one) => kindOf(one.name)))].map((name) => [name, say(name)]) },
  sort: { on: ["heads"], options: () => ["place", ...Object.keys(page.measures)].map((name) => [name, say(name)]) },
  paint: { on: ["image"], options: () => ["light", "colours", "numbers"].map((name) => [name, say(name, {}, "image")]) },
  view: { on: ["alignment"], options: () => ["matrix", "ribbon", "table"].map((name) => [name, say(name)]) },
  level: { on: ["alignment", "heads"], options: () => ["word", "subword"].map((name) => [name, say(name)]) },
  scale: { on: ["alignment", "heads"], options: () => ["max", "full", "row", "root"].map((name) => [name, say(name)]) },
};
const CHECKS = { specials: ["alignment", "heads"], share: ["alignment", "heads"], down: ["heads"] };

function names() {
  const all = page.attentions.map((one) => one.name);
  if (state.screen === "image") return pictured.map((one) => one.name);
  return state.screen === "inside" && Object.keys(page.steps).length ? all.filter((name) => name in page.steps) : all;
}

function headOptions() {
  const heads = attentionOf(state.attention).heads.map((_, n) => [String(n), say("nth", { n })]);
  if (state.screen === "inside") return heads;
  return heads.length > 1 ? [["mean", say("mean", { n: heads.length })], ...heads] : [["mean", say("only")]];
}

function tokenOptions() {
  return page.items[attentionOf(state.attention).query].map((item, n) => [String(n), `${n} ${visible(item.text)}`]);
}

function buildControls() {
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

function fillControls() {
  for (const [name, { options }] of Object.entries(CHOICES)) {
    const select = find("controls").elements[name];
    select.replaceChildren(...options().map(([value, text]) => make("option", { value }, text)));
    select.value = state[name];
  }
  for (const name of Object.keys(CHECKS)) find("controls").elements[name].checked = state[name] === "1";
  for (const label of find("controls").children) label.hidden = !label.dataset.on.split(" ").includes(state.screen);
  find("controls").elements.down.closest("label").hidden ||= state.sort === "place";
  for (const name of ["level", "specials"]) find("controls").elements[name].closest("label").hidden ||= Boolean(page.graph); // nodes are no words
  find("controls").elements.level.closest("label").hidden ||= !worded; // nor are regions
  find("controls").elements.head.closest("label").hidden ||= mapped(attentionOf(state.attention));
}

function fillFrame() {
  document.querySelectorAll("[data-say]").forEach((each) => { each.textContent = say(each.dataset.say); });
  document.querySelectorAll("[data-name]").forEach((each) => {
    if (each.matches("nav, form, section")) each.setAttribute("aria-label", say(each.dataset.name, {}, form));
  });
  const other = find("language");
  other.textContent = say("other");
  other.lang = state.lang === "fr" ? "en" : "fr";
  const { text, answer } = page.graph ? headline() : page.facts;
  const heading = page.title || !text || !answer
    ? [page.title || text || answer || page.model]
    : [make("span", { class: "from" }, text), " ", make("span", {}, `→ ${answer}`)];
  find("title").replaceChildren(...heading);
  if (page.graph) document.title = `${answer} – Regard`;
  find("named").textContent = [say("motto"), page.model].filter(Boolean).join(" · ");
  const facts = page.title ? [["text", text], ["answer", answer]].filter(([, value]) => value) : [];
  find("texts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, say(name, {}, form)), make("dd", {}, value)]));
  const links = Object.keys(SCREENS).map((screen) => make("a", {
    href: addressOf({ screen }), "aria-current": state.screen === screen ? "page" : false, "data-screen": screen,
    onclick: (event) => { event.preventDefault(); change({ screen }, { step: true }); document.querySelector(`[data-screen=${screen}]`).focus(); },
  }, say(screen, {}, form)));
  find("screens").replaceChildren(...links);
}

function draw() {
  speak(state.lang);
  if (state.screen === "image" && !names().includes(state.attention)) Object.assign(state, { attention: names().at(-1), head: "mean", at: "" });
  if (state.screen === "inside") {
    if (state.head === "mean") state.head = "0";
    if (!names().includes(state.attention) && names().length) state.attention = names().at(-1);
  }
  fillFrame();
  fillControls();
  for (const [name, fill] of Object.entries(SCREENS)) {
    find(name).hidden = name !== state.screen;
    if (name === state.screen) fill(find(name), tell);
    else find(name).replaceChildren();
  }
}

find("language").addEventListener("click", () => change({ lang: state.lang === "fr" ? "en" : "fr" }));
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); find("main").focus(); });
buildControls();
onChange(draw);
whenRecoloured(draw);
for (const [event, paper] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => { document.documentElement.classList.toggle("printing", paper); draw(); });
}
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
readAddress();
draw();
document.documentElement.dataset.drawn = String(Math.round(performance.now()));
