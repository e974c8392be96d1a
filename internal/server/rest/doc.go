// Package rest serves workspaces over HTTP: a REST API under /v1, with an OpenAPI 3.1
// document at /v1/openapi.json, /healthz and /readyz.
//
// # Authentication
//
// Every route except these two needs "Authorization: Bearer TOKEN". The Host header must
// be localhost, an address, or a configured name, and an Origin must be the server
// itself. So a web page can't reach a server on the same host, not even by DNS
// rebinding.
//
// # Errors
//
// Every error, from whatever layer, is {"error": {code, kind, message, ...}} (see
// fault.Wire), under the status that fault.Code.Status gives its code. The
// message of an internal error stays in the server's log.
//
// # Names
//
// A workspace is addressed by its id or its name ({id} in a route), with ?owner= for a
// name of an owner. Refs are never in answers.
//
// Paths travel in the query, percent-encoded, so that any byte survives: a file
// whose name is not UTF-8 is read with ?path=caf%E9. In answers, which are JSON,
// such a name has a readable form under its usual key and its bytes under a key
// that ends in B64 (pathB64, targetB64, textB64, nextB64), base64-encoded; edits
// take oldB64 and newB64 likewise.
//
// # Commands
//
// POST .../exec runs a command and streams its output as JSON lines; it ends if the
// client disconnects. POST .../sessions starts a background session, and
// .../sessions/{sid} has its operations. Two routes are WebSockets: GET .../exec has
// one command with its streams in both directions, each with flow control (see package
// shellwire); GET .../sessions/{sid}/attach is a terminal.
//
// # Events
//
// GET /events is the audit stream as server-sent events. A client that reconnects with
// Last-Event-ID gets the events that are still kept, and how many are lost.
//
// # Strictness
//
// Unknown query parameters and unknown, repeated or differently spelled keys of
// a body are errors that name them.
package rest
