// The terminal: xterm.js, loaded when a terminal is opened.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { onTheme } from "./theme";

/**
 * Runs f, in which xterm.js makes its style elements. The Content-Security-Policy of the page
 * refuses those, so each becomes a constructed style sheet with the same text.
 */
function withSheets(f: () => void): void {
  const make = document.createElement.bind(document);
  document.createElement = ((tag: string, options?: ElementCreationOptions) => {
    if (tag !== "style") return make(tag, options);
    const el = make("span");
    el.hidden = true;
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    let text = "";
    const set = (v: string) => {
      text = v;
      sheet.replaceSync(v);
    };
    Object.defineProperty(el, "textContent", { get: () => text, set });
    Object.defineProperty(el, "innerHTML", { get: () => text, set });
    const remove = el.remove.bind(el);
    el.remove = () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
      remove();
    };
    return el;
  }) as typeof document.createElement;
  try {
    f();
  } finally {
    document.createElement = Document.prototype.createElement;
  }
}

function colours() {
  const css = getComputedStyle(document.documentElement);
  const v = (name: string) => css.getPropertyValue(name).trim();
  return {
    background: v("--term-bg"),
    foreground: v("--term-fg"),
    cursor: v("--accent"),
    cursorAccent: v("--term-bg"),
    selectionBackground: v("--select"),
    black: v("--term-black"),
    red: v("--term-red"),
    green: v("--term-green"),
    yellow: v("--term-yellow"),
    blue: v("--term-blue"),
    magenta: v("--term-magenta"),
    cyan: v("--term-cyan"),
    white: v("--term-white"),
    brightBlack: v("--term-gray"),
    brightRed: v("--term-red"),
    brightGreen: v("--term-green"),
    brightYellow: v("--term-yellow"),
    brightBlue: v("--term-blue"),
    brightMagenta: v("--term-magenta"),
    brightCyan: v("--term-cyan"),
    brightWhite: v("--term-fg"),
  };
}

export interface Screen {
  write: (data: Uint8Array | string, done?: () => void) => void;
  size: () => { rows: number; cols: number };
  onInput: (f: (data: Uint8Array) => void) => void;
  onResize: (f: () => void) => void;
  reset: () => void;
  focus: () => void;
  close: () => void;
}

export function openScreen(box: HTMLElement, readOnly: boolean): Screen {
  const term = new Terminal({
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono").trim(),
    fontSize: 13,
    lineHeight: 1.2,
    scrollback: 5000,
    disableStdin: readOnly,
    cursorBlink: !readOnly,
    screenReaderMode: true,
    theme: colours(),
    // No link of a sandbox's output is opened from here.
    linkHandler: { activate: () => {} },
  });
  const fit = new FitAddon();
  term.loadAddon(fit);
  withSheets(() => term.open(box));
  fit.fit();
  const observer = new ResizeObserver(() => {
    if (box.clientWidth > 0) fit.fit();
  });
  observer.observe(box);
  const offTheme = onTheme(() => {
    term.options.theme = colours();
  });
  const encoder = new TextEncoder();
  return {
    write: (data, done) => term.write(data, done),
    size: () => ({ rows: term.rows, cols: term.cols }),
    onInput(f) {
      term.onData((d) => f(encoder.encode(d)));
      term.onBinary((d) => f(Uint8Array.from(d, (c) => c.charCodeAt(0))));
    },
    onResize: (f) => void term.onResize(f),
    reset: () => term.reset(),
    focus: () => term.focus(),
    close() {
      observer.disconnect();
      offTheme();
      term.dispose();
    },
  };
}
