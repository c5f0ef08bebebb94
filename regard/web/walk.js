// A walk through the stages of a computation: one after the other, with a sentence each, by a button or by itself.

import { make } from "./make.js";
import { say } from "./strings.js";

const PAUSE = 3500; // milliseconds at a stage

/** Buttons that go through `stages`, each `{ element, sentence }`; nothing moves by itself if the reader wants no motion. */
export function walkThrough(stages, { tell, signal }) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let at = -1, timer = 0;
  const play = make("button", { type: "button", class: "play", onclick: () => (timer ? stop() : start()) });
  const position = make("span", { class: "note", "aria-hidden": "true" });
  const step = (name, by, text) => make("button", { type: "button", "data-step": name, "aria-label": say(name), title: say(name), onclick: () => { stop(); show(at + by); } }, text);
  const label = () => play.replaceChildren(timer ? say("pause") : still.matches ? say("walk") : say("play"));

  function show(place) {
    at = Math.max(0, Math.min(stages.length - 1, place));
    stages.forEach(({ element }, n) => {
      if (n === at) element.setAttribute("aria-current", "step");
      else element.removeAttribute("aria-current");
    });
    stages[at].element.scrollIntoView({ block: "nearest", behavior: still.matches ? "auto" : "smooth" });
    position.textContent = say("stage", { n: at + 1, all: stages.length });
    tell(stages[at].sentence);
  }

  function start() {
    show(at + 1 < stages.length ? at + 1 : 0);
    if (still.matches) return;
    timer = setInterval(() => (at + 1 < stages.length ? show(at + 1) : stop()), PAUSE);
    label();
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    label();
  }

  signal.addEventListener("abort", () => clearInterval(timer));
  label();
  return make("div", { class: "walk", role: "group", "aria-label": say("walk_name") }, step("stage_before", -1, "‹"), play, step("stage_after", 1, "›"), position);
}
