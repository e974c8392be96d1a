import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { Problem, send, type Who } from "../api";
import { Command, useHost } from "../commands";
import { Button, Failure, Field } from "../ui";

export function SignIn({ onDone, error }: { onDone: (w: Who) => void; error?: unknown }): VNode {
  const [key, setKey] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>(error);
  const host = useHost();
  const submit = async (e: SubmitEvent) => {
    e.preventDefault();
    setBusy(true);
    setProblem(undefined);
    try {
      onDone((await (await send("POST", "/page/session", { json: { key: key.trim() } })).json()) as Who);
    } catch (err) {
      setProblem(err instanceof Problem && err.status === 401 ? new Error("This key is not known here, or it has expired. Copy it whole: a key begins with e2b_, and croft up prints the server's token.") : err);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="signin">
      <form onSubmit={submit}>
        <svg viewBox="0 0 32 32" width="40" height="40" aria-hidden="true">
          <rect width="32" height="32" rx="7" class="brand-box" />
          <path d="M6.5 24.5V14L16 7l9.5 7v10.5M12 24.5v-7h8v7" class="brand-line" />
        </svg>
        <h1>Sign in to Croft</h1>
        <Field label="API key or server token">
          <input type="password" name="key" value={key} required autoFocus autoComplete="current-password" onInput={(e) => setKey(e.currentTarget.value)} />
        </Field>
        <Failure error={problem} alone />
        <Button kind="primary" type="submit" disabled={busy || !key.trim()}>
          {busy ? "Signing in …" : "Sign in"}
        </Button>
        {host && <p class="soft">{host.local ? "croft up prints the server's token. Or make a key, in a terminal on this machine:" : "No key yet? Whoever runs the server makes one on its host, with the --config and --data of croft up:"}</p>}
        <Command text={`croft key create --scope ${host?.local ? "admin" : "run"}`} label="command that makes a key" onHost />
      </form>
    </main>
  );
}
