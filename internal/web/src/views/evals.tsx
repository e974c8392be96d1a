import type { ComponentChildren, VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { type EvalComparison, type EvalDetails, type EvalExecution, type EvalInterval, type EvalRun, type EvalRuns, type FileChange, get, type Hunk, mayAdmin, post, segment, who } from "../api";
import { quoted } from "../commands";
import { Diff } from "../diff";
import { useLoad, useNow } from "../hooks";
import { go, href, type Route, withQuery } from "../router";
import { ago, count, date, percent, span, visible, visibleText } from "../text";
import { act, Button, Choice, type Column, confirm, Dialog, Empty, Failure, Field, Loading, Search, State, Table, Tag, Verdict } from "../ui";

const usd = (n: number | undefined) => (n === undefined ? "–" : `$${n < 1 ? n.toFixed(3) : n.toFixed(2)}`);
const tokens = (n: number | undefined) => (n === undefined ? "–" : n >= 10000 ? `${Math.round(n / 1000)}k` : String(Math.round(n)));
const base = (p: string) => visible(p.slice(p.lastIndexOf("/") + 1));
const configuration = "# croft.yaml\nevals:\n  suites: [/srv/evals/suite.yaml]\n  dir: /srv/eval-runs";
const runPath = (id: string) => "/v1/evals/" + segment(id);

export function Evaluations({ route }: { route: Route }): VNode {
  const [, id, sub] = route.parts;
  if (id === "compare") return <Compare a={route.query.get("a") ?? ""} b={route.query.get("b") ?? ""} />;
  if (id && sub === "execution") return <OneExecution key={route.query.toString()} run={id} route={route} />;
  if (id) return <OneRun key={id} id={id} />;
  return <AllRuns />;
}

function AllRuns(): VNode {
  const list = useLoad((s) => get<EvalRuns>("/v1/evals", undefined, s), "evals", 3000);
  const now = useNow();
  const [filter, setFilter] = useState("");
  const [selected, select] = useState<Set<string>>(new Set());
  const [starting, setStarting] = useState(false);
  const all = list.data?.runs ?? [];
  const rows = all.filter((r) => `${r.suite} ${r.id} ${(r.runners ?? []).join(" ")}`.toLowerCase().includes(filter.toLowerCase()));
  const pair = rows.filter((r) => selected.has(r.id)).sort((a, b) => ((a.startedAt ?? "") < (b.startedAt ?? "") ? -1 : 1));
  const columns: Column<EvalRun>[] = [
    { id: "suite", label: "Run", sort: (r) => r.suite, cell: (r) => <span class="name"><a href={href("evals", r.id)}>{base(r.suite) || visible(r.id)}</a><small class="mono">{visible(r.id)}</small></span> },
    { id: "state", label: "State", sort: (r) => r.state, cell: (r) => <State name={r.state} /> },
    { id: "passed", label: "Passed", number: true, sort: (r) => (r.done ? r.passed / r.done : 0), cell: (r) => <PassRate passed={r.passed} of={r.state === "running" ? r.executions : r.done} /> },
    { id: "size", label: "Cases × runners", number: true, cell: (r) => `${r.cases} × ${r.runners?.length ?? 0}`, wide: true },
    { id: "tokens", label: "Tokens", number: true, sort: (r) => r.tokens ?? -1, cell: (r) => tokens(r.tokens), wide: true },
    { id: "cost", label: "Cost", number: true, sort: (r) => r.costUsd ?? -1, cell: (r) => usd(r.costUsd), wide: true },
    { id: "time", label: "Time", number: true, cell: (r) => span((r.endedAt ? Date.parse(r.endedAt) : now) - Date.parse(r.startedAt ?? "")), wide: true },
    { id: "age", label: "Started", number: true, sort: (r) => -Date.parse(r.startedAt ?? ""), cell: (r) => <time dateTime={r.startedAt} title={date(r.startedAt)}>{r.startedAt ? `${ago(r.startedAt, now)} ago` : "–"}</time>, wide: true },
  ];
  return (
    <div class="page fill">
      <header class="head">
        <h1>Evaluations</h1>
        <span class="soft number">{list.data ? count(all.length, "run") : ""}</span>
        <span class="gap" />
        {who.operator && mayAdmin() && (
          <Button icon="play" kind="primary" onClick={() => setStarting(true)}>
            Start run
          </Button>
        )}
      </header>
      <div class="bar-line">
        <Search id="filter" value={filter} onInput={setFilter} label="Filter by suite or runner" />
        {selected.size > 0 && (
          <span class="picked" role="status">
            <b>{selected.size} selected</b>
            <Button small disabled={pair.length !== 2} title={pair.length === 2 ? undefined : "Select two runs"} onClick={() => go(withQuery(href("evals", "compare"), { a: pair[0]?.id, b: pair[1]?.id }))}>
              Compare two
            </Button>
          </span>
        )}
      </div>
      {list.error !== undefined && !list.data && <Failure error={list.error} retry={list.reload} />}
      {!list.data && list.error === undefined && <Loading what="runs" />}
      {list.data && all.length === 0 && (
        <Empty title="No runs yet" command={list.data.dir ? `croft eval run suite.yaml --output-dir ${quoted(list.data.dir)}` : configuration} onHost>
          An evaluation runs agents on cases, each in a workspace of its own, and checks what they did. {list.data.dir ? "Runs in the directory of evals.dir appear here. On the server's host:" : "Name the directory of the runs that appear here, and the suites that may be started, in the server's configuration:"}
        </Empty>
      )}
      {rows.length > 0 && <Table label="Evaluation runs" rows={rows} columns={columns} id={(r) => r.id} rowLabel={(r) => base(r.suite) || r.id} selected={selected} onSelect={select} onOpen={(r) => go(href("evals", r.id))} initial="age" height={40} />}
      {starting && <StartRun suites={(list.data?.suites ?? []).map((s) => s.path)} onClose={() => setStarting(false)} />}
    </div>
  );
}

function PassRate({ passed, of }: { passed: number; of: number }): VNode {
  if (!of) return <span class="soft">–</span>;
  const part = passed / of;
  return (
    <span class="use">
      {passed} of {of}
      <span class="bar pass" role="img" aria-label={percent(part)}>
        <i style={{ width: `${part * 100}%` }} />
      </span>
    </span>
  );
}

function StartRun({ suites, onClose }: { suites: string[]; onClose: () => void }): VNode {
  const [chosen, setSuite] = useState("");
  const suite = chosen || (suites[0] ?? ""); // they may come after the dialog
  const [cases, setCases] = useState("");
  const [runners, setRunners] = useState("");
  const [tags, setTags] = useState("");
  const [repeat, setRepeat] = useState("1");
  const [parallel, setParallel] = useState("1");
  const list = (s: string) => s.split(/[\s,]+/).filter(Boolean);
  return (
    <Dialog title="Start a run" onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void act(
            "",
            async () => {
              const r = await post<EvalRun>("/v1/evals", {
                suite,
                ...(list(cases).length ? { cases: list(cases) } : {}),
                ...(list(runners).length ? { runners: list(runners) } : {}),
                ...(list(tags).length ? { tags: list(tags) } : {}),
                repeat: Number(repeat) || 1,
                maxParallel: Number(parallel) || 1,
              });
              onClose();
              go(href("evals", r.id));
            },
            "The run was not started",
          );
        }}
      >
        <div class="body">
          {suites.length === 0 ? (
            <Empty title="No suite is configured" command={configuration}>
              Name the suites that may be run from here in the server's configuration:
            </Empty>
          ) : (
            <>
              <Field label="Suite">
                <select value={suite} onChange={(e) => setSuite(e.currentTarget.value)}>
                  {suites.map((s) => (
                    <option key={s} value={s}>
                      {visible(s)}
                    </option>
                  ))}
                </select>
              </Field>
              <Field label="Cases" hint="Ids. Empty is all.">
                <input value={cases} onInput={(e) => setCases(e.currentTarget.value)} />
              </Field>
              <Field label="Tags" hint="Cases with one of them. Empty is all.">
                <input value={tags} onInput={(e) => setTags(e.currentTarget.value)} />
              </Field>
              <Field label="Runners" hint="Ids. Empty is all.">
                <input value={runners} onInput={(e) => setRunners(e.currentTarget.value)} />
              </Field>
              <Field label="Repetitions">
                <input type="number" min="1" max="100" value={repeat} onInput={(e) => setRepeat(e.currentTarget.value)} />
              </Field>
              <Field label="At the same time">
                <input type="number" min="1" max="64" value={parallel} onInput={(e) => setParallel(e.currentTarget.value)} />
              </Field>
            </>
          )}
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={!suite}>
            Start
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function OneRun({ id }: { id: string }): VNode {
  const run = useLoad((s) => get<EvalDetails>(runPath(id), undefined, s), id, 3000);
  const others = useLoad((s) => get<EvalRuns>("/v1/evals", undefined, s), "evals");
  const [filter, setFilter] = useState("");
  const [only, setOnly] = useState("");
  const r = run.data;
  const runners = r?.matrix?.runners ?? [];
  const [tag, setTag] = useState("");
  const tags = useMemo(() => [...new Set((r?.matrix?.cases ?? []).flatMap((c) => c.tags ?? []))].sort(), [r]);
  const cases = useMemo(
    () =>
      (r?.matrix?.cases ?? []).filter((c) => {
        const ex = c.executions ?? [];
        if (tag && !c.tags?.includes(tag)) return false;
        if (only === "failed" && ex.every((e) => e.passed)) return false;
        if (only === "passed" && ex.some((e) => !e.passed)) return false;
        return `${c.id} ${ex.map((e) => e.error ?? "").join(" ")}`.toLowerCase().includes(filter.toLowerCase());
      }),
    [r, filter, only, tag],
  );
  const stop = async () => {
    if (!(await confirm("Stop this run?", "Executions that are under way end without a result. What is done stays.", "Stop"))) return;
    await act("Stopped", () => post(runPath(id) + "/stop"), "Not stopped");
    run.reload();
  };
  return (
    <div class="page fill">
      <header class="head">
        <div class="crumbs">
          <a href="#/evals">Evaluations</a>
          <span aria-hidden="true">/</span>
          <h1>{(r && base(r.suite)) || visible(id)}</h1>
        </div>
        {r && <State name={r.state} />}
        {r && (
          <span class="facts">
            {r.startedAt && <span title={visible(r.id)}>{date(r.startedAt)}</span>}
            {r.executions > 0 && (
              <span>
                {r.passed} of {r.done} passed{r.done < r.executions ? `, ${r.executions - r.done} to come` : ""}
              </span>
            )}
            {r.costUsd !== undefined && <span>{usd(r.costUsd)}</span>}
          </span>
        )}
        <span class="gap" />
        {r && (others.data?.runs ?? []).length > 1 && (
          <Choice
            label="Compare with another run"
            value=""
            onChange={(b) => b && go(withQuery(href("evals", "compare"), { a: b, b: id }))}
            options={[["", "Compare with …"], ...(others.data?.runs ?? []).filter((o) => o.id !== id).map((o): [string, string] => [o.id, `${base(o.suite)}, ${date(o.startedAt)}`])]}
          />
        )}
        {r?.state === "running" && who.operator && (
          <Button kind="danger" onClick={() => void stop()}>
            Stop
          </Button>
        )}
      </header>
      <Failure error={run.error} retry={run.reload} />
      {r?.error && <Failure error={new Error(r.error.trim())} />}
      {!r && run.error === undefined && <Loading what="the run" />}
      {r && (
        <>
          <div class="bar-line">
            <Search id="filter" value={filter} onInput={setFilter} label="Filter cases and errors" />
            <Choice label="Verdict" value={only} onChange={setOnly} options={[["", "All cases"], ["failed", "with a failure"], ["passed", "all passed"]]} />
            {tags.length > 0 && <Choice label="Tag" value={tag} onChange={setTag} options={[["", "Every tag"], ...tags.map((t): [string, string] => [t, visible(t)])]} />}
            <span class="soft number">{count(cases.length, "case")}</span>
          </div>
          {runners.length === 0 ? (
            <Empty title={r.state === "running" ? "No execution has ended yet" : "No results"}>{r.state === "running" ? "The matrix fills as executions end." : "The run ended before its first execution."}</Empty>
          ) : (
            <div class="table matrix" tabIndex={0} role="region" aria-label="Cases and runners">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Case</th>
                    {runners.map((x) => (
                      <th key={x.id} scope="col">
                        <span class="name">
                          <span class="runner">
                            <span>{visible(x.id)}</span>
                            <b class="number">{percent(x.passRate)}</b>
                            <span class="bar pass" role="img" aria-label={`${percent(x.passRate)} passed`}>
                              <i style={{ width: `${x.passRate * 100}%` }} />
                            </span>
                          </span>
                          <small>
                            {visible(x.agent)}
                            {x.model ? ` · ${visible(x.model)}` : ""}
                          </small>
                          <small class="number">
                            {usd(x.costUsd)} in all · mean {span(x.durationMs)}, {tokens(x.tokens)} tokens
                          </small>
                        </span>
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {cases.map((c) => (
                    <tr key={c.id}>
                      <th scope="row">
                        <span class="name">
                          <span>{visible(c.id)}</span>
                          {(c.tags ?? []).length > 0 && <small>{(c.tags ?? []).map(visible).join(", ")}</small>}
                        </span>
                      </th>
                      {runners.map((x) => {
                        const e = (c.executions ?? []).find((y) => y.runner === x.id);
                        if (!e) return <td key={x.id} class="soft">not run</td>;
                        return (
                          <td key={x.id} class={`cell ${e.passed ? "pass" : "fail"}`}>
                            <a href={withQuery(href("evals", id, "execution"), { case: c.id, runner: x.id })} title={visible(e.error)}>
                              <b>{e.passed ? "passed" : visible(e.status) || "failed"}</b>
                              {(e.repetitions ?? 1) > 1 && (
                                <span>
                                  {e.passedRepetitions} of {e.repetitions}
                                </span>
                              )}
                              <small class="number">
                                {span(e.durationMs)} · {tokens(e.tokens)} tokens · {usd(e.costUsd)}
                              </small>
                            </a>
                          </td>
                        );
                      })}
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
          {r.log && (
            <details class="log-fold">
              <summary>Output of the run</summary>
              <pre class="preview" tabIndex={0}>
                {visibleText(r.log)}
              </pre>
            </details>
          )}
        </>
      )}
    </div>
  );
}

interface SessionEvent {
  type: string;
  role?: string;
  text?: string;
  tool?: string;
  args?: unknown;
  output?: string;
  command?: string;
  path?: string;
  skill?: string;
  at?: string;
}
// The report of a session, as far as the page shows it.
interface Report {
  prompt?: string;
  finalOutput?: string;
  events?: SessionEvent[] | null;
  commands?: { command: string; dir?: string; exitCode?: number; durationMs?: number }[] | null;
  network?: { host: string; port?: number; method?: string; verdict: string; reason?: string }[] | null;
  usage?: { totalTokens?: number };
  cost?: { usd: number };
  eventsLeftOut?: number;
}
type ExecutionDetail = EvalExecution & { report?: Report };

/** A unified diff as the changes that Diff draws. */
export function parseDiff(text: string): FileChange[] {
  const out: FileChange[] = [];
  let file: (FileChange & { hunks: Hunk[] }) | undefined;
  let hunk: (Hunk & { lines: string[] }) | undefined;
  for (const line of text.split("\n")) {
    if (line.startsWith("diff --git ") || (line.startsWith("--- ") && !(file && !file.hunks.length && out.includes(file)))) {
      if (line.startsWith("diff --git ")) {
        const m = / b\/(.*)$/.exec(line);
        file = { path: m?.[1] ?? line, kind: "modified", hunks: [], linesAdded: 0, linesRemoved: 0 };
        out.push(file);
        hunk = undefined;
        continue;
      }
      if (!hunk || !text.includes("diff --git ")) {
        file = { path: line.slice(4).replace(/^a\//, ""), kind: "modified", hunks: [], linesAdded: 0, linesRemoved: 0 };
        out.push(file);
        hunk = undefined;
        continue;
      }
    }
    if (!file) continue;
    if (!hunk || line.startsWith("@@ ")) {
      if (line.startsWith("new file")) file.kind = "added";
      if (line.startsWith("deleted file")) file.kind = "removed";
      if (line.startsWith("+++ ") && line !== "+++ /dev/null") file.path = line.slice(4).replace(/^b\//, "").replace(/\t.*$/, "");
      const m = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
      if (m) {
        hunk = { oldStart: Number(m[1]), oldLines: Number(m[2] ?? 1), newStart: Number(m[3]), newLines: Number(m[4] ?? 1), lines: [] };
        file.hunks.push(hunk);
      }
      continue;
    }
    if (/^[ +\-\\]/.test(line)) {
      hunk.lines.push(line);
      if (line[0] === "+") file.linesAdded = (file.linesAdded ?? 0) + 1;
      if (line[0] === "-") file.linesRemoved = (file.linesRemoved ?? 0) + 1;
    }
  }
  return out;
}

function OneExecution({ run, route }: { run: string; route: Route }): VNode {
  const q = route.query;
  const [at, setAt] = useState(`${q.get("repetition") ?? 1} ${q.get("session") ?? 1}`);
  const [repetition, session] = at.split(" ");
  const ex = useLoad((s) => get<ExecutionDetail>(runPath(run) + "/execution", { case: q.get("case") ?? "", runner: q.get("runner") ?? "", repetition, session }, s), `${q.toString()} ${at}`);
  const [tab, setTab] = useState("transcript");
  const e = ex.data;
  const changes = useMemo(() => (e?.diff ? parseDiff(e.diff) : []), [e?.diff]);
  useEffect(() => {
    document.title = `${q.get("case")} – Croft`;
  }, []);
  const parts: [string, string, number | undefined][] = [
    ["transcript", "Transcript", e?.report?.events?.length],
    ["commands", "Commands", e?.report?.commands?.length],
    ["diff", "Changes", changes.length],
    ["network", "Network", e?.report?.network?.length],
  ];
  return (
    <div class="page fill">
      <header class="head">
        <div class="crumbs">
          <a href="#/evals">Evaluations</a>
          <span aria-hidden="true">/</span>
          <a href={href("evals", run)}>{visible(run)}</a>
          <span aria-hidden="true">/</span>
          <h1>{visible(q.get("case"))}</h1>
        </div>
        {e && <State name={e.passed ? "passed" : e.status || "failed"} />}
        {e && (
          <span class="facts">
            <span>{visible(e.runner)}</span>
            <span>{span(e.durationMs)}</span>
            <span>{tokens(e.report?.usage?.totalTokens)} tokens</span>
            <span>{usd(e.report?.cost?.usd)}</span>
          </span>
        )}
        <span class="gap" />
        {(e?.sessions ?? []).length > 1 && (
          <Choice label="Session" value={at} onChange={setAt} options={(e?.sessions ?? []).map((s): [string, string] => [`${s.repetition} ${s.session}`, `repetition ${s.repetition}, session ${s.session}: ${s.passed ? "passed" : s.status}`])} />
        )}
      </header>
      <Failure error={ex.error} retry={ex.reload} />
      {!e && ex.error === undefined && <Loading what="the execution" />}
      {e?.error && (
        <div class="failure" role="note">
          <div>
            <p>
              <b>Why it failed{e.failureClass ? `: ${visible(e.failureClass)}` : ""}</b>
            </p>
            <pre class="why">{visibleText(e.error.message)}</pre>
          </div>
        </div>
      )}
      {e && (
        <>
          <div class="tabs" role="group" aria-label="Parts of the execution">
            {parts.map(([id, label, n]) => (
              <button key={id} type="button" aria-pressed={tab === id} onClick={() => setTab(id)}>
                <span>{label}</span>
                {n !== undefined && <b>{n}</b>}
              </button>
            ))}
          </div>
          <section class="tab-body">
            {tab === "transcript" && <Transcript e={e} />}
            {tab === "commands" && (
              <Grid
                label="Commands"
                head={["Command", "Directory", "Exit status", "Time"]}
                none="The agent ran no command that is known."
                rows={(e.report?.commands ?? []).map((c) => [
                  <code>{visible(c.command)}</code>,
                  <span class="mono soft">{visible(c.dir)}</span>,
                  c.exitCode === undefined ? "–" : <Tag tone={c.exitCode === 0 ? "good" : "bad"}>{c.exitCode}</Tag>,
                  c.durationMs === undefined ? "–" : span(c.durationMs),
                ])}
              />
            )}
            {tab === "network" && (
              <Grid
                label="Network requests"
                head={["Verdict", "Host", "Method", "Reason"]}
                none="The agent made no request through the proxy."
                rows={(e.report?.network ?? []).map((r) => [<Verdict name={r.verdict} />, <span class="mono">{visible(r.host)}{r.port ? `:${r.port}` : ""}</span>, visible(r.method), visible(r.reason)])}
              />
            )}
            {tab === "diff" && (changes.length > 0 ? <Diff changes={changes} /> : <Empty title="No changes">The agent left the files as they were.</Empty>)}
          </section>
        </>
      )}
    </div>
  );
}

function Grid({ head, rows, label, none }: { head: string[]; rows: ComponentChildren[][]; label: string; none: string }): VNode {
  if (rows.length === 0) return <Empty title={none} />;
  return (
    <div class="facts-wrap scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="facts-grid">
        <thead>
          <tr>
            {head.map((h) => (
              <th key={h} scope="col">
                {h}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((r, i) => (
            <tr key={i}>
              {r.map((c, j) => (
                <td key={j}>{c}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Transcript({ e }: { e: ExecutionDetail }): VNode {
  const events = e.report?.events ?? [];
  return (
    <div class="scroll transcript" tabIndex={0} role="region" aria-label="Transcript">
      {e.report?.prompt && (
        <article class="turn user">
          <h2>Prompt</h2>
          <pre>{visibleText(e.report.prompt)}</pre>
        </article>
      )}
      {events.map((x, i) => (
        <Turn key={i} e={x} />
      ))}
      {e.report?.eventsLeftOut ? <p class="soft">{count(e.report.eventsLeftOut, "more event")} are in the agent's log.</p> : null}
      {e.report?.finalOutput && (
        <article class="turn final">
          <h2>Final answer</h2>
          <pre>{visibleText(e.report.finalOutput)}</pre>
        </article>
      )}
    </div>
  );
}

function Turn({ e }: { e: SessionEvent }): VNode | null {
  const cut = (s: string | undefined) => {
    const t = visibleText(s ?? "");
    return t.length > 20000 ? t.slice(0, 20000) + "\n[cut]" : t;
  };
  switch (e.type) {
    case "message":
      return (
        <article class={`turn ${e.role ?? ""}`}>
          <h2>{e.role === "user" ? "User" : "Assistant"}</h2>
          <pre>{cut(e.text)}</pre>
        </article>
      );
    case "toolCall":
      return (
        <article class="turn tool">
          <h2>
            Tool <span class="mono">{visible(e.tool)}</span>
          </h2>
          {e.args !== undefined && <pre>{cut(JSON.stringify(e.args, null, 2))}</pre>}
        </article>
      );
    case "toolResult":
      return (
        <details class="turn result">
          <summary>
            Result{e.tool ? ` of ${visible(e.tool)}` : ""} <span class="soft">{visible((e.output ?? "").slice(0, 80))}</span>
          </summary>
          <pre>{cut(e.output)}</pre>
        </details>
      );
    case "command":
      return (
        <article class="turn command">
          <h2>Command</h2>
          <pre>{cut(e.command)}</pre>
        </article>
      );
    case "fileRead":
      return (
        <p class="turn note soft">
          Read <span class="mono">{visible(e.path)}</span>
        </p>
      );
    case "skillSignal":
      return <p class="turn note soft">Skill {visible(e.skill)}</p>;
  }
  return null;
}

function Compare({ a, b }: { a: string; b: string }): VNode {
  const c = useLoad((s) => get<EvalComparison>("/v1/evals/compare", { a, b }, s), `${a} ${b}`);
  const value = (name: string, i: EvalInterval) => (i.n === 0 ? "–" : name === "pass rate" ? percent(i.value) : name === "time" ? span(i.value) : name === "cost" ? usd(i.value) : tokens(i.value));
  const diff = (name: string, i: EvalInterval) => (i.n === 0 ? "–" : name === "pass rate" ? `${i.value > 0 ? "+" : ""}${Math.round(i.value * 100)} points` : `× ${i.value.toFixed(2)}`);
  return (
    <div class="page fill">
      <header class="head">
        <div class="crumbs">
          <a href="#/evals">Evaluations</a>
          <span aria-hidden="true">/</span>
          <h1>Two runs</h1>
        </div>
        <span class="facts">
          <a href={href("evals", a)}>A: {visible(a)}</a>
          <a href={href("evals", b)}>B: {visible(b)}</a>
        </span>
      </header>
      <div class="scroll">
        <Failure error={c.error} retry={c.reload} />
        {!c.data && c.error === undefined && <Loading what="the comparison" />}
        {c.data && (
          <>
            <p class="soft">
              {count(c.data.common, "execution")} in both{c.data.onlyA ? `, ${c.data.onlyA} only in A` : ""}
              {c.data.onlyB ? `, ${c.data.onlyB} only in B` : ""}. A difference is marked where chance does not explain it.
            </p>
            {(c.data.runners ?? []).map((r) => (
              <section key={r.runner}>
                <h2>{visible(r.runner)}</h2>
                <div class="facts-wrap" tabIndex={0} role="region" aria-label={`Measures of ${visible(r.runner)}`}>
                  <table class="facts-grid numbers">
                    <thead>
                      <tr>
                        <th scope="col">Measure</th>
                        <th scope="col">A</th>
                        <th scope="col">B</th>
                        <th scope="col">B against A</th>
                        <th scope="col">
                          <span class="hidden">Verdict</span>
                        </th>
                      </tr>
                    </thead>
                    <tbody>
                      {(r.measures ?? []).map((m) => (
                        <tr key={m.name}>
                          <th scope="row">{visible(m.name)}</th>
                          <td>{value(m.name, m.a)}</td>
                          <td>{value(m.name, m.b)}</td>
                          <td>{diff(m.name, m.diff)}</td>
                          <td>{m.significant ? <Tag tone={m.better ? "good" : "bad"}>{m.better ? "better" : "worse"}</Tag> : <span class="soft">no clear difference</span>}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </div>
              </section>
            ))}
            <h2>Executions that came out differently</h2>
            {(c.data.changed ?? []).length === 0 ? (
              <p class="soft">None.</p>
            ) : (
              <Grid
                label="Executions that came out differently"
                none=""
                head={["Case", "Runner", "A", "B", "Change"]}
                rows={(c.data.changed ?? []).map((x) => [
                  <a href={withQuery(href("evals", b, "execution"), { case: x.case, runner: x.runner })}>{visible(x.case)}</a>,
                  visible(x.runner),
                  visible(x.a) || "–",
                  visible(x.b) || "–",
                  <Tag tone={x.change === "newly failing" ? "bad" : x.change === "newly passing" ? "good" : ""}>{visible(x.change)}</Tag>,
                ])}
              />
            )}
          </>
        )}
      </div>
    </div>
  );
}
