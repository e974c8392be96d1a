import type { ComponentChildren, JSX, VNode } from "preact";
import { useCallback, useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { advice, link, Problem } from "./api";
import { Command } from "./commands";
import { visible } from "./text";

// Icons are drawn on a grid of 16, with lines of one width.
const paths: Record<string, string> = {
  boxes: "M2.5 2.5h4.5v4.5H2.5zM9 2.5h4.5v4.5H9zM2.5 9h4.5v4.5H2.5zM9 9h4.5v4.5H9z",
  template: "M8 1.8l6 3.2-6 3.2-6-3.2zM2 8l6 3.2L14 8M2 11l6 3.2 6-3.2",
  artifact: "M3.5 2h6l3 3v9h-9zM9.5 2v3h3",
  chart: "M2.5 13.5h11M4.5 11V7.5M8 11V3.5M11.5 11V6",
  gear: "M8 5.6a2.4 2.4 0 100 4.8 2.4 2.4 0 000-4.8zM8 1.8v2M8 12.2v2M1.8 8h2M12.2 8h2M3.6 3.6L5 5M11 11l1.4 1.4M3.6 12.4L5 11M11 5l1.4-1.4",
  search: "M7 2.5a4.5 4.5 0 100 9 4.5 4.5 0 000-9zM10.3 10.3L14 14",
  plus: "M8 3v10M3 8h10",
  fork: "M4.5 5.5v2c0 1.2.8 2 2 2h3c1.2 0 2-.8 2-2v-2M8 9.5v2M4.5 2.2a1.6 1.6 0 100 3.2 1.6 1.6 0 000-3.2zM11.5 2.2a1.6 1.6 0 100 3.2 1.6 1.6 0 000-3.2zM8 11.2a1.6 1.6 0 100 3.2 1.6 1.6 0 000-3.2z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M4.5 3l8 5-8 5z",
  trash: "M2.5 4h11M6 4V2.5h4V4M4 4l.7 9.5h6.6L12 4M6.7 6.5v4.5M9.3 6.5v4.5",
  close: "M4 4l8 8M12 4l-8 8",
  folder: "M1.8 3.5h4l1.4 1.6h7v7.4H1.8z",
  file: "M3.5 2h6l3 3v9h-9zM9.5 2v3h3",
  newfolder: "M1.8 3.5h4l1.4 1.6h7v7.4H1.8zM8 7v3.6M6.2 8.8h3.6",
  newfile: "M3.5 2h6l3 3v9h-9zM9.5 2v3h3M8 7.2v3.6M6.2 9h3.6",
  link: "M6.5 9.5l3-3M7 4.8l1-1a2.9 2.9 0 014.2 4.2l-1 1M9 11.2l-1 1a2.9 2.9 0 01-4.2-4.2l1-1",
  right: "M6 3.5L10.5 8 6 12.5",
  down: "M3.5 6L8 10.5 12.5 6",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8 10.5h3.5",
  process: "M2 8h2.5l2-4.5 3 9 2-4.5H14",
  camera: "M8 2.2a5.8 5.8 0 100 11.6A5.8 5.8 0 008 2.2zM8 4.8V8l2.2 1.6",
  review: "M4.5 2.2a1.6 1.6 0 100 3.2 1.6 1.6 0 000-3.2zM11.5 10.6a1.6 1.6 0 100 3.2 1.6 1.6 0 000-3.2zM4.5 5.4v8.4M11.5 10.6V7c0-1.5-.8-2.5-2.5-2.5H7.5M9 2.7L7.2 4.5 9 6.3",
  globe: "M8 2.2a5.8 5.8 0 100 11.6A5.8 5.8 0 008 2.2zM2.2 8h11.6M8 2.2c2 1.7 2.6 3.7 2.6 5.8S10 12.1 8 13.8C6 12.1 5.4 10.1 5.4 8S6 3.9 8 2.2z",
  list: "M5.5 4h8M5.5 8h8M5.5 12h8M2.5 4h.4M2.5 8h.4M2.5 12h.4",
  gauge: "M2.3 11.5a6 6 0 1111.4 0M8 9.5l2.8-3.2",
  plug: "M6 2v3M10 2v3M4 5h8v2.5a4 4 0 01-8 0zM8 11.5V14",
  sun: "M8 5a3 3 0 100 6 3 3 0 000-6zM8 1.5v1.2M8 13.3v1.2M1.5 8h1.2M13.3 8h1.2M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9",
  moon: "M13 9.6A5.6 5.6 0 016.4 3 5.6 5.6 0 1013 9.6z",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  check: "M3 8.5l3.2 3.2L13 5",
  warn: "M8 2.5l6 11H2zM8 6.5v3.2M8 11.4v.4",
  download: "M8 2.5v7.5M4.8 7L8 10.2 11.2 7M2.5 13.5h11",
  upload: "M8 10V2.5M4.8 5.7L8 2.5l3.2 3.2M2.5 13.5h11",
  share: "M8 9.5v-7M5.2 5L8 2.2 10.8 5M3.5 8v5.5h9V8",
  user: "M8 2.5a2.6 2.6 0 100 5.2 2.6 2.6 0 000-5.2zM3 13.8c.3-2.8 2.2-4.3 5-4.3s4.7 1.5 5 4.3",
  keys: "M5.2 7a3.2 3.2 0 100 6.4 3.2 3.2 0 000-6.4zM7.5 8.5L13.5 2.5M11 5l2 2",
  refresh: "M13 3v3.5H9.5M12.7 6.4A5.2 5.2 0 103 9.8",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  undo: "M3 6h6.5a3.5 3.5 0 010 7H6M5.5 3.5L3 6l2.5 2.5",
};

export function Icon({ name }: { name: string }): VNode {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path d={paths[name] ?? ""} />
    </svg>
  );
}

interface ButtonProps {
  icon?: string;
  label?: string;
  kind?: "primary" | "danger" | "plain";
  disabled?: boolean;
  title?: string;
  onClick?: (e: MouseEvent) => void;
  children?: ComponentChildren;
  type?: "button" | "submit";
  pressed?: boolean;
  small?: boolean;
}

export function Button(p: ButtonProps): VNode {
  const iconOnly = p.icon && !p.children;
  return (
    <button
      type={p.type ?? "button"}
      class={`button ${p.kind ?? ""} ${iconOnly ? "icon-only" : ""} ${p.small ? "small" : ""}`}
      disabled={p.disabled}
      aria-label={p.label}
      aria-pressed={p.pressed}
      title={p.title ?? (iconOnly ? p.label : undefined)}
      onClick={p.onClick}
    >
      {p.icon && <Icon name={p.icon} />}
      {p.children && <span>{p.children}</span>}
    </button>
  );
}

const tones: Record<string, string> = {
  ready: "good",
  valid: "good",
  running: "good",
  passed: "good",
  allowed: "good",
  opening: "busy",
  intended: "busy",
  paused: "warn",
  evicted: "idle",
  closed: "idle",
  failed: "bad",
  refused: "bad",
  destroyed: "bad",
};

export function State({ name }: { name: string }): VNode {
  return (
    <span class={`state ${tones[name] ?? "idle"}`}>
      <i aria-hidden="true" />
      {visible(name)}
    </span>
  );
}

export function Tag({ children, tone }: { children: ComponentChildren; tone?: string }): VNode {
  return <span class={`tag ${tone ?? ""}`}>{children}</span>;
}

/** What the proxy decided about a request, in the words of the page. */
export function Verdict({ name }: { name: string }): VNode {
  return <State name={verdicts[name] ?? name} />;
}
export const verdicts: Record<string, string> = { allow: "allowed", deny: "refused" };

/** An error: what happened, and what to do. The frame says that the server does not answer, once for all views; alone shows it where there is no frame. */
export function Failure({ error, retry, alone }: { error: unknown; retry?: () => void; alone?: boolean }): VNode | null {
  if (!error || (!alone && link.offline && error instanceof Problem && error.offline)) return null;
  const text = error instanceof Error ? error.message : String(error);
  const next = advice(error);
  return (
    <div class="failure" role="alert">
      <Icon name="warn" />
      <div>
        <p>{visible(text)}</p>
        {next && <p class="soft">{next}</p>}
        {error instanceof Problem && error.code.startsWith("E_") && <code class="soft">{error.code}</code>}
      </div>
      {retry && (
        <Button small onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** Nothing is there yet: what it would be, and the next command. */
export function Empty({ title, children, command, onHost, action }: { title: string; children?: ComponentChildren; command?: string; onHost?: boolean; action?: ComponentChildren }): VNode {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {command && <Command text={command} onHost={onHost} />}
      {action}
    </div>
  );
}

export function Loading({ what }: { what?: string }): VNode {
  return (
    <p class="loading" role="status">
      Loading{what ? ` ${what}` : ""} …
    </p>
  );
}

/** Text to copy. */
export function Snippet({ text, label }: { text: string; label?: string }): VNode {
  const [done, set] = useState(false);
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(() => {
      set(true);
      setTimeout(() => set(false), 1500);
    });
  };
  return (
    <div class="snippet">
      <pre tabIndex={0} aria-label={label ?? "command"}>
        {text}
      </pre>
      <Button icon={done ? "check" : "copy"} label={done ? "Copied" : `Copy${label ? ": " + label : ""}`} small onClick={copy} />
    </div>
  );
}

// Toasts are short messages at the edge, read out by screen readers.
interface Toast {
  id: number;
  text: string;
  bad: boolean;
  next: string;
  link?: ToastLink;
}
interface ToastLink {
  href: string;
  text: string;
}
let toasts: Toast[] = [];
let drawToasts: () => void = () => {};
let toastID = 0;

export function toast(text: string, error?: unknown, to?: ToastLink): void {
  const message = error === undefined ? text : `${text}: ${error instanceof Error ? error.message : String(error)}`;
  const t = { id: ++toastID, text: message, bad: error !== undefined, next: error instanceof Problem && error.offline ? "" : advice(error), link: to };
  toasts = [...toasts.filter((o) => o.text !== t.text).slice(-3), t];
  drawToasts();
  setTimeout(() => dismiss(t.id), t.bad ? 12000 : to ? 8000 : 4000);
}

function dismiss(id: number): void {
  toasts = toasts.filter((t) => t.id !== id);
  drawToasts();
}

export function Toasts(): VNode {
  const [, draw] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    box.current?.showPopover();
    drawToasts = () => {
      if (openDialogs.length > 0) {
        // What is shown last lies above all: above the dialog, too.
        box.current?.hidePopover();
        box.current?.showPopover();
      }
      draw((n) => n + 1);
    };
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite" popover="manual" ref={box}>
      {toasts.map((t) => (
        <div key={t.id} class={`toast ${t.bad ? "bad" : ""}`}>
          <Icon name={t.bad ? "warn" : "check"} />
          <div>
            <p>{visible(t.text)}</p>
            {t.next && <p class="soft">{t.next}</p>}
            {t.link && <a href={t.link.href}>{t.link.text}</a>}
          </div>
          <Button icon="close" label="Dismiss" small kind="plain" onClick={() => dismiss(t.id)} />
        </div>
      ))}
    </div>
  );
}

// The dialogs that are open, the topmost last. An error of what a person does in a dialog is shown in it.
interface OpenDialog {
  fail: (text: string, error: unknown) => void;
  clear: () => void;
}
const openDialogs: OpenDialog[] = [];

/** Runs an action of a person, and says how it went. */
export async function act(done: string, f: () => Promise<unknown>, failed = "That failed"): Promise<boolean> {
  openDialogs.at(-1)?.clear();
  try {
    await f();
    if (done) toast(done);
    return true;
  } catch (e) {
    const dialog = openDialogs.at(-1);
    if (dialog) dialog.fail(failed, e);
    else toast(failed, e);
    return false;
  }
}

export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }): VNode {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [failure, setFailure] = useState<Error>();
  useLayoutEffect(() => {
    const d = ref.current;
    if (d && !d.open) d.showModal();
    const own: OpenDialog = {
      fail: (text, error) => {
        const message = `${text}: ${error instanceof Error ? error.message : String(error)}`;
        setFailure(error instanceof Problem ? new Problem(error.status, error.code, message, error.reason) : new Error(message));
      },
      clear: () => setFailure(undefined),
    };
    openDialogs.push(own);
    return () => {
      openDialogs.splice(openDialogs.indexOf(own), 1);
      d?.close();
    };
  }, []);
  useEffect(() => {
    if (failure) ref.current?.querySelector(".failure")?.scrollIntoView({ block: "nearest" });
  }, [failure]);
  return (
    <dialog
      ref={ref}
      class={wide ? "wide" : ""}
      aria-labelledby={id}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onClick={(e) => {
        if (e.target === ref.current) onClose();
      }}
    >
      <div class="dialog">
        <header>
          <h2 id={id}>{title}</h2>
          <Button icon="close" label="Close" kind="plain" onClick={onClose} />
        </header>
        <Failure error={failure} alone />
        {children}
      </div>
    </dialog>
  );
}

// A question before something that can't be undone.
interface Question {
  title: string;
  text: ComponentChildren;
  verb: string;
  danger?: boolean;
  resolve: (yes: boolean) => void;
}
let question: Question | undefined;
let drawQuestion: () => void = () => {};

export function confirm(title: string, text: ComponentChildren, verb: string, danger = true): Promise<boolean> {
  return new Promise((resolve) => {
    question = { title, text, verb, danger, resolve };
    drawQuestion();
  });
}

// A question for a text, such as a name.
interface TextQuestion {
  title: string;
  label: string;
  hint?: ComponentChildren;
  initial: string;
  pattern?: string;
  verb: string;
  run: (text: string) => Promise<boolean>; // true closes the dialog
}
let textQuestion: TextQuestion | undefined;

/** Asks for a text, and runs the action with it; its error is shown in the dialog. */
export function ask(q: TextQuestion): void {
  textQuestion = q;
  drawQuestion();
}

function TextDialog({ q, onClose }: { q: TextQuestion; onClose: () => void }): VNode {
  const [text, setText] = useState(q.initial);
  const [busy, setBusy] = useState(false);
  return (
    <Dialog title={q.title} onClose={onClose}>
      <form
        onSubmit={async (e) => {
          e.preventDefault();
          setBusy(true);
          if (await q.run(text.trim())) onClose();
          else setBusy(false);
        }}
      >
        <div class="body">
          <Field label={q.label} hint={q.hint}>
            <input value={text} pattern={q.pattern} title={q.pattern === namePattern ? nameRule : undefined} autoFocus spellcheck={false} onFocus={(e) => e.currentTarget.select()} onInput={(e) => setText(e.currentTarget.value)} />
          </Field>
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={busy}>
            {q.verb}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** What a name of a workspace may be; the rule is what the browser says where one does not match. */
export const namePattern = "[a-z0-9][a-z0-9\\-]{0,62}";
export const nameRule = "A name has at most 63 letters a to z, digits and hyphens, and starts with a letter or a digit.";

export function Questions(): VNode | null {
  const [, draw] = useState(0);
  useEffect(() => {
    drawQuestion = () => draw((n) => n + 1);
  }, []);
  if (textQuestion)
    return (
      <TextDialog
        key={textQuestion.title}
        q={textQuestion}
        onClose={() => {
          textQuestion = undefined;
          draw((n) => n + 1);
        }}
      />
    );
  const q = question;
  if (!q) return null;
  const answer = (yes: boolean) => {
    question = undefined;
    draw((n) => n + 1);
    q.resolve(yes);
  };
  return (
    <Dialog title={q.title} onClose={() => answer(false)}>
      <div class="body">{q.text}</div>
      <footer>
        <Button onClick={() => answer(false)}>Cancel</Button>
        <Button kind={q.danger ? "danger" : "primary"} onClick={() => answer(true)}>
          {q.verb}
        </Button>
      </footer>
    </Dialog>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: ComponentChildren; children: ComponentChildren }): VNode {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint && <small>{hint}</small>}
    </label>
  );
}

export interface TabItem {
  id: string;
  label: string;
  href: string;
  icon?: string;
  note?: string;
}

export function Tabs({ items, current, label }: { items: TabItem[]; current: string; label: string }): VNode {
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a phone not all tabs are in sight.
    box.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [current]);
  return (
    <nav class="tabs" aria-label={label} ref={box}>
      {items.map((t) => (
        <a key={t.id} href={t.href} aria-current={t.id === current ? "page" : undefined}>
          {t.icon && <Icon name={t.icon} />}
          <span>{t.label}</span>
          {t.note && <b>{t.note}</b>}
        </a>
      ))}
    </nav>
  );
}

export interface Column<R> {
  id: string;
  label: string;
  cell: (row: R) => ComponentChildren;
  sort?: (row: R) => string | number;
  number?: boolean;
  wide?: boolean; // left out at the width of a phone
}

interface TableProps<R> {
  rows: R[];
  columns: Column<R>[];
  label: string;
  id: (row: R) => string;
  selected?: Set<string>;
  onSelect?: (ids: Set<string>) => void;
  onOpen?: (row: R) => void;
  rowLabel?: (row: R) => string;
  initial?: string; // column and direction, such as "-age"
  height?: number;
}

/** A table that draws only the rows in sight, sorts by a click, and selects. */
export function Table<R>(p: TableProps<R>): VNode {
  const [sort, setSort] = useState(p.initial ?? "");
  const by = p.columns.find((c) => c.id === sort.replace(/^-/, ""));
  let rows = p.rows;
  if (by?.sort) {
    const value = by.sort;
    const sign = sort.startsWith("-") ? -1 : 1;
    rows = [...rows].sort((a, b) => {
      const x = value(a);
      const y = value(b);
      return sign * (x < y ? -1 : x > y ? 1 : 0);
    });
  }
  const rowHeight = p.height ?? 36;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const measure = useCallback(() => {
    const b = box.current;
    if (b) setView((v) => (v.top === b.scrollTop && v.height === b.clientHeight ? v : { top: b.scrollTop, height: b.clientHeight }));
  }, []);
  useLayoutEffect(() => {
    measure();
    const o = new ResizeObserver(measure);
    if (box.current) o.observe(box.current);
    return () => o.disconnect();
  }, [measure]);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - 8);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + 8);
  const all = rows.length > 0 && rows.every((r) => p.selected?.has(p.id(r)));
  const toggle = (id: string) => {
    const next = new Set(p.selected);
    if (!next.delete(id)) next.add(id);
    p.onSelect?.(next);
  };
  return (
    <div class="table" ref={box} onScroll={measure} tabIndex={0} role="region" aria-label={p.label}>
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {p.onSelect && (
              <th class="pick">
                <input type="checkbox" aria-label="Select all" checked={all} onChange={() => p.onSelect?.(all ? new Set() : new Set(rows.map(p.id)))} />
              </th>
            )}
            {p.columns.map((c) => {
              const dir = sort === c.id ? "ascending" : sort === "-" + c.id ? "descending" : undefined;
              return (
                <th key={c.id} scope="col" class={`${c.number ? "number" : ""} ${c.wide ? "wide-only" : ""}`} aria-sort={dir}>
                  {c.sort ? (
                    <button type="button" onClick={() => setSort(sort === c.id ? "-" + c.id : c.id)}>
                      {c.label}
                      <span class="arrow" aria-hidden="true">
                        {dir === "ascending" ? "↑" : dir === "descending" ? "↓" : ""}
                      </span>
                    </button>
                  ) : (
                    c.label || <span class="hidden">Actions</span>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="spacer" style={{ height: `${first * rowHeight}px` }} aria-hidden="true" />}
          {rows.slice(first, last).map((r, i) => {
            const id = p.id(r);
            return (
              <tr
                key={id}
                aria-rowindex={first + i + 2}
                class={`${p.selected?.has(id) ? "selected" : ""} ${p.onOpen ? "opens" : ""}`}
                style={{ height: `${rowHeight}px` }}
                onClick={(e) => {
                  if (p.onOpen && !(e.target as HTMLElement).closest("a,button,input,label")) p.onOpen(r);
                }}
              >
                {p.onSelect && (
                  <td class="pick">
                    <input type="checkbox" aria-label={`Select ${p.rowLabel ? p.rowLabel(r) : id}`} checked={p.selected?.has(id)} onChange={() => toggle(id)} />
                  </td>
                )}
                {p.columns.map((c) => (
                  <td key={c.id} class={`${c.number ? "number" : ""} ${c.wide ? "wide-only" : ""}`}>
                    {c.cell(r)}
                  </td>
                ))}
              </tr>
            );
          })}
          {last < rows.length && <tr class="spacer" style={{ height: `${(rows.length - last) * rowHeight}px` }} aria-hidden="true" />}
        </tbody>
      </table>
    </div>
  );
}

interface RowsProps {
  count: number;
  height: number;
  row: (i: number) => VNode;
  label: string;
  role?: JSX.AriaRole;
  minWidth?: string;
  class?: string;
  follow?: boolean; // stay at the end while new rows come
  show?: number; // a row to scroll to
  active?: string; // id of the row that the keys move, for screen readers
  onKeyDown?: (e: KeyboardEvent) => void;
  tabIndex?: number;
}

/** Rows of one height, of which only those in sight are drawn. */
export function Rows(p: RowsProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const atEnd = useRef(true);
  const measure = useCallback(() => {
    const b = box.current;
    if (!b) return;
    setView((v) => (v.top === b.scrollTop && v.height === b.clientHeight ? v : { top: b.scrollTop, height: b.clientHeight }));
  }, []);
  useLayoutEffect(() => {
    measure();
    const o = new ResizeObserver(measure);
    if (box.current) o.observe(box.current);
    return () => o.disconnect();
  }, [measure]);
  useLayoutEffect(() => {
    const b = box.current;
    if (p.follow && atEnd.current && b) b.scrollTop = b.scrollHeight;
  }, [p.count, p.follow]);
  useLayoutEffect(() => {
    const b = box.current;
    if (p.show === undefined || p.show < 0 || !b) return;
    const top = p.show * p.height;
    if (top < b.scrollTop) b.scrollTop = top;
    else if (top + p.height > b.scrollTop + b.clientHeight) b.scrollTop = top + p.height - b.clientHeight;
  }, [p.show, p.height]);
  const onScroll = () => {
    const b = box.current;
    if (b) atEnd.current = b.scrollTop + b.clientHeight >= b.scrollHeight - 4;
    measure();
  };
  const first = Math.max(0, Math.floor(view.top / p.height) - 10);
  const last = Math.min(p.count, Math.ceil((view.top + view.height) / p.height) + 10);
  const rows = [];
  for (let i = first; i < last; i++) rows.push(p.row(i));
  return (
    <div class={`rows ${p.class ?? ""}`} ref={box} onScroll={onScroll} role={p.role} aria-label={p.label} aria-activedescendant={p.active} tabIndex={p.tabIndex ?? 0} onKeyDown={p.onKeyDown}>
      <div class="rows-all" role={p.role ? "presentation" : undefined} style={{ height: `${p.count * p.height}px`, minWidth: p.minWidth ?? "100%" }}>
        <div class="rows-seen" role={p.role ? "presentation" : undefined} style={{ transform: `translateY(${first * p.height}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}

/** A small chart of values over time, scaled to max. */
export function Chart({ values, max, label, text }: { values: number[]; max: number; label: string; text: string }): VNode {
  const w = 240;
  const h = 56;
  const n = Math.max(values.length, 2);
  const top = Math.max(max || 1.25 * Math.max(0, ...values), ...values, 1e-9);
  const at = (v: number, i: number) => `${((i * w) / (n - 1)).toFixed(1)},${(h - 2 - (v / top) * (h - 4)).toFixed(1)}`;
  const line = values.map(at).join(" ");
  return (
    <figure class="chart">
      <figcaption>
        <span>{label}</span>
        <b>{text}</b>
      </figcaption>
      <svg viewBox={`0 0 ${w} ${h}`} preserveAspectRatio="none" role="img" aria-label={`${label}: ${text}`}>
        {values.length > 1 && (
          <>
            <polygon class="area" points={`0,${h} ${line} ${(((values.length - 1) * w) / (n - 1)).toFixed(1)},${h}`} />
            <polyline class="line" points={line} />
          </>
        )}
      </svg>
    </figure>
  );
}

/** A share of a limit as a bar. */
export function Bar({ part, label, even }: { part: number; label: string; even?: boolean }): VNode {
  const p = Math.max(0, Math.min(1, part));
  return (
    <span class={`bar ${p > 0.9 && !even ? "high" : ""}`} role="img" aria-label={label} title={label}>
      <i style={{ width: `${p * 100}%` }} />
    </span>
  );
}

export function Search({ value, onInput, label, id, short }: { value: string; onInput: (v: string) => void; label: string; id?: string; short?: string }): VNode {
  return (
    <div class="search">
      <Icon name="search" />
      <input id={id} type="search" value={value} placeholder={short ?? label} title={short && label} aria-label={label} autoComplete="off" spellcheck={false} onInput={(e) => onInput(e.currentTarget.value)} />
    </div>
  );
}

export function Choice({ value, options, label, onChange }: { value: string; options: [string, string][]; label: string; onChange: (v: string) => void }): VNode {
  return (
    <select value={value} aria-label={label} onChange={(e) => onChange(e.currentTarget.value)}>
      {options.map(([v, text]) => (
        <option key={v} value={v}>
          {text}
        </option>
      ))}
    </select>
  );
}
