// Timers. One that is still to go off when its execution is over never does.
"use strict";
const { received } = require("util");
const live = new Map();
let last = 0;

class Timeout {
  constructor(id) {
    this.id = id;
  }
  ref() {
    return this;
  }
  unref() {
    return this;
  }
  hasRef() {
    return true;
  }
  [Symbol.toPrimitive]() {
    return this.id;
  }
}

function start(fn, ms, args, again) {
  if (typeof fn !== "function") {
    throw Object.assign(new TypeError(`The "callback" argument must be of type function. Received ${received(fn)}`), { code: "ERR_INVALID_ARG_TYPE" });
  }
  const id = ++last;
  const arm = () =>
    live.set(
      id,
      host.timer(() => {
        live.delete(id);
        if (again) arm();
        fn(...args);
      }, Number(ms)),
    );
  arm();
  return new Timeout(id);
}

function stop(timer) {
  const id = Number(timer);
  live.get(id)?.();
  live.delete(id);
}

module.exports = {
  setTimeout: (fn, ms = 1, ...args) => start(fn, ms, args, false),
  setInterval: (fn, ms = 1, ...args) => start(fn, ms, args, true),
  setImmediate: (fn, ...args) => start(fn, 0, args, false),
  clearTimeout: stop,
  clearInterval: stop,
  clearImmediate: stop,
};
