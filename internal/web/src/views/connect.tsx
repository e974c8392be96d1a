import type { VNode } from "preact";
import { Command } from "../commands";
import { Snippet } from "../ui";
import type { TabProps } from "./workspace";

export function Connect({ w }: TabProps): VNode {
  const origin = location.origin;
  const name = w.name || w.id;
  const sdk = [
    {
      title: "E2B SDK, TypeScript",
      text: "Connecting keeps the sandbox for at least 5 minutes more, or for the time-out that you give. At its end it is paused or destroyed, as its creator said.",
      code: `// E2B_API_KEY=YOUR_KEY E2B_API_URL=${origin} E2B_SANDBOX_URL=${origin}\nimport { Sandbox } from "e2b";\n\nconst sandbox = await Sandbox.connect("${w.id}");\nconst result = await sandbox.commands.run("ls -la");\nconsole.log(result.stdout);`,
    },
    {
      title: "E2B SDK, Python",
      text: "",
      code: `# E2B_API_KEY=YOUR_KEY E2B_API_URL=${origin} E2B_SANDBOX_URL=${origin}\nfrom e2b import Sandbox\n\nsandbox = Sandbox.connect("${w.id}")\nprint(sandbox.commands.run("ls -la").stdout)`,
    },
  ];
  const parts: { title: string; text: string; code: string }[] = [
    {
      title: "Command line",
      text: "On this host, or on another with the address and a key.",
      code: `export CROFT_SERVER=${origin} CROFT_TOKEN=YOUR_KEY\ncroft ws shell ${name}\ncroft ws exec ${name} -- ls -la\ncroft ws diff ${name}`,
    },
    {
      title: "MCP, for agents",
      text: "Any MCP client that speaks streamable HTTP. The address binds the client to this workspace.",
      code: JSON.stringify({ mcpServers: { croft: { type: "http", url: `${origin}/mcp?workspace=${name}`, headers: { Authorization: "Bearer YOUR_KEY" } } } }, null, 2),
    },
    ...(w.sandbox ? sdk : []),
    {
      title: "HTTP",
      text: "Everything that this page does, curl can do. The document of the API is at /v1/openapi.json.",
      code: `curl -H "Authorization: Bearer $CROFT_TOKEN" ${origin}/v1/workspaces/${name}\ncurl -H "Authorization: Bearer $CROFT_TOKEN" "${origin}/v1/workspaces/${name}/list?path=.&depth=-1"`,
    },
  ];
  return (
    <div class="scroll connect">
      <section>
        <p>Replace YOUR_KEY with a key. Make one under Operate → Keys, or on the server's host:</p>
        <Command text="croft key create --scope run" label="command that makes a key" onHost />
      </section>
      {parts.map((p) => (
        <section key={p.title}>
          <h2>{p.title}</h2>
          {p.text && <p>{p.text}</p>}
          <Snippet text={p.code} label={p.title} />
        </section>
      ))}
      {!w.sandbox && (
        <section>
          <h2>E2B SDK</h2>
          <p>E2B's SDKs connect to sandboxes that were created through E2B's API. This workspace was created in another way.</p>
        </section>
      )}
    </div>
  );
}
