// node:fs, for the files of the suite, of its run and of workspaces: every path goes through Croft.
// Functions that are not here are Node's own.
"use strict";
const { randomBytes } = require("node:crypto");
const node = require("node:fs");
const { dirname, resolve } = require("node:path");
const { fileURLToPath } = require("node:url");

// name is the text of a path. Node refuses what is no path.
function name(path) {
  if (typeof path === "string") return path;
  if (path instanceof URL) return fileURLToPath(path);
  return Buffer.isBuffer(path) ? String(path) : node.lstatSync(path);
}

// renamed names the system call of an error as Node does.
function renamed(syscall, call, message) {
  try {
    return call();
  } catch (error) {
    if (typeof error.syscall === "string") {
      error.message = message?.(error) ?? error.message.replace(`, ${error.syscall} '`, `, ${syscall} '`);
      error.syscall = syscall;
    }
    throw error;
  }
}

const failed = (code, text, syscall, path) => Object.assign(new Error(`${code}: ${text}, ${syscall} '${path}'`), { code, syscall, path });
const pair = (syscall, from, to) => (error) => `${error.message.split(",")[0]}, ${syscall} '${name(from)}' -> '${name(to)}'`;
const optionsOf = (options) => (typeof options === "string" ? { encoding: options } : (options ?? {}));

const types = {
  file: [node.constants.S_IFREG, node.constants.UV_DIRENT_FILE],
  dir: [node.constants.S_IFDIR, node.constants.UV_DIRENT_DIR],
  symlink: [node.constants.S_IFLNK, node.constants.UV_DIRENT_LINK],
};
function statsOf({ kind, size, mode, mtimeMs }) {
  const values = { size, mode: mode | types[kind][0], mtimeMs, mtime: new Date(mtimeMs) };
  const property = (value) => ({ value, enumerable: true, writable: true, configurable: true });
  return Object.create(node.Stats.prototype, Object.fromEntries(Object.entries(values).map(([key, value]) => [key, property(value)])));
}

function readFileSync(path, options) {
  if (typeof path === "number") return node.readFileSync(path, options);
  const { encoding } = optionsOf(options);
  const isDirectory = (error) => (error.code === "EISDIR" ? "EISDIR: illegal operation on a directory, read" : undefined);
  const bytes = renamed("open", () => Buffer.from(host.fs("open", name(path), null, {})), isDirectory);
  return encoding === undefined || encoding === null || encoding === "buffer" ? bytes : bytes.toString(encoding);
}

function writeFileSync(path, data, options) {
  if (typeof path === "number") return node.writeFileSync(path, data, options);
  const { encoding, flag = "w", mode = 0o666 } = optionsOf(options);
  const how = { append: flag.startsWith("a"), exclusive: flag.includes("x"), mode: typeof mode === "string" ? parseInt(mode, 8) : mode };
  const bytes = typeof data === "string" && encoding ? Buffer.from(data, encoding) : data;
  if (typeof bytes !== "string" && !ArrayBuffer.isView(bytes)) Buffer.from(bytes); // which refuses what is no data
  renamed("open", () => host.fs("write", name(path), bytes, how));
}

function statSync(path, options) {
  try {
    return statsOf(host.fs("stat", name(path), null, {}));
  } catch (error) {
    if (options?.throwIfNoEntry === false && error.code === "ENOENT") return undefined;
    throw error;
  }
}

function mkdirSync(path, options) {
  const { recursive = false } = typeof options === "object" && options !== null ? options : {};
  let made;
  if (recursive) {
    for (let dir = resolve(name(path)); dir !== "/" && !existsSafe(dir); dir = dirname(dir)) made = dir;
  }
  host.fs("mkdir", name(path), null, { recursive });
  return made;
}

// existsSafe takes what is outside for a directory that is there.
function existsSafe(path) {
  try {
    return existsSync(path);
  } catch {
    return true;
  }
}

function existsSync(path) {
  if (path === undefined || path === null) return false;
  try {
    host.fs("stat", name(path), null, {});
    return true;
  } catch (error) {
    if (error.code === "E_SANDBOX_VIOLATION") throw error; // false would be a guess
    return false;
  }
}

function readdirSync(path, options) {
  const { withFileTypes = false, recursive = false } = optionsOf(options);
  const out = [];
  const walk = (dir, prefix) => {
    for (const info of host.fs("scandir", dir, null, {})) {
      out.push(withFileTypes ? new node.Dirent(info.name, types[info.kind][1], dir) : prefix + info.name);
      if (recursive && info.kind === "dir") walk(`${dir}/${info.name}`, `${prefix}${info.name}/`);
    }
  };
  walk(name(path), "");
  return out;
}

function rmSync(path, options) {
  const { recursive = false, force = false } = options ?? {};
  renamed("lstat", () => {
    if (force && !existsSync(path)) return;
    if (!recursive && host.fs("lstat", name(path), null, {}).kind === "dir") {
      const text = `Path is a directory: rm returned EISDIR (is a directory) ${name(path)}`;
      throw Object.assign(new Error(text), { code: "ERR_FS_EISDIR", name: "SystemError" });
    }
    host.fs("rm", name(path), null, { recursive, force });
  });
}

function cpSync(from, to, options) {
  if (!statSync(from).isDirectory()) return fs.copyFileSync(from, to, options?.errorOnExist ? 1 : 0);
  if (!options?.recursive) {
    throw Object.assign(new Error(`Recursive option not enabled, cannot copy a directory: ${name(from)}`), { code: "ERR_FS_EISDIR" });
  }
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from)) cpSync(`${name(from)}/${entry}`, `${name(to)}/${entry}`, options);
}

function mkdtempSync(prefix) {
  const path = `${prefix}${randomBytes(6).toString("hex")}`;
  mkdirSync(path);
  return path;
}

const fs = {
  readFileSync,
  writeFileSync,
  appendFileSync: (path, data, options) => writeFileSync(path, data, { ...optionsOf(options), flag: "a" }),
  existsSync,
  accessSync: (path) => void host.fs("access", name(path), null, {}),
  statSync,
  lstatSync: (path) => statsOf(host.fs("lstat", name(path), null, {})),
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  rmdirSync(path, options) {
    const notEmpty = !options?.recursive && statSync(path, { throwIfNoEntry: false })?.isDirectory() && readdirSync(path).length > 0;
    if (notEmpty) throw failed("ENOTEMPTY", "directory not empty", "rmdir", name(path));
    renamed("rmdir", () => host.fs("rm", name(path), null, { recursive: options?.recursive ?? false }));
  },
  unlinkSync(path) {
    renamed("unlink", () => {
      if (host.fs("lstat", name(path), null, {}).kind === "dir") throw failed("EISDIR", "illegal operation on a directory", "unlink", name(path));
      host.fs("rm", name(path), null, {});
    });
  },
  copyFileSync(from, to, mode) {
    renamed("copyfile", () => writeFileSync(to, readFileSync(from), { flag: mode & 1 ? "wx" : "w" }), pair("copyfile", from, to));
  },
  renameSync(from, to) {
    renamed("rename", () => {
      if (host.fs("rename", name(from), name(to), {})) return;
      // From one of the suite's directories to another.
      if (host.fs("lstat", name(from), null, {}).kind !== "file") throw failed("EXDEV", "cross-device link not permitted", "rename", name(from));
      writeFileSync(to, readFileSync(from));
      host.fs("rm", name(from), null, {});
    }, pair("rename", from, to));
  },
  truncateSync: (path, length = 0) => writeFileSync(path, Buffer.concat([readFileSync(path)], length)),
  cpSync,
};

// The same with a callback, and as promises.
const promises = {};
for (const [key, call] of Object.entries({ ...fs })) {
  const later = key.slice(0, -"Sync".length);
  if (later === "exists") {
    fs.exists = (path, done) => void Promise.resolve().then(() => done(call(path)));
    continue;
  }
  promises[later] = async (...args) => call(...args);
  fs[later] = (...args) => {
    const done = args.pop();
    promises[later](...args).then((value) => done(null, value), done);
  };
}
fs.promises = { ...node.promises, ...promises };
module.exports = fs;
