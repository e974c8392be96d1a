// node:fs, for the files of the suite and of its run. Every path goes through the
// boundary of Go.
"use strict";
const name = (path) => {
  if (typeof path === "string") return path;
  if (path instanceof URL || path?.protocol === "file:") return require("url").fileURLToPath(path);
  if (path && typeof path === "object" && "byteLength" in path) return String(path);
  throw Object.assign(new TypeError('The "path" argument must be of type string or an instance of Buffer or URL.'), {
    code: "ERR_INVALID_ARG_TYPE",
  });
};

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
  if (encoding === undefined || encoding === null || encoding === "buffer") return Buffer.from(host.fs("open", name(path), null, {}));
  if (/^utf-?8$/i.test(encoding)) return host.fs("open", name(path), null, { text: true });
  return Buffer.from(host.fs("open", name(path), null, {})).toString(encoding);
}

// bytes makes text or a buffer what Go can take.
function bytes(data, encoding) {
  if (typeof data === "string") return encoding && !/^utf-?8$/i.test(encoding) ? bytes(Buffer.from(data, encoding)) : data;
  if (data instanceof ArrayBuffer) return data;
  if (ArrayBuffer.isView(data)) return data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
  throw Object.assign(
    new TypeError('The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView.'),
    { code: "ERR_INVALID_ARG_TYPE" },
  );
}

function writeFileSync(path, data, options) {
  const { encoding, flag = "w" } = optionsOf(options);
  host.fs("write", name(path), bytes(data, encoding), { append: flag.startsWith("a"), exclusive: flag.includes("x") });
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
  const made = recursive && !existsSync(path) ? name(path) : undefined;
  host.fs("mkdir", name(path), null, { recursive });
  return made;
}

function existsSync(path) {
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

let made = 0;
function mkdtempSync(prefix) {
  for (;;) {
    const path = `${prefix}${(Date.now() % 46656).toString(36)}${(++made).toString(36).padStart(3, "0")}`;
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
  rmSync: (path, options) => host.fs("rm", name(path), null, { recursive: options?.recursive ?? false, force: options?.force ?? false }),
  rmdirSync: (path, options) => host.fs("rm", name(path), null, { recursive: options?.recursive ?? false }),
  unlinkSync: (path) => host.fs("rm", name(path), null, {}),
  copyFileSync: (from, to) => writeFileSync(to, readFileSync(from)),
  constants: { F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1 },
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
module.exports = fs;
