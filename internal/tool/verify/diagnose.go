package verify

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// A lineForm is a one-line format of findings. The named groups are file, line, column,
// severity, rule and message.
type lineForm struct {
	re       *lazyregexp.Regexp
	severity Severity // default
}

var (
	// file:line:col: message, as compilers, go vet and gofmt write.
	goForm = lineForm{lazyregexp.New(`^(?:vet: )?(?P<file>[^\s:][^:]*\.\w+):(?P<line>\d+)(?::(?P<column>\d+))?: (?P<message>.+)$`), Error}
	// golangci-lint names the linter at the end.
	golangciForm = lineForm{lazyregexp.New(`^(?P<file>[^\s:][^:]*\.\w+):(?P<line>\d+)(?::(?P<column>\d+))?: (?P<message>.+?)(?: \((?P<rule>[\w-]+)\))?$`), Warning}
	// ruff and flake8: file:line:col: RULE message.
	ruffForm = lineForm{lazyregexp.New(`^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+): (?:(?P<rule>[A-Z]+\d+|invalid-syntax):? )?(?:\[\*\] )?(?P<message>.+)$`), Warning}
	// pylint: file:line:col: C0114: message (name).
	pylintForm = lineForm{lazyregexp.New(`^(?P<file>[^\s:*][^:]*):(?P<line>\d+):(?P<column>\d+): (?P<severity>[A-Z])\d+: (?P<message>.+?)(?: \((?P<rule>[\w-]+)\))?$`), Warning}
	// mypy: file:line[:col]: error: message  [rule].
	mypyForm = lineForm{lazyregexp.New(`^(?P<file>[^\s:][^:]*):(?P<line>\d+)(?::(?P<column>\d+))?: (?P<severity>error|warning|note): (?P<message>.+?)(?:  \[(?P<rule>[\w-]+)\])?$`), Error}
	// pyright: /file:line:col - error: message (rule).
	pyrightForm = lineForm{lazyregexp.New(`^\s*(?P<file>\S[^:]*):(?P<line>\d+):(?P<column>\d+) - (?P<severity>error|warning|information): (?P<message>.+?)(?: \((?P<rule>\w+)\))?$`), Error}
	// tsc: file(line,col): error TS2322: message.
	tscForm = lineForm{lazyregexp.New(`^(?P<file>[^\s(][^(]*)\((?P<line>\d+),(?P<column>\d+)\): (?P<severity>error|warning) (?P<rule>TS\d+): (?P<message>.+)$`), Error}
	// javac: file:line: error: message; Maven puts places into brackets.
	javacForm  = lineForm{lazyregexp.New(`^(?P<file>[^\s:\[][^:]*\.(?:java|kt|kts|groovy|scala)):(?P<line>\d+):(?:(?P<column>\d+):)? (?:(?P<severity>error|warning): )?(?P<message>.+)$`), Error}
	mavenForm  = lineForm{lazyregexp.New(`^\[(?P<severity>ERROR|WARNING)\] (?P<file>[^\s\[][^\[]*):\[(?P<line>\d+)(?:,(?P<column>\d+))?\] (?P<message>.+)$`), Error}
	kotlinForm = lineForm{lazyregexp.New(`^(?P<severity>[ew]): (?:file://)?(?P<file>[^\s:][^:]*\.kts?):(?P<line>\d+):(?P<column>\d+) (?P<message>.+)$`), Error}
	// GitHub's annotations, which biome and oxlint can write.
	annotation = lineForm{lazyregexp.New(`^::(?P<severity>error|warning|notice) (?:title=(?P<rule>[^,:]*),)?file=(?P<file>[^,]+),line=(?P<line>\d+)(?:,endLine=\d+)?(?:,col(?:umn)?=(?P<column>\d+))?(?:,end\w+=\d+)*(?:,title=(?P<rule2>[^:]*))?::(?P<message>.+)$`), Warning}
)

// parseForms parses all lines that match one of the forms; the first match counts.
func parseForms(text []byte, t runLocation, forms ...lineForm) []Diagnostic {
	var out []Diagnostic
	for line := range strings.Lines(plainText(string(text))) {
		line = strings.TrimRight(line, "\n ")
		for _, f := range forms {
			if d, ok := f.parseLine(line, t); ok {
				if !slices.Contains(out, d) {
					out = append(out, d)
				}
				break
			}
		}
	}
	return out
}

func (f lineForm) parseLine(line string, t runLocation) (Diagnostic, bool) {
	m := f.re.FindStringSubmatch(line)
	if m == nil {
		return Diagnostic{}, false
	}
	d := Diagnostic{Severity: f.severity}
	for i, name := range f.re.SubexpNames() {
		if m[i] == "" {
			continue
		}
		switch name {
		case "file":
			d.File = t.relPath(m[i])
		case "line":
			d.Line = atoiOrZero(m[i])
		case "column":
			d.Column = atoiOrZero(m[i])
		case "severity":
			d.Severity = severityOf(m[i])
		case "rule", "rule2":
			d.Rule = m[i]
		case "message":
			d.Message = m[i]
		}
	}
	return d, true
}

func severityOf(word string) Severity {
	switch strings.ToLower(word) {
	case "error", "e", "f", "fatal":
		return Error
	case "note", "information", "info", "notice", "help":
		return Info
	default:
		return Warning
	}
}

// parseGoText parses the output of the go command, gofmt and the compiler.
func parseGoText(text string, t runLocation) []Diagnostic { return parseForms([]byte(text), t, goForm) }

func parseGolangci(text []byte, t runLocation) []Diagnostic {
	out := parseForms(text, t, golangciForm)
	// Code that does not compile is reported once without a message of its own.
	return slices.DeleteFunc(out, func(d Diagnostic) bool { return strings.HasPrefix(d.Message, ": #") })
}

var pyrightRule = lazyregexp.New(`^\W{4,}.*\((report\w+)\)$`)

// parsePyright parses findings of several lines; the rule may be on the last one.
func parsePyright(text []byte, t runLocation) []Diagnostic {
	var out []Diagnostic
	for line := range strings.Lines(plainText(string(text))) {
		line = strings.TrimRight(line, "\n ")
		if d, ok := pyrightForm.parseLine(line, t); ok {
			out = append(out, d)
		} else if m := pyrightRule.FindStringSubmatch(line); m != nil && len(out) > 0 && out[len(out)-1].Rule == "" {
			out[len(out)-1].Rule = m[1]
		}
	}
	return out
}

func parseJava(text []byte, t runLocation) []Diagnostic {
	return parseForms(text, t, mavenForm, javacForm, kotlinForm)
}

// eslintFile is one file of eslint --format=json.
type eslintFile struct {
	FilePath string `json:"filePath"`
	Messages []struct {
		RuleID   *string `json:"ruleId"`
		Severity int     `json:"severity"`
		Message  string  `json:"message"`
		Line     int     `json:"line"`
		Column   int     `json:"column"`
	} `json:"messages"`
}

// parseESLint parses JSON or, if a script of the project chose the format, the stylish
// text.
func parseESLint(text []byte, t runLocation) []Diagnostic {
	var files []eslintFile
	if i := strings.Index(string(text), "[{\"filePath\""); i < 0 || json.NewDecoder(strings.NewReader(string(text[i:]))).Decode(&files) != nil {
		return parseStylish(text, t)
	}
	var out []Diagnostic
	for _, f := range files {
		for _, m := range f.Messages {
			d := Diagnostic{File: t.relPath(f.FilePath), Line: max(m.Line, 0), Column: max(m.Column, 0), Message: m.Message, Severity: Warning}
			if m.Severity == 2 {
				d.Severity = Error
			}
			if m.RuleID != nil {
				d.Rule = *m.RuleID
			}
			out = append(out, d)
		}
	}
	return out
}

var stylishLine = lazyregexp.New(`^\s+(\d+):(\d+)\s+(error|warning)\s+(.+?)(?:\s{2,}(\S+))?$`)

// parseStylish parses ESLint's default text: the file on a line of its own, with its
// findings indented below.
func parseStylish(text []byte, t runLocation) []Diagnostic {
	var out []Diagnostic
	file := ""
	for line := range strings.Lines(plainText(string(text))) {
		line = strings.TrimRight(line, "\n ")
		m := stylishLine.FindStringSubmatch(line)
		switch {
		case m != nil && file != "":
			out = append(out, Diagnostic{File: file, Line: atoiOrZero(m[1]), Column: atoiOrZero(m[2]), Severity: severityOf(m[3]), Message: m[4], Rule: m[5]})
		case line != "" && line[0] != ' ' && strings.Contains(line, "."):
			file = t.relPath(line)
		case line == "":
			file = ""
		}
	}
	return out
}
