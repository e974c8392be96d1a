package version

import (
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}}
	for _, tt := range []struct {
		name    string
		release string
		build   debug.BuildInfo
		want    Info
	}{
		{"a release", "v0.1.0 123 2026-11-17T00:00:00Z\n", debug.BuildInfo{Settings: vcs}, Info{"v0.1.0", "123", "2026-11-17T00:00:00Z"}},
		{"go install of a commit", "", debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.0.1-0.2026"}}, Info{Version: "v0.0.1-0.2026"}},
		{"a clone", "", debug.BuildInfo{Main: debug.Module{Path: Module, Version: Devel}, Settings: vcs}, Info{Devel, "abc", "2026-01-02T03:04:05Z"}},
		{"a library", "", debug.BuildInfo{Main: debug.Module{Path: "example.com/x", Version: "v9.0.0"}, Settings: vcs,
			Deps: []*debug.Module{{Path: Module, Version: "v0.2.0"}}}, Info{Version: "v0.2.0"}},
		{"nothing", "", debug.BuildInfo{}, Info{Version: Devel}},
	} {
		if got := describe(tt.release, &tt.build); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
