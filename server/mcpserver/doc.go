// Package mcpserver gives tools to agents over the Model Context Protocol.
//
// A [Server] adapts a tool.Env: each tool becomes an MCP tool with its schemas
// and annotations, an answer becomes text and structured content, an error of a
// tool a result that the model reads. It adds what the protocol has beside tools:
// files of workspaces are resources (workspace://NAME/PATH), common flows are
// prompts, long calls tell their progress, and a call that a rule wants approved
// asks the user through the client. Every message goes through the SDK and its
// middleware, and an answer is sent after the audit event of its call is written.
//
// # Transports
//
// [Server.ServeStdio] speaks over a pair of streams, which is how agents start a
// server of their own. [Server.Handler] is streamable HTTP, where a client that
// lost its connection can resume, and [Server.SSEHandler] is for older clients.
// Neither knows tokens; [Guard] puts them behind one, with checks of Host and
// Origin, so that no page in a browser reaches them.
//
// # Who goes away
//
// A call ends when its client cancels it or the session ends. A client that
// vanishes from HTTP in the middle of a call may come back within Options.Vanish;
// after that its calls end, and all that they run.
package mcpserver
