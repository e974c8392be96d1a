package verify

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// explicitArgv returns the argv of a command line. One that is only a program with literal
// arguments is started without a shell, so that flags for a report can be added. Assignments
// before the program are returned as job.assigns.
func explicitArgv(command string) (argv []string, assigns string) {
	script := []string{"bash", "-c", command}
	f, err := syntax.NewParser().Parse(strings.NewReader(command), "")
	if err != nil || len(f.Stmts) != 1 {
		return script, ""
	}
	s := f.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || len(s.Redirs) > 0 || s.Negated || s.Background || !allInEnvironment(call.Assigns) {
		return script, ""
	}
	for _, w := range call.Args {
		text, ok := literalWord(w)
		if !ok {
			return script, ""
		}
		argv = append(argv, text)
	}
	return argv, command[call.Pos().Offset():call.Args[0].Pos().Offset()]
}

// allInEnvironment reports whether assignments before a program set variables of its
// environment alone. PATH and TMPDIR are not among them: the script around the program uses both.
func allInEnvironment(list []*syntax.Assign) bool {
	return !slices.ContainsFunc(list, func(a *syntax.Assign) bool {
		return a.Naked || a.Index != nil || a.Array != nil || a.Name == nil || a.Name.Value == "PATH" || a.Name.Value == "TMPDIR"
	})
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
