package search

import (
	"bytes"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// IgnoreFile is the name of the files with the rules.
const IgnoreFile = ".gitignore"

// What rules may be, so that no file of them exhausts memory or time: bytes of a
// file, bytes of a line, and rules that hold in one directory. No path is longer
// than maxRule, and rules beyond the others are not there.
const (
	maxIgnore = 1 << 20
	maxRule   = 4096
	maxRules  = 50_000
)

// An Ignore holds the rules of one .gitignore file and those of the files in the
// directories above it. nil has no rules. It does not change once it is made.
type Ignore struct {
	above *Ignore
	dir   string // where the file is; "." is the root
	rules []rule // the last that matches decides
	count int    // rules here and above
}

// A rule is one line of a .gitignore file.
type rule struct {
	negate  bool // it takes back what another ignores
	dirOnly bool
	path    bool     // it matches the path below dir and not the last element alone
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

// With returns the rules that hold in dir, whose .gitignore has the given
// content, of which a megabyte counts. Lines that are malformed match nothing, as
// in git.
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
		line = rest + "/**/*" // all that is in it, but not the directory itself
	}
	return r, r.setPattern(line)
}

// trimSpaces removes spaces at the end that no backslash protects.
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

// setPattern finds the cheapest way to compare.
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

// classes are the named classes of characters that git knows.
var classes = strings.NewReplacer(
	"[:alpha:]", "a-zA-Z", "[:digit:]", "0-9", "[:alnum:]", "a-zA-Z0-9", "[:upper:]", "A-Z", "[:lower:]", "a-z",
	"[:space:]", " \t\n\r\f\v", "[:blank:]", " \t", "[:xdigit:]", "0-9A-Fa-f",
)

// translateGitPattern turns a pattern of git, in which braces are plain, into one of ours.
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

// classLen returns how long the class at the start of text is, with brackets.
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

// Ignores reports whether the rules leave out the path, which is relative to the
// root. A walk must ask for every directory on its way and not descend into one
// that is left out: nothing below it can be taken back.
func (ig *Ignore) Ignores(path string, isDir bool) bool { return ig.ignores(path, isDir, nil) }

// ignores is Ignores, which leaves out everything once stop says so.
func (ig *Ignore) ignores(path string, isDir bool, stop func() bool) bool {
	if stop != nil && stop() {
		return true
	}
	work := 0 // bytes of globs and paths since stop was asked
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
