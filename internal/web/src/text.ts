// Text for people: sizes, times, and names that come out of a sandbox.

// Characters that change how other text is shown, or are not shown at all: controls, directions
// of writing, zero widths, line separators.
const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]/g;

function escaped(c: string): string {
  if (c === "\n") return "\\n";
  if (c === "\r") return "\\r";
  if (c === "\t") return "\\t";
  const n = c.charCodeAt(0);
  return n < 256 ? "\\x" + n.toString(16).padStart(2, "0") : "\\u" + n.toString(16).padStart(4, "0");
}

/** A name or one line of text, with what is not visible in it escaped. */
export function visible(s: string | undefined | null): string {
  return s ? s.replace(hidden, escaped) : "";
}

/** The same for a line of a file or a log: tabs stay. */
export function visibleLine(s: string): string {
  return s.replace(hidden, (c) => (c === "\t" ? c : escaped(c)));
}

// Sequences by which terminals set colours and move the cursor.
const sequences = /\u001b(?:\[[0-9;:?<=>!]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_])/g;

/** Text of a log: colours are left out, other controls escaped, lines kept. */
export function visibleText(s: string): string {
  return s.replace(sequences, "").replace(/\r\n/g, "\n").replace(hidden, (c) => (c === "\t" || c === "\n" ? c : escaped(c)));
}

export function bytes(n: number | undefined | null): string {
  if (n === undefined || n === null) return "–";
  if (n < 1024) return `${n} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let v = n;
  let i = -1;
  do {
    v /= 1024;
    i++;
  } while (v >= 1023.5 && i < units.length - 1);
  return `${v < 10 ? v.toFixed(1) : Math.round(v)} ${units[i]}`;
}

export function count(n: number, one: string, many = one + "s"): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** A time span in milliseconds, in its two largest units at most. */
export function span(ms: number): string {
  if (Number.isNaN(ms)) return "–";
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min`;
  const h = Math.floor(m / 60);
  if (h < 48) return m % 60 && h < 10 ? `${h} h ${m % 60} min` : `${h} h`;
  return `${Math.floor(h / 24)} d`;
}

export function nanos(ns: number): string {
  return span(ns / 1e6);
}

/** How long ago a time was; the page draws it again as time passes. */
export function ago(ts: string | undefined, now = Date.now()): string {
  if (!ts) return "–";
  const ms = now - Date.parse(ts);
  return ms < 10_000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : span(ms);
}

export function clock(ts: string): string {
  const d = new Date(ts);
  return Number.isNaN(d.getTime()) ? "" : d.toLocaleTimeString("en-GB");
}

export function date(ts: string | undefined): string {
  if (!ts) return "–";
  const d = new Date(ts);
  if (Number.isNaN(d.getTime())) return "–";
  const p = (n: number) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${p(d.getMonth() + 1)}-${p(d.getDate())} ${p(d.getHours())}:${p(d.getMinutes())}`;
}

export function mode(m: number | undefined): string {
  return m === undefined ? "" : (m & 0o777).toString(8).padStart(3, "0");
}

/** Words of the operating system for what a command line is. */
export function commandLine(argv: readonly string[] | null | undefined, script?: string): string {
  if (script) return visible(script);
  return (argv ?? []).map((a) => (/^[\w@%+=:,./-]+$/.test(a) ? a : "'" + visible(a).replace(/'/g, "'\\''") + "'")).join(" ");
}

export function fromBase64(s: string): Uint8Array {
  const raw = atob(s);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

export function percent(x: number): string {
  return `${Math.round(x * 100)} %`;
}
