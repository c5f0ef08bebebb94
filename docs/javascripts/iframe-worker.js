// Browsers start no worker from a page opened from a disk (file:). The search of the site runs in one; here a hidden
// frame takes its place, with as much of a worker's interface as that search uses. Served over HTTP, nothing changes.
"use strict";

class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const scope = this.frame.contentWindow;
    scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    scope.importScripts = (...scripts) => scripts.reduce(
      (previous, script) => previous.then(() => loadScript(scope.document, script)), Promise.resolve());
    this.ready = loadScript(scope.document, url);
  }

  postMessage(data) {
    const message = new MessageEvent("message", { data: structuredClone(data) });
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(message));
  }

  terminate() {
    this.frame.remove();
  }
}

function loadScript(page, url) {
  return new Promise((resolve, reject) => {
    const script = page.createElement("script");
    script.src = url;
    script.onload = resolve;
    script.onerror = reject;
    page.body.append(script);
  });
}

if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = FrameWorker; // by its second name the search knows that its scripts lie here
}
