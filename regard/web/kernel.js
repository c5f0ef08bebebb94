// In a notebook, requests go to the kernel: through a channel to the window around this page, which hands them on.

const BUSY = 1500; // milliseconds without a sign of the kernel after which a request is said to wait
const SILENT = 4000; // milliseconds without an answer after which a page says that nobody answers it

/** The kernel of the notebook around this page; null for a page that is not in one. */
export function findKernel() {
  const { notebook } = document.documentElement.dataset;
  return notebook && parent !== window ? new Kernel(notebook) : null;
}

/** Requests to the application in the kernel; `state` is "silent" until it answers, then "ready", and "busy" while it does not. */
class Kernel {
  constructor(id) {
    Object.assign(this, { id, port: null, ended: false, state: "ready", calls: new Map(), count: 0, watcher: () => {} });
    this.ready = new Promise((resolve) => { this.begin = resolve; });
    addEventListener("message", (event) => this.welcome(event));
    this.greet();
    setTimeout(() => { if (!this.port) this.turn("silent"); }, SILENT);
  }

  greet() {
    parent.postMessage({ regard: this.id }, "*"); // this page cannot know the origin of the notebook
  }

  /** Only the window around this page may open a channel. */
  welcome({ source, data, ports }) {
    if (source !== parent || data?.regard !== this.id) return;
    if (data.greet && !this.port) return this.greet();
    if (!ports.length) return;
    this.port = ports[0];
    this.port.onmessage = ({ data: message }) => this.hear(message);
    this.turn("ready");
    this.begin();
  }

  turn(state) {
    if (state === this.state) return;
    this.state = state;
    this.watcher();
  }

  /** What the kernel answers, as `fetch` would bring it. */
  async fetch(path, { method, body, signal }) {
    await unlessAborted(this.ready, signal);
    if (this.ended) throw new Error("the kernel has ended");
    const call = ++this.count;
    return new Promise((resolve, reject) => {
      const fail = (error) => { this.end(call); entry.stream?.error(error); reject(error); };
      const cancel = () => { this.port.postMessage({ cancel: call }); fail(signal.reason); };
      const entry = { resolve, fail, release: () => signal?.removeEventListener("abort", cancel), cancel };
      signal?.addEventListener("abort", cancel, { once: true });
      entry.timer = setTimeout(() => this.turn("busy"), BUSY);
      this.calls.set(call, entry);
      this.port.postMessage({ call, method, path, body });
    });
  }

  /** One message: the request has arrived, the answer begins, a piece of it, or nobody will answer. */
  hear({ call, status, headers, bytes, more, failed, closed }) {
    if (closed) return this.close();
    const entry = this.calls.get(call);
    if (!entry) return;
    clearTimeout(entry.timer);
    this.turn("ready");
    if (failed) entry.fail(new Error("the kernel refused"));
    else if (status) {
      const body = new ReadableStream({ start: (stream) => { entry.stream = stream; }, cancel: () => this.port.postMessage({ cancel: call }) });
      entry.resolve(new Response(body, { status, headers }));
    } else if (bytes) {
      if (bytes.byteLength) entry.stream.enqueue(new Uint8Array(bytes));
      if (more) return;
      entry.stream.close();
      this.end(call);
    }
  }

  end(call) {
    const entry = this.calls.get(call);
    clearTimeout(entry?.timer);
    entry?.release();
    this.calls.delete(call);
  }

  /** The kernel has ended, or the model in it. */
  close() {
    this.ended = true;
    for (const entry of [...this.calls.values()]) entry.fail(new Error("the kernel has ended"));
    this.turn("silent");
  }
}

/** A promise, or the reason why nobody waits for it any more. */
function unlessAborted(promise, signal) {
  signal?.throwIfAborted();
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve);
  });
}
