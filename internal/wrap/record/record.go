// Package record logs every call of a provider and of its workspaces as JSON lines:
// the arguments, the duration and the result.
//
// There is one line per call, in the order in which the calls end. The log is for
// debugging an agent or a test; the audit trail are events (package event).
//
// Contents are not logged: of a body, of input and of output only the size, and of an
// environment only the names, because values may be secrets.
package record

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Line is one call.
type Line struct {
	Time      time.Time      `json:"time"` // start of the call
	Verb      string         `json:"verb"` // "open", "resolve", "probe", "sweep", or that of driver.Call
	Workspace string         `json:"workspace,omitempty"`
	Args      map[string]any `json:"args,omitempty"`
	Code      string         `json:"code,omitempty"`  // fault code of the error
	Error     string         `json:"error,omitempty"` // text of the error
	Took      time.Duration  `json:"took"`            // nanoseconds
}

// maxText bounds each text of a line.
const maxText = 1000

// A Recorder writes lines. Any number of providers may share a Recorder.
type Recorder struct {
	mu  sync.Mutex
	w   io.Writer // guarded by mu
	err error     // guarded by mu; the first error of a write
}

// New returns a recorder that writes to w.
func New(w io.Writer) *Recorder { return &Recorder{w: w} }

// Err returns the first error of a write. A line that can't be written does not
// affect its call.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Recorder) writeLine(line Line) {
	data, err := json.Marshal(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.w.Write(append(data, '\n'))
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("record: write a line: %w: %w", fault.Of(err), err)
	}
}

// recordCall runs a call and logs it.
func (r *Recorder) recordCall(line Line, call func() error) error {
	line.Time = time.Now()
	err := call()
	line.Took = time.Since(line.Time)
	if err != nil {
		line.Code, line.Error = fault.Of(err).Wire(), truncate(err.Error())
	}
	r.writeLine(line)
	return err
}

// Wrap returns p with its calls logged.
func (r *Recorder) Wrap(p driver.Provider) *Provider { return &Provider{Provider: p, rec: r} }

// A Provider logs its calls.
type Provider struct {
	driver.Provider
	rec *Recorder
}

// Unwrap returns the wrapped provider.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Probe calls Probe.
func (p *Provider) Probe(ctx context.Context) (traits driver.Traits, err error) {
	err = p.rec.recordCall(Line{Verb: "probe"}, func() error {
		traits, err = p.Provider.Probe(ctx)
		return err
	})
	return traits, err
}

// Open opens the workspace.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (ws *driver.Workspace, err error) {
	line := Line{Verb: "open", Workspace: spec.ID, Args: map[string]any{
		"kind": spec.Kind, "name": spec.Name, "isolation": spec.Policy.Isolation, "template": truncate(spec.From.Template), "snapshot": spec.From.Snapshot,
	}}
	err = p.rec.recordCall(line, func() error {
		ws, err = p.Provider.Open(ctx, spec)
		return err
	})
	return p.wrapWorkspace(spec.ID, ws, err)
}

// Resolve attaches to the workspace.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (ws *driver.Workspace, err error) {
	var id struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(ref.Payload, &id) // most payloads have an id; without one the line has none
	err = p.rec.recordCall(Line{Verb: "resolve", Workspace: id.ID}, func() error {
		ws, err = p.Provider.Resolve(ctx, ref)
		return err
	})
	return p.wrapWorkspace(id.ID, ws, err)
}

// Sweep calls Sweep.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	return p.rec.recordCall(Line{Verb: "sweep", Args: map[string]any{"live": len(live)}}, func() error {
		return p.Provider.Sweep(ctx, live)
	})
}

func (p *Provider) wrapWorkspace(id string, ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil {
		return nil, err
	}
	return driver.Around(ws, func(ctx context.Context, call driver.Call, next func(context.Context) error) error {
		return p.rec.recordCall(Line{Verb: call.Verb, Workspace: id, Args: describeArgs(call.Args)}, func() error { return next(ctx) })
	}), nil
}

// describeArgs returns the arguments of a call, without contents.
func describeArgs(args []any) map[string]any {
	out := map[string]any{}
	texts := []string{"name", "to"} // the first strings of a call are names
	for _, arg := range args {
		switch a := arg.(type) {
		case string:
			key := fmt.Sprintf("text%d", len(out))
			if len(texts) > 0 {
				key, texts = texts[0], texts[1:]
			}
			out[key] = truncate(a)
		case []byte:
			out["bytes"] = len(a)
		case []driver.Edit:
			out["edits"] = len(a)
		case driver.Command:
			addCommand(out, a)
		case driver.Code:
			out["language"], out["context"], out["bytes"] = a.Language, a.Context, len(a.Source)
		case io.Reader: // the size is not known before it is read
		default:
			addOptions(out, arg)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func addCommand(out map[string]any, cmd driver.Command) {
	var argv []string
	for _, arg := range cmd.Argv {
		argv = append(argv, truncate(arg))
	}
	out["argv"], out["script"], out["dir"] = argv, truncate(cmd.Script), cmd.Dir
	out["env"] = slices.Sorted(maps.Keys(cmd.Env))
}

// addOptions adds the plain fields of an options struct that are set, and any other
// plain argument.
func addOptions(out map[string]any, arg any) {
	v := reflect.ValueOf(arg)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && isPlain(v.Field(i)) && !v.Field(i).IsZero() {
				out[field.Name] = v.Field(i).Interface()
			}
		}
	case v.IsValid() && isPlain(v):
		out["value"] = v.Interface()
	}
}

func isPlain(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint32, reflect.Float64:
		return true
	case reflect.String:
		return v.Len() <= maxText
	}
	return false
}

func truncate(s string) string {
	if len(s) <= maxText {
		return s
	}
	return s[:maxText] + "..."
}
