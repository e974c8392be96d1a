import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { del, get, mayAdmin, mayRun, segment, type Template, type Templates as List } from "../api";
import { useLoad, useNow } from "../hooks";
import { go, href } from "../router";
import { ago, bytes, clock, count, date, visible } from "../text";
import { act, Bar, Button, type Column, confirm, Empty, Failure, Loading, Search, Table } from "../ui";
import { OpenWorkspace } from "./workspaces";

// Builds of templates are part of E2B's API, which this server has, too.
interface E2BTemplate {
  templateID: string;
  names?: string[] | null;
  aliases?: string[] | null;
  buildStatus?: string;
}
interface Build {
  buildID: string;
  status: string;
  createdAt: string;
  finishedAt?: string;
}
interface BuildLog {
  timestamp: string;
  message: string;
  level?: string;
}

/** The newest build of a template, with its log; none where it was not built by steps. */
async function lastBuild(name: string, signal: AbortSignal): Promise<{ build: Build; logs: BuildLog[] } | undefined> {
  const list = await get<E2BTemplate[]>("/templates", undefined, signal);
  const t = list.find((x) => x.templateID === name || x.names?.includes(name) || x.aliases?.includes(name));
  if (!t) return undefined;
  const path = "/templates/" + segment(t.templateID);
  const builds = (await get<{ builds?: Build[] | null }>(path, undefined, signal)).builds ?? [];
  const build = [...builds].sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1))[0];
  if (!build) return undefined;
  const { logs } = await get<{ logs: BuildLog[] | null }>(`${path}/builds/${segment(build.buildID)}/logs`, { limit: 100 }, signal);
  return { build, logs: logs ?? [] };
}

export function Templates({ name }: { name?: string }): VNode {
  const list = useLoad((s) => get<List>("/v1/templates", undefined, s), "templates", 5000);
  const now = useNow();
  const [filter, setFilter] = useState("");
  const all = list.data?.templates ?? [];
  const rows = all.filter((t) => `${t.name} ${t.source}`.toLowerCase().includes(filter.toLowerCase()));
  const columns: Column<Template>[] = [
    { id: "name", label: "Name", sort: (t) => t.name, cell: (t) => <a href={href("templates", t.name)}>{visible(t.name)}</a> },
    { id: "source", label: "Made of", sort: (t) => t.source, cell: (t) => <span class="mono cut" title={visible(t.source)}>{visible(t.source)}</span>, wide: true },
    { id: "files", label: "Files", number: true, sort: (t) => t.files, cell: (t) => t.files.toLocaleString("en"), wide: true },
    { id: "bytes", label: "Size", number: true, sort: (t) => t.bytes, cell: (t) => bytes(t.bytes) },
    { id: "age", label: "Age", number: true, sort: (t) => -Date.parse(t.created), cell: (t) => <time dateTime={t.created} title={date(t.created)}>{ago(t.created, now)}</time> },
  ];
  return (
    <div class="page fill">
      <header class="head">
        <h1>Templates</h1>
        <span class="soft number">{list.data ? count(all.length, "template") : ""}</span>
      </header>
      <div class="split">
        <div class="split-list">
          <div class="bar-line">
            <Search id="filter" value={filter} onInput={setFilter} label="Filter by name or source" />
          </div>
          {list.error !== undefined && !list.data && <Failure error={list.error} retry={list.reload} />}
          {!list.data && list.error === undefined && <Loading what="templates" />}
          {list.data && all.length === 0 && (
            <Empty title="No templates yet" command={"croft template create app --dir ./app\ncroft ws open --template app first"}>
              A template is a prepared directory that workspaces start from: copied on write, so that a thousand of them cost little. Make one of a directory, a snapshot, a Git repository or an image:
            </Empty>
          )}
          {rows.length > 0 && <Table label="Templates" rows={rows} columns={columns} id={(t) => t.name} onOpen={(t) => go(href("templates", t.name))} initial="name" />}
        </div>
        {name && <One key={name} name={name} reload={list.reload} />}
      </div>
    </div>
  );
}

function One({ name, reload }: { name: string; reload: () => void }): VNode {
  const one = useLoad((s) => get<Template>("/v1/templates/" + segment(name), undefined, s), name, 5000);
  const built = useLoad((s) => lastBuild(name, s), name, 5000);
  const [opening, setOpening] = useState(false);
  const t = one.data;
  const layers = t?.layers?.length ? t.layers : t ? [{ digest: t.digest, bytes: t.bytes }] : []; // without an image it is one
  // One that was built by E2B's API has the log of its steps; others have that of their making.
  const log = built.data?.logs.length ? built.data.logs.map((l) => ({ time: l.timestamp, text: l.message })) : built.loading ? [] : (t?.log ?? []);
  const largest = Math.max(1, ...layers.map((l) => l.bytes));
  const remove = async () => {
    if (!(await confirm(`Delete template ${visible(name)}?`, "Workspaces that started from it stay as they are. New ones can't start from it.", "Delete"))) return;
    await act("Deleted", () => del("/v1/templates/" + segment(name)), "Not deleted");
    reload();
    go("/templates");
  };
  return (
    <div class="detail" role="region" aria-label={`Template ${visible(name)}`}>
      <header class="viewer-bar">
        <Button icon="close" label="Close" kind="plain" small onClick={() => go("/templates")} />
        <b>{visible(name)}</b>
        <span class="gap" />
        {mayRun() && (
          <Button small kind="primary" icon="plus" onClick={() => setOpening(true)}>
            Open workspace
          </Button>
        )}
        {mayAdmin() && <Button small icon="trash" label={`Delete template ${visible(name)}`} onClick={() => void remove()} />}
      </header>
      <div class="scroll">
        <Failure error={one.error} retry={one.reload} />
        {!t && one.error === undefined && <Loading what="the template" />}
        {t && (
          <>
            <dl class="facts-table">
              <dt>Made of</dt>
              <dd class="mono">{visible(t.source)}</dd>
              <dt>Size</dt>
              <dd>
                {bytes(t.bytes)} in {count(t.files, "file")}
              </dd>
              <dt>Digest</dt>
              <dd class="mono">{visible(t.digest)}</dd>
              <dt>Made</dt>
              <dd>{date(t.created)}</dd>
              {t.leftOut && t.leftOut.length > 0 && (
                <>
                  <dt>Left out</dt>
                  <dd>{t.leftOut.map(visible).join(", ")}</dd>
                </>
              )}
            </dl>
            {layers.length > 0 && (
              <>
                <h2>Layers</h2>
                <ul class="plain-list layers">
                  {layers.map((l, i) => (
                    <li key={(l.digest ?? "") + i}>
                      <span class="cut" title={visible(l.digest)}>
                        <span class="mono">{visible(l.digest).slice(0, 19)}</span>
                      </span>
                      <Bar part={l.bytes / largest} label={bytes(l.bytes)} even />
                      <span class="number">{bytes(l.bytes)}</span>
                    </li>
                  ))}
                </ul>
              </>
            )}
            <h2>Build log</h2>
            {built.error !== undefined && <Failure error={built.error} />}
            {built.data && (
              <p class="soft">
                {visible(built.data.build.status)}, {date(built.data.build.createdAt)}
              </p>
            )}
            {log.length > 0 ? (
              <pre class="build-log" tabIndex={0} aria-label="Build log">
                {log.map((l) => `${clock(l.time)}  ${visible(l.text)}`).join("\n")}
              </pre>
            ) : (
              !built.loading && built.error === undefined && <p class="soft">An earlier version of Croft made this template, without a log.</p>
            )}
          </>
        )}
      </div>
      {opening && <OpenWorkspace template={name} onClose={() => setOpening(false)} onOpened={reload} />}
    </div>
  );
}
