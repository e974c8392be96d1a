// node:path, of POSIX.
"use strict";
const { received } = require("util");
const { lacking } = require("lacking");

const refused = (value, name, type) =>
  Object.assign(new TypeError(`The "${name}" argument must be of type ${type}. Received ${received(value)}`), { code: "ERR_INVALID_ARG_TYPE" });
const text = (value, name) => {
  if (typeof value !== "string") throw refused(value, name, "string");
  return value;
};

// squeeze resolves "." and ".." in the parts of a path.
function squeeze(path, absolute) {
  const out = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") out.push(part);
    else if (out.length > 0 && out[out.length - 1] !== "..") out.pop();
    else if (!absolute) out.push("..");
  }
  return out.join("/");
}

function normalize(path) {
  if (text(path, "path") === "") return ".";
  const absolute = path.startsWith("/");
  let out = squeeze(path, absolute);
  if (out === "" && !absolute) out = ".";
  if (out !== "" && path.endsWith("/")) out += "/";
  return absolute ? "/" + out : out;
}

function resolve(...parts) {
  let path = "";
  for (let i = parts.length - 1; i >= 0 && !path.startsWith("/"); i--) {
    if (text(parts[i], `paths[${i}]`) !== "") path = path === "" ? parts[i] : `${parts[i]}/${path}`;
  }
  if (!path.startsWith("/")) path = `${host.cwd}/${path}`;
  return "/" + squeeze(path, true);
}

function join(...parts) {
  const path = parts.filter((p) => text(p, "path") !== "").join("/");
  return path === "" ? "." : normalize(path);
}

function relative(from, to) {
  text(from, "from");
  text(to, "to");
  const a = resolve(from).split("/").filter(Boolean);
  const b = resolve(to).split("/").filter(Boolean);
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  return [...a.slice(same).map(() => ".."), ...b.slice(same)].join("/");
}

const trimmed = (path) => (path.length > 1 ? path.replace(/\/+$/, "") || "/" : path);

function dirname(path) {
  const p = trimmed(text(path, "path"));
  const i = p.lastIndexOf("/");
  if (i < 0) return ".";
  return i === 0 ? "/" : i === 1 && p.startsWith("//") ? "//" : p.slice(0, i);
}

function basename(path, suffix) {
  if (suffix !== undefined) text(suffix, "suffix");
  const p = trimmed(text(path, "path"));
  const base = p === "/" ? "" : p.slice(p.lastIndexOf("/") + 1);
  if (!suffix || !base.endsWith(suffix)) return base;
  // The whole name is cut off only where the path is nothing else.
  return base === suffix && p !== suffix ? base : base.slice(0, -suffix.length);
}

function extname(path) {
  const base = basename(path);
  const i = base.lastIndexOf(".");
  return i <= 0 || base === ".." ? "" : base.slice(i);
}

function parse(path) {
  const root = text(path, "path").startsWith("/") ? "/" : "";
  const base = basename(path);
  const ext = extname(path);
  const dir = dirname(path) === "//" ? "/" : dirname(path);
  return { root, dir: dir === "." && !/^\.\/+[^/]/.test(path) ? "" : dir, base, ext, name: ext ? base.slice(0, -ext.length) : base };
}

function format(parts) {
  if (typeof parts !== "object" || parts === null) throw refused(parts, "pathObject", "object");
  const dir = parts.dir || parts.root || "";
  const ext = parts.ext ? (parts.ext.startsWith(".") ? parts.ext : "." + parts.ext) : "";
  const base = parts.base || `${parts.name ?? ""}${ext}`;
  return dir === "" ? base : dir === parts.root ? `${dir}${base}` : `${dir}/${base}`;
}

const path = {
  sep: "/",
  delimiter: ":",
  normalize,
  resolve,
  join,
  relative,
  dirname,
  basename,
  extname,
  parse,
  format,
  isAbsolute: (p) => text(p, "path").startsWith("/"),
  toNamespacedPath: (p) => p,
  matchesGlob: lacking("path.matchesGlob"),
};
path.win32 = Object.fromEntries(["basename", "dirname", "extname", "format", "isAbsolute", "join", "normalize", "parse", "relative", "resolve"].map((name) => [name, lacking(`path.win32.${name}`)]));
path.posix = path;
module.exports = path;
