// Commands of croft that work when they are pasted: with the data directory or the address of this server.

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, who } from "./api";
import { Snippet } from "./ui";

/** How a shell on the machine of this browser reaches the server. */
interface Host {
  local: boolean; // the browser is on the server's host
  data?: string; // the data directory, where local
  config?: string; // the configuration file, where a command has to name it
  default?: boolean; // the data directory is the one that croft uses without --data
}

let host: Promise<Host> | undefined;

export function useHost(): Host | undefined {
  const [known, set] = useState<Host>();
  useEffect(() => {
    host ??= get<Host>("/page/host").catch(() => {
      host = undefined;
      return { local: false };
    });
    void host.then(set);
  }, []);
  return known;
}

export function quoted(s: string): string {
  return /^[\w@%+=:,./-]+$/.test(s) ? s : "'" + s.replace(/'/g, "'\\''") + "'";
}

/** Commands as they reach this server; those for the server's host never go by its address. */
function complete(text: string, h: Host, onHost: boolean): string {
  if (!/^croft /m.test(text)) return text;
  if (h.local && (who.operator || onHost)) {
    const flags = (h.config ? `--config ${quoted(h.config)} ` : "") + (h.default ? "" : `--data ${quoted(h.data ?? "")} `);
    return text.replace(/^croft /gm, () => "croft " + flags);
  }
  return onHost ? text : `export CROFT_SERVER=${location.origin} CROFT_TOKEN=YOUR_KEY\n${text}`;
}

/** Commands to copy. */
export function Command({ text, label, onHost = false }: { text: string; label?: string; onHost?: boolean }): VNode | null {
  const h = useHost();
  return h ? <Snippet text={complete(text, h, onHost)} label={label} /> : null;
}
