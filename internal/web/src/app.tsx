import { Component, type ComponentChildren, type VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, link, type Me, onLink, Problem, send, setWho, type Who, who, type Workspace, ws } from "./api";
import { Keys, Palette, useKeys } from "./palette";
import { go, href, type Route, useRoute } from "./router";
import { Artifacts } from "./views/artifacts";
import { Evaluations } from "./views/evals";
import { Operate } from "./views/operate";
import { SignIn } from "./views/signin";
import { Templates } from "./views/templates";
import { WorkspaceView } from "./views/workspace";
import { OpenWorkspace, Workspaces } from "./views/workspaces";
import { isDark, onTheme, toggleTheme } from "./theme";
import { Button, Failure, Icon, Questions, toast, Toasts } from "./ui";
import { visible } from "./text";

export const sections = [
  { id: "workspaces", label: "Workspaces", icon: "boxes" },
  { id: "templates", label: "Templates", icon: "template" },
  { id: "artifacts", label: "Artifacts", icon: "artifact" },
  { id: "evals", label: "Evaluations", icon: "chart" },
  { id: "operate", label: "Operate", icon: "gear" },
];

type Phase = "asking" | "out" | "in" | "offline" | "other"; // other: signed in, at a share link of a workspace that the key does not see

export function App(): VNode {
  const route = useRoute();
  const [phase, setPhase] = useState<Phase>("asking");
  const [, draw] = useState(0);

  const ask = async () => {
    try {
      setWho(await get<Who>("/page/session"));
      setPhase("in");
    } catch (e) {
      if (e instanceof Problem && e.offline) {
        setPhase("offline");
        setTimeout(ask, 1500);
      } else setPhase("out");
    }
  };
  useEffect(() => {
    if (route.parts[0] !== "share") void ask();
    return onLink(() => {
      if (link.signedOut) setPhase((p) => (p === "in" ? "out" : p));
      draw((n) => n + 1);
    });
  }, []);

  // A share link signs in with the text in its address. Whoever is signed in already stays so, if
  // the workspace is theirs to see, and is asked otherwise.
  const shared = route.parts[0] === "share" ? route.parts[1] : undefined;
  const [shareError, setShareError] = useState<unknown>();
  const openShare = async (key: string) => {
    try {
      const w = (await (await send("POST", "/page/session", { json: { key, share: true } })).json()) as Who;
      setWho(w);
      setPhase("in");
      location.replace(href("w", w.workspace ?? ""));
    } catch (e) {
      setShareError(e);
      setPhase("out");
    }
  };
  useEffect(() => {
    if (!shared) return;
    void (async () => {
      const own = await get<Who>("/page/session").catch(() => undefined);
      if (!own || own.workspace) return openShare(shared);
      try {
        const { workspace } = (await (await send("GET", "/v1/me", { headers: { Authorization: `Bearer ${shared}` } })).json()) as Me;
        setWho(own);
        if (!workspace) throw new Error("The key in this address is not that of a share link.");
        const seen = await get<Workspace>(ws(workspace)).catch(() => undefined);
        setPhase(seen ? "in" : "other");
        if (seen) location.replace(href("w", workspace));
      } catch (e) {
        setWho(own);
        setPhase("in");
        location.replace(href("workspaces"));
        toast("The link was not opened", e);
      }
    })();
  }, [shared]);

  if (phase === "asking") return <div class="blank" />;
  if (phase === "offline")
    return (
      <main class="center">
        <Failure error={new Problem(0, "offline", "The server does not answer.")} alone />
      </main>
    );
  if (phase === "other")
    return (
      <main class="signin">
        <form
          onSubmit={(e) => {
            e.preventDefault();
            if (shared) void openShare(shared);
          }}
        >
          <h1>Open the shared workspace?</h1>
          <p>You are signed in as {account()}, who does not see this workspace. The link shows it, read-only, and signs you out in this browser.</p>
          <Button kind="primary" type="submit">
            Sign out and open the link
          </Button>
          <Button
            onClick={() => {
              setPhase("in");
              location.replace(href("workspaces"));
            }}
          >
            Stay signed in
          </Button>
        </form>
      </main>
    );
  if (phase === "out")
    return (
      <>
        <SignIn
          error={shareError}
          onDone={(w) => {
            setWho(w);
            setPhase("in");
            if (shared) go("/workspaces");
          }}
        />
        <Toasts />
      </>
    );
  return <Frame route={route} signedOut={() => setPhase("out")} />;
}

/** Who is signed in, in one or two words. */
function account(): string {
  return who.workspace ? "Shared view" : visible(who.tenant || (who.operator ? "operator" : who.key));
}

function Frame({ route, signedOut }: { route: Route; signedOut: () => void }): VNode {
  const keys = useKeys();
  const [opening, setOpening] = useState(false);
  const [, draw] = useState(0);
  useEffect(() => onTheme(() => draw((n) => n + 1)), []);
  const first = route.parts[0] ?? "workspaces";
  const section = first === "w" ? "workspaces" : first;
  const signOut = async () => {
    try {
      await send("DELETE", "/page/session");
    } catch {
      // the cookie may be gone already
    }
    signedOut();
  };
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to content
      </a>
      <nav class="side" aria-label="Main">
        <a class="brand" href="#/workspaces" aria-label="Croft: workspaces">
          <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
            <rect width="32" height="32" rx="7" class="brand-box" />
            <path d="M6.5 24.5V14L16 7l9.5 7v10.5M12 24.5v-7h8v7" class="brand-line" />
          </svg>
          <b>Croft</b>
        </a>
        {sections
          .filter((s) => !who.workspace || s.id === "workspaces")
          .map((s) => (
            <a key={s.id} href={href(s.id)} aria-current={section === s.id ? "page" : undefined} class="section">
              <Icon name={s.icon} />
              <span>{s.label}</span>
            </a>
          ))}
        <div class="side-end">
          <Button icon="search" kind="plain" label="Search Ctrl K: workspaces, templates and commands" onClick={keys.openPalette}>
            <span class="who">
              Search <small>Ctrl K</small>
            </span>
          </Button>
          <Button icon={isDark() ? "sun" : "moon"} kind="plain" label={isDark() ? "Light colours" : "Dark colours"} onClick={toggleTheme}>
            {isDark() ? "Light" : "Dark"}
          </Button>
          <Button icon="user" kind="plain" label={`Sign out ${account()}, scope ${who.scope}`} title={`Sign out ${who.key}, scope ${who.scope}`} onClick={signOut}>
            <span class="who">
              Sign out <small>{account()}</small>
            </span>
          </Button>
        </div>
      </nav>
      <main id="main" tabIndex={-1}>
        {link.offline && (
          <p class="banner" role="alert">
            <Icon name="warn" /> The server does not answer. What you see is from before; the page tries again by itself.
          </p>
        )}
        {who.secure === false && (
          <p class="banner" role="note">
            <Icon name="warn" /> This connection is not encrypted. Serve the page over TLS: croft up --tls-cert FILE --tls-key FILE.
          </p>
        )}
        <Boundary key={route.parts.slice(0, 3).join("/")}>
          <View route={route} />
        </Boundary>
      </main>
      {keys.palette && <Palette onClose={keys.close} onOpen={() => setOpening(true)} onHelp={keys.openHelp} />}
      {opening && <OpenWorkspace onClose={() => setOpening(false)} onOpened={() => {}} />}
      {keys.help && <Keys onClose={keys.close} />}
      <Questions />
      <Toasts />
    </div>
  );
}

function View({ route }: { route: Route }): VNode {
  const [first = "workspaces", ...rest] = route.parts;
  useEffect(() => {
    const s = sections.find((x) => x.id === first);
    document.title = s ? `${s.label} – Croft` : "Croft";
  }, [first]);
  switch (first) {
    case "w":
      return <WorkspaceView key={rest[0]} id={rest[0] ?? ""} tab={rest[1] ?? "files"} route={route} />;
    case "templates":
      return <Templates name={rest[0]} />;
    case "artifacts":
      return <Artifacts />;
    case "evals":
      return <Evaluations route={route} />;
    case "operate":
      return <Operate tab={rest[0] ?? "health"} />;
    case "workspaces":
      return <Workspaces />;
  }
  return (
    <div class="page">
      <Failure error={new Error(`There is no view "${first}".`)} />
      <p>
        <a href="#/workspaces">To the workspaces</a>
      </p>
    </div>
  );
}

/** Shows an error of the page itself instead of a blank view. */
class Boundary extends Component<{ children: ComponentChildren }, { error?: unknown }> {
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }
  render() {
    if (!this.state.error) return this.props.children;
    return (
      <div class="page">
        <Failure error={this.state.error} retry={() => this.setState({ error: undefined })} />
      </div>
    );
  }
}
