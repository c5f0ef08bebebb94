// The page: choose a model, send an input to its route, show the answer.
"use strict";

const byId = (id) => document.getElementById(id);
let models = JSON.parse(document.body.dataset.models);

function headers() {
  const key = byId("key").value.trim();
  return key ? { authorization: `Bearer ${key}` } : {};
}

function showModels() {
  const select = byId("model");
  select.replaceChildren(
    ...models.map((model, index) => new Option(`${model.name}: ${model.verb} (${model.kind})`, index)),
  );
  showInput();
}

function showInput() {
  const model = models[byId("model").value];
  if (!model) return;
  for (const id of ["text", "text-label"]) byId(id).hidden = model.picture;
  for (const id of ["picture", "picture-label"]) byId(id).hidden = !model.picture;
  byId("text").value = model.picture ? "" : model.example;
}

async function loadModels() {
  if (models.length || !byId("key").value.trim()) return;
  const response = await fetch("/v1/models", { headers: headers() });
  if (!response.ok) return showError(await response.json());
  const listed = (await response.json()).data.filter((model) => !model.id.includes(":"));
  models = listed.flatMap(({ id, verb, kind, input, also = [] }) =>
    [verb, ...also].map((use) => ({ name: id, verb: use, kind, picture: input === "picture", example: "" })),
  );
  showModels();
}

async function readPicture() {
  const file = byId("picture").files[0];
  if (!file) return "";
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let begin = 0; begin < bytes.length; begin += 32768) {
    text += String.fromCharCode(...bytes.subarray(begin, begin + 32768));
  }
  return btoa(text);
}

function show(text, isError) {
  const place = byId("answer");
  place.textContent = text;
  place.classList.toggle("error", isError);
}

const showError = (body) => show(body.error?.message ?? body.error ?? "?", true);

async function send(submission) {
  submission.preventDefault();
  const model = models[byId("model").value];
  if (!model) return;
  show("…", false);
  try {
    const inputs = [model.picture ? await readPicture() : byId("text").value];
    const options = JSON.parse(byId("options").value || "{}");
    const response = await fetch(`/v1/${model.verb}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers() },
      body: JSON.stringify({ model: model.name, inputs, options }),
    });
    const body = await response.json();
    if (!response.ok) return showError(body);
    show(body.answers.map((answer) => JSON.stringify(answer, null, 1)).join("\n"), false);
  } catch (error) {
    show(String(error.message ?? error), true);
  }
}

byId("model").addEventListener("change", showInput);
byId("key").addEventListener("change", loadModels);
byId("form").addEventListener("submit", send);
showModels();
