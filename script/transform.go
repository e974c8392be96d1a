package script

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// maxTypeScript is how long a source may be whose types are dropped. That is done
// outside of the isolate, by a parser which calls itself for each level of nesting, and
// a stack that grows too large ends the whole process.
const maxTypeScript = 128 << 10

// javascript drops the types of TypeScript.
func javascript(source, name string) (string, *driver.CodeError) {
	if len(source) > maxTypeScript {
		return "", &driver.CodeError{Name: "RangeError",
			Value: fmt.Sprintf("the TypeScript has %d bytes, and at most %d are read; JavaScript may be longer", len(source), maxTypeScript)}
	}
	loader := api.LoaderTS
	if strings.HasSuffix(name, "x") {
		loader = api.LoaderTSX
	}
	res := api.Transform(source, api.TransformOptions{
		Loader: loader, Target: api.ESNext, Sourcefile: name, LogLevel: api.LogLevelSilent, LogLimit: 20,
	})
	if len(res.Errors) == 0 {
		return string(res.Code), nil
	}
	e := &driver.CodeError{Name: "SyntaxError", Value: res.Errors[0].Text}
	for _, m := range res.Errors {
		if l := m.Location; l != nil {
			e.Traceback = append(e.Traceback, fmt.Sprintf("%s:%d:%d: %s", l.File, l.Line, l.Column+1, m.Text), "    "+l.LineText)
		}
	}
	return "", e
}

var statement = regexp.MustCompile(`(?m)^[ \t]*(import[ \t]*["'{*]|import[ \t]+[\w$]+[ \t]*(,|from\b)|export[ \t]+(default|const|let|var|function|class|async|\{|\*)|export[ \t]*\{)`)

// isModule reports whether source has statements that only modules may have.
// Anything else is run as a script, whose last value is the result.
func isModule(source string) bool { return statement.MatchString(source) }

// JavaScript returns TypeScript without its types. What can't be read is
// InvalidArgument, with the place.
func JavaScript(source, name string) (string, error) {
	out, bad := javascript(source, name)
	if bad == nil {
		return out, nil
	}
	where := bad.Value
	if len(bad.Traceback) > 0 {
		where = bad.Traceback[0]
	}
	return "", fmt.Errorf("script: %s: %w: %s", name, fault.InvalidArgument, where)
}
