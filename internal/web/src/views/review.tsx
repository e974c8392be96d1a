import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { type Applied, type Comparison, type FileChange, get, type LeftOut, mayAdmin, mayRun, post, Problem, send, type Snapshots, who, ws } from "../api";
import { ChangeLetter, Diff, fileChanges } from "../diff";
import { useLoad } from "../hooks";
import { href } from "../router";
import { ago, count, visible } from "../text";
import { act, Button, confirm, Dialog, Empty, Failure, Field, Loading, Rows, Search, Tag, toast } from "../ui";
import { saveAs } from "./files";
import type { TabProps } from "./workspace";

// What is rejected: whole files, and hunks by number. Everything else is accepted.
interface Rejected {
  files: Set<string>;
  hunks: Map<string, Set<number>>;
}

/** Changes as the API takes them: files whole, and hunks of files. */
interface Selection {
  paths: string[]; // with those of hunks
  old: string[]; // old paths of renamed files, which go with the new ones
  hunks?: Record<string, number[]>;
  shown: Record<string, string>; // as the API checks that nothing has changed meanwhile
  whole: boolean; // everything is selected
}

/** What of the changes is accepted, or what is rejected. */
function selection(changes: FileChange[], rejected: Rejected, accepted: boolean): Selection {
  const paths: string[] = [];
  const old: string[] = [];
  const hunks: Record<string, number[]> = {};
  const shown: Record<string, string> = {};
  let whole = true;
  for (const c of changes) {
    const numbers = Array.from({ length: c.hunks?.length ?? 0 }, (_, i) => i + 1);
    const without = rejected.files.has(c.path) ? new Set(numbers) : rejected.hunks.get(c.path);
    const all = rejected.files.has(c.path) || (!!without?.size && without.size === numbers.length);
    if (accepted ? all : !all && !without?.size) {
      whole = false;
      continue;
    }
    paths.push(c.path);
    if (c.from) old.push(c.from);
    shown[c.path] = c.new?.digest || c.new?.target || "";
    if (!all && without?.size) {
      whole = false;
      hunks[c.path] = numbers.filter((n) => without.has(n) !== accepted);
    }
  }
  return { paths, old, shown, whole, ...(Object.keys(hunks).length > 0 ? { hunks } : {}) };
}

/** The name of the only file of a selection, with how many of its hunks, or how many files there are. */
function named({ paths, hunks }: Selection): string {
  const only = paths.length === 1 ? paths[0] : undefined;
  if (only === undefined) return count(paths.length, "file");
  return hunks?.[only] ? `${count(hunks[only].length, "hunk")} of ${visible(only)}` : visible(only);
}

/**
 * The paths of a selection that are reverted whole, with the directories that they imply. A
 * directory goes with all that is in it, so one with accepted changes, or with files that the
 * review does not show, stays.
 */
function withDirectories(all: FileChange[], files: FileChange[], of: Selection, leftOut: LeftOut[]): string[] {
  const shown = new Set(files);
  const chosen = new Set([...of.paths.filter((p) => !of.hunks?.[p]), ...of.old]);
  const hides = (dir: string) => leftOut.some((l) => l.total > (l.paths?.length ?? 0) || l.paths?.some((p) => p.startsWith(dir + "/")));
  const dirs = all.filter((c) => !shown.has(c) && !hides(c.path) && files.every((f) => !f.path.startsWith(c.path + "/") || chosen.has(f.path)));
  return [...chosen, ...dirs.map((c) => c.path)];
}

export function Review({ w, route }: TabProps): VNode {
  const base = ws(w.id);
  const [from, setFrom] = useState(route.query.get("from") ?? "");
  const [ignored, setIgnored] = useState(false);
  const [filter, setFilter] = useState("");
  const [out, setOut] = useState<Rejected>({ files: new Set(), hunks: new Map() });
  const [show, setShow] = useState<string>();
  const [applying, setApplying] = useState(false);
  const snapshots = useLoad((s) => get<Snapshots>(base + "/snapshots", { limit: 50 }, s), w.id);
  const diff = useLoad((s) => get<Comparison>(base + "/diff", { text: true, from, ignored }, s), `${w.id} ${from} ${ignored}`);
  const none = from === "" && diff.error instanceof Problem && diff.error.code === "E_NOT_FOUND";
  const entries = diff.data?.changes ?? [];
  const all = useMemo(() => fileChanges(entries), [diff.data]);
  const changes = useMemo(() => all.filter((c) => c.path.toLowerCase().includes(filter.toLowerCase())), [all, filter]);
  const chosen = selection(all, out, true);
  const rejected = selection(all, out, false);
  const toggleFile = (path: string) => {
    const files = new Set(out.files);
    const hunks = new Map(out.hunks);
    if (!files.delete(path) && chosen.paths.includes(path)) files.add(path);
    hunks.delete(path);
    setOut({ files, hunks });
  };
  const toggleHunk = (path: string, n: number) => {
    const hunks = new Map(out.hunks);
    const set = new Set(hunks.get(path));
    if (!set.delete(n)) set.add(n);
    if (set.size > 0) hunks.set(path, set);
    else hunks.delete(path);
    setOut({ files: out.files, hunks });
  };
  const acceptAll = () => setOut({ files: new Set(), hunks: new Map() });
  const rejectAll = () => setOut({ files: new Set(all.map((c) => c.path)), hunks: new Map() });
  const patch = () =>
    act("", async () => {
      const hunk = Object.entries(chosen.hunks ?? {}).flatMap(([p, list]) => list.map((n) => `${p}:${n}`));
      const res = await send("GET", base + "/patch", { query: { from, path: chosen.whole ? undefined : [...chosen.paths, ...chosen.old], hunk } });
      saveAs(`${w.name || w.id}.patch`, await res.blob());
    }, "No patch was made");
  const revert = async () => {
    const what = named(rejected);
    if (!(await confirm(`Revert ${what}?`, "The rejected changes are removed from the workspace. A snapshot of its present state is taken first, so you can go back.", "Revert"))) return;
    await act(
      "",
      async () => {
        await post(base + "/revert", {
          from,
          paths: withDirectories(entries, all, rejected, left), // a path is all of its hunks
          ...(rejected.hunks ? { hunks: rejected.hunks } : {}),
          shown: rejected.shown,
        });
        toast(`Reverted ${what}`, undefined, { href: href("w", w.id, "snapshots"), text: "The state before is a snapshot" });
        acceptAll();
        diff.reload();
        snapshots.reload();
      },
      "Nothing was reverted",
    );
  };
  const accept = (c: FileChange) => ({ checked: chosen.paths.includes(c.path), indeterminate: !!chosen.hunks?.[c.path], onChange: () => toggleFile(c.path) });
  const inPart = Object.keys(chosen.hunks ?? {}).length;
  const left = diff.data?.leftOut ?? [];
  return (
    <div class="review">
      <div class="bar-line">
        <label class="inline">
          <span>Changes since</span>
          <select
            value={(snapshots.data?.snapshots ?? []).find((s) => s.id === from || s.name === from)?.id ?? from}
            onChange={(e) => {
              setFrom(e.currentTarget.value);
              acceptAll();
            }}
          >
            <option value="">{w.template ? `the template ${w.template}` : w.snapshot || w.dir ? "the workspace started" : "your last snapshot"}</option>
            {(snapshots.data?.snapshots ?? []).map((s) => (
              <option key={s.id} value={s.id}>
                snapshot {visible(s.name || s.id.slice(0, 12))}, {ago(s.created)} ago
              </option>
            ))}
          </select>
        </label>
        <label class="inline check" title="Also what .gitignore excludes">
          <input type="checkbox" checked={ignored} onChange={(e) => setIgnored(e.currentTarget.checked)} /> <span>with ignored files</span>
        </label>
        <Button small icon="refresh" label="Compare again" onClick={diff.reload} />
        {all.length > 0 && diff.data && (
          <span class="soft number" role="status">
            {chosen.whole ? count(all.length, "file") : `${chosen.paths.length} of ${all.length} accepted${inPart ? `, ${inPart} in part` : ""}`} <span class="plus">+{diff.data.stats.linesAdded}</span> <span class="minus">−{diff.data.stats.linesRemoved}</span>
          </span>
        )}
        <span class="gap" />
        {all.length > 0 && (
          <>
            {mayRun() && (
              <Button small icon="undo" onClick={() => void revert()} disabled={rejected.paths.length === 0} title={rejected.paths.length === 0 ? "Reject files or hunks first: untick them" : undefined}>
                Revert rejected
              </Button>
            )}
            <Button small icon="download" onClick={() => void patch()} disabled={chosen.paths.length === 0} title="Download what is accepted, for git apply">
              Patch
            </Button>
            {mayAdmin() && who.operator && (
              <Button small kind="primary" onClick={() => setApplying(true)} disabled={chosen.paths.length === 0}>
                Apply to host …
              </Button>
            )}
          </>
        )}
      </div>
      {none ? (
        <Empty
          title="There is nothing to compare with yet"
          command={`croft ws snapshot ${w.name || w.id} before`}
          action={
            mayRun() && (
              <Button icon="camera" onClick={() => void act("Snapshot taken", () => post(base + "/snapshots", {}), "No snapshot was taken").then(() => { snapshots.reload(); diff.reload(); })}>
                Take snapshot
              </Button>
            )
          }
        >
          The workspace started empty and has no snapshot. Take one now: from then on this view shows what has changed since.
        </Empty>
      ) : (
        diff.error !== undefined && <Failure error={diff.error} retry={diff.reload} />
      )}
      {!diff.data && diff.error === undefined && <Loading what="the changes" />}
      {diff.data && all.length === 0 && (
        <Empty title="Nothing has changed" command={`croft ws diff ${w.name || w.id}`}>
          {from || !(w.template || w.snapshot || w.dir) ? "The files are those of the snapshot." : "The files are those that the workspace started from."} {left.length > 0 && "What .gitignore excludes is left out."}
        </Empty>
      )}
      {all.length > 0 && (
        <div class="review-body">
          <div class="review-files">
            <div class="explorer-bar">
              <Search value={filter} onInput={setFilter} label="Filter files" />
              <Button small kind="plain" onClick={chosen.paths.length > 0 ? rejectAll : acceptAll}>
                {chosen.paths.length > 0 ? "Reject all" : "Accept all"}
              </Button>
            </div>
            <Rows
              class="tree"
              label="Changed files"
              height={28}
              count={changes.length}
              row={(i) => {
                const c = changes[i];
                if (!c) return <div key={i} />;
                return (
                  <div key={c.path} class={`review-file ${show === c.path ? "cursor" : ""}`}>
                    <input type="checkbox" {...accept(c)} aria-label={`Accept ${visible(c.path)}`} />
                    <button type="button" onClick={() => setShow(c.path)} title={visible(c.path)}>
                      <ChangeLetter kind={c.kind} />
                      <span class="file-name">{visible(c.path)}</span>
                      <small>
                        {c.linesAdded ? <span class="plus">+{c.linesAdded}</span> : null} {c.linesRemoved ? <span class="minus">−{c.linesRemoved}</span> : null}
                      </small>
                    </button>
                  </div>
                );
              }}
            />
            {left.map((l) => (
              <p key={l.reason} class="found-note soft" title={(l.paths ?? []).map(visible).join("\n")}>
                {count(l.total, "path")} left out: {visible(l.reason)}
              </p>
            ))}
          </div>
          <Diff
            changes={changes}
            show={show}
            fileEnd={(c) => (
              <>
                {c.new?.type === "file" && (
                  <a class="quiet" href={`${href("w", w.id, "files")}?path=${encodeURIComponent(c.path)}`}>
                    open
                  </a>
                )}
                <label class="accept">
                  <input type="checkbox" {...accept(c)} /> accept <span class="hidden">{visible(c.path)}</span>
                </label>
              </>
            )}
            hunkEnd={(c, n) =>
              !out.files.has(c.path) && (c.hunks?.length ?? 0) > 1 ? (
                <label class="accept">
                  <input type="checkbox" checked={!out.hunks.get(c.path)?.has(n)} onChange={() => toggleHunk(c.path, n)} /> accept <span class="hidden">hunk {n} of {visible(c.path)}</span>
                </label>
              ) : out.files.has(c.path) ? (
                <Tag>rejected</Tag>
              ) : null
            }
          />
        </div>
      )}
      {applying && <ApplyDialog base={base} from={from} chosen={chosen} total={all.length} onClose={() => setApplying(false)} />}
    </div>
  );
}

function ApplyDialog({ base, from, chosen, total, onClose }: { base: string; from: string; chosen: Selection; total: number; onClose: () => void }): VNode {
  const roots = useLoad((s) => get<{ roots: string[] | null }>("/v1/host-roots", undefined, s), "roots");
  const list = roots.data?.roots ?? [];
  const [dir, setDir] = useState("");
  const [result, setResult] = useState<Applied & { dry: boolean }>();
  const [busy, setBusy] = useState(false);
  const run = async (dryRun: boolean) => {
    setBusy(true);
    await act(
      "",
      async () => {
        const r = await post<Applied>(base + "/apply-to-host", { dir: dir || list[0], from, ...(chosen.whole ? {} : { paths: [...chosen.paths, ...chosen.old] }), ...(chosen.hunks ? { hunks: chosen.hunks } : {}), shown: chosen.shown, ...(dryRun ? { dryRun } : {}) });
        setResult({ ...r, dry: dryRun });
        if (r.done && !dryRun) toast(`Applied ${count(r.applied?.length ?? 0, "file")}`);
      },
      "Nothing was applied",
    );
    setBusy(false);
  };
  const conflicts = result?.conflicts ?? [];
  return (
    <Dialog title="Apply to a directory of the host" onClose={onClose}>
      <div class="body">
        {roots.data && list.length === 0 && (
          <Empty title="No host directory is configured" command={"# croft.yaml\nhostRoots: [/srv/projects]"}>
            Name the directories that may be written from here in the server's configuration:
          </Empty>
        )}
        <Failure error={roots.error} />
        {list.length > 0 && (
          <>
            <p>
              {chosen.whole ? count(total, "file") : `${chosen.paths.length} of ${count(total, "file")}`} will be merged into the directory. On a conflict nothing is written.
            </p>
            <Field label="Directory" hint={`In ${list.join(", ")}`}>
              <input value={dir || list[0]} spellcheck={false} onInput={(e) => setDir(e.currentTarget.value)} />
            </Field>
          </>
        )}
        {result && (
          <div role="status">
            {conflicts.length > 0 ? (
              <>
                <p>
                  <b>{count(conflicts.length, "conflict")}; nothing was written.</b>
                </p>
                <ul class="plain-list">
                  {conflicts.slice(0, 50).map((c) => (
                    <li key={c.path}>
                      <span class="mono">{visible(c.path)}</span> <span class="soft">{visible(c.reason)}</span>
                    </li>
                  ))}
                </ul>
              </>
            ) : (
              <p>
                <b>{result.dry ? `Would change ${count(result.applied?.length ?? 0, "file")}, without a conflict.` : `Changed ${count(result.applied?.length ?? 0, "file")}.`}</b>
              </p>
            )}
          </div>
        )}
      </div>
      <footer>
        <Button onClick={onClose}>Close</Button>
        <Button disabled={busy || list.length === 0} onClick={() => void run(true)} title="Says what would change, and writes nothing">
          Dry run
        </Button>
        <Button kind="primary" disabled={busy || list.length === 0} onClick={() => void run(false)}>
          Apply
        </Button>
      </footer>
    </Dialog>
  );
}
