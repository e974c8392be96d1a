package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// Parts of agents' requests that differ between runs: ids of sessions, users and
// requests, times, and temporary directories.
var (
	volatileFields = map[string]bool{"metadata": true, "user": true, "prompt_cache_key": true, "client_metadata": true, "session_id": true,
		"request_id": true, "conversation_id": true, "safety_identifier": true, "user_prompt_id": true, "project": true}
	volatilePatterns = []struct {
		of *lazyregexp.Regexp
		to string
	}{
		{lazyregexp.New(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`), "<uuid>"},
		{lazyregexp.New(`\d{4}-\d{2}-\d{2}T\d{2}[:-]\d{2}[:-]\d{2}(?:[.-]\d+)?Z?`), "<time>"},
		{lazyregexp.New(`\d{4}-\d{2}-\d{2}`), "<date>"},
		{lazyregexp.New(`(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \w+ \d{1,2}, \d{4}|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{2} \d{4}\b`), "<date>"},
		{lazyregexp.New(`\b(?:ses|msg|prt|toolu|call|fc|rs|resp|chatcmpl|thread|item)_[A-Za-z0-9]{8,}\b`), "<id>"},
		{lazyregexp.New(`Chunk ID: [0-9a-f]+`), "<id>"},
		{lazyregexp.New(`create_time\\?":\s?[0-9.]+`), "<time>"},
		{lazyregexp.New(`\bP(?:G)?ID: \d+`), "<pid>"},
		{lazyregexp.New(`<total_tokens>\d+ tokens left</total_tokens>`), "<tokens>"},
		{lazyregexp.New(`(?:Wall time: |duration_seconds\\?":\s?|duration_ms\\?":\s?|"?took )[0-9.]+`), "<took>"},
		{lazyregexp.New(`(?:/[^\s"'\\<>:]+)?/(?:workspaces|repeat-\d+|session-\d+)/[^\s"'\\<>:]*`), "<dir>"},
		{lazyregexp.New(`/(?:private/)?(?:tmp|var/folders)/[^\s"'\\<>:]+`), "<tmp>"},
	}
)

// Key returns the key of a request, and the normalised body that it is computed from.
// Equivalent requests of different runs have the same key, also if they name directories
// of their run.
func Key(r *http.Request, body []byte, dirs ...string) (key string, norm []byte) {
	norm = normaliseBody([]byte(insertPlaceholders(string(body), dirs)))
	h := sha256.New()
	for _, part := range []string{r.Method, strings.ToLower(requestHost(r)), r.URL.Path, publicQuery(r.URL)} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Write(norm)
	return hex.EncodeToString(h.Sum(nil)), norm
}

func requestHost(r *http.Request) string {
	h := r.URL.Hostname()
	if h == "" {
		h, _, _ = strings.Cut(r.Host, ":")
	}
	return h
}

// publicQuery returns the query without credentials and volatile parameters.
func publicQuery(u *url.URL) string {
	q := u.Query()
	for _, name := range append([]string{"client_version"}, credentialQueries...) {
		q.Del(name)
	}
	return q.Encode()
}

// normaliseBody returns a JSON body with sorted fields and volatile parts masked. Other
// bodies are only masked.
func normaliseBody(body []byte) []byte {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return maskVolatile(body)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(dropVolatile(v, 0)) != nil {
		return maskVolatile(body)
	}
	return maskVolatile(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// dropVolatile removes volatile fields of the outermost object, and of the objects
// directly in it, in which some providers wrap a request.
func dropVolatile(v any, depth int) any {
	m, ok := v.(map[string]any)
	if !ok || depth > 1 {
		return v
	}
	for name, inner := range m {
		if volatileFields[name] {
			delete(m, name)
		} else {
			m[name] = dropVolatile(inner, depth+1)
		}
	}
	return m
}

func maskVolatile(b []byte) []byte {
	for _, m := range volatilePatterns {
		b = m.of.ReplaceAll(b, []byte(m.to))
	}
	return b
}

// A placeholder replaces a directory of a run on a tape.
type placeholder struct{ dir, mark string }

var nonWord = lazyregexp.New(`[^A-Za-z0-9]`)

// dirPlaceholders returns the placeholders of directories, the longest first, because one
// may be inside another. Some agents write a directory with dashes for all characters
// that are not letters or digits.
func dirPlaceholders(dirs []string) []placeholder {
	var all []placeholder
	for i, d := range dirs {
		if d == "" {
			continue
		}
		all = append(all, placeholder{d, fmt.Sprintf("{{croft-dir-%d}}", i)}, placeholder{nonWord.ReplaceAllString(d, "-"), fmt.Sprintf("{{croft-dir-%d-name}}", i)})
	}
	slices.SortStableFunc(all, func(a, b placeholder) int { return len(b.dir) - len(a.dir) })
	return all
}

// insertPlaceholders replaces directories by placeholders.
func insertPlaceholders(text string, dirs []string) string {
	for _, p := range dirPlaceholders(dirs) {
		text = strings.ReplaceAll(text, p.dir, p.mark)
	}
	return text
}

// expandPlaceholders replaces placeholders by the directories of this run.
func expandPlaceholders(text string, dirs []string) string {
	for _, p := range dirPlaceholders(dirs) {
		text = strings.ReplaceAll(text, p.mark, p.dir)
	}
	return text
}
