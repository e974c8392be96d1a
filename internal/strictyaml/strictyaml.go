// Package strictyaml parses YAML as plain data.
//
// It rejects features that make a file mean more than is written in it (anchors, aliases,
// tags, merge keys, a second document), and files that the parser would take too long for:
// its time and memory grow with the square of the depth and of the number of keys of a
// mapping. Depth and keys are counted on tokens, before parsing, so brackets within texts
// do not count. Errors have a position.
package strictyaml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a text.
const (
	MaxDepth = 64     // nesting of mappings and sequences
	MaxKeys  = 10_000 // keys of one block mapping
)

// A Position is a line and a column, from 1. The zero value is unknown.
type Position struct{ Line, Column int }

// String returns ":LINE:COLUMN", or "" where the position is unknown.
func (p Position) String() string {
	if p.Line == 0 {
		return ""
	}
	return fmt.Sprintf(":%d:%d", p.Line, p.Column)
}

// An Error says what is wrong with a text, and where.
type Error struct {
	At   Position
	Text string
}

func (e *Error) Error() string {
	if e.At.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("line %d: %s", e.At.Line, e.Text)
}

// ErrEmpty is the error of a text without a document.
var ErrEmpty error = &Error{Text: "the file is empty"}

// Errorf returns an error at a position.
func Errorf(at Position, format string, args ...any) *Error {
	return &Error{at, fmt.Sprintf(format, args...)}
}

// Parse returns the only document of a text of at most maxSize bytes. Repeated keys of a
// mapping are an error. Each error is an *Error.
func Parse(data []byte, maxSize int) (ast.Node, error) {
	if len(data) > maxSize {
		return nil, Errorf(Position{}, "it has %d bytes; at most %d are read", len(data), maxSize)
	}
	tokens := lexer.Tokenize(string(data))
	if err := checkTokens(tokens, true); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, syntaxError(err)
	}
	var body ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.DirectiveType:
		case body != nil:
			return nil, Errorf(At(d.Body), "there is a second document; one file is one document")
		default:
			body = d.Body
		}
	}
	if body == nil {
		return nil, ErrEmpty
	}
	return body, nil
}

// CheckBounds rejects only texts that the parser would take too long for. It is for files
// of other programs, in which anchors are common.
func CheckBounds(data []byte) error {
	if err := checkTokens(lexer.Tokenize(string(data)), false); err != nil {
		return err
	}
	return nil
}

// An openBlock is a mapping or a sequence whose parts begin at a column.
type openBlock struct {
	column int
	keys   int // 0 for a sequence
}

// checkTokens counts depth and keys and, if plain is set, rejects what is not plain data.
func checkTokens(tokens token.Tokens, plain bool) *Error {
	var blocks []openBlock
	flow := 0
	for _, t := range tokens {
		if what := specialTokens[t.Type]; plain && what != "" {
			return Errorf(position(t), "%s is not allowed; quote a text that begins so", what)
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1)
		case token.SequenceEntryType, token.MappingKeyType:
			blocks = enterBlock(blocks, position(t).Column, 0)
		case token.MappingValueType:
			if flow == 0 && t.Prev != nil {
				blocks = enterBlock(blocks, position(t.Prev).Column, 1)
			}
		}
		if len(blocks)+flow > MaxDepth {
			return Errorf(position(t), "it is nested more than %d deep", MaxDepth)
		}
		if len(blocks) > 0 && blocks[len(blocks)-1].keys > MaxKeys {
			return Errorf(position(t), "a mapping has more than %d keys; a list can be longer", MaxKeys)
		}
	}
	return nil
}

// specialTokens are the tokens that plain data does not have.
var specialTokens = map[token.Type]string{
	token.AnchorType:     "an anchor (&)",
	token.AliasType:      "an alias (*)",
	token.TagType:        "a tag (!)",
	token.MergeKeyType:   "a merge key (<<)",
	token.MappingKeyType: "a mark of a key (?)",
}

// enterBlock closes the blocks that end before a column, and counts the part in its own
// block, which it may open. keys is 1 for a key of a mapping and 0 for an item of a
// sequence.
func enterBlock(blocks []openBlock, column, keys int) []openBlock {
	for n := len(blocks); n > 0; n-- {
		last := &blocks[n-1]
		if last.column < column || last.column == column && keys == 0 && last.keys > 0 {
			break // the part opens a block within this one
		}
		if last.column == column && (last.keys > 0) == (keys > 0) {
			last.keys += keys
			return blocks[:n]
		}
		blocks = blocks[:n-1]
	}
	return append(blocks, openBlock{column, keys})
}

func syntaxError(err error) *Error {
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &located) {
		return Errorf(position(located.GetToken()), "not valid YAML: %s", located.GetMessage())
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return Errorf(Position{}, "not valid YAML: %s", text)
}

// Pairs returns the pairs of a mapping, and false for any other node.
func Pairs(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// Key returns a key as written, and whether it is a string (a number, for example, is not).
func Key(k ast.MapKeyNode) (key string, text bool) {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value, true
	}
	return k.GetToken().Value, false
}

// At returns the position of a node. A block mapping begins with its first key.
func At(n ast.Node) Position {
	switch x := n.(type) {
	case nil:
		return Position{}
	case *ast.MappingValueNode:
		return position(x.Key.GetToken())
	case *ast.MappingNode:
		if !x.IsFlowStyle && len(x.Values) > 0 {
			return position(x.Values[0].Key.GetToken())
		}
	}
	return position(n.GetToken())
}

func position(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{t.Position.Line, t.Position.Column}
}
