package tool

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
)

// DefaultMaxText bounds the text of one answer. A longer text is truncated to head and
// tail, and its handle reads the whole. Some agents show a model only the beginning of an
// answer with more than 50,000 characters.
const DefaultMaxText = 30_000

// Limits of the texts that are kept for handles.
const (
	maxKept      = 64 << 20 // bytes in all
	handlePrefix = "result-"
)

// Results keeps the long texts of answers beyond the life of an Env. An id consists of
// letters, digits and one hyphen.
type Results interface {
	Put(id, text string) error
	Get(id string) (string, error) // NotFound for an unknown id
}

// resultStore keeps the full texts of truncated answers in memory, newest first, up to
// maxKept bytes.
type resultStore struct {
	mu    sync.Mutex
	byID  map[string]*list.Element // guarded by mu
	order list.List                // guarded by mu; of *kepttext
	size  int                      // guarded by mu
}

// A keptText is the text of an answer about a workspace, which has a name for agents and an id.
type keptText struct{ handle, workspace, id, text string }

func (r *resultStore) add(workspace, id, text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID = map[string]*list.Element{}
	}
	k := &keptText{handle: handlePrefix + rand.Text(), workspace: workspace, id: id, text: text}
	r.byID[k.handle] = r.order.PushFront(k)
	r.size += len(text)
	for r.size > maxKept && r.order.Len() > 1 {
		old := r.order.Remove(r.order.Back()).(*keptText)
		delete(r.byID, old.handle)
		r.size -= len(old.text)
	}
	return k.handle
}

func (r *resultStore) get(handle string) (keptText, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	el, ok := r.byID[handle]
	if !ok {
		return keptText{}, false
	}
	return *el.Value.(*keptText), true
}

// Keep keeps a text that an answer refers to, scrubbed. The returned id is a shell_id of
// BashOutput.
func (c *Call) Keep(text string) string {
	return c.Env.keepText(c.Name, c.Workspace.ID(), c.scrub.String(text))
}

// keepText keeps a text of a workspace, by its name and id, and returns the id of the text.
func (e *Env) keepText(workspace, workspaceID, text string) string {
	id := e.results.add(workspace, workspaceID, text)
	if e.Results != nil {
		if err := e.Results.Put(id, text); err != nil {
			e.Log.Warn("keep an answer", "error", err)
		}
	}
	return id
}

// Kept returns the full text of a truncated answer of a workspace that the client reaches;
// only is as in Request.
func (e *Env) Kept(ctx context.Context, only, handle string) (string, error) {
	k, ok := e.results.get(handle)
	p, limited := auth.From(ctx)
	limited = limited && !p.Operator()
	if !ok && e.Results != nil && only == "" && !limited {
		if text, err := e.Results.Get(handle); err == nil {
			return text, nil
		}
	}
	if ok && (only != "" || limited) {
		entry, err := e.Scope(only).Find(ctx, k.workspace)
		ok = err == nil && entry.ID == k.id // another tenant's workspace may have the same name
	}
	if !ok {
		return "", fmt.Errorf("tool: result %q: %w: it was dropped, or never existed; run the tool again", handle, fault.NotFound)
	}
	return k.text, nil
}

// truncateResult truncates the text of an answer and the long strings in its data.
func (c *Call) truncateResult(t *Tool, r Result) Result {
	most := c.mostText()
	if len(r.Text) <= most {
		return r
	}
	handle := c.Env.keepText(c.Name, c.Workspace.ID(), r.Text)
	readFrom := func(offset int) string {
		return fmt.Sprintf("BashOutput with shell_id %q and offset %d reads them", handle, offset)
	}
	read := readFrom(headEnd(r.Text, most/2))
	text := HeadTail(r.Text, most, read)
	if !t.endMatters() {
		end := headEnd(r.Text, c.room(logNote))
		text = fmt.Sprintf("%s\n... (output truncated, %d more bytes; %s)\n", strings.TrimSuffix(r.Text[:end], "\n"), len(r.Text)-end, readFrom(end))
	}
	return Result{
		Text: text, Structured: truncateJSON(r.Structured, most, read), Handle: handle,
		DataOnly: r.DataOnly, Image: r.Image, content: HeadTail(r.content, most, read),
	}
}

// endMatters reports whether the end of a tool's long answer tells as much as its beginning:
// so it is with the output of commands, but not with lists and patches.
func (t *Tool) endMatters() bool {
	switch t.Family {
	case Files, Search, LSP, AST, Render, Secrets, Project, Snapshot:
		return false
	}
	return true
}

// room returns the bytes of an answer's text that remain beside a note.
func (c *Call) room(note int) int { return max(c.mostText()-note, c.mostText()/2) }

// mostText returns the maximum bytes of an answer's text for the client.
func (c *Call) mostText() int {
	if c.maxText > 0 {
		return min(c.maxText, c.Env.MaxText)
	}
	return c.Env.MaxText
}

// headEnd returns where a head of at most limit bytes ends: after a line, or within a
// very long one.
func headEnd(text string, limit int) int {
	if i := strings.LastIndexByte(text[:limit], '\n'); i >= 0 && limit-i <= maxCutLine {
		return i + 1
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return limit
}

// maxCutLine is how much of a line is dropped to cut at its end.
const maxCutLine = 2 << 10

// HeadTail returns text if it has at most limit bytes, else its head and tail with a note
// of what was dropped. more says how to read the rest.
func HeadTail(text string, limit int, more string) string {
	if len(text) <= limit {
		return text
	}
	head, tail := text[:headEnd(text, limit/2)], text[len(text)-(limit-limit/2):]
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < maxCutLine {
		tail = tail[i+1:]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	elided := len(text) - len(head) - len(tail)
	end := ""
	if more != "" {
		more = "; " + more
		end = elidedNote(tail, elided, more)
	}
	return fmt.Sprintf("%s\n... (output truncated, %d bytes elided%s)\n%s%s", strings.TrimSuffix(head, "\n"), elided, more, tail, end)
}

// elidedNote is the last line of a text without its middle: some clients cut out the middle of
// what they get, and with it the note there. text is what comes before the note.
func elidedNote(text string, elided int, more string) string {
	note := fmt.Sprintf("... (%d bytes in the middle were elided%s)\n", elided, more)
	if text != "" && !strings.HasSuffix(text, "\n") {
		note = "\n" + note
	}
	return note
}

// truncateJSON applies HeadTail to every string within data.
func truncateJSON(data json.RawMessage, limit int, more string) json.RawMessage {
	return mapStrings(data, func(s string) string { return HeadTail(s, limit, more) })
}

// mapStrings applies f to every string within data, keys as well. Data in which
// nothing changes is returned unchanged; else the keys of objects are sorted.
func mapStrings(data json.RawMessage, f func(string) string) json.RawMessage {
	var v any
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return data
	}
	changed := false
	v = mapValue(v, func(s string) string {
		now := f(s)
		changed = changed || now != s
		return now
	})
	if !changed {
		return data
	}
	out, err := encode(v)
	if err != nil {
		return data
	}
	return out
}

func mapValue(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			v[i] = mapValue(v[i], f)
		}
	case map[string]any:
		for _, k := range slices.Collect(maps.Keys(v)) {
			value, key := mapValue(v[k], f), f(k)
			delete(v, k)
			for _, taken := v[key]; taken; _, taken = v[key] {
				key += "+" // two keys became the same
			}
			v[key] = value
		}
	}
	return v
}
