import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, mayRun, post, type Templates, who, ws } from "./api";
import { useLoad } from "./hooks";
import { destroy, fork, pause, resume, type Row, title } from "./model";
import { go, href } from "./router";
import { visible } from "./text";
import { toggleTheme } from "./theme";
import { act, Dialog, Icon } from "./ui";

interface Entry {
  text: string;
  hint: string;
  icon: string;
  run: () => void;
}

export const shortcuts: [string, string][] = [
  ["Ctrl K", "Search and commands"],
  ["?", "This list"],
  ["/", "Filter the list"],
  ["g w", "Workspaces"],
  ["g t", "Templates"],
  ["g a", "Artifacts"],
  ["g e", "Evaluations"],
  ["g o", "Operate"],
  ["1 … 9", "Part of a workspace: files, terminal, processes …"],
  ["Ctrl S", "Save the open file"],
  ["Arrow keys, Enter", "Move in the tree, open"],
  ["Esc", "Close"],
];

const targets: Record<string, string> = { w: "/workspaces", t: "/templates", a: "/artifacts", e: "/evals", o: "/operate" };
const parts = ["files", "terminal", "processes", "review", "snapshots", "network", "events", "usage", "connect"];

function typing(e: KeyboardEvent): boolean {
  const t = e.composedPath()[0];
  return t instanceof HTMLElement && (t.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName) || !!t.closest(".screen"));
}

/** The keys of the page. */
export function useKeys(): { palette: boolean; help: boolean; openPalette: () => void; openHelp: () => void; close: () => void } {
  const [open, set] = useState<"" | "palette" | "help">("");
  useEffect(() => {
    let last = "";
    const f = (e: KeyboardEvent) => {
      if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") {
        e.preventDefault();
        set((o) => (o === "palette" ? "" : "palette"));
        return;
      }
      if (e.ctrlKey || e.metaKey || e.altKey || typing(e) || document.querySelector("dialog[open]")) return;
      const before = last;
      last = e.key;
      if (before === "g" && targets[e.key]) {
        go(targets[e.key] ?? "");
        last = "";
      } else if (e.key === "?") {
        set("help");
      } else if (e.key === "/") {
        const box = document.getElementById("filter") ?? document.querySelector<HTMLElement>("main input[type=search]");
        if (box) {
          e.preventDefault();
          box.focus();
        }
      } else if (/^[1-9]$/.test(e.key)) {
        const m = /^#\/w\/([^/?]+)/.exec(location.hash);
        const part = parts[Number(e.key) - 1];
        if (m?.[1] && part) go(`/w/${m[1]}/${part}`);
      }
    };
    addEventListener("keydown", f);
    return () => removeEventListener("keydown", f);
  }, []);
  return { palette: open === "palette", help: open === "help", openPalette: () => set("palette"), openHelp: () => set("help"), close: () => set("") };
}

export function Keys({ onClose }: { onClose: () => void }): VNode {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl class="keys body">
        {shortcuts.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split(" ").map((k) => (/^(…|keys,)$/.test(k) ? ` ${k} ` : <kbd key={k}>{k.replace(/,$/, "")}</kbd>))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

export function Palette({ onClose, onOpen, onHelp }: { onClose: () => void; onOpen: () => void; onHelp: () => void }): VNode {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const list = useLoad((s) => get<{ workspaces: Row[] | null }>("/v1/workspaces", undefined, s), "palette");
  const templates = useLoad(async (s) => (who.workspace ? { templates: [] } : get<Templates>("/v1/templates", undefined, s)), "palette-templates");
  const here = /^#\/w\/([^/?]+)/.exec(location.hash)?.[1];
  const entries = useMemo(() => {
    const out: Entry[] = [];
    const rows = list.data?.workspaces ?? [];
    const current = rows.find((w) => w.id === here || w.name === here);
    if (current) {
      for (const p of parts) out.push({ text: `${p[0]?.toUpperCase()}${p.slice(1)} of ${title(current)}`, hint: "go", icon: "right", run: () => go(href("w", current.id, p)) });
      if (mayRun()) {
        out.push({ text: `Take snapshot of ${title(current)}`, hint: "action", icon: "camera", run: () => void act("Snapshot taken", () => post(ws(current.id, "/snapshots"), {}), "No snapshot was taken") });
        out.push({ text: `Fork ${title(current)}`, hint: "action", icon: "fork", run: () => void fork(current) });
        if (current.state === "paused") out.push({ text: `Resume ${title(current)}`, hint: "action", icon: "play", run: () => void resume([current]) });
        else out.push({ text: `Pause ${title(current)}`, hint: "action", icon: "pause", run: () => void pause([current]) });
        out.push({ text: `Destroy ${title(current)}`, hint: "action", icon: "trash", run: () => void destroy([current]).then((yes) => yes && go("/workspaces")) });
      }
    }
    if (mayRun()) out.push({ text: "Open workspace", hint: "action", icon: "plus", run: onOpen });
    for (const w of rows) out.push({ text: title(w), hint: `workspace, ${w.state}`, icon: "boxes", run: () => go(href("w", w.id)) });
    for (const t of templates.data?.templates ?? []) out.push({ text: visible(t.name), hint: "template", icon: "template", run: () => go(href("templates", t.name)) });
    if (!who.workspace)
      for (const [text, to, icon] of [
        ["Workspaces", "/workspaces", "boxes"],
        ["Templates", "/templates", "template"],
        ["Artifacts", "/artifacts", "artifact"],
        ["Evaluations", "/evals", "chart"],
        ["Operate: health", "/operate/health", "gear"],
        ["Operate: doctor", "/operate/doctor", "gear"],
        ["Operate: keys", "/operate/keys", "keys"],
        ["Operate: quotas", "/operate/quotas", "gauge"],
      ] as const)
        out.push({ text, hint: "go", icon, run: () => go(to) });
    out.push({ text: "Keyboard shortcuts", hint: "?", icon: "list", run: onHelp });
    out.push({ text: "Change between light and dark", hint: "action", icon: "moon", run: toggleTheme });
    return out;
  }, [list.data, templates.data, here]);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = entries.filter((e) => words.every((w) => `${e.text} ${e.hint}`.toLowerCase().includes(w))).slice(0, 50);
  const chosen = Math.min(at, shown.length - 1);
  const box = useRef<HTMLUListElement>(null);
  useEffect(() => {
    box.current?.children[chosen]?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const pick = (e: Entry | undefined) => {
    if (!e) return;
    onClose();
    e.run();
  };
  return (
    <Dialog title="Search and commands" onClose={onClose}>
      <div class="palette">
        <input
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={chosen >= 0 ? `palette-${chosen}` : undefined}
          aria-label="Search and commands"
          placeholder="A workspace, a template, a command …"
          autoFocus
          value={query}
          onInput={(e) => {
            setQuery(e.currentTarget.value);
            setAt(0);
          }}
          onKeyDown={(e) => {
            if (e.key === "ArrowDown") setAt(Math.min(chosen + 1, shown.length - 1));
            else if (e.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
            else if (e.key === "Enter") pick(shown[chosen]);
            else return;
            e.preventDefault();
          }}
        />
        <ul role="listbox" id="palette-list" aria-label="Results" ref={box}>
          {shown.map((e, i) => (
            <li key={e.text + e.hint} id={`palette-${i}`} role="option" aria-selected={i === chosen} onClick={() => pick(e)} onMouseMove={() => setAt(i)}>
              <Icon name={e.icon} />
              <span class="cut">{e.text}</span>
              <small>{visible(e.hint)}</small>
            </li>
          ))}
        </ul>
        {shown.length === 0 && <p class="soft">Nothing has these words.</p>}
      </div>
    </Dialog>
  );
}
