// The options of a model behind "More options": each with a plain name, its help and its default.

import { make } from "./make.js";
import { sayFirst, unique } from "./fields.js";
import { say, withMinus } from "./strings.js";

/** The options of a schema as closed details, or nothing where there are none; `draft.options` holds what was changed. */
export function optionFields(model, draft, { without = [], onInput }) {
  const properties = Object.entries(model.options?.properties ?? {}).filter(([name]) => !without.includes(name));
  if (!properties.length) return null;
  const changed = () => properties.filter(([name]) => name in draft.options).length;
  const summary = make("summary", {});
  const count = () => { summary.textContent = changed() ? say("use.options_changed", { n: changed() }) : say("use.options"); };
  const change = (name, value) => {
    if (value === undefined) delete draft.options[name];
    else draft.options[name] = value;
    count();
    onInput();
  };
  count();
  const fields = properties.map(([name, schema]) => optionField(name, schema, { draft, change }));
  return make("details", { class: "use-options" }, summary, make("div", { class: "use-grid" }, ...fields));
}

/** What an option is called in the reader's language. */
export function optionName(name) {
  return sayFirst(`use.option_${name}`, name);
}

function optionField(name, schema, { draft, change }) {
  const id = unique("option"), help = unique("help");
  const kind = kindOf(schema);
  const control = CONTROLS[kind.control](kind, { id, "aria-describedby": help, name }, draft.options[name], (value) => change(name, value));
  const described = sayFirst(`use.help_${name}`, schema.description ?? "");
  const label = make("label", { for: id }, optionName(name));
  const first = kind.control === "check" ? [make("span", { class: "use-check" }, control, label)] : [label, control];
  return make("div", { class: "use-field" }, ...first, make("p", { class: "note", id: help }, `${described} ${say("use.default", { value: shownDefault(schema) })}`));
}

/** The type of control that a schema asks for, with its bounds. */
function kindOf(schema) {
  const parts = schema.anyOf ?? [schema];
  const types = parts.flatMap((part) => part.type ?? (part.enum ? "enum" : []));
  const choices = parts.find((part) => part.enum)?.enum;
  const empty = types.includes("null");
  if (choices) return { control: "choice", choices, empty, schema };
  if (types.includes("boolean")) return { control: "check", schema };
  if (types.includes("array")) return { control: "lines", schema };
  if (types.includes("string")) return { control: "text", whole: types.includes("integer"), empty, schema };
  const bounds = parts.find((part) => ["integer", "number"].some((type) => [part.type].flat().includes(type))) ?? schema;
  return { control: "number", whole: types.includes("integer"), bounds, schema };
}

const CONTROLS = {
  choice({ choices, empty, schema }, names, value, change) {
    const listed = empty ? ["", ...choices] : choices;
    const box = make("select", { ...names, onchange: () => change(box.value === (schema.default ?? "") ? undefined : box.value) },
      ...listed.map((choice) => make("option", { value: choice }, choice === "" ? say("use.automatic") : sayFirst(`use.value_${choice}`, choice))));
    box.value = value ?? schema.default ?? "";
    return box;
  },
  check({ schema }, names, value, change) {
    const box = make("input", { ...names, type: "checkbox", onchange: () => change(box.checked === schema.default ? undefined : box.checked) });
    box.checked = value ?? schema.default ?? false;
    return box;
  },
  lines(kind, names, value, change) {
    const box = make("textarea", { ...names, rows: "2", oninput: () => {
      const lines = box.value.split("\n").map((line) => line.trim()).filter(Boolean);
      change(lines.length ? lines : undefined);
    } });
    box.value = (value ?? []).join("\n");
    return box;
  },
  text({ whole }, names, value, change) {
    const box = make("input", { ...names, type: "text", autocomplete: "off", oninput: () => {
      const read = whole && /^\d+$/.test(box.value) ? Number(box.value) : box.value;
      change(box.value === "" ? undefined : read);
    } });
    box.value = value ?? "";
    return box;
  },
  number({ whole, bounds, schema }, names, value, change) {
    const least = bounds.minimum ?? bounds.exclusiveMinimum, most = bounds.maximum;
    const box = make("input", {
      ...names, type: "number", step: whole ? "1" : "any", min: least ?? null, max: most < 1e9 ? most : null, placeholder: shownDefault(schema),
      oninput: () => change(box.value === "" || !Number.isFinite(box.valueAsNumber) ? undefined : box.valueAsNumber),
    });
    box.value = value ?? "";
    return box;
  },
};

/** A default as it is read: what is empty or null stands for "automatic". */
function shownDefault({ default: value }) {
  if (value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length)) return say("use.automatic");
  if (typeof value === "boolean") return say(value ? "use.yes" : "use.no");
  return typeof value === "number" ? withMinus(String(value)) : sayFirst(`use.value_${value}`, String(value));
}
