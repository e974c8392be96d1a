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

// keyError returns the error of a key, with its file, line and column.
func (c *Config) keyError(path, format string, args ...any) error {
	if from := c.origin[path]; from != "" {
		return fmt.Errorf("config: read %s: %w: %s: %s", from, fault.InvalidArgument, path, fmt.Sprintf(format, args...))
	}
	at, ok := c.at[path]
	for p := path; !ok && p != ""; { // a key that is not in the file gets the position of its nearest parent
		p = p[:max(0, strings.LastIndexAny(p, ".["))]
		at, ok = c.at[p]
	}
	return c.keyErrorAt(at, path, format, args...)
}

func (c *Config) keyErrorAt(at strictyaml.Position, path, format string, args ...any) error {
	file, key := c.file, ""
	if file == "" {
		file = FileName
	}
	if path != "" {
		key = path + ": "
	}
	return fmt.Errorf("config: read %s%s: %w: %s%s", file, at, fault.InvalidArgument, key, fmt.Sprintf(format, args...))
}

// decode sets the keys of c that are in data.
func (c *Config) decode(data []byte) error {
	n, err := strictyaml.Parse(data, maxFile)
	var bad *strictyaml.Error
	switch {
	case errors.Is(err, strictyaml.ErrEmpty):
		return c.keyErrorAt(strictyaml.Position{}, "", "%v; it begins with version: %d", err, Version)
	case errors.As(err, &bad):
		return fault.Advise(c.keyErrorAt(bad.At, "", "%s", bad.Text), "mend the line, or see the keys: croft config schema")
	}
	return c.decodeValue(reflect.ValueOf(c).Elem(), n, "")
}

// decodeValue decodes n into v, and refuses a node of another type.
func (c *Config) decodeValue(v reflect.Value, n ast.Node, path string) error {
	if path != "" {
		c.at[path] = strictyaml.At(n)
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return c.decodeValue(v.Elem(), n, path)
	}
	if special, ok := v.Addr().Interface().(interface{ shorthand(text string) error }); ok && isScalar(n) {
		return c.parseScalar(special.shorthand, n, path, v.Type())
	}
	if s, ok := v.Addr().Interface().(scalar); ok {
		return c.parseScalar(s.parse, n, path, v.Type())
	}
	switch v.Kind() {
	case reflect.Struct:
		return c.decodeStruct(v, n, path)
	case reflect.Map:
		return c.decodeMap(v, n, path)
	case reflect.Slice:
		return c.decodeList(v, n, path)
	case reflect.Interface:
		return c.decodeFree(v, n, path)
	}
	return c.decodeScalar(v, n, path)
}

// parseScalar calls parse, the parser of type t, with the text of a scalar.
func (c *Config) parseScalar(parse func(string) error, n ast.Node, path string, t reflect.Type) error {
	text, ok := scalarText(n)
	if !ok {
		return c.wrongType(n, path, t)
	}
	if err := parse(text); err != nil {
		_, why, _ := strings.Cut(err.Error(), fault.InvalidArgument.Error()+": ")
		return c.keyErrorAt(strictyaml.At(n), path, "%.40q: %s", text, why)
	}
	return nil
}

func (c *Config) decodeScalar(v reflect.Value, n ast.Node, path string) error {
	switch x := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		if v.Kind() == reflect.String {
			text, _ := scalarText(x)
			if strings.IndexByte(text, 0) >= 0 {
				return c.keyErrorAt(strictyaml.At(n), path, "a text has no NUL")
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
				return c.keyErrorAt(strictyaml.At(n), path, "%.40q: write a whole number in digits", x.Token.Value)
			}
			v.SetInt(i)
			return nil
		}
	}
	return c.wrongType(n, path, v.Type())
}

func (c *Config) decodeStruct(v reflect.Value, n ast.Node, path string) error {
	fields := fieldsOf(v.Type())
	required := slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return !f.required })
	if _, null := n.(*ast.NullNode); null && len(required) == 0 {
		return nil // every key of the section is commented out
	}
	pairs, ok := strictyaml.Pairs(n)
	if !ok {
		return c.wrongType(n, path, v.Type())
	}
	err := c.eachPair(pairs, path, func(key, at string, p *ast.MappingValueNode) error {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			return fault.Advise(c.keyErrorAt(strictyaml.At(p.Key), "", "unknown key %q", at), "allowed are %s", keysOf(fields))
		}
		required = slices.DeleteFunc(required, func(f field) bool { return f.key == key })
		return c.decodeValue(v.FieldByIndex(fields[i].index), p.Value, at)
	})
	if err == nil && len(required) > 0 {
		return c.keyErrorAt(strictyaml.At(n), path, "key %q is missing", required[0].key)
	}
	return err
}

func (c *Config) decodeMap(v reflect.Value, n ast.Node, path string) error {
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
	return c.eachPair(pairs, path, func(key, at string, p *ast.MappingValueNode) error {
		elem := reflect.New(v.Type().Elem()).Elem()
		if l, ok := elem.Addr().Interface().(*Limit); ok {
			r, known := driver.Resource(key).Info()
			if !known {
				return fault.Advise(c.keyErrorAt(strictyaml.At(p.Key), "", "unknown key %q", at), "allowed are %s", driver.ResourceNames())
			}
			l.Max.Unit = r.Unit
		}
		if err := c.decodeValue(elem, p.Value, at); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), elem)
		return nil
	})
}

// eachPair calls each for every pair of a mapping.
func (c *Config) eachPair(list []*ast.MappingValueNode, path string, each func(key, at string, p *ast.MappingValueNode) error) error {
	for _, p := range list {
		key, text := strictyaml.Key(p.Key)
		if !text {
			return c.keyErrorAt(strictyaml.At(p.Key), path, "a key must be a text; quote it")
		}
		at := strings.TrimPrefix(path+"."+key, ".")
		c.at[at] = strictyaml.At(p.Key)
		if err := each(key, at, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) decodeList(v reflect.Value, n ast.Node, path string) error {
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
		if err := c.decodeValue(list.Index(i), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

// decodeFree decodes the options of a provider to the types of encoding/json.
func (c *Config) decodeFree(v reflect.Value, n ast.Node, path string) error {
	if pairs, ok := strictyaml.Pairs(n); ok {
		m := map[string]any{}
		err := c.eachPair(pairs, path, func(key, at string, p *ast.MappingValueNode) error {
			var elem any
			err := c.decodeValue(reflect.ValueOf(&elem).Elem(), p.Value, at)
			m[key] = elem
			return err
		})
		v.Set(reflect.ValueOf(m))
		return err
	}
	switch x := n.(type) {
	case *ast.SequenceNode:
		list := []any{}
		err := c.decodeList(reflect.ValueOf(&list).Elem(), x, path)
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
			return c.keyErrorAt(strictyaml.At(n), path, "%.40q: write a whole number in digits", x.Token.Value)
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
	return c.keyErrorAt(strictyaml.At(n), path, "%s can't be passed to a provider", nodeName(n))
}

func (c *Config) wrongType(n ast.Node, path string, t reflect.Type) error {
	hint := ""
	if t.Kind() == reflect.String && isScalar(n) {
		hint = "; quote it"
	}
	return c.keyErrorAt(strictyaml.At(n), path, "it must be %s, not %s%s", typeName(t), nodeName(n), hint)
}
