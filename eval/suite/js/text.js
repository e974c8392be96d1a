// TextEncoder and TextDecoder, of UTF-8.
"use strict";
const { Buffer } = require("buffer");
const { lack } = require("lacking");
class TextEncoder {
  get encoding() {
    return "utf-8";
  }
  encode(text = "") {
    return new Uint8Array(Buffer.from(String(text), "utf8"));
  }
  encodeInto(text, into) {
    let read = 0;
    let written = 0;
    for (const c of String(text)) {
      const bytes = Buffer.from(c, "utf8");
      if (written + bytes.length > into.length) break;
      into.set(bytes, written);
      written += bytes.length;
      read += c.length;
    }
    return { read, written };
  }
}
class TextDecoder {
  #fatal;
  #keepMark;
  #encoding;
  constructor(encoding = "utf-8", options = {}) {
    const name = String(encoding).trim().toLowerCase();
    if (!/^(utf-?8|unicode-1-1-utf-8|utf-?16(le)?)$/.test(name)) {
      throw lack(`The encoding ${encoding} of TextDecoder`);
    }
    this.#encoding = name.includes("16") ? "utf-16le" : "utf-8";
    this.#fatal = Boolean(options.fatal);
    this.#keepMark = Boolean(options.ignoreBOM);
  }
  get encoding() {
    return this.#encoding;
  }
  get fatal() {
    return this.#fatal;
  }
  get ignoreBOM() {
    return this.#keepMark;
  }
  decode(bytes, options) {
    if (options?.stream) throw lack("The option stream of TextDecoder");
    if (bytes === undefined) return "";
    const data = Buffer.from(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength);
    const text = data.toString(this.#encoding === "utf-8" ? "utf8" : "utf16le");
    if (this.#fatal && this.#encoding === "utf-8" && !Buffer.from(text, "utf8").equals(data)) {
      throw Object.assign(new TypeError("The encoded data was not valid for encoding utf-8"), { code: "ERR_ENCODING_INVALID_ENCODED_DATA" });
    }
    return this.#keepMark ? text : text.replace(/^\ufeff/, "");
  }
}
module.exports = { TextEncoder, TextDecoder };
