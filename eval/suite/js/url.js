// node:url: URL itself is the engine's; the ways between URLs and paths are ours.
"use strict";
const { URL, URLSearchParams } = host.lazyNode("url");
const path = require("path");

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
