package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type grepInput struct {
	Pattern         string `json:"pattern" jsonschema:"regular expression (RE2)" croft:"name"`
	Path            string `json:"path,omitempty" jsonschema:"file or directory to search; default the workspace" croft:"path"`
	Glob            string `json:"glob,omitempty" jsonschema:"only files whose path matches, such as *.go or src/**"`
	Type            string `json:"type,omitempty" jsonschema:"only files of this type, such as go, py, js, ts, rust, java"`
	CaseInsensitive bool   `json:"case_insensitive,omitempty" jsonschema:"ignore case"`
	Multiline       bool   `json:"multiline,omitempty" jsonschema:"a match may span lines, and . matches newlines"`
	OutputMode      string `json:"output_mode,omitempty" jsonschema:"default content" enum:"content|files_with_matches|count"`
	Before          int    `json:"before,omitempty" jsonschema:"lines to show before a match"`
	After           int    `json:"after,omitempty" jsonschema:"lines to show after a match"`
	Context         int    `json:"context,omitempty" jsonschema:"lines to show before and after a match"`
	HeadLimit       int    `json:"head_limit,omitempty" jsonschema:"maximum number of lines, files or counts; default no limit"`
	Offset          int    `json:"offset,omitempty" jsonschema:"results to leave out, to go on after an earlier answer"`
}

// Modes of Grep's output.
const (
	grepContent = "content"
	grepFiles   = "files_with_matches"
	grepCount   = "count"
)

type grepOutput struct {
	Mode      string      `json:"mode"`
	Matches   []grepMatch `json:"matches,omitempty"`
	Files     []string    `json:"files,omitempty"`
	Counts    []grepTally `json:"counts,omitempty"`
	More      int         `json:"more,omitempty" jsonschema:"number of further results, as far as known"`
	Next      int         `json:"next_offset,omitempty" jsonschema:"offset of the further results"`
	Skipped   []string    `json:"skipped,omitempty" jsonschema:"files that were not searched, and why"`
	Truncated string      `json:"truncated,omitempty" jsonschema:"why the search ended early: matches, time or size"`
}

type grepMatch struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`
	Text   string   `json:"text"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

func newGrepMatch(m driver.Match) grepMatch {
	return grepMatch{m.Path, m.Line, m.Text, m.Before, m.After}
}

// textSize returns about the bytes of a match in the text of the answer.
func (m grepMatch) textSize() int {
	n := 0
	for _, text := range slices.Concat(m.Before, strings.Split(m.Text, "\n"), m.After) {
		n += len(m.Path) + len(text) + 10
	}
	return n
}

// shownBinary bounds the binary files that an answer without a match names.
const shownBinary = 5

type grepTally struct {
	Path  string `json:"path"`
	Count int    `json:"count"`
}

func grepTool() *Tool {
	return New(Spec{
		Name: "Grep", Family: Search, Needs: []workspace.Capability{driver.CapFS}, ReadOnly: true, Idempotent: true, FanOut: true,
		Aliases:     map[string]string{"-i": "case_insensitive", "-A": "after", "-B": "before", "-C": "context", "-n": ""}, // lines have their numbers
		Description: "Search the text of files for a regular expression. Files that .gitignore excludes are left out.",
	}, runGrep)
}

func runGrep(ctx context.Context, c *Call, in grepInput) (grepOutput, error) {
	if in.OutputMode == "" {
		in.OutputMode = grepContent
	}
	if err := in.validate(); err != nil {
		return grepOutput{}, err
	}
	opts, err := in.driverOptions()
	if err != nil {
		return grepOutput{}, err
	}
	res, err := c.Workspace.Grep(ctx, in.Pattern, opts)
	if err != nil {
		if fault.Of(err) == fault.NotFound || fault.Of(err) == fault.SandboxViolation {
			return grepOutput{}, PathError("grep", in.Path, err)
		}
		return grepOutput{}, fmt.Errorf("grep: %w", err)
	}
	out := newGrepOutput(in, res, c.room(readMargin))
	shown := map[string][]string{}
	for _, m := range out.Matches {
		shown[m.Path] = slices.Concat(shown[m.Path], m.Before, []string{m.Text}, m.After)
	}
	for path, lines := range shown {
		c.LearnFile(ctx, path, lines...)
	}
	return out, nil
}

func (in grepInput) validate() error {
	switch {
	case in.Pattern == "":
		return Errorf(fault.InvalidArgument, "pattern is required")
	case !slices.Contains([]string{grepContent, grepFiles, grepCount}, in.OutputMode):
		return Errorf(fault.InvalidArgument, "unknown output_mode: %s (valid: content, files_with_matches, count)", in.OutputMode)
	case min(in.Before, in.After, in.Context, in.HeadLimit, in.Offset) < 0:
		return Errorf(fault.InvalidArgument, "before, after, context, head_limit and offset must not be negative")
	case max(in.Before, in.After, in.Context) > driver.MaxContext:
		return Errorf(fault.InvalidArgument, "before, after and context are at most %d", driver.MaxContext)
	}
	return nil
}

func (in grepInput) driverOptions() (*driver.GrepOptions, error) {
	opts := &driver.GrepOptions{
		Path: in.Path, IgnoreCase: in.CaseInsensitive, Multiline: in.Multiline, GitIgnore: true, Hidden: true,
		Before: max(in.Before, in.Context), After: max(in.After, in.Context),
	}
	if in.Glob != "" {
		opts.Include = []string{globPattern(in.Glob, "")}
	}
	if in.Type != "" {
		globs, ok := fileTypes[in.Type]
		if !ok {
			return nil, Errorf(fault.InvalidArgument, "unknown type %q; known: %s", in.Type, strings.Join(typeNames(), ", "))
		}
		if in.Glob != "" {
			return nil, Errorf(fault.InvalidArgument, "give glob or type, not both")
		}
		for _, g := range globs {
			opts.Include = append(opts.Include, globPattern(g, ""))
		}
	}
	if in.OutputMode == grepFiles {
		opts.MaxPerFile, opts.Before, opts.After = 1, 0, 0
	}
	if in.OutputMode == grepContent && in.HeadLimit > 0 {
		// One more than shown, to detect that there are more.
		opts.MaxMatches = min(in.Offset, driver.MaxGrepMatches) + min(in.HeadLimit, driver.MaxGrepMatches) + 1
		opts.MaxMatches = min(opts.MaxMatches, driver.MaxGrepMatches)
	}
	return opts, nil
}

// newGrepOutput returns the results from the offset on, of which the text has about room
// bytes.
func newGrepOutput(in grepInput, res workspace.GrepResult, room int) grepOutput {
	out := grepOutput{Mode: in.OutputMode, Truncated: res.Truncated}
	tally := map[string]int{}
	var files []string
	for _, m := range res.Matches {
		if tally[m.Path]++; tally[m.Path] == 1 {
			files = append(files, m.Path)
		}
	}
	total, size := len(files), func(i int) int { return len(files[i]) + 8 }
	if in.OutputMode == grepContent {
		total, size = len(res.Matches), func(i int) int { return newGrepMatch(res.Matches[i]).textSize() }
	}
	limit := in.HeadLimit
	if limit == 0 {
		limit = driver.MaxGrepMatches
	}
	first := min(in.Offset, total)
	end := first
	for used := 0; end < total && end-first < limit; end++ {
		if used += size(end); used > room && end > first {
			break
		}
	}
	switch in.OutputMode {
	case grepContent:
		for _, m := range res.Matches[first:end] {
			out.Matches = append(out.Matches, newGrepMatch(m))
		}
	case grepFiles:
		out.Files = files[first:end]
	case grepCount:
		for _, f := range files[first:end] {
			out.Counts = append(out.Counts, grepTally{f, tally[f]})
		}
	}
	if out.More = total - end; out.More > 0 {
		out.Next = end
		if in.OutputMode == grepContent {
			out.Truncated = ""
		}
	}
	binary := 0
	for _, s := range res.Skipped {
		if s.Reason != driver.SkipBinary {
			out.Skipped = append(out.Skipped, fmt.Sprintf("%s: %s", s.Path, s.Reason))
		} else if binary++; total == 0 && binary <= shownBinary {
			out.Skipped = append(out.Skipped, fmt.Sprintf("%s: binary or UTF-16", s.Path))
		}
	}
	if total == 0 && binary > shownBinary {
		out.Skipped = append(out.Skipped, fmt.Sprintf("%d more files: binary or UTF-16", binary-shownBinary))
	}
	return out
}

func (o grepOutput) Text() string {
	var b strings.Builder
	switch o.Mode {
	case grepContent:
		o.writeContent(&b)
	case grepFiles:
		for _, f := range o.Files {
			b.WriteString(f + "\n")
		}
	case grepCount:
		for _, t := range o.Counts {
			fmt.Fprintf(&b, "%s:%d\n", t.Path, t.Count)
		}
	}
	if b.Len() == 0 {
		b.WriteString("no match\n")
	}
	if o.More > 0 {
		fmt.Fprintf(&b, "... (there are more; offset=%d shows them)\n", o.Next)
	}
	if o.Truncated != "" {
		fmt.Fprintf(&b, "... (the search ended early: %s)\n", o.Truncated)
	}
	if len(o.Skipped) > 0 {
		fmt.Fprintf(&b, "not searched:\n  %s\n", strings.Join(o.Skipped, "\n  "))
	}
	return b.String()
}

// writeContent writes matches as path:line:text and context as path-line-text, with --
// between groups that are not adjacent.
func (o grepOutput) writeContent(b *strings.Builder) {
	context := slices.ContainsFunc(o.Matches, func(m grepMatch) bool { return len(m.Before)+len(m.After) > 0 })
	lastPath, last := "", 0
	matched := map[string]bool{}
	for _, m := range o.Matches {
		matched[fmt.Sprintf("%s:%d", m.Path, m.Line)] = true
	}
	for _, m := range o.Matches {
		if m.Path != lastPath {
			last = 0
		}
		if first := m.Line - len(m.Before); context && lastPath != "" && (m.Path != lastPath || first > last+1) {
			b.WriteString("--\n")
		}
		lastPath = m.Path
		put := func(line int, sep, text string) {
			if line > last {
				fmt.Fprintf(b, "%s%s%d%s%s\n", m.Path, sep, line, sep, strings.TrimSuffix(text, "\r"))
				last = line
			}
		}
		for i, t := range m.Before {
			put(m.Line-len(m.Before)+i, "-", t)
		}
		lines := strings.Split(m.Text, "\n")
		for i, t := range lines {
			put(m.Line+i, ":", t)
		}
		for i, t := range m.After {
			line := m.Line + len(lines) + i
			if matched[fmt.Sprintf("%s:%d", m.Path, line)] {
				break // it is printed as a match
			}
			put(line, "-", t)
		}
	}
}
