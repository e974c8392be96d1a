package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// YAML returns c as a croft.yaml with every key, its value and its description, and the
// variable or flag that the value comes from, if any. Parse can read it. A password in
// the URL of the store, which only a variable or a flag can contain, is not printed.
func (c *Config) YAML() []byte {
	p := &printer{c: c}
	shown := *c
	if u, err := url.Parse(c.Store.URL); err == nil && c.Store.URL != "" {
		shown.Store.URL = withoutPassword(u)
	}
	p.printSection(reflect.ValueOf(shown), "", 0)
	return p.out.Bytes()
}

func withoutPassword(u *url.URL) string {
	v := *u
	if v.User != nil {
		v.User = url.User(v.User.Username())
	}
	if q := v.Query(); q.Has("password") {
		q.Del("password")
		v.RawQuery = q.Encode()
	}
	return v.String()
}

type printer struct {
	c   *Config
	out bytes.Buffer
}

// printSection prints a struct whose keys are documented.
func (p *printer) printSection(v reflect.Value, at string, indent int) {
	for i, f := range fieldsOf(v.Type()) {
		if indent == 0 && i > 0 {
			p.out.WriteByte('\n')
		}
		pad, path := strings.Repeat("  ", indent), strings.TrimPrefix(at+"."+f.key, ".")
		fmt.Fprintf(&p.out, "%s# %s\n%s%s:", pad, f.doc, pad, f.key)
		field := v.FieldByIndex(f.index)
		_, single := field.Interface().(fmt.Stringer)
		if field.Kind() == reflect.Struct && !single {
			p.out.WriteByte('\n')
			p.printSection(field, path, indent+1)
			continue
		}
		p.printValue(field, indent, p.originNote(path))
	}
}

// originNote returns the comment for a value that comes from a variable or a flag.
func (p *printer) originNote(path string) string {
	if from := p.c.origin[path]; from != "" {
		return " # from " + from
	}
	return ""
}

// printValue prints the value after a key, and the end of the line.
func (p *printer) printValue(v reflect.Value, indent int, note string) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	if text, ok := inlineText(v); ok {
		fmt.Fprintf(&p.out, " %s%s\n", text, note)
		return
	}
	p.out.WriteString(note + "\n")
	pad := strings.Repeat("  ", indent+1)
	switch v.Kind() {
	case reflect.Map:
		for _, k := range sortedKeys(v) {
			p.out.WriteString(pad + quoteYAML(k.String()) + ":")
			p.printValue(v.MapIndex(k), indent+1, "")
		}
	case reflect.Struct:
		for _, f := range setFields(v) {
			p.out.WriteString(pad + f.key + ":")
			p.printValue(v.FieldByIndex(f.index), indent+1, "")
		}
	case reflect.Slice:
		for i := range v.Len() {
			p.printItem(v.Index(i), indent+1)
		}
	}
}

// printItem prints an item of a list.
func (p *printer) printItem(v reflect.Value, indent int) {
	pad := strings.Repeat("  ", indent)
	if text, ok := inlineText(v); ok {
		fmt.Fprintf(&p.out, "%s- %s\n", pad, text)
		return
	}
	for i, f := range setFields(v) {
		lead := pad + "  "
		if i == 0 {
			lead = pad + "- "
		}
		p.out.WriteString(lead + f.key + ":")
		p.printValue(v.FieldByIndex(f.index), indent+1, "")
	}
}

// setFields lists the keys of a struct whose values are not zero. Required keys are always
// listed.
func setFields(v reflect.Value) []field {
	return slices.DeleteFunc(fieldsOf(v.Type()), func(f field) bool {
		x := v.FieldByIndex(f.index)
		return x.IsZero() && f.key != "max" && f.key != "host"
	})
}

// inlineText returns a value that can be on the line of its key; false for a longer one.
func inlineText(v reflect.Value) (string, bool) {
	if cred, ok := v.Interface().(Credential); ok && cred.short {
		return quoteYAML(cred.Secret), true
	}
	if s, ok := v.Interface().(fmt.Stringer); ok {
		return s.String(), true
	}
	switch v.Kind() {
	case reflect.Struct:
		return "{}", len(setFields(v)) == 0
	case reflect.Slice:
		return "[]", v.Len() == 0
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Interface && v.Len() > 0 {
			return jsonText(v.Interface()), true // options of a provider
		}
		return "{}", v.Len() == 0
	case reflect.String:
		return quoteYAML(v.String()), true
	}
	return jsonText(v.Interface()), true
}

var (
	plainText = lazyregexp.New(`^[A-Za-z/~][A-Za-z0-9_./~@+-]*(:[A-Za-z0-9_./~@+-]+)*$`)
	keywords  = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"}
)

// quoteYAML returns a string as a YAML scalar, quoted if YAML would read it as another type.
func quoteYAML(s string) string {
	if plainText.MatchString(s) && !slices.Contains(keywords, strings.ToLower(s)) {
		return s
	}
	return jsonText(s)
}

// jsonText returns v as JSON, which is valid YAML.
func jsonText(v any) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("config: print %T: %v", v, err)) // what was decoded from YAML can be encoded
	}
	return strings.TrimSuffix(buf.String(), "\n")
}
