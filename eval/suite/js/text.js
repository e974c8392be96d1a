// TextEncoder and TextDecoder, of UTF-8.
"use strict";
const { Buffer } = host.lazyNode("buffer");
class TextEncoder {
  get encoding() {
    return "utf-8";
  }
  encode(text = "") {
    return new Uint8Array(Buffer.from(String(text), "utf8"));
  }
}
class TextDecoder {
  constructor(encoding = "utf-8") {
    if (!/^utf-?8$/i.test(encoding)) throw new RangeError(`The "${encoding}" encoding is not supported`);
  }
  get encoding() {
    return "utf-8";
  }
  decode(bytes) {
    if (bytes === undefined) return "";
    return Buffer.from(bytes.buffer ? bytes : new Uint8Array(bytes)).toString("utf8");
  }
}
module.exports = { TextEncoder, TextDecoder };
