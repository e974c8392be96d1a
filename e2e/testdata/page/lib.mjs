// What the tests of the page share: Chromium, the API, and the list of checks. Each check is a
// line of JSON on standard output, {"name", "error"}; {"ask"} asks the Go test for something.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import path from "node:path";

const require = createRequire(path.join(process.env.CROFT_WEB, "package.json"));
const { chromium } = require("playwright-core");
export const axeSource = require.resolve("axe-core/axe.min.js");

export const origin = process.env.CROFT_URL;
export const token = process.env.CROFT_TOKEN;

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** Asks the Go test to do something, and waits until it is done. */
export async function ask(what) {
  console.log(JSON.stringify({ ask: what }));
  const { value } = await lines.next();
  return value;
}

export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });

/** Calls the API with a key, beside the page. */
export async function api(method, route, body, key = token) {
  const headers = { Authorization: `Bearer ${key}` };
  const raw = typeof body === "string" || body instanceof Uint8Array;
  if (body !== undefined && !raw) headers["Content-Type"] = "application/json";
  const res = await fetch(origin + route, { method, headers, body: raw || body === undefined ? body : JSON.stringify(body) });
  const text = await res.text();
  if (!res.ok) throw Object.assign(new Error(`${method} ${route}: ${res.status} ${text.slice(0, 500)}`), { status: res.status });
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export const write = (ws, file, text) => api("PUT", `/v1/workspaces/${ws}/files?parents=true&path=${encodeURIComponent(file)}`, text);

/** Runs a script in a workspace to its end. */
export async function run(ws, script) {
  const out = await api("POST", `/v1/workspaces/${ws}/exec`, { script });
  const text = typeof out === "string" ? out : JSON.stringify(out);
  if (!text.includes('"exitCode":0')) throw new Error(`${script}: ${text.slice(0, 1000)}`);
  return text;
}

const problems = new WeakMap();

/** A page that is signed in, in a browser of its own; it records what must not happen. */
export async function signedIn({ key = token, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  watch(page);
  await page.goto(origin + "/");
  await page.getByLabel("API key or server token").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Main" }).waitFor();
  return page;
}

/** Records errors, refused content and requests to another origin. */
export function watch(page) {
  const list = [];
  problems.set(page, list);
  page.on("pageerror", (e) => list.push(`error in the page: ${e.stack ?? e}`));
  page.on("console", (m) => {
    if (/Content Security Policy|Refused to/.test(m.text())) list.push(`refused by the policy: ${m.text()}`);
  });
  page.on("request", (r) => {
    const u = new URL(r.url());
    if (!["blob:", "data:"].includes(u.protocol) && u.host !== new URL(origin).host) list.push(`request to another origin: ${r.url()}`);
  });
  page.on("dialog", (d) => {
    list.push(`a dialog of a script: ${d.message()}`);
    void d.dismiss();
  });
}

/** Fails where a page did what it must not. */
export function clean(page) {
  const list = problems.get(page) ?? [];
  if (list.length > 0) throw new Error([...new Set(list)].slice(0, 8).join("\n"));
}

export async function end(page) {
  await page.context().close();
}

export async function until(what, f, ms = 10000) {
  const start = Date.now();
  let last;
  for (;;) {
    try {
      const v = await f();
      if (v) return v;
    } catch (e) {
      last = e;
    }
    if (Date.now() - start > ms) throw new Error(`${what}: not within ${ms} ms${last ? `: ${last.message}` : ""}`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

export function equal(got, want, what) {
  const a = JSON.stringify(got);
  const b = JSON.stringify(want);
  if (a !== b) throw new Error(`${what}: got ${a}, want ${b}`);
}

export function must(ok, what) {
  if (!ok) throw new Error(what);
}

const checks = [];
export function check(name, f) {
  checks.push([name, f]);
}

export async function runAll() {
  const minutes = process.env.CROFT_ALL_PICTURES ? 20 : 3;
  const only = process.env.CROFT_CHECK ? new RegExp(process.env.CROFT_CHECK) : /./;
  for (const [name, f] of checks) {
    if (!only.test(name)) continue;
    const start = Date.now();
    let error;
    try {
      await Promise.race([
        f(),
        new Promise((_, no) => setTimeout(() => no(new Error(`not done within ${minutes} minutes`)), minutes * 60000).unref()),
      ]);
    } catch (e) {
      error = e.stack ?? String(e);
      const page = browser.contexts().at(-1)?.pages()[0];
      if (process.env.CROFT_SHOTS && page) await page.screenshot({ path: path.join(process.env.CROFT_SHOTS, name.replace(/\W+/g, "-") + ".png") }).catch(() => {});
    }
    for (const c of browser.contexts()) await c.close().catch(() => {});
    console.log(JSON.stringify({ name, error, ms: Date.now() - start }));
  }
  await browser.close();
  process.exit(0);
}
