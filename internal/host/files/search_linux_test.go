package files_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace/driver"
)

// makeProject makes a tree with everything that the rules of a walk are about.
func makeProject(t testing.TB, r *files.Root, dir string) {
	t.Helper()
	for name, content := range map[string]string{
		".gitignore": "*.log\nbuild/\n!keep.log\n", "main.go": "package main\nfunc main() { needle() }\n", "a.log": "needle\n", "keep.log": "needle\n",
		"build/out.go": "needle\n", "src/.gitignore": "/gen\n*.tmp\n", "src/gen/x.go": "needle\n", "src/sub/gen/y.go": "needle\n",
		"src/sub/z.tmp": "needle\n", ".hidden/h.go": "needle\n", ".env": "needle=1\n", ".git/config": "needle\n", "src/sub-a/f.go": "Needle\nNEEDLE\n",
		"src/sub/f.go": "one\ntwo needle\nthree\n", "bin/data": "need\x00le needle\n", "empty": "", "b/c/d/e/f/g.txt": "no\n", "src/sub.go": "needle",
	} {
		put(t, r, name, content)
	}
	for i := range 200 {
		put(t, r, fmt.Sprintf("many/f%03d.txt", i), fmt.Sprintf("line\nneedle %d\n", i))
	}
	must(t, os.Symlink("src", filepath.Join(dir, "link")))
	must(t, os.Symlink("../outside", filepath.Join(dir, "out")))
	must(t, os.WriteFile(filepath.Join(dir, "big.txt"), []byte("needle\n"+strings.Repeat("x", 11<<20)), 0o644))
}

// The walk by descriptors and the one over any driver.Files answer the same.
func TestSearchEqualsTheGenericOne(t *testing.T) {
	r, dir := open(t, nil)
	makeProject(t, r, dir)
	for _, pattern := range []string{"**/*", "**/*.go", "src/**", "*", "src/*/f.go", "{src,many}/**/*.{go,txt}", "**/.env", ".git/*", "link/*.go", "none/*", "main.go", "build/*", "src/gen/*", "*/sub*"} {
		for bits := range 32 {
			o := &driver.GlobOptions{GitIgnore: bits&1 != 0, Hidden: bits&2 != 0, Dirs: bits&4 != 0, Stat: bits&8 != 0}
			if bits&16 != 0 {
				o.Path, o.Limit = "src", 3
			}
			got, err := r.Glob(t.Context(), pattern, o)
			want, errWant := search.GlobFiles(t.Context(), r, pattern, o)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || fault.Of(err) != fault.Of(errWant) {
				t.Errorf("glob %s %+v: %v, %v\n%s", pattern, *o, err, errWant, diff)
			}
		}
	}
	for _, pattern := range []string{"needle", "ne+dle", "two|three", "zzz"} {
		for bits := range 64 {
			o := &driver.GrepOptions{GitIgnore: bits&1 != 0, Hidden: bits&2 != 0, IgnoreCase: bits&4 != 0}
			if bits&8 != 0 {
				o.MaxMatches, o.After, o.MaxPerFile = 7, 1, 1
			}
			if bits&16 != 0 {
				o.Path = []string{"src", "link", "main.go"}[bits/2%3]
			}
			if bits&32 != 0 {
				o.Include, o.Exclude = []string{"*.go", "many/**"}, []string{"sub", "*9.txt"}
			}
			got, err := r.Grep(t.Context(), pattern, o)
			want, errWant := search.GrepFiles(t.Context(), r, pattern, o)
			opts := cmp.Options{cmpopts.EquateEmpty()}
			if want.Truncated != "" { // how far each looked differs then
				opts = append(opts, cmpopts.IgnoreFields(driver.GrepResult{}, "Searched", "Skipped", "Skips"))
			}
			if diff := cmp.Diff(want, got, opts); diff != "" || fault.Of(err) != fault.Of(errWant) {
				t.Errorf("grep %s %+v: %v, %v\n%s", pattern, *o, err, errWant, diff)
			}
		}
	}
}

func TestGrepSaysWhatItSkipped(t *testing.T) {
	r, dir := open(t, nil)
	makeProject(t, r, dir)
	res, err := r.Grep(t.Context(), "needle", &driver.GrepOptions{Include: []string{"data", "big.txt", "main.go"}})
	must(t, err)
	want := driver.GrepResult{
		Matches:  []driver.Match{{Path: "main.go", Line: 2, Column: 15, Text: "func main() { needle() }"}},
		Skipped:  []driver.Skip{{Path: "big.txt", Reason: driver.SkipTooBig}, {Path: "bin/data", Reason: driver.SkipBinary}},
		Skips:    2,
		Searched: 1,
	}
	if diff := cmp.Diff(want, res); diff != "" {
		t.Error(diff)
	}
	res, err = r.Grep(t.Context(), "needle", &driver.GrepOptions{MaxFileSize: -1, Include: []string{"big.txt"}})
	if err != nil || len(res.Matches) != 1 {
		t.Errorf("without a limit of size: %+v, %v", res, err)
	}
	res, err = r.Grep(t.Context(), "needle", &driver.GrepOptions{MaxTime: time.Nanosecond})
	if err != nil || res.Truncated != "time" || res.Skips == 0 || res.Skipped[0].Reason != driver.SkipTime {
		t.Errorf("without time: %+v, %v", res, err)
	}
	if os.Getuid() != 0 {
		must(t, os.Chmod(filepath.Join(dir, "main.go"), 0))
		res, err = r.Grep(t.Context(), "needle", &driver.GrepOptions{Include: []string{"main.go"}})
		if err != nil || res.Skips != 1 || res.Skipped[0].Reason != driver.SkipUnreadable {
			t.Errorf("unreadable: %+v, %v", res, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Grep(ctx, "needle", nil)
	wantCode(t, err, fault.Canceled)
	_, err = r.Grep(t.Context(), "(", nil)
	wantCode(t, err, fault.InvalidArgument)
	_, err = r.Grep(t.Context(), "x", &driver.GrepOptions{Path: "none"})
	wantCode(t, err, fault.NotFound)
	_, err = r.Grep(t.Context(), "x", &driver.GrepOptions{Include: []string{"["}})
	wantCode(t, err, fault.InvalidArgument)
}
