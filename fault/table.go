package fault

import "net/http"

// A row says how one code looks at each edge of Croft.
type row struct {
	status int // HTTP
	tool   bool
	exit   int // of the croft program
}

// table has a row for every code; a test ranges over All to keep it so.
//
// Exit statuses start at 10, so that they never meet the shell's own (126 and
// up), the usage error (2) or the verdicts of croft eval (1 and 2).
var table = map[Code]row{
	InvalidArgument:   {http.StatusBadRequest, true, 10},
	NotFound:          {http.StatusNotFound, true, 11},
	AlreadyExists:     {http.StatusConflict, true, 12},
	PermissionDenied:  {http.StatusForbidden, true, 13},
	SandboxViolation:  {http.StatusForbidden, true, 14},
	Conflict:          {http.StatusPreconditionFailed, true, 15},
	ResourceExhausted: {http.StatusTooManyRequests, true, 16},
	Unavailable:       {http.StatusServiceUnavailable, true, 17},
	Failed:            {http.StatusUnprocessableEntity, true, 18},
	Evicted:           {http.StatusGone, true, 19},
	Unsupported:       {http.StatusNotImplemented, true, 20},
	Canceled:          {499, true, 21}, // nginx's "client closed request"; no registered status says it
	DeadlineExceeded:  {http.StatusGatewayTimeout, true, 22},
	Internal:          {http.StatusInternalServerError, true, 23},
	Unauthenticated:   {http.StatusUnauthorized, false, 24},
	WrongState:        {http.StatusConflict, true, 25},
}

// Status returns the HTTP status of a code: 200 for "" and 500 for a code that
// is not of the closed set.
func (c Code) Status() int {
	if c == "" {
		return http.StatusOK
	}
	if r, ok := table[c]; ok {
		return r.status
	}
	return http.StatusInternalServerError
}

// Exit returns the exit status of the croft program for a code: 0 for "".
func (c Code) Exit() int {
	if c == "" {
		return 0
	}
	if r, ok := table[c]; ok {
		return r.exit
	}
	return table[Internal].exit
}

// ToolError reports how MCP tells of a code: true for a result with isError
// set, which the model reads and can act on; false for a JSON-RPC error, which
// ends the exchange.
func (c Code) ToolError() bool { return c == "" || table[c].tool }
