import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Event, get, Problem, url, type Workspace } from "./api";

export interface Loaded<R> {
  data?: R;
  error?: unknown;
  loading: boolean;
  reload: () => void;
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const t = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(t);
      resolve();
    });
  });
}

/**
 * Loads what load returns, again whenever key changes, every `every` milliseconds while the page is
 * visible (0 is once), and after reload(). The former data stays while the next is loaded, and
 * after an error.
 */
export function useLoad<R>(load: (signal: AbortSignal) => Promise<R>, key: string, every = 0): Loaded<R> {
  const [state, set] = useState<{ key: string; data?: R; error?: unknown; loading: boolean }>({ key, loading: true });
  const loader = useRef(load);
  loader.current = load;
  const wake = useRef<() => void>(() => {});
  useEffect(() => {
    const end = new AbortController();
    let ask: () => void = () => {};
    let asked = false;
    wake.current = () => {
      asked = true;
      ask();
    };
    const onVisible = () => {
      if (!document.hidden) wake.current();
    };
    document.addEventListener("visibilitychange", onVisible);
    void (async () => {
      let failures = 0;
      while (!end.signal.aborted) {
        asked = false;
        try {
          const data = await loader.current(end.signal);
          failures = 0;
          if (!end.signal.aborted) set({ key, data, loading: false });
        } catch (error) {
          if (end.signal.aborted) return;
          failures++;
          set((old) => ({ key, data: old.key === key ? old.data : undefined, error, loading: false }));
          // Without a server, ask again even for what is loaded once.
          if (error instanceof Problem && error.offline) {
            await sleep(Math.min(1000 * failures, 5000), end.signal);
            continue;
          }
        }
        if (asked) continue;
        await new Promise<void>((resolve) => {
          ask = resolve;
          end.signal.addEventListener("abort", () => resolve());
          const tick = () => {
            if (end.signal.aborted) return;
            if (document.hidden) setTimeout(tick, 1000);
            else resolve();
          };
          if (every > 0) setTimeout(tick, every);
        });
      }
    })();
    return () => {
      document.removeEventListener("visibilitychange", onVisible);
      end.abort();
    };
  }, [key, every]);
  const reload = useCallback(() => wake.current(), []);
  const own = state.key === key;
  return { data: own ? state.data : undefined, error: own ? state.error : undefined, loading: own ? state.loading : true, reload };
}

/** The names of the workspaces that are there, by id. */
export function useNames(): Map<string, string> {
  const list = useLoad((s) => get<{ workspaces: Workspace[] | null }>("/v1/workspaces", undefined, s), "names");
  return new Map((list.data?.workspaces ?? []).map((w) => [w.id, w.name || w.id]));
}

/** Draws a component again every so often, for ages. */
export function useNow(every = 5000): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const t = setInterval(() => set(Date.now()), every);
    return () => clearInterval(t);
  }, [every]);
  return now;
}

// One stream of events serves all of the page. It is open only while the page is visible: a
// browser opens no more than six connections to a server over HTTP/1.1.
type EventListener = (e: Event) => void;
const eventListeners = new Set<EventListener>();
let source: EventSource | undefined;
let retry: ReturnType<typeof setTimeout> | undefined;
let lastSequence = 0;

function openStream(): void {
  clearTimeout(retry);
  source?.close();
  source = undefined;
  if (document.hidden || eventListeners.size === 0) return;
  source = new EventSource(url("/events", lastSequence ? { after: lastSequence } : {}));
  source.onmessage = (m) => {
    let e: Event;
    try {
      e = JSON.parse(String(m.data)) as Event;
    } catch {
      return;
    }
    lastSequence = e.sequence;
    for (const f of eventListeners) f(e);
  };
  source.onerror = () => {
    source?.close();
    source = undefined;
    retry = setTimeout(openStream, 1500);
  };
}
document.addEventListener("visibilitychange", openStream);

/** Calls f for each event of the server from now on. */
export function useEvents(f: EventListener): void {
  const ref = useRef(f);
  ref.current = f;
  useEffect(() => {
    const listener: EventListener = (e) => ref.current(e);
    eventListeners.add(listener);
    if (!source) openStream();
    return () => {
      eventListeners.delete(listener);
      if (eventListeners.size === 0) openStream();
    };
  }, []);
}

/** Calls f soon after a call that may have changed a workspace, whoever made it. */
export function useCalls(workspace: string, f: () => void): void {
  const soon = useThrottle(f, 300);
  useEvents((e) => {
    if (e.workspace === workspace && e.event === "api.call" && (e.fields as { method?: string } | undefined)?.method !== "GET") soon();
  });
}

/** Calls f at most once per interval, and once after the last call. */
export function useThrottle(f: () => void, ms: number): () => void {
  const ref = useRef(f);
  ref.current = f;
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const last = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    if (timer.current) return;
    timer.current = setTimeout(
      () => {
        timer.current = undefined;
        last.current = Date.now();
        ref.current();
      },
      Math.max(0, ms - (Date.now() - last.current)),
    );
  }, [ms]);
}

/** A value that the browser keeps, such as a choice of layout. */
export function useStored(name: string, initial: string): [string, (v: string) => void] {
  const [v, set] = useState(() => localStorage.getItem("croft." + name) ?? initial);
  return [
    v,
    (next: string) => {
      localStorage.setItem("croft." + name, next);
      set(next);
    },
  ];
}
