package lsp

import (
	"bytes"
	"context"
	"fmt"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// aliasesPreference makes tsserver keep the name of a property or an import where it is not
// written twice: {name} becomes {name: newName}.
const aliasesPreference = "providePrefixAndSuffixTextForRename"

// keepShorthands asks for a rename in JavaScript or TypeScript again, with aliasesPreference, if it
// may change a shorthand property: {name} would become {newName}, which is another property. A
// pattern or an export then becomes {newName as name}, so renames without shorthands are not asked for so.
func (c *client) keepShorthands(ctx context.Context, q *symbolQuestion, edits map[string][]textEdit) (map[string][]textEdit, error) {
	if !c.spec.leavesUses {
		return edits, nil
	}
	found := false
	for uri, of := range edits {
		name, inside := nameOf(c.root, uri)
		if !inside {
			continue // refused by fileEdits
		}
		text, err := c.documentText(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, e := range of {
			at, err := byteOffset(text, e.Range.Start)
			if err != nil {
				return nil, err
			}
			found = found || mayBeShorthand(text, at, len(q.search.name))
		}
	}
	if !found {
		return edits, nil
	}
	pos, err := toWire(q.text, q.line, q.col)
	if err != nil {
		return nil, err
	}
	c.docMu.Lock() // one preference at a time
	defer c.docMu.Unlock()
	uri := uriOf(c.root, q.name)
	prefer := func(ctx context.Context, aliases bool) error {
		preferences := map[string]any{aliasesPreference: aliases}
		args := []any{"configure", map[string]any{"file": uri, "formatOptions": struct{}{}, "preferences": preferences}}
		return c.call(ctx, "workspace/executeCommand", map[string]any{"command": "typescript.tsserverRequest", "arguments": args}, nil)
	}
	if err := prefer(ctx, true); err != nil {
		return nil, fmt.Errorf("lsp: prefer aliases: %w", err)
	}
	var again *workspaceEdit
	params := map[string]any{"textDocument": map[string]any{"uri": uri}, "position": pos, "newName": q.more["newName"]}
	if err = c.call(ctx, q.method, params, &again); err == nil {
		edits, err = again.byURI()
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if perr := prefer(after, false); err == nil {
		err = perr
	}
	return edits, err
}

var (
	comment = lazyregexp.New(`(?s)/\*.*?\*/|(?m:(?:^|[^:])//.*$)`)
	// importList matches what is before a list of names that are not properties.
	importList = lazyregexp.New(`(?:^|[;\n])[ \t]*(?:import|export)\b[^;{}()=]*$`)
)

// mayBeShorthand reports whether the name of some length at an index of a text may be a shorthand
// property of JavaScript, such as name in {a: 1, name}.
func mayBeShorthand(text []byte, at, length int) bool {
	blank := func(p []byte) []byte { return bytes.TrimSpace(comment.ReplaceAll(p, []byte(" "))) }
	before, after := blank(text[:at]), blank(text[at+length:])
	if len(before) == 0 || len(after) == 0 || !bytes.ContainsAny(before[len(before)-1:], "{,") || !bytes.ContainsAny(after[:1], "},=") {
		return false
	}
	for depth, i := 0, len(before)-1; i >= 0; i-- { // to the bracket that is open
		switch before[i] {
		case ')', ']', '}':
			depth++
		case '(', '[', '{':
			if depth--; depth < 0 {
				return before[i] == '{' && (i == 0 || before[i-1] != '$') && !importList.Match(before[:i])
			}
		}
	}
	return false
}
