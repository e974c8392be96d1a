import { type ComponentType, type VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { del, get, mayRun, type NewShare, post, Problem, segment, type Shares, who, ws } from "../api";
import { useCalls, useEvents, useLoad, useNow, useThrottle } from "../hooks";
import { destroy, fork, live, pause, reset, resume, type Row, title } from "../model";
import { go, href, type Route } from "../router";
import { ago, date, visible } from "../text";
import { act, Button, Dialog, Empty, Failure, Field, Loading, Snippet, State, Tabs, Tag } from "../ui";
import { Connect } from "./connect";
import { Events } from "./events";
import { Files } from "./files";
import { Network } from "./network";
import { Processes } from "./processes";
import { Review } from "./review";
import { Snapshots } from "./snapshots";
import { Terminals } from "./terminal";
import { Usage } from "./usage";

export interface TabProps {
  w: Row;
  route: Route;
  reload: () => void;
}

// live is a part that a paused workspace can't show: its files and processes are frozen.
export const tabs: { id: string; label: string; icon: string; view: ComponentType<TabProps>; live?: boolean }[] = [
  { id: "files", label: "Files", icon: "folder", view: Files, live: true },
  { id: "terminal", label: "Terminal", icon: "terminal", view: Terminals, live: true },
  { id: "processes", label: "Processes", icon: "process", view: Processes, live: true },
  { id: "review", label: "Review", icon: "review", view: Review, live: true },
  { id: "snapshots", label: "Snapshots", icon: "camera", view: Snapshots },
  { id: "network", label: "Network", icon: "globe", view: Network },
  { id: "events", label: "Events", icon: "list", view: Events },
  { id: "usage", label: "Usage", icon: "gauge", view: Usage, live: true },
  { id: "connect", label: "Connect", icon: "plug", view: Connect },
];

export function WorkspaceView({ id, tab, route }: { id: string; tab: string; route: Route }): VNode {
  const one = useLoad((s) => get<Row>(ws(id), undefined, s), id, 4000);
  const soon = useThrottle(one.reload, 200);
  useEvents((e) => {
    if (e.workspace === one.data?.id && e.event === "lifecycle.workspace.state") soon();
  });
  useCalls(one.data?.id ?? "", one.reload);
  const now = useNow();
  const [sharing, setSharing] = useState(false);
  // A tab is left as it was, with its open file, and comes back so.
  const places = useRef(new Map<string, string>());
  places.current.set(`${id}/${tab}`, location.hash);
  const w = one.data;
  useEffect(() => {
    if (w) document.title = `${title(w)} – Croft`;
  }, [w?.id, w?.name]);
  // It was there, and another tab or program destroyed it.
  if (w && (w.state === "destroyed" || (one.error instanceof Problem && one.error.status === 404)))
    return (
      <div class="page">
        <Empty title={`${title(w)} was destroyed`} action={<a href="#/workspaces">To the workspaces</a>}>
          Its files and processes are gone. Its snapshots stay in the store until they are deleted.
        </Empty>
      </div>
    );
  if (!w)
    return (
      <div class="page">
        {one.loading && !one.error ? <Loading what="the workspace" /> : null}
        {one.error !== undefined && (
          <>
            <Failure error={one.error} retry={one.reload} />
            <p>
              <a href="#/workspaces">To the workspaces</a>
            </p>
          </>
        )}
      </div>
    );
  const current = tabs.find((t) => t.id === tab) ?? tabs[0];
  const View = current?.view ?? Files;
  const then = one.reload;
  return (
    <div class="page fill workspace">
      <header class="head">
        <div class="crumbs">
          <a href="#/workspaces">Workspaces</a>
          <span aria-hidden="true">/</span>
          <h1>{title(w)}</h1>
        </div>
        <State name={w.state} />
        <span class="facts">
          {w.name && <span class="mono">{w.id}</span>}
          <span>{visible(w.kind)}</span>
          {w.template && <span>from {visible(w.template)}</span>}
          <span title={date(w.createdAt)}>{ago(w.createdAt, now)} old</span>
          {w.policy.readOnly && <Tag>read-only</Tag>}
        </span>
        <span class="gap" />
        {mayRun() && (
          <span class="actions">
            {w.state === "paused" ? (
              <Button icon="play" onClick={() => void resume([w]).then(then)}>
                Resume
              </Button>
            ) : w.state === "failed" ? (
              <Button icon="refresh" onClick={() => void reset([w]).then(then)}>
                Reset
              </Button>
            ) : (
              <Button icon="pause" disabled={!live.has(w.state)} onClick={() => void pause([w]).then(then)}>
                Pause
              </Button>
            )}
            <Button icon="fork" onClick={() => void fork(w)}>
              Fork
            </Button>
            <Button icon="share" onClick={() => setSharing(true)}>
              Share
            </Button>
            <Button icon="trash" kind="danger" label="Destroy" onClick={() => void destroy([w]).then((yes) => yes && go("/workspaces"))} />
          </span>
        )}
      </header>
      {w.error && <Failure error={new Error(`${w.error.message} (${w.error.code})`)} />}
      <Tabs label="Parts of the workspace" current={current?.id ?? ""} items={tabs.filter((t) => !who.workspace || t.id !== "connect").map(({ id: part, label, icon }) => ({ id: part, label, icon, href: (part !== current?.id && places.current.get(`${id}/${part}`)) || href("w", id, part) }))} />
      <section class="tab-body" aria-label={current?.label}>
        {w.state === "paused" && current?.live ? (
          <Empty
            title="This workspace is paused"
            action={
              mayRun() && (
                <Button icon="play" kind="primary" onClick={() => void resume([w]).then(then)}>
                  Resume
                </Button>
              )
            }
          >
            Its processes are frozen and use no CPU. Resume it to see its files and to go on.
          </Empty>
        ) : (
          <View key={tab} w={w} route={route} reload={one.reload} />
        )}
      </section>
      {sharing && <Share w={w} onClose={() => setSharing(false)} />}
    </div>
  );
}

function Share({ w, onClose }: { w: Row; onClose: () => void }): VNode {
  const list = useLoad((s) => get<Shares>(ws(w.id, "/shares"), undefined, s), w.id);
  const [expires, setExpires] = useState("24h");
  const [made, setMade] = useState("");
  const make = () =>
    act(
      "",
      async () => {
        const s = await post<NewShare>(ws(w.id, "/shares"), { expires });
        setMade(location.origin + s.path);
        list.reload();
      },
      "No link was made",
    );
  const valid = (list.data?.shares ?? []).filter((s) => !s.revokedAt && Date.parse(s.expiresAt) > Date.now());
  return (
    <Dialog title={`Share ${title(w)}`} onClose={onClose}>
      <div class="body">
        <p>Whoever has the link sees this workspace until the link expires: its files, changes, snapshots, terminals, processes, network requests and events. They can change nothing.</p>
        <div class="bar-line">
          <Field label="Expires after">
            <select value={expires} onChange={(e) => setExpires(e.currentTarget.value)}>
              <option value="1h">1 hour</option>
              <option value="24h">1 day</option>
              <option value="168h">7 days</option>
            </select>
          </Field>
          <Button kind="primary" onClick={() => void make()}>
            Make link
          </Button>
        </div>
        {made && <Snippet text={made} label="share link" />}
        {made && <p class="soft">The link is shown only now.</p>}
        {valid.length > 0 && (
          <ul class="plain-list" aria-label="Valid links">
            {valid.map((s) => (
              <li key={s.id}>
                <span class="mono">{s.id}</span> <span class="soft">until {date(s.expiresAt)}</span>
                <Button small onClick={() => void act("Revoked", () => del(ws(w.id, "/shares/" + segment(s.id)))).then(list.reload)}>
                  Revoke
                </Button>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Dialog>
  );
}
