// node:util, as far as assertions and the console need it: inspect, format and
// isDeepStrictEqual.
"use strict";

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
const keyText = (key) => (typeof key === "symbol" ? `[${String(key)}]` : isKey(key) ? key : quote(key));

function primitive(value) {
  switch (typeof value) {
    case "string":
      return quote(value);
    case "number":
      return Object.is(value, -0) ? "-0" : String(value);
    case "bigint":
      return `${value}n`;
    default:
      return String(value);
  }
}

function functionText(fn) {
  const source = Function.prototype.toString.call(fn);
  if (/^class\b/.test(source)) {
    const parent = Object.getPrototypeOf(fn)?.name;
    return `[class ${fn.name || "(anonymous)"}${parent ? ` extends ${parent}` : ""}]`;
  }
  const kind = /^async\b/.test(source) ? "AsyncFunction" : "Function";
  return fn.name ? `[${kind}: ${fn.name}]` : `[${kind} (anonymous)]`;
}

function className(value) {
  for (let o = value; o !== null; o = Object.getPrototypeOf(o)) {
    const own = Object.getOwnPropertyDescriptor(o, "constructor");
    if (own && typeof own.value === "function" && own.value.name !== "") return own.value.name;
  }
  return null;
}

// inspect writes a value for people. With compact false every property has a line of
// its own, which is what differences of assertions are made of.
function inspect(value, options = {}) {
  const opts = { depth: 2, compact: true, sorted: false, breakLength: 80, ...options };
  if (opts.depth === null) opts.depth = Infinity;
  return write(value, opts, 0, [], 0);
}

function write(value, opts, depth, above, indent) {
  if (typeof value === "function") {
    const keys = Object.keys(value);
    return keys.length === 0 ? functionText(value) : `${functionText(value)} ${body(value, opts, depth, above, indent, keys, [], "{", "}")}`;
  }
  if (typeof value !== "object" || value === null) return primitive(value);
  if (above.includes(value)) return "[Circular *1]";
  const name = className(value);
  const keys = Object.keys(value);
  for (const symbol of Object.getOwnPropertySymbols(value)) {
    if (Object.prototype.propertyIsEnumerable.call(value, symbol)) keys.push(symbol);
  }
  if (value instanceof Date) return keys.length ? `${dateText(value)} ${body(value, opts, depth, above, indent, keys, [], "{", "}")}` : dateText(value);
  if (value instanceof RegExp) return String(value);
  if (value instanceof Error) return errorText(value, opts, depth, above, indent, keys);
  if (value instanceof Promise) return "Promise {}";
  if (value instanceof Number || value instanceof Boolean || value instanceof String) return `[${name}: ${primitive(value.valueOf())}]`;
  const label = name === null ? "[Object: null prototype] " : name === "Object" || name === "Array" ? "" : name + " ";
  if (depth > opts.depth) return `[${name ?? "Object: null prototype"}]`;
  const next = [...above, value];
  if (Array.isArray(value)) {
    const items = [];
    for (let i = 0; i < value.length; i++) items.push(i in value ? write(value[i], opts, depth + 1, next, indent + 2) : "<1 empty item>");
    const prefix = label === "" ? "" : `${name}(${value.length}) `;
    return prefix + body(value, opts, depth, next, indent, keys.filter((k) => typeof k === "symbol" || !/^\d+$/.test(k)), items, "[", "]");
  }
  if (value instanceof Map) {
    const items = [...value].map(([k, v]) => `${write(k, opts, depth + 1, next, indent + 2)} => ${write(v, opts, depth + 1, next, indent + 2)}`);
    return `Map(${value.size}) ` + body(value, opts, depth, next, indent, keys, items, "{", "}");
  }
  if (value instanceof Set) {
    const items = [...value].map((v) => write(v, opts, depth + 1, next, indent + 2));
    return `Set(${value.size}) ` + body(value, opts, depth, next, indent, keys, items, "{", "}");
  }
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    return `${name}(${value.length}) ` + body(value, opts, depth, next, indent, [], Array.from(value, primitive), "[", "]");
  }
  return label + body(value, opts, depth, next, indent, keys, [], "{", "}");
}

const dateText = (value) => (isNaN(value) ? "Invalid Date" : value.toISOString());

function errorText(error, opts, depth, above, indent, keys) {
  const head = opts.compact ? host.stack(headline(error), String(error.stack ?? "")) : `[${headline(error)}]`;
  const rest = keys.filter((k) => k !== "stack" && k !== "message");
  return rest.length === 0 ? head : `${head} ${body(error, opts, depth, [...above, error], indent, rest, [], "{", "}")}`;
}

// headline is the first line of an error's stack.
function headline(error) {
  const name = error.name === "AssertionError" && error.code === "ERR_ASSERTION" ? "AssertionError [ERR_ASSERTION]" : String(error.name ?? "Error");
  const message = String(error.message ?? "");
  return message === "" ? name : `${name}: ${message}`;
}

function body(value, opts, depth, above, indent, keys, items, open, close) {
  const sorted = opts.sorted ? [...keys].sort((a, b) => (String(a) < String(b) ? -1 : 1)) : keys;
  const all = [
    ...items,
    ...sorted.map((key) => {
      const own = Object.getOwnPropertyDescriptor(value, key);
      const shown = own.get ? (own.set ? "[Getter/Setter]" : "[Getter]") : own.set ? "[Setter]" : write(own.value, opts, depth + 1, above, indent + 2);
      return `${keyText(key)}: ${shown}`;
    }),
  ];
  if (all.length === 0) return open + close;
  const line = `${open} ${all.join(", ")} ${close}`;
  if (opts.compact && line.length + indent <= opts.breakLength - 4 && !line.includes("\n")) return line;
  const pad = " ".repeat(indent + 2);
  return `${open}\n${pad}${all.join(`,\n${pad}`)}\n${" ".repeat(indent)}${close}`;
}

// format is that of console.log.
function format(first, ...rest) {
  let args = [first, ...rest];
  let out = [];
  if (typeof first === "string" && rest.length > 0) {
    args = rest;
    out.push(
      first.replace(/%[sdifjoOc%]/g, (mark) => {
        if (mark === "%%") return "%";
        if (args.length === 0) return mark;
        const value = args.shift();
        switch (mark) {
          case "%s":
            return typeof value === "object" && value !== null ? inspect(value, { depth: 0 }) : typeof value === "bigint" ? `${value}n` : String(value);
          case "%d":
            return String(typeof value === "object" ? NaN : Number(value));
          case "%i":
            return String(parseInt(value, 10));
          case "%f":
            return String(parseFloat(value));
          case "%j":
            return JSON.stringify(value);
          case "%c":
            return "";
          default:
            return inspect(value, { depth: 4 });
        }
      }),
    );
  }
  return out.concat(args.map((value) => (typeof value === "string" ? value : inspect(value)))).join(" ");
}

const tag = (value) => Object.prototype.toString.call(value);

// same compares deeply. Strict is what deepStrictEqual means; loose compares
// primitives with ==.
function same(a, b, strict, seen = []) {
  if (a === b) return a !== 0 || !strict || Object.is(a, b);
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) {
    if (strict || typeof a === "object" || typeof b === "object") return Object.is(a, b) && typeof a !== "object";
    return a == b || (a !== a && b !== b); // eslint-disable-line eqeqeq
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

module.exports = {
  inspect,
  format,
  headline,
  same,
  isDeepStrictEqual: (a, b) => same(a, b, true),
  promisify: (fn) => (...args) => new Promise((resolve, reject) => fn(...args, (error, value) => (error ? reject(error) : resolve(value)))),
  types: {
    isPromise: (v) => v instanceof Promise,
    isRegExp: (v) => v instanceof RegExp,
    isDate: (v) => v instanceof Date,
    isNativeError: (v) => v instanceof Error,
  },
};
