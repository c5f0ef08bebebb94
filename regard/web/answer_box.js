// The answer of a model: it grows while it is written, then its words light up, and a chosen word can be written otherwise.

import { answerText, answerView } from "./answers.js";
import { lineChooser } from "./sentences.js";
import { linkedView, linksOf, offsetOf } from "./linked.js";
import { make } from "./make.js";
import { regionsView } from "./regions.js";
import { neighboursView } from "./neighbours.js";
import { sayFirst } from "./fields.js";
import { say } from "./strings.js";
import { canChoose, wordChoices } from "./word_choices.js";

const TEXTS = ["translation", "answer", "text", "caption"]; // members of answers that a trace spells out again

const MARGIN = 8; // pixels around what is scrolled into sight

/** The half of the screen that shows what was answered. */
export class AnswerBox {
  constructor(desk) {
    this.desk = desk;
    this.body = make("div", { class: "use-body" });
    this.side = make("div", { class: "use-side" });
    this.note = make("p", { class: "note use-wait" });
    this.actions = make("div", { class: "use-buttons" });
    this.title = make("h2", {}, say("use.answer"));
    this.element = make("div", { class: "use-answer", role: "region", "aria-label": say("use.answer") }, this.title, this.body, this.side, this.note, this.actions);
    this.drawing = 0;
  }

  /** Say that an answer is awaited; what is shown stays until it comes. */
  wait(busy) {
    this.element.setAttribute("aria-busy", String(busy));
    this.element.classList.toggle("waiting", busy);
    this.note.textContent = busy ? say("use.waiting") : "";
    this.actions.hidden = busy;
  }

  /** The text so far. */
  grow(text) {
    this.drawing += 1;
    this.body.replaceChildren(make("p", { class: "use-answer-text growing", dir: "auto" }, text));
    this.side.replaceChildren();
  }

  /** Draw the result of the desk, at first without its links. */
  async show() {
    const { result, model, draft } = this.desk;
    this.drawing += 1;
    this.side.replaceChildren();
    this.wait(Boolean(this.desk.pending));
    this.fillActions();
    if (!result) {
      this.body.replaceChildren(make("p", { class: "use-empty" }, sayFirst(`use.empty_${model.verb}`, "use.empty_answer")));
      return;
    }
    const tools = { draft, put: (text) => this.desk.put(text), fill: (text) => this.desk.fill(text), limits: model.limits };
    this.body.replaceChildren(answerView(result.answer, tools));
    if (result.parts.length > 1) this.body.append(lineChooser(result, (part) => this.desk.choosePart(part)));
    if (result.trace) await this.look(result);
  }

  lookAhead() {
    this.note.textContent = say("use.looking");
  }

  /** Draw where the model looked; null where that cannot be shown. */
  async look(result, error = null) {
    this.note.textContent = error ? error.message : "";
    if (error) this.note.append(" ", make("button", { type: "button", class: "use-small", onclick: () => this.desk.look() }, say("use.again")));
    this.fillActions();
    if (!result?.trace) return;
    const drawing = ++this.drawing, { trace } = result;
    const context = { ...this.desk.context, trace, signal: new AbortController().signal };
    const view = await this.viewOf(context, result);
    if (drawing !== this.drawing || !view) return;
    if (this.repeats(result)) this.body.replaceChildren(view);
    else this.side.replaceChildren(view);
  }

  /** Whether the linked texts say all that the answer says: then they take its place. */
  repeats({ answer, trace, parts }) {
    if (parts.length > 1 || trace.attentions[trace.first]?.query !== "target" || trace.attentions[trace.first].key in trace.pictures || answer.alternatives) return false;
    const text = TEXTS.map((name) => answer[name]).find((value) => value !== undefined);
    return trace.facts.answer === text || this.desk.model.verb === "write";
  }

  async viewOf(context, result) {
    const { trace } = result, first = trace.attentions[trace.first];
    if (trace.graph) return neighboursView(context, { ask: (node) => this.desk.put(node) });
    if (trace.attentions.some(({ key }) => key in trace.pictures)) return regionsView(context);
    if (!first || !["target", "source", "label"].includes(first.query) || !["source", "fed"].includes(first.key)) return null;
    const writes = this.desk.model.verb === "write";
    const links = await linksOf(context, { text: writes ? answerText(result.answer) : null });
    if (!links.rows.length || !links.columns.length) return null;
    return this.linked(context, links, result);
  }

  /** The texts, and below them what else could stand in the place of a chosen word. */
  linked(context, links, result) {
    const choices = make("div", { class: "use-choices", onkeydown: (event) => { if (event.key === "Escape") { event.stopPropagation(); close(); } } });
    const able = canChoose(this.desk.model, links);
    let chosen = null;
    const close = () => {
      const row = chosen;
      view.choose("row", row);
      view.lines.row.words[row].focus();
    };
    const onPick = async (row) => {
      chosen = row;
      choices.replaceChildren();
      if (row === null || !able) return;
      const element = await wordChoices(context, links, row, { desk: this.desk, text: answerText(result.answer), close }).catch((error) => make("p", { class: "note" }, error.message));
      if (chosen !== row) return; // another word was chosen meanwhile
      choices.replaceChildren(element);
      reveal(choices, view.lines.row.words[row]);
    };
    const titles = { row: say(links.same ? "use.text" : `use.side_${links.attention.query}`), column: say("use.side_source") };
    const begin = result.question.input.length;
    const marked = this.desk.model.verb === "write" ? (_, index) => offsetOf(links.rowParts, index) >= begin : null;
    const view = linkedView(links, { context, titles, onPick, picked: links.rows.length === 1 ? 0 : null, marked });
    const hint = make("p", { class: "note use-hint" }, say(able ? "use.hint_choose" : "use.hint"));
    const differs = links.attention.query === "target" && !this.repeats(result) && result.parts.length === 1 ? [make("p", { class: "note" }, say("use.differs"))] : [];
    view.element.lastChild.before(choices);
    return make("div", {}, ...differs, view.element, hint);
  }

  /** Put the keyboard on a written word, if what it was on is gone. */
  focusWord(row) {
    if (document.activeElement !== document.body) return;
    const words = this.element.querySelectorAll(".use-text.row .use-word");
    words[Math.min(row, words.length - 1)]?.focus();
  }

  /** What can be done with the answer. */
  fillActions() {
    const { desk } = this, { result } = desk, actions = [];
    const add = (name, onclick, settings = {}) => actions.push(make("button", { type: "button", onclick, ...settings }, say(name)));
    const screen = result?.trace && screenOf(result.trace);
    if (screen) add("use.see", () => desk.context.change({ screen }, { step: true }), { class: "use-see" });
    if (desk.canUndo) add("use.undo", () => desk.undo(), { class: "use-undo" });
    if (result && desk.model.verb === "write") add("use.another", () => desk.ask());
    const focused = this.actions.contains(document.activeElement) ? document.activeElement.className : null;
    this.actions.replaceChildren(...actions);
    if (focused !== null) (this.actions.querySelector(`.${focused || "none"}`) ?? this.actions.firstChild)?.focus();
  }
}

/** Scroll until the list can be seen above the live line, as far as its word stays in sight. */
function reveal(list, word) {
  const hidden = list.getBoundingClientRect().bottom + document.getElementById("read").offsetHeight + MARGIN - innerHeight;
  if (hidden > 0) scrollBy(0, Math.max(0, Math.min(hidden, word.getBoundingClientRect().top - MARGIN)));
}

/** The screen that shows a trace best. */
export function screenOf(trace) {
  if (trace.graph) return "graph";
  return trace.attentions.some(({ key }) => key in trace.pictures) ? "image" : trace.attentions.length ? "alignment" : null;
}
