package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A Location is a position in a file of the workspace or, if Outside, in a file that only
// the server sees, such as the standard library.
type Location struct {
	Path    string `json:"path"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Text    string `json:"text,omitempty"` // of the line
	Outside bool   `json:"outside,omitempty"`
}

// A Symbol is a declaration.
type Symbol struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Detail    string `json:"detail,omitempty"`
	Container string `json:"container,omitempty"`
	Depth     int    `json:"depth,omitempty"` // nesting depth
	Location
}

// serverFor returns the server for a file, or an error if there is no server for its
// extension.
func serverFor(name string) (*server, error) {
	s, _ := languageOf(name)
	if s == nil {
		return nil, &Error{fmt.Sprintf("LSP not configured for %s files", path.Ext(name)), fault.Unsupported}
	}
	return s, nil
}

// A symbolQuestion is a request about a position in a file.
type symbolQuestion struct {
	name      string
	line, col int
	method    string
	more      map[string]any // further parameters
	result    any
	then      func(ctx context.Context, c *client) error // converts the result

	// whole is set if the answer is about all files: those that have the name as text are
	// searched, and opened in a server that needs it.
	whole bool

	text   []byte      // of the file, as the server has it; set by ask
	search *textSearch // set by ask if whole
}

// ask sends a question. A response that means "no symbol here" is an empty result.
func (s *Set) ask(ctx context.Context, q *symbolQuestion) error {
	sp, err := serverFor(q.name)
	if err != nil {
		return err
	}
	err = s.askServer(ctx, q.name, sp, func(ctx context.Context, c *client, doc *document) error {
		q.text = doc.text
		pos, err := toWire(doc.text, q.line, q.col)
		if err != nil {
			return err
		}
		if word := nameAt(doc.text, q.line, q.col); q.whole {
			if word == "" {
				return s.noSymbol(q)
			}
			if q.search, err = s.searchName(ctx, word, nil); err != nil {
				return err
			}
			if err := c.openMentions(ctx, q.search); err != nil {
				return err
			}
			c.waitLoaded(ctx, false)
		}
		params := map[string]any{"textDocument": map[string]any{"uri": uriOf(c.root, q.name)}, "position": pos}
		maps.Copy(params, q.more)
		if err := c.call(ctx, q.method, params, q.result); err != nil {
			return err
		}
		return q.then(ctx, c)
	})
	return emptyIfNotFound(err)
}

// noSymbol is the error of a position at which a server knows no symbol.
func (s *Set) noSymbol(q *symbolQuestion) error {
	what := "there is no name"
	if word := nameAt(q.text, q.line, q.col); word != "" {
		what = fmt.Sprintf("the language server knows no symbol of %q", word)
	}
	text := fmt.Sprintf("%s at %s:%d:%d; %s", what, q.name, q.line, q.col, namesIn(q.text, q.line))
	if q.search != nil {
		m := q.search.except(nil)
		text += fmt.Sprintf("; the name is a text in %d place(s) of %d file(s): %s", m.Places, len(m.Files), firstFiles(m.Files))
	}
	return &Error{text, fault.InvalidArgument}
}

// Definition returns the definitions of the symbol at a position.
func (s *Set) Definition(ctx context.Context, name string, line, col int) (list []Location, err error) {
	var found wireLocations
	q := &symbolQuestion{name: name, line: line, col: col, method: "textDocument/definition", result: &found}
	q.then = func(ctx context.Context, c *client) error {
		list, err = c.convertLocations(ctx, found)
		return err
	}
	if err := s.ask(ctx, q); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, s.noSymbol(q)
	}
	return list, nil
}

// References returns the uses of the symbol at a position, with its declaration, and the
// places that have its name as text and are none of them.
func (s *Set) References(ctx context.Context, name string, line, col int) (list []Location, also *Mentions, err error) {
	var found wireLocations
	q := &symbolQuestion{name: name, line: line, col: col, method: "textDocument/references", result: &found, whole: true}
	q.more = map[string]any{"context": map[string]any{"includeDeclaration": true}}
	known := knownLines{}
	q.then = func(ctx context.Context, c *client) error {
		if len(found) == 0 {
			return nil
		}
		var err error
		for _, w := range found {
			known.add(c.root, w.URI, w.Range.Start.Line)
		}
		var more wireLocations
		if c.spec.loadedOnly {
			more, err = c.confirmMentions(ctx, q, known)
		}
		if err == nil {
			list, err = c.convertLocations(ctx, append(found, more...))
		}
		return err
	}
	if err := s.ask(ctx, q); err != nil {
		return nil, nil, err
	}
	if len(list) == 0 {
		return nil, nil, s.noSymbol(q)
	}
	return list, q.search.except(known), nil
}

// emptyIfNotFound turns error responses that mean "no symbol here" into an empty result:
// gopls and other servers return an error then.
func emptyIfNotFound(err error) error {
	var refused *rpcError
	if errors.As(err, &refused) && refused.Code != codeMethodNotFound {
		for _, words := range []string{"no identifier found", "no object", "no symbol", "not an identifier", "no type info", "no referenceable"} {
			if strings.Contains(strings.ToLower(refused.Message), words) {
				return nil
			}
		}
		return fmt.Errorf("lsp: %w: %w", fault.Unavailable, err)
	}
	return err
}

// Hover returns the hover text at a position, "" if there is none.
func (s *Set) Hover(ctx context.Context, name string, line, col int) (text string, err error) {
	var found struct {
		Contents json.RawMessage `json:"contents"`
	}
	q := &symbolQuestion{name: name, line: line, col: col, method: "textDocument/hover", result: &found}
	q.then = func(context.Context, *client) error { return nil }
	err = s.ask(ctx, q)
	return hoverText(found.Contents), err
}

// hoverText decodes the three forms of hover content that the protocol has had.
func hoverText(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	var one struct {
		Value    string `json:"value"`
		Language string `json:"language"`
	}
	if json.Unmarshal(data, &one) == nil {
		if one.Language != "" {
			return "```" + one.Language + "\n" + one.Value + "\n```"
		}
		return one.Value
	}
	var many []json.RawMessage
	if json.Unmarshal(data, &many) != nil {
		return ""
	}
	var parts []string
	for _, m := range many {
		if t := hoverText(m); t != "" {
			parts = append(parts, t)
		}
	}
	return strings.Join(parts, "\n\n")
}

// convertLocations converts locations of a server; each file is read once.
func (c *client) convertLocations(ctx context.Context, found wireLocations) ([]Location, error) {
	texts := map[string][]byte{}
	list := make([]Location, 0, len(found))
	for _, w := range found {
		uri, rng := w.URI, w.Range
		if w.TargetURI != "" {
			uri, rng = w.TargetURI, w.TargetRange
		}
		loc, err := c.convertLocation(ctx, texts, uri, rng.Start)
		if err != nil {
			return nil, err
		}
		list = append(list, loc)
	}
	return list, nil
}

func (c *client) convertLocation(ctx context.Context, texts map[string][]byte, uri string, pos wirePosition) (Location, error) {
	name, inside := nameOf(c.root, uri)
	loc := Location{Path: name, Line: pos.Line + 1, Col: pos.Character + 1, Outside: !inside}
	if !inside {
		return loc, nil
	}
	text, ok := texts[name]
	if !ok {
		var err error
		if text, err = c.documentText(ctx, name); err != nil && (ctx.Err() != nil || fault.Of(err) != fault.NotFound) {
			return loc, err
		}
		texts[name] = text
	}
	loc.Line, loc.Col = fromWire(text, pos)
	if content, _, ok := lineOf(text, pos.Line); ok {
		const most = 300
		loc.Text = strings.ToValidUTF8(strings.TrimSpace(string(content[:min(len(content), most)])), "")
	}
	return loc, nil
}

// DocumentSymbols returns the declarations of a file.
func (s *Set) DocumentSymbols(ctx context.Context, name string) (list []Symbol, err error) {
	sp, err := serverFor(name)
	if err != nil {
		return nil, err
	}
	err = s.askServer(ctx, name, sp, func(ctx context.Context, c *client, doc *document) error {
		var found []wireSymbol
		params := map[string]any{"textDocument": map[string]any{"uri": uriOf(c.root, name)}}
		if err := c.call(ctx, "textDocument/documentSymbol", params, &found); err != nil {
			return err
		}
		list = nil
		flattenSymbols(&list, found, name, doc.text, "", 0)
		return nil
	})
	return list, emptyIfNotFound(err)
}

func flattenSymbols(list *[]Symbol, found []wireSymbol, name string, text []byte, container string, depth int) {
	const deepest = 50
	for _, w := range found {
		pos := w.SelectionRange.Start
		if w.Location.URI != "" { // the older form, without children
			pos, container = w.Location.Range.Start, w.ContainerName
		}
		line, col := fromWire(text, pos)
		*list = append(*list, Symbol{
			Name: w.Name, Kind: symbolKind(w.Kind), Detail: w.Detail, Container: container, Depth: depth,
			Location: Location{Path: name, Line: line, Col: col},
		})
		if depth < deepest {
			flattenSymbols(list, w.Children, name, text, w.Name, depth+1)
		}
	}
}

// WorkspaceSymbols returns the declarations in the workspace that match a query. The file
// name, such as "x.go", selects the server.
func (s *Set) WorkspaceSymbols(ctx context.Context, name, query string) (list []Symbol, err error) {
	sp, err := serverFor(name)
	if err != nil {
		return nil, err
	}
	open := ""
	if _, serr := s.ws.Stat(ctx, name, nil); serr == nil {
		open = name // some servers load a project only once a file of it is open
	}
	err = s.askServer(ctx, open, sp, func(ctx context.Context, c *client, _ *document) error {
		var found []wireSymbol
		if err := c.call(ctx, "workspace/symbol", map[string]any{"query": query}, &found); err != nil {
			return err
		}
		list = nil
		texts := map[string][]byte{}
		for _, w := range found {
			loc, err := c.convertLocation(ctx, texts, w.Location.URI, w.Location.Range.Start)
			if err != nil {
				return err
			}
			list = append(list, Symbol{Name: w.Name, Kind: symbolKind(w.Kind), Container: w.ContainerName, Location: loc})
		}
		return nil
	})
	return list, emptyIfNotFound(err)
}
