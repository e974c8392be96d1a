package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/daemon/work"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/plaintext"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/snapshot/history"
	"github.com/croft-run/croft/tool/profile"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func (a *command) workReviewCommand() *cobra.Command {
	var opts workApplyOptions
	var test string
	cmd := &cobra.Command{
		Use:   "review [NAME] [PATH...]",
		Short: "Look at the changes of a work one by one, test the ones you take, and apply them",
		Long: `Look at the changes of a work one by one: take or leave each hunk or file, run the project's tests on
what was taken so far, and apply it at the end. Nothing is applied before the last question. The tests run in a
fork of the work that has the taken changes alone.

` + reviewHelp,
		Args: cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, args []string) error {
			var w *workOf
			err := a.withWork(ctx, args, func(_ *client.Client, found *workOf, rest []string) (err error) {
				w, opts.name = found, found.Name
				if opts.dir = opts.into; opts.dir == "" {
					if opts.dir, err = w.dir(); err != nil {
						return err
					}
				}
				if len(rest) > 0 {
					opts.apply.Only, err = pathsIn(opts.dir, rest)
				}
				return err
			})
			if err != nil {
				return err
			}
			r := &review{a: a, w: w, opts: opts, test: test}
			return r.run(ctx)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&test, "test", "", "command that tests the project, for a shell (default the detected one, see croft profile)")
	f.StringVar(&opts.into, "into", "", "apply to this directory instead of the project's")
	f.BoolVar(&opts.commit, "commit", false, "commit what is applied")
	f.StringVar(&opts.branch, "branch", "", "commit to this branch instead, without touching the work tree")
	f.StringVarP(&opts.message, "message", "m", "", "message of the commit")
	f.BoolVar(&opts.apply.Autorun, "allow-autorun", false, "apply autorun files, too, if they are taken")
	return cmd
}

const reviewHelp = `  y  take this change            n  leave it
  a  take the rest of the file   d  leave the rest of the file
  b  back to the change before   s  show what is taken
  t  run the tests on what is taken
  q  leave all that follows`

// A review is a dialog about the changes of a work.
type review struct {
	a    *command
	w    *workOf
	opts workApplyOptions
	test string

	changes []snapshot.FileChange
	parts   []reviewPart
}

// A reviewPart is what is taken or left: a hunk, or a whole file.
type reviewPart struct {
	file  int // in changes
	hunk  int // from 1; 0 is the whole file
	taken bool
}

func (r *review) run(ctx context.Context) error {
	err := r.a.withClient(ctx, func(c *client.Client) error {
		d, err := fetchDiff(ctx, c, r.w.ID, client.DiffOptions{Text: true, Paths: r.opts.apply.Only})
		if err != nil {
			return err
		}
		r.a.noteGit(d.Git, "; croft work apply --commits brings commits")
		r.a.noteScope(d.LeftOut)
		r.changes = d.Changes
		return nil
	})
	if err != nil {
		return err
	}
	if len(r.changes) == 0 {
		r.a.note("nothing changed")
		return nil
	}
	for i := range r.changes {
		ch := &r.changes[i]
		if len(ch.Hunks) == 0 || ch.Old == nil || ch.New == nil || ch.From != "" {
			r.parts = append(r.parts, reviewPart{file: i})
			continue
		}
		for n := range ch.Hunks {
			r.parts = append(r.parts, reviewPart{file: i, hunk: n + 1})
		}
	}
	if err := r.ask(ctx); err != nil {
		return err
	}
	return r.finish(ctx)
}

// ask asks about each part.
func (r *review) ask(ctx context.Context) error {
	for at := 0; at < len(r.parts); {
		if err := r.show(at); err != nil {
			return err
		}
		answer, err := r.a.askLine(fmt.Sprintf("(%d/%d) Take this %s [y,n,a,d,b,s,t,q,?]? ", at+1, len(r.parts), r.parts[at].noun()))
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("review: %w: the input ended; nothing was applied", fault.Canceled)
		}
		if err != nil {
			return err
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
			if err := r.runTests(ctx); err != nil {
				r.a.note("%v", err)
			}
		case "q":
			for ; at < len(r.parts); at++ {
				r.parts[at].taken = false
			}
		default:
			r.a.note("%s", reviewHelp)
		}
	}
	return nil
}

func (p reviewPart) noun() string {
	if p.hunk == 0 {
		return "file"
	}
	return "hunk"
}

// show prints one part as a patch.
func (r *review) show(at int) error {
	p := r.parts[at]
	ch := r.changes[p.file]
	if p.hunk > 0 {
		ch.Hunks = ch.Hunks[p.hunk-1 : p.hunk]
	}
	return r.a.writePatch(r.a.Out, &snapshot.Comparison{Changes: []snapshot.FileChange{ch}})
}

// summarize prints what is taken.
func (r *review) summarize() {
	taken, files := 0, map[int]bool{}
	for _, p := range r.parts {
		if p.taken {
			taken++
			files[p.file] = true
		}
	}
	r.a.note("taken: %d of %s, in %s", taken, countText(len(r.parts), "change"), countText(len(files), "file"))
	for i := range r.changes {
		if files[i] {
			r.a.note("  %s", printable(r.changes[i].Path))
		}
	}
}

// selection returns the taken parts: whole files, and hunks of others.
func (r *review) selection() (paths []string, hunks map[string][]int) {
	hunks = map[string][]int{}
	for i := range r.changes {
		ch := &r.changes[i]
		var taken []int
		all := true
		for _, p := range r.parts {
			switch {
			case p.file != i:
			case p.taken:
				taken = append(taken, p.hunk)
			default:
				all = false
			}
		}
		if len(taken) == 0 {
			continue
		}
		paths = append(paths, ch.Path)
		if ch.From != "" {
			paths = append(paths, ch.From)
		}
		if !all {
			hunks[ch.Path] = taken
		}
	}
	return paths, hunks
}

// finish asks the last question, and applies.
func (r *review) finish(ctx context.Context) error {
	for {
		paths, hunks := r.selection()
		r.summarize()
		if len(paths) == 0 {
			return nil
		}
		answer, err := r.a.askLine(fmt.Sprintf("Apply it to %s [y,n,t]? ", printable(r.opts.dir)))
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("review: %w: the input ended; nothing was applied", fault.Canceled)
		}
		if err != nil {
			return err
		}
		switch answer {
		case "y":
			opts := r.opts
			opts.apply.Only, opts.hunks = paths, nil
			for path, list := range hunks {
				for _, n := range list {
					opts.hunks = append(opts.hunks, fmt.Sprintf("%s:%d", path, n))
				}
			}
			return r.a.applyWork(ctx, opts)
		case "n":
			r.a.note("nothing was applied")
			return nil
		case "t":
			if err := r.runTests(ctx); err != nil {
				r.a.note("%v", err)
			}
		}
	}
}

// runTests runs the project's tests on what is taken.
func (r *review) runTests(ctx context.Context) error {
	paths, hunks := r.selection()
	if len(paths) == 0 {
		return fmt.Errorf("test: %w: nothing is taken", fault.WrongState)
	}
	return r.a.withClient(ctx, func(c *client.Client) error {
		origin := ""
		err := r.a.withOpened(ctx, c, r.w.ID, func(ws *workspace.Workspace) error {
			list, err := ws.Snapshots(ctx, &driver.ListSnapshotsOptions{Origin: true})
			if err == nil && len(list) > 0 {
				origin = list[len(list)-1].ID
			}
			return err
		})
		if err != nil {
			return err
		}
		res, err := r.a.testFork(ctx, c, r.w.ID, client.ForkOptions{Snapshot: origin, CrossSession: true}, r.test, func(id string) error {
			out, err := decodeAnswer[history.Applied](c.Apply(ctx, id, client.ApplyOptions{Source: r.w.ID, Paths: paths, Hunks: hunks, AllowAutorun: true}))
			if err == nil && len(out.Conflicts) > 0 {
				err = fmt.Errorf("test: %w: %s", fault.Conflict, out.Conflicts[0].Reason)
			}
			return err
		}, cleanWriter{r.a.Out})
		if err != nil {
			return err
		}
		r.a.note("tests: %s", res)
		return nil
	})
}

// A cleanWriter writes text without control sequences of terminals.
type cleanWriter struct{ w io.Writer }

func (c cleanWriter) Write(data []byte) (int, error) {
	if _, err := io.WriteString(c.w, plaintext.Clean(string(data))); err != nil {
		return 0, err
	}
	return len(data), nil
}

// testFork forks a workspace, prepares the fork, runs the tests of the project in it, and
// removes it. Output goes to w. It returns the outcome in a few words.
func (a *command) testFork(ctx context.Context, c *client.Client, id string, opts client.ForkOptions, test string, prepare func(id string) error, w io.Writer) (outcome string, err error) {
	opts.Labels = map[string]string{runLabel: "true"}
	if me := processIdentity("self"); me != "" {
		opts.Labels[runByLabel] = me
	}
	forked, err := c.Fork(ctx, id, opts)
	if err != nil {
		return "", err
	}
	fork := forked.Workspaces[0].ID
	defer func() { err = errors.Join(err, a.destroyWorkspace(ctx, c, fork)) }()
	if prepare != nil {
		if err := prepare(fork); err != nil {
			return "", err
		}
	}
	cmd := driver.Command{Script: test}
	if test == "" {
		if cmd, err = testCommand(ctx, c, fork); err != nil {
			return "", err
		}
	}
	err = a.withOpened(ctx, c, fork, func(ws *workspace.Workspace) error {
		cmd.OnStdout, cmd.OnStderr, cmd.MaxOutput = writeTo(w), writeTo(w), 1
		res, err := ws.Run(ctx, cmd)
		switch {
		case err != nil:
		case res.ExitCode == 0:
			outcome = "passed"
		default:
			outcome = fmt.Sprintf("failed (status %d)", res.ExitCode)
		}
		return err
	})
	return outcome, err
}

// testCommand returns the command that runs all tests of the project in a workspace.
func testCommand(ctx context.Context, c *client.Client, id string) (driver.Command, error) {
	data, err := c.Profile(ctx, id)
	if err != nil {
		return driver.Command{}, err
	}
	var p profile.Profile
	if err := json.Unmarshal(data, &p); err != nil {
		return driver.Command{}, fmt.Errorf("profile: %w: %w", fault.Unavailable, err)
	}
	one, _ := p.Primary()
	argv := one.Test.Argv
	if len(one.Test.Whole) > 0 {
		argv = one.Test.Whole
	}
	if len(argv) == 0 {
		return driver.Command{}, fmt.Errorf("test: %w: no command that tests the project was found; give one with --test", fault.NotFound)
	}
	return driver.Command{Argv: argv, Dir: one.Test.Dir}, nil
}

// comparedWork is a work as work compare --json prints it.
type comparedWork struct {
	Name  string              `json:"name"`
	Agent string              `json:"agent"`
	Stats snapshot.Stats      `json:"stats"`
	Tests string              `json:"tests,omitempty"` // outcome
	Files map[string]fileStat `json:"files"`
}

type fileStat struct {
	Kind         snapshot.ChangeKind `json:"kind"`
	LinesAdded   int                 `json:"linesAdded"`
	LinesRemoved int                 `json:"linesRemoved"`
}

func (a *command) workCompareCommand() *cobra.Command {
	var test string
	var noTest bool
	cmd := &cobra.Command{
		Use:   "compare [NAME...]",
		Short: "Show the works of the project side by side, with the results of its tests",
		Long: `Show the works of the project, or the named ones, side by side: the files and lines that each changed, and
whether the project's tests pass with all its changes. The tests run in a fork of each work. Apply the best with croft work
apply NAME, or parts of several with croft work apply NAME PATH.`,
		Args: cobra.ArbitraryArgs,
		RunE: run(func(ctx context.Context, args []string) error {
			e, err := a.workEnv(true)
			if err != nil {
				return err
			}
			return a.withClient(ctx, func(c *client.Client) error {
				list, err := a.works(ctx, c, e.project.Key())
				if err != nil {
					return err
				}
				for _, name := range args {
					if !slices.ContainsFunc(list, func(ws client.Workspace) bool { return ws.Name == name }) {
						return noMore([]string{name})
					}
				}
				list = slices.DeleteFunc(list, func(ws client.Workspace) bool {
					return ws.Dir != "" || len(args) > 0 && !slices.Contains(args, ws.Name)
				})
				slices.SortStableFunc(list, func(x, y client.Workspace) int { // as they were named
					return slices.Index(args, x.Name) - slices.Index(args, y.Name)
				})
				return a.workCompare(ctx, c, list, test, noTest)
			})
		}),
	}
	cmd.Flags().StringVar(&test, "test", "", "command that tests the project, for a shell (default the detected one, see croft profile)")
	cmd.Flags().BoolVar(&noTest, "no-test", false, "run no tests")
	return cmd
}

func (a *command) workCompare(ctx context.Context, c *client.Client, list []client.Workspace, test string, noTest bool) error {
	all := []comparedWork{}
	files := []string{}
	for _, ws := range list {
		d, err := fetchDiff(ctx, c, ws.ID, client.DiffOptions{Text: true})
		if err != nil {
			return fmt.Errorf("%s: %w", ws.Name, err)
		}
		one := comparedWork{Name: ws.Name, Agent: ws.Labels[work.AgentLabel], Stats: d.Stats, Files: map[string]fileStat{}}
		for _, ch := range d.Changes {
			one.Files[ch.Path] = fileStat{ch.Kind, ch.LinesAdded, ch.LinesRemoved}
			files = work.Add(files, ch.Path)
		}
		if !noTest {
			if one.Tests, err = a.testFork(ctx, c, ws.ID, client.ForkOptions{}, test, nil, io.Discard); err != nil {
				one.Tests = "not run: " + oneLine(err.Error())
			}
		}
		all = append(all, one)
	}
	slices.Sort(files)
	return a.printAnswer(all, func(w io.Writer) error {
		head, agents, lines, tests := []string{""}, []string{"agent"}, []string{"changed"}, []string{"tests"}
		for _, one := range all {
			head, agents = append(head, one.Name), append(agents, one.Agent)
			lines = append(lines, changesText(one.Stats, len(one.Files)))
			tests = append(tests, orDash(one.Tests))
		}
		rows := [][]string{head, agents, lines, tests}
		for _, f := range files {
			row := []string{f}
			for _, one := range all {
				cell := ""
				if s, ok := one.Files[f]; ok {
					cell = strings.TrimSpace(fmt.Sprintf("%s +%d -%d", s.Kind, s.LinesAdded, s.LinesRemoved))
				}
				row = append(row, orDash(cell))
			}
			rows = append(rows, row)
		}
		return writeTable(w, rows)
	})
}
