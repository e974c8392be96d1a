import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { type Comparison, del, get, mayRun, post, segment, type SnapshotInfo, type Snapshots as List, ws } from "../api";
import { Diff, fileChanges } from "../diff";
import { useCalls, useLoad, useNow } from "../hooks";
import { fork, title } from "../model";
import { ago, bytes, count, date, visible } from "../text";
import { act, Button, confirm, Dialog, Empty, Failure, Field, Loading, Tag } from "../ui";
import type { TabProps } from "./workspace";

const words: Record<string, string> = { fork: "before a fork", rollback: "before a restore", revert: "before a revert", apply: "before a change", paths: "before a change", undo: "before an undo" };

export function Snapshots({ w }: TabProps): VNode {
  const base = ws(w.id);
  const list = useLoad((s) => get<List>(base + "/snapshots", { origin: true }, s), w.id, 5000);
  useCalls(w.id, list.reload);
  const now = useNow();
  const [taking, setTaking] = useState(false);
  const [chosen, choose] = useState("");
  const [other, setOther] = useState("");
  const [restores, setRestores] = useState(0); // a comparison with now is made again after one
  const rows = list.data?.snapshots ?? [];
  const current = rows.find((s) => s.id === chosen);
  const label = (s: SnapshotInfo) => visible(s.name || s.id.slice(0, 12));
  const restore = async (s: SnapshotInfo) => {
    if (!(await confirm(`Restore snapshot ${label(s)}?`, "The files become those of the snapshot. A snapshot of the present state is taken before, so this can be undone. Processes go on.", "Restore", false))) return;
    await act(`Restored snapshot ${label(s)}`, () => post(`${base}/snapshots/${segment(s.id)}/rollback`), "Not restored");
    list.reload();
    setRestores((n) => n + 1);
  };
  const remove = async (s: SnapshotInfo) => {
    if (!(await confirm(`Delete snapshot ${label(s)}?`, "It can't be restored afterwards. Workspaces that started from it stay.", "Delete"))) return;
    await act("Deleted", () => del(`${base}/snapshots/${segment(s.id)}`), "Not deleted");
    list.reload();
  };
  return (
    <div class="split">
      <div class="split-list">
        <div class="bar-line">
          <span class="soft">{list.data ? count(rows.length, "snapshot") : ""}</span>
          <span class="gap" />
          {mayRun() && (
            <Button icon="camera" small kind="primary" onClick={() => setTaking(true)}>
              Take snapshot
            </Button>
          )}
        </div>
        {list.error !== undefined && !list.data && <Failure error={list.error} retry={list.reload} />}
        {!list.data && list.error === undefined && <Loading what="snapshots" />}
        {list.data && rows.length === 0 && (
          <Empty title="No snapshots yet" command={`croft ws snapshot ${w.name || w.id} before`}>
            A snapshot keeps the files as they are. You can compare with it, go back to it, or open new workspaces from it.
          </Empty>
        )}
        {rows.length > 0 && (
          <ol class="timeline" aria-label="Snapshots, newest first">
            <li class="now">
              <div class="card-line">
                <b>Now</b> <span class="soft">{title(w)} as it is</span>
              </div>
            </li>
            {rows.map((s) => (
              <li key={s.id} class={s.id === chosen ? "chosen" : ""}>
                <div class="card-line">
                  <button type="button" class="link" aria-pressed={s.id === chosen} onClick={() => choose(s.id === chosen ? "" : s.id)}>
                    {label(s)}
                  </button>
                  {s.workspace !== w.id && <Tag>origin</Tag>}
                  {s.labels?.["croft.cause"] && <Tag>{words[s.labels["croft.cause"]] ?? visible(s.labels["croft.cause"])}</Tag>}
                  {s.memory && <Tag>with memory</Tag>}
                  <time class="soft" dateTime={s.created} title={date(s.created)}>
                    {ago(s.created, now)} ago
                  </time>
                </div>
                <div class="card-line soft number">
                  {count(s.files, "file")}, {bytes(s.bytes)}
                  {w.template && s.workspace === w.id ? " beyond the template" : ""}
                  {(s.missingTotal ?? 0) > 0 && <Tag tone="warn">{count(s.missingTotal ?? 0, "file")} missing</Tag>}
                  <span class="gap" />
                  <span class="actions">
                    <Button small onClick={() => choose(s.id)}>
                      Diff
                    </Button>
                    {mayRun() && (
                      <>
                        <Button small onClick={() => void restore(s)}>
                          Restore
                        </Button>
                        <Button small onClick={() => void fork(w, { id: s.id, label: label(s) })}>
                          Fork
                        </Button>
                        {s.workspace === w.id ? <Button small icon="trash" kind="plain" label={`Delete snapshot ${label(s)}`} onClick={() => void remove(s)} /> : <span class="no-button" />}
                      </>
                    )}
                  </span>
                </div>
              </li>
            ))}
          </ol>
        )}
      </div>
      {current && (
        <div class="detail" role="region" aria-label="Difference">
          <header class="viewer-bar">
            <Button icon="close" label="Close" kind="plain" small onClick={() => choose("")} />
            <span>
              <b>{label(current)}</b> compared with
            </span>
            <select aria-label="Compare with" value={other} onChange={(e) => setOther(e.currentTarget.value)}>
              <option value="">now</option>
              {rows
                .filter((s) => s.id !== current.id)
                .map((s) => (
                  <option key={s.id} value={s.id}>
                    {label(s)}, {date(s.created)}
                  </option>
                ))}
            </select>
          </header>
          <Between key={`${current.id} ${other} ${restores}`} base={base} from={current.id} to={other} />
        </div>
      )}
      {taking && (
        <Take
          onClose={() => setTaking(false)}
          onTake={async (name) => {
            if (await act("Snapshot taken", () => post(base + "/snapshots", name ? { name } : {}), "No snapshot was taken")) setTaking(false);
            list.reload();
          }}
        />
      )}
    </div>
  );
}

function Between({ base, from, to }: { base: string; from: string; to: string }): VNode {
  const diff = useLoad((s) => get<Comparison>(base + "/diff", { text: true, from, to, crossSession: true }, s), `${from} ${to}`);
  if (diff.error !== undefined) return <Failure error={diff.error} retry={diff.reload} />;
  if (!diff.data) return <Loading what="the difference" />;
  const changes = fileChanges(diff.data.changes ?? []);
  if (changes.length === 0) return <Empty title="No difference" />;
  return (
    <>
      <p class="found-note soft number">
        {count(changes.length, "file")} <span class="plus">+{diff.data.stats.linesAdded}</span> <span class="minus">−{diff.data.stats.linesRemoved}</span>
      </p>
      <Diff changes={changes} />
    </>
  );
}

function Take({ onClose, onTake }: { onClose: () => void; onTake: (name: string) => void }): VNode {
  const [name, setName] = useState("");
  return (
    <Dialog title="Take snapshot" onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          onTake(name.trim());
        }}
      >
        <div class="body">
          <Field label="Name" hint="Optional.">
            <input value={name} autoFocus onInput={(e) => setName(e.currentTarget.value)} />
          </Field>
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            Take
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
