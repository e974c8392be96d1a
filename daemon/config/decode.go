package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/strictyaml"
	"github.com/croft-run/croft/workspace/driver"
)

const maxFile = 1 << 20

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

func (c *Config) badAt(at strictyaml.Position, path, format string, args ...any) error {
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
	n, err := strictyaml.Parse(data, maxFile)
	var bad *strictyaml.Error
	switch {
	case errors.Is(err, strictyaml.ErrEmpty):
		return c.badAt(strictyaml.Position{}, "", "%v; it begins with version: %d", err, Version)
	case errors.As(err, &bad):
		return c.badAt(bad.At, "", "%s", bad.Text)
	}
	return c.value(reflect.ValueOf(c).Elem(), n, "")
}

// value decodes n into v, and refuses what v does not hold.
func (c *Config) value(v reflect.Value, n ast.Node, path string) error {
	if path != "" {
		c.at[path] = strictyaml.At(n)
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return c.value(v.Elem(), n, path)
	}
	if special, ok := v.Addr().Interface().(interface{ shorthand(text string) error }); ok && isScalar(n) {
		return c.parse(special.shorthand, n, path, v.Type())
	}
	if s, ok := v.Addr().Interface().(scalar); ok {
		return c.parse(s.parse, n, path, v.Type())
	}
	switch v.Kind() {
	case reflect.Struct:
		return c.structure(v, n, path)
	case reflect.Map:
		return c.mapping(v, n, path)
	case reflect.Slice:
		return c.sequence(v, n, path)
	case reflect.Interface:
		return c.free(v, n, path)
	}
	return c.simple(v, n, path)
}

// parse hands the text of a scalar to the type that it is for.
func (c *Config) parse(parse func(string) error, n ast.Node, path string, t reflect.Type) error {
	text, ok := scalarText(n)
	if !ok {
		return c.wrongType(n, path, t)
	}
	if err := parse(text); err != nil {
		_, why, _ := strings.Cut(err.Error(), fault.InvalidArgument.Error()+": ")
		return c.badAt(strictyaml.At(n), path, "%.40q: %s", text, why)
	}
	return nil
}

func (c *Config) simple(v reflect.Value, n ast.Node, path string) error {
	switch x := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		if v.Kind() == reflect.String {
			text, _ := scalarText(x)
			if strings.IndexByte(text, 0) >= 0 {
				return c.badAt(strictyaml.At(n), path, "a text has no NUL")
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
				return c.badAt(strictyaml.At(n), path, "%.40q: write a whole number in digits", x.Token.Value)
			}
			v.SetInt(i)
			return nil
		}
	}
	return c.wrongType(n, path, v.Type())
}

func (c *Config) structure(v reflect.Value, n ast.Node, path string) error {
	fields := fieldsOf(v.Type())
	required := slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return !f.required })
	if _, null := n.(*ast.NullNode); null && len(required) == 0 {
		return nil // a section of which everything is commented out
	}
	pairs, ok := strictyaml.Pairs(n)
	if !ok {
		return c.wrongType(n, path, v.Type())
	}
	err := c.pairs(pairs, path, func(key, at string, p *ast.MappingValueNode) error {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			return c.badAt(strictyaml.At(p.Key), "", "unknown key %q; allowed are %s", at, keysOf(fields))
		}
		required = slices.DeleteFunc(required, func(f field) bool { return f.key == key })
		return c.value(v.FieldByIndex(fields[i].index), p.Value, at)
	})
	if err == nil && len(required) > 0 {
		return c.badAt(strictyaml.At(n), path, "key %q is missing", required[0].key)
	}
	return err
}

func (c *Config) mapping(v reflect.Value, n ast.Node, path string) error {
	if _, null := n.(*ast.NullNode); null {
		return nil
	}
	pairs, ok := strictyaml.Pairs(n)
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
				return c.badAt(strictyaml.At(p.Key), "", "unknown key %q; allowed are %s", at, driver.ResourceNames())
			}
			l.Max.Unit = r.Unit
		}
		if err := c.value(elem, p.Value, at); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), elem)
		return nil
	})
}

// pairs calls each for every pair of a mapping.
func (c *Config) pairs(list []*ast.MappingValueNode, path string, each func(key, at string, p *ast.MappingValueNode) error) error {
	for _, p := range list {
		key, text := strictyaml.Key(p.Key)
		if !text {
			return c.badAt(strictyaml.At(p.Key), path, "a key must be a text; quote it")
		}
		at := strings.TrimPrefix(path+"."+key, ".")
		c.at[at] = strictyaml.At(p.Key)
		if err := each(key, at, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) sequence(v reflect.Value, n ast.Node, path string) error {
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
		if err := c.value(list.Index(i), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

// free decodes what is passed on to a provider, in the types of JSON.
func (c *Config) free(v reflect.Value, n ast.Node, path string) error {
	if pairs, ok := strictyaml.Pairs(n); ok {
		m := map[string]any{}
		err := c.pairs(pairs, path, func(key, at string, p *ast.MappingValueNode) error {
			var elem any
			err := c.value(reflect.ValueOf(&elem).Elem(), p.Value, at)
			m[key] = elem
			return err
		})
		v.Set(reflect.ValueOf(m))
		return err
	}
	switch x := n.(type) {
	case *ast.SequenceNode:
		list := []any{}
		err := c.sequence(reflect.ValueOf(&list).Elem(), x, path)
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
			return c.badAt(strictyaml.At(n), path, "%.40q: write a whole number in digits", x.Token.Value)
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
	return c.badAt(strictyaml.At(n), path, "%s can't be passed to a provider", nodeName(n))
}

func (c *Config) wrongType(n ast.Node, path string, t reflect.Type) error {
	hint := ""
	if t.Kind() == reflect.String && isScalar(n) {
		hint = "; quote it"
	}
	return c.badAt(strictyaml.At(n), path, "it must be %s, not %s%s", typeName(t), nodeName(n), hint)
}
