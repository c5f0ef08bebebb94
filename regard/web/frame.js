// What stands around every screen: title, screens to choose from, language, the live line, a key and what went wrong.

import { formOf } from "./data.js";
import { headline } from "./graph.js";
import { make } from "./make.js";
import { say } from "./strings.js";

const ASKING = ["use", "compare"]; // screens whose questions and answers stand in their forms
const find = (id) => document.getElementById(id);

/** The live line; a hint on how to use the page means nothing on paper. */
export function tell(text, { hint = false } = {}) {
  find("read").textContent = text;
  find("read").classList.toggle("hint", hint);
}

/** Write all that is the same on every screen, in the reader's language. */
export function fillFrame(context, screens) {
  const { trace, state, change, addressOf } = context, form = formOf(trace);
  document.querySelectorAll("[data-say]").forEach((each) => {
    const text = say(each.dataset.say, {}, whoAnswers(context.source));
    if (each.textContent !== text) each.textContent = text;
  });
  document.querySelectorAll("[data-name]").forEach((each) => {
    if (each.matches("nav, form, section")) each.setAttribute("aria-label", say(each.dataset.name, {}, form));
  });
  fillTheme(context);
  fillKernel(context);
  const other = find("language");
  other.textContent = say("other");
  other.lang = state.lang === "fr" ? "en" : "fr";
  if (document.body.dataset.screen !== state.screen) document.body.dataset.screen = state.screen;
  fillTitle(ASKING.includes(state.screen) ? null : trace, form);
  const links = screens.map((screen) => make("a", {
    href: addressOf({ screen }), "aria-current": state.screen === screen ? "page" : false, "data-screen": screen,
    onclick: (event) => {
      event.preventDefault();
      change({ screen }, { step: true });
      document.querySelector(`[data-screen=${screen}]`).focus();
    },
  }, say(screen, {}, form)));
  find("screens").replaceChildren(...links);
}

function whoAnswers({ live, kernel }) {
  return live && kernel ? "kernel" : live ? "live" : "";
}

/** In a notebook, a line on what keeps the kernel from answering, if anything does. */
export function fillKernel({ source }) {
  if (!source.kernel) return;
  const line = find("kernel") ?? find("main").insertBefore(make("p", { id: "kernel" }), find("main").firstChild), { state } = source.kernel;
  line.hidden = state === "ready";
  line.textContent = line.hidden ? "" : say(`kernel_${state}`, {}, source.file ? "" : "alone");
}

/** The button that goes from automatic colours to light and dark ones. */
function fillTheme({ state, change }) {
  const { theme } = state, next = { auto: "light", light: "dark", dark: "auto" }[theme];
  if (document.documentElement.dataset.theme !== theme) document.documentElement.dataset.theme = theme;
  const button = find("theme") ?? find("language").parentElement.insertBefore(make("button", { type: "button", id: "theme" }), find("language"));
  button.textContent = { auto: "◐", light: "☀", dark: "☾" }[theme];
  button.setAttribute("aria-label", say(`theme_${theme}`));
  button.title = say(`theme_${theme}`);
  button.onclick = () => change({ theme: next });
}

/** What was read and what was answered. */
function fillTitle(trace, form) {
  if (!trace) {
    find("title").replaceChildren(say("welcome"));
    find("named").textContent = say("motto");
    find("texts").replaceChildren();
    return;
  }
  const { text, answer } = trace.graph ? headline(trace) : trace.facts;
  const heading = trace.title || !text || !answer
    ? [trace.title || text || answer || trace.model]
    : [make("span", { class: "from" }, text), " ", make("span", {}, `→ ${answer}`)];
  find("title").replaceChildren(...heading);
  if (trace.graph) document.title = `${answer} – Regard`;
  find("named").textContent = [say("motto"), trace.model].filter(Boolean).join(" · ");
  const facts = trace.title ? [["text", text], ["answer", answer]].filter(([, value]) => value) : [];
  find("texts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, say(name, {}, form)), make("dd", {}, value)]));
}

/** Say what went wrong, with a way to go on: the key that is missing, or the same once more. */
export function showTrouble(error, again) {
  const keyed = error.status === 401 && again.key;
  find("trouble").replaceChildren(make("p", {}, error.message), keyed ? keyForm(again.key) : make("button", { type: "button", onclick: again.retry }, say("again")));
  find("trouble").hidden = false;
  tell(error.message);
}

/** Nothing is wrong any more. */
export function hideTrouble() {
  find("trouble").hidden = true;
  find("trouble").replaceChildren();
}

/** A field for the key of the server; it is held in memory, and gone with the page. */
function keyForm(use) {
  const field = make("input", { type: "password", name: "key", autocomplete: "off", required: true, spellcheck: "false" });
  const send = (event) => {
    event.preventDefault();
    use(field.value.trim());
  };
  return make("form", { id: "key", onsubmit: send },
    make("label", { class: "field" }, make("span", {}, say("key_label")), field), make("button", {}, say("key_use")), make("p", { class: "note" }, say("key_note")));
}
