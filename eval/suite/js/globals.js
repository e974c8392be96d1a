// The global object of a suite: what Node has, and the engine lacks.
"use strict";

const define = (target, name, value) =>
  Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: false });

// Most suites use few of these: each is made when it is first looked at.
const lazy = (name, make) =>
  Object.defineProperty(globalThis, name, {
    configurable: true,
    enumerable: false,
    get() {
      const value = make();
      define(globalThis, name, value);
      return value;
    },
    set(value) {
      define(globalThis, name, value);
    },
  });

lazy("process", () => require("process"));
lazy("console", () => require("console"));
lazy("structuredClone", () => require("clone"));
lazy("URL", () => require("url").URL);
lazy("URLSearchParams", () => host.lazyNode("url").URLSearchParams);
lazy("Buffer", () => require("buffer").Buffer);
lazy("TextEncoder", () => require("text").TextEncoder);
lazy("TextDecoder", () => require("text").TextDecoder);
for (const name of ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "setImmediate", "clearImmediate"]) {
  lazy(name, () => require("timers")[name]);
}
define(globalThis, "global", globalThis);
define(globalThis, "queueMicrotask", (fn) => {
  Promise.resolve().then(() => fn());
});

const missing = (target, name, value) => {
  if (!(name in target)) define(target, name, value);
};
missing(Symbol, "asyncIterator", Symbol("Symbol.asyncIterator"));
missing(Object, "groupBy", (items, key) => {
  const groups = Object.create(null);
  let i = 0;
  for (const item of items) (groups[key(item, i++)] ??= []).push(item);
  return groups;
});
missing(Map, "groupBy", (items, key) => {
  const groups = new Map();
  let i = 0;
  for (const item of items) {
    const k = key(item, i++);
    if (!groups.has(k)) groups.set(k, []);
    groups.get(k).push(item);
  }
  return groups;
});
missing(Promise, "withResolvers", function () {
  let resolve, reject;
  const promise = new this((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
});
missing(Promise, "try", function (fn, ...args) {
  return new this((resolve) => resolve(fn(...args)));
});
missing(Array, "fromAsync", async (items, map) => {
  const out = [];
  const iterator = items[Symbol.asyncIterator]?.();
  if (iterator) {
    for (let step = await iterator.next(); !step.done; step = await iterator.next()) out.push(step.value);
  } else {
    for (const item of Array.from(items)) out.push(await item);
  }
  return map ? Promise.all(out.map(map)) : out;
});
missing(Error, "captureStackTrace", (target) => {
  define(target, "stack", new Error(target.message).stack);
});
missing(RegExp, "escape", (text) => String(text).replace(/[\\^$.*+?()[\]{}|\/-]/g, "\\$&"));

// Regular expressions with \p{...}, and the flags d and v as far as they change
// nothing: esbuild writes such literals as calls of RegExp.
const Native = RegExp;
function Expression(pattern, flags) {
  if (new.target === undefined && pattern instanceof Native && flags === undefined) return pattern;
  if (flags === undefined && pattern instanceof Native) return new Native(pattern);
  let text = pattern instanceof Native ? pattern.source : pattern === undefined ? "" : String(pattern);
  let with_ = flags === undefined ? "" : String(flags);
  if (with_.includes("u") || with_.includes("v")) text = host.unicodeClasses(text);
  with_ = with_.replace("d", "").replace("v", "u");
  const made = new Native(text, with_);
  return new.target && new.target !== Expression ? Object.setPrototypeOf(made, new.target.prototype) : made;
}
for (const key of Reflect.ownKeys(Native)) {
  const own = Object.getOwnPropertyDescriptor(Expression, key);
  if (!own || own.configurable) Object.defineProperty(Expression, key, Object.getOwnPropertyDescriptor(Native, key));
}
Expression.prototype = Native.prototype;
define(Native.prototype, "constructor", Expression);
define(globalThis, "RegExp", Expression);

require("bounds");
