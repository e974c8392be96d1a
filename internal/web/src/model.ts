// What the API's types say of a workspace, in the words of the page.

import { act, ask, confirm, namePattern } from "./ui";
import * as api from "./api";
import { go, href } from "./router";
import { count, visible } from "./text";

/** A workspace of the list. */
export type Row = api.Workspace;

export function title(w: { id: string; name?: string }): string {
  return visible(w.name || w.id);
}

export const live = new Set(["ready", "evicted", "closed", "intended", "opening"]);

/** Runs an action on several workspaces at once, and says for how many it failed. */
async function each(rows: Row[], verb: string, f: (w: Row) => Promise<unknown>): Promise<void> {
  const results = await Promise.allSettled(rows.map(f));
  const bad = results.filter((r): r is PromiseRejectedResult => r.status === "rejected");
  await act(bad.length === 0 ? `${verb} ${rows.length === 1 && rows[0] ? title(rows[0]) : count(rows.length, "workspace")}` : "", async () => {
    if (bad[0]) throw bad[0].reason;
  }, bad.length === rows.length ? `Not ${verb.toLowerCase()}` : `${bad.length} of ${rows.length} not ${verb.toLowerCase()}`);
}

export const pause = (rows: Row[]) => each(rows, "Paused", (w) => api.post(api.ws(w.id, "/pause")));
export const resume = (rows: Row[]) => each(rows, "Resumed", (w) => api.post(api.ws(w.id, "/resume")));
export const reset = (rows: Row[]) => each(rows, "Reset", (w) => api.post(api.ws(w.id, "/reset")));

/** A name that no workspace of the list has, made of one that is taken. */
function freeName(base: string, taken: Set<string | undefined>): string {
  const cut = base.slice(0, 56); // a name has at most 63 letters
  for (let n = 1; ; n++) {
    const name = n === 1 ? `${cut}-fork` : `${cut}-fork${n}`;
    if (!taken.has(name)) return name;
  }
}

/** Asks for the name of a fork, opens it from a snapshot or from the present state, and goes there. */
export async function fork(w: Row, snapshot?: { id: string; label: string }): Promise<void> {
  const list = await api.get<{ workspaces: Row[] | null }>("/v1/workspaces").catch(() => ({ workspaces: null }));
  const taken = new Set((list.workspaces ?? []).map((o) => o.name));
  ask({
    title: snapshot ? `Fork ${title(w)} from ${snapshot.label}` : `Fork ${title(w)}`,
    label: "Name of the fork",
    hint: `The new workspace starts with the files ${snapshot ? "of the snapshot" : "as they are now"}. Without a name it has an id only.`,
    initial: freeName(w.name || w.id, taken),
    pattern: namePattern,
    verb: "Fork",
    run: (name) =>
      act(
        "",
        async () => {
          const f = await api.post<api.Forked>(api.ws(w.id, "/fork"), { ...(name ? { name } : {}), ...(snapshot ? { snapshot: snapshot.id } : {}) });
          const made = f.workspaces?.[0];
          if (made) go(href("w", made.id));
        },
        "The workspace was not forked",
      ),
  });
}

/** Forks several workspaces; the server names the forks by their ids. */
export const forkAll = (rows: Row[]) => each(rows, "Forked", (w) => api.post(api.ws(w.id, "/fork"), {}));

export async function destroy(rows: Row[]): Promise<boolean> {
  const what = rows.length === 1 && rows[0] ? title(rows[0]) : count(rows.length, "workspace");
  const yes = await confirm(`Destroy ${what}?`, "All files and processes in it end for good. Snapshots stay in the store.", "Destroy");
  if (yes) await each(rows, "Destroyed", (w) => api.del(api.ws(w.id)));
  return yes;
}
