// A text of several sentences, one of which is looked at: a row of numbered buttons.

import { make, moved, shorten } from "./make.js";
import { say } from "./strings.js";

const LETTERS = 60; // of a sentence in the name of its button

/** Buttons for the sentences of a result; `choose(n)` is told which one is to be looked at. */
export function lineChooser({ parts, part }, choose) {
  const walk = (event) => {
    const next = moved(event, part, parts.length);
    if (next === null) return;
    event.preventDefault();
    choose(next);
  };
  const buttons = parts.map((text, n) => make("button", {
    type: "button", "aria-pressed": String(n === part), tabindex: n === part ? "0" : "-1", title: shorten(text, LETTERS),
    "aria-label": say("use.sentence", { n: n + 1, text: shorten(text, LETTERS) }), onclick: () => choose(n), onkeydown: walk,
  }, String(n + 1)));
  return make("div", { class: "use-sentences" }, make("p", { class: "note" }, say("use.sentences", { n: parts.length })),
    make("div", { class: "scrubber", role: "group", "aria-label": say("use.sentences", { n: parts.length }) }, ...buttons));
}
