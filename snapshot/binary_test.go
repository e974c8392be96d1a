package snapshot

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// patchNames are hard for programs that read patches.
var patchNames = []string{
	"plain", "with space", " leading", "trailing ", "tab\there", "new\nline", `quo"te`, `back\slash`, "ä", "latin\xe4", "\x01", "-dash", "a", "b",
	"a b/c d", "sub/plain", "sub/deep/er", "sub/a b", "dev/null", "x -> y", "+++ b", "--- a",
}

// patchContent is content of one of the kinds that patches tell apart.
func patchContent(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return ""
	case 1: // binary
		data := make([]byte, r.IntN(300))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		return "\x00" + string(data)
	case 2: // binary, and of several lines of base 85
		return strings.Repeat(fmt.Sprintf("%d\x00\n", r.Uint64()), 1+r.IntN(400))
	case 3:
		return "latin \xe4\xff\n" + randomText(r)
	case 4: // a NUL where neither git nor we look for one
		return strings.Repeat("line\n", 1700) + fmt.Sprintf("nul \x00 %d\n", r.IntN(9))
	case 5:
		return fmt.Sprintf("carriage\r\nreturn %d\r\n", r.IntN(9))
	}
	return randomText(r)
}

// patchTree makes a random tree of files and symlinks.
func patchTree(t *testing.T, r *rand.Rand, dir string) {
	t.Helper()
	for _, name := range patchNames {
		if r.IntN(2) == 0 {
			patchFile(t, r, filepath.Join(dir, name))
		}
	}
}

func patchFile(t *testing.T, r *rand.Rand, path string) {
	t.Helper()
	must0(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if r.IntN(6) == 0 {
		must0(t, os.Symlink([]string{"elsewhere", "../out", "no\nwhere", "sub/latin\xe4"}[r.IntN(4)], path))
		return
	}
	must0(t, os.WriteFile(path, []byte(patchContent(r)), []fs.FileMode{0o644, 0o755, 0o600}[r.IntN(3)]))
}

// patchChange changes a tree: files appear, go, move, change content, mode and type.
func patchChange(t *testing.T, r *rand.Rand, dir string) {
	t.Helper()
	for _, name := range patchNames {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(filepath.Dir(path)); err == nil && !info.IsDir() {
			continue // its directory became a file
		}
		info, err := os.Lstat(path)
		switch do := r.IntN(8); {
		case err != nil && do < 3:
			patchFile(t, r, path)
		case err != nil || info.IsDir():
		case do == 0:
			must0(t, os.Remove(path))
		case do == 1:
			must0(t, os.Remove(path))
			patchFile(t, r, path)
		case do == 2 && info.Mode().IsRegular():
			must0(t, os.Chmod(path, info.Mode()^0o111))
		case do == 3:
			must0(t, os.MkdirAll(filepath.Join(dir, "moved to"), 0o755))
			must0(t, os.Rename(path, filepath.Join(dir, "moved to", filepath.Base(path)+fmt.Sprint(r.IntN(1000)))))
		case do == 4 && info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			must0(t, err)
			must0(t, os.WriteFile(path, []byte(mutateText(r, string(data))), 0o644))
		case do == 5: // a file becomes a directory
			must0(t, os.Remove(path))
			patchFile(t, r, filepath.Join(path, "inner"))
		}
	}
	if r.IntN(3) == 0 { // a directory becomes a file
		must0(t, os.RemoveAll(filepath.Join(dir, "sub")))
		patchFile(t, r, filepath.Join(dir, "sub"))
	}
}

// tracked lists what git knows of a tree: files with whether they can be run, and
// links.
func tracked(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must0(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		must0(t, err)
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			all[rel] = "-> " + target
			return err
		}
		info, err := d.Info()
		must0(t, err)
		data, err := os.ReadFile(path)
		all[rel] = fmt.Sprint(info.Mode()&0o100 != 0, " ", string(data))
		return err
	}))
	return all
}

// overTheWire returns a comparison as a client of a server has it.
func overTheWire(t *testing.T, d *Comparison) *Comparison {
	t.Helper()
	data, err := json.Marshal(d)
	must0(t, err)
	back := &Comparison{}
	must0(t, json.Unmarshal(data, back))
	return back
}

func gitApply(t *testing.T, dir, patch string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "core.autocrlf=false", "apply", "--whitespace=nowarn"}, args...)...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply %v: %v: %s\n%q", args, err, out, patch)
	}
}

// retyped reports whether a path goes and comes in one comparison, as another thing.
func retyped(d *Comparison) bool {
	seen := map[string]int{}
	for i := range d.Changes {
		c := &d.Changes[i]
		seen[c.Path]++
		if c.From != "" {
			seen[c.From]++
		}
		if seen[c.Path] > 1 || seen[c.From] > 1 {
			return true
		}
	}
	return false
}

// TestBinaryPatch gives patches of random trees to git apply, forth and back.
func TestBinaryPatch(t *testing.T) {
	back := 0
	defer func() {
		if back == 0 && !t.Failed() {
			t.Error("no patch was taken back")
		}
	}()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 7))
		top := t.TempDir()
		a, b := filepath.Join(top, "a"), filepath.Join(top, "b")
		patchTree(t, r, a)
		must0(t, os.MkdirAll(a, 0o755))
		if out, err := exec.CommandContext(t.Context(), "cp", "-a", a, b).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
		patchChange(t, r, b)
		opts := &DiffOptions{Text: true, Binary: true}
		if seed%4 == 3 {
			opts.MaxText = 50 // what is larger is told like what is binary
		}
		d, err := Diff(t.Context(), HostDir(a, nil), HostDir(b, nil), opts)
		must0(t, err)
		if len(d.Changes) == 0 {
			continue
		}
		var patch strings.Builder
		must0(t, overTheWire(t, d).WriteUnified(&patch))
		if patch.Len() == 0 { // only directories differ
			continue
		}
		before := tracked(t, a)
		gitApply(t, a, patch.String(), "--check", "-")
		gitApply(t, a, patch.String(), "-")
		if diff := cmp.Diff(tracked(t, b), tracked(t, a)); diff != "" {
			t.Fatalf("tree %d: the patch makes another one (-want +got):\n%s\n%s", seed, diff, patch.String())
		}
		if retyped(d) {
			continue // git apply -R looks at one of the two before it takes the other back
		}
		back++
		gitApply(t, a, patch.String(), "-R", "-")
		if diff := cmp.Diff(before, tracked(t, a)); diff != "" {
			t.Fatalf("tree %d: the patch does not lead back (-want +got):\n%s\n%s", seed, diff, patch.String())
		}
	}
}

// TestBinaryPatchAsGit writes for a binary file what git writes.
func TestBinaryPatchAsGit(t *testing.T) {
	a, b := plant(t, map[string]string{"f": "\x00one", "gone": "\x00\x01"}), plant(t, map[string]string{"f": "\x00" + strings.Repeat("two", 90), "new": "\x00"})
	d, err := Diff(t.Context(), HostDir(a, nil), HostDir(b, nil), &DiffOptions{Text: true, Binary: true})
	must0(t, err)
	cmd := exec.CommandContext(t.Context(), "git", "-c", "core.abbrev=no", "diff", "--no-index", "--binary", "--full-index", a, b)
	out, _ := cmd.Output() // its exit status says that they differ
	indexes := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			if line, ok := strings.CutPrefix(line, "index "); ok {
				lines = append(lines, strings.Fields(line)[0])
			}
		}
		return lines
	}
	var patch strings.Builder
	must0(t, d.WriteUnified(&patch))
	want := indexes(string(out))
	if len(want) != 3 {
		t.Fatalf("git diff says\n%s", out)
	}
	if diff := cmp.Diff(want, indexes(patch.String())); diff != "" {
		t.Errorf("index lines (-want +got):\n%s", diff)
	}
	if got := strings.Count(patch.String(), "GIT binary patch\nliteral "); got != 3 {
		t.Errorf("%d of 3 files are in\n%s", got, patch.String())
	}
}
