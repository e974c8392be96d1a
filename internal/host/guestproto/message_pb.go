package guestproto

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// maxHints bounds the hints of an error from a guest, and the arguments of one.
const maxHints = 8

// Sizes that keep every message well below what ttrpc carries (4 MiB).
const (
	MaxChunk  = 256 << 10 // of a file, a log or standard input
	MaxStream = 1 << 20   // of each stream in a result
)

// ToStatus encodes an error, with its code, as the status of a ttrpc call.
func ToStatus(err error) error {
	w, valid := fault.Encode(err), func(s string) string { return strings.ToValidUTF8(s, "?") }
	detail := &guestpb.Error{Code: w.Code, Kind: w.Kind, Message: valid(w.Message), Cause: w.Cause, Transient: w.Transient}
	for _, h := range w.Hints {
		hint := &guestpb.Hint{Kind: string(h.Kind), Text: valid(h.Text)}
		for _, arg := range h.Args {
			hint.Args = append(hint.Args, valid(arg))
		}
		detail.Hints = append(detail.Hints, hint)
	}
	st, serr := status.New(codes.Unknown, "").WithDetails(detail)
	if serr != nil {
		return err
	}
	return st.Err()
}

// FromStatus decodes the error that a guest answered a call with; nil if err is not such
// a status. The text is untrusted, so FromStatus truncates it.
func FromStatus(err error) error {
	st, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, detail := range st.Details() {
		if e, ok := detail.(*guestpb.Error); ok && e.Code != "" {
			w := fault.Wire{Code: e.Code, Kind: e.Kind, Message: Truncate(e.Message, 4096), Cause: Truncate(e.Cause, 64), Transient: e.Transient}
			for _, h := range e.Hints[:min(len(e.Hints), maxHints)] {
				hint := fault.Hint{Kind: fault.HintKind(Truncate(h.Kind, 64)), Text: Truncate(h.Text, 4096)}
				for _, arg := range h.Args[:min(len(h.Args), maxHints)] {
					hint.Args = append(hint.Args, Truncate(arg, 1024))
				}
				w.Hints = append(w.Hints, hint)
			}
			return w.Err()
		}
	}
	return nil
}

// MaxCount is more bytes than any command writes. Sums of such counts do not overflow.
const MaxCount = 1 << 60

// ClampCount bounds a number of bytes that a guest sent, which may be any number.
func ClampCount(n int64) int64 { return min(max(n, 0), MaxCount) }

// Truncate bounds a text that a guest sent to n bytes.
func Truncate(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// ToSize encodes the size of a terminal; nil stays nil.
func ToSize(s *driver.Size) *guestpb.Size {
	if s == nil {
		return nil
	}
	return &guestpb.Size{Rows: int32(s.Rows), Cols: int32(s.Cols)}
}

// FromSize decodes the size of a terminal; nil stays nil.
func FromSize(s *guestpb.Size) *driver.Size {
	if s == nil {
		return nil
	}
	return &driver.Size{Rows: int(s.Rows), Cols: int(s.Cols)}
}

func toBytes(list []string) [][]byte {
	return mapSlice(list, func(s string) []byte { return []byte(s) })
}

func fromBytes(list [][]byte) []string {
	return mapSlice(list, func(b []byte) string { return string(b) })
}

func toEnv(env map[string]string) [][]byte {
	var out [][]byte
	for name, value := range env {
		out = append(out, []byte(name+"="+value))
	}
	return out
}

func fromEnv(list [][]byte) map[string]string {
	if len(list) == 0 {
		return nil
	}
	env := make(map[string]string, len(list))
	for _, pair := range list {
		name, value, _ := strings.Cut(string(pair), "=")
		env[name] = value
	}
	return env
}

// validLabels makes labels valid UTF-8, as protobuf strings must be.
func validLabels(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	out := make(map[string]string, len(labels))
	for k, v := range labels {
		out[strings.ToValidUTF8(k, "?")] = strings.ToValidUTF8(v, "?")
	}
	return out
}

// ToCommand encodes a command and makes up the id of its session. Standard input and
// output travel by calls of their own.
func ToCommand(c *driver.Command) *guestpb.Command {
	return &guestpb.Command{
		Argv: toBytes(c.Argv), Script: []byte(c.Script), Dir: []byte(c.Dir), Env: toEnv(c.Env), Clean: c.Clean, Tty: ToSize(c.TTY), Interactive: c.Interactive,
		TimeoutNano: int64(c.Timeout), GraceNano: int64(c.Grace), MaxOutput: c.MaxOutput,
		PullStdout: c.OnStdout != nil, PullStderr: c.OnStderr != nil, Detached: c.Detached, Labels: validLabels(c.Labels),
		Limits: toLimits(c.Limits), Id: driver.NewID(),
	}
}

// FromCommand decodes a command.
func FromCommand(pb *guestpb.Command) driver.Command {
	return driver.Command{
		Argv: fromBytes(pb.Argv), Script: string(pb.Script), Dir: string(pb.Dir), Env: fromEnv(pb.Env), Clean: pb.Clean, TTY: FromSize(pb.Tty), Interactive: pb.Interactive,
		Timeout: time.Duration(pb.TimeoutNano), Grace: time.Duration(pb.GraceNano), MaxOutput: pb.MaxOutput,
		Detached: pb.Detached, Labels: pb.Labels, Limits: fromLimits(pb.Limits),
	}
}

func toLimits(limits driver.Limits) map[string]*guestpb.Limit {
	pb := make(map[string]*guestpb.Limit, len(limits))
	for name, l := range limits {
		pb[string(name)] = &guestpb.Limit{Max: l.Max, BestEffort: l.BestEffort}
	}
	return pb
}

func fromLimits(pb map[string]*guestpb.Limit) driver.Limits {
	if len(pb) == 0 {
		return nil
	}
	limits := make(driver.Limits, len(pb))
	for name, l := range pb {
		limits[driver.Resource(name)] = driver.Limit{Max: l.GetMax(), BestEffort: l.GetBestEffort()}
	}
	return limits
}

// ToResult encodes the result of a command; nil stays nil.
func ToResult(r *driver.Result) *guestpb.Result {
	if r == nil {
		return nil
	}
	return &guestpb.Result{
		ExitCode: int32(r.ExitCode), Signal: r.Signal, Cause: string(r.Cause), Stdout: r.Stdout, Stderr: r.Stderr,
		DurationNano: int64(r.Duration), StdoutDropped: r.StdoutDropped, StderrDropped: r.StderrDropped, Session: r.Session,
		UserNano: int64(r.Usage.User), SystemNano: int64(r.Usage.System), MaxRss: r.Usage.MaxRSS,
	}
}

// FromResult decodes the result of a command, which is untrusted: texts are truncated, counts bounded.
func FromResult(pb *guestpb.Result) *driver.Result {
	if pb == nil {
		return nil
	}
	return &driver.Result{
		ExitCode: int(pb.ExitCode), Signal: Truncate(pb.Signal, 32), Cause: driver.Cause(Truncate(pb.Cause, 32)), Stdout: pb.Stdout, Stderr: pb.Stderr,
		Duration: time.Duration(pb.DurationNano), StdoutDropped: ClampCount(pb.StdoutDropped), StderrDropped: ClampCount(pb.StderrDropped),
		Session: Truncate(pb.Session, 128),
		Usage:   driver.Usage{User: time.Duration(pb.UserNano), System: time.Duration(pb.SystemNano), MaxRSS: pb.MaxRss},
	}
}

// ToSessionInfo encodes the state of a session.
func ToSessionInfo(s driver.SessionInfo) *guestpb.SessionInfo {
	return &guestpb.SessionInfo{
		Id: s.ID, Argv: toBytes(s.Argv), Script: []byte(s.Script), Dir: []byte(s.Dir), Pid: int32(s.PID), Tty: s.TTY, StartedUnixNano: s.Started.UnixNano(),
		Running: s.Running, Result: ToResult(s.Result), Labels: s.Labels, LogDropped: s.LogDropped,
	}
}

// FromSessionInfo decodes the state of a session, which is untrusted.
func FromSessionInfo(pb *guestpb.SessionInfo) driver.SessionInfo {
	if pb == nil {
		return driver.SessionInfo{}
	}
	return driver.SessionInfo{
		ID: Truncate(pb.Id, 128), Argv: fromBytes(pb.Argv), Script: string(pb.Script), Dir: string(pb.Dir), PID: int(pb.Pid), TTY: pb.Tty,
		Started: time.Unix(0, pb.StartedUnixNano), Running: pb.Running, Result: FromResult(pb.Result), Labels: pb.Labels,
		LogDropped: ClampCount(pb.LogDropped),
	}
}
