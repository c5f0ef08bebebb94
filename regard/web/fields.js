// Fields of a form, made from JSON schemas: texts, lines, lists, choices, numbers by name; pictures lie in picture_field.js.

import { make } from "./make.js";
import { pictureField, picturesField } from "./picture_field.js";
import { say } from "./strings.js";

const FEW = 12; // choices that are shown as a list; more are searched by typing
const LINES = ["word", "node", "label", "sequence"]; // inputs that fit on a line
let count = 0;

/** A name for an element that no other has. */
export function unique(name) {
  return `${name}-${++count}`;
}

/** A sentence that there may be under this name, or another. */
export function sayFirst(...names) {
  const known = names.find((name) => say(name) !== name);
  return say(known ?? names.at(-1));
}

/** The field of one input: `{element, read, focus}`; `read` gives null as long as something is missing. */
export function inputField(model, draft, events) {
  const schema = model.inputs.anyOf?.find(({ type }) => type === "string") ?? model.inputs;
  if (schema.contentEncoding === "base64") return model.together ? picturesField(draft, events) : pictureField(model, draft, events);
  if (schema.enum) return choiceField(model, schema.enum, draft, events);
  if (schema.type === "object") return rowField(model, draft, events);
  if (schema.type === "array") return severalField(model, schema, draft, events);
  return textField(model, draft, events, { line: LINES.includes(model.reads) });
}

/** What stands above the field of an input, in the words of what the model does. */
function labelOf(model, part = "") {
  return sayFirst(`use.input_${model.verb}${part}`, `use.input_${model.reads}${part}`, `use.input${part}`);
}

/** A box that grows with its text; Ctrl+Enter sends, and on a line Enter does. */
function textBox(name, label, { value, line, events, change }) {
  const id = unique("field");
  const box = make(line ? "input" : "textarea", {
    id, name, class: "use-box", rows: line ? null : "2", type: line ? "text" : null, autocomplete: "off", spellcheck: "true", dir: "auto", placeholder: label,
    oninput: () => { grow(box); change(box.value); events.onInput(); },
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.isComposing || !(line || event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      events.onSend();
    },
  });
  box.value = value;
  requestAnimationFrame(() => grow(box));
  return { box, element: make("div", { class: "use-field" }, make("label", { for: id }, label), box) };
}

/** Make a box as high as its text, up to half of the window. */
function grow(box) {
  if (box.tagName !== "TEXTAREA" || !box.isConnected) return;
  box.style.height = "auto";
  box.style.height = `${Math.min(box.scrollHeight + 2, innerHeight / 2)}px`;
}

function textField(model, draft, events, { line }) {
  draft.texts[0] ??= "";
  const change = (value) => { draft.texts[0] = value; };
  const { box, element } = textBox("input", labelOf(model), { value: draft.texts[0], line, events, change });
  const put = (text) => { box.value = text; change(text); grow(box); };
  return { element, read: () => (box.value.trim() ? box.value : null), focus: () => box.focus(), put: ([text]) => put(text), box };
}

/** Several texts that belong together; where there may be more of them, the last is a list to add to. */
function severalField(model, schema, draft, events) {
  const least = schema.minItems ?? 1, open = schema.maxItems !== least;
  while (draft.texts.length < least) draft.texts.push("");
  const holder = make("div", { class: "use-several" });
  const fill = (focused = -1) => {
    const boxes = draft.texts.map((text, n) => {
      const part = open && n ? "_more" : `_${n + 1}`;
      const label = labelOf(model, part).replace("{n}", String(n));
      const { box, element } = textBox(`input-${n}`, label, { value: text, line: open && n > 0, events, change: (value) => { draft.texts[n] = value; } });
      if (open && n >= least) element.append(button("use.remove", () => { draft.texts.splice(n, 1); fill(n - 1); events.onInput(); }, { n }));
      return { box, element };
    });
    const add = open ? [button("use.add", () => { draft.texts.push(""); fill(draft.texts.length - 1); })] : [];
    holder.replaceChildren(...boxes.map(({ element }) => element), ...add);
    if (focused >= 0) boxes[focused].box.focus();
  };
  fill();
  const read = () => (draft.texts.every((text) => text.trim()) ? [...draft.texts] : null);
  const put = (texts) => { draft.texts.splice(0, draft.texts.length, ...texts); fill(); };
  return { element: holder, read, focus: () => holder.querySelector("textarea, input").focus(), put };
}

/** Where an embedder searches: lines that the reader types. */
export function linesField(draft, events) {
  const id = unique("lines");
  draft.lines ??= say("use.example_lines");
  const box = make("textarea", { id, class: "use-box", rows: "4", dir: "auto", oninput: () => { draft.lines = box.value; events.onInput(); } });
  box.value = draft.lines;
  return make("div", { class: "use-field use-lines" }, make("label", { for: id }, say("use.lines")), box);
}

function button(name, onclick, gaps = {}) {
  return make("button", { type: "button", class: "use-small", onclick }, say(name, gaps));
}

/** One of some words: a list to choose from, or, where they are many, a line that suggests them. */
function choiceField(model, choices, draft, events) {
  const id = unique("field"), many = choices.length > FEW, list = unique("choices");
  draft.texts[0] ??= choices[0];
  const change = () => { draft.texts[0] = box.value; events.onInput(); };
  const options = choices.map((value) => make("option", { value }, many ? "" : value));
  const box = many
    ? make("input", { id, class: "use-box", list, autocomplete: "off", oninput: change, onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); events.onSend(); } } })
    : make("select", { id, onchange: change }, ...options);
  box.value = draft.texts[0];
  const element = make("div", { class: "use-field" }, make("label", { for: id }, labelOf(model)), box, ...(many ? [make("datalist", { id: list }, ...options)] : []));
  return { element, read: () => box.value.trim() || null, focus: () => box.focus(), put: ([text]) => { box.value = text; draft.texts[0] = text; } };
}

/** Numbers by the names of their columns, which the example of the model names. */
function rowField(model, draft, events) {
  const named = String(model.example).split(",").map((part) => part.split("=").map((text) => text.trim())).filter(([name]) => name);
  draft.numbers ??= Object.fromEntries(named.map(([name]) => [name, ""]));
  const boxes = named.map(([name, value]) => {
    const id = unique("field");
    const box = make("input", {
      id, type: "number", step: "any", placeholder: value ?? "", class: "use-number",
      oninput: () => { draft.numbers[name] = box.value; events.onInput(); },
      onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); events.onSend(); } },
    });
    box.value = draft.numbers[name];
    return { name, box, element: make("div", { class: "use-field" }, make("label", { for: id }, name), box) };
  });
  const legend = make("legend", {}, labelOf(model));
  const element = make("fieldset", { class: "use-row" }, legend, ...boxes.map((entry) => entry.element));
  const read = () => (boxes.every(({ box }) => box.value !== "" && Number.isFinite(box.valueAsNumber))
    ? Object.fromEntries(boxes.map(({ name, box }) => [name, box.valueAsNumber])) : null);
  const put = () => boxes.forEach(({ name, box }, n) => { box.value = named[n][1] ?? ""; draft.numbers[name] = box.value; });
  return { element, read, focus: () => boxes[0]?.box.focus(), put };
}
