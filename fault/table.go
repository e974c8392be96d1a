package fault

// An edgeRow has the form of one code at each edge of Croft.
type edgeRow struct {
	status int // HTTP; numbers, so that the guest does not carry net/http for their names
	tool   bool
	exit   int // of the croft program
}

// table has a row for every code, which a test checks.
//
// Exit statuses start at 10, to avoid the shell's own (126 and up), the usage error (2) and
// the verdicts of croft eval (1 and 2).
var table = map[Code]edgeRow{
	InvalidArgument:   {400, true, 10},
	NotFound:          {404, true, 11},
	AlreadyExists:     {409, true, 12},
	PermissionDenied:  {403, true, 13},
	SandboxViolation:  {403, true, 14},
	Conflict:          {412, true, 15},
	ResourceExhausted: {429, true, 16},
	Unavailable:       {503, true, 17},
	Failed:            {422, true, 18},
	Evicted:           {410, true, 19},
	Unsupported:       {501, true, 20},
	Canceled:          {499, true, 21}, // nginx's "client closed request"; no registered status says it
	DeadlineExceeded:  {504, true, 22},
	Internal:          {500, true, 23},
	Unauthenticated:   {401, false, 24},
	WrongState:        {409, true, 25},
}

// Status returns the HTTP status of a code: 200 for "" and 500 for an unknown code.
func (c Code) Status() int {
	if c == "" {
		return 200
	}
	if r, ok := table[c]; ok {
		return r.status
	}
	return 500
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

// ToolError reports how MCP returns a code: true for a result with isError, which the model
// reads and can act on; false for a JSON-RPC error, which ends the exchange.
func (c Code) ToolError() bool { return c == "" || table[c].tool }
