package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Bounds of a file. They keep the parser, which recurses, from being led astray.
const (
	maxFile  = 1 << 20
	maxLine  = 64 << 10
	maxDepth = 64
)

// A position is a place in the file, from 1.
type position struct{ line, column int }

func (p position) String() string {
	if p.line == 0 {
		return ""
	}
	return fmt.Sprintf(":%d:%d", p.line, p.column)
}

// bad returns the error of a key, with its place.
func (c *Config) bad(path, format string, args ...any) error {
	if from := c.origin[path]; from != "" {
		return fmt.Errorf("config: read %s: %w: %s: %s", from, fault.InvalidArgument, path, fmt.Sprintf(format, args...))
	}
	at, ok := c.at[path]
	for p := path; !ok && p != ""; { // what is not in the file lies in something that is
		p = p[:max(0, strings.LastIndexAny(p, ".["))]
		at, ok = c.at[p]
	}
	return c.badAt(at, path, format, args...)
}

func (c *Config) badAt(at position, path, format string, args ...any) error {
	file, key := c.file, ""
	if file == "" {
		file = FileName
	}
	if path != "" {
		key = path + ": "
	}
	return fmt.Errorf("config: read %s%s: %w: %s%s", file, at, fault.InvalidArgument, key, fmt.Sprintf(format, args...))
}

// decode reads data over what c holds.
func (c *Config) decode(data []byte) error {
	if err := c.checkText(data); err != nil {
		return err
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return c.syntax(err)
	}
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.DirectiveType {
			docs = append(docs, d)
		}
	}
	switch {
	case len(docs) == 0:
		return c.badAt(position{}, "", "the file is empty; it begins with version: %d", Version)
	case len(docs) > 1:
		return c.badAt(place(docs[1].Body), "", "there is a second document; one file is one document")
	}
	return c.value(reflect.ValueOf(c).Elem(), docs[0].Body, "", 0)
}

// checkText refuses what no one writes, before the parser sees it.
func (c *Config) checkText(data []byte) error {
	if len(data) > maxFile {
		return c.badAt(position{}, "", "the file has %d bytes; at most %d are read", len(data), maxFile)
	}
	depth, n := 0, 0
	for line := range strings.Lines(string(data)) {
		n++
		if len(line) > maxLine {
			return c.badAt(position{n, maxLine}, "", "the line is longer than %d bytes", maxLine)
		}
		depth = max(0, depth+strings.Count(line, "[")+strings.Count(line, "{")-strings.Count(line, "]")-strings.Count(line, "}"))
		if depth > maxDepth || strings.Count(line, "- ") > maxDepth || strings.Count(line, "? ") > maxDepth {
			return c.badAt(position{n, 1}, "", "it is nested more than %d deep", maxDepth)
		}
	}
	return nil
}

func (c *Config) syntax(err error) error {
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &located) && located.GetToken() != nil {
		return c.badAt(placeOf(located.GetToken()), "", "not valid YAML: %s", located.GetMessage())
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return c.badAt(position{}, "", "not valid YAML: %s", text)
}

// value decodes n into v, and refuses what v does not hold.
func (c *Config) value(v reflect.Value, n ast.Node, path string, depth int) error {
	if depth > maxDepth {
		return c.badAt(place(n), path, "it is nested more than %d deep", maxDepth)
	}
	if err := c.plain(n, path); err != nil {
		return err
	}
	if path != "" {
		c.at[path] = place(n)
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return c.value(v.Elem(), n, path, depth)
	}
	if special, ok := v.Addr().Interface().(interface{ shorthand(text string) error }); ok && isScalar(n) {
		return c.parse(special.shorthand, n, path, v.Type())
	}
	if s, ok := v.Addr().Interface().(scalar); ok {
		return c.parse(s.parse, n, path, v.Type())
	}
	switch v.Kind() {
	case reflect.Struct:
		return c.structure(v, n, path, depth)
	case reflect.Map:
		return c.mapping(v, n, path, depth)
	case reflect.Slice:
		return c.sequence(v, n, path, depth)
	case reflect.Interface:
		return c.free(v, n, path, depth)
	}
	return c.simple(v, n, path)
}

// plain refuses the parts of YAML that make a file say more than one can see.
func (c *Config) plain(n ast.Node, path string) error {
	what := ""
	switch n.(type) {
	case *ast.AnchorNode:
		what = "an anchor (&)"
	case *ast.AliasNode:
		what = "an alias (*); quote a text that begins with a star"
	case *ast.TagNode:
		what = "a tag (!)"
	case *ast.MergeKeyNode:
		what = "a merge key (<<)"
	case nil:
		what = "nothing"
	}
	if what == "" {
		return nil
	}
	return c.badAt(place(n), path, "%s is not allowed", what)
}

// parse hands the text of a scalar to the type that it is for.
func (c *Config) parse(parse func(string) error, n ast.Node, path string, t reflect.Type) error {
	text, ok := scalarText(n)
	if !ok {
		return c.wrongType(n, path, t)
	}
	if err := parse(text); err != nil {
		_, why, _ := strings.Cut(err.Error(), fault.InvalidArgument.Error()+": ")
		return c.badAt(place(n), path, "%.40q: %s", text, why)
	}
	return nil
}

func (c *Config) simple(v reflect.Value, n ast.Node, path string) error {
	switch x := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		if v.Kind() == reflect.String {
			text, _ := scalarText(x)
			if strings.IndexByte(text, 0) >= 0 {
				return c.badAt(place(n), path, "a text has no NUL")
			}
			v.SetString(text)
			return nil
		}
	case *ast.BoolNode:
		if v.Kind() == reflect.Bool {
			v.SetBool(x.Value)
			return nil
		}
	case *ast.IntegerNode:
		if v.CanInt() {
			i, err := strconv.ParseInt(x.Token.Value, 10, 32)
			if err != nil {
				return c.badAt(place(n), path, "%.40q: write a whole number in digits", x.Token.Value)
			}
			v.SetInt(i)
			return nil
		}
	}
	return c.wrongType(n, path, v.Type())
}

func (c *Config) structure(v reflect.Value, n ast.Node, path string, depth int) error {
	fields := fieldsOf(v.Type())
	required := slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return !f.required })
	if _, null := n.(*ast.NullNode); null && len(required) == 0 {
		return nil // a section of which everything is commented out
	}
	pairs, ok := pairsOf(n)
	if !ok {
		return c.wrongType(n, path, v.Type())
	}
	err := c.pairs(pairs, path, func(key, at string, p *ast.MappingValueNode) error {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			return c.badAt(place(p.Key), "", "unknown key %q; allowed are %s", at, keysOf(fields))
		}
		required = slices.DeleteFunc(required, func(f field) bool { return f.key == key })
		return c.value(v.FieldByIndex(fields[i].index), p.Value, at, depth+1)
	})
	if err == nil && len(required) > 0 {
		return c.badAt(place(n), path, "key %q is missing", required[0].key)
	}
	return err
}

func (c *Config) mapping(v reflect.Value, n ast.Node, path string, depth int) error {
	if _, null := n.(*ast.NullNode); null {
		return nil
	}
	pairs, ok := pairsOf(n)
	if !ok {
		return c.wrongType(n, path, v.Type())
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	return c.pairs(pairs, path, func(key, at string, p *ast.MappingValueNode) error {
		elem := reflect.New(v.Type().Elem()).Elem()
		if l, ok := elem.Addr().Interface().(*Limit); ok {
			r, known := driver.Resource(key).Info()
			if !known {
				return c.badAt(place(p.Key), "", "unknown key %q; allowed are %s", at, driver.ResourceNames())
			}
			l.Max.Unit = r.Unit
		}
		if err := c.value(elem, p.Value, at, depth+1); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), elem)
		return nil
	})
}

// pairs calls each for every pair of a mapping, none of which is there twice.
func (c *Config) pairs(list []*ast.MappingValueNode, path string, each func(key, at string, p *ast.MappingValueNode) error) error {
	seen := map[string]position{}
	for _, p := range list {
		key, ok := keyOf(p.Key)
		if !ok {
			return c.badAt(place(p.Key), path, "a key must be a text; quote it")
		}
		at := strings.TrimPrefix(path+"."+key, ".")
		if first, twice := seen[key]; twice {
			return c.badAt(place(p.Key), "", "key %q appears twice, first at %d:%d", at, first.line, first.column)
		}
		seen[key] = place(p.Key)
		c.at[at] = place(p.Key)
		if err := each(key, at, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) sequence(v reflect.Value, n ast.Node, path string, depth int) error {
	if _, null := n.(*ast.NullNode); null {
		return nil
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return c.wrongType(n, path, v.Type())
	}
	list := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, item := range seq.Values {
		if _, null := item.(*ast.NullNode); null && v.Type().Elem().Kind() != reflect.Interface {
			return c.wrongType(item, fmt.Sprintf("%s[%d]", path, i), v.Type().Elem())
		}
		if err := c.value(list.Index(i), item, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

// free decodes what is passed on to a provider, in the types of JSON.
func (c *Config) free(v reflect.Value, n ast.Node, path string, depth int) error {
	if pairs, ok := pairsOf(n); ok {
		m := map[string]any{}
		err := c.pairs(pairs, path, func(key, at string, p *ast.MappingValueNode) error {
			var elem any
			err := c.value(reflect.ValueOf(&elem).Elem(), p.Value, at, depth+1)
			m[key] = elem
			return err
		})
		v.Set(reflect.ValueOf(m))
		return err
	}
	switch x := n.(type) {
	case *ast.SequenceNode:
		list := []any{}
		err := c.sequence(reflect.ValueOf(&list).Elem(), x, path, depth)
		v.Set(reflect.ValueOf(list))
		return err
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		v.Set(reflect.ValueOf(x.Value))
		return nil
	case *ast.IntegerNode:
		i, err := strconv.ParseInt(x.Token.Value, 10, 64)
		if err != nil {
			return c.badAt(place(n), path, "%.40q: write a whole number in digits", x.Token.Value)
		}
		v.Set(reflect.ValueOf(i))
		return nil
	case *ast.FloatNode:
		v.Set(reflect.ValueOf(x.Value))
		return nil
	case *ast.StringNode, *ast.LiteralNode:
		text, _ := scalarText(x)
		v.Set(reflect.ValueOf(text))
		return nil
	}
	return c.badAt(place(n), path, "%s can't be passed to a provider", nodeName(n))
}

func (c *Config) wrongType(n ast.Node, path string, t reflect.Type) error {
	hint := ""
	if t.Kind() == reflect.String && isScalar(n) {
		hint = "; quote it"
	}
	return c.badAt(place(n), path, "it must be %s, not %s%s", typeName(t), nodeName(n), hint)
}
