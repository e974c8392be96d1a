import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { del, type Diagnosis, get, type Key, type Keys as KeyList, mayAdmin, type NewKey, post, Problem, type Quota, type Ready, segment, type Tenant, type Tenants, type Version, who } from "../api";
import { useLoad, useNames, useNow } from "../hooks";
import { href } from "../router";
import { ago, bytes, count, date, visible } from "../text";
import { act, Bar, Button, type Column, confirm, Dialog, Empty, Failure, Field, Icon, Loading, Snippet, State, Table, Tabs, Tag } from "../ui";

const items = [
  { id: "health", label: "Health", icon: "process" },
  { id: "doctor", label: "Doctor", icon: "check" },
  { id: "keys", label: "Keys", icon: "keys" },
  { id: "quotas", label: "Quotas", icon: "gauge" },
];

export function Operate({ tab }: { tab: string }): VNode {
  return (
    <div class="page fill">
      <header class="head">
        <h1>Operate</h1>
      </header>
      <Tabs label="Parts of operation" current={tab} items={items.map((t) => ({ ...t, href: href("operate", t.id) }))} />
      <section class="tab-body" aria-label={items.find((t) => t.id === tab)?.label}>
        {tab === "doctor" ? <Doctor /> : tab === "keys" ? <Keys /> : tab === "quotas" ? <Quotas /> : <Health />}
      </section>
    </div>
  );
}

const checks: Record<string, string> = {
  draining: "Takes new requests",
  database: "Reads and writes its database",
  provider: "Opens workspaces",
  disk: "Has space on its disk",
};

function Health(): VNode {
  const ready = useLoad(
    async (s) => {
      const res = await fetch("/readyz", { signal: s, cache: "no-store" }).catch(() => undefined);
      if (!res) throw new Problem(0, "offline", "The server does not answer.");
      return (await res.json()) as Ready;
    },
    "ready",
    3000,
  );
  const version = useLoad((s) => get<Version>("/v1/version", undefined, s), "version", 30000);
  return (
    <div class="scroll">
      <Failure error={ready.error} retry={ready.reload} />
      {!ready.data && ready.error === undefined && <Loading what="health" />}
      {ready.data && (
        <>
          <p class={`verdict ${ready.data.ready ? "good" : "bad"}`} role="status">
            <Icon name={ready.data.ready ? "check" : "warn"} />
            {ready.data.ready ? "The server does its work." : "The server should get no requests now. Its log says why: croft up prints it."}
          </p>
          <ul class="plain-list checks">
            {(ready.data.checks ?? []).map((c) => (
              <li key={c.name}>
                <span class={c.ok ? "good" : "bad"}>
                  <Icon name={c.ok ? "check" : "warn"} />
                </span>
                <span>{checks[c.name] ?? visible(c.name)}</span>
                <span class="soft">{c.ok ? "yes" : "no"}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      {version.data && (
        <dl class="facts-table">
          <dt>Version</dt>
          <dd class="mono">{visible(version.data.version)}</dd>
          <dt>Address</dt>
          <dd class="mono">{location.origin}</dd>
          <dt>Signed in</dt>
          <dd>
            <span class="mono">{visible(who.key)}</span>, scope {who.scope}
            {who.tenant ? `, tenant ${visible(who.tenant)}` : ""}
          </dd>
        </dl>
      )}
    </div>
  );
}

function Doctor(): VNode {
  const d = useLoad((s) => get<Diagnosis>("/v1/doctor", undefined, s), "doctor");
  if (d.error !== undefined) return <Failure error={d.error} retry={d.reload} />;
  if (!d.data) return <Loading what="the diagnosis: each level is tried" />;
  return (
    <div class="scroll">
      <p class="soft">Each level of isolation was tried on this host, from inside: what works is proven, not claimed.</p>
      <div class="cards levels">
        {(d.data.levels ?? []).map((l) => (
          <article key={l.provider + l.level} class={`card level ${l.works ? "works" : ""}`}>
            <header>
              <h2>{visible(l.level)}</h2>
              <Tag>{visible(l.provider)}</Tag>
              <span class="gap" />
              <span class={`state ${l.works ? "good" : "bad"}`}>
                <i aria-hidden="true" />
                {l.works ? "works" : "not here"}
              </span>
            </header>
            {l.proof && <p>Proof: {visible(l.proof)}.</p>}
            {l.reason && <p class="soft">Why: {visible(l.reason)}.</p>}
            {l.lacks && l.lacks.length > 0 && (
              <details>
                <summary>What it does not do ({l.lacks.length})</summary>
                <ul>
                  {l.lacks.map((x) => (
                    <li key={x}>{visible(x)}</li>
                  ))}
                </ul>
              </details>
            )}
          </article>
        ))}
      </div>
      <h2>Providers</h2>
      <div class="facts-wrap" tabIndex={0} role="region" aria-label="Providers">
        <table class="facts-grid">
          <thead>
            <tr>
              <th scope="col">Provider</th>
              <th scope="col">Isolation</th>
              <th scope="col">Network</th>
              <th scope="col">Limits enforced</th>
              <th scope="col">Copy-on-write</th>
            </tr>
          </thead>
          <tbody>
            {(d.data.providers ?? []).map((p) => (
              <tr key={p.kind}>
                <th scope="row">{visible(p.kind)}</th>
                {p.traits ? (
                  <>
                    <td>{visible(p.traits.isolation)}</td>
                    <td>{visible(p.traits.network)}</td>
                    <td>
                      {Object.entries(p.traits.limits)
                        .filter(([, e]) => e.by)
                        .map(([k]) => k)
                        .join(", ") || <span class="soft">none</span>}
                    </td>
                    <td>{visible(p.traits.copyOnWrite) || <span class="soft">–</span>}</td>
                  </>
                ) : (
                  <td colSpan={4} class="soft">
                    {visible(p.error?.message)}
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function keyState(k: Key): string {
  if (k.revokedAt) return "revoked";
  if (k.expiresAt && Date.parse(k.expiresAt) < Date.now()) return "expired";
  return "valid";
}

function Keys(): VNode {
  const list = useLoad((s) => get<KeyList>("/v1/keys", undefined, s), "keys", 5000);
  const names = useNames();
  const now = useNow();
  const [making, setMaking] = useState(false);
  const [text, setText] = useState("");
  if (!mayAdmin()) return <Empty title="Keys need the scope admin" command="croft key list">Your key has the scope {who.scope}. Sign in with one of scope admin, or look on the server's host:</Empty>;
  const rows = list.data?.keys ?? [];
  const rotate = async (k: Key) => {
    if (!(await confirm(`Rotate ${visible(k.name || k.id)}?`, "The key gets a new value. The previous one works for 10 more minutes.", "Rotate", false))) return;
    await act("", async () => setText((await post<NewKey>(`/v1/keys/${segment(k.id)}/rotate`, { overlap: "10m" })).key), "Not rotated");
    list.reload();
  };
  const revoke = async (k: Key) => {
    if (!(await confirm(`Revoke ${visible(k.name || k.id)}?`, k.workspace ? "The link stops working at once, and for good." : "Programs with this key are refused at once, and for good.", "Revoke"))) return;
    await act("Revoked", () => del(`/v1/keys/${segment(k.id)}`), "Not revoked");
    list.reload();
  };
  const columns: Column<Key>[] = [
    { id: "name", label: "Name", sort: (k) => k.name ?? "", cell: (k) => <span class="name"><span>{visible(k.name) || <span class="soft">–</span>}{k.workspace && <> of <a href={href("w", k.workspace)}>{visible(names.get(k.workspace) || k.workspace)}</a></>}</span><small class="mono">{visible(k.id)}</small></span> },
    { id: "state", label: "State", sort: keyState, cell: (k) => <State name={keyState(k)} /> },
    { id: "scope", label: "Scope", sort: (k) => k.scope, cell: (k) => k.scope, wide: true },
    { id: "tenant", label: "Tenant", sort: (k) => k.tenant ?? "", cell: (k) => visible(k.tenant) || <span class="soft">operator</span>, wide: true },
    { id: "used", label: "Last used", number: true, sort: (k) => k.lastUsed ?? "", cell: (k) => (k.lastUsed ? `${ago(k.lastUsed, now)} ago` : "never"), wide: true },
    { id: "expires", label: "Expires", number: true, sort: (k) => k.expiresAt ?? "", cell: (k) => (k.expiresAt ? date(k.expiresAt) : "never"), wide: true },
    { id: "created", label: "Age", number: true, sort: (k) => -Date.parse(k.createdAt), cell: (k) => ago(k.createdAt, now), wide: true },
    {
      id: "actions",
      label: "",
      cell: (k) =>
        keyState(k) === "valid" ? (
          <span class="row-actions shown">
            {!k.workspace && (
              <Button small onClick={() => void rotate(k)}>
                Rotate
              </Button>
            )}
            <Button small kind="danger" onClick={() => void revoke(k)}>
              Revoke
            </Button>
          </span>
        ) : null,
    },
  ];
  return (
    <div class="stack">
      <div class="bar-line">
        <span class="soft">{list.data ? count(rows.length, "key") : ""}</span>
        <span class="gap" />
        <Button icon="plus" small kind="primary" onClick={() => setMaking(true)}>
          New key
        </Button>
      </div>
      {list.error !== undefined && !list.data && <Failure error={list.error} retry={list.reload} />}
      {!list.data && list.error === undefined && <Loading what="keys" />}
      {list.data && rows.length === 0 && (
        <Empty title="No API keys yet" command="croft key create --tenant team-a --scope run">
          You are signed in with the server's token. Give each program and each team a key of its own, which can be revoked:
        </Empty>
      )}
      {rows.length > 0 && <Table label="API keys" rows={rows} columns={columns} id={(k) => k.id} initial="created" height={40} />}
      {making && (
        <MakeKey
          onClose={() => setMaking(false)}
          onMade={(k) => {
            setMaking(false);
            setText(k.key);
            list.reload();
          }}
        />
      )}
      {text && (
        <Dialog title="Your new key" onClose={() => setText("")}>
          <div class="body">
            <p>It is shown only now. Put it where the program reads it, and nowhere else.</p>
            <Snippet text={text} label="key" />
          </div>
          <footer>
            <Button kind="primary" onClick={() => setText("")}>
              Done
            </Button>
          </footer>
        </Dialog>
      )}
    </div>
  );
}

function MakeKey({ onClose, onMade }: { onClose: () => void; onMade: (k: NewKey) => void }): VNode {
  const [name, setName] = useState("");
  const [scope, setScope] = useState("run");
  const [tenant, setTenant] = useState(who.tenant ?? "");
  const [expires, setExpires] = useState("");
  return (
    <Dialog title="New API key" onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void act("", async () => onMade(await post<NewKey>("/v1/keys", { scope, ...(name ? { name } : {}), ...(tenant ? { tenant } : {}), ...(expires ? { expires } : {}) })), "No key was made");
        }}
      >
        <div class="body">
          <Field label="Name" hint="What uses it.">
            <input value={name} autoFocus onInput={(e) => setName(e.currentTarget.value)} />
          </Field>
          <Field label="Scope">
            <select value={scope} onChange={(e) => setScope(e.currentTarget.value)}>
              <option value="read">read: sees everything of its tenant, changes nothing</option>
              <option value="run">run: opens workspaces and works in them</option>
              <option value="admin">admin: also keys and templates</option>
            </select>
          </Field>
          {!who.tenant && (
            <Field label="Tenant" hint="Empty is the operator, who sees every tenant.">
              <input value={tenant} onInput={(e) => setTenant(e.currentTarget.value)} />
            </Field>
          )}
          <Field label="Expires after" hint="Such as 12h or 90d. Empty is never.">
            <input value={expires} onInput={(e) => setExpires(e.currentTarget.value)} />
          </Field>
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            Make key
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function Quotas(): VNode {
  const list = useLoad((s) => get<Tenants>("/v1/tenants", undefined, s), "tenants", 5000);
  const rows = list.data?.tenants ?? [];
  const cell = (s: Quota | undefined, text: (n: number) => string) => {
    if (!s || (s.used === undefined && s.max === undefined)) return <span class="soft">–</span>;
    return (
      <span class="use">
        {s.used === undefined ? "" : text(s.used)}
        <span class="soft">{s.max ? ` of ${text(s.max)}` : ""}</span>
        {s.max && s.used !== undefined ? <Bar part={s.used / s.max} label={`${text(s.used)} of ${text(s.max)}`} /> : null}
      </span>
    );
  };
  const columns: Column<Tenant>[] = [
    { id: "tenant", label: "Tenant", sort: (t) => t.tenant, cell: (t) => visible(t.tenant) || <span class="soft">operator</span> },
    { id: "workspaces", label: "Workspaces", number: true, cell: (t) => cell(t.workspaces, String) },
    { id: "cpu", label: "CPU", number: true, cell: (t) => cell(t.cpu, (n) => n.toFixed(1)), wide: true },
    { id: "memory", label: "Memory", number: true, cell: (t) => cell(t.memory, bytes), wide: true },
    { id: "disk", label: "Disk", number: true, cell: (t) => cell(t.disk, bytes), wide: true },
    { id: "connections", label: "Connections", number: true, cell: (t) => cell(t.connections, String), wide: true },
    { id: "rate", label: "Requests/s", number: true, cell: (t) => (t.requestsPerSecond?.max ? String(t.requestsPerSecond.max) : <span class="soft">no limit</span>), wide: true },
  ];
  return (
    <div class="stack">
      {list.error !== undefined && !list.data && <Failure error={list.error} retry={list.reload} />}
      {!list.data && list.error === undefined && <Loading what="quotas" />}
      {list.data && rows.length === 0 && <Empty title="No tenants yet" command={"croft key create --tenant team-a --scope run"}>A tenant is a customer or team, with quotas of its own in croft.yaml. A key makes one:</Empty>}
      {rows.length > 0 && <p class="soft">CPU, memory and disk are the sums of the limits of a tenant's workspaces. Quotas are set in croft.yaml, under tenants.</p>}
      {rows.length > 0 && <Table label="Quotas and use per tenant" rows={rows} columns={columns} id={(t) => t.tenant} initial="tenant" height={40} />}
    </div>
  );
}
