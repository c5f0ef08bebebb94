// Every sentence of the page, in English and French: one file for each screen and language.

import { frameEn } from "./strings/frame.en.js";
import { frameFr } from "./strings/frame.fr.js";
import { namesEn } from "./strings/names.en.js";
import { namesFr } from "./strings/names.fr.js";
import { alignmentEn } from "./strings/alignment.en.js";
import { alignmentFr } from "./strings/alignment.fr.js";
import { measuresEn } from "./strings/measures.en.js";
import { measuresFr } from "./strings/measures.fr.js";
import { insideEn } from "./strings/inside.en.js";
import { insideFr } from "./strings/inside.fr.js";
import { imageEn } from "./strings/image.en.js";
import { imageFr } from "./strings/image.fr.js";
import { graphEn } from "./strings/graph.en.js";
import { graphFr } from "./strings/graph.fr.js";
import { decodeEn } from "./strings/decode.en.js";
import { decodeFr } from "./strings/decode.fr.js";
import { useEn } from "./strings/use.en.js";
import { useFr } from "./strings/use.fr.js";
import { trainingEn } from "./strings/training.en.js";
import { trainingFr } from "./strings/training.fr.js";
import { trustEn } from "./strings/trust.en.js";
import { trustFr } from "./strings/trust.fr.js";

const STRINGS = {
  en: {
    ...frameEn, ...namesEn, ...alignmentEn, ...measuresEn, ...insideEn, ...imageEn, ...graphEn,
    ...decodeEn, ...useEn, ...trainingEn, ...trustEn,
  },
  fr: {
    ...frameFr, ...namesFr, ...alignmentFr, ...measuresFr, ...insideFr, ...imageFr, ...graphFr,
    ...decodeFr, ...useFr, ...trainingFr, ...trustFr,
  },
};

let language = "en";

/** The language that is spoken, "en" or "fr". */
export function currentLanguage() {
  return language;
}

export const LANGUAGES = Object.keys(STRINGS);

/** The first language of the reader's that the page speaks. */
export function preferred() {
  const asked = document.documentElement.dataset.lang; // in the address of a server's page
  if (LANGUAGES.includes(asked)) return asked;
  const wanted = navigator.languages?.length ? navigator.languages : [navigator.language ?? "en"];
  return wanted.map((name) => name.slice(0, 2).toLowerCase()).find((name) => LANGUAGES.includes(name)) ?? "en";
}

export function speak(name) {
  language = LANGUAGES.includes(name) ? name : "en";
  if (document.documentElement.lang !== language) document.documentElement.lang = language; // the same again would style the whole page anew
  return language;
}

/** The sentence of that name with its gaps filled, in its own form for a case where there is one; a name without a sentence stands for itself. */
export function say(name, gaps = {}, form = "") {
  const text = STRINGS[language][`${name}_${form}`] ?? STRINGS[language][name] ?? name;
  return text.replace(/\{(\w+)\}/g, (whole, gap) => (gap in gaps ? isolate(String(gaps[gap])) : whole));
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/** Words that run from right to left keep to themselves, so that the sentence around them stays in order. */
function isolate(text) {
  return RIGHT_TO_LEFT.test(text) ? `\u2068${text}\u2069` : text;
}

const formatters = new Map();

/** What writes numbers in the language that is spoken; making it takes far longer than using it. */
function formatter(name, options) {
  const key = `${language} ${name}`;
  if (!formatters.has(key)) formatters.set(key, new Intl.NumberFormat(language, options));
  return formatters.get(key);
}

/** Written numbers with the minus sign in the place of the hyphen, which browsers write in most languages. */
export function withMinus(text) {
  return text.replaceAll("-", "−");
}

/** A number with so many decimals, as the language writes it. */
export function number(value, digits = 3) {
  if (!Number.isFinite(value)) return "–";
  return withMinus(formatter(digits, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value));
}

/** A number of any size in four figures; large ones grouped, small ones with a power of ten. */
export function shortNumber(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size && (size < 1e-3 || size >= 1e9)) return withMinus(value.toLocaleString(language, { notation: "scientific", maximumSignificantDigits: 3 }));
  return withMinus(value.toLocaleString(language, size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 }));
}

/** One decimal; what would round to nothing but is something says so. */
export function percent(value) {
  if (value > 0 && value < 0.0005) return `< ${percent(0.001)}`;
  return withMinus(formatter("percent", { style: "percent", maximumFractionDigits: 1 }).format(value));
}
