// What the explorer's benchmark notes within a page: when something was drawn, by the page's own clock.

window.probe = (() => {
  const PATIENCE = 300_000; // milliseconds
  const numbers = new WeakMap();
  let count = 0;

  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));

  /** A number that tells an element from those that stood there before it; null without one. */
  function identify(element) {
    if (!element) return null;
    if (!numbers.has(element)) numbers.set(element, ++count);
    return numbers.get(element);
  }

  /** The time at which the frame after the one with something in it begins: then that one was drawn. */
  async function until(look, patience = PATIENCE) {
    const end = performance.now() + patience;
    do {
      await frame();
      if (performance.now() > end) throw new Error(`not within ${patience} ms: ${look}`);
    } while (!look());
    await frame();
    return performance.now();
  }

  /** Whether nothing is being drawn or awaited. */
  function calm() {
    return !document.querySelector("main[aria-busy], .use-answer.waiting");
  }

  /** From the next event of a type on, wait until `look` gives something new; `probe.result` is a promise of `{took, end}`. */
  function arm(type, look) {
    const before = look();
    const changed = () => {
      const now = calm() ? look() : null;
      return now !== null && now !== before;
    };
    probe.result = new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no ${type}: ${look}`)), PATIENCE);
      addEventListener(type, (event) => {
        clearTimeout(timer);
        until(changed).then((end) => resolve({ took: end - event.timeStamp, end }), reject);
      }, { capture: true, once: true });
    });
  }

  /** Count how many matrices are unpacked at the same time; `probe.unpacking` is the most so far. */
  function countUnpacking() {
    const Native = window.DecompressionStream;
    let open = 0;
    Object.assign(probe, { unpacking: 0, unpacked: 0 });
    window.DecompressionStream = class {
      constructor(format) {
        const stream = new Native(format), ended = new TransformStream({ flush: () => { open -= 1; } });
        open += 1;
        Object.assign(probe, { unpacking: Math.max(probe.unpacking, open), unpacked: probe.unpacked + 1 });
        Object.assign(this, { writable: stream.writable, readable: stream.readable.pipeThrough(ended) });
      }
    };
  }

  return { identify, until, arm, countUnpacking };
})();
