// The HTTP API as the page uses it: the public routes, with the session cookie.

import type * as T from "./api.gen";

export type * from "./api.gen";

/** An error of the server, with its code and what to do about it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly reason?: string,
  ) {
    super(message);
  }
  get offline(): boolean {
    return this.status === 0;
  }
}

/** What a person can do about an error, by its code. */
export function advice(e: unknown): string {
  if (!(e instanceof Problem)) return "";
  switch (e.code) {
    case "offline":
      return "Check that croft up is running, then try again.";
    case "E_UNAUTHENTICATED":
      return "Sign in again: the key was revoked or has expired.";
    case "E_PERMISSION_DENIED":
      return "Your key does not allow this. Sign in with one whose scope does, or ask the operator.";
    case "E_RESOURCE_EXHAUSTED":
      return "A limit or quota is reached. Destroy what you no longer need, or raise the limit.";
    case "E_UNAVAILABLE":
      return "Try again in a moment.";
    case "E_CONFLICT":
      return "It changed meanwhile. Load it again, then repeat the change.";
    case "E_WRONG_STATE":
      return "The workspace is paused, closed or has failed. Resume or reset it, then try again.";
    case "E_UNSUPPORTED":
      return "The provider of this workspace can't do this. Operate → Doctor shows what each can.";
  }
  return "";
}

// State of the connection and of the sign-in, for the frame of the page.
type Listener = () => void;
const listeners = new Set<Listener>();
export const link = { offline: false, signedOut: false };

export function onLink(f: Listener): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}

function setLink(change: Partial<typeof link>): void {
  const before = `${link.offline} ${link.signedOut}`;
  Object.assign(link, change);
  if (before !== `${link.offline} ${link.signedOut}`) for (const f of listeners) f();
}

/** Who is signed in, and until when. */
export interface Who extends T.Me {
  expiresAt?: string;
  secure?: boolean; // the cookie is sent over TLS or on loopback only
}

/** Who is signed in; set before any view is drawn. */
export let who: Who = { key: "", scope: "read", operator: false };

export function setWho(w: Who): void {
  who = w;
  setLink({ signedOut: false });
}

/** Whether the key allows changes; the server checks it, too. */
export function mayRun(): boolean {
  return who.scope !== "read";
}
export function mayAdmin(): boolean {
  return who.scope === "admin";
}

export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

export function url(path: string, query?: Query): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query ?? {})) {
    if (v === undefined || v === "" || v === false) continue;
    if (typeof v === "object") for (const one of v) q.append(k, one);
    else q.set(k, String(v));
  }
  const text = q.toString();
  return text ? `${path}?${text}` : path;
}

export interface Options {
  query?: Query;
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** One request; an answer that is no success is a Problem. */
export async function send(method: string, path: string, o: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { ...o.headers };
  let body = o.body;
  if (o.json !== undefined) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(o.json);
  }
  headers["Croft-Page"] = "1"; // a page of another origin can't send it
  let res: Response;
  try {
    res = await fetch(url(path, o.query), { method, headers, body, signal: o.signal, credentials: "same-origin", cache: "no-store" });
  } catch (e) {
    if (o.signal?.aborted) throw e;
    setLink({ offline: true });
    throw new Problem(0, "offline", "The server does not answer.");
  }
  setLink({ offline: false });
  if (res.ok) return res;
  let wire: T.Wire | undefined;
  try {
    wire = ((await res.json()) as T.Problem).error;
  } catch {
    // not an answer of the API
  }
  if (res.status === 401) setLink({ signedOut: true });
  throw new Problem(res.status, wire?.code ?? `HTTP ${res.status}`, wire?.message ?? `${method} ${path}: HTTP ${res.status}`, wire?.cause);
}

/** Uploads a file, and says how many bytes have gone: fetch does not. */
export function upload(path: string, query: Query, file: Blob, headers: Record<string, string>, onProgress: (sent: number) => void, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const req = new XMLHttpRequest();
    req.open("PUT", url(path, query));
    req.setRequestHeader("Croft-Page", "1");
    for (const [k, v] of Object.entries(headers)) req.setRequestHeader(k, v);
    req.upload.onprogress = (e) => onProgress(e.loaded);
    req.onload = () => {
      setLink({ offline: false });
      if (req.status >= 200 && req.status < 300) return resolve();
      let wire: T.Wire | undefined;
      try {
        wire = (JSON.parse(req.responseText) as T.Problem).error;
      } catch {
        // not an answer of the API
      }
      if (req.status === 401) setLink({ signedOut: true });
      reject(new Problem(req.status, wire?.code ?? `HTTP ${req.status}`, wire?.message ?? `PUT ${path}: HTTP ${req.status}`, wire?.cause));
    };
    req.onerror = () => reject(new Problem(0, "offline", "The server ended the connection."));
    req.onabort = () => reject(new DOMException("The upload was cancelled.", "AbortError"));
    signal.addEventListener("abort", () => req.abort());
    req.send(file);
  });
}

export async function get<R>(path: string, query?: Query, signal?: AbortSignal): Promise<R> {
  return (await send("GET", path, { query, signal })).json() as Promise<R>;
}

async function answer<R>(res: Response): Promise<R> {
  return (res.status === 204 ? undefined : await res.json()) as R;
}

export async function post<R = void>(path: string, json?: unknown, query?: Query): Promise<R> {
  return answer<R>(await send("POST", path, { json, query }));
}
export async function patch<R = void>(path: string, json: unknown): Promise<R> {
  return answer<R>(await send("PATCH", path, { json }));
}
export async function del<R = void>(path: string, query?: Query): Promise<R> {
  return answer<R>(await send("DELETE", path, { query }));
}

const enc = encodeURIComponent;

/** The address of a workspace in the API. */
export function ws(id: string, rest = ""): string {
  return `/v1/workspaces/${enc(id)}${rest}`;
}

export function segment(s: string): string {
  return enc(s);
}

/** The address of a route that is a WebSocket. */
export function socket(path: string, query?: Query): string {
  return location.origin.replace(/^http/, "ws") + url(path, query);
}
