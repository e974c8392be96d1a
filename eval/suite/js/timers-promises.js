// node:timers/promises
"use strict";
const timers = require("timers");
module.exports = {
  setTimeout: (ms, value) => new Promise((resolve) => timers.setTimeout(resolve, ms, value)),
  // An async generator, which the engine can't parse, written out.
  setInterval: (ms, value) => ({
    next: () => new Promise((resolve) => timers.setTimeout(resolve, ms, { value, done: false })),
    return: async () => ({ value: undefined, done: true }),
    [Symbol.asyncIterator]() {
      return this;
    },
  }),
  setImmediate: (value) => new Promise((resolve) => timers.setImmediate(resolve, value)),
  scheduler: { wait: (ms) => new Promise((resolve) => timers.setTimeout(resolve, ms)) },
};
