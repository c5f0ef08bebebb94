// The front end of a notebook: it carries requests from the pages of one model to the kernel, and the answers back.

/** The frames of this window that show pages with this id. */
function framesOf(id) {
  return [...document.querySelectorAll("iframe[data-regard]")].filter((frame) => frame.dataset.regard === id);
}

/** A name that nobody guesses. */
function randomName() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Runs once for each model that is shown, for as long as the notebook knows it; returns what ends it. */
function initialize({ model }) {
  const id = model.get("page_id"), pages = new Map(); // by name: the window of the page, and the channel to it

  function send(content) {
    try {
      model.send(content);
    } catch { // the kernel was restarted, or has ended
      for (const { port } of pages.values()) port?.postMessage({ closed: true });
    }
  }

  /** A page greets: the kernel is greeted for it, and only its answer opens a channel. */
  function hear({ data, source }) {
    if (data?.regard !== id || !framesOf(id).some((frame) => frame.contentWindow === source)) return;
    const shown = framesOf(id).map((frame) => frame.contentWindow);
    for (const [name, page] of pages) if (page.source === source || !shown.includes(page.source)) pages.delete(name);
    const name = randomName();
    pages.set(name, { source, port: null });
    send({ page: name, hello: true });
  }

  function open(name, page) {
    const { port1, port2 } = new MessageChannel();
    page.port = port1;
    port1.onmessage = ({ data: { call, method, path, body, cancel } }) => {
      send(cancel === undefined ? { page: name, call, method, path, body } : { page: name, cancel });
    };
    page.source.postMessage({ regard: id }, "*", [port2]); // a page without rights has no origin to name
  }

  /** The kernel answers all windows in which the notebook is open; each page takes what it asked for. */
  function answer({ page: name, hello, gone, ...content }, buffers) {
    const page = pages.get(name);
    if (!page) return;
    if (hello && !gone) return open(name, page);
    const bytes = buffers?.[0], { buffer, byteOffset, byteLength } = bytes ?? {};
    page.port?.postMessage(bytes ? { ...content, bytes: buffer.slice(byteOffset, byteOffset + byteLength) } : content);
  }

  addEventListener("message", hear);
  model.on("msg:custom", answer);
  for (const frame of framesOf(id)) frame.contentWindow?.postMessage({ regard: id, greet: true }, "*"); // they were first
  return () => {
    removeEventListener("message", hear);
    for (const { port } of pages.values()) port?.postMessage({ closed: true });
  };
}

export default { initialize };
