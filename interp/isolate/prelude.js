// What a script finds beside the language itself. It is evaluated once, when the
// image of isolates is made, as a function of the one door to the host.
(function (host) {
  "use strict";
  const { defineProperty, entries, getOwnPropertyNames, getPrototypeOf } = Object;
  const { parse, stringify } = JSON;

  const define = (name, value) =>
    defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });

  // inspect renders a value for people.
  const quote = (s) => stringify(s).replace(/^"(.*)"$/s, (_, t) => "'" + t.replace(/\\"/g, '"').replace(/'/g, "\\'") + "'");
  const key = (k) => (typeof k === "symbol" ? `[${String(k)}]` : /^[A-Za-z_$][\w$]*$/.test(k) ? k : quote(k));
  function inspect(v, depth = 4, seen = []) {
    switch (typeof v) {
      case "string": return depth === 4 && seen.length === 0 ? v : quote(v);
      case "bigint": return v + "n";
      case "symbol": return String(v);
      case "function": {
        const kind = /^class\b/.test(Function.prototype.toString.call(v)) ? "class" : "Function";
        return v.name ? `[${kind}: ${v.name}]` : `[${kind} (anonymous)]`;
      }
      case "object": break;
      default: return Object.is(v, -0) ? "-0" : String(v);
    }
    if (v === null) return "null";
    if (seen.includes(v)) return "[Circular]";
    if (v instanceof Error) {
      const head = String(v.stack || "").startsWith(v.name) ? v.stack : `${v.name}: ${v.message}\n${v.stack || ""}`;
      return head.trimEnd();
    }
    if (v instanceof Date) return isNaN(v) ? "Invalid Date" : v.toISOString();
    if (v instanceof RegExp) return String(v);
    if (v instanceof Promise) return "Promise {}";
    const name = (getPrototypeOf(v)?.constructor?.name) ?? "[Object: null prototype]";
    if (depth === 0) return Array.isArray(v) ? "[Array]" : `[${name}]`;
    const below = (x) => inspect(x, depth - 1, [...seen, v]);
    const group = (open, items, close) => {
      if (items.length === 0) return open + close;
      const flat = `${open} ${items.join(", ")} ${close}`;
      if (flat.length <= 76 && !flat.includes("\n")) return flat;
      return `${open}\n${items.map((i) => "  " + i.replaceAll("\n", "\n  ")).join(",\n")}\n${close}`;
    };
    const some = (list, render) => {
      const items = Array.from({ length: Math.min(list.length, 100) }, (_, i) => render(list[i], i));
      if (list.length > 100) items.push(`... ${list.length - 100} more`);
      return items;
    };
    if (Array.isArray(v)) return group("[", some(v, (x, i) => (i in v ? below(x) : "<empty>")), "]");
    if (ArrayBuffer.isView(v) && !(v instanceof DataView)) return group(`${name}(${v.length}) [`, some(v, below), "]");
    if (v instanceof Map) return group(`Map(${v.size}) {`, some([...v], ([k, x]) => `${below(k)} => ${below(x)}`), "}");
    if (v instanceof Set) return group(`Set(${v.size}) {`, some([...v], below), "}");
    const keys = getOwnPropertyNames(v).filter((k) => Object.prototype.propertyIsEnumerable.call(v, k));
    const prefix = name === "Object" ? "{" : `${name} {`;
    return group(prefix, some(keys, (k) => `${key(k)}: ${below(v[k])}`), "}");
  }
  const format = (args) => {
    let out = [...args];
    if (typeof out[0] === "string" && /%[sdifjoO%]/.test(out[0])) {
      const rest = out.slice(1);
      const first = out[0].replace(/%[sdifjoO%]/g, (m) => {
        if (m === "%%") return "%";
        if (rest.length === 0) return m;
        const a = rest.shift();
        switch (m) {
          case "%s": return typeof a === "string" ? a : inspect(a, 1);
          case "%d": return String(Number(a));
          case "%i": return String(parseInt(a));
          case "%f": return String(parseFloat(a));
          case "%j": return stringify(a);
          default: return inspect(a);
        }
      });
      out = [first, ...rest];
    }
    return out.map((a) => inspect(a)).join(" ");
  };

  // console
  let indent = "";
  const counts = new Map(), clocks = new Map();
  const line = (stream) => (...args) => {
    host("out", stream, (indent + format(args)).replaceAll("\n", "\n" + indent) + "\n");
  };
  const log = line("stdout"), warn = line("stderr");
  define("console", {
    log, info: log, debug: log, warn, error: warn, trace: warn, dir: (v) => log(v),
    assert: (ok, ...args) => { if (!ok) warn("Assertion failed" + (args.length ? ":" : ""), ...args); },
    count: (label = "default") => { counts.set(label, (counts.get(label) ?? 0) + 1); log(`${label}: ${counts.get(label)}`); },
    group: (...args) => { if (args.length) log(...args); indent += "  "; },
    groupEnd: () => { indent = indent.slice(2); },
    time: (label = "default") => { clocks.set(label, Date.now()); },
    timeEnd: (label = "default") => { log(`${label}: ${Date.now() - clocks.get(label)}ms`); clocks.delete(label); },
    table: (rows) => log(rows),
  });

  // fs: every call is one message to the host, which does it at once; promises
  // are there because programs are written with them.
  const codes = {
    not_found: "ENOENT", already_exists: "EEXIST", sandbox_violation: "EACCES", permission_denied: "EPERM",
    invalid_argument: "EINVAL", resource_exhausted: "EFBIG", unsupported: "ENOTSUP", wrong_state: "EBUSY",
  };
  const ask = (op, args, data) => {
    const answer = data === undefined ? host("fs", op, stringify(args)) : host("fs", op, stringify(args), data);
    if (typeof answer !== "string") return answer;
    const value = parse(answer);
    if (value.error === undefined) return value.ok;
    const err = new Error(value.error.message);
    err.code = codes[value.error.kind] ?? "EIO";
    err.kind = value.error.kind;
    if (args.path !== undefined) err.path = args.path;
    throw err;
  };
  const own = (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  const body = (data) => {
    if (typeof data === "string") return data;
    if (ArrayBuffer.isView(data)) return own(data);
    if (data instanceof ArrayBuffer) return data;
    throw new TypeError(`what is written must be a string, an ArrayBuffer or a view of one, not ${inspect(data, 1)}`);
  };
  const text = (options) => (typeof options === "string" ? options : options?.encoding);
  const stats = (info) => ({
    ...info, isFile: () => info.type === "file", isDirectory: () => info.type === "dir", isSymbolicLink: () => info.type === "symlink",
    mtime: new Date(info.mtimeMs),
  });
  const path = (p) => String(p);
  const sync = {
    readFile(p, options) {
      const data = ask("read", { path: path(p) });
      return text(options) ? new TextDecoder().decode(data) : new Uint8Array(data);
    },
    readText: (p) => new TextDecoder().decode(ask("read", { path: path(p) })),
    readJSON: (p) => parse(new TextDecoder().decode(ask("read", { path: path(p) }))),
    writeFile: (p, data, options) => { ask("write", { path: path(p), mode: options?.mode, createOnly: options?.flag === "wx" }, body(data)); },
    appendFile(p, data) {
      const more = typeof data === "string" ? new TextEncoder().encode(data) : new Uint8Array(body(data));
      const old = sync.exists(p) ? sync.readFile(p) : new Uint8Array(0);
      const all = new Uint8Array(old.length + more.length);
      all.set(old); all.set(more, old.length);
      sync.writeFile(p, all);
    },
    readdir(p = ".", options) {
      const list = ask("list", { path: path(p) });
      return options?.withFileTypes ? list.map((i) => ({ ...stats(i), parentPath: path(p) })) : list.map((i) => i.name);
    },
    list: (p = ".") => ask("list", { path: path(p) }).map(stats),
    stat: (p) => stats(ask("stat", { path: path(p) })),
    lstat: (p) => stats(ask("stat", { path: path(p), noFollow: true })),
    exists(p) {
      try { ask("stat", { path: path(p) }); return true; } catch (e) { if (e.code === "ENOENT") return false; throw e; }
    },
    access: (p) => { ask("stat", { path: path(p) }); },
    mkdir: (p, options) => { ask("mkdir", { path: path(p), recursive: !!options?.recursive }); },
    rm(p, options) {
      try { ask("remove", { path: path(p), recursive: !!options?.recursive }); } catch (e) { if (!(options?.force && e.code === "ENOENT")) throw e; }
    },
    unlink: (p) => { ask("remove", { path: path(p) }); },
    rmdir: (p) => { ask("remove", { path: path(p) }); },
    rename: (from, to) => { ask("rename", { path: path(from), to: path(to) }); },
    copyFile: (from, to) => { sync.writeFile(to, sync.readFile(from)); },
    glob: (pattern) => ask("glob", { path: String(pattern) }),
  };
  const fs = {};
  for (const [name, fn] of entries(sync)) {
    fs[name] = async (...args) => fn(...args);
    fs[name + "Sync"] = fn;
  }
  fs.promises = fs;

  // path, as node's for POSIX
  const normal = (p) => {
    const up = [], absolute = p.startsWith("/");
    for (const e of p.split("/")) {
      if (e === "" || e === ".") continue;
      if (e === ".." && up.length && up.at(-1) !== "..") up.pop();
      else if (e !== ".." || !absolute) up.push(e);
    }
    return (absolute ? "/" : "") + up.join("/") || (absolute ? "/" : ".");
  };
  const posix = {
    sep: "/", delimiter: ":", normalize: normal,
    join: (...parts) => normal(parts.filter((p) => p !== "").join("/")),
    resolve: (...parts) => { let out = ""; for (const p of parts) out = p.startsWith("/") ? p : out + "/" + p; return normal(out.startsWith("/") ? out : "/" + out); },
    isAbsolute: (p) => p.startsWith("/"),
    basename: (p, ext = "") => { const b = p.replace(/\/+$/, "").split("/").at(-1); return ext && b !== ext && b.endsWith(ext) ? b.slice(0, -ext.length) : b; },
    dirname: (p) => { const i = p.replace(/\/+$/, "").lastIndexOf("/"); return i < 0 ? "." : p.slice(0, i) || "/"; },
    extname: (p) => { const b = p.split("/").at(-1), i = b.lastIndexOf("."); return i > 0 ? b.slice(i) : ""; },
    relative(from, to) {
      const a = posix.resolve(from).split("/").filter(Boolean), b = posix.resolve(to).split("/").filter(Boolean);
      while (a.length && b.length && a[0] === b[0]) { a.shift(); b.shift(); }
      return [...a.map(() => ".."), ...b].join("/");
    },
  };

  // process; what is the run's own is asked for when it is first needed.
  let facts;
  const own_facts = () => (facts ??= parse(host("facts")));
  const process = {
    get env() { return own_facts().env; }, get argv() { return ["croft", "script"]; },
    cwd: () => own_facts().dir, exit: (code = 0) => { host("exit", String(Number(code) | 0)); },
    platform: "croft", versions: { croft: "1" }, nextTick: (fn, ...args) => queueMicrotask(() => fn(...args)),
    stdout: { write: (s) => { host("out", "stdout", String(s)); return true; } },
    stderr: { write: (s) => { host("out", "stderr", String(s)); return true; } },
  };
  const modules = { fs, "fs/promises": fs, path: posix, process };
  define("fs", fs);
  define("process", process);
  define("require", (name) => {
    const m = modules[String(name).replace(/^node:/, "")];
    if (!m) throw new Error(`module ${name} is not there; there are ${Object.keys(modules).join(", ")}, and files by a relative import`);
    return m;
  });

  // Timers: the host asks, after all jobs, how long to sleep.
  const timers = new Map();
  let lastTimer = 0;
  const later = (repeat) => (fn, ms = 0, ...args) => {
    const every = Math.max(Number(ms) || 0, repeat ? 1 : 0), id = ++lastTimer;
    timers.set(id, { at: Date.now() + every, every, repeat, fn, args });
    return id;
  };
  const never = (id) => { timers.delete(id); };
  define("setTimeout", later(false));
  define("setInterval", later(true));
  define("setImmediate", (fn, ...args) => setTimeout(fn, 0, ...args));
  define("clearTimeout", never);
  define("clearInterval", never);
  define("clearImmediate", never);
  if (typeof queueMicrotask !== "function") define("queueMicrotask", (fn) => { Promise.resolve().then(fn); });
  function tick() {
    const now = Date.now();
    for (const [id, t] of [...timers].sort((a, b) => a[1].at - b[1].at || a[0] - b[0])) {
      if (t.at > now || !timers.has(id)) continue;
      if (t.repeat) t.at = now + t.every; else timers.delete(id);
      t.fn(...t.args);
      return 0; // its jobs come before the next one
    }
    let next = -1;
    for (const t of timers.values()) next = next < 0 ? Math.max(t.at - now, 0) : Math.min(next, Math.max(t.at - now, 0));
    return next;
  }

  // Text
  define("TextEncoder", class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(s = "") { return new Uint8Array(host("encode", String(s))); }
  });
  define("TextDecoder", class TextDecoder {
    get encoding() { return "utf-8"; }
    decode(data = new ArrayBuffer(0)) { return host("decode", body(data)); }
  });
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (typeof btoa !== "function") define("btoa", (s) => {
    let out = "";
    for (let i = 0; i < s.length; i += 3) {
      const [a, b, c] = [s.charCodeAt(i), s.charCodeAt(i + 1), s.charCodeAt(i + 2)];
      if (Math.max(a, b || 0, c || 0) > 255) throw new RangeError("btoa: a character beyond latin1");
      out += alphabet[a >> 2] + alphabet[((a & 3) << 4) | (b >> 4)] +
        (isNaN(b) ? "=" : alphabet[((b & 15) << 2) | (c >> 6)]) + (isNaN(c) ? "=" : alphabet[c & 63]);
    }
    return out;
  });
  if (typeof atob !== "function") define("atob", (s) => {
    let out = "", bits = 0, n = 0;
    for (const c of s.replace(/[\s=]/g, "")) {
      const i = alphabet.indexOf(c);
      if (i < 0) throw new RangeError("atob: not base64");
      bits = (bits << 6) | i;
      if ((n += 6) >= 8) out += String.fromCharCode((bits >> (n -= 8)) & 255);
    }
    return out;
  });

  // All isolates begin as copies of one: what is random must not be a copy.
  let state;
  Math.random = function random() {
    state ??= new Uint32Array(host("seed"));
    let t = state[3], s = state[0];
    state[3] = state[2]; state[2] = state[1]; state[1] = s;
    t ^= t << 11; t ^= t >>> 8;
    state[0] = t ^ s ^ (s >>> 19);
    return state[0] / 4294967296;
  };

  // How a run ends.
  const fail = (e) => {
    const err = e instanceof Error || (e && typeof e === "object" && "message" in e);
    host("error", err ? String(e.name ?? "Error") : "Error", err ? String(e.message) : inspect(e, 2), err ? String(e.stack ?? "") : "");
  };
  const settle = (promise, module) => {
    promise.then((v) => {
      const value = module ? v.default : v.value;
      if (value === undefined) return host("result");
      let json;
      try { json = stringify(value); } catch { /* a cycle, a bigint */ }
      host("result", inspect(value, 3, [0]), json ?? "");
    }).catch(fail);
  };
  return {
    settle: (p, module) => settle(p, module),
    fail,
    tick: () => { try { return tick(); } catch (e) { fail(e); return -1; } },
  };
})
