package index

import (
	"path"
	"strings"
)

// A syntax describes the declarations of a language, line by line.
type syntax struct {
	line      string          // begins a comment to the end of the line
	block     bool            // has /* */
	raw       string          // quotes of strings that may span lines, each one character
	triple    bool            // has strings in three quotes
	indented  bool            // blocks are indented, not in braces
	modifiers map[string]bool // words before what is declared
	kinds     map[string]string
	classes   map[string]bool // keywords whose blocks methods are in
	lifetimes bool            // a quote alone may stand for itself
	bare      bool            // methods and functions without a keyword: name(args) {
	values    bool            // const f = (...) =>
	groups    bool            // const ( ... )
	defines   bool            // #define
}

func wordSet(list string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		m[w] = true
	}
	return m
}

func kindMap(list string) map[string]string {
	m := map[string]string{}
	for w := range strings.FieldsSeq(list) {
		word, kind, ok := strings.Cut(w, "=")
		if !ok {
			kind = word
		}
		m[word] = kind
	}
	return m
}

var (
	goSyntax = syntax{line: "//", block: true, raw: "`", kinds: kindMap("func type var const"), groups: true}

	pythonSyntax = syntax{line: "#", triple: true, indented: true, modifiers: wordSet("async"), kinds: kindMap("def=func class"), classes: wordSet("class")}

	scriptSyntax = syntax{
		line: "//", block: true, raw: "`",
		modifiers: wordSet("export default declare abstract async public private protected static readonly override get set"),
		kinds:     kindMap("function=func class interface type enum namespace module"),
		classes:   wordSet("class interface namespace module"), bare: true, values: true,
	}

	rustSyntax = syntax{
		line: "//", block: true, modifiers: wordSet("pub async unsafe extern default crate"),
		kinds:   kindMap("fn=func struct enum trait impl mod const static type union macro_rules=macro"),
		classes: wordSet("impl trait mod"), lifetimes: true,
	}

	javaSyntax = syntax{
		line: "//", block: true,
		modifiers: wordSet("public private protected static final abstract synchronized native default sealed strictfp internal open override data inline suspend virtual async partial readonly"),
		kinds:     kindMap("class interface enum record fun=func object namespace"),
		classes:   wordSet("class interface enum record object namespace"), bare: true,
	}

	cSyntax = syntax{
		line: "//", block: true, modifiers: wordSet("static extern inline constexpr virtual explicit friend export typedef"),
		kinds:   kindMap("struct class enum union namespace"),
		classes: wordSet("struct class namespace union"), bare: true, defines: true,
	}
)

var syntaxes = map[string]*syntax{
	".go": &goSyntax,
	".py": &pythonSyntax, ".pyi": &pythonSyntax,
	".js": &scriptSyntax, ".mjs": &scriptSyntax, ".cjs": &scriptSyntax, ".jsx": &scriptSyntax,
	".ts": &scriptSyntax, ".mts": &scriptSyntax, ".cts": &scriptSyntax, ".tsx": &scriptSyntax,
	".rs": &rustSyntax, ".java": &javaSyntax, ".kt": &javaSyntax, ".cs": &javaSyntax,
	".c": &cSyntax, ".h": &cSyntax, ".cc": &cSyntax, ".cpp": &cSyntax, ".cxx": &cSyntax, ".hh": &cSyntax, ".hpp": &cSyntax,
}

func syntaxOf(name string) *syntax { return syntaxes[strings.ToLower(path.Ext(name))] }

func baseName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// A scanner scans the lines of a file.
type scanner struct {
	*syntax
	path  string
	units []Unit

	depth   int     // of braces and parentheses
	owners  []owner // around the present line
	comment bool    // inside /* */
	str     string  // what ends the string that the line begins in
	docs    []string
	group   string // kind of a group that is open
	last    int    // unit that waits for its docstring, -1 for none
}

type owner struct {
	name  string
	depth int // of its members: braces, or columns where blocks are indented
}

// scanFile returns the declarations of a file.
func scanFile(name, text string) []Unit {
	syn := syntaxOf(name)
	if syn == nil {
		return nil
	}
	s := &scanner{syntax: syn, path: name, last: -1}
	n := 0
	for line := range strings.Lines(text) {
		n++
		s.scanLine(n, strings.TrimRight(line, "\r\n"))
	}
	return s.units
}

// scanLine processes a line.
func (s *scanner) scanLine(n int, line string) {
	text := strings.TrimLeft(line, " \t")
	switch {
	case s.comment:
		if s.addDocLine(text); !strings.Contains(text, "*/") {
			return
		}
		s.trackState(line)
		return
	case s.str != "":
		s.trackState(line)
		return
	case text == "":
		s.docs = s.docs[:0]
		return
	case strings.HasPrefix(text, s.line) || s.block && strings.HasPrefix(text, "/*"):
		s.addDocLine(text)
		s.trackState(line)
		return
	case text[0] == '@' || strings.HasPrefix(text, "#["): // decorators and attributes keep the comment
		s.trackState(line)
		return
	}
	if s.indented {
		s.closeOwners(len(line) - len(text))
		s.attachDocstring(text)
	}
	s.declareLine(n, line, text)
	s.docs = s.docs[:0]
	s.trackState(line)
	if !s.indented {
		s.closeOwners(s.depth)
	}
}

// closeOwners drops the owners whose blocks have ended.
func (s *scanner) closeOwners(depth int) {
	for len(s.owners) > 0 && depth < s.owners[len(s.owners)-1].depth {
		s.owners = s.owners[:len(s.owners)-1]
	}
}

// addDocLine keeps a comment line for the declaration that follows.
func (s *scanner) addDocLine(text string) {
	const most = 40
	text = strings.TrimSpace(strings.TrimSuffix(strings.Trim(strings.TrimLeft(text, "/#!*"), " \t"), "*/"))
	if text != "" && len(s.docs) < most {
		s.docs = append(s.docs, text)
	}
}

// attachDocstring adds the docstring of a function or class to its unit.
func (s *scanner) attachDocstring(text string) {
	if s.last < 0 || s.depth > 0 { // the signature continues
		return
	}
	if quote := text[:min(3, len(text))]; quote == `"""` || quote == "'''" {
		doc, _, _ := strings.Cut(text[3:], quote)
		s.units[s.last].Doc = truncateText(strings.TrimSpace(s.units[s.last].Doc+" "+doc), maxDoc)
	}
	s.last = -1
}

func (s *scanner) docText() string { return truncateText(strings.Join(s.docs, " "), maxDoc) }

// truncateText truncates a text at a character boundary.
func truncateText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most]
}

func (s *scanner) addUnit(n int, name, kind, line string) {
	signature := strings.TrimSpace(strings.TrimRight(strings.TrimSpace(line), "{:"))
	if len(s.owners) > 0 {
		name = s.owners[len(s.owners)-1].name + "." + name
		if kind == "func" {
			kind = "method"
		}
	}
	s.units = append(s.units, Unit{Path: s.path, Line: n, Symbol: name, Kind: kind, Signature: strings.Clone(truncateText(signature, maxSignature)), Doc: s.docText()})
	s.units[len(s.units)-1].Symbol = strings.Clone(name)
}
