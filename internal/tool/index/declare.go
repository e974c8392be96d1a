package index

import "strings"

// declareLine looks for a declaration in a line of code.
func (s *scanner) declareLine(n int, line, text string) {
	if s.groups {
		s.declareGo(n, line, text)
		return
	}
	if s.values && s.declareAssigned(n, line, text) {
		return
	}
	if !s.indented && !s.atMemberLevel() {
		return
	}
	word, rest := s.nextKeyword(text)
	kind, ok := s.kinds[word]
	switch {
	case ok && s.declareNamed(n, word, kind, rest, line, text):
	case s.values && (word == "const" || word == "let" || word == "var"):
		if name := identPrefix(rest); name != "" && !isImport(rest) && (len(s.owners) == 0 && s.depth == 0 || strings.Contains(rest, "=>") || strings.Contains(rest, "function")) {
			s.addUnit(n, name, valueKind(rest), text)
		}
	case s.bare:
		s.declareFunction(n, text)
	case s.indented && len(line) == len(text):
		if name := identPrefix(text); name != "" && strings.ToUpper(name) == name && strings.HasPrefix(strings.TrimLeft(text[len(name):], " "), "=") {
			s.addUnit(n, name, "var", text)
		}
	}
}

// isImport reports whether a value is a module, or a part of one: a = require("b").c
func isImport(rest string) bool {
	_, value, _ := strings.Cut(rest, "=")
	return strings.HasPrefix(strings.TrimLeft(value, " "), "require(")
}

// declareAssigned adds a function or class of JavaScript that is assigned to a property:
// A.prototype.b = function, exports.x = (y) =>. Other values are added if exported.
func (s *scanner) declareAssigned(n int, line, text string) bool {
	target, value := cutAssignment(text)
	for {
		next, more := cutAssignment(value)
		if next == "" {
			break
		}
		target, value = next, more // exports = module.exports = ...
	}
	exported := strings.HasPrefix(target, "exports.") || strings.HasPrefix(target, "module.exports")
	method := strings.Contains(target, ".prototype.")
	if target == "" || strings.HasPrefix(target, "this.") || s.depth > 0 && !exported && !method {
		return false
	}
	kind := assignedKind(value)
	if kind == "var" && (!exported || strings.Trim(value, ".;") == "" || isPath(strings.TrimRight(value, ";")) || strings.HasPrefix(value, "require(")) {
		return false
	}
	name := strings.TrimPrefix(strings.TrimPrefix(target, "module."), "exports.")
	if name == "exports" { // the name is that of the function or class
		_, rest := s.nextKeyword(value)
		if name = identPrefix(strings.TrimLeft(rest, "* ")); name == "" || kind == "var" {
			return false
		}
	}
	name = strings.ReplaceAll(name, ".prototype.", ".")
	s.addUnit(n, name, kind, text)
	if kind == "class" {
		s.openOwner(name, line, text)
	}
	return true
}

// cutAssignment splits a.b = value; target is "" if text is no assignment.
func cutAssignment(text string) (target, value string) {
	end := 0
	for end < len(text) && (identByte(text[end]) || text[end] == '.') {
		end++
	}
	target = text[:end]
	value, ok := strings.CutPrefix(strings.TrimLeft(text[end:], " "), "=")
	if !ok || strings.HasPrefix(value, "=") || strings.HasPrefix(value, ">") || target != "exports" && !strings.Contains(target, ".") {
		return "", ""
	}
	return target, strings.TrimLeft(value, " ")
}

func isPath(text string) bool {
	for i := range len(text) {
		if !identByte(text[i]) && text[i] != '.' {
			return false
		}
	}
	return true
}

// assignedKind returns func, class or var for the value of an assignment.
func assignedKind(value string) string {
	switch word := identPrefix(strings.TrimPrefix(value, "async ")); {
	case word == "function" || strings.Contains(value, "=>") && (word != "" && !strings.Contains(value, word+"(") || strings.HasPrefix(value, "(") || strings.HasPrefix(value, "async")):
		return "func"
	case word == "class":
		return "class"
	}
	return "var"
}

func valueKind(rest string) string {
	if strings.Contains(rest, "=>") || strings.Contains(rest, "function") {
		return "func"
	}
	return "var"
}

// atMemberLevel reports whether the line is at top level or directly in an owner.
func (s *scanner) atMemberLevel() bool {
	if len(s.owners) == 0 {
		return s.depth == 0
	}
	return s.depth == s.owners[len(s.owners)-1].depth
}

// nextKeyword skips modifiers and returns the next word and the rest of the line.
func (s *scanner) nextKeyword(text string) (word, rest string) {
	for {
		word = identPrefix(text)
		rest = text[len(word):]
		if strings.HasPrefix(rest, "(") && word == "pub" { // pub(crate)
			if i := strings.IndexByte(rest, ')'); i >= 0 {
				rest = rest[i+1:]
			}
		}
		rest = strings.TrimLeft(rest, " \t")
		if word == "extern" && strings.HasPrefix(rest, `"C"`) {
			rest = strings.TrimLeft(rest[3:], " \t")
		}
		if word == "" || !s.modifiers[word] || rest == "" {
			return word, rest
		}
		if strings.IndexByte("(=:;", rest[0]) >= 0 { // it is a name after all
			return word, rest
		}
		text = rest
	}
}

// declareNamed adds the declaration after a keyword.
func (s *scanner) declareNamed(n int, word, kind, rest, line, text string) bool {
	rest = strings.TrimLeft(rest, "*! \t")
	if word == "const" { // const fn
		if next, more := s.nextKeyword(rest); s.kinds[next] == "func" {
			kind, rest = "func", more
		}
	}
	if word == "impl" {
		name := implName(rest)
		if name == "" {
			return true
		}
		if strings.Contains(rest, " for ") { // of a trait
			s.addUnit(n, name, "impl", text)
		}
		s.openOwner(name, line, text)
		return true
	}
	if word == "enum" {
		if next := identPrefix(rest); next == "class" || next == "struct" {
			rest = strings.TrimLeft(rest[len(next):], " ")
		}
	}
	name := identPrefix(rest)
	if name == "" {
		return false
	}
	after := strings.TrimLeft(rest[len(name):], " \t")
	if s.defines && (strings.HasPrefix(after, "*") || after != "" && !strings.ContainsAny(text, "{") && strings.HasSuffix(text, ";")) {
		return false // a variable, or a declaration without a body
	}
	if s.defines && strings.Contains(text, "(") && !strings.HasPrefix(after, "{") && !strings.HasPrefix(after, ":") && !strings.HasPrefix(after, "final") {
		return false // struct foo *f(void) {
	}
	s.addUnit(n, name, kind, text)
	if s.indented {
		s.last = len(s.units) - 1
	}
	if s.classes[word] {
		s.openOwner(name, line, text)
	} else if s.indented && kind == "func" {
		s.owners = append(s.owners, owner{name: s.units[len(s.units)-1].Symbol, depth: len(line) - len(text) + 1})
	}
	return true
}

// openOwner opens the block of a class; its members follow.
func (s *scanner) openOwner(name, line, text string) {
	if strings.HasSuffix(text, ";") || strings.HasSuffix(text, "}") && strings.Contains(text, "{") {
		return
	}
	if len(s.owners) > 0 {
		name = s.owners[len(s.owners)-1].name + "." + name
	}
	depth := s.depth + 1
	if s.indented {
		depth = len(line) - len(text) + 1
	}
	s.owners = append(s.owners, owner{strings.Clone(name), depth, !s.indented && !strings.Contains(text, "{")})
}

// implName returns the type of an impl block: the one after for, if any.
func implName(rest string) string {
	if strings.HasPrefix(rest, "<") {
		depth := 0
		for i := range len(rest) {
			if rest[i] == '<' {
				depth++
			} else if rest[i] == '>' {
				if depth--; depth == 0 {
					rest = strings.TrimLeft(rest[i+1:], " ")
					break
				}
			}
		}
	}
	if _, after, ok := strings.Cut(rest, " for "); ok {
		rest = after
	}
	rest = strings.TrimLeft(rest, "&' ")
	name := identPrefix(rest)
	for strings.HasPrefix(rest[len(name):], "::") {
		rest = rest[len(name)+2:]
		name = identPrefix(rest)
	}
	return name
}

var notNames = wordSet("if for while switch catch return new else do sizeof throw await yield delete function super this typeof case using lock foreach when assert")

// declareFunction adds a method or function without a keyword: a name before a parenthesis,
// in a line that opens a block or continues. In a header that may also be a prototype.
func (s *scanner) declareFunction(n int, text string) {
	paren := strings.IndexByte(text, '(')
	if paren <= 0 {
		return
	}
	head := strings.TrimRight(text[:paren], " \t")
	if strings.HasSuffix(head, ">") { // name<T>(
		if i := strings.IndexByte(head, '<'); i > 0 && !strings.Contains(head[:i], " ") {
			head = head[:i]
		}
	}
	start := len(head)
	for start > 0 && (identByte(head[start-1]) || head[start-1] == ':' || head[start-1] == '~') {
		start--
	}
	name := strings.ReplaceAll(strings.Trim(head[start:], ":"), "::", ".")
	before := strings.TrimSpace(head[:start])
	end := strings.TrimRight(text, " \t")
	opens := strings.HasSuffix(end, "{") || strings.HasSuffix(end, "}") || strings.HasSuffix(end, "(") || strings.HasSuffix(end, ",") || strings.HasSuffix(end, ")")
	if len(s.owners) > 0 && strings.HasSuffix(end, ";") && before != "" && !s.values {
		opens = true // the signature of an interface, or of a class in a header
	}
	kind := "func"
	if len(s.owners) == 0 && strings.HasSuffix(end, ");") && s.header && text[paren+1] != '*' {
		opens, kind, text = true, "prototype", strings.TrimSuffix(end, ";")
	}
	if name == "" || notNames[name] || notNames[identPrefix(before)] || strings.ContainsAny(before, "=.(\"'") || !opens || name[0] >= '0' && name[0] <= '9' {
		return
	}
	if before == "" && len(s.owners) == 0 {
		if s.before == "" {
			return // a call
		}
		text = s.before + " " + text
	}
	s.addUnit(n, name, kind, text)
}

// declareGo relies on gofmt: declarations are at the start of a line.
func (s *scanner) declareGo(n int, line, text string) {
	if s.group != "" {
		s.declareInGroup(n, line, text)
		return
	}
	if len(line) != len(text) || s.depth > 0 {
		return
	}
	word := identPrefix(text)
	kind, ok := s.kinds[word]
	if !ok {
		return
	}
	rest := strings.TrimLeft(text[len(word):], " \t")
	if word != "func" && strings.HasPrefix(rest, "(") {
		s.group = kind
		return
	}
	if strings.HasPrefix(rest, "(") { // the receiver
		i := strings.IndexByte(rest, ')')
		if i < 0 {
			return
		}
		fields := strings.Fields(rest[1:i])
		rest = strings.TrimLeft(rest[i+1:], " ")
		if len(fields) == 0 || identPrefix(rest) == "" {
			return
		}
		receiver, _, _ := strings.Cut(strings.TrimLeft(fields[len(fields)-1], "*"), "[")
		s.addUnit(n, receiver+"."+identPrefix(rest), "method", text)
		return
	}
	if name := identPrefix(rest); name != "" {
		s.addUnit(n, name, kind, text)
	}
}

func (s *scanner) declareInGroup(n int, line, text string) {
	if text[0] == ')' && len(line) == len(text) {
		s.group = ""
		return
	}
	if s.depth != 1 || len(line)-len(text) != 1 {
		return
	}
	if name := identPrefix(text); name != "" && name != "_" {
		s.addUnit(n, name, s.group, s.group+" "+text)
	}
}

func identPrefix(s string) string {
	i := 0
	for i < len(s) && identByte(s[i]) {
		i++
	}
	return s[:i]
}

func identByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// trackState follows braces, strings and comments through a line.
func (s *scanner) trackState(line string) {
	for i := 0; i < len(line); {
		switch {
		case s.comment:
			end := strings.Index(line[i:], "*/")
			if end < 0 {
				return
			}
			s.comment = false
			i += end + 2
		case s.str != "":
			end := strings.Index(line[i:], s.str)
			if end < 0 {
				return
			}
			i += end + len(s.str)
			s.str = ""
		default:
			if i = s.stepCode(line, i); i < 0 {
				return
			}
		}
	}
}

// stepCode processes one token of code; it returns -1 if the rest is a comment.
func (s *scanner) stepCode(line string, i int) int {
	c := line[i]
	switch {
	case c == '{' || c == '(':
		s.depth++
	case c == '}' || c == ')':
		s.depth = max(s.depth-1, 0)
	case c == s.line[0] && strings.HasPrefix(line[i:], s.line):
		return -1
	case c == '/' && s.block && strings.HasPrefix(line[i:], "/*"):
		s.comment = true
		return i + 2
	case s.triple && (c == '"' || c == '\'') && i+2 < len(line) && line[i+1] == c && line[i+2] == c:
		s.str = line[i : i+3]
		return i + 3
	case s.raw != "" && c == s.raw[0]:
		s.str = s.raw
	case c == '"':
		return skipString(line, i)
	case c == '\'' && (!s.lifetimes || i+2 < len(line) && (line[i+1] == '\\' || line[i+2] == c)):
		return skipString(line, i)
	}
	return i + 1
}

func skipString(line string, i int) int {
	quote := line[i]
	for i++; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case quote:
			return i + 1
		}
	}
	return len(line)
}
