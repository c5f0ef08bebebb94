// Terms and measures: one sentence for each, and what counts as good, behind a button with a question mark.

import { make } from "./make.js";
import { currentLanguage, say } from "./strings.js";
import { glossaryEn } from "./strings/glossary.en.js";
import { glossaryFr } from "./strings/glossary.fr.js";

const ENTRIES = { en: glossaryEn, fr: glossaryFr };

/** Names under which a term is sent or shown, where they differ from its own. */
const ALIASES = {
  attention_map: "attention", fed: "mask", next: "log-probability", subword: "token", specials: "special tokens", share: "softmax",
  deletion_curve: "deletion", insertion_curve: "insertion",
};

/** Whether a term has an entry. */
export function isExplained(name) {
  return (ALIASES[name] ?? name) in ENTRIES.en;
}

/** The sentence of a term and what counts as good; empty for a term that has no entry. */
export function explainTerm(name) {
  const [, sentence, good] = ENTRIES[currentLanguage()][ALIASES[name] ?? name] ?? ["", "", ""];
  return [sentence, good].filter(Boolean).join(" ");
}

/** What a term is called in the reader's language. */
export function termOf(name) {
  return ENTRIES[currentLanguage()][ALIASES[name] ?? name]?.[0] ?? say(name);
}

/** A "?" button that shows the sentence; nothing where a term has no entry. */
export function help(name) {
  if (!isExplained(name)) return "";
  const button = make("button", {
    type: "button", class: "help", "aria-haspopup": "dialog", "aria-label": say("explain_term", { term: termOf(name) }), "data-term": name,
    onclick: (event) => { event.preventDefault(); event.stopPropagation(); show(name, button); },
  }, "?");
  return button;
}

/** One bubble for all terms; Escape or a click elsewhere closes it and gives the focus back. */
function show(name, button) {
  document.getElementById("explained")?.remove();
  const bubble = make("div", { id: "explained", popover: "auto", role: "dialog", tabindex: "-1", "aria-labelledby": "explained-term", "data-term": name },
    make("strong", { id: "explained-term" }, termOf(name)), make("p", {}, explainTerm(name)));
  document.body.append(bubble);
  bubble.addEventListener("toggle", (event) => {
    if (event.newState === "open") return;
    if (document.activeElement === document.body || bubble.contains(document.activeElement)) button.focus();
    bubble.remove();
  });
  bubble.showPopover();
  place(bubble, button.getBoundingClientRect());
  bubble.focus();
}

/** Below its button, or above it where there is no room, and always inside the window. */
function place(bubble, anchor) {
  const { width, height } = bubble.getBoundingClientRect(), margin = 8;
  const left = Math.max(margin, Math.min(anchor.left, innerWidth - width - margin));
  const below = anchor.bottom + 4, top = below + height > innerHeight - margin ? Math.max(margin, anchor.top - height - 4) : below;
  Object.assign(bubble.style, { left: `${left}px`, top: `${top}px` });
}
