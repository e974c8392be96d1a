// What a suite that runs in Node asks of Go: files, its workspace, commands.
"use strict";
const { Buffer } = require("buffer");

const packed = (value) => (value instanceof ArrayBuffer ? { bytes: Buffer.from(value).toString("base64") } : (value ?? null));
const unpacked = (value) => {
  if (typeof value?.bytes !== "string") return value;
  const bytes = Buffer.from(value.bytes, "base64");
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
};

// revive makes values of the description of what a suite exports: functions stand for
// functions.
function revive(value) {
  if (Array.isArray(value)) return value.map(revive);
  if (typeof value !== "object" || value === null) return value;
  if (value.$ === "function") return () => {};
  if (value.$ === "promise") return Promise.resolve();
  if (value.$ === "undefined") return undefined;
  if (value.$ === "number") return Number(value.text);
  return Object.fromEntries(value.entries.map(([key, field]) => [key, revive(field)]));
}

const allowed = ["fs", "env", "envAsync", "parseCommand", "callText"];

module.exports = {
  revive: (text) => revive(JSON.parse(text)),

  // serve answers a call: JSON of a value, or of an error.
  async serve(name, text) {
    try {
      if (!allowed.includes(name)) throw new Error(`${name} is not known`);
      const args = JSON.parse(text).map(unpacked);
      if (name === "fs") args[3] ??= {};
      return JSON.stringify({ value: packed(await host[name](...args)) });
    } catch (error) {
      const { name, message, code, syscall, path } = error;
      return JSON.stringify({ error: { name, message, code, syscall, path } });
    }
  },
};
