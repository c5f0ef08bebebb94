// Elements, made by name.

/** What drawings are called among elements. */
export const SVG = new DOMParser().parseFromString("<svg>", "text/html").body.firstChild.namespaceURI;

/** `make("p", {class: "note"}, "text", child)`; names beginning with "on" listen. */
export function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A list of words, each with a bar and a number. */
export function bars(entries) {
  return make("ul", { class: "bars" }, ...entries.map(({ word, share, text, written }) => {
    const full = make("b");
    full.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
    return make("li", { class: written ? "written" : false },
      make("span", { class: "word", title: word }, word),
      make("span", { class: "meter", "aria-hidden": "true" }, full),
      make("span", { class: "number" }, text));
  }));
}

/** A canvas as sharp as the screen, and its context in ordinary pixels. */
export function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function shorten(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** The next place in a list under the arrow keys, Home and End; null when the key means something else. */
export function moved(event, at, count, across = 1) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across };
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.key === "Home") return 0;
  if (event.key === "End") return count - 1;
  if (!(event.key in steps)) return null;
  return Math.min(count - 1, Math.max(0, at + steps[event.key]));
}
