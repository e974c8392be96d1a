package profile

import (
	"slices"
	"strings"
)

// Commands are commands that replace the detected ones of a project, each a program and its
// arguments; an empty one replaces nothing. The placeholders [Files], [Packages] and [Tests]
// may stand in the arguments.
type Commands struct {
	Install    []string `json:"install,omitempty" jsonschema:"installs the dependencies, when it is asked for"`
	Build      []string `json:"build,omitempty" jsonschema:"builds the project"`
	Format     []string `json:"format,omitempty" jsonschema:"rewrites files; $FILES stands for the files"`
	Lint       []string `json:"lint,omitempty" jsonschema:"reports and changes nothing; $FILES stands for the files"`
	Typecheck  []string `json:"typecheck,omitempty" jsonschema:"the compiler or type checker"`
	Test       []string `json:"test,omitempty" jsonschema:"runs all tests, once"`
	ScopedTest []string `json:"scopedTest,omitempty" jsonschema:"runs the tests of some files; $FILES stands for the files"`
}

// Configured is the proof of commands of the configuration.
const Configured = "croft.yaml"

// Over returns c with the commands that base has and c does not.
func (c Commands) Over(base Commands) Commands {
	own, from := c.list(), base.list()
	for i := range own {
		if len(*own[i]) == 0 {
			*own[i] = *from[i]
		}
	}
	return c
}

// list lists the commands in the order of [Project.commands].
func (c *Commands) list() []*[]string {
	return []*[]string{&c.Install, &c.Build, &c.Format, &c.Lint, &c.Typecheck, &c.Test, &c.ScopedTest}
}

// With returns the profile with the commands of the configuration for its primary project.
// Files that the detected command takes are those that the new one takes. A
// workspace without a project gets one in its root.
func (p Profile) With(c Commands) Profile {
	list := c.list()
	if !slices.ContainsFunc(list, func(argv *[]string) bool { return len(*argv) > 0 }) {
		return p
	}
	p.Projects = slices.Clone(p.Projects)
	if len(p.Projects) == 0 {
		p.Projects = []Project{{Dir: ".", Ecosystem: Custom, Proof: Configured}}
	}
	for i, command := range p.Projects[0].commands() {
		if argv := *list[i]; len(argv) > 0 {
			command.replace(p.Projects[0].Dir, argv)
		}
	}
	return p
}

// replace sets another argv, which runs in dir.
func (c *Command) replace(dir string, argv []string) {
	c.Dir, c.Argv, c.Whole, c.Proof, c.Join = dir, slices.Clone(argv), nil, Configured, ""
	whole := map[string]string{Files: ".", Packages: "./..."}[c.placeholder()]
	if whole == "" {
		return
	}
	c.Whole = slices.Clone(argv)
	for i, arg := range c.Whole {
		c.Whole[i] = strings.ReplaceAll(arg, c.placeholder(), whole)
	}
}
