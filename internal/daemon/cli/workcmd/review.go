package workcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/daemon/work"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/internal/plaintext"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func reviewCommand(a *command) *cobra.Command {
	var opts applyOptions
	var test string
	cmd := &cobra.Command{
		Use:   "review [NAME] [PATH...]",
		Short: "Look at the changes of a work one by one, test the ones you take, and apply them",
		Long: `Look at the changes of a work: take or leave each file or hunk, run the project's tests on what is taken, and
apply it at the end. Nothing is taken at the start, and nothing is applied before the last question. The tests run in a
fork of the work that has the taken changes alone.

On a terminal the files and their changes are on a screen:

` + screenHelp + `

Without one, or with TERM=dumb, each change is a question, and the answers are lines of the input:

` + linesHelp,
		Args: cobra.ArbitraryArgs,
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			var w *of
			err := a.withWork(ctx, args, func(_ console.Workspaces, found *of, rest []string) (err error) {
				w, opts.Name = found, found.Name
				if opts.Dir = opts.into; opts.Dir == "" {
					if opts.Dir, err = w.dir(); err != nil {
						return err
					}
				}
				if len(rest) > 0 {
					opts.Apply.Only, err = pathsIn(opts.Dir, rest)
				}
				return err
			})
			if err != nil {
				return err
			}
			r := &reviewer{a: a, w: w, opts: opts, test: test}
			return r.run(ctx)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&test, "test", "", "command that tests the project, for a shell (default the detected one, see croft profile)")
	f.StringVar(&opts.into, "into", "", "apply to this directory instead of the project's")
	f.BoolVar(&opts.commit, "commit", false, "commit what is applied")
	f.StringVar(&opts.Branch, "branch", "", "commit to this branch instead, without touching the work tree")
	f.StringVarP(&opts.Message, "message", "m", "", "message of the commit")
	f.BoolVar(&opts.Apply.Autorun, "allow-autorun", false, "apply autorun files, too, if they are taken")
	return cmd
}

// A review is the changes of a work, and which of them are taken. The two forms of the
// dialog, on a screen and in lines, change it.
type review struct {
	all   []snapshot.FileChange
	files []*snapshot.FileChange // without directories that others imply
	parts []reviewPart
	first []int // of each file in parts, and the length of parts
}

// A reviewPart is what is taken or left: a hunk, or a whole file.
type reviewPart struct {
	file  int // in files
	hunk  int // from 1; 0 is the whole file
	taken bool
}

func newReview(d *snapshot.Comparison) *review {
	r := &review{all: d.Changes, files: d.Files()}
	for i, ch := range r.files {
		r.first = append(r.first, len(r.parts))
		if len(ch.Hunks) == 0 || ch.Old == nil || ch.New == nil || ch.From != "" {
			r.parts = append(r.parts, reviewPart{file: i})
			continue
		}
		for n := range ch.Hunks {
			r.parts = append(r.parts, reviewPart{file: i, hunk: n + 1})
		}
	}
	r.first = append(r.first, len(r.parts))
	return r
}

// partsOf returns the parts of a file.
func (r *review) partsOf(file int) []reviewPart {
	return r.parts[r.first[file]:r.first[file+1]]
}

// take takes or leaves parts, which are some of r.parts.
func take(taken bool, parts []reviewPart) {
	for i := range parts {
		parts[i].taken = taken
	}
}

// countTaken returns how many of the parts are taken.
func countTaken(parts []reviewPart) int {
	n := 0
	for _, p := range parts {
		if p.taken {
			n++
		}
	}
	return n
}

// takenFiles returns the files of which something is taken.
func (r *review) takenFiles() []*snapshot.FileChange {
	var list []*snapshot.FileChange
	for i, ch := range r.files {
		if countTaken(r.partsOf(i)) > 0 {
			list = append(list, ch)
		}
	}
	return list
}

// autorunMark is what is printed after the path of a file.
func autorunMark(ch *snapshot.FileChange) string {
	if ch.IsAutorun() {
		return " autorun"
	}
	return ""
}

// takenAutorun returns how many autorun files are taken, by their names: an apply may leave
// out more.
func (r *review) takenAutorun() int {
	n := 0
	for _, ch := range r.takenFiles() {
		if ch.IsAutorun() {
			n++
		}
	}
	return n
}

// summary says in a few words what is taken.
func (r *review) summary() string {
	return fmt.Sprintf("taken: %d of %s, in %s", countTaken(r.parts), console.CountText(len(r.parts), "change"), console.CountText(len(r.takenFiles()), "file"))
}

// patch returns a part as a patch.
func (r *review) patch(p reviewPart) *snapshot.Comparison {
	ch := *r.files[p.file]
	if p.hunk > 0 {
		ch.Hunks = ch.Hunks[p.hunk-1 : p.hunk]
	}
	return &snapshot.Comparison{Changes: []snapshot.FileChange{ch}}
}

// selection returns what is taken in the form of an apply: paths, and the hunks of those
// of which not all is taken. A directory, which stands for all below it, is among them if
// all below it is taken.
func (r *review) selection() (paths []string, hunks snapshot.Hunks) {
	hunks = snapshot.Hunks{}
	partly := map[string]bool{} // directories with something that is not taken
	listed := map[*snapshot.FileChange]bool{}
	for i, ch := range r.files {
		listed[ch] = true
		parts := r.partsOf(i)
		n := countTaken(parts)
		if n < len(parts) {
			for _, name := range []string{ch.Path, ch.From} {
				for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
					partly[dir] = true
				}
			}
		}
		if n == 0 {
			continue
		}
		paths = append(paths, ch.Path)
		if ch.From != "" {
			paths = append(paths, ch.From)
		}
		for _, p := range parts {
			if p.taken && n < len(parts) {
				hunks[ch.Path] = append(hunks[ch.Path], p.hunk)
			}
		}
	}
	for i := range r.all {
		if ch := &r.all[i]; !partly[ch.Path] && !listed[ch] {
			paths = append(paths, ch.Path)
		}
	}
	return paths, hunks
}

// A reviewer shows the changes of a work, tests what is taken, and applies it.
type reviewer struct {
	*review
	a    *command
	w    *of
	opts applyOptions
	test string // command for a shell; "" is the detected one
}

// keep takes a snapshot of a work in which something runs, and may change files meanwhile:
// the snapshot is what is shown and applied. The caller calls release.
func (r *reviewer) keep(ctx context.Context) (release func(), err error) {
	err = r.a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		running, err := r.a.System.RunningSessions(ctx, r.w.Kind, r.w.ID)
		if err == nil && len(running) == 0 {
			return nil // a snapshot would store ignored files, too
		}
		return r.a.WithOpened(ctx, c, r.w.ID, func(ws *workspace.Workspace) error {
			info, err := ws.Snapshot(ctx, &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: "review"}})
			for _, skip := range info.Missing {
				r.a.Note("left out: %s: %s", console.Printable(skip.Path), skip.Reason)
			}
			r.opts.To = info.ID
			return err
		})
	})
	return func() {
		if r.opts.To == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), console.StopTimeout)
		defer cancel()
		err := r.a.WithAttached(ctx, r.w.ID, func(_ console.Workspaces, ws *workspace.Workspace) error {
			return ws.DeleteSnapshot(ctx, r.opts.To, nil)
		})
		if err != nil && fault.Of(err) != fault.NotFound { // it was removed with the work
			r.a.Note("croft: the snapshot %s of the review is left: %v", r.opts.To, err)
		}
	}, err
}

// shown returns what was shown, by path. Nothing else is applied.
func (r *reviewer) shown() map[string]*snapshot.Side {
	return (&snapshot.Comparison{Changes: r.all}).Sides()
}

func (r *reviewer) run(ctx context.Context) error {
	release, err := r.keep(ctx)
	if err != nil {
		return err
	}
	defer release()
	err = r.a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		d, err := changecmd.FetchDiff(ctx, c, r.w.ID, client.DiffOptions{To: r.opts.To, Text: true, Paths: r.opts.Apply.Only})
		if err != nil {
			return err
		}
		changecmd.NoteGit(r.a.Console, d.Git, "; croft work apply --commits brings commits")
		changecmd.NoteScopeFor(r.a.Console, d.LeftOut, "croft work apply ")
		r.review = newReview(d)
		return nil
	})
	if err != nil {
		return err
	}
	if len(r.files) == 0 {
		r.a.Note("nothing changed")
		return nil
	}
	dialog := r.askInLines
	if r.a.hasScreen() {
		dialog = r.askOnScreen
	}
	apply, err := dialog(ctx)
	if err != nil || !apply {
		r.a.Note("nothing was applied")
		return err
	}
	opts := r.opts
	opts.Apply.Only, opts.Apply.Hunks = r.selection()
	opts.Apply.Expect = r.shown()
	return r.a.applyWork(ctx, opts)
}

// runTests runs the project's tests on what is taken. Their output goes to w. It returns
// the outcome in a few words.
func (r *reviewer) runTests(ctx context.Context, w io.Writer) (outcome string, err error) {
	paths, hunks := r.selection()
	if len(paths) == 0 {
		return "", fmt.Errorf("test: %w: nothing is taken", fault.WrongState)
	}
	err = r.a.WithWorkspaces(ctx, func(c console.Workspaces) error {
		origin, err := r.a.originOf(ctx, c, r.w.ID)
		if err != nil {
			return err
		}
		outcome, err = r.a.testFork(ctx, c, r.w.ID, client.ForkOptions{Snapshot: origin, CrossSession: true}, r.test, func(id string) error {
			return r.applyTo(ctx, id, paths, hunks)
		}, cleanWriter{w})
		return err
	})
	return outcome, err
}

// originOf returns the snapshot that a work started from; "" for one that started empty.
func (a *command) originOf(ctx context.Context, c console.Workspaces, id string) (origin string, err error) {
	err = a.WithOpened(ctx, c, id, func(ws *workspace.Workspace) error {
		list, err := ws.Snapshots(ctx, &driver.ListSnapshotsOptions{Origin: true})
		if err == nil && len(list) > 0 {
			origin = list[len(list)-1].ID
		}
		return err
	})
	return origin, err
}

// applyTo applies changes, as they were shown, to a fork of the work.
func (r *reviewer) applyTo(ctx context.Context, fork string, paths []string, hunks snapshot.Hunks) error {
	source, err := r.a.System.Registry.Acquire(ctx, r.w.ID)
	if err != nil {
		return err
	}
	target, err := r.a.System.Registry.Acquire(ctx, fork)
	if err != nil {
		return err
	}
	out, err := history.Apply(ctx, source, target, &history.ApplyOptions{To: r.opts.To, MergeOptions: snapshot.MergeOptions{Only: paths, Hunks: hunks, Autorun: true, Expect: r.shown()}})
	if err == nil && len(out.Conflicts) > 0 {
		err = fmt.Errorf("test: %w: %s", fault.Conflict, out.Conflicts[0].Reason)
	}
	return err
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
func (a *command) testFork(ctx context.Context, c console.Workspaces, id string, opts client.ForkOptions, test string, prepare func(id string) error, w io.Writer) (outcome string, err error) {
	opts.Labels = console.RunLabels(a.Console)
	forked, err := c.Fork(ctx, id, opts)
	if err != nil {
		return "", err
	}
	fork := forked.Workspaces[0].ID
	defer func() { err = errors.Join(err, console.DestroyWorkspace(ctx, c, fork)) }()
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
	err = a.WithOpened(ctx, c, fork, func(ws *workspace.Workspace) error {
		cmd.OnStdout, cmd.OnStderr, cmd.MaxOutput = console.WriteTo(w), console.WriteTo(w), 1
		res, err := ws.Run(ctx, cmd)
		switch {
		case err != nil:
		case ctx.Err() != nil:
			err = fmt.Errorf("test: %w", fault.Canceled)
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
func testCommand(ctx context.Context, c console.Workspaces, id string) (driver.Command, error) {
	api, err := c.API(ctx)
	if err != nil {
		return driver.Command{}, err
	}
	data, err := api.Profile(ctx, id)
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
		return driver.Command{}, fault.Advise(fmt.Errorf("test: %w: no command that tests the project was found", fault.NotFound),
			"give one with --test")
	}
	return driver.Command{Argv: argv, Dir: one.Test.Dir}, nil
}

// comparedWork is a work as work compare --json prints it.
type comparedWork struct {
	Name    string              `json:"name"`
	Agent   string              `json:"agent"`
	Stats   snapshot.Stats      `json:"stats"`
	Tests   string              `json:"tests,omitempty"`   // outcome
	Project string              `json:"project,omitempty"` // outcome in the project as it was when the work started
	Files   map[string]fileStat `json:"files"`
}

type fileStat struct {
	Kind         snapshot.ChangeKind `json:"kind"`
	LinesAdded   int                 `json:"linesAdded"`
	LinesRemoved int                 `json:"linesRemoved"`
}

func compareCommand(a *command) *cobra.Command {
	var test string
	var noTest bool
	cmd := &cobra.Command{
		Use:   "compare [NAME...]",
		Short: "Show the works of the project side by side, with the results of its tests",
		Long: `Show the works of the project, or the named ones, side by side: the files and lines that each changed, and
whether the project's tests pass with all its changes. The tests run in a fork of each work and, in the column project, of
the project as it was when the work started: what fails there is not the agent's doing. Apply the best with croft work apply
NAME, or parts of several with croft work apply NAME PATH.`,
		Args: cobra.ArbitraryArgs,
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			e, err := a.env(len(args) == 0)
			if err != nil {
				return err
			}
			return a.WithWorkspaces(ctx, func(c console.Workspaces) error {
				key := ""
				if len(args) == 0 {
					key = e.project.Key()
				}
				list, err := works(ctx, c, key)
				if err != nil {
					return err
				}
				if len(list) == 0 && len(args) == 0 {
					return noWorks(e)
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
				return a.compare(ctx, c, list, test, noTest)
			})
		}),
	}
	cmd.Flags().StringVar(&test, "test", "", "command that tests the project, for a shell (default the detected one, see croft profile)")
	cmd.Flags().BoolVar(&noTest, "no-test", false, "run no tests")
	return cmd
}

func (a *command) compare(ctx context.Context, c console.Workspaces, list []client.Workspace, test string, noTest bool) error {
	all := []comparedWork{}
	files := []string{}
	tests := func(id string, opts client.ForkOptions) string {
		outcome, err := a.testFork(ctx, c, id, opts, test, nil, io.Discard)
		if err != nil {
			outcome = "not run: " + console.OneLine(err.Error())
		}
		return outcome
	}
	projects := map[string]string{} // outcomes, by the snapshot that works started from
	outcomes := map[string]bool{}
	var starts []comparedWork // the columns of the project: one, unless the outcomes differ
	for _, ws := range list {
		d, err := changecmd.FetchDiff(ctx, c, ws.ID, client.DiffOptions{Text: true})
		if err != nil {
			return fmt.Errorf("%s: %w", ws.Name, err)
		}
		one := comparedWork{Name: ws.Name, Agent: ws.Labels[work.AgentLabel], Stats: d.Stats, Files: map[string]fileStat{}}
		for _, ch := range d.Files() {
			one.Files[ch.Path] = fileStat{ch.Kind, ch.LinesAdded, ch.LinesRemoved}
			files = work.Add(files, ch.Path)
		}
		if !noTest {
			origin, err := a.originOf(ctx, c, ws.ID)
			if err != nil {
				return fmt.Errorf("%s: %w", ws.Name, err)
			}
			if _, ok := projects[origin]; !ok && origin != "" {
				outcome := tests(ws.ID, client.ForkOptions{Snapshot: origin, CrossSession: true})
				projects[origin], outcomes[outcome] = outcome, true
				starts = append(starts, comparedWork{Name: "project of " + ws.Name, Tests: outcome})
			}
			one.Tests, one.Project = tests(ws.ID, client.ForkOptions{}), projects[origin]
		}
		all = append(all, one)
	}
	slices.Sort(files)
	return a.PrintAnswer(all, func(w io.Writer) error {
		head, agents, lines, tests := []string{""}, []string{"agent"}, []string{"changed"}, []string{"tests"}
		if len(outcomes) == 1 {
			starts = starts[:1]
			starts[0].Name = "project"
		}
		columns := slices.Concat(starts, all)
		for i, one := range columns {
			head, agents = append(head, one.Name), append(agents, console.OrDash(one.Agent))
			changes := changesText(one.Stats)
			if i < len(starts) {
				changes = "-"
			}
			lines = append(lines, changes)
			tests = append(tests, console.OrDash(one.Tests))
		}
		rows := [][]string{head, agents, lines, tests}
		for _, f := range files {
			row := []string{f}
			for _, one := range columns {
				cell := ""
				if s, ok := one.Files[f]; ok {
					cell = strings.TrimSpace(fmt.Sprintf("%s +%d -%d", s.Kind, s.LinesAdded, s.LinesRemoved))
				}
				row = append(row, console.OrDash(cell))
			}
			rows = append(rows, row)
		}
		return console.WriteTable(w, rows)
	})
}
