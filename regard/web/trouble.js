// What went wrong, in a sentence beside the form, with a way to go on: once more, or the key that is missing.

import { unique } from "./fields.js";
import { make } from "./make.js";
import { say } from "./strings.js";

/** The sentence, and a button that tries again; where a key is missing, a field for it, which is held in memory only. */
export function troubleView(error, { source, again }) {
  const retry = make("button", { type: "button", class: "use-again", onclick: again }, say("use.again"));
  if (error.status !== 401) return make("div", { class: "use-trouble" }, make("p", {}, error.message), retry);
  const id = unique("key");
  const box = make("input", { id, type: "password", autocomplete: "off", spellcheck: "false", onkeydown: (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    use();
  } });
  const use = () => { source.key = box.value.trim(); again(); };
  const button = make("button", { type: "button", class: "use-again", onclick: use }, say("use.key_use"));
  return make("div", { class: "use-trouble" }, make("p", {}, error.message),
    make("div", { class: "use-key" }, make("label", { for: id }, say("use.key")), box, button), make("p", { class: "note" }, say("use.key_note")));
}
