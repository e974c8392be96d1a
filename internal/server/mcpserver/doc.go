// Package mcpserver serves tools to agents over the Model Context Protocol (MCP).
//
// A [Server] adapts a tool.Env: each tool becomes an MCP tool with its schemas and
// annotations, an answer becomes text and structured content, an error of a tool
// becomes a result for the model. Files of workspaces are resources
// (workspace://NAME/PATH), common tasks are prompts, long calls send progress, and a
// call that needs approval asks the user by elicitation. Every message goes through
// the SDK and its middleware, and an answer is sent after the audit event of its call
// is written.
//
// # Transports
//
// [Server.ServeStdio] is for agents that start the server themselves.
// [Server.Handler] is streamable HTTP, in which a client can resume after a lost
// connection, and [Server.SSEHandler] is for older clients. Neither checks tokens;
// [Guard] adds the check of the token, of Host and of Origin, so that no page in a
// browser reaches them.
//
// # Disconnected clients
//
// A call ends when its client cancels it or the session ends. An HTTP client that
// disconnects during a call may reconnect within Options.ReconnectGrace; after that
// its calls are cancelled, with all processes that they run.
package mcpserver
