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
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/croft-run/croft/fault"
)

// Bounds of a YAML file. They keep the parser, which recurses, from being led astray.
const (
	maxYAML  = 4 << 20
	maxDepth = 64
	maxKeys  = 10_000 // of one mapping: it takes the square of their number
)

func isYAML(path string) bool {
	ext := filepath.Ext(path)
	return ext == ".yaml" || ext == ".yml"
}

// A document is a YAML file as data, with the places of its parts.
type document struct {
	value  any
	places map[string]placeInFile // by path: cases[0].assert
}

// A placeInFile is where a value is, and where its text begins, from 1.
type placeInFile struct {
	line, column int
	text         int // line of the first line of a block of text; 0 where it has none
	indent       int // of that block
}

// readYAML reads a file as data.
func readYAML(verb, path string) (any, func(string) string, error) {
	doc, err := parseYAMLFile(verb, path)
	if err != nil {
		return nil, nil, err
	}
	return doc.value, doc.at, nil
}

// at says where a path is, or the nearest above it that the file has.
func (d *document) at(path string) string {
	for {
		if p, ok := d.places[path]; ok {
			return fmt.Sprintf(":%d:%d", p.line, p.column)
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return ""
		}
		path = path[:i]
	}
}

func parseYAMLFile(verb, path string) (*document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &Error{Verb: verb, File: path, Code: fault.Of(err), Message: "the file can't be read"}
	}
	doc, where, err := parseYAML(data)
	if err != nil {
		return nil, &Error{Verb: verb, File: path + where, Code: fault.InvalidArgument, Message: err.Error()}
	}
	return doc, nil
}

// parseYAML reads text as data. What makes a file say more than one can see (anchors,
// tags, merge keys) is refused.
func parseYAML(data []byte) (doc *document, where string, err error) {
	if where, err := checkText(data); err != nil {
		return nil, where, err
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxPlace(err), errors.New(syntaxText(err))
	}
	var body ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.DirectiveType:
		case body != nil:
			return nil, at(d.Body), errors.New("there is a second document; one file is one document")
		default:
			body = d.Body
		}
	}
	if body == nil {
		return nil, "", errors.New("the file is empty")
	}
	doc = &document{places: map[string]placeInFile{}}
	if doc.value, err = doc.convert(body, "", 0); err != nil {
		var bad *badNode
		if errors.As(err, &bad) {
			return nil, at(bad.node), errors.New(bad.message)
		}
		return nil, "", err
	}
	return doc, "", nil
}

// checkText refuses what no one writes, before the parser sees it.
func checkText(data []byte) (where string, err error) {
	if len(data) > maxYAML {
		return "", fmt.Errorf("the file has %d bytes; at most %d are read", len(data), maxYAML)
	}
	depth, n, keys := 0, 0, width{}
	for line := range strings.Lines(string(data)) {
		n++
		if keys.add(line) > maxKeys || strings.Count(line, ":") > maxKeys {
			return fmt.Sprintf(":%d:1", n), fmt.Errorf("a mapping has more than %d keys; a list can be longer", maxKeys)
		}
		depth = max(0, depth+strings.Count(line, "[")+strings.Count(line, "{")-strings.Count(line, "]")-strings.Count(line, "}"))
		if depth > maxDepth || strings.Count(line, "- ") > maxDepth || strings.Count(line, "? ") > maxDepth {
			return fmt.Sprintf(":%d:1", n), fmt.Errorf("it is nested more than %d deep", maxDepth)
		}
	}
	return "", nil
}

// A width counts lines by how far they are indented: those since the last that was
// indented less are, at most, the keys of one mapping.
type width []int

// add counts a line, and returns how many there are beside it.
func (w *width) add(line string) int {
	text := strings.TrimLeft(line, " ")
	at := len(line) - len(text)
	if strings.TrimSpace(text) == "" || text[0] == '#' || at > maxDepth*maxDepth {
		return 0
	}
	for len(*w) <= at {
		*w = append(*w, 0)
	}
	*w = (*w)[:at+1]
	if text[0] == '-' { // an item of a list begins a mapping of its own
		return 0
	}
	(*w)[at]++
	return (*w)[at]
}

func syntaxPlace(err error) string {
	var located interface{ GetToken() *token.Token }
	if errors.As(err, &located) {
		if t := located.GetToken(); t != nil && t.Position != nil {
			return fmt.Sprintf(":%d:%d", t.Position.Line, t.Position.Column)
		}
	}
	return ""
}

func syntaxText(err error) string {
	var located interface{ GetMessage() string }
	if errors.As(err, &located) {
		return "not valid YAML: " + located.GetMessage()
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return "not valid YAML: " + text
}

// A badNode is a part of a file that can't be data.
type badNode struct {
	node    ast.Node
	message string
}

func (b *badNode) Error() string { return b.message }

func at(n ast.Node) string {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return ""
	}
	p := n.GetToken().Position
	return fmt.Sprintf(":%d:%d", p.Line, p.Column)
}

// begin is the token with which a node begins. That of a mapping in a block is its
// first key; its own is the colon.
func begin(n ast.Node) *token.Token {
	switch x := n.(type) {
	case nil:
		return nil
	case *ast.MappingValueNode:
		return x.Key.GetToken()
	case *ast.MappingNode:
		if !x.IsFlowStyle && len(x.Values) > 0 {
			return x.Values[0].Key.GetToken()
		}
	}
	return n.GetToken()
}

// convert makes data of a node, and notes where it was.
func (d *document) convert(n ast.Node, path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, &badNode{n, fmt.Sprintf("it is nested more than %d deep", maxDepth)}
	}
	if t := begin(n); t != nil && t.Position != nil {
		d.places[path] = placeInFile{line: t.Position.Line, column: t.Position.Column}
	}
	switch x := n.(type) {
	case *ast.NullNode:
		return nil, nil
	case *ast.BoolNode:
		return x.Value, nil
	case *ast.IntegerNode:
		return number(x, x.Token.Value)
	case *ast.FloatNode:
		return x.Value, nil
	case *ast.InfinityNode:
		return x.Value, nil
	case *ast.NanNode:
		return math.NaN(), nil
	case *ast.StringNode:
		return x.Value, nil
	case *ast.LiteralNode:
		d.block(x, path)
		return x.Value.Value, nil
	case *ast.SequenceNode:
		return d.sequence(x, path, depth)
	case *ast.MappingNode:
		return d.mapping(x.Values, path, depth)
	case *ast.MappingValueNode:
		return d.mapping([]*ast.MappingValueNode{x}, path, depth)
	}
	return nil, &badNode{n, "anchors, aliases, tags and merge keys are not allowed; quote a text that begins with &, * or !"}
}

func number(n ast.Node, text string) (any, error) {
	text = strings.ReplaceAll(text, "_", "")
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return float64(i), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, &badNode{n, fmt.Sprintf("%.40q is not a number", text)}
	}
	return f, nil
}

// block notes where the text of a literal begins, so that places in a script are
// those of the file.
func (d *document) block(n *ast.LiteralNode, path string) {
	if n.Start == nil || n.Start.Position == nil || n.Value.Token == nil {
		return
	}
	p := d.places[path]
	p.text = n.Start.Position.Line + 1
	origin := n.Value.Token.Origin
	for line := range strings.Lines(origin) {
		if strings.TrimSpace(line) != "" {
			p.indent = len(line) - len(strings.TrimLeft(line, " "))
			break
		}
		p.text++
	}
	d.places[path] = p
}

func (d *document) sequence(n *ast.SequenceNode, path string, depth int) (any, error) {
	items := make(list, 0, len(n.Values))
	for i, item := range n.Values {
		v, err := d.convert(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return items, nil
}

func (d *document) mapping(pairs []*ast.MappingValueNode, path string, depth int) (any, error) {
	o := newObject()
	for _, pair := range pairs {
		key, ok := keyOf(pair.Key)
		if !ok {
			return nil, &badNode{pair.Key, "a key must be a text"}
		}
		if _, twice := o.fields[key]; twice {
			return nil, &badNode{pair.Key, fmt.Sprintf("the key %q is there twice", key)}
		}
		v, err := d.convert(pair.Value, join(path, key), depth+1)
		if err != nil {
			return nil, err
		}
		o.set(key, v)
	}
	return o, nil
}

func keyOf(k ast.MapKeyNode) (string, bool) {
	switch x := k.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.IntegerNode:
		return x.Token.Value, true
	case *ast.BoolNode, *ast.NullNode, *ast.FloatNode:
		return k.GetToken().Value, true
	case *ast.MappingKeyNode:
		if s, ok := x.Value.(*ast.StringNode); ok {
			return s.Value, true
		}
	}
	return "", false
}
