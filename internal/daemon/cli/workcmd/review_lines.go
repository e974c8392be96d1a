package workcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
	"github.com/croft-run/croft/internal/daemon/cli/console"
)

const linesHelp = `  y  take this change            n  leave it
  a  take the rest of the file   d  leave the rest of the file
  b  back to the change before   s  show what is taken
  t  run the tests on what is taken
  q  leave all that follows`

// askInLines asks about each part, and whether to apply what is taken.
func (r *reviewer) askInLines(ctx context.Context) (apply bool, err error) {
	for at := 0; at < len(r.parts); {
		if err := changecmd.WritePrintablePatch(r.a.Console, r.a.Out, r.patch(r.parts[at])); err != nil {
			return false, err
		}
		noun := "hunk"
		if r.parts[at].hunk == 0 {
			noun = "file"
		}
		if r.files[r.parts[at].file].IsAutorun() {
			noun += " (autorun)"
		}
		answer, err := r.askInput(fmt.Sprintf("(%d/%d) Take this %s [y,n,a,d,b,s,t,q,?]? ", at+1, len(r.parts), noun))
		if err != nil {
			return false, err
		}
		switch answer {
		case "y", "n":
			r.parts[at].taken = answer == "y"
			at++
		case "a", "d":
			for file := r.parts[at].file; at < len(r.parts) && r.parts[at].file == file; at++ {
				r.parts[at].taken = answer == "a"
			}
		case "b":
			at = max(0, at-1)
		case "s":
			r.summarize()
		case "t":
			r.testInLines(ctx)
		case "q":
			take(false, r.parts[at:])
			at = len(r.parts)
		default:
			r.a.Note("%s", linesHelp)
		}
	}
	for {
		r.summarize()
		if countTaken(r.parts) == 0 {
			return false, nil
		}
		answer, err := r.askInput(fmt.Sprintf("Apply it to %s [y,n,t]? ", console.Printable(r.opts.Dir)))
		if err != nil {
			return false, err
		}
		switch answer {
		case "y", "n":
			return answer == "y", nil
		case "t":
			r.testInLines(ctx)
		}
	}
}

func (r *reviewer) askInput(question string) (string, error) {
	answer, err := r.a.askLine(question)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("review: %w: the input ended", fault.Canceled)
	}
	return answer, err
}

// summarize prints what is taken.
func (r *reviewer) summarize() {
	r.a.Note("%s", r.summary())
	for _, ch := range r.takenFiles() {
		r.a.Note("  %s%s", console.Printable(ch.Path), autorunMark(ch))
	}
	if n := r.takenAutorun(); n > 0 && !r.opts.Apply.Autorun {
		r.a.Note("%s left out: croft work apply --allow-autorun PATH applies them", console.CountText(n, "autorun file"))
	}
}

func (r *reviewer) testInLines(ctx context.Context) {
	outcome, err := r.runTests(ctx, r.a.Out)
	if err != nil {
		r.a.Note("%v", err)
		return
	}
	r.a.Note("tests: %s", outcome)
}
