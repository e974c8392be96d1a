import type { VNode } from "preact";
import { useCallback, useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { type Entries, get, type GlobResult, type GrepResult, type Info, mayRun, post, Problem, send, upload, url, ws } from "../api";
import { useLoad, useThrottle } from "../hooks";
import { href, replace, withQuery } from "../router";
import { bytes, count, date, fromBase64, mode, visible, visibleLine } from "../text";
import { act, Button, confirm, Dialog, Empty, Failure, Field, Icon, Loading, Rows, Search, Tag, toast } from "../ui";
import type { TabProps } from "./workspace";

/** The address of a route about a path; a name that is not UTF-8 goes by its bytes. */
export function pathURL(base: string, info: { path: string; pathB64?: string }, query: Record<string, string | number | boolean> = {}): string {
  if (!info.pathB64) return url(base, { ...query, path: info.path });
  const raw = [...fromBase64(info.pathB64)].map((b) => "%" + b.toString(16).padStart(2, "0")).join("");
  const rest = url(base, query);
  return `${rest}${rest.includes("?") ? "&" : "?"}path=${raw}`;
}

const baseName = (p: string) => p.slice(p.lastIndexOf("/") + 1);
const parent = (p: string) => (p.includes("/") ? p.slice(0, p.lastIndexOf("/")) : "");

interface TreeRow {
  info: Info;
  depth: number;
}

function order(a: Info, b: Info): number {
  const x = a.type === "dir" ? 0 : 1;
  const y = b.type === "dir" ? 0 : 1;
  if (x !== y) return x - y;
  return a.path < b.path ? -1 : a.path > b.path ? 1 : 0;
}

export function Files({ w, route }: TabProps): VNode {
  const base = ws(w.id);
  const writable = mayRun() && !w.policy.readOnly;
  const treeID = useId();
  const open = route.query.get("path") ?? "";
  const line = Number(route.query.get("line") ?? 0);
  const [dirs, setDirs] = useState<Map<string, Info[]>>(new Map());
  const [expanded, setExpanded] = useState<Set<string>>(() => {
    const s = new Set<string>([""]);
    for (let p = parent(open); p; p = parent(p)) s.add(p);
    return s;
  });
  const [error, setError] = useState<unknown>();
  const [query, setQuery] = useState("");
  const [dialog, setDialog] = useState<"file" | "dir" | "rename" | undefined>();
  const [cursor, setCursor] = useState(open);
  const byPath = useRef(new Map<string, Info>());

  const load = useCallback(
    async (info: { path: string; pathB64?: string }) => {
      try {
        const r = info.path ? await (await send("GET", pathURL(base + "/readdir", info))).json() : await get<Entries>(base + "/readdir", { path: "." });
        const entries = ((r as Entries).entries ?? []).sort(order);
        for (const e of entries) byPath.current.set(e.path, e);
        setDirs((d) => new Map(d).set(info.path, entries));
        setError(undefined);
      } catch (e) {
        if (info.path === "") setError(e);
        else if (e instanceof Problem && e.status === 404)
          setDirs((d) => {
            const next = new Map(d);
            next.delete(info.path);
            return next;
          });
        else toast(`${visible(info.path)} can't be listed`, e);
      }
    },
    [base],
  );
  useEffect(() => {
    for (const p of expanded) void load(byPath.current.get(p) ?? { path: p });
  }, [base]);

  // Directories that changed are listed again, those in sight only.
  const dirty = useRef(new Set<string>());
  const refresh = useThrottle(() => {
    const list = [...dirty.current];
    dirty.current.clear();
    for (const p of list) if (expandedRef.current.has(p)) void load(byPath.current.get(p) ?? { path: p });
  }, 400);
  const expandedRef = useRef(expanded);
  expandedRef.current = expanded;
  const changed = useRef<(path: string) => void>(() => {});
  useEffect(() => {
    let source: EventSource | undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    const all = () => {
      for (const p of expandedRef.current) dirty.current.add(p);
      refresh();
    };
    const start = () => {
      clearTimeout(retry);
      source?.close();
      source = undefined;
      if (document.hidden) return;
      source = new EventSource(url(base + "/watch", { path: ".", recursive: true, debounce: "200ms" }));
      source.addEventListener("changes", (m) => {
        let batch: unknown;
        try {
          batch = JSON.parse(String((m as MessageEvent).data));
        } catch {
          return;
        }
        const list = Array.isArray(batch) ? batch : ((batch as { changes?: unknown[] }).changes ?? []);
        if (list.length > 500 || list.length === 0) all();
        for (const c of list as { path: string }[]) {
          dirty.current.add(parent(c.path));
          changed.current(c.path);
        }
        refresh();
      });
      const again = () => {
        source?.close();
        source = undefined;
        retry = setTimeout(() => {
          all();
          start();
        }, 3000);
      };
      source.addEventListener("end", again);
      source.onerror = again;
    };
    const onVisible = () => {
      if (!document.hidden) all();
      start();
    };
    start();
    document.addEventListener("visibilitychange", onVisible);
    return () => {
      document.removeEventListener("visibilitychange", onVisible);
      clearTimeout(retry);
      source?.close();
    };
  }, [base, refresh]);

  const rows = useMemo(() => {
    const out: TreeRow[] = [];
    const walk = (dir: string, depth: number) => {
      for (const info of dirs.get(dir) ?? []) {
        out.push({ info, depth });
        if (info.type === "dir" && expanded.has(info.path)) walk(info.path, depth + 1);
      }
    };
    walk("", 0);
    return out;
  }, [dirs, expanded]);

  const toggle = (info: Info, to?: boolean) => {
    const next = new Set(expanded);
    if (to ?? !next.has(info.path)) {
      next.add(info.path);
      void load(info);
    } else next.delete(info.path);
    setExpanded(next);
  };
  const show = (path: string, at?: number) => {
    setCursor(path);
    replace(withQuery(href("w", w.id, "files"), { path, line: at ? String(at) : undefined }));
  };
  const choose = (info: Info) => {
    setCursor(info.path);
    if (info.type === "dir") toggle(info);
    else show(info.path);
  };
  const at = rows.findIndex((r) => r.info.path === cursor);
  const onKeyDown = (e: KeyboardEvent) => {
    const row = rows[at];
    const move = (i: number) => {
      const r = rows[Math.max(0, Math.min(rows.length - 1, i))];
      if (r) setCursor(r.info.path);
    };
    switch (e.key) {
      case "ArrowDown":
        move(at + 1);
        break;
      case "ArrowUp":
        move(at - 1);
        break;
      case "Home":
        move(0);
        break;
      case "End":
        move(rows.length - 1);
        break;
      case "ArrowRight":
        if (row?.info.type === "dir") {
          if (expanded.has(row.info.path)) move(at + 1);
          else toggle(row.info, true);
        }
        break;
      case "ArrowLeft":
        if (row?.info.type === "dir" && expanded.has(row.info.path)) toggle(row.info, false);
        else if (row) setCursor(parent(row.info.path) || cursor);
        break;
      case "Enter":
      case " ":
        if (row) choose(row.info);
        break;
      default:
        return;
    }
    e.preventDefault();
  };
  const chosen = byPath.current.get(cursor);
  const remove = async () => {
    if (!chosen) return;
    const dir = chosen.type === "dir";
    if (!(await confirm(`Delete ${visible(baseName(chosen.path))}?`, dir ? "The directory and everything below it is deleted." : "The file is deleted. A snapshot that has it can bring it back.", "Delete"))) return;
    await act("Deleted", () => send("DELETE", pathURL(base + "/files", chosen, dir ? { recursive: true } : {})), "Not deleted");
    if (open === chosen.path || open.startsWith(chosen.path + "/")) show("");
    void load({ path: parent(chosen.path) });
  };
  const into = chosen ? (chosen.type === "dir" ? chosen.path : parent(chosen.path)) : "";

  // Uploads, by the button or by files that are dropped on the tree.
  const picker = useRef<HTMLInputElement>(null);
  const [uploads, setUploads] = useState<{ files: Dropped[]; into: string }>();
  const [dropping, setDropping] = useState<string>();
  const start = (files: Dropped[], to: string) => {
    if (files.length > 0) setUploads({ files, into: to });
  };
  const targetOf = (e: DragEvent): string => {
    const info = byPath.current.get((e.target as HTMLElement).closest<HTMLElement>("[data-path]")?.dataset.path ?? "");
    return info ? (info.type === "dir" ? info.path : parent(info.path)) : "";
  };
  const drop = {
    onDragOver: (e: DragEvent) => {
      if (!e.dataTransfer?.types.includes("Files")) return;
      e.preventDefault();
      setDropping(targetOf(e));
    },
    onDragLeave: (e: DragEvent) => {
      if (!(e.currentTarget as HTMLElement).contains(e.relatedTarget as Node | null)) setDropping(undefined);
    },
    onDrop: (e: DragEvent) => {
      if (!e.dataTransfer) return;
      e.preventDefault();
      const to = targetOf(e);
      setDropping(undefined);
      void act("", async () => start(await droppedFiles(e.dataTransfer?.items), to), "Not uploaded");
    },
  };
  return (
    <div class={`files ${open ? "has-open" : ""}`}>
      <div class={`explorer ${dropping !== undefined ? "dropping" : ""}`} {...(writable ? drop : {})}>
        <div class="explorer-bar">
          <Search value={query} onInput={setQuery} label="Search names and contents" short="Search" />
          {writable && (
            <>
              <Button icon="newfile" small kind="plain" label="New file" onClick={() => setDialog("file")} />
              <Button icon="newfolder" small kind="plain" label="New directory" onClick={() => setDialog("dir")} />
              <Button icon="upload" small kind="plain" label={into ? `Upload files to ${visible(into)}` : "Upload files"} onClick={() => picker.current?.click()} />
              <input ref={picker} type="file" multiple hidden aria-label="Files to upload" onChange={(e) => { start([...(e.currentTarget.files ?? [])].map((file) => ({ path: file.name, file })), into); e.currentTarget.value = ""; }} />
              <Button icon="trash" small kind="plain" label={chosen ? `Delete ${visible(baseName(chosen.path))}` : "Delete"} disabled={!chosen} onClick={() => void remove()} />
            </>
          )}
        </div>
        <Failure error={error} retry={() => void load({ path: "" })} />
        {query.length > 1 ? (
          <Found base={base} query={query} show={show} />
        ) : dirs.has("") && rows.length === 0 ? (
          <Empty title="No files yet" command={`croft ws put ${w.name || w.id} a.txt a.txt`}>
            Drop files here, make one with the buttons above, or copy one from your machine:
          </Empty>
        ) : (
          <Rows
            class="tree"
            role="tree"
            label="Files"
            height={24}
            count={rows.length}
            show={at}
            active={at < 0 ? undefined : `${treeID}-${at}`}
            onKeyDown={onKeyDown}
            row={(i) => {
              const r = rows[i];
              if (!r) return <div key={i} />;
              const dir = r.info.type === "dir";
              return (
                <div
                  key={r.info.path}
                  id={`${treeID}-${i}`}
                  role="treeitem"
                  data-path={r.info.path}
                  class={`tree-row ${dropping && dropping === r.info.path ? "target" : ""} ${cursor === r.info.path ? "cursor" : ""} ${open === r.info.path ? "open" : ""}`}
                  aria-level={r.depth + 1}
                  aria-selected={cursor === r.info.path}
                  aria-expanded={dir ? expanded.has(r.info.path) : undefined}
                  style={{ paddingLeft: `${r.depth * 14 + 6}px` }}
                  title={visible(r.info.path)}
                  onClick={() => choose(r.info)}
                >
                  <span class="twist">{dir && <Icon name={expanded.has(r.info.path) ? "down" : "right"} />}</span>
                  <Icon name={dir ? "folder" : r.info.type === "symlink" ? "link" : "file"} />
                  <span class="file-name">{visible(baseName(r.info.path))}</span>
                  {r.info.target && <span class="soft"> → {visible(r.info.target)}</span>}
                  {!dir && r.info.size !== undefined && <small>{bytes(r.info.size)}</small>}
                </div>
              );
            }}
          />
        )}
      </div>
      <div class="viewer">
        {open ? (
          <Viewer key={open} base={base} info={byPath.current.get(open) ?? { path: open, type: "file" }} line={line} onChanged={changed} onClose={() => show("")} readOnly={!writable} onRename={() => setDialog("rename")} />
        ) : (
          <Empty title="Choose a file">The tree shows the files of the workspace as they are now. Changes appear by themselves, whoever makes them.</Empty>
        )}
      </div>
      {uploads && (
        <Upload
          base={base}
          files={uploads.files}
          into={uploads.into}
          onClose={() => {
            setUploads(undefined);
            if (uploads.into && !expanded.has(uploads.into)) setExpanded(new Set(expanded).add(uploads.into));
            void load(byPath.current.get(uploads.into) ?? { path: uploads.into });
          }}
        />
      )}
      {dialog && dialog !== "rename" && (
        <NewEntry
          kind={dialog}
          into={into}
          onClose={() => setDialog(undefined)}
          onMake={async (path) => {
            const ok = await act(
              "",
              () => (dialog === "dir" ? post(base + "/mkdir", undefined, { path, parents: true }) : send("PUT", url(base + "/files", { path, parents: true }), { body: "", headers: { "If-None-Match": "*" } })),
              "Not made",
            );
            if (!ok) return;
            setDialog(undefined);
            const next = new Set(expanded);
            for (let dir = parent(path); dir; dir = parent(dir)) {
              next.add(dir);
              void load({ path: dir });
            }
            setExpanded(next);
            void load({ path: "" });
            if (dialog === "file") show(path);
          }}
        />
      )}
      {dialog === "rename" && open && (
        <NewEntry
          kind="rename"
          into=""
          initial={open}
          onClose={() => setDialog(undefined)}
          onMake={async (path) => {
            if (!(await act("Moved", () => post(base + "/rename", undefined, { from: open, to: path, createonly: true, parents: true }), "Not moved"))) return;
            setDialog(undefined);
            void load({ path: parent(open) });
            void load({ path: parent(path) });
            show(path);
          }}
        />
      )}
    </div>
  );
}

function NewEntry({ kind, into, initial, onMake, onClose }: { kind: "file" | "dir" | "rename"; into: string; initial?: string; onMake: (path: string) => void; onClose: () => void }): VNode {
  const [path, setPath] = useState(initial ?? (into ? into + "/" : ""));
  return (
    <Dialog title={kind === "dir" ? "New directory" : kind === "file" ? "New file" : "Move or rename"} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          onMake(path.replace(/^\/+|\/+$/g, ""));
        }}
      >
        <div class="body">
          <Field label="Path in the workspace" hint="Missing directories are made.">
            <input value={path} required autoFocus spellcheck={false} onInput={(e) => setPath(e.currentTarget.value)} />
          </Field>
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            {kind === "rename" ? "Move" : "Make"}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** A file to upload, by its path below the directory that it goes to. */
interface Dropped {
  path: string;
  file: File;
}

/** The files that were dropped, with those of dropped directories. */
async function droppedFiles(items: DataTransferItemList | undefined): Promise<Dropped[]> {
  const out: Dropped[] = [];
  const walk = async (entry: FileSystemEntry): Promise<void> => {
    const path = entry.fullPath.replace(/^\/+/, "");
    if (entry.isFile) {
      out.push({ path, file: await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)) });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const e of some) await walk(e);
    }
  };
  // The list is empty after the first await. An item without an entry is a file of its own.
  const list = [...(items ?? [])].filter((i) => i.kind === "file").map((i) => i.webkitGetAsEntry() ?? i.getAsFile());
  for (const one of list) {
    if (one instanceof File) out.push({ path: one.name, file: one });
    else if (one) await walk(one);
  }
  return out;
}

type OnExisting = "ask" | "replace" | "skip";

/** Uploads files one by one, with progress; it asks what to do with those that exist. */
function Upload({ base, files, into, onClose }: { base: string; files: Dropped[]; into: string; onClose: () => void }): VNode {
  const total = files.reduce((sum, f) => sum + f.file.size, 0);
  const [at, setAt] = useState(0); // index of the file that is uploaded
  const [sent, setSent] = useState(0); // bytes, of all
  const [skipped, setSkipped] = useState(0);
  const [question, setQuestion] = useState<(answer: OnExisting, all: boolean) => void>();
  const [rest, setRest] = useState(false); // the answer is for all that follow
  const [error, setError] = useState<unknown>();
  const end = useRef(new AbortController());
  const close = useRef(onClose);
  close.current = onClose;
  const run = async () => {
    setError(undefined);
    const always = { answer: "ask" as OnExisting };
    let before = 0;
    let without = 0;
    try {
      for (const [i, f] of files.entries()) {
        setAt(i);
        const path = (into ? into + "/" : "") + f.path;
        // Asked first: a large file need not be sent to be refused.
        const exists = await send("GET", url(base + "/stat", { path }), { signal: end.current.signal }).then(
          () => true,
          (e: unknown) => {
            if (e instanceof Problem && e.status === 404) return false;
            throw e;
          },
        );
        let answer: OnExisting = exists ? always.answer : "replace";
        if (answer === "ask") {
          answer = await new Promise<OnExisting>((resolve) =>
            setQuestion(() => (a: OnExisting, all: boolean) => {
              if (all) always.answer = a;
              resolve(a);
            }),
          );
          setQuestion(undefined);
        }
        if (answer === "skip") setSkipped(++without);
        else await upload(base + "/files", { path, parents: true }, f.file, exists ? {} : { "If-None-Match": "*" }, (n) => setSent(before + Math.min(n, f.file.size)), end.current.signal);
        before += f.file.size;
        setSent(before);
      }
      toast(`Uploaded ${files.length - without === 1 && files.length === 1 ? visible(files[0]?.path) : count(files.length - without, "file")}${without ? `, left out ${without}` : ""}`);
      close.current();
    } catch (e) {
      if (!end.current.signal.aborted) setError(e);
    }
  };
  useEffect(() => {
    void run();
    return () => end.current.abort();
  }, []);
  const current = files[at];
  return (
    <Dialog title={into ? `Upload to ${visible(into)}` : "Upload"} onClose={onClose}>
      <div class="body">
        <p class="cut" title={visible(current?.path)}>
          {files.length > 1 && <span class="soft number">{at + 1} of {files.length}: </span>}
          <span class="mono">{visible(current?.path)}</span>
        </p>
        <progress max={Math.max(total, 1)} value={total === 0 ? 1 : sent} aria-label="Progress of the upload" />
        <p class="soft number">
          {bytes(sent)} of {bytes(total)}
          {skipped > 0 && `, ${skipped} left out`}
        </p>
        <Failure error={error} alone />
        {question && (
          <div role="alert" class="stack">
            <p>
              <b>{visible(current?.path)} exists already.</b> Replace it with the file from your machine?
            </p>
            {files.length - at > 1 && (
              <label class="inline check">
                <input type="checkbox" checked={rest} onChange={(e) => setRest(e.currentTarget.checked)} /> <span>Do the same for all that follow</span>
              </label>
            )}
          </div>
        )}
      </div>
      <footer>
        <Button onClick={onClose}>{error !== undefined ? "Close" : "Cancel"}</Button>
        {question && (
          <>
            {files.length > 1 && <Button onClick={() => question("skip", rest)}>Skip</Button>}
            <Button kind="danger" onClick={() => question("replace", rest)}>
              Replace
            </Button>
          </>
        )}
      </footer>
    </Dialog>
  );
}

type FoundRow = { path: string; line?: number; text?: string };

function Found({ base, query, show }: { base: string; query: string; show: (path: string, line?: number) => void }): VNode {
  const [wanted, setWanted] = useState(query);
  useEffect(() => {
    const t = setTimeout(() => setWanted(query), 250);
    return () => clearTimeout(t);
  }, [query]);
  const found = useLoad(async (signal) => {
    const glob = wanted.replace(/[*?[\]{}\\]/g, "\\$&");
    const [names, lines] = await Promise.all([
      get<GlobResult>(base + "/glob", { pattern: `**/*${glob}*`, hidden: true, limit: 200 }, signal),
      get<GrepResult>(base + "/grep", { pattern: wanted, literal: true, ignorecase: wanted === wanted.toLowerCase(), hidden: true, maxmatches: 500, maxtime: "5s" }, signal),
    ]);
    return { names, lines };
  }, base + wanted);
  if (found.error !== undefined) return <Failure error={found.error} />;
  if (!found.data) return <Loading />;
  const rows: FoundRow[] = [
    ...(found.data.names.entries ?? []).map((e) => ({ path: e.path })),
    ...(found.data.lines.matches ?? []).map((m) => ({ path: m.path, line: m.line, text: m.text })),
  ];
  const notes = [found.data.names.truncated && "more names", found.data.lines.truncated && `more lines (${found.data.lines.truncated})`, found.data.lines.skippedTotal && `${count(found.data.lines.skippedTotal, "file")} not searched`].filter(Boolean);
  return (
    <>
      <p class="found-note soft" role="status">
        {count(rows.length, "match", "matches")}
        {notes.length > 0 && `; there are ${notes.join(", ")}`}
      </p>
      <Rows
        class="tree"
        label="Matches"
        height={40}
        count={rows.length}
        row={(i) => {
          const r = rows[i];
          if (!r) return <div key={i} />;
          return (
            <button type="button" key={i} class="found" onClick={() => show(r.path, r.line)}>
              <span class="file-name">
                {visible(r.path)}
                {r.line ? `:${r.line}` : ""}
              </span>
              <small class="mono">{r.text === undefined ? "name" : visibleLine(r.text.trim().slice(0, 200))}</small>
            </button>
          );
        }}
      />
    </>
  );
}

const maxEdit = 2 << 20;
const images: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };

interface Content {
  info: Info;
  digest: string;
  text?: string;
  image?: string;
  partial?: boolean; // text is only the beginning of the file
  binary?: boolean;
}

/** Whether the text of an editor may replace the content: only where all of it was read, and its digest. */
const savable = (c: Content | undefined): c is Content => c?.text !== undefined && !c.partial && c.digest !== "";

async function read(base: string, info: Info, signal: AbortSignal): Promise<Content> {
  const stat = (await (await send("GET", pathURL(base + "/stat", info), { signal })).json()) as Info;
  const size = stat.size ?? 0;
  const type = images[info.path.slice(info.path.lastIndexOf(".") + 1).toLowerCase()];
  if (stat.type !== "file") throw new Error(`${visible(info.path)} is a ${stat.type}, not a file.`);
  const whole = size <= maxEdit || (type && size <= 16 << 20);
  const res = await send("GET", pathURL(base + "/files", info, whole ? { digest: true } : { limit: 256 << 10 }), { signal });
  const data = new Uint8Array(await res.arrayBuffer());
  const digest = (res.headers.get("ETag") ?? "").replace(/^"|"$/g, "");
  if (type) return { info: stat, digest, image: URL.createObjectURL(new Blob([data], { type })) };
  let text: string | undefined;
  try {
    text = new TextDecoder("utf-8", { fatal: whole === true, ignoreBOM: true }).decode(data);
  } catch {
    // not UTF-8
  }
  if (text === undefined || text.slice(0, 8192).includes("\0")) return { info: stat, digest, binary: true };
  return { info: stat, digest, text, partial: !whole || res.headers.has("Croft-Partial") };
}

interface ViewerProps {
  base: string;
  info: Info;
  line: number;
  readOnly: boolean;
  onChanged: { current: (path: string) => void };
  onClose: () => void;
  onRename: () => void;
}

// Texts that were edited and not saved, by file: they outlive the view, not the page.
const drafts = new Map<string, { text: string; of: Content }>();
addEventListener("beforeunload", (e) => {
  if (drafts.size > 0) e.preventDefault();
});

function Viewer(p: ViewerProps): VNode {
  const draft = `${p.base} ${p.info.path}`;
  const [version, setVersion] = useState(0);
  const file = useLoad((signal) => read(p.base, p.info, signal), `${p.info.path} ${version}`);
  const [shown, setShown] = useState<Content>();
  const [modified, setModified] = useState(false);
  const [theirs, setTheirs] = useState(false); // it changed in the workspace while it is edited here
  const [busy, setBusy] = useState(false);
  const editor = useRef<{ text: () => string; set: (text: string) => void; reveal: (line: number) => void; focus: () => void }>();
  const dirty = useRef(false);
  dirty.current = modified;
  useEffect(() => {
    const c = file.data;
    if (!c || (c.digest !== "" && c.digest === shown?.digest)) return;
    if (dirty.current) {
      setTheirs(true);
      return;
    }
    setShown(c);
    if (c.text !== undefined) editor.current?.set(c.text);
  }, [file.data]);
  useEffect(() => () => { if (dirty.current) toast(`${visible(baseName(p.info.path))} is not saved. Your text is kept here until the page is loaded again.`); }, []);
  useEffect(() => () => { if (shown?.image) URL.revokeObjectURL(shown.image); }, [shown?.image]);
  const soon = useThrottle(() => setVersion((v) => v + 1), 300);
  p.onChanged.current = (path) => {
    if (path === p.info.path) soon();
  };
  const current = shown ?? file.data;

  const save = async (overwrite = false) => {
    const e = editor.current;
    if (!e || busy || p.readOnly) return;
    if (!savable(current)) {
      toast("Not saved", new Error("The page has only a part of this file."));
      return;
    }
    setBusy(true);
    const text = e.text();
    try {
      const res = await send("PUT", pathURL(p.base + "/files", p.info), { body: text, headers: overwrite ? {} : { "If-Match": `"${current.digest}"` } });
      const written = (await res.json()) as { digest: string; info: Info };
      setShown({ ...current, text, digest: written.digest, info: written.info });
      setModified(false);
      setTheirs(false);
      drafts.delete(draft);
      toast(`Saved ${visible(baseName(p.info.path))}`);
    } catch (err) {
      if (err instanceof Problem && (err.status === 412 || err.code === "E_CONFLICT")) setTheirs(true);
      else toast("Not saved", err);
    }
    setBusy(false);
  };
  const takeTheirs = () => {
    setModified(false);
    setTheirs(false);
    dirty.current = false;
    drafts.delete(draft);
    setShown(undefined);
    setVersion((v) => v + 1);
  };
  const download = () =>
    act("", async () => {
      const res = await send("GET", pathURL(p.base + "/files", p.info));
      saveAs(baseName(p.info.path), await res.blob());
    });
  return (
    <>
      <header class="viewer-bar">
        <Button icon="close" label="Close file" kind="plain" small onClick={p.onClose} />
        <span class="file-name mono" title={visible(p.info.path)}>
          {visible(p.info.path)}
          {modified && <b title="Not saved"> •</b>}
        </span>
        {current && (
          <span class="soft number">
            {bytes(current.info.size)} · mode {mode(current.info.mode)} · {date(current.info.mtime)}
          </span>
        )}
        <span class="gap" />
        {p.readOnly && <Tag>read-only</Tag>}
        {!p.readOnly && <Button small onClick={p.onRename}>Move</Button>}
        <Button small icon="download" label="Download" onClick={() => void download()} />
        {!p.readOnly && savable(current) && (
          <Button small kind="primary" disabled={!modified || busy} onClick={() => void save()} title="Ctrl S">
            Save
          </Button>
        )}
      </header>
      {theirs && (
        <div class="conflict" role="alert">
          <Icon name="warn" />
          <p>
            <b>This file changed in the workspace while you edited it.</b> Your text is still here.
          </p>
          <Button small onClick={takeTheirs}>
            Load theirs, drop mine
          </Button>
          <Button small kind="danger" onClick={() => void save(true)}>
            Overwrite with mine
          </Button>
        </div>
      )}
      {file.error !== undefined && !(modified && file.error instanceof Problem && file.error.offline) && <Failure error={file.error} retry={file.reload} />}
      {!current && file.error === undefined && <Loading what="the file" />}
      {current?.partial && <p class="found-note soft">The file is {bytes(current.info.size)}. Its first 256 kB are shown; download it for the rest.</p>}
      {current?.image && <div class="picture"><img src={current.image} alt={visible(baseName(p.info.path))} /></div>}
      {current?.binary && <Empty title="This is no text">{bytes(current.info.size)}. Download it to look at it with another program.</Empty>}
      {current?.text !== undefined && (
        <Editor
          name={p.info.path}
          text={current.text}
          line={p.line}
          readOnly={p.readOnly || !savable(current)}
          onReady={(e) => {
            editor.current = e;
            const kept = drafts.get(draft);
            if (!kept) return;
            dirty.current = true;
            setModified(true);
            setTheirs(kept.of.digest !== current.digest);
            setShown(kept.of);
            e.set(kept.text);
          }}
          onChange={() => {
            const of = shown ?? file.data;
            const text = editor.current?.text();
            if (!of || text === undefined) return;
            setModified(text !== of.text);
            if (text !== of.text) drafts.set(draft, { text, of });
            else drafts.delete(draft);
          }}
          onSave={() => void save()}
        />
      )}
    </>
  );
}

export function saveAs(name: string, blob: Blob): void {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

interface EditorProps {
  name: string;
  text: string;
  line: number;
  readOnly: boolean;
  onReady: (e: { text: () => string; set: (text: string) => void; reveal: (line: number) => void; focus: () => void }) => void;
  onChange: () => void;
  onSave: () => void;
}

/** The editor; its code is loaded when the first file is opened. */
function Editor(p: EditorProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const props = useRef(p);
  props.current = p;
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    let end: (() => void) | undefined;
    let gone = false;
    void import("../editor")
      .then(async (m) => {
        if (gone || !box.current) return;
        const e = await m.openEditor(box.current, {
          name: p.name,
          text: props.current.text,
          readOnly: p.readOnly,
          onChange: () => props.current.onChange(),
          onSave: () => props.current.onSave(),
        });
        end = e.close;
        if (gone) {
          e.close();
          return;
        }
        props.current.onReady(e);
        if (p.line) e.reveal(p.line);
      })
      .catch(setError);
    return () => {
      gone = true;
      end?.();
    };
  }, [p.name, p.readOnly]);
  if (error !== undefined) return <Failure error={error} />;
  return <div class="editor" ref={box} />;
}
