// What stands beside a map: that of another word or label of the same picture, or that of another picture.

import { traceAnswer } from "./asking.js";
import { attentionsToPictures } from "./data.js";
import { subtract } from "./difference.js";
import { unique } from "./fields.js";
import { highest, nameOf, placed, seen } from "./image_map.js";
import { make } from "./make.js";
import { pictureField } from "./picture_field.js";
import { SourceError } from "./source.js";
import { percent, say } from "./strings.js";
import { troubleView } from "./trouble.js";

const OTHER = "o"; // begins the name of a word of the other picture
const traces = new Map(); // of other pictures, by the names that the server gave them
const draft = {}; // the picture that was chosen to be asked about

/** What the other picture got, or null: a file may hold one, and a server knows those that it was asked about. */
export async function otherOf(context, attention) {
  const trace = await otherTrace(context), offered = trace ? attentionsToPictures(trace) : [];
  const same = offered.find(({ name }) => name === attention.name) ?? offered.at(-1);
  return same ? seen(context, trace, same) : null;
}

async function otherTrace({ trace, source, state, signal, tell }) {
  if (trace.other) return trace.other;
  if (!source.live || !state.other || state.screen !== "image") return null;
  try {
    if (!traces.has(state.other)) traces.set(state.other, await source.open(state.other, { signal }));
  } catch (error) {
    if (error.status !== 404) throw error;
    tell(say("other_gone"));
  }
  return traces.get(state.other) ?? null;
}

/** The map that stands beside that of a word, or null: `{shown, word}`. */
export function besideOf(shown, word, other) {
  const { beside } = shown.state, place = beside.replace(OTHER, ""), n = Number(place);
  if (beside.startsWith(OTHER)) return other && { shown: other, word: place !== "" && n in other.words ? n : sameWord(other, shown.words[word].name) };
  return beside !== "" && n in shown.words && n !== word ? { shown, word: n } : null;
}

/** The word of that name, or else the first. */
function sameWord(shown, name) {
  return Math.max(0, shown.words.findIndex((item) => item.name === name));
}

/** A choice of what stands beside it: words of this picture, and of the other. */
export function besidePicker(shown, word, { other, beside, change }) {
  const own = shown.words.flatMap((item, n) => (n === word ? [] : [[String(n), nameOf(shown, n)]]));
  const others = other ? other.words.map((_, n) => [`${OTHER}${n}`, nameOf(other, n)]) : [];
  if (!own.length && !others.length) return [];
  const options = (list) => list.map(([value, text]) => make("option", { value }, text));
  const groups = others.length ? [["this_picture", own], ["other_picture", others]].filter(([, list]) => list.length).map(([name, list]) => make("optgroup", { label: say(name) }, ...options(list))) : options(own);
  const select = make("select", { name: "beside", onchange: () => change({ beside: select.value }) }, make("option", { value: "" }, say("nothing_beside")), ...groups);
  select.value = !beside ? "" : beside.shown === other ? `${OTHER}${beside.word}` : String(beside.word);
  return [make("label", { class: "field beside" }, make("span", {}, say("beside_it", {}, shown.form)), select)];
}

/** A field for another picture, which the same model is asked about in the same way; a file has no model to ask. */
export function otherField(context) {
  const { source, state, trace, models, change, tell, signal } = context;
  const asked = trace.question?.model ?? (state.model || trace.model), model = models.find(({ name, reads }) => name === asked && reads === "picture");
  if (!source.live || !model || state.screen !== "image" || !trace.id) return [];
  const troubled = make("div", {}), label = unique("other");
  const ask = async () => {
    troubled.replaceChildren();
    tell(say("use.waiting"));
    try {
      const other = await traceAnswer(source, { model, input: field.read(), options: trace.question?.options ?? {} }, {}, { signal });
      traces.set(other.id, other);
      await change({ opened: trace.id, other: other.id, beside: OTHER }, { step: true });
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return;
      if (!(error instanceof SourceError)) throw error;
      troubled.replaceChildren(troubleView(error, { source, again: ask }));
      tell(error.message);
    }
  };
  const field = pictureField(model, draft, { onInput: ask });
  return [make("div", { class: "other-picture", role: "group", "aria-labelledby": label }, make("h2", { id: label }, say("ask_other")), field.element, troubled)];
}

/** Where two maps of as many regions differ most, in a sentence. */
export function differenceNote(maps) {
  const [first, second] = maps.map(({ shown, word }) => ({ rows: [{ text: "" }], columns: shown.regions.map((region) => ({ text: placed(region) })), values: shown.values[word] }));
  const { columns, values, left } = subtract(first, second);
  if (left || !values.length) return [];
  const most = highest({ values: [values.map(Math.abs)] }, 0), texts = [first, second].map((each) => percent(each.values[most]));
  return [make("p", { class: "note", id: "difference" }, say("maps_differ", { region: columns[most].text, first: texts[0], second: texts[1] }))];
}
