package cmdpolicy

import (
	"fmt"
	"strings"
)

// table returns the rules of the presets side by side, as a table in Markdown. It
// is made from the presets themselves.
func table() string {
	presets := []*Options{Local(), Strict(), Sandbox()}
	var b strings.Builder
	b.WriteString("| rule | local | strict | sandbox |\n|---|---|---|---|\n")
	for _, row := range tableRows {
		b.WriteString("| " + row.rule)
		local := row.cell(presets[0])
		for i, o := range presets {
			cell := row.cell(o)
			if i > 0 && cell == local && len(cell) > 60 {
				cell = "as local"
			}
			b.WriteString(" | " + cell)
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

var tableRows = []struct {
	rule string
	cell func(*Options) string
}{
	{"programs that may not run", func(o *Options) string { return list(o.Commands.Deny) }},
	{"programs that may run", func(o *Options) string { return orElse(list(o.Commands.Allow), "all others") }},
	{"scripts that can't be parsed", func(o *Options) string { return choose(o.Commands.Unparsed, "run", "refused") }},
	{"scripts", func(o *Options) string { return choose(o.Argv.Only, "refused", "judged and run") }},
	{"metacharacters in arguments", func(o *Options) string { return choose(o.Argv.Metacharacters, "refused", "pass") }},
	{"globs in arguments", func(o *Options) string { return choose(o.Argv.Globs, "refused", "pass") }},
	{"path arguments, redirections, directory", func(o *Options) string { return choose(o.Paths.Check, "inside the workspace", "not judged") }},
	{"paths outside that may be named", func(o *Options) string { return ifChecked(o, list(o.Paths.Allow)) }},
	{"programs by a path outside", func(o *Options) string { return ifChecked(o, orElse(list(o.Paths.Programs), "none")) }},
	{"variables that do not pass", func(o *Options) string { return orElse(list(o.Env.Deny), "none") }},
	{"a command with such a variable", func(o *Options) string {
		return choose(len(o.Env.Deny) == 0, "-", "refused")
	}},
	{"control characters", func(o *Options) string { return choose(o.Control, "refused", "pass, but for NUL") }},
	{"bytes of arguments", func(o *Options) string { return most(o.Limits.Argv) }},
	{"bytes of variables", func(o *Options) string { return most(o.Limits.Env) }},
	{"bytes of a script", func(o *Options) string { return most(choose(o.Limits.Script == 0, MaxScript, o.Limits.Script)) }},
}

func list(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return "`" + strings.Join(items, " ") + "`"
}

func choose[T any](cond bool, yes, no T) T {
	if cond {
		return yes
	}
	return no
}

func orElse(s, other string) string { return choose(s == "", other, s) }

func ifChecked(o *Options, s string) string { return choose(o.Paths.Check, s, "all") }

func most(n int) string { return choose(n == 0, "no cap", fmt.Sprint(n)) }
