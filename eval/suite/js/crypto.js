// node:crypto: hashes and random values, by Go.
"use strict";
const { Buffer } = require("buffer");
const { received } = require("util");
const { lacking } = require("lacking");

const bytesOf = (data, encoding) => (typeof data === "string" ? Buffer.from(data, encoding) : Buffer.from(data.buffer ?? data, data.byteOffset ?? 0, data.byteLength));
const encoded = (bytes, encoding) => (encoding === undefined || encoding === "buffer" ? bytes : bytes.toString(encoding));

// A Hash is an object whose digest is made of all its data at once.
class Hash {
  #algorithm;
  #key;
  #data = [];
  #done = false;
  constructor(algorithm, key) {
    this.#algorithm = String(algorithm).toLowerCase().replace(/^sha-/, "sha");
    this.#key = key;
    if (!host.hashes().includes(this.#algorithm)) {
      if (key !== undefined) throw Object.assign(new TypeError(`Invalid digest: ${algorithm}`), { code: "ERR_CRYPTO_INVALID_DIGEST" });
      throw new Error("Digest method not supported");
    }
  }
  update(data, encoding) {
    if (this.#done) throw Object.assign(new Error("Digest already called"), { code: "ERR_CRYPTO_HASH_FINALIZED" });
    if (typeof data !== "string" && !ArrayBuffer.isView(data)) {
      const text = `The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${received(data)}`;
      throw Object.assign(new TypeError(text), { code: "ERR_INVALID_ARG_TYPE" });
    }
    this.#data.push(bytesOf(data, encoding));
    return this;
  }
  digest(encoding) {
    if (this.#done) throw Object.assign(new Error("Digest already called"), { code: "ERR_CRYPTO_HASH_FINALIZED" });
    this.#done = true;
    const all = Buffer.concat(this.#data);
    return encoded(Buffer.from(host.digest(this.#algorithm, all.toString("base64"), this.#key?.toString("base64") ?? null), "base64"), encoding);
  }
  copy() {
    const made = new Hash(this.#algorithm, this.#key);
    made.#data = [...this.#data];
    return made;
  }
}

const randomBytes = (size) => Buffer.from(host.randomBytes(size), "base64");

function getRandomValues(array) {
  const into = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  into.set(randomBytes(into.length));
  return array;
}

function randomUUID() {
  const bytes = randomBytes(16);
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

function randomInt(min, max) {
  if (max === undefined) [min, max] = [0, min];
  if (!Number.isSafeInteger(min) || !Number.isSafeInteger(max) || max <= min) {
    throw Object.assign(new RangeError(`The value of "max" is out of range. It must be greater than the value of "min" (${min}). Received ${max}`), { code: "ERR_OUT_OF_RANGE" });
  }
  const range = BigInt(max - min);
  return min + Number(BigInt("0x" + randomBytes(16).toString("hex")) % range);
}

const subtle = {
  async digest(algorithm, data) {
    const made = new Hash(algorithm?.name ?? algorithm).update(bytesOf(data)).digest();
    return made.buffer.slice(made.byteOffset, made.byteOffset + made.byteLength);
  },
};

const webcrypto = { getRandomValues, randomUUID, subtle };
module.exports = {
  createHash: (algorithm) => new Hash(algorithm),
  createHmac: (algorithm, key) => new Hash(algorithm, bytesOf(key)),
  hash: (algorithm, data, encoding = "hex") => encoded(new Hash(algorithm).update(data).digest(), encoding),
  getHashes: () => Array.from(host.hashes()),
  randomBytes,
  randomInt,
  randomUUID,
  getRandomValues,
  timingSafeEqual: (a, b) => {
    if (a.byteLength !== b.byteLength) {
      throw Object.assign(new RangeError("Input buffers must have the same byte length"), { code: "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH" });
    }
    return bytesOf(a).equals(bytesOf(b));
  },
  webcrypto,
};
for (const name of ["createCipheriv", "createDecipheriv", "createSign", "createVerify", "generateKeyPairSync", "pbkdf2Sync", "scryptSync", "sign", "verify"]) {
  module.exports[name] = lacking(`crypto.${name}`);
}
for (const name of ["encrypt", "decrypt", "sign", "verify", "generateKey", "importKey", "deriveKey"]) subtle[name] = lacking(`crypto.subtle.${name}`);
