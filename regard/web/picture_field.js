// A picture as input: dropped, pasted, chosen from files or photographed; it is shown before it is sent.

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
  const take = async (file) => {
    note.textContent = "";
    if (!file) return;
    if (!file.type.startsWith("image/")) { note.textContent = say("use.no_picture", { name: file.name }); return; }
    try {
      const picture = await readPicture(file);
      if (draft.picture) URL.revokeObjectURL(draft.picture.url);
      draft.picture = picture;
      show();
      events.onInput();
    } catch { note.textContent = say("use.no_picture", { name: file.name }); }
  };
  const choose = chooser("use.choose", take, {});
  const photograph = chooser("use.photograph", take, { capture: "environment" });
  const drop = make("div", {
    class: "use-drop",
    ondragover: (event) => { event.preventDefault(); drop.classList.add("over"); },
    ondragleave: () => drop.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); drop.classList.remove("over"); take(event.dataTransfer.files[0]); },
    onpaste: (event) => take(event.clipboardData.files[0]),
  }, make("p", { class: "use-invite" }, say("use.drop")), make("div", { class: "use-buttons" }, choose.element, photograph.element), preview);
  show();
  const read = () => draft.picture?.data ?? null;
  return { element: make("div", { class: "use-field" }, drop, note), read, focus: () => choose.input.focus(), put: () => {} };
}

function chooser(name, take, settings) {
  const input = make("input", { type: "file", accept: "image/*", class: "aloud", onchange: () => take(input.files[0]), ...settings });
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
