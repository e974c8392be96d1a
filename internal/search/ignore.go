package search

import (
	"bytes"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// IgnoreFile is the name of the files with ignore rules.
const IgnoreFile = ".gitignore"

// Limits of rules, so that no file exhausts memory or time: bytes of a file, bytes
// of a line, and rules for one directory. Longer lines and further rules are
// ignored.
const (
	maxIgnore = 1 << 20
	maxRule   = 4096
	maxRules  = 50_000
)

// An Ignore holds the rules of one .gitignore file and of those in the directories
// above it. nil has no rules. It is immutable.
type Ignore struct {
	above *Ignore
	dir   string // directory of the file; "." is the root
	rules []rule // the last that matches decides
	count int    // rules here and above
}

// A rule is one line of a .gitignore file.
type rule struct {
	negate  bool // it includes again what another rule ignores
	dirOnly bool
	path    bool     // match the path below dir, not only the last element
	kind    ruleKind // how text is compared
	text    string
}

type ruleKind int

const (
	ruleGlob ruleKind = iota
	ruleEqual
	ruleSuffix // a star and a plain text
	rulePrefix // a plain text and a star
)

// With adds the rules of dir's .gitignore content, of which at most maxIgnore bytes
// are read. Malformed lines match nothing, as in git.
func (ig *Ignore) With(dir string, content []byte) *Ignore {
	below := &Ignore{above: ig, dir: dir}
	if ig != nil {
		below.count = ig.count
	}
	if len(content) > maxIgnore {
		content = content[:bytes.LastIndexByte(content[:maxIgnore], '\n')+1]
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	for line := range bytes.SplitSeq(content, newline) {
		if below.count == maxRules {
			break
		}
		if len(line) > maxRule {
			continue
		}
		if r, ok := parseRule(string(bytes.TrimSuffix(line, []byte{'\r'}))); ok {
			below.rules = append(below.rules, r)
			below.count++
		}
	}
	if len(below.rules) == 0 {
		return ig
	}
	return below
}

func parseRule(line string) (rule, bool) {
	var r rule
	if strings.HasPrefix(line, "#") || strings.IndexByte(line, 0) >= 0 {
		return r, false
	}
	line = trimSpaces(line)
	if rest, ok := strings.CutPrefix(line, "!"); ok {
		r.negate, line = true, rest
	}
	if rest, ok := strings.CutSuffix(line, "/"); ok {
		r.dirOnly, line = true, rest
	}
	if line == "" {
		return r, false
	}
	r.path = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if rest, ok := strings.CutSuffix(line, "/**"); ok {
		line = rest + "/**/*" // everything below, without the directory itself
	}
	return r, r.setPattern(line)
}

// trimSpaces removes trailing spaces that are not escaped.
func trimSpaces(line string) string {
	end := len(line)
	for end > 0 && line[end-1] == ' ' {
		end--
	}
	slashes := 0
	for slashes < end && line[end-1-slashes] == '\\' {
		slashes++
	}
	if slashes%2 == 1 && end < len(line) {
		end++
	}
	return line[:end]
}

// setPattern selects the cheapest comparison for a pattern.
func (r *rule) setPattern(text string) bool {
	switch {
	case text == "":
		return false
	case !strings.ContainsAny(text, metaChars+"]}"):
		r.kind, r.text = ruleEqual, text
	case !r.path && text[0] == '*' && !strings.ContainsAny(text[1:], metaChars+"]}"):
		r.kind, r.text = ruleSuffix, text[1:]
	case !r.path && text[len(text)-1] == '*' && !strings.ContainsAny(text[:len(text)-1], metaChars+"]}"):
		r.kind, r.text = rulePrefix, text[:len(text)-1]
	default:
		r.kind, r.text = ruleGlob, translateGitPattern(text)
		return doublestar.ValidatePattern(r.text)
	}
	return true
}

// classes are the named character classes of git.
var classes = strings.NewReplacer(
	"[:alpha:]", "a-zA-Z", "[:digit:]", "0-9", "[:alnum:]", "a-zA-Z0-9", "[:upper:]", "A-Z", "[:lower:]", "a-z",
	"[:space:]", " \t\n\r\f\v", "[:blank:]", " \t", "[:xdigit:]", "0-9A-Fa-f",
)

// translateGitPattern turns a pattern of git, in which braces are literal, into a
// doublestar pattern.
func translateGitPattern(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			b.WriteByte(c)
			if i++; i < len(text) {
				b.WriteByte(text[i])
			}
		case '{', '}':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '[':
			n := classLen(text[i:])
			b.WriteString(classes.Replace(text[i : i+n]))
			i += n - 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// classLen returns the length of the class at the start of text, with brackets.
func classLen(text string) int {
	i := 1
	if i < len(text) && (text[i] == '!' || text[i] == '^') {
		i++
	}
	for first := i; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], "[:"):
			if end := strings.Index(text[i:], ":]"); end > 0 {
				i += end + 1
			}
		case text[i] == ']' && i > first:
			return i + 1
		}
	}
	return len(text)
}

// Ignores reports whether the rules exclude the path, which is relative to the
// root. A walk must ask for each directory on its way and not enter an excluded
// one: nothing below it can be included again.
func (ig *Ignore) Ignores(path string, isDir bool) bool { return ig.ignores(path, isDir, nil) }

// ignores is Ignores, which excludes everything once stop returns true.
func (ig *Ignore) ignores(path string, isDir bool, stop func() bool) bool {
	if stop != nil && stop() {
		return true
	}
	work := 0 // bytes of globs and paths since the last check of stop
	name := path[strings.LastIndexByte(path, '/')+1:]
	for ; ig != nil; ig = ig.above {
		rel := path
		if ig.dir != "." {
			rel = path[len(ig.dir)+1:]
		}
		for i := len(ig.rules) - 1; i >= 0; i-- {
			r := &ig.rules[i]
			if r.dirOnly && !isDir {
				continue
			}
			subject := name
			if r.path {
				subject = rel
			}
			if r.matches(subject) {
				return !r.negate
			}
			if work += len(r.text) + len(subject); work > stopCheckInterval {
				if work = 0; stop != nil && stop() {
					return true
				}
			}
		}
	}
	return false
}

func (r *rule) matches(subject string) bool {
	switch r.kind {
	case ruleEqual:
		return subject == r.text
	case ruleSuffix:
		return strings.HasSuffix(subject, r.text)
	case rulePrefix:
		return strings.HasPrefix(subject, r.text)
	}
	return doublestar.MatchUnvalidated(r.text, subject)
}
