// Package skill has the tools for skills and artifacts: skill_load, skill_list_docs,
// skill_run and workspace_save_artifact.
//
// Skills are directories of the host that the operator configured. A skill is staged to
// skills/<name> when it is first run, and again when it changes. Programs may write to the
// staged copy. Inputs of a model are artifacts, files of the workspace and of skills, never
// files of the host.
package skill

import (
	"context"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Family is the family of these tools.
const Family tool.Family = "skill"

// Options configure the tools.
type Options struct {
	Skills    *bootstrap.Skills
	State     stage.State                             // nil keeps it in memory
	Artifacts func(workspace string) *stage.Artifacts // of a workspace, by its id; may be nil
}

// Tools returns the tools; those for skills only if there is a directory of skills.
func Tools(opts Options) []*tool.Tool {
	if opts.Skills == nil {
		opts.Skills = new(bootstrap.Skills)
	}
	if opts.State == nil {
		opts.State = stage.NewMemoryState()
	}
	f := &family{opts}
	if len(opts.Skills.Roots) == 0 {
		return []*tool.Tool{f.saveArtifactTool()}
	}
	return []*tool.Tool{f.loadTool(), f.listDocsTool(), f.runTool(), f.saveArtifactTool()}
}

type family struct{ opts Options }

// workspaceStage is the Stage of a workspace.
type workspaceStage struct{ *stage.Stage }

func (f *family) stageFor(c *tool.Call) (*stage.Stage, error) {
	s, err := tool.PerWorkspace(c, func() (workspaceStage, error) {
		opts := &stage.Options{State: f.opts.State}
		if f.opts.Artifacts != nil {
			opts.Artifacts = f.opts.Artifacts(c.Workspace.ID())
		}
		st, err := stage.New(c.Workspace, opts)
		return workspaceStage{st}, err
	})
	return s.Stage, err
}

type loadInput struct {
	Skill          string   `json:"skill,omitempty" jsonschema:"name of the skill; default list the skills"`
	Docs           []string `json:"docs,omitempty" jsonschema:"documents to read, with names from skill_list_docs"`
	IncludeAllDocs bool     `json:"include_all_docs,omitempty" jsonschema:"read all documents of the skill"`
}

type loadOutput struct {
	Skills       []bootstrap.SkillInfo `json:"skills,omitempty" jsonschema:"available skills, if none was named"`
	Name         string                `json:"name,omitempty"`
	Description  string                `json:"description,omitempty"`
	Instructions string                `json:"instructions,omitempty"`
	Docs         []doc                 `json:"docs,omitempty"`
	LeftOut      []string              `json:"left_out,omitempty" jsonschema:"documents that exceeded the size limit; request them by name"`
}

type doc struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

func (o loadOutput) Text() string {
	var b strings.Builder
	for _, s := range o.Skills {
		fmt.Fprintf(&b, "%s: %s\n", s.Name, s.Description)
	}
	if o.Name == "" {
		if len(o.Skills) == 0 {
			return "no skills are configured"
		}
		return b.String()
	}
	fmt.Fprintf(&b, "loaded: %s\n\n%s", o.Name, o.Instructions)
	for _, d := range o.Docs {
		fmt.Fprintf(&b, "\n\n--- %s ---\n%s", d.Path, d.Content)
	}
	if len(o.LeftOut) > 0 {
		fmt.Fprintf(&b, "\n\n[%d documents did not fit; ask for them by name: %s]", len(o.LeftOut), strings.Join(o.LeftOut, ", "))
	}
	return b.String()
}

func (f *family) loadTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "skill_load", Family: Family, ReadOnly: true, Idempotent: true,
		Description: "Read the instructions and documents of a skill. Without a name, list the skills.",
	}, func(ctx context.Context, _ *tool.Call, in loadInput) (loadOutput, error) {
		if in.Skill == "" {
			list, err := f.opts.Skills.List(ctx)
			return loadOutput{Skills: list}, err
		}
		s, err := f.opts.Skills.Find(ctx, in.Skill)
		if err != nil {
			return loadOutput{}, err
		}
		out := loadOutput{Name: s.Name, Description: s.Description}
		if out.Instructions, err = s.Body(); err != nil {
			return loadOutput{}, err
		}
		if in.IncludeAllDocs {
			if in.Docs, err = s.Docs(); err != nil {
				return loadOutput{}, err
			}
		}
		err = out.readDocs(s, in.Docs)
		return out, err
	})
}

// maxDocs bounds the documents in one answer. The first is always included.
const maxDocs = 256 << 10

func (o *loadOutput) readDocs(s bootstrap.SkillInfo, names []string) error {
	room := maxDocs
	for _, name := range names {
		if room <= 0 {
			o.LeftOut = append(o.LeftOut, name)
			continue
		}
		text, err := s.Doc(name)
		if err != nil {
			return err
		}
		if len(text) > room && len(o.Docs) > 0 {
			o.LeftOut = append(o.LeftOut, name)
			continue
		}
		room -= len(text)
		o.Docs = append(o.Docs, doc{name, text})
	}
	return nil
}

type listDocsInput struct {
	Skill string `json:"skill" jsonschema:"name of the skill"`
}

type listDocsOutput struct {
	Docs []string `json:"docs"`
}

func (o listDocsOutput) Text() string {
	if len(o.Docs) == 0 {
		return "the skill has no documents besides its instructions"
	}
	return strings.Join(o.Docs, "\n")
}

func (f *family) listDocsTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "skill_list_docs", Family: Family, ReadOnly: true, Idempotent: true,
		Description: "List the documents of a skill; skill_load reads them.",
	}, func(ctx context.Context, _ *tool.Call, in listDocsInput) (listDocsOutput, error) {
		s, err := f.opts.Skills.Find(ctx, in.Skill)
		if err != nil {
			return listDocsOutput{}, err
		}
		docs, err := s.Docs()
		return listDocsOutput{docs}, err
	})
}

type runInput struct {
	Skill   string            `json:"skill" jsonschema:"name of the skill"`
	Command string            `json:"command" jsonschema:"bash script, run in the directory of the skill" croft:"command"`
	Cwd     string            `json:"cwd,omitempty" jsonschema:"working directory below the skill's"`
	Env     map[string]string `json:"env,omitempty"`
	Stdin   string            `json:"stdin,omitempty"`
	Timeout int               `json:"timeout,omitempty" jsonschema:"seconds; default 300"`
	Inputs  []skillInput      `json:"inputs,omitempty" jsonschema:"inputs to stage first"`
	Outputs *outputs          `json:"outputs,omitempty" jsonschema:"outputs to collect afterwards"`
}

type skillInput struct {
	From string `json:"from" jsonschema:"artifact://name[@version], workspace://path or skill://name/path" croft:"path"`
	To   string `json:"to,omitempty" jsonschema:"path in the workspace; default work/inputs and the last element of from" croft:"path"`
	Mode string `json:"mode,omitempty" jsonschema:"copy (default) or link"`
	Pin  bool   `json:"pin,omitempty" jsonschema:"keep the version that was staged first"`
}

type outputs struct {
	Globs         []string `json:"globs,omitempty" jsonschema:"patterns such as $OUTPUT_DIR/**; default out/**"`
	Inline        bool     `json:"inline,omitempty" jsonschema:"include the content in the answer"`
	Save          bool     `json:"save,omitempty" jsonschema:"save as artifacts"`
	NameTemplate  string   `json:"name_template,omitempty" jsonschema:"name of an artifact: a prefix, or a template with .Name .Dir .Base .Stem .Ext .Index .ID"`
	MaxFiles      int      `json:"max_files,omitempty"`
	MaxFileBytes  int64    `json:"max_file_bytes,omitempty"`
	MaxTotalBytes int64    `json:"max_total_bytes,omitempty"`
}

type runOutput struct {
	ExitCode   int          `json:"exit_code"`
	TimedOut   bool         `json:"timed_out,omitempty"`
	Stdout     string       `json:"stdout,omitempty"`
	Stderr     string       `json:"stderr,omitempty"`
	DurationMS int64        `json:"duration_ms"`
	Files      []outputFile `json:"output_files,omitempty"`
	Warnings   []string     `json:"warnings,omitempty"`
}

type outputFile struct {
	Name      string `json:"name"`
	MIMEType  string `json:"mime_type"`
	SizeBytes int64  `json:"size_bytes"`
	Content   string `json:"content,omitempty" jsonschema:"content of a text file"`
	Truncated bool   `json:"truncated,omitempty"`
	Ref       string `json:"ref,omitempty" jsonschema:"URI of the saved artifact, else of the workspace file"`
}

func (o runOutput) Text() string {
	var b strings.Builder
	b.WriteString(o.Stdout)
	b.WriteString(o.Stderr)
	if o.TimedOut {
		b.WriteString("\n[timed out]\n")
	}
	fmt.Fprintf(&b, "\n[exit status %d]\n", o.ExitCode)
	for _, f := range o.Files {
		fmt.Fprintf(&b, "%s (%s, %d bytes) %s\n", f.Name, f.MIMEType, f.SizeBytes, f.Ref)
		if f.Truncated && f.Content != "" {
			fmt.Fprintf(&b, "(only the first %d bytes are here)\n", len(f.Content))
		}
		if f.Content != "" {
			b.WriteString(f.Content + "\n")
		}
	}
	for _, w := range o.Warnings {
		b.WriteString("warning: " + w + "\n")
	}
	return b.String()
}

func (f *family) runTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "skill_run", Family: Family, Needs: []workspace.Capability{driver.CapFS, driver.CapShell}, Destructive: true, OpenWorld: true,
		Description: "Run a command in the working copy of a skill, with SKILL_NAME, OUTPUT_DIR and WORK_DIR set; stage inputs before it, collect outputs after it.",
	}, f.runSkill)
}

func (f *family) runSkill(ctx context.Context, c *tool.Call, in runInput) (runOutput, error) {
	if in.Command == "" {
		return runOutput{}, tool.Errorf(fault.InvalidArgument, "command is required")
	}
	if in.Timeout < 0 {
		return runOutput{}, tool.Errorf(fault.InvalidArgument, "timeout must not be negative")
	}
	s, err := f.opts.Skills.Find(ctx, in.Skill)
	if err != nil {
		return runOutput{}, err
	}
	st, err := f.stageFor(c)
	if err != nil {
		return runOutput{}, err
	}
	spec, err := f.neededSkills(ctx, s, in.Inputs)
	if err != nil {
		return runOutput{}, err
	}
	report, err := bootstrap.New(st, nil).Apply(ctx, spec)
	if err != nil {
		return runOutput{}, err
	}
	if err := stageInputs(ctx, st, in.Inputs); err != nil {
		return runOutput{}, err
	}
	base := path.Join(stage.DirSkills, s.Name)
	dir, err := c.Workspace.Clean(path.Join(base, in.Cwd))
	if err != nil || dir != base && !strings.HasPrefix(dir, base+"/") {
		return runOutput{}, tool.Errorf(fault.SandboxViolation, "cwd must stay in the skill")
	}
	const defaultSeconds, mostSeconds = 300, 24 * 60 * 60
	if in.Timeout == 0 {
		in.Timeout = defaultSeconds
	}
	in.Timeout = min(in.Timeout, mostSeconds)
	env := maps.Clone(in.Env)
	if env == nil {
		env = map[string]string{}
	}
	env[stage.EnvSkill] = s.Name
	res, err := st.Run(ctx, driver.Command{
		Script: in.Command, Dir: dir, Env: env, Stdin: strings.NewReader(in.Stdin), Timeout: time.Duration(in.Timeout) * time.Second,
		MaxOutput: tool.DefaultMaxText / 4, // both streams fit into one answer, with their marks
	})
	if err != nil {
		return runOutput{}, err
	}
	out := runOutput{Warnings: report.Warnings, ExitCode: res.ExitCode, TimedOut: res.Cause == driver.CauseTimeout, DurationMS: res.Duration.Milliseconds(),
		Stdout: driver.OutputText(res.Stdout, res.StdoutDropped, ""), Stderr: driver.OutputText(res.Stderr, res.StderrDropped, "")}
	collectOutputs(ctx, st, in.Outputs, &out)
	return out, nil
}

// neededSkills returns the skills to stage: the one that is run, and those that inputs come
// from.
func (f *family) neededSkills(ctx context.Context, s bootstrap.SkillInfo, inputs []skillInput) (bootstrap.Spec, error) {
	spec := bootstrap.Spec{Skills: []bootstrap.Skill{s.Skill()}}
	have := map[string]bool{s.Name: true}
	for _, i := range inputs {
		rest, ok := strings.CutPrefix(i.From, "skill://")
		name, _, _ := strings.Cut(rest, "/")
		if !ok || have[name] || stage.CheckSkillName(name) != nil {
			continue // staging reports the error
		}
		have[name] = true
		other, err := f.opts.Skills.Find(ctx, name)
		if err != nil {
			return spec, err
		}
		spec.Skills = append(spec.Skills, other.Skill())
	}
	return spec, nil
}

func stageInputs(ctx context.Context, st *stage.Stage, list []skillInput) error {
	var inputs []stage.Input
	for _, i := range list {
		if strings.HasPrefix(i.From, "host:") {
			return tool.Errorf(fault.PermissionDenied, "host:// is not allowed for agents; use artifact://, workspace:// or skill://")
		}
		inputs = append(inputs, stage.Input(i))
	}
	_, err := st.StageInputs(ctx, inputs)
	return err
}

// maxInline bounds the content in an answer.
const maxInline = 16 << 20

// collectOutputs collects the outputs of a run; by default it lists up to 20 files of out.
// An error is a warning, because the program ran: its output is part of the answer.
func collectOutputs(ctx context.Context, st *stage.Stage, o *outputs, out *runOutput) {
	const unasked = 20
	spec := stage.OutputSpec{MaxFiles: unasked}
	if o != nil {
		spec = stage.OutputSpec{Globs: o.Globs, Inline: o.Inline, Save: o.Save, NameTemplate: o.NameTemplate, MaxFiles: o.MaxFiles, MaxFileBytes: o.MaxFileBytes, MaxTotalBytes: o.MaxTotalBytes}
	}
	if spec.Inline { // bounds the answer, whatever the agent asks for
		spec.MaxFileBytes, spec.MaxTotalBytes = min(spec.MaxFileBytes, maxInline), min(spec.MaxTotalBytes, maxInline)
	}
	if spec.Save { // artifacts are outside the workspace and its limits
		spec.MaxFileBytes, spec.MaxTotalBytes = min(spec.MaxFileBytes, maxArtifact), min(spec.MaxTotalBytes, maxArtifact)
	}
	man, err := st.CollectOutputs(ctx, spec)
	for _, f := range man.Files {
		got := outputFile{Name: f.Name, MIMEType: f.MIMEType, SizeBytes: f.SizeBytes, Truncated: f.Truncated, Ref: "workspace://" + f.Name}
		if stage.IsText(f.MIMEType) {
			got.Content = f.Content
		}
		if f.SavedAs != "" {
			got.Ref = stage.Artifact{Name: f.SavedAs, Version: f.Version}.Ref()
		}
		if f.Error != "" {
			out.Warnings = append(out.Warnings, f.Name+": "+f.Error)
		}
		out.Files = append(out.Files, got)
	}
	for _, s := range man.Skipped {
		out.Warnings = append(out.Warnings, s.Name+": "+s.Reason)
	}
	if more := man.Skips - len(man.Skipped); more > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d more files could not be collected", more))
	}
	switch {
	case man.Left > 0:
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d more files match", man.Left))
	case man.SearchCut:
		out.Warnings = append(out.Warnings, "more files match than the search returns")
	}
	if err != nil {
		out.Warnings = append(out.Warnings, err.Error())
	}
}

type saveInput struct {
	Path string `json:"path" jsonschema:"file below work, out or runs" croft:"path"`
}

type saveOutput struct {
	Path      string `json:"path"`
	SavedAs   string `json:"saved_as"`
	Version   int    `json:"version"`
	Ref       string `json:"ref"`
	MIMEType  string `json:"mime_type"`
	SizeBytes int64  `json:"size_bytes"`
}

func (o saveOutput) Text() string { return fmt.Sprintf("saved %s as %s", o.Path, o.Ref) }

// maxArtifact bounds a file that an agent may save.
const maxArtifact = 64 << 20

func (f *family) saveArtifactTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "workspace_save_artifact", Family: Family, Needs: []workspace.Capability{driver.CapFS},
		Description: "Save a file of the workspace as a versioned artifact, which outlives the workspace.",
	}, func(ctx context.Context, c *tool.Call, in saveInput) (saveOutput, error) {
		name, err := c.Workspace.Clean(in.Path)
		if err != nil {
			return saveOutput{}, tool.PathError("save", in.Path, err)
		}
		top, _, _ := strings.Cut(name, "/")
		if top != stage.DirWork && top != stage.DirOut && top != stage.DirRuns || top == name {
			return saveOutput{}, tool.Errorf(fault.InvalidArgument, "path must be a file below work, out or runs")
		}
		st, err := f.stageFor(c)
		if err != nil {
			return saveOutput{}, err
		}
		art, err := st.SaveFile(ctx, name, "", maxArtifact)
		if err != nil {
			return saveOutput{}, err
		}
		return saveOutput{name, art.Name, art.Version, art.Ref(), art.MIME, art.Size}, nil
	})
}
