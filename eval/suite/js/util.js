// node:util.
"use strict";
const { lack, lacking } = require("lacking");

const escapes = { "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "\\": "\\\\" };

// quote writes a string as Node does: in the quotes that need no escape.
function quote(text) {
  const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") && !text.includes("${") ? "`" : "'";
  let out = "";
  for (const c of text) {
    const code = c.codePointAt(0);
    if (c === mark) out += "\\" + c;
    else if (c in escapes) out += escapes[c];
    else if (code < 0x20 || (code > 0x7e && code < 0xa0)) out += "\\x" + code.toString(16).toUpperCase().padStart(2, "0");
    else if (code >= 0xd800 && code <= 0xdfff) out += "\\u" + code.toString(16).toUpperCase();
    else out += c;
  }
  return mark + out + mark;
}

const isKey = (key) => /^[a-zA-Z_][a-zA-Z_0-9]*$/.test(key);
const keyText = (key) => (typeof key === "symbol" ? String(key) : isKey(key) ? key : quote(key));

const colours = { number: 33, bigint: 33, boolean: 33, undefined: 90, symbol: 32, string: 32, date: 35, regexp: 31, null: 1 };
const painted = (ctx, kind, text) => (ctx.colors ? `\x1b[${colours[kind]}m${text}\x1b[${colours[kind] === 1 ? 22 : 39}m` : text);

function grouped(text) {
  const [whole, fraction] = text.split(".");
  const head = whole.replace(/\B(?=(\d{3})+$)/g, "_");
  return fraction === undefined ? head : `${head}.${fraction.replace(/(\d{3})(?=\d)/g, "$1_")}`;
}

function primitive(value, ctx) {
  if (value === null) return painted(ctx, "null", "null");
  const kind = typeof value;
  if (kind === "string") return text(value, ctx);
  let shown = Object.is(value, -0) ? "-0" : kind === "bigint" ? `${value}` : String(value);
  if (ctx.numericSeparator && /^-?\d+(\.\d+)?$/.test(shown)) shown = grouped(shown);
  return painted(ctx, kind, kind === "bigint" ? shown + "n" : shown);
}

// text writes a string: a long one in pieces, each of which is a line of it.
function text(value, ctx) {
  let more = "";
  if (value.length > ctx.maxStringLength) {
    const left = value.length - ctx.maxStringLength;
    more = `... ${left} more character${left > 1 ? "s" : ""}`;
    value = value.slice(0, ctx.maxStringLength);
  }
  if (ctx.compact !== true && value.length > 16 && value.length > ctx.breakLength - ctx.indent - 4) {
    const pieces = value.split(/(?<=\n)/);
    return pieces.map((piece) => painted(ctx, "string", quote(piece))).join(` +\n${" ".repeat(ctx.indent + 2)}`) + more;
  }
  return painted(ctx, "string", quote(value)) + more;
}

function functionText(fn) {
  const source = Function.prototype.toString.call(fn);
  if (/^class\b/.test(source)) {
    const parent = Object.getPrototypeOf(fn)?.name;
    return `[class ${fn.name || "(anonymous)"}${parent ? ` extends ${parent}` : ""}]`;
  }
  const kind = (/^async\b/.test(source) ? "Async" : "") + (/^(async\s*)?(function\s*)?\*/.test(source) ? "Generator" : "") + "Function";
  return fn.name ? `[${kind}: ${fn.name}]` : `[${kind} (anonymous)]`;
}

function className(value) {
  for (let o = value; o !== null; o = Object.getPrototypeOf(o)) {
    const own = Object.getOwnPropertyDescriptor(o, "constructor");
    if (own && typeof own.value === "function" && own.value.name !== "" && value instanceof own.value) return own.value.name;
  }
  return null;
}

const customKey = Symbol.for("nodejs.util.inspect.custom");
const defaultOptions = {
  showHidden: false, depth: 2, colors: false, customInspect: true, showProxy: false, maxArrayLength: 100, maxStringLength: 10000,
  breakLength: 80, compact: 3, sorted: false, getters: false, numericSeparator: false,
};

// inspect writes a value for people, as Node does.
function inspect(value, options, ...rest) {
  const given = typeof options === "object" && options !== null ? options : {};
  const ctx = { ...defaultOptions, ...given, indent: 0, level: 0, above: [], circular: new Map() };
  if (typeof options === "boolean") ctx.showHidden = options;
  if (rest.length > 0 && rest[0] !== undefined) ctx.depth = rest[0];
  if (rest.length > 1) ctx.colors = Boolean(rest[1]);
  for (const key of ["depth", "maxArrayLength", "maxStringLength"]) if (ctx[key] === null) ctx[key] = Infinity;
  return write(value, ctx, 0, true);
}

function write(value, ctx, depth, typed) {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return primitive(value, ctx);
  const custom = ctx.customInspect ? value[customKey] : undefined;
  if (typeof custom === "function" && custom !== inspect) {
    const { indent, level, above, circular, ...options } = ctx;
    const shown = Reflect.apply(custom, value, [ctx.depth - depth, { ...options, depth: ctx.depth - depth }, inspect]);
    if (shown !== value) return typeof shown === "object" || typeof shown === "function" ? write(shown, ctx, depth) : String(shown).replaceAll("\n", `\n${" ".repeat(ctx.indent)}`);
  }
  if (ctx.above.includes(value)) {
    if (!ctx.circular.has(value)) ctx.circular.set(value, ctx.circular.size + 1);
    return `[Circular *${ctx.circular.get(value)}]`;
  }
  return writeObject(value, ctx, depth, typed);
}

const iteratorTag = /^(Array|Map|Set|String) Iterator$/;

// shapeOf says how an object is written: what comes first, its braces, and its items.
function shapeOf(value, ctx, name, keys) {
  const tagged = value[Symbol.toStringTag];
  const own = name === null ? `[Object: null prototype] ` : `${name} `;
  const label = typeof tagged === "string" && tagged !== "" && tagged !== name ? `${own}[${tagged}] ` : own;
  const sized = (n, always) => (always || name !== "Array" ? `${name ?? "[Array(" + n + "): null prototype]"}(${n}) ` : "");
  const named = (base, empty = base) => ({ base, open: "{", close: "}", items: [], empty });
  if (Array.isArray(value)) {
    return { open: `${sized(value.length)}[`, close: "]", items: (depth) => arrayItems(value, ctx, depth), list: true, keys: keys.filter((k) => typeof k === "symbol" || !/^\d+$/.test(k)) };
  }
  if (value instanceof Set) return { open: `${sized(value.size, true)}{`, close: "}", items: (depth) => Array.from(value, (v) => inner(v, ctx, depth)) };
  if (value instanceof Map) {
    return { open: `${sized(value.size, true)}{`, close: "}", items: (depth) => Array.from(value, ([k, v]) => `${inner(k, ctx, depth)} => ${inner(v, ctx, depth)}`) };
  }
  if (name === "Buffer" && value instanceof Uint8Array) {
    const shown = Array.from(value.subarray(0, 50), (n) => n.toString(16).padStart(2, "0"));
    if (value.length > 50) shown.push(`... ${value.length - 50} more byte${value.length > 51 ? "s" : ""}`);
    return named(`<Buffer${shown.length ? " " : ""}${shown.join(" ")}>`);
  }
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    return { open: `${name}(${value.length}) [`, close: "]", items: () => listed(Array.from(value.subarray(0, ctx.maxArrayLength), (n) => primitive(n, ctx)), value.length, ctx), list: true, keys: keys.filter((k) => typeof k === "symbol" || !/^\d+$/.test(k)) };
  }
  if (tag(value) === "[object Arguments]") return { open: "[Arguments] {", close: "}", items: [], keys };
  if (typeof value === "function") return named(functionText(value));
  if (value instanceof RegExp) return named(painted(ctx, "regexp", String(value)));
  if (value instanceof Date) return named(painted(ctx, "date", dateText(value)));
  if (value instanceof Error) return named(errorHead(value, ctx));
  if (value instanceof ArrayBuffer) {
    const bytes = Array.from(new Uint8Array(value), (n) => n.toString(16).padStart(2, "0")).join(" ");
    return { open: "ArrayBuffer {", close: "}", items: [`[Uint8Contents]: <${bytes}>`, `[byteLength]: ${primitive(value.byteLength, ctx)}`] };
  }
  if (value instanceof DataView) {
    return { open: "DataView {", close: "}", items: (depth) => ["byteLength", "byteOffset", "buffer"].map((key) => `[${key}]: ${inner(value[key], ctx, depth)}`) };
  }
  if (value instanceof Promise) {
    const [state, result] = host.promiseState(value);
    const mark = state === "rejected" ? "<rejected> " : "";
    return { open: "Promise {", close: "}", items: (depth) => [state === "pending" ? "<pending>" : mark + inner(result, ctx, depth)] };
  }
  if (value instanceof WeakMap || value instanceof WeakSet) return { open: `${name} {`, close: "}", items: ["<items unknown>"] };
  for (const Kind of [Number, String, Boolean, BigInt, Symbol]) {
    if (value instanceof Kind) return named(`[${Kind.name}: ${primitive(value.valueOf(), { ...ctx, colors: false })}]`);
  }
  if (iteratorTag.test(tagged ?? "")) return { open: `Object [${tagged}] {`, close: "}", items: [], keys };
  return { open: label === "Object " ? "{" : `${label}{`, close: "}", items: [], keys };
}

// inner writes an item of a collection.
function inner(value, ctx, depth) {
  ctx.indent += 2;
  const shown = write(value, ctx, depth);
  ctx.indent -= 2;
  return shown;
}

function listed(items, length, ctx) {
  const left = length - Math.min(ctx.maxArrayLength, length);
  return left > 0 ? [...items, `... ${left} more item${left > 1 ? "s" : ""}`] : items;
}

function arrayItems(value, ctx, depth) {
  const out = [];
  let i = 0;
  for (; i < value.length && out.length < ctx.maxArrayLength; i++) {
    if (i in value) out.push(inner(value[i], ctx, depth));
    else {
      const from = i;
      while (i + 1 < value.length && !(i + 1 in value)) i++;
      out.push(`<${i - from + 1} empty item${i > from ? "s" : ""}>`);
    }
  }
  const left = value.length - i;
  return left > 0 ? [...out, `... ${left} more item${left > 1 ? "s" : ""}`] : out;
}

function keysOf(value, ctx) {
  const keys = ctx.showHidden ? Object.getOwnPropertyNames(value) : Object.keys(value);
  for (const symbol of Object.getOwnPropertySymbols(value)) {
    if (ctx.showHidden || Object.prototype.propertyIsEnumerable.call(value, symbol)) keys.push(symbol);
  }
  return keys;
}

function writeObject(value, ctx, depth) {
  const name = className(value);
  let keys = keysOf(value, ctx);
  if (value instanceof Error) keys = errorKeys(value, keys);
  const shape = shapeOf(value, ctx, name, keys);
  keys = shape.keys ?? (ArrayBuffer.isView(value) ? [] : value instanceof String ? keys.filter((k) => !/^\d+$/.test(String(k))) : keys);
  const bare = !Array.isArray(shape.items) || shape.items.length > 0 ? false : keys.length === 0;
  if (bare) return shape.base ?? `${shape.open}}`;
  if (depth > ctx.depth) {
    const empty = Array.isArray(value) ? value.length === 0 && keys.length === 0 : (value instanceof Map || value instanceof Set) && value.size === 0 && keys.length === 0;
    if (empty) return shape.open + shape.close;
    return `[${Array.isArray(value) ? "Array" : (name ?? "Object: null prototype")}]`;
  }
  ctx.above.push(value);
  ctx.level = depth;
  const items = typeof shape.items === "function" ? shape.items(depth + 1) : [...shape.items];
  if (ctx.sorted) keys = [...keys].sort(typeof ctx.sorted === "function" ? ctx.sorted : (a, b) => (String(a) < String(b) ? -1 : 1));
  const own = keys.map((key) => property(value, key, ctx, depth + 1, shape.list));
  ctx.above.pop();
  const reference = ctx.circular.get(value);
  const mark = reference === undefined ? "" : `<ref *${reference}> `;
  const base = shape.base === undefined ? "" : mark + shape.base;
  const open = shape.base === undefined ? mark + shape.open : shape.open;
  const all = [...items, ...own];
  if (all.length === 0) return base || open + shape.close;
  return joined(all, ctx, depth, base, open, shape.close, shape.list ? value : undefined);
}

function property(value, key, ctx, depth, inList) {
  const own = Object.getOwnPropertyDescriptor(value, key) ?? { value: value[key], enumerable: true };
  let shown;
  if (own.get) {
    const kind = own.set ? "Getter/Setter" : "Getter";
    shown = ctx.getters ? getterText(value, own, kind, ctx, depth) : `[${kind}]`;
  } else if (own.set) shown = "[Setter]";
  else shown = inner(own.value, ctx, depth);
  const text = own.enumerable ? keyText(key) : `[${String(key)}]`;
  return `${text}: ${shown}`;
}

function getterText(value, own, kind, ctx, depth) {
  const got = own.get.call(value);
  if (typeof got === "object" && got !== null) return `[${kind}] ${inner(got, ctx, depth)}`;
  return `[${kind}: ${primitive(got, ctx)}]`;
}

// joined puts the parts of an object on one line, or each on its own: on one where it
// is short, and where at most as many levels are below as compact says.
function joined(all, ctx, depth, base, open, close, list) {
  const before = base === "" ? "" : `${base} `;
  const pad = `\n${" ".repeat(ctx.indent)}`;
  if (ctx.compact !== true && ctx.compact !== false) {
    const entries = all.length;
    if (list !== undefined && entries > 6) all = columns(all, ctx, list);
    if (ctx.level - depth < ctx.compact && entries === all.length) {
      const start = all.length + ctx.indent + open.length + base.length + 10;
      const length = all.reduce((total, item) => total + plain(item, ctx).length, all.length + start);
      const line = all.join(", ");
      if (length <= ctx.breakLength && !base.includes("\n") && !line.includes("\n")) return `${before}${open} ${line} ${close}`;
    }
  } else if (ctx.compact === true && !all.join("").includes("\n") && all.join(", ").length + open.length + ctx.indent + base.length <= ctx.breakLength) {
    return `${before}${open} ${all.join(", ")} ${close}`;
  }
  return `${before}${open}${pad}  ${all.join(`,${pad}  `)}${pad}${close}`;
}

const plain = (item, ctx) => (ctx.colors ? stripVTControlCharacters(item) : item);
const stripVTControlCharacters = (value) => value.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007]*(?:\u0007|\u001b\\)|\u001b[@-_]/g, "");

// columns puts many short items of a list in columns.
function columns(all, ctx, list) {
  const count = ctx.maxArrayLength < all.length ? all.length - 1 : all.length;
  const lengths = all.slice(0, count).map((item) => plain(item, ctx).length);
  const total = lengths.reduce((sum, n) => sum + n + 2, 0);
  const longest = Math.max(...lengths);
  const width = longest + 2;
  if (!(width * 3 + ctx.indent < ctx.breakLength && (total / width > 5 || longest <= 6))) return all;
  const biased = Math.max(width - 3 - Math.sqrt(width - total / all.length), 1);
  const n = Math.min(Math.round(Math.sqrt(2.5 * biased * count) / biased), Math.floor((ctx.breakLength - ctx.indent) / width), ctx.compact * 4, 15);
  if (n <= 1) return all;
  const widths = Array.from({ length: n }, (_, i) => Math.max(...lengths.filter((_, j) => j % n === i)) + 2);
  const right = all.every((_, i) => typeof list[i] === "number" || typeof list[i] === "bigint");
  const out = [];
  for (let i = 0; i < count; i += n) {
    const row = all.slice(i, Math.min(i + n, count));
    const cells = row.map((item, j) => {
      const wide = widths[j] + item.length - lengths[i + j];
      if (j === row.length - 1) return right ? item.padStart(wide - 2) : item;
      return right ? `${item}, `.padStart(wide) : `${item}, `.padEnd(wide);
    });
    out.push(cells.join(""));
  }
  return count < all.length ? [...out, all[count]] : out;
}

const dateText = (value) => (isNaN(value) ? "Invalid Date" : value.toISOString());

// errorHead is the stack of an error; in differences of assertions, its first line.
const errorHead = (error, ctx) => {
  if (ctx.compact === false) return `[${headline(error)}]`;
  const stack = host.stack(headline(error), String(error.stack ?? ""));
  return (stack.includes("\n") ? stack : `[${stack}]`).replaceAll("\n", `\n${" ".repeat(ctx.indent)}`);
};

function errorKeys(error, keys) {
  const out = keys.filter((key) => key !== "stack" && key !== "message" && key !== "name");
  for (const key of ["cause", "errors"]) {
    if (key in error && !out.includes(key) && Object.prototype.hasOwnProperty.call(error, key)) out.push(key);
  }
  return out;
}

// headline is the first line of an error's stack.
function headline(error) {
  const name = error.name === "AssertionError" && error.code === "ERR_ASSERTION" ? "AssertionError [ERR_ASSERTION]" : String(error.name ?? "Error");
  const message = String(error.message ?? "");
  return message === "" ? name : `${name}: ${message}`;
}

// format is that of console.log.
const format = (...args) => formatWithOptions({}, ...args);

function formatWithOptions(options, ...all) {
  const [first, ...rest] = all;
  let args = all;
  const out = [];
  if (typeof first === "string" && rest.length > 0) {
    args = rest;
    out.push(
      first.replace(/%[sdifjoOc%]/g, (mark) => {
        if (mark === "%%") return "%";
        return args.length === 0 ? mark : formatted(mark, args.shift(), options);
      }),
    );
  }
  return out.concat(args.map((value) => (typeof value === "string" ? value : inspect(value, options)))).join(" ");
}

const numeric = (value, read) => {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "symbol") return "NaN";
  const n = read(value);
  return Object.is(n, -0) ? "-0" : String(n);
};

function formatted(mark, value, options) {
  switch (mark) {
    case "%s":
      if (typeof value === "bigint") return `${value}n`;
      if (typeof value === "object" && value !== null && !hasOwnText(value)) return inspect(value, { ...options, depth: 0, colors: false, compact: 3 });
      return Object.is(value, -0) ? "-0" : String(value);
    case "%d":
      return numeric(value, (v) => (typeof v === "object" ? NaN : Number(v)));
    case "%i":
      return numeric(value, (v) => (typeof v === "object" ? NaN : parseInt(v, 10)));
    case "%f":
      return typeof value === "symbol" ? "NaN" : numeric(value, parseFloat);
    case "%j":
      try {
        return String(JSON.stringify(value));
      } catch (error) {
        if (error instanceof TypeError && /circular/i.test(error.message)) return "[Circular]";
        throw error;
      }
    case "%c":
      return "";
    case "%o":
      return inspect(value, { ...options, showHidden: true, showProxy: true, depth: 4 });
    default:
      return inspect(value, options);
  }
}

// hasOwnText reports whether an object, or a class of the user, says how it is written.
function hasOwnText(value) {
  if (value instanceof Date) return false;
  if (value instanceof Error) return true;
  for (let o = value; o !== null && o !== Object.prototype; o = Object.getPrototypeOf(o)) {
    if (Object.prototype.hasOwnProperty.call(o, "toString")) return !Array.isArray(value) && !/^(Map|Set|RegExp|Function|Array)$/.test(o.constructor?.name ?? "");
  }
  return false;
}

const tag = (value) => Object.prototype.toString.call(value);

// same compares deeply. Strict is what deepStrictEqual means; loose compares
// primitives with ==.
function same(a, b, strict, seen = []) {
  if (a === b) return a !== 0 || !strict || Object.is(a, b);
  const plain = (x) => typeof x !== "object" || x === null;
  if (plain(a) || plain(b)) {
    if (strict) return Object.is(a, b);
    return plain(a) && plain(b) && (a == b || (a !== a && b !== b)); // eslint-disable-line eqeqeq
  }
  if (strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (tag(a) !== tag(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  if (a instanceof Date && b instanceof Date && !Object.is(a.getTime(), b.getTime())) return false;
  if (a instanceof RegExp && (String(a) !== String(b) || a.lastIndex !== b.lastIndex)) return false;
  if (a instanceof Error && (a.message !== b.message || a.name !== b.name || !same(a.cause, b.cause, strict, seen))) return false;
  if ((a instanceof Number || a instanceof String || a instanceof Boolean) && !Object.is(a.valueOf(), b.valueOf())) return false;
  if (seen.some(([x, y]) => x === a && y === b)) return true;
  const pairs = [...seen, [a, b]];
  if (Array.isArray(a) && a.length !== b.length) return false;
  if (ArrayBuffer.isView(a)) {
    const [x, y] = [new Uint8Array(a.buffer, a.byteOffset, a.byteLength), new Uint8Array(b.buffer, b.byteOffset, b.byteLength)];
    return x.length === y.length && x.every((byte, i) => byte === y[i]);
  }
  if (a instanceof Set && !sameItems([...a], [...b], (x, y) => same(x, y, strict, pairs))) return false;
  if (a instanceof Map) {
    if (!sameItems([...a], [...b], ([k, x], [l, y]) => same(k, l, strict, pairs) && same(x, y, strict, pairs))) return false;
  }
  const own = (o) => [...Object.keys(o), ...Object.getOwnPropertySymbols(o).filter((s) => Object.prototype.propertyIsEnumerable.call(o, s))];
  const keys = own(a);
  if (keys.length !== own(b).length) return false;
  return keys.every((key) => Object.prototype.propertyIsEnumerable.call(b, key) && same(a[key], b[key], strict, pairs));
}

// sameItems pairs each item with one that equals it, in any order.
function sameItems(a, b, equal) {
  if (a.length !== b.length) return false;
  const left = [...b];
  return a.every((x) => {
    const i = left.findIndex((y) => equal(x, y));
    if (i >= 0) left.splice(i, 1);
    return i >= 0;
  });
}

// covers compares what partialDeepStrictEqual does: all that is wanted must be there.
function covers(value, wanted, seen = []) {
  if (typeof wanted !== "object" || wanted === null || typeof value !== "object" || value === null) return Object.is(value, wanted);
  if (seen.some(([x, y]) => x === value && y === wanted)) return true;
  const pairs = [...seen, [value, wanted]];
  if (tag(value) !== tag(wanted) || Array.isArray(value) !== Array.isArray(wanted) || Object.getPrototypeOf(value) !== Object.getPrototypeOf(wanted)) return false;
  if (wanted instanceof Date || wanted instanceof RegExp || wanted instanceof Error) return same(value, wanted, true);
  if (wanted instanceof Number || wanted instanceof String || wanted instanceof Boolean) return same(value, wanted, true);
  if (wanted instanceof Set) return wanted.size <= value.size && coversItems([...value], [...wanted], (x, y) => covers(x, y, pairs));
  if (wanted instanceof Map) {
    return wanted.size <= value.size && coversItems([...value], [...wanted], ([k, x], [l, y]) => same(k, l, true) && covers(x, y, pairs));
  }
  if (ArrayBuffer.isView(wanted) && !(wanted instanceof DataView)) return coversInOrder(Array.from(value), Array.from(wanted), Object.is);
  if (Array.isArray(wanted)) return coversInOrder(value, wanted, (x, y) => covers(x, y, pairs));
  return Reflect.ownKeys(wanted)
    .filter((key) => Object.prototype.propertyIsEnumerable.call(wanted, key))
    .every((key) => Object.prototype.propertyIsEnumerable.call(value, key) && covers(value[key], wanted[key], pairs));
}

function coversItems(items, wanted, equal) {
  const left = [...items];
  return wanted.every((y) => {
    const i = left.findIndex((x) => equal(x, y));
    if (i >= 0) left.splice(i, 1);
    return i >= 0;
  });
}

function coversInOrder(items, wanted, equal) {
  let at = 0;
  return wanted.every((y) => {
    while (at < items.length && !equal(items[at], y)) at++;
    return at++ < items.length;
  });
}

// received is how Node's errors describe a value of the wrong type.
function received(value) {
  if (value === undefined || value === null) return String(value);
  if (typeof value === "function") return `function ${value.name}`;
  if (typeof value === "object") return value.constructor?.name ? `an instance of ${value.constructor.name}` : inspect(value, { depth: -1 });
  const text = inspect(value);
  return `type ${typeof value} (${text.length > 28 ? `${text.slice(0, 25)}...` : text})`;
}

module.exports = {
  inspect,
  covers,
  received,
  format,
  headline,
  same,
  isDeepStrictEqual: (a, b) => same(a, b, true),
  formatWithOptions,
  stripVTControlCharacters,
  promisify,
  callbackify: (fn) => (...args) => {
    const done = args.pop();
    fn(...args).then((value) => done(null, value), (error) => done(error ?? new Error("Promise was rejected with falsy value")));
  },
  deprecate: (fn) => fn,
  inherits(child, parent) {
    Object.defineProperty(child, "super_", { value: parent, writable: true, configurable: true });
    Object.setPrototypeOf(child.prototype, parent.prototype);
  },
  isArray: Array.isArray,
  toUSVString: (value) => String(value).toWellFormed(),
  debuglog: () => Object.assign(() => {}, { enabled: false }),
  styleText,
  getSystemErrorName: (errno) => Object.entries(require("os").constants.errno).find(([, n]) => n === -errno)?.[0],
  parseArgs: lacking("util.parseArgs"),
  MIMEType: lacking("util.MIMEType"),
  get TextEncoder() {
    return globalThis.TextEncoder;
  },
  get TextDecoder() {
    return globalThis.TextDecoder;
  },
  types: typeChecks(),
};
Object.assign(inspect, { custom: customKey, defaultOptions });

function promisify(fn) {
  if (typeof fn !== "function") {
    throw Object.assign(new TypeError(`The "original" argument must be of type function. Received ${received(fn)}`), { code: "ERR_INVALID_ARG_TYPE" });
  }
  return (...args) => new Promise((resolve, reject) => fn(...args, (error, value) => (error ? reject(error) : resolve(value))));
}

function styleText(styles, value) {
  const codes = { bold: [1, 22], dim: [2, 22], italic: [3, 23], underline: [4, 24], inverse: [7, 27], black: 30, red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 36, white: 37, gray: 90, grey: 90 };
  return [styles].flat().reduceRight((shown, style) => {
    if (codes[style] === undefined) throw lack(`The style ${style} of util.styleText`);
    const [on, off] = [codes[style], 39].flat();
    return `\x1b[${on}m${shown}\x1b[${off}m`;
  }, String(value));
}

function typeChecks() {
  const checks = {};
  for (const name of ["Promise", "RegExp", "Date", "Map", "Set", "WeakMap", "WeakSet", "ArrayBuffer", "DataView", "Uint8Array", "Int8Array", "Uint16Array", "Int16Array", "Uint32Array", "Int32Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array", "Uint8ClampedArray"]) {
    checks[`is${name}`] = (value) => value instanceof globalThis[name];
  }
  const tagged = (name) => (value) => typeof value === "object" && tag(value) === `[object ${name}]`;
  const boxed = { isNumberObject: Number, isStringObject: String, isBooleanObject: Boolean, isBigIntObject: BigInt, isSymbolObject: Symbol };
  for (const [name, Kind] of Object.entries(boxed)) checks[name] = (value) => typeof value === "object" && value instanceof Kind;
  return Object.assign(checks, {
    isNativeError: (value) => value instanceof Error,
    isAnyArrayBuffer: (value) => value instanceof ArrayBuffer,
    isArrayBufferView: ArrayBuffer.isView,
    isTypedArray: (value) => ArrayBuffer.isView(value) && !(value instanceof DataView),
    isAsyncFunction: (value) => typeof value === "function" && /^\[Async/.test(functionText(value)),
    isGeneratorFunction: (value) => typeof value === "function" && /^\[(Async)?Generator/.test(functionText(value)),
    isMapIterator: tagged("Map Iterator"),
    isSetIterator: tagged("Set Iterator"),
    isArgumentsObject: tagged("Arguments"),
    isGeneratorObject: tagged("Generator"),
    isBoxedPrimitive: (value) => Object.keys(boxed).some((name) => checks[name](value)),
    isProxy: (value) => host.isProxy(value),
  });
}
