package snapshots

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/history"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// compareStates compares two states of a workspace.
func compareStates(ctx context.Context, ws *workspace.Workspace, from, to string, opts *snapshot.DiffOptions) (*snapshot.Comparison, error) {
	a, err := history.Tree(ctx, ws, from, nil)
	if err != nil {
		return nil, err
	}
	b, err := history.Tree(ctx, ws, to, nil)
	if err != nil {
		return nil, err
	}
	return snapshot.Diff(ctx, a, b, opts)
}

// reviewOptions are the options of a comparison for review.
func reviewOptions(c *tool.Call, paths []string, ignored bool) *snapshot.DiffOptions {
	return &snapshot.DiffOptions{Text: true, Only: cleanPaths(c, paths), NoGit: true, NoIgnored: !ignored}
}

// A changedFile is a file that differs.
type changedFile struct {
	Path         string `json:"path"`
	From         string `json:"from,omitempty" jsonschema:"old path of a renamed file"`
	Kind         string `json:"kind" jsonschema:"added, removed, modified, renamed, mode or type"`
	Binary       bool   `json:"binary,omitempty"`
	LinesAdded   int    `json:"lines_added"`
	LinesRemoved int    `json:"lines_removed"`
}

type diffOutput struct {
	Files   []changedFile `json:"files"`
	Patch   string        `json:"patch"`
	Git     []gitChange   `json:"git,omitempty" jsonschema:"repositories with new commits or refs; .git is never compared as files"`
	LeftOut []leftOut     `json:"left_out,omitempty" jsonschema:"changed files that were left out"`

	since string // describes the state that was compared with
}

// A gitChange is a repository that differs.
type gitChange struct {
	Path    string `json:"path"`
	Commits int    `json:"commits"`
	Refs    int    `json:"refs"`
}

// leftOut is the files that were left out for one reason.
type leftOut struct {
	Reason string   `json:"reason" jsonschema:"ignored (by .gitignore, or a cache), autorun (run by tools without being asked) or special (FIFOs, sockets and devices)"`
	Total  int      `json:"total"`
	Paths  []string `json:"paths" jsonschema:"the first of them"`
}

func newLeftOut(list []snapshot.LeftOut) []leftOut {
	var out []leftOut
	for _, l := range list {
		out = append(out, leftOut(l))
	}
	return out
}

// leftOutText describes what was left out, a line for each reason.
func leftOutText(list []leftOut) string {
	var b strings.Builder
	for _, l := range list {
		fmt.Fprintf(&b, "left out: %d %s file(s): %s\n", l.Total, l.Reason, strings.Join(l.Paths[:min(len(l.Paths), 10)], ", "))
	}
	return b.String()
}

func (o diffOutput) Text() string {
	more := ""
	for _, g := range o.Git {
		more += fmt.Sprintf("%s: %d commit(s), %d ref(s)\n", g.Path, g.Commits, g.Refs)
	}
	more += leftOutText(o.LeftOut) + o.since
	switch {
	case len(o.Files) > 0:
		return o.Patch + more
	case more != "":
		return "no differences\n" + more
	}
	return "no differences"
}

func newDiffOutput(d *snapshot.Comparison, stat bool) (diffOutput, error) {
	out := diffOutput{Files: []changedFile{}, LeftOut: newLeftOut(d.LeftOut)}
	for _, g := range d.Git {
		out.Git = append(out.Git, gitChange(g))
	}
	for _, f := range d.Changes {
		out.Files = append(out.Files, changedFile{f.Path, f.From, string(f.Kind), f.Binary, f.LinesAdded, f.LinesRemoved})
	}
	var b bytes.Buffer
	write := d.WriteUnified
	if stat {
		write = d.WriteStat
	}
	err := write(&b)
	out.Patch = b.String()
	return out, err
}

type snapshotDiffInput struct {
	Name  string   `json:"name" jsonschema:"name or id of the snapshot" croft:"name"`
	Paths []string `json:"paths,omitempty" jsonschema:"only these files and directories" croft:"path"`

	Ignored bool `json:"ignored,omitempty" jsonschema:"with files that .gitignore excludes, and caches"`
}

func snapshotDiffTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "snapshot_diff", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true, ReadOnly: true, Idempotent: true,
		Description: "Show what changed since a snapshot, as a patch.",
	}, func(ctx context.Context, c *tool.Call, in snapshotDiffInput) (diffOutput, error) {
		info, err := findSnapshot(ctx, c, in.Name)
		if err != nil {
			return diffOutput{}, err
		}
		d, err := compareStates(ctx, c.Workspace, info.ID, history.Now, reviewOptions(c, in.Paths, in.Ignored))
		if err != nil {
			return diffOutput{}, err
		}
		return newDiffOutput(d, false)
	})
}

// cleanPaths returns the paths of a call relative to the workspace.
func cleanPaths(c *tool.Call, list []string) []string {
	var out []string
	for _, p := range list {
		if name, err := c.Workspace.Clean(p); err == nil {
			p = name
		}
		out = append(out, p)
	}
	return out
}

type diffInput struct {
	From  string   `json:"from,omitempty" jsonschema:"snapshot to compare with, by name or id; default the state that the workspace started from, or in which work in the directory began" croft:"name"`
	To    string   `json:"to,omitempty" jsonschema:"snapshot to compare; default the present files"`
	Paths []string `json:"paths,omitempty" jsonschema:"only these files and directories" croft:"path"`
	Stat  bool     `json:"stat,omitempty" jsonschema:"only the number of changed lines per file"`

	Ignored bool `json:"ignored,omitempty" jsonschema:"with files that .gitignore excludes, and caches"`
}

func diffTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "diff", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true, ReadOnly: true, Idempotent: true,
		Description: "Show what changed in the workspace since it was opened or forked, or between two snapshots, as a patch.",
	}, diffStates)
}

func diffStates(ctx context.Context, c *tool.Call, in diffInput) (diffOutput, error) {
	from, to := history.Origin, history.Now
	for _, x := range []struct {
		name  string
		state *string
	}{{in.From, &from}, {in.To, &to}} {
		if x.name == "" {
			continue
		}
		info, err := findSnapshot(ctx, c, x.name)
		if err != nil {
			return diffOutput{}, err
		}
		*x.state = info.ID
	}
	d, err := compareStates(ctx, c.Workspace, from, to, reviewOptions(c, in.Paths, in.Ignored))
	if err != nil {
		return diffOutput{}, err
	}
	out, err := newDiffOutput(d, in.Stat)
	if in.From == "" {
		out.since = sinceText(ctx, c)
	}
	return out, err
}

// sinceText says which snapshot a directory in place is compared with; "" for other
// workspaces.
func sinceText(ctx context.Context, c *tool.Call) string {
	list, err := c.Workspace.Snapshots(ctx, nil)
	base, ok := history.Base(list)
	if err != nil || !ok || base.Labels[snapshot.CauseLabel] != history.CauseOpened {
		return ""
	}
	return fmt.Sprintf("since %s (snapshot %s)\n", base.Created.UTC().Format(time.RFC3339), base.ID)
}

type applyInput struct {
	Source  string   `json:"source" jsonschema:"workspace whose changes are merged, such as a fork"`
	Since   string   `json:"since,omitempty" jsonschema:"snapshot of the source to compare with; default the state that it started from"`
	Paths   []string `json:"paths,omitempty" jsonschema:"only the changes of these files and directories" croft:"path"`
	Markers bool     `json:"markers,omitempty" jsonschema:"write conflicts of lines into the files, with Git's conflict markers"`
	DryRun  bool     `json:"dry_run,omitempty" jsonschema:"only report what would be done"`
	Ignored bool     `json:"ignored,omitempty" jsonschema:"with files that .gitignore excludes, and caches"`
}

type conflict struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

type applyOutput struct {
	Applied   []string   `json:"applied" jsonschema:"files that were changed"`
	Conflicts []conflict `json:"conflicts"`
	Done      bool       `json:"done" jsonschema:"false if nothing was changed"`
	Before    string     `json:"before,omitempty" jsonschema:"snapshot of the state before"`
	LeftOut   []leftOut  `json:"left_out,omitempty" jsonschema:"changed files that were not applied"`

	source string
	dry    bool
}

func (o applyOutput) Text() string {
	var b strings.Builder
	switch {
	case o.dry:
		fmt.Fprintf(&b, "%d file(s) of %s would be changed", len(o.Applied), o.source)
	case len(o.Applied) == 0 && len(o.Conflicts) == 0:
		return strings.TrimSuffix("nothing to apply: every change of "+o.source+" is here\n"+leftOutText(o.LeftOut), "\n")
	default:
		fmt.Fprintf(&b, "applied %d file(s) of %s", len(o.Applied), o.source)
	}
	b.WriteString(":\n" + strings.Join(o.Applied, "\n") + "\n")
	for _, c := range o.Conflicts {
		fmt.Fprintf(&b, "conflict: %s: %s\n", c.Path, c.Reason)
	}
	b.WriteString(leftOutText(o.LeftOut))
	if o.Before != "" {
		fmt.Fprintf(&b, "the state before is snapshot %s\n", o.Before)
	}
	return b.String()
}

func applyTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "apply", Family: tool.Snapshot, Needs: snapshotCaps, FanOut: true,
		Description: "Merge the changes of another workspace, such as a fork, into this one, line by line. If both changed the same lines, nothing is written and the conflicts are listed. .git and autorun files (editor tasks, hooks) are never applied.",
	}, applyChanges)
}

func applyChanges(ctx context.Context, c *tool.Call, in applyInput) (applyOutput, error) {
	source, err := findWorkspace(ctx, c, strings.TrimSpace(in.Source))
	if err != nil {
		return applyOutput{}, err
	}
	since := history.Origin
	if in.Since != "" {
		info, err := findSnapshotOf(ctx, source, in.Since, &driver.ListSnapshotsOptions{Origin: true})
		if err != nil {
			return applyOutput{}, err
		}
		since = info.ID
	}
	opts := &history.ApplyOptions{
		From: since, DryRun: in.DryRun, MergeOptions: snapshot.MergeOptions{
			Only: cleanPaths(c, in.Paths), Markers: in.Markers, Ignored: in.Ignored, Ours: "this workspace", Theirs: "workspace " + in.Source,
		},
	}
	res, err := history.Apply(ctx, source, c.Workspace, opts)
	if err != nil {
		return applyOutput{}, err
	}
	out := applyOutput{Applied: res.Applied, Conflicts: []conflict{}, Done: res.Done, Before: res.Undo, LeftOut: newLeftOut(res.LeftOut), source: in.Source, dry: in.DryRun}
	for _, x := range res.Conflicts {
		out.Conflicts = append(out.Conflicts, conflict{x.Path, x.Reason})
	}
	if len(out.Conflicts) > 0 && !in.Markers && !in.DryRun {
		return applyOutput{}, tool.Errorf(fault.Conflict, "apply: %d conflict(s), and nothing was changed; markers=true writes those of lines into the files\n%s", len(out.Conflicts), conflictText(out.Conflicts))
	}
	if res.Undo != "" {
		changed := slices.Clone(res.Applied)
		for _, x := range res.Conflicts { // they have markers
			changed = append(changed, x.Path)
		}
		keepOld(ctx, c, res.Undo, changed)
	}
	return out, nil
}

func conflictText(list []conflict) string {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "%s: %s\n", c.Path, c.Reason)
	}
	return b.String()
}

// findWorkspace returns the workspace that an argument names.
func findWorkspace(ctx context.Context, c *tool.Call, name string) (*workspace.Workspace, error) {
	if name == c.Name || name == c.Workspace.ID() {
		return nil, tool.Errorf(fault.InvalidArgument, "source and workspace are both %q", name)
	}
	list, err := c.Workspaces.List(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if e.Name == name || e.ID == name {
			return c.Workspaces.Get(ctx, e.Name)
		}
		names = append(names, e.Name)
	}
	return nil, tool.Errorf(fault.NotFound, "unknown workspace %q; configured: %s", name, strings.Join(names, ", "))
}
