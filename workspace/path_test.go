package workspace

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func TestCleanName(t *testing.T) {
	const violation, invalid = fault.SandboxViolation, fault.InvalidArgument
	tests := []struct {
		path, root, want string
		code             fault.Code
	}{
		{path: "", want: "."},
		{path: ".", want: "."},
		{path: "/", want: "."},
		{path: "./", want: "."},
		{path: "a", want: "a"},
		{path: "a/b", want: "a/b"},
		{path: "a//b/", want: "a/b"},
		{path: "./a/./b/.", want: "a/b"},
		{path: "a/../b", want: "b"},
		{path: "a/..", want: "."},
		{path: "a/b/../../c", want: "c"},
		{path: "..foo", want: "..foo"},
		{path: "a/...", want: "a/..."},
		{path: " ", want: " "},
		{path: "\xff\xfe", want: "\xff\xfe"},
		{path: `a\..\..\b`, want: `a\..\..\b`},
		{path: "..", code: violation},
		{path: "../a", code: violation},
		{path: "a/../..", code: violation},
		{path: "a/../../a", code: violation}, // it leaves on the way, even though it comes back
		{path: "/etc/passwd", code: violation},
		{path: "//", code: violation},
		{path: "/..", code: violation},
		{path: "/w", root: "/w", want: "."},
		{path: "/w/", root: "/w", want: "."},
		{path: "/w/a", root: "/w", want: "a"},
		{path: "/w/a", root: "/w/", want: "a"},
		{path: "/w//a", root: "/w", want: "a"},
		{path: "/", root: "/w", want: "."},
		{path: "a", root: "/w", want: "a"},
		{path: "/wa", root: "/w", code: violation},
		{path: "/w/..", root: "/w", code: violation},
		{path: "/w/../w/a", root: "/w", code: violation},
		{path: "/other", root: "/w", code: violation},
		{path: "/a/b", root: "/", want: "a/b"},
		{path: "a\x00b", code: invalid},
		{path: "\x00", code: invalid},
		{path: strings.Repeat("a", 255), want: strings.Repeat("a", 255)},
		{path: strings.Repeat("a", 256), code: invalid},
		{path: strings.Repeat("a/", 2047) + "a", want: strings.Repeat("a/", 2047) + "a"},
		{path: strings.Repeat("a/", 2048), code: invalid},
	}
	for _, tt := range tests {
		got, err := cleanName(tt.path, tt.root)
		if got != tt.want || fault.Of(err) != tt.code {
			t.Errorf("cleanName(%.40q, %q) = %.40q, %v; want %.40q, %q", tt.path, tt.root, got, err, tt.want, tt.code)
		}
	}
}

// FuzzCleanName holds the promise to drivers: what they get is valid.
func FuzzCleanName(f *testing.F) {
	for _, seed := range []string{"", ".", "/", "a/../b", "../a", "a//b/", "/w/x", "..foo", "a\x00", "\xff", "/w/../w"} {
		f.Add(seed, "")
		f.Add(seed, "/w")
	}
	f.Fuzz(func(t *testing.T, p, root string) {
		name, err := cleanName(p, root)
		if err != nil {
			if code := fault.Of(err); code != fault.InvalidArgument && code != fault.SandboxViolation {
				t.Fatalf("cleanName(%q, %q): %v", p, root, err)
			}
			return
		}
		if !driver.ValidName(name) {
			t.Fatalf("cleanName(%q, %q) = %q, which is no valid name", p, root, name)
		}
		again, err := cleanName(name, root)
		if err != nil || again != name {
			t.Fatalf("cleanName(%q) = %q, %v; it should stay", name, again, err)
		}
	})
}
