package skill_test

import (
	"fmt"

	"github.com/croft-run/croft/prepare/bootstrap"
	"github.com/croft-run/croft/tool/skill"
)

// The tools for the skills in a directory of the host.
func Example() {
	for _, t := range skill.Tools(skill.Options{Skills: &bootstrap.Skills{Roots: []string{"skills"}}}) {
		fmt.Println(t.Name)
	}
	// Output:
	// skill_load
	// skill_list_docs
	// skill_run
	// workspace_save_artifact
}
