package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/textdiff"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A Formatting is the result of a formatter.
type Formatting struct {
	Language string   `json:"language"`
	Dir      string   `json:"dir"`
	Command  []string `json:"command"`
	ExitCode int      `json:"exitCode"`
	Changed  []Change `json:"changed"`           // rewritten files, of those named
	Message  string   `json:"message,omitempty"` // why it failed
	Output
}

// A Change is a file that was rewritten.
type Change struct {
	File string `json:"file"`
	Diff string `json:"diff"`
}

// Format runs the formatter of a project: on all of it, or on opts.Files. Changed files are
// known for named files only.
func Format(ctx context.Context, ws *workspace.Workspace, p profile.Project, opts *Options) (*Formatting, error) {
	o := opts.orZero()
	p = withVenv(ctx, ws, p)
	argv, ok := p.Format.All()
	if len(o.Files) > 0 {
		argv, ok = p.Format.Expand(o.Files)
	}
	if !ok {
		return nil, fmt.Errorf("verify: format %s: %w: no format command detected for the %s project%s", p.Dir, fault.NotFound, p.Ecosystem, aboutFiles(o.Files))
	}
	before, err := readContents(ctx, ws, o.Files)
	if err != nil {
		return nil, err
	}
	out := &Formatting{Language: string(p.Ecosystem), Dir: p.Dir, Command: argv, Changed: []Change{}}
	stdout, stderr := newCapture(o.maxOutput()), newCapture(o.maxOutput())
	j := job{argv: argv, dir: p.Format.Dir}
	ran, err := j.run(ctx, ws, o, stdout.Add, stderr.Add)
	if err = unsupportedIfMissing(ws, argv, ran.Result, stdout, stderr, err); err != nil {
		return nil, err
	}
	out.ExitCode, out.Stdout, out.Stderr = ran.ExitCode, stdout.String(), stderr.String()
	out.Dropped = stdout.dropped() + stderr.dropped()
	if out.Dropped > 0 {
		out.Session = ran.Session
	}
	switch {
	case ran.Cause != "":
		out.Message = fmt.Sprintf("it was cut short: %s", ran.Cause)
	case ran.ExitCode != 0:
		out.Message = fmt.Sprintf("exit status %d: %s", ran.ExitCode, truncateEnd(strings.TrimSpace(out.Stderr+"\n"+out.Stdout), 2<<10))
	}
	return out, out.noteChanges(context.WithoutCancel(ctx), ws, o.Files, before, ran.Cause != "")
}

// noteChanges records changed files. It restores a file that the formatter has emptied or
// removed, or was writing when it was stopped.
func (out *Formatting) noteChanges(ctx context.Context, ws *workspace.Workspace, files []string, before map[string]fileContent, stopped bool) error {
	after, err := readContents(ctx, ws, files)
	if err != nil {
		return err
	}
	for _, f := range files {
		was, is := before[f], after[f]
		if was.text == is.text {
			continue
		}
		if was.whole && (stopped || strings.TrimSpace(is.text) == "" && strings.TrimSpace(was.text) != "") {
			if _, err := ws.WriteFile(ctx, f, []byte(was.text), &workspace.WriteOptions{Mode: was.mode & driver.MaxMode}); err != nil {
				return fmt.Errorf("verify: format %s: restore it: %w", f, err)
			}
			out.Message = strings.TrimPrefix(out.Message+"; it left "+f+" incomplete, and the file was restored", "; ")
			continue
		}
		out.Changed = append(out.Changed, Change{File: path.Clean(f), Diff: textdiff.Unified(path.Clean(f), []byte(was.text), []byte(is.text), 3)})
	}
	return nil
}

func aboutFiles(files []string) string {
	if len(files) == 0 {
		return ""
	}
	return " that is about " + strings.Join(files, ", ")
}

// maxFormatted bounds the files whose difference is shown.
const maxFormatted = 4 << 20

// fileContent is a file before or after formatting.
type fileContent struct {
	text  string // for a large file its size and mtime
	mode  fs.FileMode
	whole bool // text is the whole file
}

// readContents reads files before or after formatting. Missing files are left out.
func readContents(ctx context.Context, ws *workspace.Workspace, files []string) (map[string]fileContent, error) {
	out := map[string]fileContent{}
	for _, f := range files {
		info, err := ws.Stat(ctx, f, nil)
		if errors.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("verify: format %s: %w", f, err)
		}
		if info.Size > maxFormatted {
			out[f] = fileContent{text: fmt.Sprintf("%d bytes of %v", info.Size, info.ModTime)}
			continue
		}
		data, err := ws.ReadFileMax(ctx, f, maxFormatted)
		if err != nil {
			return nil, fmt.Errorf("verify: format %s: %w", f, err)
		}
		out[f] = fileContent{string(data), info.Mode, true}
	}
	return out, nil
}

// checkArgv converts a formatter's command to its check mode; false if none is known.
func checkArgv(argv []string) ([]string, bool) {
	replace := func(from string, to ...string) []string {
		out := slices.Clone(argv)
		at := slices.Index(out, from)
		if at < 0 {
			return nil
		}
		return slices.Replace(out, at, at+1, to...)
	}
	for i, word := range argv {
		var out []string
		switch path.Base(word) {
		case "gofmt":
			out = replace("-w", "-d")
		case "prettier":
			out = replace("--write", "--check")
		case "biome":
			out = replace("--write")
		case "rustfmt", "fmt":
			out = slices.Insert(slices.Clone(argv), i+1, "--check")
		case "black":
			out = slices.Insert(slices.Clone(argv), i+1, "--check", "--diff", "--quiet")
		case "ruff":
			if at := slices.Index(argv, "format"); at > i {
				out = slices.Insert(slices.Clone(argv), at+1, "--check", "--diff")
			}
		}
		if out != nil {
			return out, true
		}
	}
	return nil, false
}
