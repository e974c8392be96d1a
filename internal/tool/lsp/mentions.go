package lsp

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/croft-run/croft/workspace"
)

// Bounds of the files that have a name as text.
const (
	maxMentions     = 20_000  // places
	maxOpenMentions = 200     // files that are opened in a server for one question
	maxOpenBytes    = 8 << 20 // their size together
	maxConfirmed    = 300     // places for which a server is asked what they are
	confirmTime     = 10 * time.Second
	shownMentions   = 8 // files in an answer
)

// Mentions are the places that have a name as text, in code, comments and other files, and
// that are not in an answer of the language server.
type Mentions struct {
	Name   string   `json:"name"`
	Places int      `json:"places"`
	Files  []string `json:"files,omitempty"` // sorted

	// Unopened are files of the language that were too many or too large for the server.
	Unopened []string `json:"unopened,omitempty"`
	Partial  string   `json:"partial,omitempty" jsonschema:"what was not searched"`
}

// textSearch has the places of a name by file.
type textSearch struct {
	name      string
	places    map[string][]place
	declaring map[string]bool // files with a line that may declare the name
	unopened  []string
	partial   string
}

type place struct{ line, count int }

// searchName searches a name as a whole word in the files of a workspace that Git does not
// ignore.
func (s *Set) searchName(ctx context.Context, name string, opts *workspace.GrepOptions) (*textSearch, error) {
	word := wholeWord(name)
	o := workspace.GrepOptions{GitIgnore: true, Hidden: true, Exclude: []string{"**/node_modules/**"}, MaxMatches: maxMentions}
	if opts != nil {
		o.Include, o.IgnoreCase = opts.Include, opts.IgnoreCase
	}
	res, err := s.ws.Grep(ctx, word.String(), &o)
	if err != nil {
		return nil, fmt.Errorf("lsp: search %s: %w", name, err)
	}
	t := &textSearch{name: name, places: map[string][]place{}, declaring: map[string]bool{}}
	for _, m := range res.Matches {
		if mayDeclare(m.Text, name) {
			t.declaring[m.Path] = true
		}
		t.places[m.Path] = append(t.places[m.Path], place{m.Line, len(word.FindAllStringIndex(m.Text, -1))})
	}
	switch {
	case res.Truncated != "":
		t.partial = fmt.Sprintf("the search for the text ended after %d places", len(res.Matches))
	case res.Skips > 0:
		t.partial = fmt.Sprintf("%d files, binary or too large, were not searched for the text", res.Skips)
	}
	return t, nil
}

// wholeWord matches a name that is not part of a longer one.
func wholeWord(name string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(name)
	if first, _ := utf8.DecodeRuneInString(name); first < utf8.RuneSelf && first != '$' {
		pattern = `\b` + pattern
	}
	if last, _ := utf8.DecodeLastRuneInString(name); last < utf8.RuneSelf && last != '$' {
		pattern += `\b`
	}
	return regexp.MustCompile(pattern)
}

// files returns the files of a server that have the name, sorted.
func (t *textSearch) files(spec *server) []string {
	var out []string
	for name := range t.places {
		if of, _ := languageOf(name); of != nil && of.name == spec.name {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// openMentions opens the files that have a name in a server that answers from the files that
// it has loaded: it then loads their projects, too.
func (c *client) openMentions(ctx context.Context, t *textSearch) error {
	if !c.spec.loadedOnly {
		return nil
	}
	c.docMu.Lock()
	defer c.docMu.Unlock()
	opened, size := 0, int64(0)
	t.unopened = nil
	for _, name := range t.files(c.spec) {
		if c.docs[name] != nil {
			continue
		}
		info, err := c.ws.Stat(ctx, name, nil)
		if err != nil {
			continue // removed meanwhile
		}
		if opened == maxOpenMentions || size+info.Size > maxOpenBytes {
			t.unopened = append(t.unopened, name)
			continue
		}
		if _, err := c.syncOneLocked(ctx, name, false); err != nil {
			return err
		}
		opened, size = opened+1, size+info.Size
	}
	return nil
}

// knownLines are lines of files, from 1.
type knownLines map[string]map[int]bool

// add adds a line, from 0, of a file.
func (k knownLines) add(root, uri string, line int) {
	name, _ := nameOf(root, uri)
	if k[name] == nil {
		k[name] = map[int]bool{}
	}
	k[name][line+1] = true
}

// confirmMentions returns the places that have the name of a question's symbol as text, are
// not on known lines, and have the same definition. Some servers leave out such places in
// files that their configuration does not name. The lines are added to known.
func (c *client) confirmMentions(ctx context.Context, q *symbolQuestion, known knownLines) (wireLocations, error) {
	pos, err := toWire(q.text, q.line, q.col)
	if err != nil {
		return nil, err
	}
	own, err := c.definitionsAt(ctx, q.name, pos)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	var out wireLocations
	asked, until := 0, time.Now().Add(confirmTime)
	for _, name := range q.search.files(c.spec) {
		if slices.Contains(q.search.unopened, name) {
			continue
		}
		text, err := c.documentText(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, p := range q.search.places[name] {
			if known[name][p.line] {
				continue
			}
			if asked >= maxConfirmed || time.Now().After(until) {
				text := fmt.Sprintf("the language server was asked about the first %d places of the text alone", asked)
				q.search.partial = strings.TrimPrefix(q.search.partial+"; "+text, "; ")
				return out, nil
			}
			found, n, err := c.sameSymbol(ctx, q.search.name, name, text, p.line, own)
			if err != nil {
				return nil, err
			}
			asked += n
			if len(found) > 0 {
				known.add(c.root, found[0].URI, p.line-1)
				out = append(out, found...)
			}
		}
	}
	return out, nil
}

// sameSymbol returns the places of a line at which a word has these definitions, and for how
// many the server was asked.
func (c *client) sameSymbol(ctx context.Context, word, name string, text []byte, line int, own map[string]bool) (wireLocations, int, error) {
	content, _, _ := lineOf(text, line-1)
	var out wireLocations
	places := wholeWord(word).FindAllIndex(content, -1)
	for _, at := range places {
		start := wirePosition{line - 1, wireUnits(content[:at[0]])}
		defs, err := c.definitionsAt(ctx, name, start)
		if err != nil {
			return nil, 0, err
		}
		same := len(defs) > 0
		for d := range defs {
			same = same && own[d]
		}
		if same {
			end := wirePosition{line - 1, wireUnits(content[:at[1]])}
			out = append(out, wireLocation{URI: uriOf(c.root, name), Range: wireRange{start, end}})
		}
	}
	return out, len(places), nil
}

// definitionsAt returns where the symbol at a position is defined, as keys to compare; none if
// the server knows no symbol there.
func (c *client) definitionsAt(ctx context.Context, name string, pos wirePosition) (map[string]bool, error) {
	var found wireLocations
	params := map[string]any{"textDocument": map[string]any{"uri": uriOf(c.root, name)}, "position": pos}
	if err := c.call(ctx, "textDocument/definition", params, &found); err != nil {
		return nil, emptyIfNotFound(err)
	}
	out := map[string]bool{}
	for _, w := range found {
		uri, rng := w.URI, w.Range
		if w.TargetURI != "" {
			uri, rng = w.TargetURI, w.TargetRange
		}
		out[fmt.Sprintf("%s %d %d", uri, rng.Start.Line, rng.Start.Character)] = true
	}
	return out, nil
}

// except returns the places that are not among the lines of an answer.
func (t *textSearch) except(known knownLines) *Mentions {
	m := &Mentions{Name: t.name, Unopened: t.unopened, Partial: t.partial}
	for name, list := range t.places {
		n := 0
		for _, p := range list {
			if !known[name][p.line] {
				n += p.count
			}
		}
		if n > 0 {
			m.Places += n
			m.Files = append(m.Files, name)
		}
	}
	slices.Sort(m.Files)
	return m
}

// left returns the places that a rename leaves.
func (t *textSearch) left(list []FileEdit) *Mentions {
	word := wholeWord(t.name)
	after := map[string]int{}
	for _, f := range list {
		after[f.Path] = len(word.FindAllIndex(f.After, -1))
	}
	m := &Mentions{Name: t.name, Unopened: t.unopened, Partial: t.partial}
	for name, places := range t.places {
		n, edited := after[name]
		for _, p := range places {
			if !edited {
				n += p.count
			}
		}
		if n > 0 {
			m.Places += n
			m.Files = append(m.Files, name)
		}
	}
	slices.Sort(m.Files)
	return m
}

// text says what an answer may lack; done is what was not done with the places.
func (m *Mentions) text(done string) string {
	if m == nil {
		return ""
	}
	var b strings.Builder
	if m.Places > 0 {
		fmt.Fprintf(&b, "also as text in %d place(s) that %s, in %d file(s): %s\n", m.Places, done, len(m.Files), firstFiles(m.Files))
	}
	if len(m.Unopened) > 0 {
		const text = "incomplete: %d file(s) with the name were too many or too large for the language server: %s\n"
		fmt.Fprintf(&b, text, len(m.Unopened), firstFiles(m.Unopened))
	}
	if m.Partial != "" {
		fmt.Fprintf(&b, "incomplete: %s\n", m.Partial)
	}
	return b.String()
}

func firstFiles(list []string) string {
	if more := len(list) - shownMentions; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:shownMentions], ", "), more)
	}
	return strings.Join(list, ", ")
}

func isNameRune(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// nameAt returns the name at a line and a column in characters, both from 1, "" if there is
// none. The column after a name is at it, too.
func nameAt(text []byte, line, col int) string {
	content, _, ok := lineOf(text, line-1)
	if !ok {
		return ""
	}
	runes := []rune(string(content))
	at := col - 1
	if at > len(runes) || at < 0 {
		return ""
	}
	if at == len(runes) || !isNameRune(runes[at]) {
		at--
	}
	if at < 0 || !isNameRune(runes[at]) {
		return ""
	}
	first, last := at, at
	for first > 0 && isNameRune(runes[first-1]) {
		first--
	}
	for last+1 < len(runes) && isNameRune(runes[last+1]) {
		last++
	}
	return string(runes[first : last+1])
}

// namesIn lists the names of a line with their columns, for an error.
func namesIn(text []byte, line int) string {
	content, _, _ := lineOf(text, line-1)
	const most = 12
	var out []string
	runes := []rune(string(content))
	for i := 0; i < len(runes) && len(out) < most; i++ {
		if !isNameRune(runes[i]) || unicode.IsDigit(runes[i]) {
			for i+1 < len(runes) && isNameRune(runes[i]) && isNameRune(runes[i+1]) {
				i++
			}
			continue
		}
		first := i
		for i+1 < len(runes) && isNameRune(runes[i+1]) {
			i++
		}
		out = append(out, fmt.Sprintf("%s at %d", string(runes[first:i+1]), first+1))
	}
	if len(out) == 0 {
		return "the line has no name"
	}
	return "names of the line, with their columns: " + strings.Join(out, ", ")
}
