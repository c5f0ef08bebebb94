// Where traces and their numbers come from: the file that this page is, a server or the kernel of a notebook, a matrix at a time.

import { findKernel } from "./kernel.js";
import { say } from "./strings.js";

const ROOM = 96 << 20; // bytes of decoded matrices that are kept
const WHOLE = 4 << 20; // bytes up to which all heads of an attention are fetched together
const DTYPES = { F32: "f4", F16: "f2", U8: "u1", BOOL: "u1" }; // of safetensors

/** What went wrong between this page and its source: `status` is HTTP's, 0 without a connection; `message` is for the reader. */
export class SourceError extends Error {
  constructor(status, { reason = "", wait = 0 } = {}) {
    const name = `error_${status}`, text = say(name, { reason, wait });
    super(text === name ? say("error_other", { status, reason }) : text);
    Object.assign(this, { name: "SourceError", status, reason, wait });
  }
}

/** The source of this page: the file if it holds data, else the server; in a notebook, what it holds and then the kernel. */
export function openSource() {
  const file = document.getElementById("data") ? new FileSource() : null, kernel = findKernel();
  return kernel ? new KernelSource(kernel, file) : file ?? new ServerSource();
}

/** Decoded matrices, the longest unused of which make room for new ones. */
class Memory {
  constructor(most) {
    Object.assign(this, { most, bytes: 0, arrays: new Map() });
  }

  get(name) {
    const numbers = this.arrays.get(name);
    if (numbers) {
      this.arrays.delete(name);
      this.arrays.set(name, numbers);
    }
    return numbers;
  }

  /** Keep some numbers, and return them. */
  set(name, numbers) {
    if (this.arrays.has(name)) return numbers;
    this.arrays.set(name, numbers);
    this.bytes += numbers.byteLength;
    for (const [oldest, unused] of this.arrays) {
      if (this.bytes <= this.most || oldest === name) break;
      this.arrays.delete(oldest);
      this.bytes -= unused.byteLength;
    }
    return numbers;
  }
}

/** A page with everything in it; nothing can be asked that it does not hold. */
class FileSource {
  constructor() {
    Object.assign(this, { live: false, memory: new Memory(ROOM), turn: Promise.resolve() });
  }

  async open() {
    return JSON.parse(document.getElementById("data").textContent);
  }

  /** The numbers of one tensor; small ones are there at once, packed ones after they are unpacked. */
  async tensor(ref, { signal } = {}) {
    const known = () => this.memory.get(ref.blob);
    const keep = (bytes) => this.memory.set(ref.blob, toFloats(bytes, ref.type));
    if (!ref.packed) return known() ?? keep(readBlob(ref));
    return known() ?? this.takeTurn(signal, async () => known() ?? keep(await unpack(readBlob(ref), ref)));
  }

  /** One tensor is unpacked at a time, so that many that are wanted at once do not fill the memory. */
  takeTurn(signal, work) {
    const done = this.turn.then(() => { signal?.throwIfAborted(); return work(); });
    this.turn = done.catch(() => {});
    return done;
  }
}

/** A server: what is asked goes there, with the key that the reader typed, if any. */
class ServerSource {
  constructor() {
    Object.assign(this, { live: true, key: "", memory: new Memory(ROOM), pending: new Map() });
  }

  /** What is served: models, limits, the run that is watched. */
  async describe({ signal } = {}) {
    return this.get("/v1/explorer", { signal });
  }

  async open(id, { signal } = {}) {
    return this.get(`/v1/explain/${encodeURIComponent(id)}/view`, { signal });
  }

  /** The trace of an answer, which may be forced to begin with tokens, by their ids with commas between them. */
  async explain({ model, verb, input, options, forced = "" }, { signal } = {}) {
    const question = { model, verb, inputs: input, options };
    const begun = forced ? { options: { ...options, prefix: forced.split(",").map(Number) } } : {};
    const answer = await this.call("/v1/explain", { ...question, ...begun, view: true }, { signal });
    return Object.assign(answer.view, { question, forced });
  }

  /** Fill in the vectors of one attention, and what the model predicted. */
  async steps(trace, name, { signal } = {}) {
    if (trace.steps[name]) return;
    const answer = await this.call(`/v1/explain/${encodeURIComponent(trace.id)}/steps`, { attention: name }, { signal });
    Object.assign(trace.steps, answer.steps);
    if (answer.predictions.length) Object.assign(trace, { predictions: answer.predictions, predicted: answer.predicted });
  }

  /** A trace, with that of another picture if one is named, as a page of its own, which opens from disk. */
  async page(trace, { beside = "", signal } = {}) {
    const query = beside ? `?beside=${encodeURIComponent(beside)}` : "";
    return (await this.request(`/v1/explain/${encodeURIComponent(trace.id)}/page${query}`, { signal })).text();
  }

  async tensor(ref, { signal } = {}) {
    if (ref.data !== undefined) return toFloats(fromBase64(ref.data), ref.type);
    const name = `${ref.id}/${ref.head ?? ""}`, known = this.memory.get(name);
    if (known) return known;
    if (!ref.id) throw new SourceError(404);
    const size = ref.shape.reduce((product, side) => product * side, 1);
    const together = ref.head !== undefined && 4 * size * ref.heads <= WHOLE;
    const path = `/v1/explain/${ref.id}${together || ref.head === undefined ? "" : `?head=${ref.head}`}`;
    const numbers = await share(this.pending, path, signal, async (inner) => {
      const fetched = readSafetensors(await (await this.request(path, { signal: inner })).arrayBuffer());
      if (!together) this.memory.set(name, fetched);
      else for (let n = 0; n < ref.heads; n++) this.memory.set(`${ref.id}/${n}`, fetched.slice(n * size, (n + 1) * size));
      return fetched;
    });
    return together ? this.memory.get(name) ?? numbers.slice(ref.head * size, (ref.head + 1) * size) : numbers;
  }

  async get(path, { signal } = {}) {
    return readJson(await this.request(path, { signal }));
  }

  async call(path, body, { signal } = {}) {
    return readJson(await this.request(path, { signal, body }));
  }

  /** Hand every event that the server sends to `onData`, until the last. */
  async stream(path, body, { signal, onData }) {
    const answer = await this.request(path, { signal, body });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read().catch((error) => { throw broken(error); });
      if (done) throw new SourceError(0); // a whole stream ends with [DONE]
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events.filter((each) => each.startsWith("data: "))) {
        const data = event.slice("data: ".length);
        if (data === "[DONE]") return;
        const message = JSON.parse(data);
        if (message.error) throw new SourceError(500, { reason: message.error.message });
        onData(message);
      }
    }
  }

  fetch(path, init) {
    return fetch(path, init);
  }

  /** The server's answer, or a SourceError; DELETE and other methods by name. */
  async request(path, { signal, body, method = body === undefined ? "GET" : "POST" } = {}) {
    const headers = this.key ? { authorization: `Bearer ${this.key}` } : {};
    if (body !== undefined) headers["content-type"] = "application/json";
    const text = body === undefined ? undefined : JSON.stringify(body);
    const answer = await this.fetch(path, { method, headers, body: text, signal }).catch((error) => { throw broken(error); });
    if (answer.ok) return answer;
    const told = await answer.json().catch(() => ({}));
    throw new SourceError(answer.status, { reason: told.error?.message ?? "", wait: Number(answer.headers.get("retry-after")) || 1 });
  }
}

/** A page in a notebook: what it holds is there at once, and the kernel is asked as a server is, from when it answers. */
class KernelSource extends ServerSource {
  constructor(kernel, file) {
    super();
    Object.assign(this, { kernel, file, live: !file });
  }

  fetch(path, init) {
    return this.kernel.fetch(path, init).catch((error) => { throw error.name === "AbortError" ? error : new SourceError("kernel"); });
  }

  async open() {
    return this.file.open();
  }

  async tensor(ref, options) {
    return ref.blob === undefined ? super.tensor(ref, options) : this.file.tensor(ref, options);
  }

  async steps(trace, name, options) {
    if (trace.id) await super.steps(trace, name, options);
  }
}

/** No connection; what was cancelled on purpose stays that, and what is known stays known. */
function broken(error) {
  return error.name === "AbortError" || error instanceof SourceError ? error : new SourceError(0);
}

async function readJson(answer) {
  try {
    return await answer.json();
  } catch (error) {
    throw broken(error); // half an answer
  }
}

/** One request for all who wait for the same; it is cancelled once nobody waits any more. */
function share(pending, name, signal, begin) {
  let entry = pending.get(name);
  if (!entry) {
    const controller = new AbortController();
    const forget = () => { if (pending.get(name) === entry) pending.delete(name); };
    entry = { users: 0, controller, forget };
    pending.set(name, entry);
    entry.promise = begin(controller.signal).finally(forget);
  }
  entry.users += 1;
  return new Promise((resolve, reject) => {
    const leave = () => {
      entry.users -= 1;
      reject(signal.reason);
      if (entry.users) return;
      entry.forget();
      entry.controller.abort();
    };
    if (signal?.aborted) return leave();
    signal?.addEventListener("abort", leave, { once: true });
    entry.promise.then(resolve, reject).finally(() => signal?.removeEventListener("abort", leave));
  });
}

function readBlob(ref) {
  return fromBase64(document.getElementById(`blob-${ref.blob}`).textContent);
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** Inflate, and put the bytes of each number together again, which are packed first by first, second by second. */
async function unpack(bytes, { type, shape }) {
  const length = shape.reduce((product, side) => product * side, Number(type[1]));
  const planes = await inflate(bytes, length);
  const size = Number(type[1]), count = planes.length / size, whole = new Uint8Array(planes.length);
  for (let plane = 0; plane < size; plane++) {
    for (let i = 0; i < count; i++) whole[i * size + plane] = planes[plane * count + i];
  }
  return whole;
}

/** The bytes of a stream of deflate, of which there are so many. */
async function inflate(bytes, length) {
  const stream = new DecompressionStream("deflate-raw"), writer = stream.writable.getWriter();
  const written = writer.write(bytes).then(() => writer.close());
  const whole = new Uint8Array(length), reader = stream.readable.getReader();
  for (let place = 0; ;) {
    const { value, done } = await reader.read();
    if (done) break;
    whole.set(value, place);
    place += value.length;
  }
  await written;
  return whole;
}

/** The only tensor of a safetensors file. */
function readSafetensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const entry = Object.values(header).find((each) => each.data_offsets);
  const [start, end] = entry.data_offsets.map((place) => 8 + length + place);
  return toFloats(new Uint8Array(buffer.slice(start, end)), DTYPES[entry.dtype]);
}

function toFloats(bytes, type) {
  if (type === "f4") return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  return type === "f2" ? fromHalves(new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2)) : Float32Array.from(bytes);
}

let halves = null;

function fromHalves(codes) {
  if (globalThis.Float16Array) return new Float32Array(new Float16Array(codes.buffer, codes.byteOffset, codes.length));
  halves ??= Float32Array.from({ length: 65536 }, (_, code) => {
    const sign = code & 0x8000 ? -1 : 1, power = (code >> 10) & 31, rest = code & 1023;
    if (power === 31) return rest ? NaN : sign * Infinity;
    return power ? sign * 2 ** (power - 15) * (1 + rest / 1024) : sign * 2 ** -14 * (rest / 1024);
  });
  const numbers = new Float32Array(codes.length);
  for (let i = 0; i < codes.length; i++) numbers[i] = halves[codes[i]];
  return numbers;
}
