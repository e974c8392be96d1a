// The editor: CodeMirror, loaded when a file is opened. It lives in a shadow root, where its
// styles are constructed style sheets, which the page's Content-Security-Policy allows.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentOnInput, type LanguageSupport, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags as t } from "@lezer/highlight";

const colours = HighlightStyle.define([
  { tag: [t.keyword, t.operatorKeyword, t.modifier], color: "var(--code-keyword)" },
  { tag: [t.string, t.special(t.string), t.regexp], color: "var(--code-string)" },
  { tag: [t.comment, t.meta], color: "var(--code-comment)" },
  { tag: [t.number, t.bool, t.null, t.atom], color: "var(--code-number)" },
  { tag: [t.function(t.variableName), t.function(t.propertyName), t.definition(t.function(t.variableName))], color: "var(--code-function)" },
  { tag: [t.typeName, t.className, t.namespace, t.tagName], color: "var(--code-type)" },
  { tag: [t.propertyName, t.attributeName], color: "var(--code-property)" },
  { tag: t.heading, fontWeight: "600", color: "var(--code-keyword)" },
  { tag: t.link, textDecoration: "underline" },
  { tag: t.strong, fontWeight: "600" },
  { tag: t.emphasis, fontStyle: "italic" },
  { tag: t.invalid, color: "var(--bad)" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--fg)", backgroundColor: "var(--bg)", fontSize: "12.5px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "var(--bg)", color: "var(--soft)", border: "none", paddingRight: "4px" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--hover)", color: "var(--fg)" },
  ".cm-cursor": { borderLeftColor: "var(--accent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select)" },
  ".cm-selectionMatch": { backgroundColor: "var(--accent-soft)" },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-panels": { backgroundColor: "var(--panel)", color: "var(--fg)", borderColor: "var(--line)" },
  ".cm-panel input, .cm-panel button, .cm-panel label": { fontSize: "12px" },
  ".cm-textfield": { backgroundColor: "var(--bg)", border: "1px solid var(--line)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--hover)", border: "1px solid var(--line)" },
});

async function language(name: string): Promise<Extension> {
  const base = name.slice(name.lastIndexOf("/") + 1).toLowerCase();
  const ext = base.includes(".") ? base.slice(base.lastIndexOf(".") + 1) : base;
  const of = async (l: Promise<LanguageSupport>) => l;
  switch (ext) {
    case "js": case "mjs": case "cjs": case "jsx": case "ts": case "mts": case "tsx":
      return of(import("@codemirror/lang-javascript").then((m) => m.javascript({ jsx: ext.endsWith("x"), typescript: ext.includes("ts") })));
    case "py": case "pyi":
      return of(import("@codemirror/lang-python").then((m) => m.python()));
    case "go":
      return of(import("@codemirror/lang-go").then((m) => m.go()));
    case "rs":
      return of(import("@codemirror/lang-rust").then((m) => m.rust()));
    case "json": case "ipynb":
      return of(import("@codemirror/lang-json").then((m) => m.json()));
    case "md": case "markdown":
      return of(import("@codemirror/lang-markdown").then((m) => m.markdown()));
    case "html": case "htm": case "svg": case "xml": case "vue":
      return of(import("@codemirror/lang-html").then((m) => m.html()));
    case "css": case "scss":
      return of(import("@codemirror/lang-css").then((m) => m.css()));
    case "yaml": case "yml":
      return of(import("@codemirror/lang-yaml").then((m) => m.yaml()));
    case "c": case "h": case "cc": case "cpp": case "hpp": case "java": case "cs":
      return of(import("@codemirror/lang-cpp").then((m) => m.cpp()));
    case "sh": case "bash": case "zsh": case "bashrc": case "profile":
      return import("@codemirror/legacy-modes/mode/shell").then((m) => StreamLanguage.define(m.shell));
    case "toml":
      return import("@codemirror/legacy-modes/mode/toml").then((m) => StreamLanguage.define(m.toml));
    case "rb": case "gemfile": case "rakefile":
      return import("@codemirror/legacy-modes/mode/ruby").then((m) => StreamLanguage.define(m.ruby));
    case "dockerfile": case "containerfile":
      return import("@codemirror/legacy-modes/mode/dockerfile").then((m) => StreamLanguage.define(m.dockerFile));
    case "diff": case "patch":
      return import("@codemirror/legacy-modes/mode/diff").then((m) => StreamLanguage.define(m.diff));
    case "sql":
      return import("@codemirror/legacy-modes/mode/sql").then((m) => StreamLanguage.define(m.standardSQL));
  }
  return [];
}

export interface EditorOptions {
  name: string;
  text: string;
  readOnly: boolean;
  onChange: () => void;
  onSave: () => void;
}

// What ends a line of a text. Without the option, CodeMirror takes CR, LF and CRLF for line ends, and
// writes all of them as LF.
const lineEnds = (text: string): Extension => (text.includes("\r") ? EditorState.lineSeparator.of(text.includes("\r\n") ? "\r\n" : "\n") : []);

export async function openEditor(box: HTMLElement, o: EditorOptions) {
  const lang = await language(o.name).catch(() => []);
  const root = box.shadowRoot ?? box.attachShadow({ mode: "open" });
  root.replaceChildren();
  let quiet = false;
  const ends = new Compartment();
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: o.text,
      extensions: [
        lineNumbers(),
        highlightActiveLineGutter(),
        highlightActiveLine(),
        highlightSpecialChars(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        search({ top: true }),
        highlightSelectionMatches(),
        keymap.of([
          {
            key: "Mod-s",
            preventDefault: true,
            run: (v) => {
              if (!v.state.readOnly) o.onSave();
              return true;
            },
          },
          ...searchKeymap,
          ...historyKeymap,
          ...defaultKeymap,
          indentWithTab,
        ]),
        ends.of(lineEnds(o.text)),
        EditorState.readOnly.of(o.readOnly),
        EditorView.contentAttributes.of({ "aria-label": `Content of ${o.name}`, tabindex: "0" }),
        EditorView.updateListener.of((u) => {
          if (u.docChanged && !quiet) o.onChange();
        }),
        syntaxHighlighting(colours),
        theme,
        lang,
      ],
    }),
  });
  return {
    text: () => view.state.sliceDoc(),
    set(text: string) {
      if (text === view.state.sliceDoc()) return;
      quiet = true;
      view.dispatch({ effects: ends.reconfigure(lineEnds(text)) });
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      quiet = false;
    },
    reveal(line: number) {
      const at = view.state.doc.line(Math.max(1, Math.min(line, view.state.doc.lines)));
      view.dispatch({ selection: { anchor: at.from }, effects: EditorView.scrollIntoView(at.from, { y: "center" }) });
    },
    focus: () => view.focus(),
    close: () => view.destroy(),
  };
}
