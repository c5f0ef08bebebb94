// The first screen: ask a model, see its answer grow, and see at which words each word looked.

import { AnswerBox } from "./answer_box.js";
import { Asker, UNSTREAMED, answerOf, lookQuestion, sentencesOf, streams } from "./asking.js";
import { answerText, hasGap } from "./answers.js";
import { inputField, linesField, sayFirst, unique } from "./fields.js";
import { canForce, forceTokens, forcedTokens, undoForced } from "./forced.js";
import { Languages } from "./languages.js";
import { make, shorten } from "./make.js";
import { modelTitle } from "./model_names.js";
import { optionFields } from "./options.js";
import { SourceError } from "./source.js";
import { say } from "./strings.js";
import { troubleView } from "./trouble.js";

const PAUSE = 400; // milliseconds without typing after which a question is asked by itself
const SPOKEN = 200; // letters of an answer that the live line says
const PATIENT = ["write", "embed", "make"]; // what is asked for only by the button: it is never finished, or is a search
const desks = new Map(); // by model: what was typed, asked and answered, for as long as the page is open
let shown = null;

/** Fills the section; what stands there already stays, so that nothing that is being typed is lost. */
export async function drawUse(section, context) {
  const model = chosenModel(context);
  if (!model) { section.replaceChildren(make("p", {}, say("use.no_models"))); return; }
  const key = keyOf(model), language = say("lang");
  if (!desks.has(key)) desks.set(key, new Desk(model));
  const desk = desks.get(key);
  desk.follow(context, section);
  if (shown?.desk !== desk || shown.language !== language || !section.contains(shown.root)) {
    const root = desk.build(context.models);
    section.replaceChildren(root);
    if (shown && shown.desk !== desk) context.tell(desk.result ? desk.sentence() : "");
    shown = { desk, language, root };
    desk.show();
  }
  desk.arrive();
}

function keyOf(model) {
  return `${model.name} ${model.verb}`;
}

/** The model that the address names, or the first. */
function chosenModel({ models, state }) {
  return models.find(({ name, verb }) => name === state.model && (!state.verb || verb === state.verb)) ?? models[0] ?? null;
}

/** One model in use: its form, the newest question, the answer and the trace of it. */
class Desk {
  constructor(model) {
    this.model = model;
    this.draft = { texts: [], options: {}, numbers: null, picture: null, asked: null, lines: null };
    this.result = null; // {question, answer, trace, part, parts, forced}
    this.history = []; // results before a text was continued from a chosen word
    this.answers = new Map(); // results of the question by what they were forced to begin with
    this.pending = null; // the question that is being answered
    this.trouble = null;
    this.timer = 0;
  }

  /** Draw for this context from now on; requests end when another screen is shown. */
  follow(context, section) {
    this.context = context;
    this.asker ??= new Asker(context.source);
    this.looker ??= new Asker(context.source);
    context.signal.addEventListener("abort", () => setTimeout(() => {
      if (!section.hidden && section.contains(this.root)) return;
      clearTimeout(this.timer);
      this.asker.cancel();
      this.looker.cancel();
    }), { once: true });
  }

  build(models) {
    const { model, draft } = this;
    const events = { onInput: () => this.typed(), onSend: () => this.ask() };
    this.read(this.context.state);
    this.field = inputField(model, draft, events);
    this.languages = new Languages(this.model, draft, { source: this.context.source, onChange: () => this.typed(), onSwap: () => this.swap() });
    this.send = make("button", { class: "use-send" }, sayFirst(`use.send_${model.verb}`, "use.send"));
    this.troubled = make("div", {});
    const example = model.reads === "picture" ? [] : [make("button", { type: "button", onclick: () => this.tryExample() }, say("use.example"))];
    const top = make("div", { class: "use-top" }, ...(models.length > 1 ? [this.chooser(models)] : []), this.languages.element);
    const form = make("form", { class: "use-form", "aria-label": say("use.form"), novalidate: true, onsubmit: (event) => { event.preventDefault(); this.ask(); } },
      top, this.field.element, ...(model.verb === "embed" ? [linesField(draft, events)] : []), make("div", { class: "use-buttons" }, this.send, ...example), this.troubled);
    const options = optionFields(model, draft, { without: ["to", ...(model.streams ? UNSTREAMED[model.verb] ?? [] : [])], onInput: () => this.typed() });
    this.box = new AnswerBox(this);
    this.root = make("div", { class: "use" }, form, this.box.element, ...(options ? [options] : []));
    return this.root;
  }

  /** What the address names, unless something was typed since. */
  read({ input, options }) {
    if (this.addressed !== undefined || !input) return;
    this.addressed = input;
    if (this.model.inputs.type === "object") this.draft.numbers = Object.fromEntries(input.split(",").map((part) => part.split("=")));
    else this.draft.texts = this.textsOf(input);
    try { if (options) this.draft.options = JSON.parse(options); } catch { this.draft.options = {}; }
    this.unasked = true;
  }

  chooser(models) {
    const id = unique("model");
    const select = make("select", { id, onchange: () => this.choose(models[select.selectedIndex]) },
      ...models.map((model, n) => make("option", { value: n, selected: model === this.model }, modelTitle(model))));
    this.chosen = id;
    return make("div", { class: "use-field use-model" }, make("label", { for: id }, say("use.model")), select);
  }

  /** Go to another model, and what was asked of it before; one that does the same is asked the same. */
  async choose({ name, verb, task }) {
    const other = desks.get(keyOf({ name, verb })), same = task === this.model.task;
    const input = other?.addressed ?? (same ? this.addressed : "") ?? "";
    const chosen = other?.result ? other.placed(other.result) : {};
    await this.context.show(other?.result?.trace ?? null, { model: name, verb, input, options: "", ...chosen });
    document.getElementById(shown.desk.chosen)?.focus();
  }

  tryExample() {
    const text = sayFirst(`use.example_${this.model.verb}`, this.model.example);
    this.field.put(String(text).split("\t"));
    this.ask();
  }

  /** Put a text into the box in place of what is there, and ask. */
  put(text) {
    this.field.put([text]);
    this.ask();
  }

  swap() {
    const answer = this.result && answerText(this.result.answer);
    if (answer) this.field.put([answer]);
    this.ask();
  }

  /** Something was typed: ask by itself after a pause, where answers are cheap and come to an end. */
  typed() {
    clearTimeout(this.timer);
    this.languages.detect(this.draft.texts[0] ?? "", this.context.signal);
    if (this.field.read() === null) {
      this.asker.cancel();
      this.looker.cancel();
      this.pending = null;
      return this.box.wait(false);
    }
    if (!PATIENT.includes(this.model.verb) && !this.lacksGap()) this.timer = setTimeout(() => this.ask({ alone: true }), PAUSE);
  }

  /** Whether a text has no gap yet that could be filled. */
  lacksGap() {
    return this.model.verb === "fill" && !hasGap(this.draft.texts[0]);
  }

  /** Put a text with a gap filled in place of what was asked; other gaps are asked about anew. */
  fill(text) {
    if (hasGap(text)) return this.put(text);
    this.field.put([text]);
    this.result = { ...this.result, answer: { ...this.result.answer, filled: text } };
    this.show();
    this.context.tell(this.sentence());
  }

  textsOf(input) {
    return this.model.inputs.type === "array" ? input.split("\t") : [input];
  }

  /** The address may name a question that was not asked yet, or asking it was interrupted; another screen's question is asked by the frame. */
  arrive() {
    const { input } = this.context.state;
    if (input && input !== this.addressed && this.model.inputs.type !== "object") {
      this.addressed = input;
      this.field.put(this.textsOf(input));
      this.unasked = true;
    }
    const forcedElsewhere = this.result && !this.pending && !this.isNamed(this.result);
    if (this.context.awaited || (!this.unasked && !this.pending && !forcedElsewhere)) return;
    this.unasked = false;
    if (this.asker.busy || this.field.read() === null) return;
    this.ask({ named: true });
  }

  /** What the address forces an answer of this model to begin with. */
  forced() {
    return canForce(this.model) ? forcedTokens(this.context.state).join(",") : "";
  }

  /** Whether the address names this result: its sentence, and what it was forced to begin with. */
  isNamed(result) {
    const { part } = this.context.state;
    return result.forced === this.forced() && (part === this.placed(result).part || (part === "" && result.part === 0));
  }

  /** How the address names a result of its question. */
  placed({ part, parts, forced, before }) {
    return { part: parts.length > 1 ? parts[part] : "", forced, before };
  }

  question() {
    const input = this.field.read();
    const options = { ...this.draft.options, ...this.languages.options() };
    const lines = (this.draft.lines ?? "").split("\n").map((line) => line.trim()).filter(Boolean);
    return { model: this.model, input, options, lines };
  }

  /** Ask what the form holds; only the newest question is answered. `alone`: nobody pressed a button; `named`: the address chooses. */
  async ask({ alone = false, named = false } = {}) {
    clearTimeout(this.timer);
    const question = this.question();
    if (question.input === null) {
      this.context.tell(say("use.empty"));
      return this.field.focus();
    }
    this.pending = question;
    this.looker.cancel();
    Object.assign(this.draft, { asked: [...this.draft.texts], askedPictures: this.draft.pictures });
    const begun = this.begin(question, named && this.inputInAddress(question) === this.addressed);
    this.address(question, this.placed(begun));
    this.languages.detect(this.draft.texts[0] ?? "", this.context.signal);
    this.fail(null);
    this.box.wait(true);
    try {
      const told = begun.forced && begun.parts.length === 1 ? await this.askForced(begun) : await this.askFreely(question);
      if (told === null || this.pending !== question) return;
      this.pending = null;
      this.history = [];
      this.result = { ...begun, answer: told.answer };
      this.show();
      this.context.tell(this.sentence());
      if (told.trace) await this.take(this.result, told.trace);
      else await this.look();
    } catch (error) {
      if (this.pending !== question && this.pending !== null) return;
      if (alone && error.status === 422) this.refuse(error);
      else this.fail(error, () => this.ask({ named: true }));
    }
  }

  /** A result without its answer, which begins as the address says if that is about the same question. */
  begin(question, named) {
    const parts = this.partsOf(question), { part, before } = this.context.state;
    if (named) return { question, trace: null, parts, part: Math.max(0, parts.indexOf(part)), forced: this.forced(), before };
    this.answers.clear();
    return { question, trace: null, parts, part: 0, forced: "", before: "" };
  }

  /** Ask for an answer, which may grow; a redraw does not end it, but leaving the screen does, or a newer question. */
  async askFreely(question) {
    const onText = (text) => { if (this.pending === question) this.box.grow(text); };
    const answer = await this.asker.ask(question, { signal: new AbortController().signal, onText });
    return answer && { answer, trace: null };
  }

  /** Ask for an answer with its trace, which tells it: the beginning of both is forced. */
  async askForced({ question, forced }) {
    const trace = await this.asker.run(new AbortController().signal, (signal) => this.context.source.explain({ ...lookQuestion(question), forced }, { signal }));
    return trace && { answer: answerOf(this.model, trace), trace };
  }

  /** The answer as the live line says it. */
  sentence() {
    return say("use.answered_so", { answer: shorten(answerText(this.result.answer), SPOKEN) || say("use.nothing") });
  }

  /** Texts of several sentences are looked at sentence by sentence. */
  partsOf({ model, input }) {
    return model.verb === "translate" ? sentencesOf(input, this.languages.source()) : [input];
  }

  /** Ask where the model looked while it gave the answer that is shown, or one part of it. */
  async look() {
    const { result } = this, { question, answer, parts, part, forced } = result;
    const input = parts.length > 1 ? parts[part] : question.input;
    const asked = lookQuestion({ ...question, input }, answer);
    if (!asked || this.isTooLong(asked.input)) return this.box.look(null);
    this.box.lookAhead();
    try {
      const endless = new AbortController().signal;
      const trace = await this.looker.run(endless, (signal) => this.context.source.explain({ ...asked, forced }, { signal }));
      if (trace !== null && this.result === result) await this.take(result, trace);
    } catch (error) {
      if (this.result === result) this.box.look(null, error);
    }
  }

  /** Whether the server does not explain so long a text; pictures have no letters. */
  isTooLong(input) {
    const most = this.context.facts?.limits?.explain_characters;
    return this.model.reads !== "picture" && typeof input === "string" && most !== undefined && input.length > most;
  }

  /** Make a trace the one that every screen shows; an answer with a forced beginning is what its trace tells. */
  async take(result, trace) {
    result.trace = trace;
    if (result.forced && result.parts.length === 1) result.answer = answerOf(this.model, trace);
    this.answers.set(result.forced, result);
    await this.context.show(trace, this.placed(result), { step: false });
    if (result.forced) await this.show();
    else this.box.look(result);
  }

  /** Write on from what was chosen: `ids` are forced, and what is before them stays. */
  async force(ids, { word, row }) {
    const changes = forceTokens(this.context.state, ids);
    this.result = { ...this.result, ...changes, trace: null, row };
    await this.context.change(changes, { quiet: true });
    await this.look();
    const { trace } = this.result;
    if (!trace) return;
    this.box.focusWord(row);
    this.context.tell(say("use.rewritten", { word, answer: trace.facts.answer }));
  }

  /** Continue a text from a word that was chosen. */
  async continueFrom(text, row) {
    const history = [...this.history, this.result];
    this.field.put([text]);
    await this.ask();
    this.history = history;
    await this.show();
    this.box.focusWord(row);
  }

  /** Whether there is something before the word that was chosen last. */
  get canUndo() {
    return this.history.length > 0 || Boolean(this.result?.forced);
  }

  /** Back to what was shown before a word was chosen; what this page does not know any more, the server answers again. */
  async undo() {
    const { row = 0, forced } = this.result, changes = forced ? undoForced(this.context.state) : {};
    const before = forced ? this.answers.get(changes.forced) : this.history.pop();
    this.looker.cancel();
    if (before) {
      this.result = { ...before, ...changes };
      if (!forced) this.field.put([before.question.input]);
      if (before.trace) await this.context.show(before.trace, this.placed(this.result), { step: false });
      await this.show();
    } else {
      await this.context.change(changes, { quiet: true });
      await this.ask({ named: true });
    }
    if (this.trouble) return;
    this.box.focusWord(row);
    this.context.tell(say("use.undone", { answer: this.result.trace?.facts.answer ?? answerText(this.result.answer) }));
  }

  /** Choose another sentence of a text. */
  async choosePart(part) {
    this.history = [];
    this.answers.clear();
    this.result = { ...this.result, part, trace: null, forced: "", before: "" };
    await this.context.change(this.placed(this.result), { quiet: true });
    this.show();
    await this.look();
  }

  async show() {
    this.fail(this.trouble, this.again);
    await this.box.show();
  }

  /** Say beside the form what went wrong; what was typed and answered stays. */
  fail(error, again) {
    if (error && !(error instanceof SourceError)) throw error;
    Object.assign(this, { trouble: error, again });
    this.troubled.replaceChildren(...(error ? [troubleView(error, { source: this.context.source, again })] : []));
    if (!error) return;
    this.box.wait(false);
    this.context.tell(error.message);
  }

  /** What cannot be answered yet, while somebody types, is no trouble. */
  refuse(error) {
    this.pending = null;
    this.box.wait(false);
    this.box.note.textContent = error.message;
  }

  /** The input of a question as the address has it; pictures are too large for it. */
  inputInAddress({ input }) {
    if (this.model.reads === "picture") return "";
    return this.model.inputs.type === "object" ? Object.entries(input).map(([name, value]) => `${name}=${value}`).join(",") : [input].flat().join("\t");
  }

  address(question, changes) {
    const text = this.inputInAddress(question), { options } = question;
    const changed = Object.keys(options).length ? JSON.stringify(options) : "";
    this.addressed = text;
    this.context.change({ screen: "use", model: this.model.name, verb: this.model.verb, input: text, options: changed, ...changes }, { quiet: true });
  }

  get streamed() {
    return streams(this.model, this.draft.options);
  }
}
