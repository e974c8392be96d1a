package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"

	"github.com/croft-run/croft/fault"
)

// fields are the keys and values of an entry, in order.
type fields []struct {
	key   string
	value any
}

// json returns the entry as a JSON object.
func (f fields) json() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, x := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", x.key, encode(x.value))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// encode returns a string, a bool or a list of strings as JSON, without escapes of HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // such a value has no error
	return bytes.TrimSpace(b.Bytes())
}

// A jsonEditor edits a JSON file, which may have comments and trailing commas: the entry is
// the member ServerName of the object parent.
type jsonEditor struct {
	parent string
	entry  fields
}

func (e jsonEditor) add(text []byte) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte("{\n" + e.member(e.parent, e.inParent(), "  ", "  ") + "\n}\n"), nil
	}
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	unit := indentUnit(text, root)
	parent, err := findMember(root, e.parent)
	if err != nil {
		return nil, err
	}
	if parent == nil {
		after := insertMember(text, root, unit, func(indent string) string { return e.member(e.parent, e.inParent(), indent, unit) })
		return after, e.verify(text, after)
	}
	o, ok := parent.Value.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%w: %q is not an object", fault.InvalidArgument, e.parent)
	}
	in := object{parent.Value.StartOffset, parent.Value.EndOffset, o}
	mine, err := findMember(in, ServerName)
	if err != nil {
		return nil, err
	}
	if mine != nil {
		return nil, errPresent
	}
	after := insertMember(text, in, unit, func(indent string) string { return e.member(ServerName, e.entry.json(), indent, unit) })
	return after, e.verify(text, after)
}

// inParent returns the object parent with the entry.
func (e jsonEditor) inParent() []byte {
	return fmt.Appendf(nil, "{%q:%s}", ServerName, e.entry.json())
}

// member returns a member of an object, at an indentation; with an indentation of "-" on one
// line.
func (e jsonEditor) member(key string, value []byte, indent, unit string) string {
	if indent == "-" {
		return fmt.Sprintf("%q: %s", key, value)
	}
	var b bytes.Buffer
	_ = json.Indent(&b, value, indent, unit) // the value was encoded here
	return fmt.Sprintf("%s%q: %s", indent, key, compactLists(b.String()))
}

// compactLists writes lists, which are short, on one line each.
func compactLists(text string) string {
	var b strings.Builder
	inList := false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(trimmed, "["):
			inList = true
			b.WriteString(strings.TrimRight(line, "\n"))
		case inList && strings.HasPrefix(trimmed, "]"):
			inList = false
			b.WriteString(trimmed + strings.Repeat("\n", strings.Count(line, "\n")))
		case inList:
			b.WriteString(strings.Replace(trimmed, "\",", "\", ", 1))
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}

func (e jsonEditor) remove(text []byte) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errAbsent
	}
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	parent, err := findMember(root, e.parent)
	if err != nil {
		return nil, err
	}
	if parent == nil {
		return nil, errAbsent
	}
	o, ok := parent.Value.Value.(*hujson.Object)
	if !ok {
		return nil, errAbsent
	}
	in := object{parent.Value.StartOffset, parent.Value.EndOffset, o}
	mine, err := findMember(in, ServerName)
	if err != nil || mine == nil {
		return nil, firstError(err, errAbsent)
	}
	after := removeMember(text, in, mine)
	return after, e.verify(after, text)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// verify checks that the texts differ in the entry alone.
func (e jsonEditor) verify(without, with []byte) error {
	values := make([]map[string]any, 2)
	for i, text := range [][]byte{without, with} {
		plain, err := hujson.Standardize(slices.Clone(text))
		if err == nil {
			err = json.Unmarshal(plain, &values[i])
		}
		if err != nil {
			return fmt.Errorf("%w: it can't be edited: %w", fault.InvalidArgument, err)
		}
	}
	return verifyOnly(values[0], values[1], e.parent)
}

// verifyOnly checks that with is without and the entry in parent.
func verifyOnly(without, with map[string]any, parent string) error {
	servers, ok := with[parent].(map[string]any)
	if _, there := servers[ServerName]; !ok || !there {
		return fmt.Errorf("%w: it can't be edited: the entry would not be where it belongs", fault.InvalidArgument)
	}
	delete(servers, ServerName)
	if _, had := without[parent]; !had && len(servers) == 0 {
		delete(with, parent)
	}
	if !reflect.DeepEqual(without, with) {
		return fmt.Errorf("%w: it can't be edited without changing more than the entry", fault.InvalidArgument)
	}
	return nil
}

// An object is a JSON object with its place in the text, from its brace to the end.
type object struct {
	start, end int
	*hujson.Object
}

func parseJSON(text []byte) (object, error) {
	v, err := hujson.Parse(text)
	if err != nil {
		return object{}, fmt.Errorf("%w: it is not valid JSON: %w", fault.InvalidArgument, err)
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return object{}, fmt.Errorf("%w: it is not a JSON object", fault.InvalidArgument)
	}
	return object{v.StartOffset, v.EndOffset, o}, nil
}

// findMember returns a member of an object, nil if it has none of that name.
func findMember(o object, name string) (*hujson.ObjectMember, error) {
	var found *hujson.ObjectMember
	for i := range o.Members {
		if literal, ok := o.Members[i].Name.Value.(hujson.Literal); ok && literal.String() == name {
			if found != nil {
				return nil, fmt.Errorf("%w: it has %q twice", fault.InvalidArgument, name)
			}
			found = &o.Members[i]
		}
	}
	return found, nil
}

// indentUnit returns the indentation of the members of the root, two spaces by default.
func indentUnit(text []byte, root object) string {
	if len(root.Members) > 0 {
		if indent, ok := indentBefore(text, root.Members[0].Name.StartOffset); ok && indent != "" {
			return indent
		}
	}
	return "  "
}

// indentBefore returns the white space between the beginning of a line and an offset; false
// if there is something else.
func indentBefore(text []byte, at int) (string, bool) {
	line := text[bytes.LastIndexByte(text[:at], '\n')+1 : at]
	return string(line), len(bytes.TrimLeft(line, " \t")) == 0 && bytes.ContainsRune(text[:at], '\n')
}

// insertMember inserts a member at the end of an object. unit is one level of indentation;
// member returns the member at an indentation, "-" for one line.
func insertMember(text []byte, o object, unit string, member func(indent string) string) []byte {
	inner := o.end - 1 // the closing brace
	last := o.start + 1 + len(bytes.TrimRight(text[o.start+1:inner], " \t\r\n"))
	newline := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		newline = "\r\n"
	}
	if len(o.Members) == 0 {
		outer := lineIndent(text, o.start)
		body := strings.ReplaceAll(member(outer+unit), "\n", newline)
		return slices.Concat(text[:last], []byte(newline+body+newline+outer), text[inner:])
	}
	final := o.Members[len(o.Members)-1].Value.EndOffset
	comma := ","
	if commaIndex(text[final:], inner-final) >= 0 {
		comma = ""
	}
	indent, ok := indentBefore(text, o.Members[0].Name.StartOffset)
	if !ok { // all on one line
		return slices.Concat(text[:final], []byte(comma), text[final:last], []byte(" "+member("-")), text[last:])
	}
	body := strings.ReplaceAll(member(indent), "\n", newline)
	return slices.Concat(text[:final], []byte(comma), text[final:last], []byte(newline+body), text[last:])
}

// lineIndent returns the white space at the beginning of the line of an offset.
func lineIndent(text []byte, at int) string {
	line := text[bytes.LastIndexByte(text[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// removeMember removes a member of an object, with one comma.
func removeMember(text []byte, o object, m *hujson.ObjectMember) []byte {
	start, end := m.Name.StartOffset, m.Value.EndOffset
	if i := slices.IndexFunc(o.Members, func(x hujson.ObjectMember) bool { return x.Name.StartOffset == start }); i+1 < len(o.Members) {
		return slices.Concat(text[:start], text[o.Members[i+1].Name.StartOffset:])
	} else if i > 0 && commaIndex(text[end:], o.end-1-end) < 0 {
		before := o.Members[i-1].Value.EndOffset
		between := text[before:start]
		comma := max(commaIndex(between, len(between)), 0)
		kept := slices.Concat(between[:comma], between[comma+1:])
		return slices.Concat(text[:before], bytes.TrimRight(kept, " \t\r\n"), text[end:])
	}
	head := bytes.TrimRight(text[:start], " \t\r\n")
	rest := text[end:]
	if i := commaIndex(rest, o.end-1-end); i >= 0 {
		rest = rest[i+1:]
	}
	return slices.Concat(head, rest)
}

// commaIndex returns the offset of the first comma outside of comments, before end; -1 if
// there is none.
func commaIndex(text []byte, end int) int {
	for i := 0; i < end; {
		switch {
		case bytes.HasPrefix(text[i:], []byte("//")):
			n := bytes.IndexByte(text[i:], '\n')
			if n < 0 {
				return -1
			}
			i += n + 1
		case bytes.HasPrefix(text[i:], []byte("/*")):
			n := bytes.Index(text[i:], []byte("*/"))
			if n < 0 {
				return -1
			}
			i += n + 2
		case text[i] == ',':
			return i
		default:
			i++
		}
	}
	return -1
}

// A tomlEditor edits a TOML file: the entry is the table parent.ServerName, at the end.
type tomlEditor struct {
	parent string
	entry  fields
}

func (e tomlEditor) header() string { return "[" + e.parent + "." + ServerName + "]" }

func (e tomlEditor) add(text []byte) ([]byte, error) {
	values, err := parseTOML(text)
	if err != nil {
		return nil, err
	}
	if servers, ok := values[e.parent].(map[string]any); ok {
		if _, there := servers[ServerName]; there {
			return nil, errPresent
		}
	}
	var b bytes.Buffer
	b.Write(text)
	if len(text) > 0 {
		if text[len(text)-1] != '\n' {
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
	b.WriteString(e.header() + "\n")
	for _, x := range e.entry {
		fmt.Fprintf(&b, "%s = %s\n", x.key, strings.ReplaceAll(string(encode(x.value)), `","`, `", "`))
	}
	return b.Bytes(), e.verify(text, b.Bytes())
}

func (e tomlEditor) remove(text []byte) ([]byte, error) {
	values, err := parseTOML(text)
	if err != nil {
		return nil, err
	}
	servers, _ := values[e.parent].(map[string]any)
	if _, there := servers[ServerName]; !there {
		return nil, errAbsent
	}
	var kept []byte
	inside := false
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		if bytes.HasPrefix(trimmed, []byte("[")) {
			head, _, _ := bytes.Cut(trimmed, []byte("#"))
			inside = string(bytes.TrimSpace(head)) == e.header() || bytes.HasPrefix(trimmed, []byte("["+e.parent+"."+ServerName+"."))
			if inside {
				kept = append(bytes.TrimRight(kept, "\n"), '\n')
			}
		}
		if !inside {
			kept = append(kept, line...)
		}
	}
	return kept, e.verify(kept, text)
}

// verify checks that the texts differ in the entry alone.
func (e tomlEditor) verify(without, with []byte) error {
	before, err := parseTOML(without)
	if err != nil {
		return err
	}
	after, err := parseTOML(with)
	if err != nil {
		return fmt.Errorf("%w: %s can't be added at its end; %q may be an inline table", fault.InvalidArgument, e.header(), e.parent)
	}
	return verifyOnly(before, after, e.parent)
}

func parseTOML(text []byte) (map[string]any, error) {
	values := map[string]any{}
	if err := toml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("%w: it is not valid TOML: %w", fault.InvalidArgument, err)
	}
	return values, nil
}
