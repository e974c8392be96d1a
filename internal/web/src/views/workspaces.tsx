import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { get, mayRun, post, type Providers, type Templates, type Workspace } from "../api";
import { useEvents, useLoad, useNow, useStored, useThrottle } from "../hooks";
import { destroy, fork, forkAll, live, pause, reset, resume, type Row, title } from "../model";
import { go, href } from "../router";
import { ago, bytes, count, date, visible } from "../text";
import { act, Bar, Button, Choice, type Column, Dialog, Empty, Failure, Field, Loading, namePattern, nameRule, Search, State, Table } from "../ui";

export function Workspaces(): VNode {
  const list = useLoad((signal) => get<{ workspaces: Row[] }>("/v1/workspaces", { metrics: true }, signal), "list", 2000);
  const soon = useThrottle(list.reload, 150);
  useEvents((e) => {
    if (e.event.startsWith("lifecycle.") || e.event === "api.call") soon();
  });
  const now = useNow(5000);
  const [filter, setFilter] = useState("");
  const [state, setState] = useStored("list.state", "");
  const [kind, setKind] = useState("");
  const [selected, select] = useState<Set<string>>(new Set());
  const [opening, setOpening] = useState(false);
  const all = list.data?.workspaces ?? [];
  const kinds = [...new Set(all.map((w) => w.kind))].sort();
  const rows = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    return all.filter((w) => {
      if (state && w.state !== state) return false;
      if (kind && w.kind !== kind) return false;
      const text = [w.id, w.name, w.owner, w.kind, w.state, w.template, w.tenant, w.dir, ...Object.entries(w.labels ?? {}).map(([k, v]) => `${k}=${v}`)].join(" ").toLowerCase();
      return words.every((x) => text.includes(x));
    });
  }, [all, filter, state, kind]);
  const picked = rows.filter((w) => selected.has(w.id));
  const columns: Column<Row>[] = [
    {
      id: "name",
      label: "Name",
      sort: title,
      cell: (w) => (
        <span class="name">
          <a href={href("w", w.id)}>{title(w)}</a>
          {w.name && <small class="mono">{w.id}</small>}
        </span>
      ),
    },
    { id: "state", label: "State", sort: (w) => w.state, cell: (w) => <State name={w.state} /> },
    { id: "kind", label: "Provider", sort: (w) => w.kind, cell: (w) => visible(w.kind), wide: true },
    { id: "template", label: "Started from", sort: (w) => w.template ?? "", cell: (w) => <Origin w={w} />, wide: true },
    // The tenant is that of the key; the owner is what the client says.
    ...(all.some((w) => w.tenant) ? [{ id: "tenant", label: "Tenant", sort: (w: Row) => w.tenant ?? "", cell: (w: Row) => visible(w.tenant) || <span class="soft">operator</span>, wide: true }] : []),
    { id: "owner", label: "Owner", sort: (w) => w.owner ?? "", cell: (w) => visible(w.owner) || <span class="soft">–</span>, wide: true },
    { id: "cpu", label: "CPU", number: true, sort: (w) => w.metrics?.cpu ?? -1, cell: (w) => <Use w={w} part={w.metrics?.cpu} max={w.metrics?.limits?.cpu} text={(n) => n.toFixed(2)} what="CPU" />, wide: true },
    { id: "memory", label: "Memory", number: true, sort: (w) => w.metrics?.memory ?? -1, cell: (w) => <Use w={w} part={w.metrics?.memory} max={w.metrics?.limits?.memory} text={bytes} what="memory" />, wide: true },
    { id: "disk", label: "Disk", number: true, sort: (w) => w.metrics?.disk ?? -1, cell: (w) => <Use w={w} part={w.metrics?.disk} max={w.metrics?.limits?.disk} text={bytes} what="disk" />, wide: true },
    { id: "age", label: "Age", number: true, sort: (w) => -Date.parse(w.createdAt), cell: (w) => <time dateTime={w.createdAt} title={date(w.createdAt)}>{ago(w.createdAt, now)}</time> },
  ];
  if (mayRun())
    columns.push({
      id: "actions",
      label: "",
      wide: true,
      cell: (w) => (
        <span class="row-actions">
          {w.state === "paused" ? (
            <Button icon="play" label={`Resume ${title(w)}`} kind="plain" small onClick={() => void resume([w]).then(list.reload)} />
          ) : w.state === "failed" ? (
            <Button icon="refresh" label={`Reset ${title(w)}`} kind="plain" small onClick={() => void reset([w]).then(list.reload)} />
          ) : (
            <Button icon="pause" label={`Pause ${title(w)}`} kind="plain" small disabled={!live.has(w.state)} onClick={() => void pause([w]).then(list.reload)} />
          )}
          <Button icon="fork" label={`Fork ${title(w)}`} kind="plain" small onClick={() => void fork(w)} />
          <Button icon="trash" label={`Destroy ${title(w)}`} kind="plain" small onClick={() => void destroy([w]).then(list.reload)} />
        </span>
      ),
    });
  const done = () => {
    select(new Set());
    list.reload();
  };
  return (
    <div class="page fill">
      <header class="head">
        <h1>Workspaces</h1>
        <span class="soft number">{list.data ? count(all.length, "workspace") : ""}</span>
        <span class="gap" />
        {mayRun() && (
          <Button icon="plus" kind="primary" onClick={() => setOpening(true)}>
            Open workspace
          </Button>
        )}
      </header>
      <div class="bar-line" role="search">
        <Search id="filter" value={filter} onInput={setFilter} label="Filter by name, id, owner, label …" />
        <Choice
          label="State"
          value={state}
          onChange={setState}
          options={[["", "Every state"], ...[...new Set(["ready", "paused", "evicted", "closed", "failed", ...all.map((w) => w.state)])].map((s): [string, string] => [s, s])]}
        />
        <Choice label="Provider" value={kind} onChange={setKind} options={[["", "Every provider"], ...kinds.map((k): [string, string] => [k, k])]} />
        {picked.length > 0 && (
          <span class="picked" role="status">
            <b>{picked.length} selected</b>
            <Button small icon="pause" onClick={() => void pause(picked.filter((w) => w.state !== "paused")).then(done)}>
              Pause
            </Button>
            <Button small icon="play" onClick={() => void resume(picked.filter((w) => w.state === "paused")).then(done)}>
              Resume
            </Button>
            <Button small icon="fork" onClick={() => void (picked.length === 1 && picked[0] ? fork(picked[0]) : forkAll(picked).then(done))}>
              Fork
            </Button>
            <Button small icon="trash" kind="danger" onClick={() => void destroy(picked).then((yes) => yes && done())}>
              Destroy
            </Button>
          </span>
        )}
      </div>
      {list.error !== undefined && !list.data && <Failure error={list.error} retry={list.reload} />}
      {list.loading && !list.data && <Loading what="workspaces" />}
      {list.data && all.length === 0 && (
        <Empty title="No workspaces yet" command={"croft ws open first\ncroft ws exec first -- sh -c 'echo hello > a.txt'"}>
          A workspace is an isolated directory with files, a shell and snapshots. Open one here, on the command line, or let an agent open one.
        </Empty>
      )}
      {all.length > 0 && rows.length === 0 && <Empty title="Nothing matches the filter">{count(all.length, "workspace")} in all. Change the words, the state or the provider.</Empty>}
      {rows.length > 0 && (
        <Table label="Workspaces" rows={rows} columns={columns} id={(w) => w.id} rowLabel={title} selected={selected} onSelect={mayRun() ? select : undefined} onOpen={(w) => go(href("w", w.id))} initial="age" height={40} />
      )}
      {opening && <OpenWorkspace onClose={() => setOpening(false)} onOpened={list.reload} />}
    </div>
  );
}

function Origin({ w }: { w: Row }): VNode {
  if (w.template)
    return (
      <a class="quiet" href={href("templates", w.template)}>
        {visible(w.template)}
      </a>
    );
  if (w.snapshot) return <span class="mono soft">{visible(w.snapshot).slice(0, 12)}</span>;
  if (w.dir)
    return (
      <span class="mono soft" title={visible(w.dir)}>
        {visible(w.dir)}
      </span>
    );
  return <span class="soft">–</span>;
}

function Use({ w, part, max, text, what }: { w: Row; part?: number; max?: number; text: (n: number) => string; what: string }): VNode {
  if (part === undefined)
    return (
      <span class="soft" title={w.metrics ? `The provider ${visible(w.kind)} does not measure ${what === "CPU" ? what : what + " use"}, or not yet` : `Not measured: the workspace is not open, or the provider ${visible(w.kind)} measures nothing`}>
        –
      </span>
    );
  return (
    <span class="use">
      {text(part)}
      {max ? <Bar part={part / max} label={`${text(part)} of ${text(max)} ${what}`} /> : null}
    </span>
  );
}

export function OpenWorkspace({ onClose, onOpened, template }: { onClose: () => void; onOpened: () => void; template?: string }): VNode {
  const providers = useLoad((s) => get<Providers>("/v1/providers", undefined, s), "providers");
  const templates = useLoad((s) => get<Templates>("/v1/templates", undefined, s), "templates");
  const [name, setName] = useState("");
  const [kind, setKind] = useState("");
  const [from, setFrom] = useState(template ?? "");
  const [hosts, setHosts] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (e: SubmitEvent) => {
    e.preventDefault();
    setBusy(true);
    const allow = hosts
      .split(/[\s,]+/)
      .filter(Boolean)
      .map((host) => ({ host }));
    await act(
      "",
      async () => {
        const w = await post<Workspace>("/v1/workspaces", {
          ...(name ? { name } : {}),
          ...(kind ? { kind } : {}),
          ...(from ? { from: { template: from } } : {}),
          ...(allow.length > 0 ? { policy: { network: { allow } } } : {}),
        });
        onOpened();
        onClose();
        go(href("w", w.id));
      },
      "The workspace was not opened",
    );
    setBusy(false);
  };
  return (
    <Dialog title="Open workspace" onClose={onClose}>
      <form onSubmit={submit}>
        <div class="body">
          <Field label="Name" hint="Optional. At most 63 letters a to z, digits and hyphens.">
            <input value={name} pattern={namePattern} title={nameRule} autoFocus onInput={(e) => setName(e.currentTarget.value)} />
          </Field>
          <Field label="Provider">
            <select value={kind} onChange={(e) => setKind(e.currentTarget.value)}>
              <option value="">Default (sandbox)</option>
              {(providers.data?.providers ?? []).map((p) => (
                <option key={p.kind} value={p.kind} disabled={!!p.error}>
                  {p.kind}
                  {p.error ? " – not on this host" : p.traits ? ` – isolation ${p.traits.isolation}` : ""}
                </option>
              ))}
            </select>
          </Field>
          <Field label="Template">
            <select value={from} onChange={(e) => setFrom(e.currentTarget.value)}>
              <option value="">Empty</option>
              {(templates.data?.templates ?? []).map((t) => (
                <option key={t.name} value={t.name}>
                  {t.name}
                </option>
              ))}
            </select>
          </Field>
          <Field label="Allowed hosts" hint="Names such as pypi.org or *.example.com. Nothing else can be reached; without one there is no network.">
            <input value={hosts} placeholder="pypi.org files.pythonhosted.org" onInput={(e) => setHosts(e.currentTarget.value)} />
          </Field>
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={busy}>
            {busy ? "Opening …" : "Open"}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
