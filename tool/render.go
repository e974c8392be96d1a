package tool

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of rendering.
const (
	maxRenderSource      = 1 << 20
	maxRenderOutput      = 10 << 20
	defaultRenderSeconds = 60
	maxRenderSeconds     = 300
)

type renderInput struct {
	Source     string `json:"source" jsonschema:"the diagram as text"`
	OutputPath string `json:"output_path" jsonschema:"file to write: .svg, .png or .pdf" croft:"path"`
	Timeout    int    `json:"timeout,omitempty" jsonschema:"time limit in seconds; default 60, at most 300"`
}

type renderOutput struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	Format string `json:"format"`
}

func (o renderOutput) Text() string {
	return fmt.Sprintf("wrote %d bytes to %s (%s)", o.Bytes, o.Path, o.Format)
}

// A renderer runs a program that draws a diagram into a file.
type renderer struct {
	tool, program, missing string
	argv                   func(format, output string) []string
}

var (
	dot = renderer{
		tool: "render_dot", program: "dot", missing: "graphviz (dot) not found on PATH — install graphviz where the workspace runs",
		argv: func(format, output string) []string { return []string{"dot", "-T" + format, "-o", output} },
	}
	mermaid = renderer{
		tool: "render_mermaid", program: "mmdc", missing: "mermaid-cli (mmdc) not found on PATH — install @mermaid-js/mermaid-cli where the workspace runs",
		argv: func(_, output string) []string { return []string{"mmdc", "-q", "-i", "-", "-o", output} },
	}
)

func renderMermaidTool() *Tool {
	return New(mermaid.spec("Draw a Mermaid diagram into a file of the workspace."), mermaid.render)
}

func renderDotTool() *Tool {
	return New(dot.spec("Draw a Graphviz diagram into a file of the workspace."), dot.render)
}

func (r renderer) spec(description string) Spec {
	return Spec{
		Name: r.tool, Family: Render, Program: r.program, Needs: []workspace.Capability{driver.CapFS, driver.CapShell}, Destructive: true, Idempotent: true,
		Description: description,
	}
}

func (r renderer) render(ctx context.Context, c *Call, in renderInput) (renderOutput, error) {
	format, seconds, err := r.checkInput(ctx, c, in)
	if err != nil {
		return renderOutput{}, err
	}
	// Written to a temporary file and renamed, so that the output is complete or absent.
	temp := ".render-" + rand.Text() + "." + format
	defer c.removeTemp(ctx, temp)
	res, err := c.Workspace.Run(ctx, driver.Command{
		Argv: r.argv(format, "./"+temp), Stdin: strings.NewReader(in.Source), Timeout: time.Duration(seconds) * time.Second, MaxOutput: 8 << 10,
	})
	switch {
	case fault.Of(err) == fault.NotFound:
		return renderOutput{}, Errorf(fault.Unavailable, "%s: %s", r.tool, r.missing)
	case err != nil:
		return renderOutput{}, fmt.Errorf("%s: %w", r.tool, err)
	case res.Cause == driver.CauseTimeout:
		return renderOutput{}, Errorf(fault.DeadlineExceeded, "%s: timed out after %ds", r.tool, seconds)
	case res.Cause == driver.CauseCanceled:
		return renderOutput{}, fmt.Errorf("%s: %w", r.tool, fault.Canceled)
	case res.ExitCode != 0:
		return renderOutput{}, Errorf(fault.InvalidArgument, "%s: %s: exit status %d: %s", r.tool, r.program, res.ExitCode, strings.TrimSpace(driver.OutputText(res.Stdout, res.StdoutDropped, "")+driver.OutputText(res.Stderr, res.StderrDropped, "")))
	}
	return r.installOutput(ctx, c, temp, in.OutputPath, format)
}

// installOutput renames the temporary file to the output path.
func (r renderer) installOutput(ctx context.Context, c *Call, temp, to, format string) (renderOutput, error) {
	info, err := c.Workspace.Stat(ctx, temp, nil)
	if err != nil {
		return renderOutput{}, Errorf(fault.Unavailable, "%s: %s wrote nothing", r.tool, r.program)
	}
	if info.Size > maxRenderOutput {
		return renderOutput{}, Errorf(fault.ResourceExhausted, "%s: output %d bytes exceeds cap %d; draw less, or as .svg", r.tool, info.Size, maxRenderOutput)
	}
	c.KeepBefore(ctx, to)
	if err := c.Workspace.Rename(ctx, temp, to, &driver.RenameOptions{Parents: true}); err != nil {
		return renderOutput{}, PathError(r.tool, to, err)
	}
	if data, err := c.Workspace.ReadFileMax(ctx, to, maxRenderOutput); err == nil {
		c.RecordRead(c.relPath(to), data)
	}
	return renderOutput{Path: to, Bytes: info.Size, Format: format}, nil
}

func (r renderer) checkInput(ctx context.Context, c *Call, in renderInput) (format string, seconds int, err error) {
	switch {
	case in.Source == "":
		return "", 0, Errorf(fault.InvalidArgument, "source is required")
	case in.OutputPath == "":
		return "", 0, Errorf(fault.InvalidArgument, "output_path is required")
	case len(in.Source) > maxRenderSource:
		return "", 0, Errorf(fault.InvalidArgument, "source %d bytes exceeds cap %d", len(in.Source), maxRenderSource)
	}
	ext := path.Ext(in.OutputPath)
	switch ext {
	case ".svg", ".png", ".pdf":
	default:
		return "", 0, Errorf(fault.InvalidArgument, "unsupported output extension %q; supported: .svg, .png, .pdf", ext)
	}
	switch info, err := c.Workspace.Stat(ctx, in.OutputPath, nil); {
	case err == nil && info.Type == driver.TypeDir:
		return "", 0, Errorf(fault.InvalidArgument, "output_path is a directory: %s", in.OutputPath)
	case fault.Of(err) == fault.SandboxViolation:
		return "", 0, PathError(r.tool, in.OutputPath, err)
	case err == nil:
		if err := c.CheckSeen(ctx, "overwrite", in.OutputPath); err != nil {
			return "", 0, err
		}
	}
	seconds, err = Seconds("timeout", in.Timeout, defaultRenderSeconds, maxRenderSeconds)
	return ext[1:], seconds, err
}

// removeTemp removes a temporary file that was not renamed.
func (c *Call) removeTemp(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := c.Workspace.Remove(ctx, name, nil); err != nil && fault.Of(err) != fault.NotFound {
		c.Env.Log.Warn("remove a temporary file", "workspace", c.Name, "path", name, "error", err)
	}
}
