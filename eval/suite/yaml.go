package suite

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/strictyaml"
)

const maxYAML = 4 << 20

func isYAML(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".yaml" || ext == ".yml"
}

// A yamlDocument is a YAML file as data, with the positions of its values.
type yamlDocument struct {
	value     any
	positions map[string]valuePosition // by path: cases[0].assert
}

// A valuePosition is the position of a value, counted from 1.
type valuePosition struct {
	strictyaml.Position
	text   int // line of the first line of a block of text; 0 where it has none
	indent int // of that block
}

// readYAML reads a file as data.
func readYAML(verb, path string) (any, func(string) string, error) {
	doc, err := parseYAMLFile(verb, path)
	if err != nil {
		return nil, nil, err
	}
	return doc.value, doc.positionOf, nil
}

// positionOf returns the position of a key path, or of its nearest parent in the file.
func (d *yamlDocument) positionOf(path string) string {
	for {
		if p, ok := d.positions[path]; ok {
			return p.String()
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return ""
		}
		path = path[:i]
	}
}

func parseYAMLFile(verb, path string) (*yamlDocument, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &Error{Verb: verb, File: path, Code: fault.Of(err), Message: "the file can't be read"}
	}
	doc, err := parseYAML(data)
	var bad *strictyaml.Error
	if errors.As(err, &bad) {
		return nil, &Error{Verb: verb, File: path + bad.At.String(), Code: fault.InvalidArgument, Message: bad.Text}
	}
	return doc, nil
}

// parseYAML reads text as data. Each error is a *strictyaml.Error.
func parseYAML(data []byte) (*yamlDocument, error) {
	n, err := strictyaml.Parse(data, maxYAML)
	if err != nil {
		return nil, err
	}
	doc := &yamlDocument{positions: map[string]valuePosition{}}
	doc.value, err = doc.convertNode(n, "")
	return doc, err
}

// convertNode converts a node to data, and records its position.
func (d *yamlDocument) convertNode(n ast.Node, path string) (any, error) {
	d.positions[path] = valuePosition{Position: strictyaml.At(n)}
	if pairs, ok := strictyaml.Pairs(n); ok {
		return d.convertMapping(pairs, path)
	}
	switch x := n.(type) {
	case *ast.NullNode:
		return nil, nil
	case *ast.BoolNode:
		return x.Value, nil
	case *ast.IntegerNode:
		return parseNumber(x, x.Token.Value)
	case *ast.FloatNode:
		return x.Value, nil
	case *ast.InfinityNode:
		return x.Value, nil
	case *ast.NanNode:
		return math.NaN(), nil
	case *ast.StringNode:
		return x.Value, nil
	case *ast.LiteralNode:
		d.noteBlock(x, path)
		return x.Value.Value, nil
	case *ast.SequenceNode:
		return d.convertSequence(x, path)
	}
	return nil, strictyaml.Errorf(strictyaml.At(n), "%.40q is no plain data", n.String())
}

func parseNumber(n ast.Node, text string) (any, error) {
	text = strings.ReplaceAll(text, "_", "")
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return float64(i), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, strictyaml.Errorf(strictyaml.At(n), "%.40q is not a number", text)
	}
	return f, nil
}

// noteBlock records where the text of a literal block begins, so that positions in a
// script are those of the file.
func (d *yamlDocument) noteBlock(n *ast.LiteralNode, path string) {
	if n.Start == nil || n.Start.Position == nil || n.Value.Token == nil {
		return
	}
	p := d.positions[path]
	p.text = n.Start.Position.Line + 1
	origin := n.Value.Token.Origin
	for line := range strings.Lines(origin) {
		if strings.TrimSpace(line) != "" {
			p.indent = len(line) - len(strings.TrimLeft(line, " "))
			break
		}
		p.text++
	}
	d.positions[path] = p
}

func (d *yamlDocument) convertSequence(n *ast.SequenceNode, path string) (any, error) {
	items := make(dataList, 0, len(n.Values))
	for i, item := range n.Values {
		v, err := d.convertNode(item, fmt.Sprintf("%s[%d]", path, i))
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return items, nil
}

func (d *yamlDocument) convertMapping(pairs []*ast.MappingValueNode, path string) (any, error) {
	o := newObject()
	for _, pair := range pairs {
		if _, ok := pair.Key.(ast.ScalarNode); !ok {
			return nil, strictyaml.Errorf(strictyaml.At(pair.Key), "a key must be a text")
		}
		key, _ := strictyaml.Key(pair.Key)
		v, err := d.convertNode(pair.Value, joinPath(path, key))
		if err != nil {
			return nil, err
		}
		o.set(key, v)
	}
	return o, nil
}
