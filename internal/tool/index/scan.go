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
	docOf   int    // unit whose docstring is open, -1 for none
	open    int    // unit whose signature continues on the next line, -1 for none
	before  string // the line before, if it may be the return type of a C function
	header  bool   // the file is a header of C: prototypes count
	directs bool   // a preprocessor directive continues on the next line
}

type owner struct {
	name    string
	depth   int  // of its members: braces, or columns where blocks are indented
	waiting bool // for the brace that opens it, on a later line
}

// scanFile returns the declarations of a file.
func scanFile(name, text string) []Unit {
	syn := syntaxOf(name)
	if syn == nil {
		return nil
	}
	s := &scanner{syntax: syn, path: name, last: -1, docOf: -1, open: -1, header: syn.defines && strings.HasPrefix(path.Ext(name), ".h")}
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
		s.addDocstringLine(text)
		s.trackState(line)
		return
	case s.directs || s.defines && text != "" && text[0] == '#':
		s.scanDirective(n, text)
		return
	case text == "":
		s.docs, s.before = s.docs[:0], ""
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
	if s.defines && strings.HasPrefix(text, `extern "C" {`) {
		return // what is in it is at top level
	}
	if s.open >= 0 {
		s.continueSignature(text)
	}
	s.declareLine(n, line, text)
	s.before = s.typeLine(text)
	if continues := s.values && strings.HasSuffix(text, "="); s.before == "" && !continues {
		s.docs = s.docs[:0]
	}
	s.trackState(line)
	if s.defines && line[0] == '}' && len(s.owners) == 0 {
		s.depth = 0 // braces in branches of #if may not be balanced
	}
	if !s.indented {
		s.closeOwners(s.depth)
	}
	if n := len(s.owners); n > 0 && s.owners[n-1].waiting && strings.HasSuffix(text, ";") {
		s.owners = s.owners[:n-1] // it has no block
	}
}

// scanDirective processes a line of the C preprocessor. Braces in it are not counted.
func (s *scanner) scanDirective(n int, text string) {
	if !s.directs && strings.HasPrefix(text, "#define ") {
		if name := identPrefix(strings.TrimSpace(text[len("#define "):])); name != "" {
			s.addUnit(n, name, "macro", text)
		}
	}
	s.directs = strings.HasSuffix(text, `\`)
	if i := strings.LastIndex(text, "/*"); i >= 0 && !strings.Contains(text[i:], "*/") {
		s.comment = true
	}
	s.docs, s.before = s.docs[:0], ""
}

// typeLine returns the line if it may be the return type of the C function on the next line.
func (s *scanner) typeLine(text string) string {
	if !s.defines || !s.atMemberLevel() {
		return ""
	}
	for i := range len(text) {
		if c := text[i]; !identByte(c) && strings.IndexByte(" \t*()", c) < 0 {
			return ""
		}
	}
	return text
}

// closeOwners drops the owners whose blocks have ended.
func (s *scanner) closeOwners(depth int) {
	for n := len(s.owners) - 1; n >= 0; n-- {
		if depth >= s.owners[n].depth {
			s.owners[n].waiting = false
		}
		if depth >= s.owners[n].depth || s.owners[n].waiting {
			return
		}
		s.owners = s.owners[:n]
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
	text = strings.TrimLeft(text, "rRuU")
	if quote := text[:min(3, len(text))]; quote == `"""` || quote == "'''" {
		doc, _, closed := strings.Cut(text[3:], quote)
		s.addDoc(s.last, doc)
		if !closed {
			s.docOf = s.last
		}
	}
	s.last = -1
}

// addDocstringLine adds a line of a docstring that began on an earlier line.
func (s *scanner) addDocstringLine(text string) {
	if s.docOf < 0 {
		return
	}
	doc, _, closed := strings.Cut(text, s.str)
	s.addDoc(s.docOf, doc)
	if closed || len(s.units[s.docOf].Doc) >= maxDoc {
		s.docOf = -1
	}
}

func (s *scanner) addDoc(unit int, text string) {
	u := &s.units[unit]
	u.Doc = truncateText(strings.TrimSpace(u.Doc+" "+strings.TrimSpace(text)), maxDoc)
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
	if len(s.owners) > 0 {
		name = s.owners[len(s.owners)-1].name + "." + name
		if kind == "func" {
			kind = "method"
		}
	}
	u := Unit{Path: s.path, Line: n, Symbol: strings.Clone(name), Kind: kind, Signature: strings.Clone(signatureText(line)), Doc: s.docText()}
	s.units = append(s.units, u)
	if (kind == "func" || kind == "method") && hasOpenParen(u.Signature) {
		s.open = len(s.units) - 1
	}
}

// signatureText returns a line without the brace or colon that begins the body.
func signatureText(line string) string {
	return truncateText(strings.TrimSpace(strings.TrimRight(strings.TrimSpace(line), "{:")), maxSignature)
}

func hasOpenParen(text string) bool { return strings.Count(text, "(") > strings.Count(text, ")") }

// continueSignature adds a line to the signature that is open.
func (s *scanner) continueSignature(text string) {
	u := &s.units[s.open]
	space := " "
	if strings.HasSuffix(u.Signature, "(") || text[0] == ')' {
		space = ""
	}
	u.Signature = signatureText(u.Signature + space + text)
	prototype := s.defines && len(s.owners) == 0 && strings.HasSuffix(text, ";")
	switch {
	case prototype && s.header:
		u.Kind, u.Signature = "prototype", strings.TrimSuffix(u.Signature, ";")
	case prototype && s.open == len(s.units)-1:
		s.units = s.units[:s.open]
	}
	if prototype || len(u.Signature) >= maxSignature || !hasOpenParen(u.Signature) {
		s.open = -1
	}
}
