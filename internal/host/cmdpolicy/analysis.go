package cmdpolicy

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxDepth is the maximum depth of scripts within scripts.
const maxDepth = 16

// maxNesting is the number of brackets and keywords that a script may have open at once,
// which bounds the stack of the parser.
const maxNesting = 10000

// A call is a program and its arguments, without those that are another call or a script.
type call struct {
	words  []word
	script bool // it comes from a script
}

// An analysis lists the calls of a command as far as they are known before it runs.
// Building it accesses no file.
type analysis struct {
	calls     []call
	redirects []word
	functions map[string]bool
	level     int    // depth of scripts around the call that is being added
	problem   string // why a script could not be analysed: TextUnparsed, TextNested or TextScriptTooLong
	where     string // in the script
}

// addArgv adds a command that no shell parses.
func (f *analysis) addArgv(argv []string) { f.addCall(literalWords(argv), 0) }

func (f *analysis) addScript(src string, depth int) {
	f.level++
	defer func() { f.level-- }()
	switch {
	case depth > maxDepth:
		f.setProblem(TextNested, "")
		return
	case len(src) > MaxScript:
		f.setProblem(TextScriptTooLong, fmt.Sprintf("%d bytes, at most %d", len(src), MaxScript))
		return
	case nestingDepth(src) > maxNesting:
		f.setProblem(TextNested, "")
		return
	}
	stmts, err := parseScript(src)
	if err != nil {
		f.setProblem(TextUnparsed, err.Error())
	}
	for _, stmt := range stmts {
		syntax.Walk(stmt, func(n syntax.Node) bool { f.addNode(n, depth); return true })
	}
}

// parseScript returns the statements of a script up to the first syntax error. A panic of
// the parser is an error, because the script is untrusted.
func parseScript(src string) (stmts []*syntax.Stmt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parser: %v", p)
		}
	}()
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	for stmt, stmtErr := range parser.StmtsSeq(strings.NewReader(src)) {
		if stmtErr != nil && err == nil { // the sequence must still be read to its end
			err = stmtErr
		}
		if stmt != nil && err == nil {
			stmts = append(stmts, stmt)
		}
	}
	return stmts, err
}

// setProblem records the first problem.
func (f *analysis) setProblem(problem, where string) {
	if f.problem == "" {
		f.problem, f.where = problem, where
	}
}

func (f *analysis) addNode(n syntax.Node, depth int) {
	switch n := n.(type) {
	case *syntax.CallExpr:
		if words := callWords(n); len(words) > 0 {
			f.addCall(words, depth)
		}
	case *syntax.FuncDecl:
		if f.functions == nil {
			f.functions = map[string]bool{}
		}
		if n.Name != nil {
			f.functions[n.Name.Value] = true
		}
	case *syntax.Redirect:
		f.addRedirect(n)
	case *syntax.Stmt:
		f.addHereDoc(n, depth)
	}
}

func callWords(c *syntax.CallExpr) []word {
	var words []word
	for _, a := range c.Args {
		words = append(words, expandWord(a)...)
	}
	return words
}

// addRedirect adds a redirection to or from a file. Here-documents are data; substitutions
// in them are visited as nodes.
func (f *analysis) addRedirect(r *syntax.Redirect) {
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return
	}
	if r.Word == nil {
		return
	}
	for _, w := range expandWord(r.Word) {
		if w.text != "-" && strings.Trim(w.text, "0123456789") != "" {
			f.redirects = append(f.redirects, w)
		}
	}
}

// addHereDoc adds the here-document that a shell reads as its script.
func (f *analysis) addHereDoc(s *syntax.Stmt, depth int) {
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(s.Redirs) == 0 {
		return
	}
	if !readsScript(innermostCall(callWords(c))) {
		return
	}
	for _, r := range s.Redirs {
		doc := r.Hdoc
		if r.Op == syntax.WordHdoc {
			doc = r.Word
		}
		if doc == nil {
			continue
		}
		f.addNestedScript(wordOf(doc), depth)
	}
}

// readsScript reports whether a call runs its standard input as a script.
func readsScript(words []word) bool {
	if len(words) == 0 {
		return false
	}
	named := func(w word) bool { // standard input, by a path
		return w.text == "/dev/stdin" || w.text == "/dev/fd/0" || w.text == "/proc/self/fd/0"
	}
	switch name := programName(words[0].text); {
	case name == "." || name == "source":
		return slices.ContainsFunc(words[1:], named)
	case shells[name]:
		_, reads := shellScript(words)
		return reads || slices.ContainsFunc(words[1:], named)
	}
	return false
}

// innermostCall returns the call that a chain of wrappers runs.
func innermostCall(words []word) []word {
	for range maxDepth {
		if len(words) == 0 || !words[0].known {
			return nil
		}
		name := programName(words[0].text)
		w, ok := wrappers[name]
		switch {
		case name == "env":
			_, words, _ = splitEnvCall(words)
		case ok && len(words) > 1 && !shells[name]:
			words, _ = w.splitArgs(words[1:])
		default:
			return words
		}
	}
	return nil
}

// nestingDepth returns an upper bound of the nesting depth of src; it also counts brackets
// in quotes.
func nestingDepth(src string) int {
	open, most := 0, 0
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '(', '{', '[':
			open++
		case ')', '}', ']':
			open = max(open-1, 0)
		}
		most = max(most, open)
	}
	for w := range strings.FieldsFuncSeq(src, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()", r) }) {
		switch w {
		case "if", "while", "until", "for", "case", "select", "!", "time", "coproc", "function":
			open++
		case "fi", "done", "esac":
			open = max(open-1, 0)
		}
		most = max(most, open)
	}
	return most
}
