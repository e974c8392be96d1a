import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type Event, url } from "../api";
import { clock, count, date, visible } from "../text";
import { Button, Choice, Empty, Failure, Loading, Rows, Search, Tag } from "../ui";
import type { TabProps } from "./workspace";

const most = 5000;

/** The kept events of a workspace, and new ones as they come. */
export function useStream(workspace: string, kind?: string): { events: Event[]; error?: unknown; ready: boolean } {
  const [state, set] = useState<{ events: Event[]; error?: unknown; ready: boolean }>({ events: [], ready: false });
  useEffect(() => {
    let source: EventSource | undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    let list: Event[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const draw = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        set({ events: list, ready: true });
      }, 120);
    };
    const start = () => {
      clearTimeout(retry);
      source?.close();
      source = undefined;
      if (document.hidden) return;
      list = [];
      source = new EventSource(url("/events", { workspace, after: 0, ...(kind ? { kind: [kind] } : {}) }));
      source.onopen = draw;
      source.onmessage = (m) => {
        try {
          list = [...list.slice(-most + 1), JSON.parse(String(m.data)) as Event];
        } catch {
          return;
        }
        draw();
      };
      source.onerror = () => {
        source?.close();
        source = undefined;
        retry = setTimeout(start, 2000);
      };
    };
    start();
    document.addEventListener("visibilitychange", start);
    return () => {
      document.removeEventListener("visibilitychange", start);
      clearTimeout(retry);
      clearTimeout(timer);
      source?.close();
    };
  }, [workspace, kind]);
  return state;
}

export function fieldText(v: unknown): string {
  return visible(typeof v === "string" ? v : JSON.stringify(v));
}

/** One event, or several of the same content that follow each other, as the keys that are typed in a terminal. */
export interface Run {
  last: Event;
  text: string;
  count: number;
}

/** The runs of a list of events. */
export function runsOf(events: Event[]): Run[] {
  const out: Run[] = [];
  for (const e of events) {
    const text = summary(e);
    const before = out[out.length - 1];
    if (before && before.last.event === e.event && before.text === text) {
      before.last = e;
      before.count++;
    } else out.push({ last: e, text, count: 1 });
  }
  return out;
}

/** An event in one line of words. */
export function summary(e: Event): string {
  const f = (e.fields ?? {}) as Record<string, unknown>;
  const s = (k: string) => (f[k] === undefined ? "" : fieldText(f[k]));
  const failed = f.code ? ` – ${s("message") || s("code")}` : "";
  switch (e.event) {
    case "lifecycle.workspace.state":
      return `${s("from") || "–"} → ${s("to")}${failed}`;
    case "workspace.operation":
      return `${s("verb")} ${s("path") || s("command")}${failed}`;
    case "egress.request":
      return `${s("verdict")} ${s("method")} ${s("host")}${f.port ? ":" + s("port") : ""} ${s("reason")}`;
    case "tool.call":
      return `${s("tool")} ${s("path") || s("command")}${failed}`;
    case "event.dropped":
      return `${s("count")} events are missing${f.reason === "expired" ? ": the server keeps the latest ones, and none from before it started" : `: ${s("reason")}`}`;
    case "api.call":
      return `${s("method")} ${s("route")} ${s("target")} → ${s("status")}, key ${s("key")}`;
  }
  return Object.entries(f)
    .map(([k, v]) => `${k}=${fieldText(v)}`)
    .join(" ");
}

export function Events({ w }: TabProps): VNode {
  const stream = useStream(w.id);
  const [filter, setFilter] = useState("");
  const [kind, setKind] = useState("");
  const [open, setOpen] = useState<Event>();
  const kinds = [...new Set(stream.events.map((e) => e.event))].sort();
  const rows = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    return stream.events.filter((e) => (!kind || e.event === kind) && words.every((x) => JSON.stringify(e).toLowerCase().includes(x)));
  }, [stream.events, filter, kind]);
  const runs = useMemo(() => runsOf(rows), [rows]);
  return (
    <div class="split">
      <div class="split-list">
        <div class="bar-line">
          <Search value={filter} onInput={setFilter} label="Filter events" />
          <Choice label="Kind" value={kind} onChange={setKind} options={[["", "Every kind"], ...kinds.map((k): [string, string] => [k, k])]} />
          <span class="soft number">{count(rows.length, "event")}</span>
        </div>
        <Failure error={stream.error} />
        {!stream.ready && <Loading what="events" />}
        {stream.ready && rows.length === 0 && <Empty title="No events" command={`croft events --workspace ${w.name || w.id}`}>Every operation in the workspace is an event, whoever does it. The server keeps the latest ones; this also follows them:</Empty>}
        {rows.length > 0 && (
          <Rows
            class="events"
            label="Events"
            height={28}
            count={runs.length}
            follow
            row={(i) => {
              const run = runs[i];
              if (!run) return <div key={i} />;
              const e = run.last;
              const code = (e.fields as Record<string, unknown> | undefined)?.code;
              const bad = (!!code && !/cancel/i.test(String(code))) || (e.fields as Record<string, unknown> | undefined)?.verdict === "deny";
              return (
                <button type="button" key={e.sequence} class={`event ${bad ? "bad" : ""} ${open?.sequence === e.sequence ? "cursor" : ""}`} onClick={() => setOpen(e)}>
                  <time dateTime={e.ts} title={date(e.ts)}>
                    {clock(e.ts)}
                  </time>
                  <span class="event-kind">{visible(e.event)}</span>
                  <span class="cut mono">{run.text}</span>
                  {run.count > 1 && <Tag>{run.count} times</Tag>}
                </button>
              );
            }}
          />
        )}
      </div>
      {open && (
        <div class="detail narrow" role="region" aria-label="Event">
          <header class="viewer-bar">
            <Button icon="close" label="Close" kind="plain" small onClick={() => setOpen(undefined)} />
            <b>{visible(open.event)}</b>
            <span class="soft number">#{open.sequence}</span>
          </header>
          <dl class="facts-table">
            <dt>time</dt>
            <dd>{visible(open.ts)}</dd>
            {open.session && (
              <>
                <dt>session</dt>
                <dd class="mono">{visible(open.session)}</dd>
              </>
            )}
            {Object.entries((open.fields ?? {}) as Record<string, unknown>).map(([k, v]) => (
              <>
                <dt>{visible(k)}</dt>
                <dd class="mono">{fieldText(v)}</dd>
              </>
            ))}
          </dl>
        </div>
      )}
    </div>
  );
}
