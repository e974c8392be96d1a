package profile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"

	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/strictyaml"
)

var bom = []byte("\xef\xbb\xbf")

// A table is a decoded JSON, TOML or YAML object. Its methods treat a value of another type
// as absent.
type table map[string]any

func parseJSON(data []byte) (table, error) {
	var t table
	if err := json.Unmarshal(bytes.TrimPrefix(data, bom), &t); err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	if t == nil {
		return nil, fmt.Errorf("invalid JSON: an object is needed, not null")
	}
	return t, nil
}

func parseJSONC(data []byte) (table, error) { return parseJSON(stripJSONC(data)) }

func parseTOML(data []byte) (table, error) {
	var t table
	if err := toml.Unmarshal(bytes.TrimPrefix(data, bom), &t); err != nil {
		return nil, fmt.Errorf("invalid TOML: %w", err)
	}
	return t, nil
}

func parseYAML(data []byte) (table, error) {
	var t table
	if err := strictyaml.CheckBounds(data); err != nil {
		return nil, fmt.Errorf("invalid YAML: %w", err)
	}
	if err := yaml.Unmarshal(bytes.TrimPrefix(data, bom), &t); err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n") // the rest quotes the source
		return nil, fmt.Errorf("invalid YAML: %s", line)
	}
	return t, nil
}

// loadTable parses a manifest; false, with a warning, if it is broken.
func (s *scan) loadTable(p *Project, name string, parse func([]byte) (table, error)) (table, bool) {
	data, err := s.read(name)
	if err == nil {
		var t table
		if t, err = parse(data); err == nil {
			return t, true
		}
	}
	p.warn(name, "%v", err)
	return nil, false
}

// valueAt returns the value at a path of keys.
func (t table) valueAt(keys ...string) any {
	var v any = map[string]any(t)
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

func (t table) hasKey(keys ...string) bool { return t.valueAt(keys...) != nil }

func (t table) subtable(keys ...string) table {
	m, _ := t.valueAt(keys...).(map[string]any)
	return m
}

func (t table) stringAt(keys ...string) string {
	v, _ := t.valueAt(keys...).(string)
	return v
}

func (t table) stringsAt(keys ...string) []string {
	items, _ := t.valueAt(keys...).([]any)
	var out []string
	for _, v := range items {
		if str, ok := v.(string); ok {
			out = append(out, str)
		}
	}
	return out
}

// stripJSONC overwrites comments and trailing commas with blanks, so that offsets in errors
// stay right. Strings are kept: "https://x" is no comment.
func stripJSONC(data []byte) []byte {
	out := slices.Clone(data)
	comma, last := -1, byte(0) // a possible trailing comma, and the last byte
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			i = endOfString(out, i)
			comma, last = -1, c
		case c == '/' && i+1 < len(out) && out[i+1] == '/':
			end := len(out)
			if n := bytes.IndexByte(out[i:], '\n'); n >= 0 {
				end = i + n
			}
			i = blankOut(out, i, end) - 1
		case c == '/' && i+1 < len(out) && out[i+1] == '*':
			end := len(out)
			if n := bytes.Index(out[i+2:], []byte("*/")); n >= 0 {
				end = i + 2 + n + 2
			}
			i = blankOut(out, i, end) - 1
		case c == ' ', c == '\t', c == '\n', c == '\r':
		case c == ',' && last != 0 && !bytes.ContainsRune([]byte("{[,:"), rune(last)):
			comma, last = i, c
		default:
			if comma >= 0 && (c == '}' || c == ']') {
				out[comma] = ' '
			}
			comma, last = -1, c
		}
	}
	return out
}

// endOfString returns the index of the quote that ends the string at i.
func endOfString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(b)
}

func blankOut(b []byte, from, to int) int {
	for i := from; i < to; i++ {
		if b[i] != '\n' {
			b[i] = ' '
		}
	}
	return to
}

// iniSections returns the section names of an INI file.
func iniSections(data []byte) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			if name, _, ok = strings.Cut(name, "]"); ok {
				out[strings.TrimSpace(name)] = true
			}
		}
	}
	return out
}

// stripComments drops line comments that start with mark. It ignores strings; it is for
// searching, not for parsing.
func stripComments(text, mark string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		code, _, cut := strings.Cut(line, mark)
		// The mark inside a URL, "https://", starts no comment.
		if cut && !strings.HasSuffix(code, ":") {
			b.WriteString(code + "\n")
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// hasWord reports whether text contains word with no letter, digit, dash or
// underscore on either side.
func hasWord(text, word string) bool {
	for at := 0; ; {
		n := strings.Index(text[at:], word)
		if n < 0 {
			return false
		}
		from, to := at+n, at+n+len(word)
		if (from == 0 || !wordByte(text[from-1])) && (to == len(text) || !wordByte(text[to])) {
			return true
		}
		at = from + 1
	}
}

func wordByte(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// submatches returns the first group of every match.
func submatches(re *lazyregexp.Regexp, text string) []string {
	var out []string
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}
