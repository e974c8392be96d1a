// node:timers/promises
"use strict";
const timers = require("timers");
module.exports = {
  setTimeout: (ms, value) => new Promise((resolve) => timers.setTimeout(resolve, ms, value)),
  setImmediate: (value) => new Promise((resolve) => timers.setImmediate(resolve, value)),
  scheduler: { wait: (ms) => new Promise((resolve) => timers.setTimeout(resolve, ms)) },
};
