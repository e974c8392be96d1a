// Package version tells which release of Croft a program was built from.
package version

import (
	_ "embed"
	"runtime/debug"
	"strings"
)

// Module is the path of Croft's module.
const Module = "github.com/croft-run/croft"

// Devel is the version of a build from a tree without a version.
const Devel = "(devel)"

// release is empty but in the tree of a release, where tools/release writes a line with
// the version, the commit and its date. So every build of that tree tells the same: an
// archive, "go install" and a program that has Croft as a library.
//
//go:embed release.txt
var release string

// Info describes the source of a build. Commit and Date are empty if they are not known.
type Info struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"` // of the commit
}

// Get returns the description of the running program.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return describe(release, build)
}

// describe takes a release before what Go's tools recorded.
func describe(release string, build *debug.BuildInfo) Info {
	if f := strings.Fields(release); len(f) == 3 {
		return Info{Version: f[0], Commit: f[1], Date: f[2]}
	}
	for _, dep := range build.Deps {
		if dep.Path == Module { // another program has Croft as a library
			return Info{Version: orDevel(dep.Version)}
		}
	}
	info := Info{Version: orDevel(build.Main.Version)}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.time":
			info.Date = s.Value
		}
	}
	return info
}

func orDevel(version string) string {
	if version == "" {
		return Devel
	}
	return version
}
