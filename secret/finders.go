package secret

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// urlPassword finds the password of a URL; at is one byte before its "://".
func urlPassword(p []byte, at int) []Span {
	start := at + len("x://")
	end := start
	for end < len(p) && end-start < 512 && !bytes.ContainsRune([]byte("/?#@ \t\r\n\"'`<>\\"), rune(p[end])) {
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

// placeholders are what documents write where a secret would be.
var placeholders = []string{"password", "passwd", "pass", "pwd", "pw", "secret", "token", "changeme", "example", "true", "false", "null", "none", "nil",
	"undefined", "required", "optional", "string", "redacted", "hidden", "default", "test", "placeholder", "x-oauth-basic"}

// isPlaceholder reports whether a text stands for a secret instead of being one: it
// is empty, a word that says so, a variable, or one character again and again.
func isPlaceholder(text []byte) bool {
	if len(text) == 0 || bytes.ContainsAny(text[:1], "$%{<*[(") || bytes.Count(text, text[:1]) == len(text) {
		return true
	}
	lower := strings.ToLower(string(text))
	return slices.Contains(placeholders, lower) || strings.HasPrefix(lower, "your") || strings.Contains(lower, "...") || strings.HasPrefix(lower, "xxx")
}

// keyBegin is how the armour of a private key begins, at "BEGIN ".
var keyBegin = regexp.MustCompile(`^BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`)

// keyLine is a line of its body: what a tool puts before a line, such as its
// number, and the body itself. Lines end, or say that they do.
var keyLine = regexp.MustCompile(`^((?:[ \t"'+>|#-]|\d+[\t:])*)([A-Za-z0-9+/=:, .()-]*)(\r?\n|(?:\\r)?\\n|["'])?`)

const maxKey = 16 << 10

// privateKey finds the lines of a private key, each by itself, so that line breaks
// and numbers stay; at is that of "BEGIN ".
func privateKey(p []byte, at int) []Span {
	if at < 5 || string(p[at-5:at]) != "-----" {
		return nil
	}
	begin := keyBegin.FindIndex(p[at:min(len(p), at+100)])
	if begin == nil {
		return nil
	}
	pos, limit := at+begin[1], min(len(p), at+maxKey)
	var spans []Span
	for pos < limit {
		if bytes.HasPrefix(bytes.TrimLeft(p[pos:limit], " \t0123456789:|>+#\"'\r\n"), []byte("-----END")) {
			break
		}
		m := keyLine.FindSubmatchIndex(p[pos:limit])
		if m[1] == 0 {
			break // something else
		}
		if start, end := pos+m[4], pos+m[5]; end-start >= 16 && bytes.IndexByte(p[start:end], ' ') < 0 {
			spans = append(spans, Span{start, end, "private-key"})
		}
		pos += m[1]
	}
	return spans
}

const valueEnds = " \t\r\n\"'`;,&|<>(){}[]\\$"

// assignedValue finds the value of a variable, in the manner of a shell (NAME=value) or
// of data (NAME: value, "NAME": "value"). at is that of a word at its end.
func assignedValue(p []byte, at, length int) []Span {
	pos := at + length
	for pos < len(p) && p[pos] >= '0' && p[pos] <= '9' {
		pos++
	}
	if !upperName(p, at) || pos < len(p) && isWord(p[pos]) {
		return nil
	}
	shell := pos < len(p) && p[pos] == '='
	for pos < len(p) && (p[pos] == '"' || p[pos] == '\'' || p[pos] == ' ') {
		pos++
	}
	if pos == len(p) || p[pos] != '=' && p[pos] != ':' {
		return nil
	}
	pos++
	for pos < len(p) && p[pos] == ' ' && !shell {
		pos++
	}
	quoted := pos < len(p) && (p[pos] == '"' || p[pos] == '\'' || p[pos] == '`')
	if quoted {
		pos++
	}
	end := pos
	for end < len(p) && end-pos < maxForm && bytes.IndexByte([]byte(valueEnds), p[end]) < 0 {
		end++
	}
	value := p[pos:end]
	if end < len(p) && bytes.IndexByte([]byte("({[$<"), p[end]) >= 0 || !secretValue(value, shell) {
		return nil
	}
	return []Span{{pos, end, "secret-assignment"}}
}

// upperName reports whether the name that a word ends is written as variables of
// an environment are: in upper case.
func upperName(p []byte, at int) bool {
	for at > 0 && isWord(p[at-1]) {
		at--
		if p[at] >= 'a' && p[at] <= 'z' {
			return at > 0 && p[at-1] == '\\' // an escape before the name
		}
	}
	return at == 0 || p[at-1] != '$' && p[at-1] != '.'
}

// secretValue reports whether a value looks like one that is secret. In the manner
// of a shell nearly any does; elsewhere, where code is, it must look like chance.
func secretValue(v []byte, shell bool) bool {
	if len(v) < 6 || isPlaceholder(v) || v[0] == '/' || v[0] == '.' || bytes.Contains(v, []byte("://")) {
		return false
	}
	if shell && !bytes.ContainsAny(v, ".") {
		return true
	}
	return len(v) >= 12 && entropy(v) >= 3 && bytes.ContainsAny(v, "0123456789") && bytes.ContainsFunc(v, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' })
}
