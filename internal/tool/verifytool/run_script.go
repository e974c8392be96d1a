package verifytool

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/tool"
)

type runScriptInput struct {
	Name     string   `json:"name" jsonschema:"name of a script of package.json" croft:"name"`
	Args     []string `json:"args,omitempty" jsonschema:"arguments for it"`
	Timeout  int      `json:"timeout,omitempty" jsonschema:"time limit in seconds; default 300, at most 1800"`
	Language string   `json:"language,omitempty" jsonschema:"node, which is the only one with scripts"`
	Dir      string   `json:"dir,omitempty" jsonschema:"directory of the package.json; default the workspace's root" croft:"path"`
}

type runScriptOutput struct {
	Run *verify.Run `json:"run"`

	text string
}

func (o runScriptOutput) Text() string { return o.text }

func runScriptTool() *tool.Tool {
	return tool.New(tool.Spec{
		Name: "run_script", Family: tool.Verify, Needs: commandCaps, Destructive: true, OpenWorld: true,
		Description: "Run a script of package.json with the project's package manager.",
	}, runScript)
}

func runScript(ctx context.Context, c *tool.Call, in runScriptInput) (runScriptOutput, error) {
	if strings.TrimSpace(in.Name) == "" {
		return runScriptOutput{}, tool.Errorf(fault.InvalidArgument, "run_script: name is required")
	}
	if lang := strings.ToLower(strings.TrimSpace(in.Language)); lang != "" && lang != string(profile.Node) {
		return runScriptOutput{}, tool.Errorf(fault.Unsupported, "run_script: only Node projects support scripts today (detected: %s)", lang)
	}
	seconds, err := tool.Seconds("timeout", in.Timeout, testSeconds, maxTestSeconds)
	if err != nil {
		return runScriptOutput{}, err
	}
	p, err := c.Profile(ctx)
	if err != nil {
		return runScriptOutput{}, err
	}
	dir := path.Clean(path.Join(".", strings.TrimPrefix(in.Dir, c.Root())))
	at := slices.IndexFunc(p.Projects, func(q profile.Project) bool { return q.Ecosystem == profile.Node && q.Dir == dir })
	if err := checkScript(ctx, c, p, dir, in.Name); err != nil {
		return runScriptOutput{}, err
	}
	manager := "npm"
	if at >= 0 && p.Projects[at].PackageManager != "" {
		manager = p.Projects[at].PackageManager
	}
	argv := []string{manager, "run", in.Name}
	if len(in.Args) > 0 && manager == "npm" {
		argv = append(argv, "--")
	}
	r, err := verify.Command(ctx, c.Workspace, append(argv, in.Args...), dir, verifyOptions(c, nil, time.Duration(seconds)*time.Second))
	if err != nil {
		return runScriptOutput{}, runError("run_script", err)
	}
	return runScriptOutput{Run: r, text: runText(r, seconds)}, nil
}

// maxManifest bounds a package.json.
const maxManifest = 16 << 20

// checkScript returns an error, with the available scripts, if the manifest lacks the
// script.
func checkScript(ctx context.Context, c *tool.Call, p profile.Profile, dir, name string) error {
	data, err := c.Workspace.ReadFileMax(ctx, path.Join(dir, "package.json"), maxManifest)
	if errors.Is(err, fault.NotFound) {
		for _, q := range p.Projects {
			if q.Dir == dir {
				return tool.Errorf(fault.Unsupported, "run_script: only Node projects support scripts today (detected: %s)", q.Ecosystem)
			}
		}
		where := "workspace root"
		if dir != "." {
			where = dir
		}
		return tool.Errorf(fault.NotFound, "run_script: package.json not found in %s", where)
	}
	if err != nil {
		return tool.PathError("run_script", path.Join(dir, "package.json"), err)
	}
	var manifest struct {
		Scripts map[string]string `json:"scripts"`
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return tool.Errorf(fault.InvalidArgument, "run_script: parsing package.json: %v", err)
	}
	if _, ok := manifest.Scripts[name]; ok {
		return nil
	}
	available := "(none defined)"
	if len(manifest.Scripts) > 0 {
		available = strings.Join(slices.Sorted(maps.Keys(manifest.Scripts)), ", ")
	}
	return tool.Errorf(fault.NotFound, "run_script: no script named %q in package.json; available: %s", name, available)
}
