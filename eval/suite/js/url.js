// node:url. A library in Go parses; this is the interface of the standard.
"use strict";
const path = require("path");
const { lack, lacking } = require("lacking");
const custom = Symbol.for("nodejs.util.inspect.custom");

const coded = (Kind, code, message, more) => Object.assign(new Kind(message), { code, ...more });
const text = (value) => String(value).toWellFormed();
const encode = (value) =>
  encodeURIComponent(text(value)).replace(/[!'()~]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase()).replaceAll("%20", "+");

// decode reads percent-encoded UTF-8, in which invalid bytes are replaced.
function decode(value) {
  const plain = value.replaceAll("+", " ");
  if (!plain.includes("%")) return plain;
  try {
    return decodeURIComponent(plain);
  } catch {
    const bytes = Buffer.from(plain.replace(/%(?![0-9a-fA-F]{2})/g, "%25"), "utf8").toString("latin1");
    return Buffer.from(bytes.replace(/%([0-9a-fA-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))), "latin1").toString("utf8");
  }
}

const parsePairs = (query) =>
  query
    .split("&")
    .filter((part) => part !== "")
    .map((part) => {
      const at = part.indexOf("=");
      return at < 0 ? [decode(part), ""] : [decode(part.slice(0, at)), decode(part.slice(at + 1))];
    });

function pairsOf(init) {
  if (init === undefined) return [];
  if (init === null) return [["null", ""]];
  if (typeof init !== "object" && typeof init !== "function") return parsePairs(text(init).replace(/^\?/, ""));
  if (init[Symbol.iterator] === undefined) return Reflect.ownKeys(init).map((key) => [text(key), text(init[key])]);
  if (typeof init[Symbol.iterator] !== "function") throw coded(TypeError, "ERR_ARG_NOT_ITERABLE", "Query pairs must be iterable");
  return Array.from(init, (pair) => {
    if (pair === null || typeof pair !== "object" || typeof pair[Symbol.iterator] !== "function") {
      throw coded(TypeError, "ERR_INVALID_TUPLE", "Each query pair must be an iterable [name, value] tuple");
    }
    const items = Array.from(pair, text);
    if (items.length !== 2) throw coded(TypeError, "ERR_INVALID_TUPLE", "Each query pair must be an iterable [name, value] tuple");
    return items;
  });
}

const need = (args, ...names) => {
  if (args.length >= names.length) return;
  const list = names.map((name) => `"${name}"`).join(" and ");
  throw coded(TypeError, "ERR_MISSING_ARGS", `The ${list} argument${names.length > 1 ? "s" : ""} must be specified`);
};

let join; // sets the URL to which parameters belong

class URLSearchParams {
  #pairs;
  #url;
  constructor(init) {
    this.#pairs = pairsOf(init);
  }
  static {
    join = (params, url, query) => {
      params.#url = url;
      params.#pairs = parsePairs(query);
    };
  }
  #changed() {
    this.#url?.(this.toString());
  }
  get size() {
    return this.#pairs.length;
  }
  append(name, value) {
    need(arguments, "name", "value");
    this.#pairs.push([text(name), text(value)]);
    this.#changed();
  }
  delete(name, value) {
    need(arguments, "name");
    this.#pairs = this.#pairs.filter(([n, v]) => n !== text(name) || (value !== undefined && v !== text(value)));
    this.#changed();
  }
  get(name) {
    need(arguments, "name");
    return this.#pairs.find(([n]) => n === text(name))?.[1] ?? null;
  }
  getAll(name) {
    need(arguments, "name");
    return this.#pairs.filter(([n]) => n === text(name)).map(([, v]) => v);
  }
  has(name, value) {
    need(arguments, "name");
    return this.#pairs.some(([n, v]) => n === text(name) && (value === undefined || v === text(value)));
  }
  set(name, value) {
    need(arguments, "name", "value");
    const first = this.#pairs.findIndex(([n]) => n === text(name));
    if (first < 0) this.#pairs.push([text(name), text(value)]);
    else {
      this.#pairs[first][1] = text(value);
      this.#pairs = this.#pairs.filter(([n], i) => i <= first || n !== text(name));
    }
    this.#changed();
  }
  sort() {
    this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#changed();
  }
  forEach(fn, self) {
    for (const [name, value] of this) Reflect.apply(fn, self, [value, name, this]);
  }
  *entries() {
    for (let i = 0; i < this.#pairs.length; i++) yield [...this.#pairs[i]];
  }
  *keys() {
    for (const [name] of this.entries()) yield name;
  }
  *values() {
    for (const [, value] of this.entries()) yield value;
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  toString() {
    return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&");
  }
  get [Symbol.toStringTag]() {
    return "URLSearchParams";
  }
  [custom](depth, options, inspect) {
    if (this.#pairs.length === 0) return "URLSearchParams {}";
    return `URLSearchParams { ${this.#pairs.map(([n, v]) => `${inspect(n, options)} => ${inspect(v, options)}`).join(", ")} }`;
  }
}

const special = ["http:", "https:", "ftp:", "ws:", "wss:"];
const invalid = (input, base) => coded(TypeError, "ERR_INVALID_URL", "Invalid URL", { input, ...(base === undefined ? {} : { base }) });

class URL {
  #parts;
  #params;
  constructor(input, base) {
    if (arguments.length === 0) need(arguments, "url");
    const from = base === undefined ? undefined : text(base);
    this.#parts = host.parseURL(text(input), from);
    if (this.#parts === undefined) throw invalid(text(input), from);
  }
  static canParse(input, base) {
    need(arguments, "url");
    return host.parseURL(text(input), base === undefined ? undefined : text(base)) !== undefined;
  }
  static parse(input, base) {
    return URL.canParse(input, base) ? new URL(input, base) : null;
  }
  // Most parts are read and set alike.
  static {
    for (const part of ["protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"]) {
      Object.defineProperty(URL.prototype, part, {
        enumerable: true,
        configurable: true,
        get() {
          return this.#parts[part];
        },
        set(value) {
          this.#parts = host.setURLPart(this.#parts.href, part, text(value)) ?? this.#parts;
          if (this.#params && part === "search") this.#link();
        },
      });
    }
  }
  #link() {
    join(this.#params, (query) => (this.#parts = host.setURLPart(this.#parts.href, "search", query)), this.#parts.search.slice(1));
  }
  get href() {
    return this.#parts.href;
  }
  set href(value) {
    const parts = host.parseURL(text(value), undefined);
    if (parts === undefined) throw invalid(text(value));
    this.#parts = parts;
    if (this.#params) this.#link();
  }
  set origin(_) {
    throw new TypeError("Cannot set property origin of [object URL] which has only a getter");
  }
  get origin() {
    if (special.includes(this.#parts.protocol)) return `${this.#parts.protocol}//${this.#parts.host}`;
    if (this.#parts.protocol !== "blob:") return "null";
    const inner = host.parseURL(this.#parts.pathname, undefined);
    return inner !== undefined && /^https?:$/.test(inner.protocol) ? `${inner.protocol}//${inner.host}` : "null";
  }
  get searchParams() {
    if (!this.#params) {
      this.#params = new URLSearchParams();
      this.#link();
    }
    return this.#params;
  }
  toString() {
    return this.#parts.href;
  }
  toJSON() {
    return this.#parts.href;
  }
  get [Symbol.toStringTag]() {
    return "URL";
  }
  [custom](depth, options, inspect) {
    const { origin, searchParams } = this;
    const { href, hash, search, ...parts } = this.#parts;
    const { protocol, username, password, host, hostname, port, pathname } = parts;
    const shown = { href, origin, protocol, username, password, host, hostname, port, pathname, search, searchParams, hash };
    return `URL ${inspect(shown, options)}`;
  }
}
for (const name of ["href", "origin", "searchParams", "toString", "toJSON"]) Object.defineProperty(URL.prototype, name, { enumerable: true });

function fileURLToPath(url) {
  const parsed = typeof url === "string" ? new URL(url) : url;
  if (typeof parsed?.href !== "string") {
    throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "path" argument must be of type string or an instance of URL. Received ${require("util").received(url)}`);
  }
  if (parsed.protocol !== "file:") throw coded(TypeError, "ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
  if (parsed.hostname !== "") throw coded(TypeError, "ERR_INVALID_FILE_URL_HOST", `File URL host must be "localhost" or empty on ${host.platform}`);
  if (/%2f/i.test(parsed.pathname)) throw coded(TypeError, "ERR_INVALID_FILE_URL_PATH", "File URL path must not include encoded / characters", { input: parsed });
  return decodeURIComponent(parsed.pathname);
}

function pathToFileURL(name) {
  let absolute = path.resolve(name);
  if (name.endsWith("/") && absolute !== "/") absolute += "/";
  const escape = (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0");
  return new URL("file://" + absolute.replace(/[%\\\n\r\t?#[\]^|~]/g, escape));
}

// format writes a URL without some of its parts.
function format(url, { auth = true, fragment = true, search = true, unicode = false } = {}) {
  if (!(url instanceof URL)) throw lack("url.format of what is not a URL");
  if (unicode) throw lack("The option unicode of url.format");
  const copy = new URL(url);
  if (!auth) copy.username = copy.password = "";
  if (!fragment) copy.hash = "";
  if (!search) copy.search = "";
  return copy.href;
}

// urlToHttpOptions is what http.request takes.
function urlToHttpOptions(url) {
  const { hostname, hash, search, pathname, href, port, username, password, protocol } = url;
  const options = { __proto__: null, protocol, hostname: hostname.replace(/^\[(.*)\]$/, "$1"), hash, search, pathname, path: pathname + search, href };
  if (port !== "") options.port = Number(port);
  if (username || password) options.auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return options;
}

const legacy = Object.fromEntries(["parse", "resolve", "domainToUnicode"].map((name) => [name, lacking(`url.${name}`)]));
const domainToASCII = (domain) => host.parseURL(`ws://${domain}`, undefined)?.hostname ?? "";
module.exports = { URL, URLSearchParams, domainToASCII, fileURLToPath, format, pathToFileURL, urlToHttpOptions, ...legacy };
