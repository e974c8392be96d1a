import type { ComponentChildren, VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { FileChange, Hunk } from "./api";
import { bytes, mode, visible, visibleLine } from "./text";
import { Icon, Rows } from "./ui";

type DiffRow =
  | { kind: "file"; change: FileChange; at: number }
  | { kind: "hunk"; change: FileChange; hunk: Hunk; n: number }
  | { kind: "line"; text: string; old: number; new: number; mark?: Mark }
  | { kind: "note"; text: string };

type Mark = [from: number, to: number];

/** The part in which two lines differ, without their first characters, in each of them; none where they have little in common. */
export function difference(before: string, after: string): [Mark, Mark] | undefined {
  const most = Math.min(before.length, after.length);
  let start = 1;
  while (start < most && before[start] === after[start]) start++;
  let end = 0;
  while (end < most - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const half = (c: number) => c >= 0xd800 && c < 0xe000; // of a character of two units, which is not cut
  while (start > 1 && half(before.charCodeAt(start - 1))) start--;
  while (end > 0 && half(before.charCodeAt(before.length - end))) end--;
  const common = before.slice(1, start).trim().length + before.slice(before.length - end).trim().length;
  if (common * 2 < most - 1) return undefined;
  return [
    [start, before.length - end],
    [start, after.length - end],
  ];
}

/** Marks what changed in the lines of a hunk that were replaced, line by line, by as many others. */
function markLines(rows: DiffRow[], first: number): void {
  for (let i = first; i < rows.length; ) {
    const run = (sign: string, at: number) => {
      let n = 0;
      for (let r = rows[at]; r?.kind === "line" && r.text[0] === sign; r = rows[at + ++n]);
      return n;
    };
    const cut = run("-", i);
    const added = run("+", i + cut);
    if (cut > 0 && cut === added)
      for (let k = 0; k < cut; k++) {
        const a = rows[i + k];
        const b = rows[i + cut + k];
        if (a?.kind !== "line" || b?.kind !== "line") continue;
        [a.mark, b.mark] = difference(a.text, b.text) ?? [];
      }
    i += cut + added || 1;
  }
}

function flatten(changes: FileChange[], folded: Set<string>): { rows: DiffRow[]; widest: number } {
  const rows: DiffRow[] = [];
  let widest = 0;
  changes.forEach((change, at) => {
    rows.push({ kind: "file", change, at });
    if (folded.has(change.path)) return;
    if (!change.hunks?.length) rows.push({ kind: "note", text: note(change) });
    (change.hunks ?? []).forEach((hunk, i) => {
      rows.push({ kind: "hunk", change, hunk, n: i + 1 });
      let o = hunk.oldStart;
      let n = hunk.newStart;
      const first = rows.length;
      for (const line of hunk.lines ?? []) {
        const text = line.endsWith("\n") ? line.slice(0, -1) : line;
        widest = Math.max(widest, text.length);
        const c = text[0];
        rows.push({ kind: "line", text, old: c === "+" ? 0 : o, new: c === "-" ? 0 : n });
        if (c !== "+" && c !== "\\") o++;
        if (c !== "-" && c !== "\\") n++;
      }
      markLines(rows, first);
    });
  });
  return { rows, widest };
}

function note(c: FileChange): string {
  if (c.binary) return `No text: ${bytes(c.old?.size ?? 0)} before, ${bytes(c.new?.size ?? 0)} after`;
  if (c.tooBig) return "Too large to compare line by line";
  if (c.kind === "mode") return `Mode ${mode(c.old?.mode)} is now ${mode(c.new?.mode)}`;
  if (c.new?.type === "symlink") return `Symlink to ${visible(c.new.target)}`;
  if (c.new?.type === "dir" || c.old?.type === "dir") return "Directory";
  return "Empty file";
}

/** The changes without the directories that other changes imply: those that a new file is in, and those that were removed with their files. */
export function fileChanges(changes: FileChange[]): FileChange[] {
  const implied = new Set<string>();
  for (const c of changes)
    for (const name of [c.path, c.from ?? ""]) for (let i = name.lastIndexOf("/"); i > 0; i = name.lastIndexOf("/", i - 1)) implied.add(name.slice(0, i));
  return changes.filter((c) => !implied.has(c.path) || (c.kind !== "added" && c.kind !== "removed") || (c.new ?? c.old)?.type !== "dir");
}

const letters: Record<string, string> = { added: "A", removed: "D", modified: "M", renamed: "R", mode: "m", type: "T" };

export function ChangeLetter({ kind }: { kind: string }): VNode {
  return (
    <b class={`letter ${kind}`} title={kind} aria-label={kind}>
      {letters[kind] ?? "?"}
    </b>
  );
}

function LineText({ text, mark }: { text: string; mark?: Mark }): VNode {
  if (!mark || mark[0] >= mark[1]) return <code>{visibleLine(text.slice(1))}</code>;
  return (
    <code>
      {visibleLine(text.slice(1, mark[0]))}
      <b>{visibleLine(text.slice(mark[0], mark[1]))}</b>
      {visibleLine(text.slice(mark[1]))}
    </code>
  );
}

export interface DiffProps {
  changes: FileChange[];
  /** What stands at the end of the line of a file, and of a hunk. */
  fileEnd?: (c: FileChange) => ComponentChildren;
  hunkEnd?: (c: FileChange, n: number) => ComponentChildren;
  show?: string; // path of a file to scroll to
}

/** A difference of many files, of which only what is in sight is drawn. */
export function Diff(p: DiffProps): VNode {
  const [folded, setFolded] = useState<Set<string>>(new Set());
  const { rows, widest } = useMemo(() => flatten(p.changes, folded), [p.changes, folded]);
  const toggle = (path: string) => {
    const next = new Set(folded);
    if (!next.delete(path)) next.add(path);
    setFolded(next);
  };
  const show = p.show ? rows.findIndex((r) => r.kind === "file" && r.change.path === p.show) : -1;
  return (
    <Rows
      class="diff"
      label="Changes"
      height={22}
      count={rows.length}
      minWidth={`${Math.min(widest, 2000) + 16}ch`}
      show={show < 0 ? undefined : Math.min(rows.length - 1, show + 12)}
      row={(i) => {
        const r = rows[i];
        switch (r?.kind) {
          case "file":
            return (
              <div key={i} class="diff-file">
                <button type="button" class="fold" aria-expanded={!folded.has(r.change.path)} onClick={() => toggle(r.change.path)}>
                  <Icon name={folded.has(r.change.path) ? "right" : "down"} />
                  <ChangeLetter kind={r.change.kind} />
                  <span>
                    {r.change.from ? `${visible(r.change.from)} → ` : ""}
                    {visible(r.change.path)}
                  </span>
                </button>
                <span class="counts">
                  {r.change.linesAdded ? <span class="plus">+{r.change.linesAdded}</span> : null}
                  {r.change.linesRemoved ? <span class="minus">−{r.change.linesRemoved}</span> : null}
                </span>
                <span class="ends">{p.fileEnd?.(r.change)}</span>
              </div>
            );
          case "hunk":
            return (
              <div key={i} class="diff-hunk">
                <span class="at">
                  @@ −{r.hunk.oldStart},{r.hunk.oldLines} +{r.hunk.newStart},{r.hunk.newLines} @@
                </span>
                <span class="ends">{p.hunkEnd?.(r.change, r.n)}</span>
              </div>
            );
          case "line": {
            const c = r.text[0];
            return (
              <div key={i} class={`diff-line ${c === "+" ? "add" : c === "-" ? "cut-line" : ""}`}>
                <span class="no">{r.old || ""}</span>
                <span class="no">{r.new || ""}</span>
                <span class="sign" aria-label={c === "+" ? "added" : c === "-" ? "removed" : undefined} role={c === "+" || c === "-" ? "img" : undefined}>
                  {c === " " ? "" : c}
                </span>
                <LineText text={r.text.slice(0, 2001)} mark={r.mark} />
              </div>
            );
          }
          case "note":
            return (
              <div key={i} class="diff-note">
                {r.text}
              </div>
            );
        }
        return <div key={i} />;
      }}
    />
  );
}
