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
lazy("URLSearchParams", () => require("url").URLSearchParams);
lazy("Buffer", () => require("buffer").Buffer);
lazy("TextEncoder", () => require("text").TextEncoder);
lazy("TextDecoder", () => require("text").TextDecoder);
lazy("btoa", () => require("buffer").btoa);
lazy("atob", () => require("buffer").atob);
lazy("performance", () => require("performance"));
lazy("crypto", () => require("crypto").webcrypto);
for (const name of ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "setImmediate", "clearImmediate"]) {
  lazy(name, () => require("timers")[name]);
}
define(globalThis, "global", globalThis);
define(globalThis, "queueMicrotask", (fn) => {
  if (typeof fn !== "function") {
    const text = `The "callback" argument must be of type function. Received ${require("util").received(fn)}`;
    throw Object.assign(new TypeError(text), { code: "ERR_INVALID_ARG_TYPE" });
  }
  Promise.resolve().then(() => fn());
});

const { lack, lacking } = require("lacking");
const missing = (target, name, value) => {
  if (!(name in target)) define(target, name, value);
};
const wellFormed = (text) => Array.from(text, (c) => (c.length === 1 && c >= "\ud800" && c <= "\udfff" ? "\ufffd" : c)).join("");
missing(String.prototype, "isWellFormed", function isWellFormed() {
  return wellFormed(String(this)) === String(this);
});
missing(String.prototype, "toWellFormed", function toWellFormed() {
  return wellFormed(String(this));
});
missing(globalThis, "DOMException", class DOMException extends Error {
  constructor(message = "", name = "Error") {
    super(message);
    define(this, "name", name);
    define(this, "code", { InvalidCharacterError: 5, AbortError: 20, DataCloneError: 25 }[name] ?? 0);
  }
});
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
missing(globalThis, "WeakRef", class WeakRef {
  #target; // nothing is collected while it is referred to
  constructor(target) {
    this.#target = target;
  }
  deref() {
    return this.#target;
  }
});
missing(globalThis, "FinalizationRegistry", class FinalizationRegistry {
  register() {}
  unregister() {
    return false;
  }
});
require("iterator")(define, missing);
missing(Math, "f16round", lacking("Math.f16round"));
missing(globalThis, "Float16Array", lacking("Float16Array"));
missing(ArrayBuffer.prototype, "transfer", lacking("ArrayBuffer.prototype.transfer"));
missing(ArrayBuffer.prototype, "resize", lacking("ArrayBuffer.prototype.resize"));
missing(ArrayBuffer.prototype, "resizable", false);
missing(Error, "isError", (value) => value instanceof Error);
for (const name of ["AbortController", "Blob", "CompressionStream", "Event", "EventTarget", "File", "FormData", "Headers", "MessageChannel", "ReadableStream", "Request", "Response", "SharedArrayBuffer", "WebSocket", "Worker", "WritableStream", "fetch"]) {
  missing(globalThis, name, lacking(name));
}
const members = (name, list) => Object.fromEntries(list.map((member) => [member, lacking(`${name}.${member}`)]));
missing(globalThis, "AbortSignal", Object.assign(lacking("AbortSignal"), members("AbortSignal", ["abort", "any", "timeout"])));
missing(globalThis, "WebAssembly", members("WebAssembly", ["Instance", "Memory", "Module", "compile", "instantiate", "validate"]));
missing(globalThis, "Atomics", members("Atomics", ["add", "and", "load", "notify", "store", "sub", "wait"]));
require("locale").install(define);

missing(RegExp, "escape", (text) => {
  if (typeof text !== "string") throw new TypeError("input argument must be a string");
  const hex = (c) => "\\x" + c.charCodeAt(0).toString(16).padStart(2, "0");
  return text.replace(/[\^$\\.*+?()[\]{}|/]/g, "\\$&").replace(/^[0-9a-zA-Z]/, hex).replace(/[,\-=<>#&!%:;@~'`" ]/g, hex);
});

// Regular expressions with \p{...}, and the flags d and v as far as they change
// nothing: esbuild writes such literals as calls of RegExp. What they do change is an error.
const Native = RegExp;
const setNotation = /\\[\s\S]|\[(?:\\[\s\S]|[^\]\\])*?(?:\[|--|&&|\\q\{)/g;

function checkSets(text) {
  for (const [part] of text.matchAll(setNotation)) {
    if (part[0] === "[") throw lack(`The set notation of the flag v in the regular expression /${text}/v`);
  }
}

function Expression(pattern, flags) {
  if (new.target === undefined && pattern instanceof Native && flags === undefined) return pattern;
  if (flags === undefined && pattern instanceof Native) return new Native(pattern);
  const source = pattern instanceof Native ? pattern.source : pattern === undefined ? "" : String(pattern);
  const all = flags === undefined ? "" : String(flags);
  if (/[^dgimsuvy]|(.).*\1|u.*v|v.*u/.test(all)) throw new SyntaxError(`Invalid flags supplied to RegExp constructor '${all}'`);
  const unicode = /[uv]/.test(all);
  if (all.includes("v")) checkSets(source);
  const text = unicode ? host.unicodeClasses(source) : source;
  const unknown = unicode && /(?<!\\)(?:\\\\)*(\\[pP]\{[^}]*\})/.exec(text);
  if (unknown) throw lack(`The class ${unknown[1]} in a regular expression`);
  let made;
  try {
    made = new Native(text, all.replace("d", "").replace("v", "u"));
  } catch (error) {
    throw error instanceof SyntaxError ? new SyntaxError(`Invalid regular expression: /${source}/${all}: ${error.message}`) : error;
  }
  if (text !== source) define(made, "source", source);
  if (all.includes("v")) define(made, "unicodeSets", true);
  if (/[dv]/.test(all)) define(made, "flags", [...all].sort().join(""));
  if (all.includes("d")) withoutIndices(made);
  return new.target && new.target !== Expression ? Object.setPrototypeOf(made, new.target.prototype) : made;
}

// withoutIndices makes the indices of matches an error, which the engine does not know.
function withoutIndices(made) {
  define(made, "hasIndices", true);
  define(made, "exec", function (text) {
    const match = Native.prototype.exec.call(this, text);
    return match === null ? null : Object.defineProperty(match, "indices", { get: lacking("The flag d of regular expressions") });
  });
}
for (const key of Reflect.ownKeys(Native)) {
  const own = Object.getOwnPropertyDescriptor(Expression, key);
  if (!own || own.configurable) Object.defineProperty(Expression, key, Object.getOwnPropertyDescriptor(Native, key));
}
Expression.prototype = Native.prototype;
define(Native.prototype, "constructor", Expression);
define(globalThis, "RegExp", Expression);

require("bounds");
