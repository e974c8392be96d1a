import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { mayRun, post, ws } from "../api";
import { bytes, clock, count, date, visible } from "../text";
import { act, Button, Choice, type Column, confirm, Empty, Failure, Loading, Search, Table, Tag, Verdict } from "../ui";
import { useStream } from "./events";
import type { TabProps } from "./workspace";

interface Request {
  id: string;
  ts: string;
  host: string;
  port?: number;
  method: string;
  protocol: string;
  verdict: string;
  reason: string;
  rule: string;
  status?: number;
  in: number;
  out: number;
}

export function Network({ w, reload }: TabProps): VNode {
  const stream = useStream(w.id, "egress.request");
  const [filter, setFilter] = useState("");
  const [verdict, setVerdict] = useState("");
  const allowed = w.policy.network?.allow ?? [];
  const rows = useMemo(() => {
    const list: Request[] = stream.events.filter((e) => e.event === "egress.request").map((e) => {
      const f = (e.fields ?? {}) as Record<string, unknown>;
      const text = (k: string) => (f[k] === undefined ? "" : String(f[k]));
      return {
        id: String(e.sequence),
        ts: e.ts,
        host: text("host"),
        port: typeof f.port === "number" ? f.port : Number(f.port) || undefined,
        method: text("method"),
        protocol: text("protocol"),
        verdict: text("verdict"),
        reason: text("reason"),
        rule: text("rule"),
        status: typeof f.status === "number" ? f.status : undefined,
        in: Number(f.bytes_in ?? 0),
        out: Number(f.bytes_out ?? 0),
      };
    });
    const words = filter.toLowerCase();
    return list.filter((r) => (!verdict || r.verdict === verdict) && `${r.host} ${r.method} ${r.reason}`.toLowerCase().includes(words)).reverse();
  }, [stream.events, filter, verdict]);
  const dropped = stream.events.some((e) => e.event === "event.dropped");
  const covered = (host: string) => allowed.some((a) => a.host === host || (a.host.startsWith("*.") && host.endsWith(a.host.slice(1))));
  // Without a rule the workspace has no network at all: the first rule, and the end of the last, start its sandbox again.
  const mayRestart = (title: string, verb: string) => confirm(title, "This ends the terminals and processes of the workspace: it is started again, with another network. Files stay.", verb);
  const allow = async (r: { host: string; port?: number }): Promise<boolean> => {
    if (allowed.length === 0 && !(await mayRestart(`Allow ${visible(r.host)}?`, "Allow"))) return false;
    const rule = { host: r.host, ...(r.port && r.port !== 443 && r.port !== 80 ? { ports: [r.port] } : {}) };
    const done = await act(`${visible(r.host)} is allowed from now on`, () => post(ws(w.id, "/network"), { allow: [rule] }), `${visible(r.host)} is not allowed`);
    if (done) reload();
    return done;
  };
  const [host, setHost] = useState("");
  const add = async (e: SubmitEvent) => {
    e.preventDefault();
    const [, name, port] = /^([^:]+):(\d+)$/.exec(host.trim()) ?? [];
    if (await allow({ host: name ?? host.trim(), port: port ? Number(port) : undefined })) setHost("");
  };
  const remove = async (host: string) => {
    if (allowed.length === 1 && !(await mayRestart(`Refuse ${visible(host)}?`, "Refuse"))) return;
    if (await act(`${visible(host)} is refused from now on`, () => post(ws(w.id, "/network"), { remove: [host] }), `${visible(host)} is still allowed`)) reload();
  };
  const columns: Column<Request>[] = [
    { id: "time", label: "Time", sort: (r) => r.ts, cell: (r) => <time dateTime={r.ts} title={date(r.ts)}>{clock(r.ts)}</time>, wide: true },
    { id: "verdict", label: "Verdict", sort: (r) => r.verdict, cell: (r) => <Verdict name={r.verdict} /> },
    { id: "host", label: "Host", sort: (r) => r.host, cell: (r) => <span class="mono cut">{visible(r.host)}{r.port ? `:${r.port}` : ""}</span> },
    { id: "method", label: "Request", cell: (r) => <span class="mono">{visible(r.method)} {r.protocol !== r.method.toLowerCase() && <span class="soft">{visible(r.protocol)}</span>}</span>, wide: true },
    { id: "reason", label: "Reason", cell: (r) => <span class="cut" title={visible(r.reason)}>{visible(r.reason) || (r.rule ? <span class="soft">rule {visible(r.rule)}</span> : <span class="soft">–</span>)}</span>, wide: true },
    { id: "status", label: "Status", number: true, cell: (r) => r.status ?? "–", wide: true },
    { id: "in", label: "In", number: true, sort: (r) => r.in, cell: (r) => (r.in ? bytes(r.in) : "–"), wide: true },
    { id: "out", label: "Out", number: true, sort: (r) => r.out, cell: (r) => (r.out ? bytes(r.out) : "–"), wide: true },
    {
      id: "allow",
      label: "",
      cell: (r) =>
        // Where a rule decided, the host was allowed: it was refused for another reason, which a rule for it does not change.
        r.verdict === "deny" && r.host && r.host !== "*" && !r.rule && mayRun() ? (
          covered(r.host) ? (
            <Tag tone="good">allowed now</Tag>
          ) : (
            <Button small onClick={() => void allow(r)} label={`Allow ${visible(r.host)}`}>
              Allow
            </Button>
          )
        ) : null,
    },
  ];
  return (
    <div class="stack">
      <div class="rules">
        <b>Allowed hosts</b>
        {w.policy.network?.open && <Tag tone="warn">every host, without the proxy</Tag>}
        {allowed.length === 0 && !w.policy.network?.open && <span class="soft">none: nothing outside can be reached</span>}
        {allowed.map((a) => (
          <span class="chip" key={a.host + String(a.ports)}>
            <span class="mono">
              {visible(a.host)}
              {a.ports?.length ? `:${a.ports.join(",")}` : ""}
              {a.credential ? " (credential)" : ""}
            </span>
            {mayRun() && (
              <button type="button" aria-label={`Remove ${visible(a.host)}`} onClick={() => void remove(a.host)}>
                ×
              </button>
            )}
          </span>
        ))}
        {mayRun() && !w.policy.network?.open && (
          <form class="inline" onSubmit={(e) => void add(e)}>
            <input value={host} onInput={(e) => setHost(e.currentTarget.value)} placeholder="host, such as pypi.org" aria-label="Host to allow" required spellcheck={false} autoComplete="off" />
            <Button small type="submit" icon="plus">
              Allow host
            </Button>
          </form>
        )}
      </div>
      <div class="bar-line">
        <Search value={filter} onInput={setFilter} label="Filter by host or reason" />
        <Choice label="Verdict" value={verdict} onChange={setVerdict} options={[["", "Every verdict"], ["deny", "refused"], ["allow", "allowed"]]} />
        <span class="soft number">{count(rows.length, "request")}</span>
        {dropped && <span class="soft">Some may be missing: the server keeps the latest events, and none from before it started.</span>}
      </div>
      <Failure error={stream.error} />
      {!stream.ready && <Loading what="requests" />}
      {stream.ready && rows.length === 0 && (
        <Empty title="No requests" command={`croft events --kind egress.request --workspace ${w.name || w.id}`}>
          Requests of the workspace go through a proxy, and appear here with the verdict. A refused host can be allowed with one click. On the command line:
        </Empty>
      )}
      {rows.length > 0 && <Table label="Network requests" rows={rows} columns={columns} id={(r) => r.id} height={34} />}
    </div>
  );
}
