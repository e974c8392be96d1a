// node:buffer: the engine's Buffer, and what it lacks.
"use strict";
const { Buffer } = require("bounds")(host.nodeBuffer());
const { received } = require("util");

const define = (target, methods) => {
  for (const [name, value] of Object.entries(methods)) Object.defineProperty(target, name, { value, writable: true, configurable: true });
};
const coded = (Kind, code, message) => Object.assign(new Kind(message), { code });
const encodings = { utf8: "utf8", "utf-8": "utf8", hex: "hex", base64: "base64", base64url: "base64url", latin1: "latin1", binary: "latin1", ascii: "ascii", ucs2: "utf16le", "ucs-2": "utf16le", utf16le: "utf16le", "utf-16le": "utf16le" };
const encodingOf = (name) => {
  const known = encodings[String(name ?? "utf8").toLowerCase()];
  if (known === undefined) throw coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${name}`);
  return known;
};
const asBuffer = (bytes) => Object.setPrototypeOf(bytes, Buffer.prototype);
const isBytes = (value) => value instanceof Uint8Array;

const native = { from: Buffer.from, toString: Buffer.prototype.toString, alloc: Buffer.alloc, write: Buffer.prototype.write };

// wide are the encodings that the engine lacks.
const wide = {
  latin1: { read: (bytes) => chars(bytes, 0xff), bytes: (text) => Array.from({ length: text.length }, (_, i) => text.charCodeAt(i) & 0xff) },
  ascii: { read: (bytes) => chars(bytes, 0x7f), bytes: (text) => wide.latin1.bytes(text) },
  utf16le: {
    read(bytes) {
      let out = "";
      for (let i = 0; i + 1 < bytes.length; i += 2) out += String.fromCharCode(bytes[i] | (bytes[i + 1] << 8));
      return out;
    },
    bytes: (text) => Array.from({ length: text.length * 2 }, (_, i) => (text.charCodeAt(i >> 1) >> (i % 2 ? 8 : 0)) & 0xff),
  },
};
function chars(bytes, mask) {
  let out = "";
  for (const byte of bytes) out += String.fromCharCode(byte & mask);
  return out;
}

// encode makes bytes of a text.
function encode(text, name) {
  const encoding = encodingOf(name);
  if (wide[encoding]) return asBuffer(Uint8Array.from(wide[encoding].bytes(text)));
  if (encoding === "hex") {
    const valid = /^(?:[0-9a-fA-F]{2})*/.exec(text)[0];
    return native.from(valid, "hex");
  }
  if (encoding === "base64" || encoding === "base64url") {
    const clean = text.replace(/=[^]*$/, "").replace(/[^A-Za-z0-9+/_-]/g, "").replaceAll("-", "+").replaceAll("_", "/");
    const whole = clean.length % 4 === 1 ? clean.slice(0, -1) : clean;
    return native.from(whole + "=".repeat((4 - (whole.length % 4)) % 4), "base64");
  }
  return native.from(text.toWellFormed(), "utf8");
}

const wantsBytes = (name, value, kinds = "an instance of Buffer or Uint8Array") =>
  coded(TypeError, "ERR_INVALID_ARG_TYPE", `The ${name} must be ${kinds}. Received ${received(value)}`);

function from(value, second, length) {
  if (typeof value === "string") return encode(value, second);
  if (typeof value === "object" && value !== null) {
    if (value instanceof ArrayBuffer) return asBuffer(new Uint8Array(value, second, length));
    if (ArrayBuffer.isView(value) || Array.isArray(value)) return asBuffer(new Uint8Array(value));
    const inner = value.valueOf?.();
    if (inner !== undefined && inner !== null && inner !== value) return from(inner, second, length);
    if (value.type === "Buffer" && Array.isArray(value.data)) return from(value.data);
    if (typeof value.length === "number") return asBuffer(Uint8Array.from(value));
    if (typeof value[Symbol.toPrimitive] === "function") return from(value[Symbol.toPrimitive]("string"), second);
  }
  throw wantsBytes("first argument", value, "of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object");
}

// needle makes bytes of what is looked for, a number or a text.
const needle = (value, encoding) => {
  if (typeof value === "number") return [value & 0xff];
  if (typeof value === "string") return encode(value, encoding);
  if (isBytes(value)) return value;
  throw wantsBytes('"value" argument', value, "one of type number or string or an instance of Buffer or Uint8Array");
};
function search(bytes, value, offset, encoding, last) {
  if (typeof offset === "string") [offset, encoding] = [undefined, offset];
  const wanted = needle(value, encoding);
  const end = bytes.length - wanted.length;
  let at = offset === undefined || Number.isNaN(Number(offset)) ? (last ? end : 0) : Math.trunc(Number(offset));
  if (at < 0) at += bytes.length;
  const fits = (i) => wanted.every((byte, j) => bytes[i + j] === byte);
  if (last) {
    for (let i = Math.min(at, end); i >= 0; i--) if (fits(i)) return i;
  } else {
    for (let i = Math.max(at, 0); i <= end; i++) if (fits(i)) return i;
  }
  return -1;
}

function compare(a, b) {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
  return Math.sign(a.length - b.length);
}

const swap = (width) =>
  function () {
    if (this.length % width !== 0) throw coded(RangeError, "ERR_INVALID_BUFFER_SIZE", `Buffer size must be a multiple of ${width * 8}-bits`);
    for (let i = 0; i < this.length; i += width) Uint8Array.prototype.reverse.call(this.subarray(i, i + width));
    return this;
  };

function sizeOf(size) {
  if (typeof size !== "number") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "size" argument must be of type number. Received ${received(size)}`);
  if (!(size >= 0 && size <= Number.MAX_SAFE_INTEGER)) {
    throw coded(RangeError, "ERR_OUT_OF_RANGE", `The value of "size" is out of range. It must be >= 0 && <= ${Number.MAX_SAFE_INTEGER}. Received ${size}`);
  }
  return size;
}

Object.defineProperty(Buffer, "name", { value: "Buffer" });
const bounded = Buffer.alloc; // asks for room first
const concatBounded = Buffer.concat;
define(Buffer, {
  from,
  of: (...items) => from(items),
  alloc(size, fill, encoding) {
    const made = bounded(sizeOf(size));
    return fill === undefined || fill === 0 || size === 0 ? made : made.fill(fill, encoding);
  },
  allocUnsafe: (size) => bounded(sizeOf(size)),
  allocUnsafeSlow: (size) => bounded(sizeOf(size)),
  byteLength(value, encoding) {
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return value.byteLength;
    if (typeof value !== "string") throw wantsBytes('"string" argument', value, "of type string or an instance of Buffer or ArrayBuffer");
    const known = encodings[String(encoding ?? "utf8").toLowerCase()] ?? "utf8";
    if (known === "base64" || known === "base64url") return Math.floor((value.replace(/={1,2}$/, "").length * 3) / 4);
    if (known === "hex") return value.length >>> 1;
    return encode(value, known).length;
  },
  isBuffer: (value) => value instanceof Buffer,
  isEncoding: (name) => typeof name === "string" && name !== "" && encodings[name.toLowerCase()] !== undefined,
  compare(a, b) {
    if (!isBytes(a)) throw wantsBytes('"buf1" argument', a);
    if (!isBytes(b)) throw wantsBytes('"buf2" argument', b);
    return compare(a, b);
  },
  concat(list, total) {
    if (!Array.isArray(list)) throw wantsBytes('"list" argument', list, "an instance of Array");
    list.forEach((item, i) => {
      if (!isBytes(item)) throw wantsBytes(`"list[${i}]" argument`, item);
    });
    const all = concatBounded(list);
    if (total === undefined) return all;
    const out = Buffer.alloc(total);
    out.set(all.subarray(0, total));
    return out;
  },
});
define(Buffer.prototype, {
  toString(encoding, start = 0, end = this.length) {
    const known = encodingOf(encoding);
    const part = start === 0 && end >= this.length ? this : this.subarray(Math.max(0, start), Math.max(0, end));
    if (wide[known]) return wide[known].read(part);
    if (known === "base64url") return native.toString.call(part, "base64").replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
    return native.toString.call(part, known);
  },
  toLocaleString(encoding) {
    return this.toString(encoding);
  },
  toJSON() {
    return { type: "Buffer", data: Array.from(this) };
  },
  subarray(start, end) {
    return asBuffer(Uint8Array.prototype.subarray.call(this, start, end));
  },
  slice(start, end) {
    return this.subarray(start, end);
  },
  equals(other) {
    if (!isBytes(other)) throw wantsBytes('"otherBuffer" argument', other);
    return compare(this, other) === 0;
  },
  compare(other, start = 0, end = other?.length, from_ = 0, to = this.length) {
    if (!isBytes(other)) throw wantsBytes('"target" argument', other);
    return compare(this.subarray(from_, to), Uint8Array.prototype.subarray.call(other, start, end));
  },
  indexOf(value, offset, encoding) {
    return search(this, value, offset, encoding, false);
  },
  lastIndexOf(value, offset, encoding) {
    return search(this, value, offset, encoding, true);
  },
  includes(value, offset, encoding) {
    return search(this, value, offset, encoding, false) >= 0;
  },
  copy(target, at = 0, start = 0, end = this.length) {
    const part = this.subarray(start, Math.min(end, start + target.length - at));
    target.set(part, at);
    return part.length;
  },
  write(text, offset, length, encoding) {
    if (typeof offset === "string") [offset, encoding] = [undefined, offset];
    else if (typeof length === "string") [length, encoding] = [undefined, length];
    const at = offset ?? 0;
    const room = Math.min(length ?? Infinity, this.length - at);
    let bytes = encode(text, encoding);
    if (bytes.length > room) {
      let end = room;
      if (encodingOf(encoding) === "utf8") while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--; // no half character
      bytes = bytes.subarray(0, end);
    }
    this.set(bytes, at);
    return bytes.length;
  },
  fill(value, offset, end, encoding) {
    if (typeof offset === "string") [offset, encoding] = [undefined, offset];
    else if (typeof end === "string") [end, encoding] = [undefined, end];
    const bytes = needle(value, encoding);
    if (bytes.length === 0) {
      if (value !== "") throw coded(TypeError, "ERR_INVALID_ARG_VALUE", `The argument 'value' is invalid. Received ${require("util").inspect(value)}`);
      return Uint8Array.prototype.fill.call(this, 0, offset, end);
    }
    const from_ = offset ?? 0;
    for (let i = from_; i < (end ?? this.length); i++) this[i] = bytes[(i - from_) % bytes.length];
    return this;
  },
  swap16: swap(2),
  swap32: swap(4),
  swap64: swap(8),
});

// The methods of typed arrays return a Buffer.
for (const name of ["map", "filter"]) {
  define(Buffer.prototype, {
    [name](...args) {
      return asBuffer(Reflect.apply(Uint8Array.prototype[name], Uint8Array.from(this), args));
    },
  });
}

const invalidCharacter = () => new DOMException("Invalid character", "InvalidCharacterError");
module.exports = {
  Buffer,
  constants: { MAX_LENGTH: Number.MAX_SAFE_INTEGER, MAX_STRING_LENGTH: 536870888 },
  kMaxLength: Number.MAX_SAFE_INTEGER,
  btoa(text) {
    if (/[^\0-\xff]/.test(String(text))) throw invalidCharacter();
    return Buffer.from(String(text), "latin1").toString("base64");
  },
  atob(text) {
    const clean = String(text).replace(/[\t\n\f\r ]/g, "");
    if (!/^[A-Za-z0-9+/]*={0,2}$/.test(clean) || clean.replace(/=+$/, "").length % 4 === 1) {
      throw new DOMException("Invalid character", "InvalidCharacterError");
    }
    return Buffer.from(clean, "base64").toString("latin1");
  },
};
