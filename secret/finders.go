package secret

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// urlPassword finds the password in a URL; at is one byte before its "://".
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

// placeholders are texts that documents use instead of a secret.
var placeholders = []string{"password", "passwd", "pass", "pwd", "pw", "secret", "token", "changeme", "example", "true", "false", "null", "none", "nil",
	"undefined", "required", "optional", "string", "redacted", "hidden", "default", "test", "placeholder", "x-oauth-basic"}

// isPlaceholder reports whether a text is a placeholder: empty, a known word, a variable,
// or one repeated character.
func isPlaceholder(text []byte) bool {
	if len(text) == 0 || bytes.ContainsAny(text[:1], "$%{<*[(") || bytes.Count(text, text[:1]) == len(text) {
		return true
	}
	lower := strings.ToLower(string(text))
	return slices.Contains(placeholders, lower) || strings.HasPrefix(lower, "your") || strings.Contains(lower, "...") || strings.HasPrefix(lower, "xxx")
}

// keyBegin matches the header of a PEM private key, from "BEGIN " on.
var keyBegin = regexp.MustCompile(`^BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`)

// keyLine matches a line of the PEM body: a prefix added by a tool, such as a line number,
// the body, and the line end, which may be escaped.
var keyLine = regexp.MustCompile(`^((?:[ \t"'+>|#-]|\d+[\t:])*)([A-Za-z0-9+/=:, .()-]*)(\r?\n|(?:\\r)?\\n|["'])?`)

const maxKey = 16 << 10

// privateKey finds the lines of a PEM private key, each as one span, so that line breaks
// and numbers are kept; at is the index of "BEGIN ".
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
			break // not a key
		}
		if start, end := pos+m[4], pos+m[5]; end-start >= 16 && bytes.IndexByte(p[start:end], ' ') < 0 {
			spans = append(spans, Span{start, end, "private-key"})
		}
		pos += m[1]
	}
	return spans
}

const valueEnds = " \t\r\n\"'`;,&|<>(){}[]\\$"

// assignedValue finds the value of a variable, in shell syntax (NAME=value) or data syntax
// (NAME: value, "NAME": "value"). at is the index of a secret word at the end of the name.
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

// upperName reports whether the name that ends with the word is in upper case, like
// environment variables.
func upperName(p []byte, at int) bool {
	for at > 0 && isWord(p[at-1]) {
		at--
		if p[at] >= 'a' && p[at] <= 'z' {
			return at > 0 && p[at-1] == '\\' // an escape before the name
		}
	}
	return at == 0 || p[at-1] != '$' && p[at-1] != '.'
}

// secretValue reports whether a value looks secret. In shell syntax nearly any value does;
// elsewhere, in code, it must look random.
func secretValue(v []byte, shell bool) bool {
	if len(v) < 6 || isPlaceholder(v) || v[0] == '/' || v[0] == '.' || bytes.Contains(v, []byte("://")) {
		return false
	}
	if shell && !bytes.ContainsAny(v, ".") {
		return true
	}
	return len(v) >= 12 && entropy(v) >= 3 && bytes.ContainsAny(v, "0123456789") && bytes.ContainsFunc(v, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' })
}
