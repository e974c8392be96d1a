// The program that Node runs: it evaluates modules of the user, calls their functions, and asks
// Croft for files and workspaces. Requests come, a line of JSON each, on standard input;
// answers go to standard output. "sources" has the modules beside this one.
"use strict";
const { AsyncLocalStorage } = require("node:async_hooks");
const nodeFs = require("node:fs");
const { Writable } = require("node:stream");
const { setTimeout: sleep } = require("node:timers/promises");
const { pathToFileURL, fileURLToPath } = require("node:url");
const util = require("node:util");
const { MessageChannel, Worker, receiveMessageOnPort } = require("node:worker_threads");

const context = new AsyncLocalStorage();
const running = new Map(); // executions by id

const wakeUp = new Int32Array(new SharedArrayBuffer(4));
function send(message) {
  const data = Buffer.from(JSON.stringify(message) + "\n");
  for (let at = 0; at < data.length; ) {
    try {
      at += nodeFs.writeSync(1, data, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error; // the pipe is full, and something made it non-blocking
      Atomics.wait(wakeUp, 0, 0, 1);
    }
  }
}

// A thread reads, so that a call can wait for its answer without a turn of the loop. It starts with
// the first request, and what comes before that is read here.
const shared = new Int32Array(new SharedArrayBuffer(4));
const { port1: inbox, port2 } = new MessageChannel();
const reader = `
const { workerData } = require("node:worker_threads");
const { readSync } = require("node:fs");
const decoder = new (require("node:string_decoder").StringDecoder)("utf8");
const chunk = Buffer.alloc(1 << 16);
let rest = decoder.write(workerData.rest);
for (let n = 1; n > 0; ) {
  const lines = rest.split("\\n");
  rest = lines.pop();
  for (const line of lines) workerData.port.postMessage(line);
  Atomics.add(workerData.shared, 0, 1);
  Atomics.notify(workerData.shared, 0);
  n = readSync(0, chunk);
  rest += decoder.write(chunk.subarray(0, n));
}
workerData.port.postMessage("null");
Atomics.add(workerData.shared, 0, 1);
Atomics.notify(workerData.shared, 0);`;

function readFirst() {
  const chunk = Buffer.alloc(1 << 16);
  let rest = Buffer.alloc(0);
  for (;;) {
    for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
      const message = JSON.parse(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
      if (message.request) {
        new Worker(reader, { eval: true, workerData: { port: port2, shared, rest }, transferList: [port2] }).unref();
        inbox.on("message", (line) => handle(JSON.parse(line)));
        return handle(message);
      }
      handle(message);
    }
    const n = nodeFs.readSync(0, chunk);
    if (n === 0) process.reallyExit(0);
    rest = Buffer.concat([rest, chunk.subarray(0, n)]);
  }
}

let calls = 0;
const waiting = new Map(); // calls that wait for an answer, by id

const packed = (value) => {
  if (value instanceof ArrayBuffer) return { bytes: Buffer.from(value).toString("base64") };
  if (ArrayBuffer.isView(value)) return { bytes: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") };
  return value;
};
const unpacked = (value) => {
  if (typeof value?.bytes !== "string") return value;
  return new Uint8Array(Buffer.from(value.bytes, "base64")).buffer;
};
const valueOf = ({ value, error }) => {
  if (error === undefined) return unpacked(value);
  const { name, message, ...more } = error;
  const made = Object.assign(new Error(message), more);
  if (name !== "Error") Object.defineProperty(made, "name", { value: name, configurable: true, writable: true });
  throw made;
};
const ask = (name, args) => {
  const call = ++calls;
  send({ call, name, execution: context.getStore()?.id ?? 0, args: args.map((arg) => packed(arg) ?? null) });
  return call;
};

function callNow(name, ...args) {
  const call = ask(name, args);
  for (;;) {
    const seen = Atomics.load(shared, 0);
    for (let got = receiveMessageOnPort(inbox); got; got = receiveMessageOnPort(inbox)) {
      const message = JSON.parse(got.message);
      if (message?.answer === call) return valueOf(message);
      setImmediate(handle, message);
    }
    Atomics.wait(shared, 0, seen);
  }
}

// callLater returns a promise. The execution that called waits for it, also where the suite does not.
function callLater(name, ...args) {
  const call = ask(name, args);
  const own = context.getStore();
  const answer = new Promise((resolve, reject) => waiting.set(call, { resolve, reject })).finally(() => own?.pending.delete(answer));
  own?.pending.add(answer);
  return answer;
}

// framesOf are the frames of a stack that belong to the suite.
const framesOf = (stack) =>
  String(stack)
    .split("\n")
    .flatMap((line) => {
      const m = /^\s+at (?:(.*) \()?((?:file:\/\/)?\/.*?):(\d+):(\d+)\)?$/.exec(line);
      if (!m) return [];
      const file = m[2].startsWith("file://") ? fileURLToPath(m[2]) : m[2];
      if (file.startsWith(__dirname)) return [];
      const fn = (m[1] ?? "").replace(/^async /, "").replace(/^.*\./, "").replace(/ \[as .*$/, "").replace(/^<anonymous>$/, "");
      const url = pathToFileURL(file).href;
      return [{ fn, file, url, line: Number(m[3]), column: Number(m[4]), at: `${url}:${m[3]}:${m[4]}` }];
    });

const host = {
  state: () => context.getStore()?.state,
  stack: (head, stack) => [head, ...framesOf(stack).map(({ fn, at }) => `    at ${fn ? `${fn} (${at})` : at}`)].join("\n"),
  frame: (stack) => framesOf(stack).find((f) => !f.file.includes("/node_modules/")),
  parseCommand: (line) => callNow("parseCommand", line),
  fs: (...args) => callNow("fs", ...args),
  env: (...args) => callNow("env", ...args),
  check: (number) => callLater("check", number),
  envAsync: (...args) => callLater("env", ...args),
};

// Modules that suites import: Node's own, but for node:fs, which reaches workspaces, too.
const modules = {};
function internal(name) {
  if (name.startsWith("node:")) return require(name);
  if (name in modules) return modules[name];
  const module = { exports: {} };
  modules[name] = module.exports;
  new Function("exports", "require", "module", "host", sources[name])(module.exports, internal, module, host); // eslint-disable-line no-undef
  return (modules[name] = module.exports);
}
const merged = (ours, nodes) =>
  Object.defineProperties({}, { ...Object.getOwnPropertyDescriptors(nodes), ...Object.getOwnPropertyDescriptors(ours) });
function required(name) {
  if (name === "node:fs") return merged(internal("fs"), nodeFs);
  if (name === "node:fs/promises") return merged(internal("fs").promises, nodeFs.promises);
  return internal(name);
}

const log = (level, text) => send({ log: { level, text }, execution: context.getStore()?.id ?? 0 });

function prepare({ environ, cwd }) {
  for (const name of Object.keys(process.env)) if (!(name in environ)) delete process.env[name];
  Object.assign(process.env, environ);
  process.cwd = () => cwd;
  // The process is not the suite's to end: the execution fails instead.
  process.exit = (code = process.exitCode ?? 0) => {
    send({ exit: Number(code) || 0, execution: context.getStore()?.id ?? 0 });
    throw new Error(`the suite called process.exit(${code})`);
  };
  for (const [name, level] of [["stdout", "log"], ["stderr", "error"]]) {
    const write = (chunk, _, done) => void (chunk.length > 0 && log(level, String(chunk).replace(/\n$/, "")), done());
    Object.defineProperty(process, name, { value: new Writable({ decodeStrings: false, write }), configurable: true });
  }
  for (const level of ["log", "info", "debug", "warn", "error"]) console[level] = (...args) => log(level, util.format(...args));
}

// describe makes data of what a module exports. keys of objects are told also where they are inherited.
function describe(value, keys, depth = 0) {
  if (value === undefined) return { $: "undefined" };
  if (typeof value === "function" || typeof value === "symbol" || typeof value === "bigint") return { $: typeof value };
  if (depth > 64) return { $: "too deep" };
  if (typeof value === "number" && !Number.isFinite(value)) return { $: "number" };
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Promise) return { $: "promise" };
  if (Array.isArray(value)) return Array.from(value, (item) => describe(item, keys, depth + 1));
  const all = new Set([...Object.keys(value), ...keys.filter((key) => value[key] !== undefined)]);
  return { entries: Array.from(all, (key) => [key, describe(value[key], keys, depth + 1)]) };
}

const namespaces = new Map(); // of the evaluated modules, by their bundle
const caseOf = ({ module, name }) => Object.values(namespaces.get(module).default).find((case_) => case_.id === name);
const verbs = {
  async load({ module, keys = [] }) {
    await require(module)(required, (namespace) => namespaces.set(module, namespace));
    return { exports: describe({ ...namespaces.get(module) }, keys) };
  },
  async assert(message) {
    await internal("run").run(caseOf(message), message.data);
  },
  classify: async (message) => ({ class: await internal("run").classify(caseOf(message), message.data) }),
  async hook({ module, name, data }) {
    const { default: first, reporter } = namespaces.get(module);
    await [first, reporter].find((object) => typeof object?.[name] === "function")[name](data);
  },
};

// Timers belong to the execution that sets them, and end with it.
for (const name of ["setTimeout", "setInterval"]) {
  const set = globalThis[name];
  const owned = (fn, ms, ...args) => {
    const own = context.getStore();
    if (!own || typeof fn !== "function") return set(fn, ms, ...args);
    const run = () => {
      if (name === "setTimeout") own.timers.delete(timer);
      fn(...args);
    };
    const timer = set(run, ms);
    own.timers.set(timer, Date.now() + (Number(ms) || 1));
    return timer;
  };
  globalThis[name] = Object.defineProperties(owned, Object.getOwnPropertyDescriptors(set));
}
const { clearTimeout: clear } = globalThis;
globalThis.clearTimeout = globalThis.clearInterval = (timer) => {
  context.getStore()?.timers.delete(timer);
  clear(timer);
};

// lateTimers waits for the timers of an assertion that are due within 100 ms after it has ended:
// what they throw fails the case.
async function lateTimers(own) {
  const end = Date.now() + 100;
  while (own.failures.length === 0 && Math.min(...own.timers.values()) < end && Date.now() < end) await sleep(1);
}

async function execute(message) {
  const own = { id: message.request, state: { soft: [] }, failures: [], pending: new Set(), timers: new Map() };
  running.set(own.id, own);
  const failed = new Promise((_, reject) => {
    own.fail = (error) => reject(error, own.failures.push({ error }));
  });
  failed.catch(() => {});
  let answer = {};
  let thrown;
  try {
    answer = await Promise.race([context.run(own, () => verbs[message.verb](message, own)), failed]);
  } catch (error) {
    thrown = { error };
  }
  while (!thrown && own.failures.length === 0 && own.pending.size > 0) {
    await Promise.race([...own.pending, failed]).catch(() => {});
  }
  if (message.verb === "assert" && !thrown) await lateTimers(own);
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve))); // rejections without a handler are found
  running.delete(own.id);
  own.timers.forEach((_, timer) => clear(timer));
  thrown ??= own.failures[0];
  context.run(own, () => {
    const run = internal("run");
    const out = { result: own.id, ...answer };
    if (message.verb === "assert") out.verdict = run.verdict(thrown !== undefined, thrown?.error, own.state);
    else if (thrown) out.thrown = { ...run.describe(thrown.error), code: typeof thrown.error?.code === "string" ? thrown.error.code : undefined };
    send(out);
  });
}

// An error that no caller catches fails the execution that it belongs to.
const owner = () => context.getStore() ?? [...running.values()].at(-1);
process.on("unhandledRejection", (error) => owner()?.failures.push({ error }));
process.on("uncaughtException", (error) => owner()?.fail(error));

// An execution that waits, while nothing is left that could go on, never ends.
let idle = 0;
setInterval(() => {
  const busy = process.getActiveResourcesInfo().some((kind) => !/^(MessagePort|Worker|TTYWrap|PipeWrap)$/.test(kind));
  idle = busy || waiting.size > 0 || running.size === 0 ? 0 : idle + 1;
  if (idle < 4) return;
  for (const own of running.values()) own.fail(new Error("it waits for a promise that nothing will settle"));
}, 250).unref();

function handle(message) {
  if (message === null) process.reallyExit(0);
  if (message.prepare) return prepare(message.prepare);
  if (message.ping) return send({ pong: message.ping });
  if (message.request) return void execute(message);
  const call = waiting.get(message.answer);
  waiting.delete(message.answer);
  if (!call) return;
  try {
    call.resolve(valueOf(message));
  } catch (error) {
    call.reject(error);
  }
}

readFirst();
