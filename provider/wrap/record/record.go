// Package record writes down every call of a provider and of its workspaces: what
// was asked, how long it took and how it ended. The lines are JSON, one for each
// call, in the order in which the calls end. It is for finding out what an agent
// or a test really does; events (package event) are the audit trail.
//
// Contents are not written down: of a body, of input and of output only the size
// is kept, and of an environment only the names, since values may be secrets.
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
	Time      time.Time      `json:"time"` // when it began
	Verb      string         `json:"verb"` // "open", "resolve", "probe", "sweep", or that of driver.Call
	Workspace string         `json:"workspace,omitempty"`
	Args      map[string]any `json:"args,omitempty"`
	Code      string         `json:"code,omitempty"`  // of what went wrong
	Error     string         `json:"error,omitempty"` // its text
	Took      time.Duration  `json:"took"`            // nanoseconds
}

// maxText bounds each text of a line.
const maxText = 1000

// A Recorder writes lines. Any number of providers may share one.
type Recorder struct {
	mu  sync.Mutex
	w   io.Writer // guarded by mu
	err error     // guarded by mu; the first that a write met
}

// New returns a recorder that writes to w.
func New(w io.Writer) *Recorder { return &Recorder{w: w} }

// Err returns the first error that a write met. A line that can't be written
// changes nothing for the call it is about.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Recorder) write(line Line) {
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

// call runs a call and writes it down.
func (r *Recorder) call(line Line, call func() error) error {
	line.Time = time.Now()
	err := call()
	line.Took = time.Since(line.Time)
	if err != nil {
		line.Code, line.Error = fault.Of(err).Wire(), cut(err.Error())
	}
	r.write(line)
	return err
}

// Wrap returns p with its calls written down.
func (r *Recorder) Wrap(p driver.Provider) *Provider { return &Provider{Provider: p, rec: r} }

// A Provider writes down what it is asked.
type Provider struct {
	driver.Provider
	rec *Recorder
}

// Unwrap returns the provider itself.
func (p *Provider) Unwrap() driver.Provider { return p.Provider }

// Probe asks what the host gives.
func (p *Provider) Probe(ctx context.Context) (traits driver.Traits, err error) {
	err = p.rec.call(Line{Verb: "probe"}, func() error {
		traits, err = p.Provider.Probe(ctx)
		return err
	})
	return traits, err
}

// Open opens the workspace.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (ws *driver.Workspace, err error) {
	line := Line{Verb: "open", Workspace: spec.ID, Args: map[string]any{
		"kind": spec.Kind, "name": spec.Name, "isolation": spec.Policy.Isolation, "template": cut(spec.From.Template), "snapshot": spec.From.Snapshot,
	}}
	err = p.rec.call(line, func() error {
		ws, err = p.Provider.Open(ctx, spec)
		return err
	})
	return p.wrap(spec.ID, ws, err)
}

// Resolve attaches to the workspace.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (ws *driver.Workspace, err error) {
	var id struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(ref.Payload, &id) // most have one; a line without an id is a line
	err = p.rec.call(Line{Verb: "resolve", Workspace: id.ID}, func() error {
		ws, err = p.Provider.Resolve(ctx, ref)
		return err
	})
	return p.wrap(id.ID, ws, err)
}

// Sweep removes what nobody owns.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	return p.rec.call(Line{Verb: "sweep", Args: map[string]any{"live": len(live)}}, func() error {
		return p.Provider.Sweep(ctx, live)
	})
}

// Close closes the provider, if it wants to be closed.
func (p *Provider) Close() error {
	if c, ok := p.Provider.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func (p *Provider) wrap(id string, ws *driver.Workspace, err error) (*driver.Workspace, error) {
	if err != nil {
		return nil, err
	}
	return driver.Around(ws, func(ctx context.Context, call driver.Call, next func(context.Context) error) error {
		return p.rec.call(Line{Verb: call.Verb, Workspace: id, Args: describe(call.Args)}, func() error { return next(ctx) })
	}), nil
}

// describe says what the arguments of a call were, without contents.
func describe(args []any) map[string]any {
	out := map[string]any{}
	texts := []string{"name", "to"} // the first texts of a call are names
	for _, arg := range args {
		switch a := arg.(type) {
		case string:
			key := fmt.Sprintf("text%d", len(out))
			if len(texts) > 0 {
				key, texts = texts[0], texts[1:]
			}
			out[key] = cut(a)
		case []byte:
			out["bytes"] = len(a)
		case []driver.Edit:
			out["edits"] = len(a)
		case driver.Command:
			command(out, a)
		case driver.Code:
			out["language"], out["context"], out["bytes"] = a.Language, a.Context, len(a.Source)
		case io.Reader: // its size is not known before it is read
		default:
			options(out, arg)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func command(out map[string]any, cmd driver.Command) {
	var argv []string
	for _, arg := range cmd.Argv {
		argv = append(argv, cut(arg))
	}
	out["argv"], out["script"], out["dir"] = argv, cut(cmd.Script), cmd.Dir
	out["env"] = slices.Sorted(maps.Keys(cmd.Env))
}

// options writes down the plain fields of an options struct that are set, and
// anything else that is plain.
func options(out map[string]any, arg any) {
	v := reflect.ValueOf(arg)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && plain(v.Field(i)) && !v.Field(i).IsZero() {
				out[field.Name] = v.Field(i).Interface()
			}
		}
	case v.IsValid() && plain(v):
		out["value"] = v.Interface()
	}
}

func plain(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint32, reflect.Float64:
		return true
	case reflect.String:
		return v.Len() <= maxText
	}
	return false
}

func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return s[:maxText] + "..."
}
