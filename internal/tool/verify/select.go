package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/profile"
)

// All is the language that selects every project.
const All = "all"

// Select returns the projects of a language, which is an ecosystem's name. "" is the
// language of the root's projects or, if the root has none, of all projects, if it is
// unique. If the root has no project of the language, the outermost ones are returned.
func Select(p profile.Profile, language string) ([]profile.Project, error) {
	all := slices.DeleteFunc(slices.Clone(p.Projects), hasNoCommands)
	if len(all) == 0 {
		return nil, fmt.Errorf("verify: select: %w: no supported project detected in workspace root", fault.NotFound)
	}
	root := slices.DeleteFunc(slices.Clone(all), func(q profile.Project) bool { return q.Dir != "." })
	if len(root) == 0 {
		root = all
	}
	names := languageNames(root)
	switch language = strings.ToLower(strings.TrimSpace(language)); {
	case language == All:
		return outermostProjects(all), nil
	case language == "" && len(names) > 1:
		return nil, fmt.Errorf("verify: select: %w: polyglot workspace: %d project types detected (%s) — pass `language` to pick one",
			fault.InvalidArgument, len(names), strings.Join(names, ", "))
	case language == "":
		language = names[0]
	}
	out := outermostProjects(slices.DeleteFunc(all, func(q profile.Project) bool {
		return string(q.Ecosystem) != language && q.Language != language
	}))
	if len(out) == 0 {
		return nil, fmt.Errorf("verify: select: %w: language %q not detected in workspace; detected: %s",
			fault.InvalidArgument, language, strings.Join(languageNames(p.Projects), ", "))
	}
	return out, nil
}

// hasNoCommands reports whether a project has nothing to run.
func hasNoCommands(q profile.Project) bool {
	return q.Test.IsZero() && q.Lint.IsZero() && q.Typecheck.IsZero() && q.Format.IsZero() && q.Ecosystem != profile.Custom
}

// outermostProjects drops projects inside another of the same ecosystem, whose commands
// cover them, and the second of two in one directory.
func outermostProjects(projects []profile.Project) []profile.Project {
	var out []profile.Project
	for _, q := range projects {
		if !slices.ContainsFunc(out, func(up profile.Project) bool {
			return up.Ecosystem == q.Ecosystem && (up.Dir == "." || up.Dir == q.Dir || strings.HasPrefix(q.Dir, up.Dir+"/"))
		}) {
			out = append(out, q)
		}
	}
	return out
}

func languageNames(projects []profile.Project) []string {
	var out []string
	for _, q := range projects {
		if !slices.Contains(out, string(q.Ecosystem)) {
			out = append(out, string(q.Ecosystem))
		}
	}
	return out
}
