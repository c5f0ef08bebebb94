// A picture as input, or several that form a sequence: dropped, pasted, chosen from files or photographed; it is shown before it is sent.

import { make } from "./make.js";
import { say } from "./strings.js";

const LARGEST = 8 << 20; // bytes of a file that is sent as it is
const SIDE = 2048; // pixels of the longer side of a larger one, after it was made smaller
const CHUNK = 32768;

/** The field of a picture: `{element, read, focus}`; `draft.picture` keeps `{data, url}` while another screen is shown. */
export function pictureField(model, draft, events) {
  const preview = make("img", { class: "use-preview", alt: say("use.picture_alt"), hidden: true });
  const note = make("p", { class: "note", role: "alert" });
  const show = () => {
    preview.hidden = !draft.picture;
    if (draft.picture) preview.src = draft.picture.url;
  };
  const take = async ([file]) => {
    const [picture] = file ? await readPictures([file], note) : [];
    if (!picture) return;
    if (draft.picture) URL.revokeObjectURL(draft.picture.url);
    draft.picture = picture;
    show();
    events.onInput();
  };
  const { element, input } = dropField(take, [preview], { invite: "use.drop", choose: "use.choose" });
  show();
  const read = () => draft.picture?.data ?? null;
  return { element: make("div", { class: "use-field" }, element, note), read, focus: () => input.focus(), put: () => {} };
}

/** The field of pictures that form a sequence; `draft.pictures` keeps them in their order, which is that of their names where several come at once. */
export function picturesField(draft, events) {
  draft.pictures ??= [];
  const note = make("p", { class: "note", role: "alert" }), list = make("ol", { class: "use-frames" });
  const change = (pictures, focused = -1) => {
    draft.pictures = pictures;
    show();
    if (focused >= 0) (list.querySelectorAll("button")[Math.min(focused, pictures.length - 1)] ?? input).focus();
    events.onInput();
  };
  const remove = (n) => {
    change(draft.pictures.filter((_, other) => other !== n), n);
  };
  const show = () => list.replaceChildren(...draft.pictures.map(({ url, name }, n) => make("li", {}, make("img", { src: url, alt: say("use.nth_picture", { n: n + 1 }), title: name }),
    make("button", { type: "button", "aria-label": say("use.remove_picture", { n: n + 1 }), onclick: () => remove(n) }, "×"))));
  const take = async (files) => {
    const order = new Intl.Collator(undefined, { numeric: true }).compare;
    const pictures = await readPictures([...files].sort((one, other) => order(one.name, other.name)), note);
    if (pictures.length) change([...draft.pictures, ...pictures]);
  };
  const { element, input } = dropField(take, [list], { invite: "use.drop_several", choose: "use.choose_several", multiple: true });
  show();
  const read = () => (draft.pictures.length ? draft.pictures.map(({ data }) => data) : null);
  return { element: make("div", { class: "use-field" }, element, note), read, focus: () => input.focus(), put: () => {} };
}

/** Where pictures are dropped, pasted, chosen or photographed; `take` gets the files. */
function dropField(take, shown, { invite, choose, multiple = false }) {
  const chosen = chooser(choose, take, { multiple }), photograph = chooser("use.photograph", take, { capture: "environment" });
  const element = make("div", {
    class: "use-drop",
    ondragover: (event) => { event.preventDefault(); element.classList.add("over"); },
    ondragleave: () => element.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); element.classList.remove("over"); take(event.dataTransfer.files); },
    onpaste: (event) => take(event.clipboardData.files),
  }, make("p", { class: "use-invite" }, say(invite)), make("div", { class: "use-buttons" }, chosen.element, photograph.element), ...shown);
  return { element, input: chosen.input };
}

/** The files that are pictures, read; the note names the last that is none. */
async function readPictures(files, note) {
  note.textContent = "";
  const pictures = [];
  for (const file of files) {
    try {
      if (!file.type.startsWith("image/")) throw new TypeError(file.type);
      pictures.push(await readPicture(file));
    } catch { note.textContent = say("use.no_picture", { name: file.name }); }
  }
  return pictures;
}

function chooser(name, take, settings) {
  const input = make("input", { type: "file", accept: "image/*", class: "aloud", onchange: () => { take([...input.files]); input.value = ""; }, ...settings }); // emptied, so that the same file can be chosen again
  return { input, element: make("label", { class: "use-file" }, input, make("span", {}, say(name))) };
}

/** A file in base64 with an address to show it by; one that is very large is made smaller first. */
export async function readPicture(file) {
  const sent = file.size > LARGEST ? await shrink(file) : file;
  const bytes = await sent.arrayBuffer();
  return { data: encode(new Uint8Array(bytes)), url: URL.createObjectURL(file), name: file.name };
}

async function shrink(file) {
  const picture = await createImageBitmap(file, { imageOrientation: "from-image" });
  const factor = Math.min(1, SIDE / Math.max(picture.width, picture.height));
  const canvas = new OffscreenCanvas(Math.round(picture.width * factor), Math.round(picture.height * factor));
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob({ type: "image/jpeg", quality: 0.92 });
}

function encode(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += CHUNK) text += String.fromCharCode(...bytes.subarray(start, start + CHUNK));
  return btoa(text);
}
