package eval

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
)

//go:embed skills/*.md
var skills embed.FS

// Skills lists the texts for agents that write suites, by name.
func Skills() []string {
	entries, err := skills.ReadDir("skills")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".md"))
	}
	slices.Sort(names)
	return names
}

var skillName = lazyregexp.New(`^[a-z0-9-]+$`)

// Skill returns a text for agents that write suites.
func Skill(name string) (string, error) {
	if !skillName.MatchString(name) {
		return "", &skillgymError{fault.InvalidArgument, "Invalid skill name: " + name}
	}
	data, err := skills.ReadFile("skills/" + name + ".md")
	if err != nil {
		return "", &skillgymError{fault.NotFound, fmt.Sprintf("Unknown bundled skill: %s (there are %s)", name, strings.Join(Skills(), ", "))}
	}
	return string(data), nil
}
