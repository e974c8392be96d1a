package verifytool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

// Servers returns the language servers of a call's workspace; may return nil.
type Servers func(c *tool.Call) verify.Diagnoser

// Effect returns the effect that formats and lints each changed file and adds the findings
// to the answer. It formats only as long as the answer waits: nothing must be rewritten when
// the agent goes on. servers may be nil.
func Effect(servers Servers) tool.Effect {
	return func(ctx context.Context, c *tool.Call, paths []string) (string, error) {
		if !c.Workspace.Capabilities().Has(driver.CapShell) {
			return "", nil
		}
		o := new(verify.EditOptions)
		if servers != nil {
			o.Server = servers(c)
		}
		until := time.Now().Add(verify.EditBound)
		if d, ok := ctx.Deadline(); ok {
			until = d
		}
		formatUntil := time.Now().Add(c.Env.EffectWait)
		var b strings.Builder
		for _, file := range paths {
			if profile.Plain(file) {
				continue
			}
			if o.Bound = time.Until(until); o.Bound <= 0 {
				fmt.Fprintf(&b, "%s: not formatted and linted: the time limit was reached\n", file)
				continue
			}
			o.FormatBound = max(time.Until(formatUntil), time.Nanosecond)
			p, err := c.ProfileFor(ctx, file)
			if err != nil {
				return b.String(), err
			}
			edited := verify.AfterEdit(ctx, c.Workspace, p, file, o)
			if edited.Formatted || len(edited.Notes) > 0 {
				c.Refresh(ctx, file)
			}
			if edited.Missing, err = newMissing(c, edited.Missing); err != nil {
				return b.String(), err
			}
			writeEdited(&b, edited)
		}
		return b.String(), nil
	}
}

// saidMissing are the missing programs of a workspace that answers have named, by session.
type saidMissing struct{ said sync.Map }

// newMissing returns the missing programs that no earlier answer of the session named.
func newMissing(c *tool.Call, list []string) ([]string, error) {
	known, err := tool.PerWorkspace(c, func() (*saidMissing, error) { return new(saidMissing), nil })
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(name string) bool {
		_, was := known.said.LoadOrStore([2]string{c.Session, name}, true)
		return was
	}), nil
}

// maxDiffLines bounds the formatter's diff in an answer.
const maxDiffLines = 500

func writeEdited(b *strings.Builder, e verify.Edited) {
	if len(e.Diagnostics) > 0 {
		fmt.Fprintf(b, "post-edit lint findings (%d):\n", len(e.Diagnostics))
		for _, d := range e.Diagnostics {
			b.WriteString(diagnosticLine(d) + "\n")
		}
	}
	if e.Diff != "" {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("--- format ---\n")
		if e.Formatted {
			fmt.Fprintf(b, "%s was formatted:\n", e.File)
		}
		all := strings.Split(strings.TrimRight(e.Diff, "\n"), "\n")
		b.WriteString(strings.Join(all[:min(len(all), maxDiffLines)], "\n") + "\n")
		if more := len(all) - maxDiffLines; more > 0 {
			fmt.Fprintf(b, "... (%d lines truncated)\n", more)
		}
	}
	for _, n := range e.Notes {
		fmt.Fprintf(b, "post-edit %s\n", n)
	}
	for _, n := range e.Missing {
		fmt.Fprintf(b, "post-edit %s not found on PATH\n", n)
	}
}
