package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// A matcher finds values of text: commands and paths. Its words are those of matchers.js.
type matcher interface {
	matches(value string) bool
	describe() string
}

// A textMatcher is a text that must occur, or a regular expression.
type textMatcher struct {
	text   string
	regexp *regexp.Regexp // nil: text
	flags  string
}

func (m *textMatcher) matches(value string) bool {
	if m.regexp == nil {
		return strings.Contains(value, m.text)
	}
	return m.regexp.MatchString(value)
}

// matchesToken holds for the text itself, not for one that contains it.
func (m *textMatcher) matchesToken(value string) bool {
	if m.regexp == nil {
		return value == m.text
	}
	return m.regexp.MatchString(value)
}

func (m *textMatcher) describe() string {
	if m.regexp == nil {
		return jsonText(m.text)
	}
	return "/" + m.text + "/" + m.flags
}

// newRegexp compiles an expression with the flags i, m and s; u is what Go does.
func newRegexp(text, flags string) (*regexp.Regexp, error) {
	if flags = strings.ReplaceAll(flags, "u", ""); flags != "" {
		text = "(?" + flags + ")" + text
	}
	return regexp.Compile(text)
}

// matchesPath holds for a path that is named exactly, by a glob, or by an expression. A directory, with
// a slash at its end, is all that is in it.
func (m *textMatcher) matchesPath(path string) bool {
	if m.regexp != nil {
		return m.regexp.MatchString(path)
	}
	name := m.text
	for strings.HasPrefix(name, "./") {
		name = name[2:]
	}
	if strings.HasSuffix(name, "/") {
		name += "**"
	}
	if path == name {
		return true
	}
	glob, err := globRegexp(name)
	return err == nil && glob.MatchString(path) // an endless pattern names nothing
}

// globRegexp makes an expression of a pattern: * and ? within a name, ** across them.
func globRegexp(pattern string) (*regexp.Regexp, error) {
	var b strings.Builder
	for rest := pattern; rest != ""; {
		n := 1
		switch {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:.*/)?")
			n = 3
		case strings.HasPrefix(rest, "**"):
			b.WriteString(".*")
			n = 2
		case rest[0] == '*':
			b.WriteString("[^/]*")
		case rest[0] == '?':
			b.WriteString("[^/]")
		default:
			if n = strings.IndexAny(rest, "*?"); n < 0 {
				n = len(rest)
			}
			b.WriteString(regexp.QuoteMeta(rest[:n]))
		}
		rest = rest[n:]
	}
	return regexp.Compile("^(?:" + b.String() + ")$")
}

// A commandMatcher says what a command line must have.
type commandMatcher struct {
	executable   *textMatcher
	positionals  []*textMatcher
	options      []optionMatcher
	endOfOptions *bool
	strict       bool
}

// An optionMatcher is an option with its values; nil is an option without a value.
type optionMatcher struct {
	name   string
	values []*textMatcher
}

func (m *commandMatcher) describe() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if m.executable != nil {
		add("executable=%s", m.executable.describe())
	}
	if len(m.positionals) > 0 {
		add("positionals=[%s]", describeAll(m.positionals, ", "))
	}
	if len(m.options) > 0 {
		var options []string
		for _, o := range m.options {
			values := make([]string, len(o.values))
			for i, v := range o.values {
				if values[i] = "<flag>"; v != nil {
					values[i] = v.describe()
				}
			}
			options = append(options, o.name+": ["+strings.Join(values, ", ")+"]")
		}
		add("options={%s}", strings.Join(options, ", "))
	}
	if m.endOfOptions != nil {
		add("endOfOptions=%v", *m.endOfOptions)
	}
	if m.strict {
		add("strict=true")
	}
	if len(parts) == 0 {
		add("<any>")
	}
	return "command matcher (" + strings.Join(parts, ", ") + ")"
}

func (m *commandMatcher) matches(line string) bool {
	c := parseCommand(line)
	if m.executable != nil && (c.Executable == "" || !m.executable.matchesToken(c.Executable)) {
		return false
	}
	if m.endOfOptions != nil && c.EndOfOptions != *m.endOfOptions {
		return false
	}
	return m.matchesWords(c.Positionals) && m.matchesOptions(c.Options)
}

// matchesWords looks for the expected words in order, with others between them unless strict.
func (m *commandMatcher) matchesWords(words []string) bool {
	if m.strict && len(words) != len(m.positionals) {
		return false
	}
	at := 0
	for _, want := range m.positionals {
		for !m.strict && at < len(words) && !want.matchesToken(words[at]) {
			at++
		}
		if at >= len(words) || !want.matchesToken(words[at]) {
			return false
		}
		at++
	}
	return true
}

func (m *commandMatcher) matchesOptions(observed []parsedOption) bool {
	if m.strict && len(observed) != len(m.options) {
		return false
	}
	for _, want := range m.options {
		i := slices.IndexFunc(observed, func(o parsedOption) bool { return o.Name == want.name })
		if i < 0 || m.strict && len(observed[i].Values) != len(want.values) {
			return false
		}
		left := slices.Clone(observed[i].Values)
		for _, value := range want.values {
			at := slices.IndexFunc(left, func(seen any) bool {
				text, ok := seen.(string)
				return ok == (value != nil) && (!ok || value.matchesToken(text))
			})
			if at < 0 {
				return false
			}
			left = slices.Delete(left, at, at+1)
		}
	}
	return true
}

// showCommand is a command line as messages show it: with what was made of it.
func showCommand(line string) string {
	c := parseCommand(line)
	var parts []string
	if c.Executable != "" {
		parts = append(parts, "executable="+jsonText(c.Executable))
	}
	if len(c.Positionals) > 0 {
		parts = append(parts, "positionals="+jsonText(c.Positionals))
	}
	if len(c.Options) > 0 {
		options := make([]string, len(c.Options))
		for i, o := range c.Options {
			options[i] = jsonText(o.Name) + ":" + jsonText(o.Values)
		}
		parts = append(parts, "options={"+strings.Join(options, ",")+"}")
	}
	if c.EndOfOptions {
		parts = append(parts, "endOfOptions=true")
	}
	how := "parsed"
	if c.FromShell {
		how = "normalized from shell wrapper"
	} else if len(parts) == 0 {
		return line
	}
	if len(parts) == 0 {
		parts = []string{"empty"}
	}
	return line + " " + how + " (" + strings.Join(parts, ", ") + ")"
}

// A toolMatcher matches calls of a tool. Its arguments must include args.
type toolMatcher struct {
	tool *textMatcher // nil: any
	args any          // as covers takes it; nil: any
}

func (m *toolMatcher) matches(e *reportEvent) bool {
	return (m.tool == nil || m.tool.matches(e.Tool)) && (m.args == nil || covers(e.Args, m.args))
}

func (m *toolMatcher) describe() string {
	var parts []string
	if m.tool != nil {
		parts = append(parts, "tool matching "+m.tool.describe())
	}
	if m.args != nil {
		parts = append(parts, "custom args predicate")
	}
	if len(parts) == 0 {
		return "<any tool call>"
	}
	return strings.Join(parts, " and ")
}

// covers holds where a value of JSON has at least what is wanted of it: data, in which a *textMatcher
// is an expression.
func covers(value, wanted any) bool {
	switch w := wanted.(type) {
	case *textMatcher:
		text, ok := value.(string)
		return ok && w.matches(text)
	case map[string]any:
		have, ok := value.(map[string]any)
		for key, field := range w {
			got, found := have[key]
			ok = ok && found && covers(got, field)
		}
		return ok
	case []any:
		have, ok := value.([]any)
		return ok && len(have) == len(w) && coversAll(have, w)
	}
	return reflect.DeepEqual(value, wanted)
}

func coversAll(have, wanted []any) bool {
	for i := range wanted {
		if !covers(have[i], wanted[i]) {
			return false
		}
	}
	return true
}

// describeAll describes matchers, with a separator between them.
func describeAll[M interface{ describe() string }](list []M, separator string) string {
	texts := make([]string, len(list))
	for i, m := range list {
		texts[i] = m.describe()
	}
	return strings.Join(texts, separator)
}

// jsonText is JSON as JavaScript writes it.
func jsonText(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
