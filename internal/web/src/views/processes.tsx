import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { del, get, type LogChunk, mayRun, post, Problem, segment, send, type SessionInfo, type Sessions, ws } from "../api";
import { useLoad, useNow } from "../hooks";
import { ago, bytes, commandLine, date, fromBase64, nanos, visible, visibleText } from "../text";
import { act, Button, Choice, type Column, Dialog, Empty, Failure, Field, Loading, Rows, State, Table } from "../ui";
import { saveAs } from "./files";
import type { TabProps } from "./workspace";

const causes: Record<string, string> = {
  oom: "killed: it used more memory than the limit",
  memory: "killed: it used more memory than the limit",
  pids: "the limit of processes was reached",
  disk: "the disk limit was reached",
  timeout: "killed: the time-out passed",
  lost: "lost: the sandbox ended under it",
  killed: "killed",
};

/** How a process ended, in words. */
export function ending(s: SessionInfo): string {
  const r = s.result;
  if (s.running || !r) return "";
  const how = r.signal ? `signal ${r.signal}` : `exit status ${r.exitCode}`;
  return r.cause ? `${how}; ${causes[r.cause] ?? r.cause}` : how;
}

function what(s: SessionInfo): string {
  return s.labels?.["croft.page"] === "terminal" ? "terminal of the page" : commandLine(s.argv, s.script);
}

export function Processes({ w }: TabProps): VNode {
  const list = useLoad((s) => get<Sessions>(ws(w.id, "/sessions"), undefined, s), w.id, 1500);
  const now = useNow(2000);
  const [chosen, choose] = useState("");
  const [starting, setStarting] = useState(false);
  const rows = useMemo(() => [...(list.data?.sessions ?? [])].sort((a, b) => (a.started < b.started ? 1 : -1)), [list.data]);
  const current = rows.find((s) => s.id === chosen);
  const columns: Column<SessionInfo>[] = [
    { id: "state", label: "State", sort: (s) => (s.running ? 0 : 1), cell: (s) => <State name={s.running ? "running" : s.result?.exitCode === 0 ? "ended" : "failed"} /> },
    { id: "command", label: "Command", sort: (s) => commandLine(s.argv, s.script), cell: (s) => <button type="button" class="link mono cut" onClick={() => choose(s.id)}>{what(s)}</button> },
    { id: "pid", label: "PID", number: true, cell: (s) => s.pid ?? "–", wide: true },
    { id: "end", label: "Ended with", cell: (s) => (s.running ? <span class="soft">–</span> : visible(ending(s))), wide: true },
    { id: "time", label: "Time", number: true, cell: (s) => (s.running ? ago(s.started, now) : s.result ? nanos(s.result.duration) : "–") },
    { id: "started", label: "Started", number: true, sort: (s) => s.started, cell: (s) => <time dateTime={s.started} title={date(s.started)}>{ago(s.started, now)} ago</time>, wide: true },
  ];
  return (
    <div class="split">
      <div class="split-list">
        <div class="bar-line">
          <span class="soft">{rows.filter((s) => s.running).length} running</span>
          <span class="gap" />
          {mayRun() && (
            <Button icon="play" small onClick={() => setStarting(true)}>
              Start command
            </Button>
          )}
        </div>
        {list.error !== undefined && !list.data && <Failure error={list.error} retry={list.reload} />}
        {!list.data && list.error === undefined && <Loading what="processes" />}
        {list.data && rows.length === 0 && (
          <Empty title="No processes" command={`croft ws exec ${w.name || w.id} -- sh -c 'echo hello'`}>
            Commands that run in the background appear here with their output, and stay for a while after they end.
          </Empty>
        )}
        {rows.length > 0 && <Table label="List of processes" rows={rows} columns={columns} id={(s) => s.id} onOpen={(s) => choose(s.id)} initial="-started" height={36} />}
      </div>
      {current && <Process key={current.id} id={w.id} s={current} reload={list.reload} onClose={() => choose("")} />}
      {starting && <StartCommand id={w.id} onClose={() => setStarting(false)} onStarted={(s) => { choose(s.id); list.reload(); }} />}
    </div>
  );
}

function StartCommand({ id, onClose, onStarted }: { id: string; onClose: () => void; onStarted: (s: SessionInfo) => void }): VNode {
  const [script, setScript] = useState("");
  return (
    <Dialog title="Start command" onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void act(
            "",
            async () => {
              onStarted(await post<SessionInfo>(ws(id, "/sessions"), { script, detached: true }));
              onClose();
            },
            "Not started",
          );
        }}
      >
        <div class="body">
          <Field label="Script" hint="bash runs it in the workspace's directory. It goes on when you leave the page.">
            <textarea class="mono" rows={4} required autoFocus spellcheck={false} value={script} onInput={(e) => setScript(e.currentTarget.value)} />
          </Field>
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            Start
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function Process({ id, s, reload, onClose }: { id: string; s: SessionInfo; reload: () => void; onClose: () => void }): VNode {
  const path = ws(id, "/sessions/" + segment(s.id));
  const [stream, setStream] = useState("stdout");
  const [signal, setSignal] = useState("SIGINT");
  return (
    <div class="detail" role="region" aria-label="Process">
      <header class="viewer-bar">
        <Button icon="close" label="Close" kind="plain" small onClick={onClose} />
        <span class="mono cut" title={commandLine(s.argv, s.script)}>
          {what(s)}
        </span>
        <span class="gap" />
        {!s.tty && <Choice label="Stream" value={stream} onChange={setStream} options={[["stdout", "stdout"], ["stderr", "stderr"]]} />}
        <Button small icon="download" label="Download log" onClick={() => void act("", async () => saveAs(`${s.id}-${stream}.log`, await (await send("GET", path + "/follow", { query: { stream } })).blob()))} disabled={s.running} title={s.running ? "The log can be downloaded when the process has ended" : "Download log"} />
        {mayRun() && s.running && (
          <>
            <Choice label="Signal" value={signal} onChange={setSignal} options={["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT", "SIGQUIT"].map((x): [string, string] => [x, x])} />
            <Button small onClick={() => void act(`Sent ${signal}`, () => post(path + "/signal", { signal }), "Not sent").then(reload)}>
              Send
            </Button>
            <Button small kind="danger" onClick={() => void act("Killed", () => post(path + "/kill", undefined, { grace: "3s" }), "Not killed").then(reload)}>
              Kill
            </Button>
          </>
        )}
        {mayRun() && !s.running && (
          <Button small icon="trash" label="Forget this process" onClick={() => void act("", () => del(path)).then(() => { onClose(); reload(); })} />
        )}
      </header>
      <dl class="facts-line">
        <div><dt>PID</dt><dd>{s.pid ?? "–"}</dd></div>
        <div><dt>Started</dt><dd>{date(s.started)}</dd></div>
        {s.dir && <div><dt>Directory</dt><dd class="mono">{visible(s.dir)}</dd></div>}
        {!s.running && <div><dt>Ended</dt><dd>{visible(ending(s))}</dd></div>}
        {s.result?.usage?.maxRSS ? <div><dt>Most memory</dt><dd>{bytes(s.result.usage.maxRSS)}</dd></div> : null}
        {s.result?.usage ? <div><dt>CPU time</dt><dd>{nanos((s.result.usage.user ?? 0) + (s.result.usage.system ?? 0))}</dd></div> : null}
        {s.logDropped ? <div><dt>Dropped</dt><dd>{bytes(s.logDropped)} of the log</dd></div> : null}
      </dl>
      <Log key={stream} path={path} stream={stream} running={s.running} />
    </div>
  );
}

const keep = 20000; // lines
const window = 256 << 10;

/** The end of a log, and what comes: whatever its size, the page holds a part of it. */
function Log({ path, stream, running }: { path: string; stream: string; running: boolean }): VNode {
  const [lines, setLines] = useState<string[]>([]);
  const [skipped, setSkipped] = useState(0);
  const [size, setSize] = useState(0);
  const [error, setError] = useState<unknown>();
  const live = useRef(running);
  live.current = running;
  useEffect(() => {
    const end = new AbortController();
    void (async () => {
      const decoder = new TextDecoder();
      let offset = -1;
      let rest = "";
      let all: string[] = [];
      let missed = 0;
      while (!end.signal.aborted) {
        try {
          if (offset < 0) {
            const first = await get<LogChunk>(path + "/log", { stream, offset: 0, limit: 1 }, end.signal);
            offset = Math.max(0, first.size - window);
            missed = offset;
          }
          const chunk = await get<LogChunk>(path + "/log", { stream, offset, limit: window }, end.signal);
          setError(undefined);
          setSize(chunk.size);
          if (chunk.data) {
            const parts = (rest + decoder.decode(fromBase64(chunk.data), { stream: true })).split("\n");
            rest = (parts.pop() ?? "").slice(-4096);
            all = all.concat(parts.map((l) => visibleText(l.slice(0, 4096))));
            if (all.length > keep) all = all.slice(-keep);
            offset = chunk.next;
            // A process that writes faster than the page reads: go to the end.
            if (chunk.size - offset > 4 * window) {
              missed += chunk.size - window - offset;
              offset = chunk.size - window;
              all = all.concat("[output skipped]");
              rest = "";
            }
            setSkipped(missed);
          }
          setLines(rest ? [...all, visibleText(rest)] : all);
          if (chunk.data && chunk.next < chunk.size) continue;
          if (!live.current && chunk.next >= chunk.size) return;
        } catch (e) {
          if (end.signal.aborted) return;
          setError(e);
          if (e instanceof Problem && !e.offline) return;
        }
        await new Promise((r) => setTimeout(r, 700));
      }
    })();
    return () => end.abort();
  }, [path, stream]);
  const longest = useMemo(() => lines.reduce((n, l) => Math.max(n, l.length), 0), [lines]);
  return (
    <>
      <Failure error={error} />
      {skipped > 0 && <p class="found-note soft">The log has {bytes(size)}; its end is shown.</p>}
      {lines.length === 0 && error === undefined ? (
        <p class="found-note soft">{running ? "No output yet." : "No output."}</p>
      ) : (
        <Rows class="log" label="Log" height={18} count={lines.length} follow minWidth={`${longest + 2}ch`} row={(i) => <div key={i} class="log-line">{lines[i]}</div>} />
      )}
    </>
  );
}
