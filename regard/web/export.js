// What is shown as a file: numbers as CSV and JSON, the picture as SVG and PNG, all of it as a page; and a link to it.

import { SVG, make } from "./make.js";
import { say } from "./strings.js";

/** A file that the browser saves. */
export function save(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Rows of a table as comma-separated values; a mark at the start tells spreadsheets that it is UTF-8. */
export function toCsv(rows) {
  const cell = (value) => {
    const text = String(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `\x27${text}` : text; // a spreadsheet would run it
    return /[\x22,\n\r]/.test(safe) ? `\x22${safe.replaceAll("\x22", "\x22\x22")}\x22` : safe;
  };
  return `\ufeff${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

const escape = (text) => String(text).replace(/[&<>\x22]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", "\x22": "&quot;" })[letter])
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");

/** One element of a drawing as text. */
export function tag(name, values, ...inner) {
  const attributes = Object.entries(values).map(([key, value]) => ` ${key}=\x22${escape(value)}\x22`).join("");
  return inner.length ? `<${name}${attributes}>${inner.join("")}</${name}>` : `<${name}${attributes}/>`;
}

/** Text inside a drawing. */
export const plain = (text) => escape(text);

/** A whole drawing as text. */
export function drawing(width, height, title, ...inner) {
  const size = { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "system-ui, sans-serif", role: "img" };
  return `${tag("svg", size, tag("title", {}, plain(title)), ...inner)}\n`;
}

/** A drawing of the page as text, with the looks that the page's style gives its parts. */
export function fromSvg(element, looks) {
  const copy = element.cloneNode(true), parts = [...element.querySelectorAll("*")];
  [...copy.querySelectorAll("*")].forEach((part, n) => {
    const style = getComputedStyle(parts[n]);
    for (const look of looks) part.setAttribute(look, style.getPropertyValue(look));
  });
  copy.setAttribute("font-family", "system-ui, sans-serif");
  const ground = document.createElementNS(SVG, "rect"), { backgroundColor } = getComputedStyle(document.body);
  for (const [name, value] of Object.entries({ width: "100%", height: "100%", fill: backgroundColor })) ground.setAttribute(name, value);
  copy.prepend(ground);
  return `${new XMLSerializer().serializeToString(copy)}\n`;
}

/** The pixels of a drawing, twice as fine as the screen's. */
export async function toPng(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = make("canvas", { width: 2 * image.naturalWidth, height: 2 * image.naturalHeight });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** This page as a file that opens at an address: what was drawn is left out, since the file draws it again. */
function toPage(address) {
  const copy = document.documentElement.cloneNode(true);
  for (const attribute of ["data-drawn", "data-notebook", "class"]) copy.removeAttribute(attribute);
  copy.querySelectorAll("main section, #controls, #read, #screens, #title, #texts, #named, #explained, #trouble, #kernel").forEach((part) => part.replaceChildren());
  copy.querySelectorAll("main section").forEach((section) => section.remove());
  copy.setAttribute("data-address", address);
  return `<!doctype html>\n${copy.outerHTML}\n`;
}

/** Buttons that save what a screen shows. `parts` holds functions: `rows` for CSV, `json`, `svg`; a part that is absent has no button. */
export function exportBar({ trace, source, tell, addressOf, state }, name, parts) {
  const file = `regard-${name}`, { rows, json, svg } = parts;
  const kinds = {
    png: svg && (async () => save(`${file}.png`, await toPng(await svg()))),
    svg: svg && (async () => save(`${file}.svg`, await svg(), "image/svg+xml")),
    csv: rows && (() => save(`${file}.csv`, toCsv(rows()), "text/csv")),
    json: json && (() => save(`${file}.json`, `${JSON.stringify(json(), null, 1)}\n`, "application/json")),
    html: pageMaker({ trace, source, addressOf, state }, file),
  };
  const buttons = Object.entries(kinds).filter(([, make]) => make).map(([kind, write]) => make("button", {
    type: "button", "data-export": kind, onclick: async () => { await write(); tell(say("saved", { name: `${file}.${kind}` })); },
  }, kind.toUpperCase()));
  const link = make("button", { type: "button", "data-export": "link", onclick: () => copyLink(tell) }, say("copy_link"));
  return make("div", { class: "export", role: "group", "aria-label": say("export") }, make("span", {}, say("export")), ...buttons, link);
}

/** The page of a file copies itself; that of a server has the server write it. Either opens at what is shown. */
function pageMaker({ trace, source, addressOf, state }, file) {
  if (!source.live || source.file && !trace.id) return () => save(`${file}.html`, toPage(addressOf({})), "text/html");
  if (!source.page) return null;
  return async () => {
    const address = addressOf({});
    const page = await source.page(trace, { beside: state?.other }), at = page.indexOf("<html") + "<html".length;
    save(`${file}.html`, `${page.slice(0, at)} data-address=\x22${escape(address)}\x22${page.slice(at)}`, "text/html");
  };
}

/** The address of what is shown, in the clipboard, or to be copied by hand where there is none. */
async function copyLink(tell) {
  try {
    await navigator.clipboard.writeText(location.href);
    tell(say("copied"));
  } catch {
    tell(say("copy_by_hand", { address: location.href }));
  }
}
