import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type LogChunk, mayRun, post, Problem, segment, send, type SessionInfo, type Sessions, socket, ws } from "../api";
import { useLoad } from "../hooks";
import { date, fromBase64, visible } from "../text";
import { act, Button, confirm, Empty, Failure, Loading } from "../ui";
import type { Screen } from "../term";
import type { TabProps } from "./workspace";

// Terminals of the page are sessions with this label. They are detached, so that they outlive a
// reload of the page and a restart of the server.
const label = { "croft.page": "terminal" };

const isTerminal = (s: SessionInfo) => s.labels?.["croft.page"] === "terminal" && s.running;

async function start(id: string): Promise<SessionInfo> {
  return post<SessionInfo>(ws(id, "/sessions"), {
    argv: ["sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi"],
    env: { TERM: "xterm-256color", COLORTERM: "truecolor" },
    tty: { rows: 24, cols: 80 },
    detached: true,
    interactive: true,
    labels: label,
  });
}

export function Terminals({ w }: TabProps): VNode {
  const sessions = useLoad((s) => get<Sessions>(ws(w.id, "/sessions"), undefined, s), w.id, 3000);
  const [chosen, choose] = useState("");
  const list = (sessions.data?.sessions ?? []).filter(isTerminal).sort((a, b) => (a.started < b.started ? -1 : 1));
  const current = list.find((s) => s.id === chosen) ?? list[0];
  const [busy, setBusy] = useState(false);
  const add = async () => {
    setBusy(true);
    await act(
      "",
      async () => {
        const s = await start(w.id);
        choose(s.id);
        sessions.reload();
      },
      "No terminal was started",
    );
    setBusy(false);
  };
  // The first visit starts one.
  const asked = useRef(false);
  useEffect(() => {
    if (!sessions.data || asked.current) return;
    asked.current = true;
    if (list.length === 0 && mayRun() && w.state !== "paused") void add();
  }, [sessions.data]);
  const end = async (id: string, number: number) => {
    if (!(await confirm(`End terminal ${number}?`, "Its shell, and what runs in it, end.", "End"))) return;
    await act("", () => post(ws(w.id, `/sessions/${segment(id)}/kill`), undefined, { grace: "1s" }));
    sessions.reload();
  };
  if (sessions.error !== undefined && !sessions.data) return <Failure error={sessions.error} retry={sessions.reload} />;
  if (!sessions.data) return <Loading what="terminals" />;
  return (
    <div class="terminals">
      <div class="bar-line">
        <div class="chips" role="group" aria-label="Terminals">
          {list.map((s, i) => (
            <span key={s.id} class="chip">
              <button type="button" aria-pressed={current?.id === s.id} onClick={() => choose(s.id)} title={`${visible(s.id)}, started ${date(s.started)}`}>
                Terminal {i + 1}
              </button>
              {mayRun() && (
                <button type="button" aria-label={`End terminal ${i + 1}`} onClick={() => void end(s.id, i + 1)}>
                  ×
                </button>
              )}
            </span>
          ))}
        </div>
        {mayRun() && (
          <Button icon="plus" small disabled={busy || w.state === "paused"} onClick={() => void add()}>
            New terminal
          </Button>
        )}
        <span class="gap" />
        <span class="soft hint">Terminals go on when you leave the page.</span>
      </div>
      {current ? (
        <Terminal key={current.id} id={w.id} session={current} onEnd={sessions.reload} />
      ) : busy ? (
        <Loading what="the terminal" />
      ) : (
        <Empty title={w.state === "paused" ? "The workspace is paused" : "No terminal is open"} command={`croft ws shell ${w.name || w.id}`}>
          {w.state === "paused" ? "Resume it to open a terminal." : mayRun() ? "Open one here, or on the command line:" : "This view is read-only: you see terminals that others open."}
        </Empty>
      )}
    </div>
  );
}

const tail = 256 << 10;
const maxPending = 4 << 20;
const maxBehind = 1 << 20;

function Terminal({ id, session, onEnd }: { id: string; session: SessionInfo; onEnd: () => void }): VNode {
  const box = useRef<HTMLDivElement>(null);
  const [note, setNote] = useState("");
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    let gone = false;
    let screen: Screen | undefined;
    let conn: Connection | undefined;
    void import("../term")
      .then((m) => {
        if (gone || !box.current) return;
        screen = m.openScreen(box.current, !mayRun());
        conn = mayRun() ? attach(id, session.id, screen, setNote, onEnd) : follow(id, session.id, screen, setNote, onEnd);
        screen.focus();
      })
      .catch(setError);
    return () => {
      gone = true;
      conn?.close();
      screen?.close();
    };
  }, [id, session.id]);
  if (error !== undefined) return <Failure error={error} />;
  return (
    <div class="terminal-box">
      {note && (
        <p class="terminal-note" role="status">
          {note}
        </p>
      )}
      <div class="screen" ref={box} role="region" aria-label="Screen" />
    </div>
  );
}

interface Connection {
  close: () => void;
}

/** Where to begin reading, so that the last part of the output is shown. */
async function beginning(path: string): Promise<number> {
  const chunk = await get<LogChunk>(path + "/log", { offset: 0, limit: 1 });
  return Math.max(0, chunk.size - tail);
}

/**
 * Connects a screen with a session, again after a lost connection, from the byte on that was seen
 * last. A browser can't slow a WebSocket down: beyond what the screen can draw, output is skipped.
 */
function attach(id: string, sid: string, screen: Screen, note: (s: string) => void, onEnd: () => void): Connection {
  const path = ws(id, "/sessions/" + segment(sid));
  let gone = false;
  let sock: WebSocket | undefined;
  let offset = -1;
  let pending = 0;
  let skipping = false;
  let failures = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const later = () => {
    if (!gone) timer = setTimeout(() => void connect(), Math.min(250 * 2 ** failures++, 4000));
  };
  const sendSize = () => {
    if (sock?.readyState === WebSocket.OPEN) sock.send(JSON.stringify({ type: "resize", size: screen.size() }));
  };
  const connect = async () => {
    try {
      if (offset < 0) offset = await beginning(path);
    } catch (e) {
      if (e instanceof Problem && e.status === 404) {
        note("This terminal is gone.");
        onEnd();
        return;
      }
      note("The connection is lost. Trying again …");
      later();
      return;
    }
    if (gone) return;
    let ended = false;
    const s = new WebSocket(socket(path + "/attach", { offset }));
    sock = s;
    s.binaryType = "arraybuffer";
    s.onopen = () => {
      failures = 0;
      note("");
      sendSize();
    };
    s.onmessage = (m) => {
      if (gone || sock !== s) return;
      if (typeof m.data === "string") {
        const msg = JSON.parse(m.data) as { type: string; result?: { exitCode: number; cause?: string }; error?: { message: string } };
        ended = true;
        if (msg.type === "exit") note(`The shell has ended with exit status ${msg.result?.exitCode ?? "?"}${msg.result?.cause ? ` (${visible(msg.result.cause)})` : ""}.`);
        else {
          // Perhaps the part of the log is no longer there.
          offset = -1;
          ended = false;
          note(visible(msg.error?.message) || "The connection is lost. Trying again …");
        }
        if (ended) onEnd();
        return;
      }
      const data = new Uint8Array(m.data as ArrayBuffer);
      offset += data.length;
      pending += data.length;
      screen.write(data, () => {
        pending -= data.length;
        resume();
      });
      if (pending > maxPending) skip();
    };
    s.onclose = () => {
      if (gone || ended || skipping || sock !== s) return;
      note("The connection is lost. Trying again …");
      if (failures > 3) offset = -1;
      later();
    };
  };
  // Draws what has arrived, and goes on at the end of the output.
  const skip = () => {
    if (skipping) return;
    skipping = true;
    sock?.close();
    sock = undefined;
    screen.write("", resume);
  };
  const resume = () => {
    if (!skipping || pending > 0 || gone) return;
    skipping = false;
    offset = -1;
    screen.write("\r\n\x1b[0m[output skipped: it came faster than the page can show]\r\n");
    void connect();
  };
  // The output is read in order: behind a command that writes without end, the page would show
  // what was written long ago.
  let seen = 0;
  const watch = setInterval(async () => {
    const moved = offset - seen;
    seen = offset;
    if (moved < 16 << 10 || skipping || gone) return;
    try {
      const { size } = await get<LogChunk>(path + "/log", { offset, limit: 1 });
      if (size - offset > maxBehind) skip();
    } catch {
      // the connection says what is wrong
    }
  }, 1000);
  screen.onInput((data) => {
    if (sock?.readyState === WebSocket.OPEN) sock.send(data as unknown as ArrayBuffer);
    // While output is skipped there is no connection; Ctrl-C must still reach the shell.
    else void send("POST", path + "/stdin", { body: data as unknown as BodyInit, headers: { "Content-Type": "application/octet-stream" } }).catch(() => note("The connection is lost, and what you typed with it. Trying again …"));
  });
  screen.onResize(sendSize);
  void connect();
  return {
    close() {
      gone = true;
      clearTimeout(timer);
      clearInterval(watch);
      sock?.close();
    },
  };
}

/** Shows the output of a session to a key that may not type. */
function follow(id: string, sid: string, screen: Screen, note: (s: string) => void, onEnd: () => void): Connection {
  const path = ws(id, "/sessions/" + segment(sid));
  const end = new AbortController();
  note("This view is read-only: you see the output.");
  void (async () => {
    let offset = -1;
    while (!end.signal.aborted) {
      try {
        if (offset < 0) offset = await beginning(path);
        const chunk = await get<LogChunk>(path + "/log", { offset, limit: 256 << 10 }, end.signal);
        if (chunk.data) {
          await new Promise<void>((resolve) => screen.write(fromBase64(chunk.data), resolve));
          offset = chunk.next;
          if (chunk.next < chunk.size) continue;
        }
      } catch (e) {
        if (e instanceof Problem && e.status === 404) {
          onEnd();
          return;
        }
      }
      await new Promise((r) => setTimeout(r, 1000));
    }
  })();
  return { close: () => end.abort() };
}
