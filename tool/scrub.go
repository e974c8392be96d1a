package tool

import (
	"context"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	"github.com/croft-run/croft/secret"
)

// scrubbers keeps the scrubber of each workspace for as long as its secrets are
// the same.
type scrubbers struct {
	mu   sync.Mutex
	made map[string]madeScrubber // +checklocks:mu; by name of the workspace
}

type madeScrubber struct {
	values []secret.Value
	scrub  *secret.Scrubber
}

// of returns the scrubber of a workspace; nil, which changes nothing, where there
// is nothing to look for.
func (s *scrubbers) of(ctx context.Context, e *Env, workspace string) (*secret.Scrubber, error) {
	var values []secret.Value
	if e.Secrets != nil {
		var err error
		if values, err = e.Secrets.All(ctx, workspace); err != nil {
			return nil, err
		}
	}
	if len(values) == 0 && len(e.Finders) == 0 {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.made[workspace]; ok && slices.Equal(m.values, values) {
		return m.scrub, nil
	}
	if s.made == nil {
		s.made = map[string]madeScrubber{}
	}
	m := madeScrubber{values, secret.NewScrubber(values, &secret.ScrubOptions{Finders: e.Finders})}
	s.made[workspace] = m
	return m.scrub, nil
}

// forget drops the scrubber of a workspace.
func (s *scrubbers) forget(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.made, workspace)
}

// scrubbed returns the text and the data of an answer without secrets. The data
// is scrubbed before it is encoded, string by string, so that each is looked at
// once, and as it is.
func (a answer) scrubbed(scrub *secret.Scrubber) (Result, error) {
	r := rewriter{scrub: scrub, from: a.text}
	r.to = scrub.String(a.text)
	if a.value == nil {
		return Result{Text: r.to, Structured: r.json(a.structured)}, nil
	}
	value := a.value
	if scrub != nil && a.plain {
		if v, changed := r.rewrite(reflect.ValueOf(value)); changed {
			value = v.Interface()
		}
	}
	if d, ok := value.(divided); ok {
		beside, content := d.divide()
		data, err := encode(beside)
		return Result{Text: r.to, Beside: data, content: content}, err
	}
	data, err := encode(value)
	if err != nil {
		return Result{}, err
	}
	if !a.plain {
		data = r.json(data)
	}
	if !a.texter {
		return Result{Text: string(data), Structured: data}, nil
	}
	return Result{Text: r.to, Structured: data}, nil
}

// A rewriter scrubs the strings within values. The text of an answer, from, is often
// one of them, and is scrubbed already, to.
type rewriter struct {
	scrub    *secret.Scrubber
	from, to string
}

func (r *rewriter) string(s string) string {
	if s == r.from {
		return r.to
	}
	return r.scrub.String(s)
}

// json scrubs the strings within data, so that it stays JSON.
func (r *rewriter) json(data json.RawMessage) json.RawMessage {
	if r.scrub == nil {
		return data
	}
	return mapStrings(data, r.string)
}

// rewrite returns a value of a plain type with its strings scrubbed. What it
// changes is copied, since others may hold the same.
func (r *rewriter) rewrite(v reflect.Value) (_ reflect.Value, changed bool) {
	switch v.Kind() {
	case reflect.String:
		s := v.String()
		if now := r.string(s); now != s {
			out := reflect.New(v.Type()).Elem()
			out.SetString(now)
			return out, true
		}
	case reflect.Pointer:
		if v.IsNil() {
			return v, false
		}
		if now, changed := r.rewrite(v.Elem()); changed {
			out := reflect.New(v.Type().Elem())
			out.Elem().Set(now)
			return out, true
		}
	case reflect.Struct:
		return r.rewriteFields(v)
	case reflect.Slice:
		return r.rewriteItems(v)
	case reflect.Map:
		return r.rewriteMap(v)
	}
	return v, false
}

func (r *rewriter) rewriteFields(v reflect.Value) (out reflect.Value, changed bool) {
	out = v
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		now, c := r.rewrite(v.Field(i))
		if !c {
			continue
		}
		if !changed {
			out, changed = reflect.New(v.Type()).Elem(), true
			out.Set(v)
		}
		out.Field(i).Set(now)
	}
	return out, changed
}

func (r *rewriter) rewriteItems(v reflect.Value) (out reflect.Value, changed bool) {
	out = v
	for i := range v.Len() {
		now, c := r.rewrite(v.Index(i))
		if !c {
			continue
		}
		if !changed {
			out, changed = reflect.MakeSlice(v.Type(), v.Len(), v.Len()), true
			reflect.Copy(out, v)
		}
		out.Index(i).Set(now)
	}
	return out, changed
}

func (r *rewriter) rewriteMap(v reflect.Value) (out reflect.Value, changed bool) {
	out = v
	for it := v.MapRange(); it.Next(); {
		now, c := r.rewrite(it.Value())
		if !c {
			continue
		}
		if !changed {
			out, changed = reflect.MakeMapWithSize(v.Type(), v.Len()), true
			for all := v.MapRange(); all.Next(); {
				out.SetMapIndex(all.Key(), all.Value())
			}
		}
		out.SetMapIndex(it.Key(), now)
	}
	return out, changed
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// plainType reports whether the strings that values of a type have in JSON are
// those that they hold: nothing encodes itself, and everything is known from the
// type alone.
func plainType(t reflect.Type, within ...reflect.Type) bool {
	if slices.Contains(within, t) {
		return false
	}
	for _, i := range []reflect.Type{marshaler, textMarshaler} {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return false
		}
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return true
	case reflect.Pointer:
		return plainType(t.Elem(), within...)
	case reflect.Slice:
		return t.Elem().Kind() != reflect.Uint8 && plainType(t.Elem(), within...)
	case reflect.Map:
		return t.Key().Kind() == reflect.String && plainType(t.Key(), within...) && plainType(t.Elem(), within...)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if f.IsExported() && !plainType(f.Type, within...) || f.Anonymous && !f.IsExported() {
				return false
			}
		}
		return true
	}
	return false
}
