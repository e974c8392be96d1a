package secret

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// contexts find secrets by what is around them. A finder is called with the index of a
// head, which it finds in any case, and its length.
var contexts = []struct {
	heads []string
	find  func(p []byte, at, length int) []Span
}{
	{[]string{"5://", "b://", "c://", "d://", "e://", "h://", "j://", "l://", "m://", "p://", "r://", "s://", "t://", "v://"}, urlPassword},
	{[]string{"BEGIN "}, privateKey},
	{[]string{"Private-Lines:"}, puttyKey},
	{[]string{"curl "}, curlUser},
	{[]string{"cookie"}, cookieValues},
	{[]string{"kind: Secret", `kind": "Secret`, `kind":"Secret`}, kubernetesSecret},
	{nameHeads, assignedValue},
}

// nameHeads are secretWords in each spelling, and words that are too short without what is
// before them.
var nameHeads = func() []string {
	list := []string{"_pass", "-pass", `"pass"`, "'pass'", "_pwd", ";pwd", "sharedkey", "psk="}
	for _, w := range secretWords {
		for _, separator := range []string{"_", "-", ""} {
			list = append(list, strings.ReplaceAll(w, "_", separator))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}()

// urlPassword finds the password in a URL; at is one byte before its "://".
func urlPassword(p []byte, at, length int) []Span {
	start := at + length
	end := start
	for end < len(p) && end-start < 512 && bytes.IndexByte([]byte("/?#@ \t\r\n\"'`<>\\"), p[end]) < 0 {
		end++
	}
	if end+1 >= len(p) || p[end] != '@' || !isWord(p[end+1]) && p[end+1] != '[' {
		return nil
	}
	colon := bytes.IndexByte(p[start:end], ':')
	if colon < 0 || isPlaceholder(p[start+colon+1:end]) {
		return nil
	}
	return []Span{{start + colon + 1, end, "url-password"}}
}

// keyBegin matches the header of a PEM private key, from "BEGIN " on.
var keyBegin = lazyregexp.New(`^BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`)

// keyLine matches a line of the PEM body: a prefix added by a tool, such as a line number,
// the body, and the line end, which may be escaped.
var keyLine = lazyregexp.New(`^((?:[ \t"'+>|#-]|\d+[\t:])*)([A-Za-z0-9+/=:, .()-]*)(\r?\n|(?:\\r)?\\n|["'])?`)

const maxKey = 16 << 10

// privateKey finds the lines of a PEM private key, each as one span, so that line breaks
// and numbers are kept; at is the index of "BEGIN ".
func privateKey(p []byte, at, _ int) []Span {
	if at < 5 || string(p[at-5:at]) != "-----" {
		return nil
	}
	begin := keyBegin.FindIndex(p[at:min(len(p), at+100)])
	if begin == nil {
		return nil
	}
	return keyLines(p, at+begin[1], maxKey)
}

// keyLines finds the lines of a key from pos on, at most lines of them.
func keyLines(p []byte, pos, lines int) []Span {
	limit := min(len(p), pos+maxKey)
	var spans []Span
	for ; pos < limit && lines > 0; lines-- {
		if bytes.HasPrefix(bytes.TrimLeft(p[pos:limit], " \t0123456789:|>+#\"'\r\n"), []byte("-----END")) {
			break
		}
		m := keyLine.FindSubmatchIndex(p[pos:limit])
		if m[1] == 0 {
			break // not a key
		}
		if start, end := pos+m[4], pos+m[5]; end-start >= 16 && bytes.IndexByte(p[start:end], ' ') < 0 {
			spans = append(spans, Span{start, end, "private-key"})
		}
		pos += m[1]
	}
	return spans
}

var privateLines = lazyregexp.New(`^Private-Lines: *(\d{1,3})(?:\r?\n|(?:\\r)?\\n)`)

// puttyKey finds the lines of a private key of PuTTY.
func puttyKey(p []byte, at, _ int) []Span {
	m := privateLines.FindSubmatchIndex(p[at:min(len(p), at+100)])
	if m == nil {
		return nil
	}
	n, err := strconv.Atoi(string(p[at+m[2] : at+m[3]]))
	if err != nil {
		return nil
	}
	return keyLines(p, at+m[1], n)
}

var userOption = lazyregexp.New(`\s(?:-u|--user|--proxy-user|-U)(?:\s*=?\s*)["']?[^\s:"']*:([^\s"']+)`)

// curlUser finds the password after the option -u of curl.
func curlUser(p []byte, at, length int) []Span {
	if inWord(p, at) {
		return nil
	}
	end := at + length
	for limit := min(len(p), at+2048); end < limit && (p[end] != '\n' || p[end-1] == '\\'); end++ {
	}
	var spans []Span
	for _, m := range userOption.FindAllSubmatchIndex(p[at:end], -1) {
		if v := p[at+m[2] : at+m[3]]; isStrongValue(v) {
			spans = append(spans, Span{at + m[2], at + m[3], "command-password"})
		}
	}
	return spans
}

// cookieValues finds the random values of a header Cookie or Set-Cookie.
func cookieValues(p []byte, at, length int) []Span {
	pos, ok := afterName(p, at+length)
	if !ok {
		return nil
	}
	var spans []Span
	limit := min(len(p), pos+maxForm)
	for pos < limit {
		end := pos
		for end < limit && bytes.IndexByte([]byte("; \r\n\"'\\"), p[end]) < 0 {
			end++
		}
		if eq := bytes.IndexByte(p[pos:end], '='); eq >= 0 && looksRandom(p[pos+eq+1:end]) {
			spans = append(spans, Span{pos + eq + 1, end, "cookie"})
		}
		if end == limit || p[end] != ';' {
			break
		}
		for pos = end + 1; pos < limit && p[pos] == ' '; pos++ {
		}
	}
	return spans
}

// kubernetesSecret finds the values below data and stringData of a Secret; at is the index
// of its kind, which may precede or follow them.
func kubernetesSecret(p []byte, at, length int) []Span {
	if at+length < len(p) && isWord(p[at+length]) {
		return nil
	}
	from, to := max(0, at-maxForm), min(len(p), at+maxForm)
	if i := bytes.LastIndex(p[from:at], []byte("\n---")); i >= 0 {
		from += i
	}
	if i := bytes.Index(p[at:to], []byte("\n---")); i >= 0 {
		to = at + i
	}
	var spans []Span
	for _, m := range manifestData.FindAllSubmatchIndex(p[from:to], -1) {
		for _, v := range manifestValue.FindAllSubmatchIndex(p[from+m[2]:from+m[3]], -1) {
			start, end := from+m[2]+v[2], from+m[2]+v[3]
			if !isPlaceholder(p[start:end]) {
				spans = append(spans, Span{start, end, "kubernetes-secret"})
			}
		}
	}
	return spans
}

var (
	manifestData  = lazyregexp.New(`(?:data|stringData)"?:(?:[ \t]*\n((?:[ \t\d]*[ \t]["']?[\w.-]+["']?:[^\n]*\n?)+)|\s*\{([^}]*)\})`)
	manifestValue = lazyregexp.New(`[\w.-]+["']?:[ \t]*["']?([A-Za-z0-9+/=!@#$%^&*_.-]{6,})`)
)

const valueEnds = " \t\r\n\"'`;,&|<>(){}[]\\$"

// afterName returns the index of the value that is assigned to the name that ends at pos:
// in shell syntax (NAME=value), data syntax (NAME: value, "NAME": "value"), code
// (NAME := "value", ["NAME"] = "value", NAME("value")) or XML.
func afterName(p []byte, pos int) (int, bool) {
	for pos < len(p) && bytes.IndexByte([]byte("\"'] \t\\?"), p[pos]) >= 0 {
		pos++
	}
	if pos == len(p) {
		return 0, false
	}
	switch p[pos] {
	case ':', '=':
		for pos < len(p) && (p[pos] == ':' || p[pos] == '=') {
			pos++
		}
		if pos < len(p) && p[pos] == '>' {
			pos++
		}
	case '>':
		pos++
	case '(':
		if pos++; pos == len(p) || p[pos] != '"' && p[pos] != '\'' {
			return 0, false
		}
	default:
		return 0, false
	}
	for pos < len(p) && (p[pos] == ' ' || p[pos] == '\t') {
		pos++
	}
	return pos, true
}

// assignedValue finds the value of a variable or key; at is the index of a secret word at
// the end of its name.
func assignedValue(p []byte, at, length int) []Span {
	pos := at + length
	for pos < len(p) && p[pos] >= '0' && p[pos] <= '9' {
		pos++
	}
	if pos == len(p) || isWord(p[pos]) && p[at+length-1] != '=' {
		return nil
	}
	strong := p[pos] == '=' && (isVariable(p, at) || isParameter(p, at))
	if p[at+length-1] == '=' {
		pos--
	}
	blank := pos
	pos, ok := afterName(p, pos)
	if !ok || strong && pos != blank+1 {
		return nil
	}
	if pos+1 < len(p) && p[pos] == '\\' {
		pos++
	}
	start, end, name := pos, pos, false
	if pos < len(p) && bytes.IndexByte([]byte("\"'`"), p[pos]) >= 0 {
		start, end = pos+1, quotedEnd(p, pos)
	} else {
		for end < len(p) && end-pos < maxForm && bytes.IndexByte([]byte(valueEnds), p[end]) < 0 {
			end++
		}
		if end < len(p) && bytes.IndexByte([]byte("({[$<"), p[end]) >= 0 && !bytes.HasPrefix(p[end:], []byte("</")) {
			return nil // a call, or a part of a template
		}
		name = isName(p[start:end])
	}
	value := p[start:max(start, end)]
	if strong && isStrongValue(value) || !name && looksRandom(value) && !bytes.Contains(value, []byte("://")) {
		return []Span{{start, end, "secret-assignment"}}
	}
	return nil
}

// quotedEnd returns the index of the quote that ends the text whose first quote is at pos,
// or of the end of the line.
func quotedEnd(p []byte, pos int) int {
	escaped := p[pos-1] == '\\' // the quotes are escaped, too
	for i := pos + 1; i < len(p) && i-pos < maxForm; i++ {
		switch {
		case p[i] == '\n':
			return i
		case p[i] == '\\' && escaped && i+1 < len(p) && p[i+1] == p[pos]:
			return i
		case p[i] == '\\':
			i++
		case p[i] == p[pos]:
			return i
		}
	}
	return min(len(p), pos+maxForm)
}

// isVariable reports whether the name that ends with the word at at is in upper case, like
// environment variables.
func isVariable(p []byte, at int) bool {
	if p[at] >= 'a' && p[at] <= 'z' {
		return false
	}
	for at > 0 && isWord(p[at-1]) {
		at--
		if p[at] >= 'a' && p[at] <= 'z' {
			return at > 0 && p[at-1] == '\\' // an escape before the name
		}
	}
	return at == 0 || p[at-1] != '$' && p[at-1] != '.'
}

// isParameter reports whether the name that ends with the word at at is a parameter of a
// connection string or URL.
func isParameter(p []byte, at int) bool {
	if p[at] == ';' {
		return true
	}
	for at > 0 && (isWord(p[at-1]) || p[at-1] == ' ') {
		at--
	}
	return at > 0 && (p[at-1] == ';' || p[at-1] == '?' || p[at-1] == '&')
}

// isStrongValue reports whether the value of a name that surely holds a secret is one.
func isStrongValue(v []byte) bool {
	if len(v) < 6 || isPlaceholder(v) || bytes.IndexByte([]byte("/. "), v[0]) >= 0 || bytes.Contains(v, []byte("://")) {
		return false
	}
	return !bytes.ContainsAny(v, ".") || looksRandom(v)
}

// looksRandom reports whether a value looks like a random one, rather than like a word, a
// name in code, a number or a path.
func looksRandom(v []byte) bool {
	if len(v) < 8 || isPlaceholder(v) || v[0] == '/' || v[0] == '.' || bytes.HasPrefix(bytes.TrimLeft(v, "-"), []byte("0x")) {
		return false
	}
	for _, c := range v {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	k := kindsOf(v)
	kinds := min(k.lower, 1) + min(k.upper, 1) + min(k.digits, 1) + min(k.others, 1)
	if k.lower+k.upper == 0 || k.digits == 0 && (k.others < 2 || kinds < 3) || k.changes*4 < len(v) {
		return false
	}
	if len(v) < 12 {
		return kinds >= 3 && entropy(v) >= 2.75
	}
	return entropy(v) >= 3
}

// isName reports whether a value that is not quoted is an expression in code: it has a
// secret word itself, or consists of names.
func isName(v []byte) bool {
	if IsSecretName(strings.TrimRight(string(v), "0123456789")) {
		return true
	}
	return names.Match(v)
}

// names matches names that are joined by dots, such as s.cfg.Token.
var names = lazyregexp.New(`^[!&*]*[A-Za-z_]\w*(?:[?!]?\.[A-Za-z_]\w*)+$`)

// isBasicCredential reports whether a text is the base64 encoding of a user and a password.
func isBasicCredential(text []byte) bool {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(text), "="))
	if err != nil {
		return false
	}
	user, password, ok := bytes.Cut(plain, []byte(":"))
	if !ok || len(user)+len(password) < 4 || isPlaceholder(password) && isPlaceholder(user) {
		return false
	}
	for _, c := range plain {
		if c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// placeholders are texts that documents use instead of a secret.
var placeholders = []string{"password", "passwd", "pass", "pwd", "pw", "secret", "token", "changeme", "example", "true", "false", "null", "none", "nil",
	"undefined", "required", "optional", "string", "redacted", "hidden", "default", "test", "placeholder", "x-oauth-basic"}

// reference matches a value that is taken from elsewhere: a variable, a command or a
// template.
var reference = lazyregexp.New(`^\$[\w.]+$|\$\{[A-Za-z_!#][^}]*\}|\$\([a-z][^)]*\)|\{\{|^%[\w]+%?$|^%[({]|^<.*>?$|^\{.*\}$|^\[.*\]$|^\(.*\)$|^\*[\w.]*$`)

// isPlaceholder reports whether a text is a placeholder: empty, a known word, a variable,
// or one repeated character.
func isPlaceholder(text []byte) bool {
	if len(text) == 0 || bytes.Count(text, text[:1]) == len(text) {
		return true
	}
	if bytes.ContainsAny(text, "$%{<*[(") && reference.Match(text) {
		return true
	}
	lower := strings.ToLower(string(text))
	return slices.Contains(placeholders, lower) || strings.HasPrefix(lower, "your") || strings.Contains(lower, "...") || isExample(text)
}

// isExample reports whether a token is one of documentation.
func isExample(text []byte) bool {
	lower := bytes.ToLower(text)
	for _, word := range []string{"xxxx", "example", "abcdefghijklmnopqrstuvwxyz", "00000000", "redacted", "12345678901234567890"} {
		if bytes.Contains(lower, []byte(word)) {
			return true
		}
	}
	return false
}
