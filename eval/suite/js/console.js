// console: each call is one line of the execution's log.
"use strict";
const { format } = require("util");

const write = (level) => (...args) => host.log(level, format(...args));
const counts = new Map();
const started = new Map();

module.exports = {
  log: write("log"),
  info: write("info"),
  debug: write("debug"),
  warn: write("warn"),
  error: write("error"),
  trace: write("error"),
  dir: (value) => host.log("log", format("%o", value)),
  table: (value) => host.log("log", format(value)),
  group: write("log"),
  groupEnd() {},
  assert(ok, ...args) {
    if (!ok) host.log("error", args.length ? `Assertion failed: ${format(...args)}` : "Assertion failed");
  },
  count(label = "default") {
    counts.set(label, (counts.get(label) ?? 0) + 1);
    host.log("log", `${label}: ${counts.get(label)}`);
  },
  time: (label = "default") => void started.set(label, Date.now()),
  timeEnd: (label = "default") => host.log("log", `${label}: ${Date.now() - (started.get(label) ?? Date.now())}ms`),
};
