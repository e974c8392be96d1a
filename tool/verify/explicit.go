package verify

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// explicitArgv returns the argv of a command line. One that is only a program with literal
// arguments is started without a shell, so that flags for a report can be added.
func explicitArgv(command string) []string {
	script := []string{"bash", "-c", command}
	f, err := syntax.NewParser().Parse(strings.NewReader(command), "")
	if err != nil || len(f.Stmts) != 1 {
		return script
	}
	s := f.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(s.Redirs) > 0 || s.Negated || s.Background {
		return script
	}
	var argv []string
	for _, w := range call.Args {
		text, ok := literalWord(w)
		if !ok {
			return script
		}
		argv = append(argv, text)
	}
	return argv
}

// literalWord returns a word in which the shell would expand nothing.
func literalWord(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "\\*?[{~") {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok || strings.Contains(lit.Value, "\\") {
					return "", false
				}
				b.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}
