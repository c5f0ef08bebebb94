// What else could stand in the place of a written word, with probabilities; choosing one keeps what is before it and writes on.

import { candidate } from "./answers.js";
import { make } from "./make.js";
import { offsetOf } from "./linked.js";
import { percent, say } from "./strings.js";

const LISTED = 8;

/** Whether words of this model's answers can be chosen: it continues texts, or can be made to begin with given tokens. */
export function canChoose(model, links) {
  if (links.attention.query !== "target") return false;
  return model.verb === "write" || Boolean(model.look?.properties?.prefix);
}

/** The candidates for a word: those of its first piece, or of another where it has several. */
export async function wordChoices(context, links, row, { desk, text, close }) {
  const { trace, source, signal } = context, unit = links.rows[row];
  if (!trace.predictions?.length) await source.steps(trace, links.attention.name, { signal });
  const element = make("div", { class: "use-alternatives", role: "group" });
  const show = (piece) => {
    const place = unit.places[piece], prediction = trace.predictions[place];
    element.setAttribute("aria-label", say("use.alternatives", { word: unit.text }));
    const listed = prediction.top.slice(0, LISTED).map(([written, share], n) => {
      const chosen = written === prediction.written;
      const part = chosen && piece < unit.places.length - 1 ? "…" : ""; // more of the word follows
      return candidate(readable(written) + part, share, () => { if (!chosen) pick({ context, links, row, piece, place, candidate: { written, id: prediction.ids?.[n] }, desk, text }); },
        { pressed: chosen, title: chosen ? say("use.written") : say("use.write_on", { word: readable(written) }) });
    });
    const rank = prediction.rank < LISTED ? [] : [make("p", { class: "note" }, say("use.rank", { word: readable(prediction.written), percent: percent(prediction.probability), rank: prediction.rank + 1 }))];
    element.replaceChildren(make("button", { type: "button", class: "use-close", "aria-label": say("use.close"), onclick: close }, "×"),
      make("h3", {}, say("use.alternatives", { word: unit.text })), ...pieces(show, piece),
      make("ul", { class: "use-candidates" }, ...listed), ...rank, make("p", { class: "note" }, say("use.begin_note")));
  };
  const pieces = (choose, current) => (unit.places.length < 2 ? [] : [make("div", { class: "scrubber", role: "group", "aria-label": say("use.pieces", { word: unit.text }) },
    ...unit.places.map((place, n) => make("button", { type: "button", "aria-pressed": String(n === current), onclick: () => choose(n) }, readable(trace.items.target[place].text))))]);
  show(0);
  return element;
}

/** A token as it reads: blanks are not seen, the end has a name. */
export function readable(token) {
  if (/^<\/?(?:eos|s|end|eot)>$/i.test(token)) return say("use.end");
  return token.trim() || "␣";
}

/** Write on from a chosen token. */
function pick({ context, links, row, piece, place, candidate: { written, id }, desk, text }) {
  const { trace } = context, unit = links.rows[row];
  if (desk.model.verb === "write") {
    const start = offsetOf(links.rowParts, row);
    const inside = unit.places.slice(0, piece).map((each) => trace.items.target[each].text).join("").trimStart();
    const before = text.slice(0, start);
    return desk.continueFrom(inside ? before + inside + written : before.trimEnd() + (before.trim() ? written : written.trimStart()), row);
  }
  return desk.force([...trace.written.slice(0, place), id], { word: readable(written), row });
}
