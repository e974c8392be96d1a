// structuredClone: a deep copy of data, with its cycles.
"use strict";
const { lack } = require("lacking");
const refused = (what) => new DOMException(`${what} could not be cloned.`, "DataCloneError");

function clone(value, seen) {
  if (typeof value === "function" || typeof value === "symbol") {
    throw refused(String(value));
  }
  if (typeof value !== "object" || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const keep = (copy) => {
    seen.set(value, copy);
    return copy;
  };
  if (value instanceof Date) return keep(new Date(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof String || value instanceof Number || value instanceof Boolean || value instanceof BigInt) return keep(Object(value.valueOf()));
  for (const Kind of [WeakMap, WeakSet, WeakRef, Promise]) if (value instanceof Kind) throw refused(`#<${Kind.name}>`);
  if (value instanceof Map) {
    const copy = keep(new Map());
    for (const [k, v] of value) copy.set(clone(k, seen), clone(v, seen));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set());
    for (const v of value) copy.add(clone(v, seen));
    return copy;
  }
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (ArrayBuffer.isView(value)) {
    const bytes = value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength);
    return keep(value instanceof DataView ? new DataView(bytes) : new (value instanceof Buffer ? Uint8Array : value.constructor)(bytes));
  }
  if (value instanceof Error) {
    const copy = keep(new (globalThis[value.name] ?? Error)(value.message));
    copy.stack = value.stack;
    if ("cause" in value) copy.cause = clone(value.cause, seen);
    return copy;
  }
  const copy = keep(Array.isArray(value) ? new Array(value.length) : {});
  for (const key of Object.keys(value)) copy[key] = clone(value[key], seen);
  return copy;
}
module.exports = function structuredClone(value, options) {
  if (arguments.length === 0) {
    throw Object.assign(new TypeError('The "The value argument must be specified" argument must be specified'), { code: "ERR_MISSING_ARGS" });
  }
  if (options?.transfer?.length > 0) throw lack("The option transfer of structuredClone");
  return clone(value, new Map());
};
