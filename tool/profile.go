package tool

import (
	"context"
	"fmt"
	"strings"

	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

type profileOutput struct {
	Projects []projectOutput `json:"projects"`
	Warnings []string        `json:"warnings,omitempty"`
}

type projectOutput struct {
	Dir            string            `json:"dir"`
	Name           string            `json:"name,omitempty"`
	Ecosystem      string            `json:"ecosystem"`
	Language       string            `json:"language,omitempty"`
	PackageManager string            `json:"package_manager,omitempty"`
	Proof          string            `json:"proof" jsonschema:"the manifest of the project"`
	Commands       map[string]string `json:"commands" jsonschema:"commands for install, build, format, lint, typecheck and test"`
}

func profileTool() *Tool {
	return New(Spec{
		Name: "profile", Family: Project, Needs: []workspace.Capability{driver.CapFS}, ReadOnly: true, Idempotent: true, FanOut: true,
		Description: "List the projects in the workspace, and the commands that install, build, format, lint and test them.",
	}, showProfile)
}

func showProfile(ctx context.Context, c *Call, _ struct{}) (profileOutput, error) {
	p, err := c.Profile(ctx)
	if err != nil {
		return profileOutput{}, err
	}
	out := profileOutput{Projects: []projectOutput{}}
	for _, x := range p.Projects {
		o := projectOutput{
			Dir: x.Dir, Name: x.Name, Ecosystem: string(x.Ecosystem), Language: x.Language,
			PackageManager: x.PackageManager, Proof: x.Proof, Commands: map[string]string{},
		}
		for _, cmd := range projectCommands(x) {
			if !cmd.IsZero() {
				o.Commands[cmd.verb] = cmd.String()
			}
		}
		out.Projects = append(out.Projects, o)
	}
	for _, w := range p.Warnings {
		out.Warnings = append(out.Warnings, w.String())
	}
	return out, nil
}

type namedCommand struct {
	verb string
	profile.Command
}

func projectCommands(p profile.Project) []namedCommand {
	return []namedCommand{{"install", p.Install}, {"build", p.Build}, {"format", p.Format}, {"lint", p.Lint}, {"typecheck", p.Typecheck}, {"test", p.Test}}
}

func (o profileOutput) Text() string {
	if len(o.Projects) == 0 {
		return "no supported project detected in workspace root\n"
	}
	var b strings.Builder
	for _, p := range o.Projects {
		fmt.Fprintf(&b, "%s: %s (%s)\n", p.Dir, p.Ecosystem, p.Proof)
		if p.PackageManager != "" {
			fmt.Fprintf(&b, "  package manager: %s\n", p.PackageManager)
		}
		for _, verb := range []string{"install", "build", "format", "lint", "typecheck", "test"} {
			if cmd := p.Commands[verb]; cmd != "" {
				fmt.Fprintf(&b, "  %s: %s\n", verb, cmd)
			}
		}
	}
	for _, w := range o.Warnings {
		b.WriteString("warning: " + w + "\n")
	}
	return b.String()
}
