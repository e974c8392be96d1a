// structuredClone: a deep copy of data, with its cycles.
"use strict";
function clone(value, seen) {
  if (typeof value === "function" || typeof value === "symbol") {
    throw Object.assign(new Error(`${String(value)} could not be cloned.`), { name: "DataCloneError", code: 25 });
  }
  if (typeof value !== "object" || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const keep = (copy) => {
    seen.set(value, copy);
    return copy;
  };
  if (value instanceof Date) return keep(new Date(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
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
    return keep(value instanceof DataView ? new DataView(bytes) : new value.constructor(bytes));
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
module.exports = (value) => clone(value, new Map());
