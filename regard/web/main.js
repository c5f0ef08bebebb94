// The frame of the explorer: it opens the source, reads the address, and draws the chosen screen again whenever something changes.

import { buildControls, fillControls, names } from "./controls.js";
import { whenRecoloured } from "./data.js";
import { fillFrame, fillKernel, hideTrouble, showTrouble, tell } from "./frame.js";
import { make } from "./make.js";
import { SCREENS, screensOf } from "./screens.js";
import { SourceError, openSource } from "./source.js";
import { QUESTION, addressOf, change, namedScreen, onChange, readAddress, settle, state } from "./state.js";
import { say, speak } from "./strings.js";

const find = (id) => document.getElementById(id);
const source = openSource();

/** What every screen is drawn from; `show` makes another trace the one that is shown, `awaited` says that one is being asked for. */
const context = { trace: null, source, state, change, addressOf, tell, show, models: [], facts: null, awaited: false, signal: null };
let controller = new AbortController();
let asking = null; // of the question in the address

/** Show a trace on every screen, as the answer to the question that `changes` name. */
async function show(trace, changes = {}, { step = true } = {}) {
  Object.assign(context, { trace, awaited: false });
  Object.assign(state, { at: "", token: "0", forced: "", before: "", hypothesis: "" });
  settle(trace, screensOf(context));
  await change(changes, { step });
}

/** Draw the chosen screen; what was being drawn is given up. */
async function draw() {
  controller.abort();
  controller = new AbortController();
  const { signal } = controller, screens = screensOf(context);
  speak(state.lang);
  choose();
  fillFrame(context, screens);
  fillControls(context);
  for (const name of Object.keys(SCREENS)) {
    find(name).hidden = name !== state.screen;
    if (name !== state.screen) find(name).replaceChildren();
  }
  find("main").setAttribute("aria-busy", "true");
  try {
    if (screens.includes(state.screen)) await SCREENS[state.screen].draw(find(state.screen), { ...context, signal });
    else tell(say("empty"));
  } catch (error) {
    if (!signal.aborted) report(error, draw);
  }
  if (!signal.aborted) find("main").removeAttribute("aria-busy");
}

/** Some screens show some attentions only. */
function choose() {
  if (!context.trace) return;
  const offered = names(context);
  if (state.screen === "image" && !offered.includes(state.attention)) Object.assign(state, { attention: offered.at(-1), head: "mean", at: "" });
  if (state.screen !== "inside") return;
  if (state.head === "mean") state.head = "0";
  if (!offered.includes(state.attention) && offered.length) state.attention = offered.at(-1);
}

/** A sentence for what the source could not do; anything else is a mistake of ours, and is not hidden. */
function report(error, again) {
  if (error.name === "AbortError") return;
  if (!(error instanceof SourceError)) throw error;
  const retry = () => { hideTrouble(); again(); };
  showTrouble(error, { retry, key: source.live ? (key) => { source.key = key; retry(); } : null });
}

/** Open what this page is about: the trace of a file, or the models of a server and the question in the address. */
async function open() {
  try {
    if (source.live) {
      context.facts = await source.describe();
      context.models = context.facts.models;
    } else context.trace = await source.open();
  } catch (error) {
    return report(error, open);
  }
  await arrive();
  if (!source.live && source.kernel) source.kernel.ready.then(join);
}

/** The kernel answers: what needs the model is there from now on, and what is shown stays. */
async function join() {
  try {
    context.facts = await source.describe();
  } catch (error) {
    return report(error, join);
  }
  context.models = context.facts.models;
  source.live = true;
  const { screen } = state, { model, verb, inputs, options = {} } = context.trace.question ?? {};
  const { prefix, ...chosen } = options, text = inputs === undefined ? {} : { input: [inputs].flat().join("\t") };
  settle(context.trace, screensOf(context));
  await change(model ? { screen, model, verb, ...text, options: Object.keys(chosen).length ? JSON.stringify(chosen) : "" } : { screen });
}

/** Draw what the address names; the screen `use` answers its question itself, as it answers a typed one. */
async function arrive() {
  settle(context.trace, screensOf(context));
  context.awaited = source.live && Boolean(state.input) && !context.trace && namedScreen() !== "use";
  await draw();
  if (state.cut === "1" && !state.input) tell(say("cut"));
  if (context.awaited) await ask();
}

/** Ask the question in the address. */
async function ask() {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  const question = Object.fromEntries(QUESTION.map((name) => [name, state[name] || undefined]));
  tell(say("asking"));
  try {
    const options = question.options ? JSON.parse(question.options) : undefined;
    const trace = await source.explain({ ...question, options }, { signal });
    if (!signal.aborted) await show(trace, {}, { step: false });
  } catch (error) {
    if (!signal.aborted) report(error, ask);
  }
}

function build() {
  find("main").append(...Object.keys(SCREENS).map((name) => make("section", { id: name, "data-name": name, hidden: true })));
  find("language").addEventListener("click", () => change({ lang: state.lang === "fr" ? "en" : "fr" }));
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); find("main").focus(); });
  buildControls(change);
  onChange(({ read = false, question = false }) => {
    if (question && source.live) context.trace = null;
    return read ? arrive() : draw();
  });
  if (source.kernel) source.kernel.watcher = () => fillKernel(context);
  whenRecoloured(draw);
  for (const [event, paper] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(event, () => { document.documentElement.classList.toggle("printing", paper); draw(); });
  }
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
}

build();
readAddress();
open().then(() => { document.documentElement.dataset.drawn = String(Math.round(performance.now())); });
