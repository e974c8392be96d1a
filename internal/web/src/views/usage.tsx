import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Description, get, type Metrics, ws } from "../api";
import { useLoad } from "../hooks";
import { bytes, count, nanos, visible } from "../text";
import { Bar, Chart, Failure, Loading } from "../ui";
import type { TabProps } from "./workspace";

const points = 120;

const names: Record<string, string> = { cpu: "CPU", memory: "Memory", disk: "Disk", pids: "Processes", openFiles: "Open files", wall: "Time of a command" };

export function Usage({ w }: TabProps): VNode {
  const metrics = useLoad((s) => get<Metrics>(ws(w.id, "/metrics"), undefined, s), w.id, 2000);
  const about = useLoad((s) => get<Description>(ws(w.id, "/describe"), undefined, s), w.id + w.revision, 10000);
  const [past, setPast] = useState<Metrics[]>([]);
  useEffect(() => {
    const m = metrics.data;
    if (m) setPast((p) => (p[p.length - 1]?.time === m.time ? p : [...p.slice(-points + 1), m]));
  }, [metrics.data]);
  const m = metrics.data;
  const values = (f: (m: Metrics) => number | undefined) => past.map(f).filter((v): v is number => v !== undefined);
  const chart = (label: string, now: number | undefined, max: number | undefined, text: (n: number) => string, f: (m: Metrics) => number | undefined) => (
    <div class="card">
      <Chart label={label} values={values(f)} max={max ?? 0} text={now === undefined ? "not measured" : max ? `${text(now).replace(/ cores$/, "")} of ${text(max)}` : text(now)} />
      {now !== undefined && max ? <Bar part={now / max} label={`${label}: ${text(now)} of ${text(max)}`} /> : null}
    </div>
  );
  const t = about.data?.traits;
  const limits = (w.policy.limits ?? {}) as Record<string, { max: number; bestEffort?: boolean } | undefined>;
  const by = (t?.limits ?? {}) as Record<string, { by?: string; reason?: string } | undefined>;
  const show: Record<string, (n: number) => string> = {
    cpu: (n) => `${n / 1000} cores`,
    memory: bytes,
    disk: bytes,
    wall: nanos,
    pids: String,
    openFiles: String,
  };
  return (
    <div class="scroll">
      {metrics.error !== undefined && !m && <Failure error={metrics.error} retry={metrics.reload} />}
      {!m && metrics.error === undefined && <Loading what="measurements" />}
      {m && (
        <div class="cards">
          {chart("CPU", m.cpu, m.limits?.cpu, (n) => `${n.toFixed(2)} cores`, (x) => x.cpu)}
          {chart("Memory", m.memory, m.limits?.memory, bytes, (x) => x.memory)}
          {chart("Disk", m.disk, m.limits?.disk, bytes, (x) => x.disk)}
          {chart("Processes", m.pids, m.limits?.pids, String, (x) => x.pids)}
        </div>
      )}
      <h2>Limits and isolation</h2>
      <div class="facts-wrap" tabIndex={0} role="region" aria-label="Limits and isolation">
        <table class="facts-grid">
          <thead>
            <tr>
              <th scope="col">What</th>
              <th scope="col">Asked for</th>
              <th scope="col">Enforced by</th>
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">Isolation</th>
              <td>{visible(w.policy.isolation) || "default"}</td>
              <td>{t ? `${t.isolation}${t.isolatedBy.by ? `: ${visible(t.isolatedBy.by)}` : ""}` : "not open"}</td>
            </tr>
            <tr>
              <th scope="row">Network</th>
              <td>{w.policy.network?.allow?.length ? count(w.policy.network.allow.length, "rule") : w.policy.network?.open ? "open" : "none"}</td>
              <td>{t ? `${visible(t.network)}${t.networkBy.by ? `: ${visible(t.networkBy.by)}` : ""}` : "–"}</td>
            </tr>
            {Object.keys({ ...by, ...limits }).map((k) => (
              <tr key={k}>
                <th scope="row">{names[k] ?? visible(k)}</th>
                <td>{limits[k] ? `${(show[k] ?? String)(limits[k]?.max ?? 0)}${limits[k]?.bestEffort ? ", best effort" : ""}` : "no limit"}</td>
                <td>{visible(by[k]?.by) || <span class="soft">{visible(by[k]?.reason) || "–"}</span>}</td>
              </tr>
            ))}
            <tr>
              <th scope="row">Idle time</th>
              <td>{w.policy.idle ? nanos(w.policy.idle) : "never expires"}</td>
              <td>{w.policy.persist ? "closed then, not destroyed" : "–"}</td>
            </tr>
            {t?.copyOnWrite && (
              <tr>
                <th scope="row">Copy-on-write</th>
                <td>–</td>
                <td>{visible(t.copyOnWrite)}</td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
    </div>
  );
}
