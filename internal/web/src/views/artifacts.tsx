import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, send, type WorkspaceArtifact, type WorkspaceArtifacts, ws } from "../api";
import { useLoad, useNames, useNow } from "../hooks";
import { href } from "../router";
import { ago, bytes, count, date, visible, visibleText } from "../text";
import { act, Button, type Column, Empty, Failure, Loading, Search, Table } from "../ui";
import { saveAs } from "./files";

const id = (a: WorkspaceArtifact) => `${a.workspace}\0${a.name}`;

async function content(a: WorkspaceArtifact, signal?: AbortSignal): Promise<Response> {
  return send("GET", ws(a.workspace, "/artifacts/content"), { query: { name: a.name, version: a.version }, signal });
}

export function Artifacts(): VNode {
  const list = useLoad((s) => get<WorkspaceArtifacts>("/v1/artifacts", undefined, s), "artifacts", 5000);
  const now = useNow();
  const names = useNames();
  const [filter, setFilter] = useState("");
  const [chosen, choose] = useState("");
  const all = list.data?.artifacts ?? [];
  const rows = all.filter((a) => `${a.name} ${a.workspace} ${names.get(a.workspace) ?? ""} ${a.mime_type}`.toLowerCase().includes(filter.toLowerCase()));
  const current = all.find((a) => id(a) === chosen);
  const columns: Column<WorkspaceArtifact>[] = [
    { id: "name", label: "Name", sort: (a) => a.name, cell: (a) => <button type="button" class="link cut" onClick={() => choose(id(a))}>{visible(a.name)}</button> },
    { id: "workspace", label: "Workspace", sort: (a) => names.get(a.workspace) ?? a.workspace, cell: (a) => (names.has(a.workspace) ? <a class="quiet" href={href("w", a.workspace)} title={a.workspace}>{visible(names.get(a.workspace))}</a> : <span class="soft mono" title="This workspace was destroyed">{visible(a.workspace).slice(0, 8)}…</span>), wide: true },
    { id: "version", label: "Version", number: true, cell: (a) => a.version, wide: true },
    { id: "mime", label: "Type", sort: typeOf, cell: (a) => visible(typeOf(a)) || <span class="soft">–</span>, wide: true },
    { id: "size", label: "Size", number: true, sort: (a) => a.size_bytes, cell: (a) => bytes(a.size_bytes) },
    { id: "age", label: "Age", number: true, sort: (a) => -Date.parse(a.created_at), cell: (a) => <time dateTime={a.created_at} title={date(a.created_at)}>{ago(a.created_at, now)}</time> },
  ];
  return (
    <div class="page fill">
      <header class="head">
        <h1>Artifacts</h1>
        <span class="soft number">{list.data ? count(all.length, "artifact") : ""}</span>
      </header>
      <div class="split">
        <div class="split-list">
          <div class="bar-line">
            <Search id="filter" value={filter} onInput={setFilter} label="Filter by name, workspace or type" />
          </div>
          {list.error !== undefined && !list.data && <Failure error={list.error} retry={list.reload} />}
          {!list.data && list.error === undefined && <Loading what="artifacts" />}
          {list.data && all.length === 0 && (
            <Empty title="No artifacts yet" command={"croft ws collect NAME 'out/**' --save"}>
              Artifacts are files that were taken out of a workspace to be kept, version by version, also after the workspace is destroyed:
            </Empty>
          )}
          {rows.length > 0 && <Table label="Artifacts" rows={rows} columns={columns} id={id} onOpen={(a) => choose(id(a))} initial="age" />}
        </div>
        {current && <Preview key={chosen + current.version} a={current} onClose={() => choose("")} />}
      </div>
    </div>
  );
}

const byName: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  svg: "image/svg+xml",
  txt: "text/plain",
  log: "text/plain",
  md: "text/markdown",
  csv: "text/csv",
  html: "text/html",
  json: "application/json",
  yaml: "application/yaml",
  yml: "application/yaml",
  xml: "application/xml",
  pdf: "application/pdf",
  zip: "application/zip",
  gz: "application/gzip",
  patch: "text/x-diff",
  diff: "text/x-diff",
};

/** The type of an artifact by its name: a list of them has no other. */
function typeOf(a: WorkspaceArtifact): string {
  return a.mime_type || (byName[a.name.slice(a.name.lastIndexOf(".") + 1).toLowerCase()] ?? "");
}

// Pictures that a browser draws without running anything in them: SVG is shown as text.
const pictures = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

function Preview({ a, onClose }: { a: WorkspaceArtifact; onClose: () => void }): VNode {
  const picture = pictures.has(typeOf(a));
  const small = a.size_bytes <= (picture ? 16 << 20 : 1 << 20);
  const loaded = useLoad(async (s) => {
    if (!small) return {};
    const data = new Uint8Array(await (await content(a, s)).arrayBuffer());
    if (picture) return { image: URL.createObjectURL(new Blob([data], { type: typeOf(a) })) };
    const text = new TextDecoder().decode(data);
    return text.slice(0, 8192).includes("\0") ? {} : { text };
  }, id(a) + a.version);
  const image = loaded.data?.image;
  useEffect(() => () => { if (image) URL.revokeObjectURL(image); }, [image]);
  const base = a.name.slice(a.name.lastIndexOf("/") + 1);
  return (
    <div class="detail" role="region" aria-label={`Artifact ${visible(a.name)}`}>
      <header class="viewer-bar">
        <Button icon="close" label="Close" kind="plain" small onClick={onClose} />
        <b class="cut">{visible(a.name)}</b>
        <span class="soft number">
          version {a.version} · {bytes(a.size_bytes)}
        </span>
        <span class="gap" />
        <Button small icon="download" onClick={() => void act("", async () => saveAs(base, await (await content(a)).blob()))}>
          Download
        </Button>
      </header>
      <Failure error={loaded.error} retry={loaded.reload} />
      {!loaded.data && loaded.error === undefined && <Loading what="the artifact" />}
      {image && (
        <div class="picture">
          <img src={image} alt={visible(a.name)} />
        </div>
      )}
      {loaded.data?.text !== undefined && (
        <pre class="preview" tabIndex={0} aria-label="Content">
          {visibleText(loaded.data.text)}
        </pre>
      )}
      {loaded.data && !image && loaded.data.text === undefined && <Empty title="No preview">{small ? "This is no text and no picture that can be shown safely." : `It has ${bytes(a.size_bytes)}.`} Download it to look at it.</Empty>}
    </div>
  );
}
