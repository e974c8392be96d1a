// Package rest serves workspaces over HTTP: Croft's own REST under /v1, with an
// OpenAPI 3.1 document at /v1/openapi.json, and /healthz.
//
// # Who may ask
//
// Every route but /healthz wants "Authorization: Bearer TOKEN". The Host header
// must be localhost, an address, or a name that the server was told it has, and
// an Origin must be the server itself, so that a page in somebody's browser can't reach a
// server on the same machine, whatever its name resolves to.
//
// # Errors
//
// Every error, from whatever layer, is {"error": {code, kind, message, ...}} (see
// fault.Wire), under the status that fault.Code.Status gives its code. The
// message of an internal error stays in the server's log.
//
// # Names
//
// A workspace is addressed by its id or its name ({id} in a route), with ?owner=
// where names of several owners must be told apart. Refs never cross this edge.
//
// Paths travel in the query, percent-encoded, so that any byte survives: a file
// whose name is not UTF-8 is read with ?path=caf%E9. In answers, which are JSON,
// such a name has a readable form under its usual key and its bytes under a key
// that ends in B64 (pathB64, targetB64, textB64, nextB64), base64-encoded; edits
// take oldB64 and newB64 likewise.
//
// # Commands
//
// POST .../exec runs a command and streams what it writes as JSON lines; a client
// that goes away ends it. POST .../sessions starts one that goes on, and
// .../sessions/{sid} has what can be done with it. Two routes are WebSockets: GET
// .../exec carries one command with its streams both ways, each with a window of
// its own, so that a callback far away holds the command up just as one nearby
// would (see package shellwire); GET .../sessions/{sid}/attach is a terminal.
//
// # Events
//
// GET /events is the audit stream as server-sent events. A client that comes back
// with Last-Event-ID misses nothing that is still kept, and is told what is not.
//
// # Strictness
//
// Unknown query parameters and unknown, repeated or differently spelled keys of
// a body are errors that name them.
package rest
