package verifytool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
)

type formatOutput struct {
	Formatted []*verify.Formatting `json:"formatted" jsonschema:"one for each project"`

	text string
}

func (o formatOutput) Text() string { return o.text }

func formatTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "format", Family: tool.Verify, Needs: commandCaps, Destructive: true, Idempotent: true, FanOut: true,
		Description: "Format files with the project's formatter, or the whole project if no files are named. Shows the changes of named files.",
	}, formatFiles)
}

func formatFiles(ctx context.Context, c *tool.Call, in checkInput) (formatOutput, error) {
	seconds, err := tool.Seconds("timeout", in.Timeout, lintSeconds, maxLintSeconds)
	if err != nil {
		return formatOutput{}, err
	}
	list, err := selectProjects(ctx, c, in.Language, relPaths(c, in.Files))
	if err != nil {
		return formatOutput{}, err
	}
	o := verifyOptions(c, in.Files, time.Duration(seconds)*time.Second)
	done, _, text, err := forEachProject(list, seconds, func(p profile.Project, left time.Duration) (*verify.Formatting, error) {
		mine := *o
		mine.Files, mine.Timeout = nil, left
		for _, f := range o.Files {
			if p.Format.About(f) {
				mine.Files = append(mine.Files, f)
			}
		}
		if len(mine.Files) == 0 {
			mine.Files = o.Files // verify returns the error
		}
		f, err := verify.Format(ctx, c.Workspace, p, &mine)
		if err != nil {
			return nil, runError("format", err)
		}
		for _, ch := range f.Changed {
			c.Refresh(ctx, ch.File)
			c.LearnFile(ctx, ch.File, ch.Diff)
		}
		return f, nil
	}, func(f *verify.Formatting) string { return formatText(f, len(o.Files)) })
	return formatOutput{Formatted: done, text: text}, err
}

func formatText(f *verify.Formatting, named int) string {
	var b strings.Builder
	switch {
	case f.Message != "":
		fmt.Fprintf(&b, "format: %s: %s\n", f.Command[0], f.Message)
	case named == 0:
		fmt.Fprintf(&b, "formatted the project: %s\n", strings.Join(f.Command, " "))
	case len(f.Changed) == 0:
		b.WriteString("already formatted\n")
	}
	for _, c := range f.Changed {
		fmt.Fprintf(&b, "formatted %s\n%s", c.File, c.Diff)
	}
	return b.String()
}
