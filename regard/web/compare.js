// Two models, or two texts read by one model: what they answered, where they looked, and what differs.

import { answerText, answerView } from "./answers.js";
import { traceAnswer, wrap } from "./asking.js";
import { attentionOf, merged } from "./data.js";
import { markDifferences, subtract } from "./difference.js";
import { unique } from "./fields.js";
import { make } from "./make.js";
import { describe } from "./names.js";
import { modelTitle } from "./model_names.js";
import { SourceError } from "./source.js";
import { number, percent, say } from "./strings.js";
import { troubleView } from "./trouble.js";
import { weightTable } from "./weight_table.js";

const SIDES = ["first", "second"];
const READ = ["text"]; // what can be typed into one box
const draft = { models: ["", ""], texts: ["", ""], results: null };

/** Models whose questions fit into a box of text. */
export function comparable(models) {
  return models.filter(({ reads, inputs, verb }) => READ.includes(reads) && (inputs.type === "string" || inputs.anyOf) && verb !== "embed");
}

/** Fills the section; what was typed and answered is kept while another screen is shown. */
export async function drawCompare(section, context) {
  const models = comparable(context.models), { state } = context;
  draft.models = draft.models.map((name) => name || keyOf(models.find(({ name: each }) => each === state.model) ?? models[0]));
  draft.texts[0] ||= state.input;
  const results = make("div", { class: "compare-results" }), troubled = make("div", {});
  const fail = (error) => {
    if (error.name === "AbortError") return;
    if (!(error instanceof SourceError)) throw error;
    troubled.replaceChildren(troubleView(error, { source: context.source, again: ask }));
    context.tell(error.message);
  };
  const ask = async () => {
    troubled.replaceChildren();
    if (!draft.texts[0].trim()) return context.tell(say("use.empty"));
    results.setAttribute("aria-busy", "true");
    context.tell(say("use.waiting"));
    try {
      draft.results = await answersOf(context, models);
      await fill(results, context);
      context.tell(say("compare.told", { first: answerText(draft.results[0].answer), second: answerText(draft.results[1].answer) }));
    } catch (error) {
      if (!context.signal.aborted) fail(error);
    } finally {
      results.removeAttribute("aria-busy");
    }
  };
  section.replaceChildren(formOf(models, ask), troubled, results);
  context.tell("");
  if (draft.results) await fill(results, context);
}

function keyOf(model) {
  return `${model.name} ${model.verb}`;
}

/** Two columns of a model and a text each; an empty second text stands for the first. */
function formOf(models, ask) {
  const columns = SIDES.map((side, n) => {
    const [chosen, typed] = [unique("model"), unique("text")];
    const select = make("select", { id: chosen, onchange: () => { draft.models[n] = select.value; } }, ...models.map((model) => make("option", { value: keyOf(model) }, modelTitle(model))));
    select.value = draft.models[n];
    const box = make("textarea", { id: typed, class: "use-box", rows: "2", dir: "auto", placeholder: n ? say("compare.same_text") : null, oninput: () => { draft.texts[n] = box.value; },
      onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); } } });
    box.value = draft.texts[n];
    return make("fieldset", { class: "compare-side" }, make("legend", {}, say(`compare.${side}`)),
      make("div", { class: "use-field" }, make("label", { for: chosen }, say("use.model")), select),
      make("div", { class: "use-field" }, make("label", { for: typed }, say("use.input")), box));
  });
  return make("form", { class: "compare-form", "aria-label": say("compare"), onsubmit: (event) => { event.preventDefault(); ask(); } },
    make("p", { class: "note" }, say("compare.lead")), make("div", { class: "compare-pair" }, ...columns), make("div", { class: "use-buttons" }, make("button", { class: "use-send" }, say("compare.send"))));
}

/** Both answers with their traces, asked one after the other: the machine that answers is often the reader's own. */
async function answersOf({ source, signal }, models) {
  const results = [];
  for (const n of [0, 1]) {
    const model = models.find((each) => keyOf(each) === draft.models[n]) ?? models[0];
    const input = draft.texts[n].trim() ? draft.texts[n] : draft.texts[0];
    const { answers: [answer] } = await source.call(`/v1/${model.verb}`, { model: model.name, inputs: wrap(input) }, { signal });
    const trace = await traceAnswer(source, { model, input, options: {} }, answer, { signal });
    results.push({ model, input, answer, trace });
  }
  return results;
}

async function fill(holder, context) {
  const results = draft.results, texts = results.map(({ answer }) => answerText(answer));
  const marked = markDifferences(...texts);
  const columns = results.map((result, n) => make("div", {}, make("h3", {}, say(`compare.${SIDES[n]}`)), make("p", { class: "note" }, modelTitle(result.model)), answerOf(result, marked[n], n)));
  const same = texts[0] === texts[1] ? [make("p", {}, say("compare.equal"))] : [make("p", { class: "note" }, say("compare.signs"))];
  const maps = await mapsOf(results, context);
  holder.replaceChildren(make("h2", {}, say("compare.answers")), make("div", { class: "compare-pair" }, ...columns), ...same, scoresOf(results), ...maps);
}

/** A text with what only it has marked by a sign, a line and a colour; other answers as they are drawn elsewhere. */
function answerOf({ answer }, marked, n) {
  if (answer.all || answer.gaps || answer.tags || answer.near) return answerView(answer, { draft: { texts: [] }, put: () => {}, fill: () => {} });
  return make("p", { class: "use-answer-text", dir: "auto" }, ...marked.map(({ text, same }) => (same ? text : make(n ? "ins" : "del", {}, make("span", { "aria-hidden": "true" }, n ? "+" : "−"), text))));
}

/** Numbers that both answers have, beside each other. */
function scoresOf(results) {
  const names = ["score", "probability"].filter((name) => results.some(({ answer }) => typeof answer[name] === "number"));
  const words = (answer) => answerText(answer).split(/\s+/).filter(Boolean).length;
  const row = (title, values) => make("tr", {}, make("th", { scope: "row" }, title), ...values.map((value) => make("td", {}, value)));
  const rows = names.map((name) => row(say(`compare.${name}`), results.map(({ answer }) => (answer[name] === undefined ? "–" : number(answer[name])))));
  const head = make("thead", {}, make("tr", {}, make("td", {}), ...SIDES.map((side) => make("th", { scope: "col" }, say(`compare.${side}`)))));
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": say("compare.scores") }, make("table", {}, make("caption", {}, say("compare.scores")), head,
    make("tbody", {}, ...rows, row(say("compare.words"), results.map(({ answer }) => String(words(answer)))))));
}

/** Where each looked, and the difference over the words that both have. */
async function mapsOf(results, context) {
  if (results.some(({ trace }) => !trace)) return [make("p", { class: "note" }, say("compare.no_trace"))];
  const shown = [];
  for (const { trace } of results) {
    const attention = attentionOf(trace, "");
    shown.push(await merged({ ...context, trace }, attention, "mean", { level: "word", specials: false, share: false }));
  }
  if (shown.some(({ rows, columns }) => !rows.length || !columns.length)) return [make("p", { class: "note" }, say("compare.no_trace"))];
  const maps = shown.map((each, n) => make("div", {}, weightTable(each, { caption: say("compare.map", { side: say(`compare.${SIDES[n]}`), attention: describe(each.attention.name, each.trace) }) })));
  const difference = subtract(...shown), enough = difference.rows.length && difference.columns.length;
  const changed = enough ? [weightTable(difference, { caption: say("compare.map_difference"), diverging: true }),
    make("p", { class: "note" }, `${summaryOf(difference)} ${difference.left ? say("compare.left_out", { n: difference.left }) : ""}`)] : [make("p", {}, say("compare.no_match"))];
  return [make("h2", {}, say("compare.looked")), make("div", { class: "compare-pair" }, ...maps), make("h2", {}, say("compare.difference")), ...changed];
}

/** The largest change in a sentence. */
function summaryOf({ rows, columns, values }) {
  const place = values.reduce((most, value, n) => (Math.abs(value) > Math.abs(values[most]) ? n : most), 0);
  const value = values[place];
  if (Math.abs(value) < 0.0005) return say("compare.unchanged");
  return say("compare.largest", { query: rows[Math.floor(place / columns.length)].text, key: columns[place % columns.length].text, percent: percent(Math.abs(value)) }, value > 0 ? "more" : "less");
}
