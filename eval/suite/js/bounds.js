// What makes much of little in one operation, which nothing can interrupt: each asks
// for room first.
"use strict";

const small = 1 << 20; // bytes that are allowed without a check
const value = 16; // bytes of an element of an array
const { apply, construct } = Reflect;

const room = (bytes) => {
  if (!(bytes > small)) return;
  const refused = host.room(bytes);
  if (refused === undefined) return;
  const error = new RangeError(refused);
  error.code = "E_RESOURCE_EXHAUSTED";
  throw error;
};

// bound puts a function that asks in the place of one that takes.
function bound(target, name, bytes) {
  const native = target[name];
  if (typeof native !== "function") return;
  const asks = {
    [name](...args) {
      room(bytes(this, args));
      return apply(native, this, args);
    },
  }[name];
  Object.defineProperty(asks, "length", { value: native.length, configurable: true });
  Object.defineProperty(target, name, { value: asks, writable: true, configurable: true, enumerable: false });
}

// lengthOf is what the engine takes for the length of a thing that is like an array.
const lengthOf = (list) => (list === null || list === undefined ? 0 : Math.max(0, Math.trunc(Number(list.length))) || 0);
const sum = (list) => list.reduce((total, n) => total + n, 0);

// made puts a constructor that asks in the place of one that takes. What extends it,
// and what its instances name as their constructor, goes through it, too.
function made(name, bytes) {
  const native = globalThis[name];
  function Asks(...args) {
    if (new.target === undefined) throw new TypeError(`Constructor ${name} requires 'new'`);
    room(bytes(args[0]));
    return construct(native, args, new.target);
  }
  for (const key of Reflect.ownKeys(native)) {
    const own = Object.getOwnPropertyDescriptor(Asks, key);
    if (!own || own.configurable) Object.defineProperty(Asks, key, Object.getOwnPropertyDescriptor(native, key));
  }
  Object.setPrototypeOf(Asks, Object.getPrototypeOf(native));
  Asks.prototype = native.prototype;
  Object.defineProperty(native.prototype, "constructor", { value: Asks, writable: true, configurable: true, enumerable: false });
  Object.defineProperty(globalThis, name, { value: Asks, writable: true, configurable: true, enumerable: false });
}

made("ArrayBuffer", (size) => (typeof size === "object" ? 0 : Number(size)));
for (const name of Reflect.ownKeys(globalThis)) {
  const width = typeof name === "string" && /^(Big)?(Int|Uint|Float)\d+(Clamped)?Array$/.test(name) && globalThis[name].BYTES_PER_ELEMENT;
  if (width) made(name, (of) => width * (typeof of === "object" && of !== null ? (of instanceof ArrayBuffer ? 0 : lengthOf(of)) : Number(of)));
}

for (const name of ["fill", "slice", "splice", "toSpliced", "unshift", "with", "toSorted", "toReversed", "sort", "reverse", "copyWithin", "flat"]) {
  bound(Array.prototype, name, (list) => value * lengthOf(list));
}
bound(Array.prototype, "concat", (list, args) => value * (lengthOf(list) + sum(args.map((arg) => (Array.isArray(arg) ? lengthOf(arg) : 1)))));
bound(Array, "from", (_, [items]) => (typeof items === "string" ? 2 * value : value) * lengthOf(items));

// A list of few texts may name a large one many times.
bound(Array.prototype, "join", (list, [by]) => {
  const length = lengthOf(list);
  let total = length * (typeof by === "string" ? by.length : 1);
  room(total);
  for (let i = 0; i < length; i++) if (typeof list[i] === "string") total += list[i].length;
  return total;
});

const textOf = (text) => (typeof text === "string" ? text.length : 0);
bound(String.prototype, "repeat", (text, [count]) => textOf(text) * Number(count));
for (const name of ["padStart", "padEnd"]) bound(String.prototype, name, (_, [length]) => Number(length));
bound(String.prototype, "concat", (text, args) => textOf(text) + sum(args.map(textOf)));
bound(String.prototype, "split", (text, [by]) => (by === "" ? 2 * value * textOf(text) : 0));

// buffer makes the module of the name ask.
module.exports = (buffer) => {
  bound(buffer.Buffer, "alloc", (_, [size]) => Number(size));
  bound(buffer.Buffer, "concat", (_, [list]) => (Array.isArray(list) ? sum(list.map(lengthOf)) : 0));
  return buffer;
};
