package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

func TestClean(t *testing.T) {
	tests := []struct {
		in   string
		want cleanName
		code fault.Code
	}{
		{".", cleanName{".", false}, ""}, {"./", cleanName{".", true}, ""}, {"a", cleanName{"a", false}, ""}, {"a/", cleanName{"a", true}, ""},
		{"a/.", cleanName{"a", true}, ""}, {"./a//b", cleanName{"a/b", false}, ""}, {"a/../b", cleanName{"b", false}, ""}, {"a/..", cleanName{".", true}, ""},
		{"..foo", cleanName{"..foo", false}, ""}, {"a/..b", cleanName{"a/..b", false}, ""}, {".hidden", cleanName{".hidden", false}, ""},
		{"", cleanName{}, fault.InvalidArgument}, {"..", cleanName{}, fault.SandboxViolation}, {"a/../..", cleanName{}, fault.SandboxViolation},
		{"/", cleanName{}, fault.SandboxViolation}, {"a\x00", cleanName{}, fault.InvalidArgument},
		{strings.Repeat("a", 256), cleanName{}, fault.InvalidArgument}, {"x/" + tempName(), cleanName{}, fault.InvalidArgument},
	}
	for _, tt := range tests {
		got, err := parseName(tt.in)
		if fault.Of(err) != tt.code || err == nil && got != tt.want {
			t.Errorf("clean(%q) = %+v, %v; want %+v, %q", tt.in, got, err, tt.want, tt.code)
		}
	}
}

// Whatever a name is, it is either made a valid one or refused with a code, and
// no operation on it touches what is beside the root.
func FuzzName(f *testing.F) {
	for _, name := range []string{"a", "..", "../x", "/etc", "a/../../x", "sym/x", "up", "a\x00b", "..foo", "dir/./x/", "\xff", "sym/../../x"} {
		f.Add(name)
	}
	base := f.TempDir()
	if err := os.MkdirAll(filepath.Join(base, "root/dir"), 0o755); err != nil {
		f.Fatal(err)
	}
	for name, dest := range map[string]string{"sym": "..", "up": "../x", "in": "dir", "loop": "loop"} {
		if err := os.Symlink(dest, filepath.Join(base, "root", name)); err != nil {
			f.Fatal(err)
		}
	}
	r, err := Open(filepath.Join(base, "root"), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { r.Close() })
	f.Fuzz(func(t *testing.T, name string) {
		if got, err := parseName(name); err == nil && !driver.ValidName(got.name) {
			t.Errorf("clean(%q) = %q, which is not valid", name, got.name)
		}
		for op, err := range use(t.Context(), r, name) {
			if fault.Of(err) == fault.Internal {
				t.Errorf("%s %q: %v", op, name, err)
			}
		}
		if entries, err := os.ReadDir(base); err != nil || len(entries) != 1 {
			t.Fatalf("%q made something beside the root: %v, %v", name, entries, err)
		}
	})
}

func use(ctx context.Context, r *Root, name string) map[string]error {
	errs := map[string]error{}
	_, errs["stat"] = r.Stat(ctx, name, nil)
	_, errs["write"] = r.Write(ctx, name, strings.NewReader("x"), nil)
	if body, _, err := r.Read(ctx, name, nil); err == nil {
		errs["close"] = body.Close()
	} else {
		errs["read"] = err
	}
	if name != "sym" && name != "up" && name != "in" && name != "loop" {
		errs["remove"] = r.Remove(ctx, name, nil)
	}
	errs["mkdir"] = r.Mkdir(ctx, name, nil)
	errs["rmdir"] = r.Remove(ctx, name, nil)
	return errs
}

// TestIsTemp takes for temporary only the very names that we make.
func TestIsTemp(t *testing.T) {
	for range 1000 {
		if name := tempName(); !IsTemp(name) {
			t.Fatalf("%s is not taken for temporary", name)
		}
	}
	if name := StagePrefix + driver.NewID(); !IsTemp(name) {
		t.Errorf("%s is not taken for temporary", name)
	}
	for _, name := range []string{
		"", "a", TempPrefix, TempPrefix + "notes", TempPrefix + "stage-", TempPrefix + "stage-mine", StagePrefix + "0123456789", "x" + tempName(), tempName() + "~",
		TempPrefix + "4000000000000", TempPrefix + "0123456789ab", TempPrefix + "0123456789ABC", TempPrefix + "012345678-abc", strings.TrimPrefix(tempName(), "."),
	} {
		if IsTemp(name) {
			t.Errorf("%q is taken for temporary", name)
		}
	}
}
