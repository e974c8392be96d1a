// The engine in Node: it runs a suite, and asks Go for what the built-in engine asks it
// for. Requests come, a line of JSON each, on standard input; answers go to standard output.
"use strict";
const { MessageChannel, Worker, receiveMessageOnPort } = require("node:worker_threads");
const { AsyncLocalStorage } = require("node:async_hooks");
const { pathToFileURL, fileURLToPath } = require("node:url");
const nodeFs = require("node:fs");

const context = new AsyncLocalStorage();
const running = new Map(); // executions by id

function send(message) {
  const data = Buffer.from(JSON.stringify(message) + "\n");
  for (let at = 0; at < data.length; ) at += nodeFs.writeSync(1, data, at);
}

// A thread reads, so that a call can wait for its answer without a turn of the loop.
const shared = new Int32Array(new SharedArrayBuffer(4));
const { port1: inbox, port2 } = new MessageChannel();
const reader = `
const { workerData } = require("node:worker_threads");
const { readSync } = require("node:fs");
const decoder = new (require("node:string_decoder").StringDecoder)("utf8");
const chunk = Buffer.alloc(1 << 16);
let rest = "";
for (;;) {
  const n = readSync(0, chunk);
  const lines = (rest + decoder.write(chunk.subarray(0, n))).split("\\n");
  rest = lines.pop();
  if (n === 0) lines.push("null");
  for (const line of lines) workerData.port.postMessage(line);
  Atomics.add(workerData.shared, 0, 1);
  Atomics.notify(workerData.shared, 0);
  if (n === 0) break;
}`;
new Worker(reader, { eval: true, workerData: { port: port2, shared }, transferList: [port2] }).unref();
inbox.on("message", (line) => handle(JSON.parse(line)));

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
  send({ call, name, execution: context.getStore()?.id ?? 0, args: args.map(packed) });
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

function callLater(name, ...args) {
  const call = ask(name, args);
  return new Promise((resolve, reject) => waiting.set(call, { resolve, reject }));
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
      return [{ fn, file, url: pathToFileURL(file).href, line: Number(m[3]), column: Number(m[4]) }];
    });

const host = {
  state: () => context.getStore()?.state,
  stack: (head, stack) => [head, ...framesOf(stack).map((f) => `    at ${f.fn ? `${f.fn} (${f.url}:${f.line}:${f.column})` : `${f.url}:${f.line}:${f.column}`}`)].join("\n"),
  frame: (stack) => framesOf(stack).find((f) => !f.file.includes("/node_modules/")),
  log: (level, text) => send({ log: { level, text }, execution: context.getStore()?.id ?? 0 }),
  exit(code) {
    const own = context.getStore();
    if (own) own.exit ??= code;
    throw new Error(`the suite called process.exit(${code})`);
  },
  parseCommand: (line) => callNow("parseCommand", line),
  fs: (...args) => callNow("fs", ...args),
  env: (...args) => callNow("env", ...args),
  envAsync: (...args) => callLater("envAsync", ...args),
  promiseState: () => ["pending"],
  isProxy: require("node:util").types.isProxy,
};

// Built-in modules: Node's own, but for those that reach the workspace or the run.
const modules = { assert: require("node:assert/strict"), buffer: require("node:buffer"), path: require("node:path"), url: require("node:url") };
function internal(name) {
  if (name in modules) return modules[name];
  const module = { exports: {} };
  modules[name] = module.exports;
  new Function("exports", "require", "module", "host", sources[name.replaceAll("/", "-")])(module.exports, internal, module, host); // eslint-disable-line no-undef
  return (modules[name] = module.exports);
}
const merged = (ours, nodes) => Object.defineProperties({}, { ...Object.getOwnPropertyDescriptors(nodes), ...Object.getOwnPropertyDescriptors(ours) });
function required(name) {
  if (name === "node:fs") return merged(withoutMissing(internal("fs")), nodeFs);
  if (name === "node:fs/promises") return merged(withoutMissing(internal("fs").promises), nodeFs.promises);
  return name.startsWith("node:") ? require(name) : internal(name);
}
// What the built-in engine lacks is Node's.
const withoutMissing = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => !internal("lacking").isLacking(value)));

function prepare({ environ, cwd, tmpdir, homedir }) {
  for (const name of Object.keys(process.env)) if (!(name in environ)) delete process.env[name];
  Object.assign(process.env, environ, { TMPDIR: tmpdir, HOME: homedir });
  process.cwd = () => cwd;
  host.cwd = cwd;
  host.environ = process.env;
  process.exit = (code = process.exitCode ?? 0) => host.exit(Number(code) || 0);
  const stream = (level) => ({ isTTY: false, write: (text) => (host.log(level, String(text).replace(/\n$/, "")), true) });
  Object.defineProperty(process, "stdout", { value: stream("log"), configurable: true });
  Object.defineProperty(process, "stderr", { value: stream("error"), configurable: true });
  Object.defineProperty(globalThis, "console", { value: Object.assign(Object.create(console), internal("console")), writable: true, configurable: true });
}

// describe makes data of what a suite exports.
function describe(value, depth = 0) {
  if (value === undefined) return { $: "undefined" };
  if (typeof value === "function" || typeof value === "symbol" || typeof value === "bigint" || depth > 64) return { $: "function" };
  if (typeof value === "number" && !Number.isFinite(value)) return { $: "number", text: String(value) };
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Promise) return { $: "promise" };
  if (Array.isArray(value)) return Array.from(value, (item) => describe(item, depth + 1));
  return { entries: Object.keys(value).map((key) => [key, describe(value[key], depth + 1)]) };
}

const cases = new Map();
const verbs = {
  async load({ bundle, facts }) {
    prepare(facts);
    let namespace;
    await require(bundle)(required, (ns) => (namespace = ns));
    const list = namespace.default;
    for (const case_ of typeof list === "object" && list !== null ? Object.values(list) : []) if (typeof case_?.id === "string") cases.set(case_.id, case_);
    return { exports: describe({ ...namespace }) };
  },
  async assert({ case: id, data }, own) {
    await internal("run").run(cases.get(id), data);
  },
  classify: async ({ case: id, data }) => ({ class: await internal("run").classify(cases.get(id), data) }),
};

// lateTimers waits 100 ms for timers after an assertion has ended: what they throw fails the
// case. Node does not say whose timers they are.
async function lateTimers(own) {
  const turn = () => new Promise((resolve) => setTimeout(resolve, 1));
  const end = Date.now() + 100;
  while (own.failures.length === 0 && Date.now() < end && process.getActiveResourcesInfo().includes("Timeout")) await turn();
}

async function execute(message) {
  const own = { id: message.request, state: { soft: [] }, failures: [] };
  running.set(own.id, own);
  const failed = new Promise((_, reject) => (own.fail = reject));
  failed.catch(() => {});
  let answer = {};
  let thrown;
  try {
    answer = await Promise.race([context.run(own, () => verbs[message.verb](message, own)), failed]);
  } catch (error) {
    thrown = { error };
  }
  if (message.verb === "assert" && !thrown) await lateTimers(own);
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve))); // rejections without a handler are found
  running.delete(own.id);
  thrown ??= own.failures[0];
  context.run(own, () => {
    const run = internal("run");
    const out = { result: own.id, exit: own.exit, ...answer };
    if (message.verb === "assert") out.verdict = run.verdict(thrown !== undefined, thrown?.error, own.state);
    else if (thrown) out.thrown = { ...run.describe(thrown.error), code: typeof thrown.error?.code === "string" ? thrown.error.code : undefined };
    send(out);
  });
}

// stray is an error that no caller catches. It fails the execution that it belongs to.
const stray = (error) => {
  const own = context.getStore() ?? [...running.values()].at(-1);
  own?.failures.push({ error });
};
process.on("unhandledRejection", stray);
process.on("uncaughtException", (error) => {
  stray(error);
  (context.getStore() ?? [...running.values()].at(-1))?.fail(error);
});

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
