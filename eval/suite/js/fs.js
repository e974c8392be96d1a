// node:fs, for the files of the suite and of its run. Every path goes through the
// boundary of Go.
"use strict";
const { inspect, received } = require("util");
const { lacking } = require("lacking");
const name = (path) => {
  if (typeof path === "string") return path;
  if (path instanceof URL || path?.protocol === "file:") return require("url").fileURLToPath(path);
  if (path && typeof path === "object" && "byteLength" in path) return String(path);
  const text = `The "path" argument must be of type string or an instance of Buffer or URL. Received ${received(path)}`;
  throw Object.assign(new TypeError(text), { code: "ERR_INVALID_ARG_TYPE" });
};

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

const optionsOf = (options) => (typeof options === "string" ? { encoding: options } : (options ?? {}));

class Stats {
  constructor(info) {
    this.kind = info.kind;
    this.size = info.size;
    this.mode = info.mode | { dir: 0o040000, file: 0o100000, symlink: 0o120000 }[info.kind];
    this.mtimeMs = info.mtimeMs;
    this.mtime = new Date(info.mtimeMs);
    Object.defineProperty(this, "kind", { enumerable: false });
  }
  isFile() {
    return this.kind === "file";
  }
  isDirectory() {
    return this.kind === "dir";
  }
  isSymbolicLink() {
    return this.kind === "symlink";
  }
}

class Dirent extends Stats {
  constructor(info, parent) {
    super(info);
    this.name = info.name;
    this.parentPath = this.path = parent;
  }
}

function readFileSync(path, options) {
  const { encoding } = optionsOf(options);
  if (typeof encoding === "string" && encoding !== "buffer" && !Buffer.isEncoding(encoding)) {
    throw Object.assign(new TypeError(`The argument 'encoding' is invalid encoding. Received ${inspect(encoding)}`), { code: "ERR_INVALID_ARG_VALUE" });
  }
  return renamed("open", () => readWhole(path, encoding), (error) => (error.code === "EISDIR" ? "EISDIR: illegal operation on a directory, read" : undefined));
}

function readWhole(path, encoding) {
  if (encoding === undefined || encoding === null || encoding === "buffer") return Buffer.from(host.fs("open", name(path), null, {}));
  if (/^utf-?8$/i.test(encoding)) return host.fs("open", name(path), null, { text: true });
  return Buffer.from(host.fs("open", name(path), null, {})).toString(encoding);
}

// bytes makes text or a buffer what Go can take.
function bytes(data, encoding) {
  if (typeof data === "string") return encoding && !/^utf-?8$/i.test(encoding) ? bytes(Buffer.from(data, encoding)) : data;
  if (data instanceof ArrayBuffer) return data;
  if (ArrayBuffer.isView(data)) return data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
  const text = `The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${received(data)}`;
  throw Object.assign(new TypeError(text), { code: "ERR_INVALID_ARG_TYPE" });
}

function writeFileSync(path, data, options) {
  const { encoding, flag = "w", mode = 0o666 } = optionsOf(options);
  const how = { append: flag.startsWith("a"), exclusive: flag.includes("x"), mode: typeof mode === "string" ? parseInt(mode, 8) : mode };
  renamed("open", () => host.fs("write", name(path), bytes(data, encoding), how));
}

function statSync(path, options) {
  try {
    return new Stats(host.fs("stat", name(path), null, {}));
  } catch (error) {
    if (options?.throwIfNoEntry === false && error.code === "ENOENT") return undefined;
    throw error;
  }
}

function mkdirSync(path, options) {
  const { recursive = false } = typeof options === "object" && options !== null ? options : {};
  let made;
  if (recursive) {
    for (let dir = require("path").resolve(name(path)); dir !== "/" && !existsSafe(dir); dir = require("path").dirname(dir)) made = dir;
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
      out.push(withFileTypes ? new Dirent(info, dir) : prefix + info.name);
      if (recursive && info.kind === "dir") walk(`${dir}/${info.name}`, `${prefix}${info.name}/`);
    }
  };
  walk(name(path), "");
  return out;
}

class SystemError extends Error {
  get name() {
    return "SystemError";
  }
}

function rmSync(path, options) {
  const { recursive = false, force = false } = options ?? {};
  renamed("lstat", () => {
    if (force && !existsSync(path)) return;
    if (!recursive && host.fs("lstat", name(path), null, {}).kind === "dir") {
      const text = `Path is a directory: rm returned EISDIR (is a directory) ${name(path)}`;
      throw Object.assign(new SystemError(text), { code: "ERR_FS_EISDIR" });
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

let made = 0;
function mkdtempSync(prefix) {
  for (;;) {
    const path = `${prefix}${(Date.now() % 46656).toString(36).padStart(3, "0")}${(++made).toString(36).padStart(3, "0")}`;
    try {
      mkdirSync(path);
      return path;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
  }
}

const fs = {
  readFileSync,
  writeFileSync,
  appendFileSync: (path, data, options) => writeFileSync(path, data, { ...optionsOf(options), flag: "a" }),
  existsSync,
  accessSync: (path) => void host.fs("access", name(path), null, {}),
  statSync,
  lstatSync: (path) => new Stats(host.fs("lstat", name(path), null, {})),
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
    const pair = (error) => `${error.message.split(",")[0]}, copyfile '${name(from)}' -> '${name(to)}'`;
    renamed("copyfile", () => writeFileSync(to, readFileSync(from), { flag: mode & 1 ? "wx" : "w" }), pair);
  },
  renameSync(from, to) {
    const pair = (error) => `${error.message.split(",")[0]}, rename '${name(from)}' -> '${name(to)}'`;
    renamed("rename", () => {
      if (host.fs("rename", name(from), name(to), {})) return;
      // From one of the suite's directories to another.
      if (host.fs("lstat", name(from), null, {}).kind !== "file") throw failed("EXDEV", "cross-device link not permitted", "rename", name(from));
      writeFileSync(to, readFileSync(from));
      host.fs("rm", name(from), null, {});
    }, pair);
  },
  truncateSync: (path, length = 0) => {
    const whole = readFileSync(path);
    writeFileSync(path, Buffer.concat([whole], length));
  },
  cpSync,
  constants: {
    ...{ F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, COPYFILE_EXCL: 1, COPYFILE_FICLONE: 2 },
    ...{ O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024 },
    ...{ S_IFMT: 0o170000, S_IFREG: 0o100000, S_IFDIR: 0o040000, S_IFLNK: 0o120000 },
  },
  Stats,
  Dirent,
};

// The same with a callback, and as promises.
const promises = { constants: fs.constants };
for (const key of Object.keys(fs)) {
  if (!key.endsWith("Sync")) continue;
  const call = fs[key];
  const async = key.slice(0, -4);
  promises[async] = async (...args) => call(...args);
  if (async === "exists") {
    fs.exists = (path, done) => void Promise.resolve().then(() => done(call(path)));
    delete promises.exists;
    continue;
  }
  fs[async] = (...args) => {
    const done = args.pop();
    promises[async](...args).then(
      (value) => done(null, value),
      (error) => done(error),
    );
  };
}
fs.promises = promises;

for (const key of ["chmod", "chown", "fsync", "link", "lutimes", "open", "opendir", "readlink", "readv", "realpath", "statfs", "symlink", "utimes", "glob"]) {
  for (const [object, member] of [[fs, `${key}Sync`], [fs, key], [promises, key]]) object[member] = lacking(`fs.${member}`);
}
for (const key of ["createReadStream", "createWriteStream", "watch", "watchFile"]) fs[key] = lacking(`fs.${key}`);
module.exports = fs;
