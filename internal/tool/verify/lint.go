package verify

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/workspace"
)

// A linter is a tool whose findings can be parsed: a linter, a compiler or a type checker.
type linter struct {
	name    string
	program string
	flags   []string // select the format that parse expects
	parse   func(text []byte, t runLocation) []Diagnostic
}

// formParser returns a parser of line forms.
func formParser(list ...lineForm) func([]byte, runLocation) []Diagnostic {
	return func(text []byte, t runLocation) []Diagnostic { return parseForms(text, t, list...) }
}

func knownLinters() []linter {
	return []linter{
		{name: "golangci-lint", program: "golangci-lint", parse: parseGolangci},
		{name: "go vet", program: "go", parse: formParser(goForm)},
		{name: "gofmt", program: "gofmt", parse: formParser(goForm)},
		{name: "eslint", program: "eslint", flags: []string{"--format=json"}, parse: parseESLint},
		{name: "biome", program: "biome", flags: []string{"--reporter=github"}, parse: parseAnnotations},
		{name: "oxlint", program: "oxlint", flags: []string{"--format=github"}, parse: parseAnnotations},
		{name: "tsc", program: "tsc", flags: []string{"--pretty", "false"}, parse: formParser(tscForm)},
		{name: "vue-tsc", program: "vue-tsc", flags: []string{"--pretty", "false"}, parse: formParser(tscForm)},
		{name: "ruff", program: "ruff", flags: []string{"--output-format=concise"}, parse: formParser(ruffForm)},
		{name: "flake8", program: "flake8", parse: formParser(ruffForm)},
		{name: "pylint", program: "pylint", parse: formParser(pylintForm)},
		{name: "mypy", program: "mypy", flags: []string{"--show-column-numbers", "--no-color-output", "--no-pretty"}, parse: formParser(mypyForm)},
		{name: "pyright", program: "pyright", parse: parsePyright},
		{name: "basedpyright", program: "basedpyright", parse: parsePyright},
		{name: "cargo", program: "cargo", flags: []string{"--message-format=json"}, parse: func(text []byte, t runLocation) []Diagnostic {
			list, _ := parseCargoMessages(text, t)
			return list
		}},
		{name: "rustfmt", program: "rustfmt", parse: parseRustfmt},
		{name: "maven", program: "mvn", flags: []string{"-Dstyle.color=never"}, parse: parseJava},
		{name: "gradle", program: "gradle", flags: []string{"--console=plain"}, parse: parseJava},
	}
}

// findLinter returns the linter that a command starts.
func findLinter(argv []string) (linter, bool) {
	all := knownLinters()
	for _, word := range argv {
		name := path.Base(word)
		if w, ok := wrappers[name]; ok {
			name = w
		}
		if at := slices.IndexFunc(all, func(l linter) bool { return l.program == name }); at >= 0 {
			return all[at], true
		}
	}
	return linter{}, false
}

// readScript parses the output of a project's script, whose tool is unknown, by trying
// several formats.
func readScript(text []byte, t runLocation) []Diagnostic {
	if list := parseESLint(text, t); len(list) > 0 {
		return list
	}
	if list := parseForms(text, t, tscForm, annotation, mypyForm, pyrightForm); len(list) > 0 {
		return list
	}
	return parseForms(text, t, ruffForm, goForm)
}

// Lint runs the linter of a project: on all of it, or on opts.Files.
func Lint(ctx context.Context, ws *workspace.Workspace, p profile.Project, opts *Options) (*Findings, error) {
	p = withVenv(ctx, ws, p)
	return runChecker(ctx, ws, p, "lint", p.Lint, opts.orZero())
}

// Typecheck runs the type checker or the compiler of a project, without its tests.
func Typecheck(ctx context.Context, ws *workspace.Workspace, p profile.Project, opts *Options) (*Findings, error) {
	p = withVenv(ctx, ws, p)
	return runChecker(ctx, ws, p, "typecheck", p.Typecheck, opts.orZero())
}

func runChecker(ctx context.Context, ws *workspace.Workspace, p profile.Project, verb string, c profile.Command, o *Options) (*Findings, error) {
	argv, ok := c.All()
	if len(o.Files) > 0 {
		if argv, ok = c.Expand(o.Files); !ok && !c.IsZero() {
			return nil, fmt.Errorf("verify: %s %s: %w: the %s project's command is not about %s", verb, p.Dir, fault.NotFound, p.Ecosystem, strings.Join(o.Files, ", "))
		}
	}
	if !ok {
		return nil, fmt.Errorf("verify: %s %s: %w: no %s command detected for the %s project", verb, p.Dir, fault.NotFound, verb, p.Ecosystem)
	}
	return runLinter(ctx, ws, p, argv, c.Dir, o)
}

// runLinter runs one command and parses its findings.
func runLinter(ctx context.Context, ws *workspace.Workspace, p profile.Project, argv []string, dir string, o *Options) (*Findings, error) {
	out := &Findings{Language: string(p.Ecosystem), Dir: p.Dir, Command: argv, Diagnostics: []Diagnostic{}}
	l, known := findLinter(argv)
	parse := readScript
	j := job{argv: argv, dir: dir}
	if known {
		out.Tool, parse = l.name, l.parse
		j.argv = cargoFlags(argv, l.flags...)
	}
	stdout, stderr := newCapture(maxText), newCapture(maxText)
	show := lineWriter{limit: 1 << 20, each: func(line []byte) {
		if o.Progress != nil {
			o.Progress(Progress{Line: plainText(string(line))})
		}
	}}
	began := time.Now()
	ran, err := j.run(ctx, ws, o, func(b []byte) { stdout.Add(b); show.write(b) }, stderr.Add)
	show.flush()
	if err = unsupportedIfMissing(ws, argv, ran.Result, stdout, stderr, err); err != nil {
		return nil, err
	}
	out.ExitCode, out.Cause, out.Duration = ran.ExitCode, ran.Cause, time.Since(began)
	text := append(append(stdout.bytes(), '\n'), stderr.bytes()...)
	out.Diagnostics = append(out.Diagnostics, parse(text, runLocation{root: ws.Traits().Root, dir: dir})...)
	out.keepOutput(stdout, stderr, ran, o)
	if out.Cause != "" {
		out.Notes = append(out.Notes, fmt.Sprintf("incomplete: the command was cut short: %s", out.Cause))
	} else if out.ExitCode != 0 && len(out.Diagnostics) == 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("exit status %d, and no finding could be read from the output", out.ExitCode))
	}
	if out.ExitCode != 0 {
		out.Notes = append(out.Notes, Hints(ws, ran.Refused, string(text))...)
	}
	return out, nil
}

// keepOutput keeps the text output next to the findings.
func (f *Findings) keepOutput(stdout, stderr *capture, ran jobResult, o *Options) {
	a, b := newCapture(o.maxOutput()), newCapture(o.maxOutput())
	if f.Tool != "eslint" && f.Tool != "cargo" { // these write JSON
		a.Add(stdout.bytes())
	}
	b.Add(stderr.bytes())
	f.Stdout, f.Stderr = a.String(), b.String()
	f.Dropped = a.dropped() + b.dropped()
	if ran.StdoutDropped > 0 || ran.StderrDropped > 0 {
		f.Session = ran.Session
	}
}

func parseAnnotations(text []byte, t runLocation) []Diagnostic {
	out := parseForms(text, t, annotation)
	for i := range out {
		// oxlint repeats the place in the message.
		if _, rest, ok := strings.Cut(out[i].Message, fmt.Sprintf(":%d:%d: ", out[i].Line, out[i].Column)); ok {
			out[i].Message = rest
		}
	}
	return out
}

// parseRustfmt reads the compiler's form: the message, and the place on a line
// below.
func parseRustfmt(text []byte, t runLocation) []Diagnostic {
	var out []Diagnostic
	message := ""
	for line := range bytes.Lines(text) {
		s := strings.TrimSpace(plainText(string(line)))
		if rest, ok := strings.CutPrefix(s, "error: "); ok {
			message = rest
		}
		place, ok := strings.CutPrefix(s, "--> ")
		if !ok || message == "" {
			continue
		}
		if d, ok := goForm.parseLine(place+": "+message, t); ok {
			out = append(out, d)
		}
		message = ""
	}
	return out
}
