// node:url: the engine has URL; conversions between URLs and paths are here.
"use strict";
const { URL: Native, URLSearchParams } = host.lazyNode("url");
const path = require("path");

// URL is the engine's, but for what is relative to a file: it loses the directory.
function URL(input, base) {
  if (!new.target) throw new TypeError("Class constructor URL cannot be invoked without 'new'");
  if (base === undefined) return new Native(input);
  const text = String(input);
  const from = new Native(String(base));
  if (from.protocol !== "file:" || /^[a-z][a-z0-9+.-]*:/i.test(text) || text.startsWith("//")) return new Native(text, String(base));
  const [, name, rest] = /^([^?#]*)(.*)$/s.exec(text);
  const whole = name.startsWith("/") ? name : name === "" ? from.pathname : from.pathname.replace(/[^/]*$/, "") + name;
  let resolved = path.normalize(whole);
  if (/(^|\/)\.{1,2}$/.test(name) && !resolved.endsWith("/")) resolved += "/";
  return new Native("file://" + resolved + rest);
}
URL.prototype = Native.prototype;
URL.canParse = (...args) => {
  try {
    return Boolean(new URL(...args));
  } catch {
    return false;
  }
};

function fileURLToPath(url) {
  const parsed = typeof url === "string" ? new URL(url) : url;
  if (parsed.protocol !== "file:") {
    throw Object.assign(new TypeError("The URL must be of scheme file"), { code: "ERR_INVALID_URL_SCHEME" });
  }
  if (parsed.hostname !== "" && parsed.hostname !== "localhost") {
    throw Object.assign(new TypeError('File URL host must be "localhost" or empty on ' + host.platform), {
      code: "ERR_INVALID_FILE_URL_HOST",
    });
  }
  if (/%2f/i.test(parsed.pathname)) {
    throw Object.assign(new TypeError("File URL path must not include encoded / characters"), { code: "ERR_INVALID_FILE_URL_PATH" });
  }
  return decodeURIComponent(parsed.pathname);
}

function pathToFileURL(name) {
  let absolute = path.resolve(name);
  if (name.endsWith("/") && absolute !== "/") absolute += "/";
  return new URL("file://" + encodeURI(absolute).replace(/[?#]/g, encodeURIComponent));
}

module.exports = { URL, URLSearchParams, fileURLToPath, pathToFileURL };
