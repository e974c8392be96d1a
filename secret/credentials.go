package secret

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// FileValues returns the secrets in a file with credentials or settings of a program: the
// texts in JSON, or the values of lines such as NAME=value, whose name denotes a secret or
// which look random. All have the same name.
func FileValues(name string, data []byte) []Value {
	var texts []string
	add := func(key, text string) {
		text = strings.TrimSpace(text)
		if len(text) >= 8 && isCredentialKey(key) && !isPlaceholder([]byte(text)) || len(text) >= 20 && veryRandom([]byte(text)) {
			texts = append(texts, text)
		}
	}
	var doc any
	if json.Unmarshal(data, &doc) == nil {
		walkStrings("", doc, add)
	} else {
		for line := range bytes.Lines(data) {
			if key, text, ok := strings.Cut(string(line), "="); ok {
				add(strings.TrimSpace(key), strings.Trim(strings.TrimSpace(text), `"'`))
			}
		}
	}
	slices.Sort(texts)
	var values []Value
	for _, text := range slices.Compact(texts) {
		values = append(values, NewValue(name, text))
	}
	return values
}

// isCredentialKey reports whether a key of a file with credentials holds a secret.
func isCredentialKey(key string) bool {
	return IsSecretName(key) || slices.Contains([]string{"key", "access", "refresh", "auth", "password"}, strings.ToLower(key))
}

func walkStrings(key string, v any, visit func(key, text string)) {
	switch v := v.(type) {
	case string:
		visit(key, v)
	case []any:
		for _, x := range v {
			walkStrings(key, x, visit)
		}
	case map[string]any:
		for k, x := range v {
			walkStrings(k, x, visit)
		}
	}
}

var (
	urlUser = lazyregexp.New(`(?i)\b(https?|ftps?)://(?:[^/?#\s"'@\\]|@|\\.)*@`)
	// textURLUser is urlUser for a value without quotes and escapes of the file.
	textURLUser = lazyregexp.New(`(?i)\b(https?|ftps?)://[^/?#\s]*@`)

	// gitKey is the beginning of a line up to the value: section headers and a key.
	gitKey = lazyregexp.New(`^(?:\xef\xbb\xbf)?[ \t]*(?:\[(?:[^\]"\n]|"(?:[^"\\\n]|\\.)*")*\][ \t]*)*([A-Za-z][A-Za-z0-9-]*)[ \t]*=`)
)

// gitSecretKeys are the ends of keys of a Git configuration whose values are credentials:
// sendemail.smtpPass, imap.pass, http.extraHeader, github.token.
var gitSecretKeys = []string{"extraheader", "pass", "passwd", "password", "token", "secret"}

// StripGitConfig removes user names and passwords of URLs, and values of keys that denote
// credentials, from a Git configuration.
func StripGitConfig(config []byte) []byte {
	var out []byte
	for len(config) > 0 {
		m := gitKey.FindSubmatchIndex(config)
		if m == nil { // a header alone, a comment, or no configuration
			n := bytes.IndexByte(config, '\n') + 1
			if n == 0 {
				n = len(config)
			}
			out = append(out, urlUser.ReplaceAll(config[:n], []byte("$1://"))...)
			config = config[n:]
			continue
		}
		key := strings.ToLower(string(config[m[2]:m[3]]))
		out = append(out, urlUser.ReplaceAll(config[:m[1]], []byte("$1://"))...)
		raw, value := cutGitValue(config[m[1]:])
		config = config[m[1]+len(raw):]
		if slices.ContainsFunc(gitSecretKeys, func(end string) bool { return strings.HasSuffix(key, end) }) {
			continue
		}
		if stripped := textURLUser.ReplaceAllString(value, "$1://"); stripped != value && bytes.ContainsAny(raw, `"\`) {
			out = append(out, ` "`+gitEscape.Replace(stripped)+`"`...)
			continue
		}
		out = append(out, textURLUser.ReplaceAll(raw, []byte("$1://"))...)
	}
	return out
}

// IsGitConfigName reports whether a file of that name in a Git directory is a
// configuration, or a copy of one that an editor or a user made.
func IsGitConfigName(name string) bool {
	return name == "config" || strings.HasPrefix(name, "config.") || strings.HasPrefix(name, "config~")
}

var gitEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`)

// cutGitValue returns the value at the beginning of a text, as the file has it and as Git
// reads it. It ends before a line feed that is not escaped.
func cutGitValue(text []byte) (raw []byte, value string) {
	var b strings.Builder
	quoted, comment := false, false
	i := 0
	for ; i < len(text) && text[i] != '\n'; i++ {
		c := text[i]
		switch {
		case comment:
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
				i++
			}
			switch text[i] {
			case '\n':
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(text[i])
			}
		case c == '"':
			quoted = !quoted
		case (c == '#' || c == ';') && !quoted:
			comment = true
		default:
			b.WriteByte(c)
		}
	}
	return text[:i], strings.TrimSpace(b.String())
}
