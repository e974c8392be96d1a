package snapshot

import (
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/workspace/driver"
)

// TestKilled kills a process in the middle of snapshots, restores and gc.
// CROFT_SNAPSHOT_KILLS is how often.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("CROFT_SNAPSHOT_VICTIM"); dir != "" {
		victim(t, dir)
		return
	}
	base := t.TempDir()
	for _, side := range []string{"a", "b"} {
		must0(t, os.MkdirAll(filepath.Join(base, side), 0o755))
		r := rand.New(rand.NewPCG(11, uint64(side[0])))
		for range 3 {
			budget := 40
			grow(t, r, filepath.Join(base, side), &budget, 0)
		}
	}
	must0(t, os.MkdirAll(filepath.Join(base, "target"), 0o755))
	must0(t, os.MkdirAll(filepath.Join(base, "stage"), 0o755))
	s := Open(Dir(filepath.Join(base, "store")), nil)
	a, b := take(t, s, filepath.Join(base, "a"), nil), take(t, s, filepath.Join(base, "b"), nil)
	states := map[string]bool{a.Digest: true, b.Digest: true}
	must0(t, Extract(t.Context(), s.StoredTree(a.Root), filepath.Join(base, "target"), nil))
	seen := map[string]int{}
	r := rand.New(rand.NewPCG(5, uint64(time.Now().UnixNano())))
	for i := range rounds("CROFT_SNAPSHOT_KILLS", 20) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "CROFT_SNAPSHOT_VICTIM="+base, "A="+a.Root.String(), "B="+b.Root.String())
		out, err := cmd.StdoutPipe()
		must0(t, err)
		must0(t, cmd.Start())
		io.ReadFull(out, make([]byte, 3))
		time.Sleep(time.Duration(r.IntN(80_000)) * time.Microsecond)
		must0(t, cmd.Process.Kill())
		cmd.Wait()
		target := filepath.Join(base, "target")
		_, err = Recover(t.Context(), target, filepath.Join(base, "stage"), "")
		must0(t, err)
		got, err := Digest(t.Context(), HostDir(target, nil))
		must0(t, err)
		if !states[got] {
			t.Fatalf("round %d: after the kill the tree is neither the old nor the new one", i)
		}
		seen[got]++
		sound(t, Open(Dir(filepath.Join(base, "store")), nil))
		for _, m := range []*Manifest{a, b} {
			if got, err := Digest(t.Context(), s.StoredTree(m.Root)); err != nil || got != m.Digest {
				t.Fatalf("round %d: a snapshot is lost: %v", i, err)
			}
		}
	}
	t.Logf("states after kills: %v", seen)
}

// victim works until it is killed.
func victim(t *testing.T, base string) {
	s := Open(Dir(filepath.Join(base, "store")), &Options{CacheDir: filepath.Join(base, "cache")})
	target := filepath.Join(base, "target")
	os.Stdout.WriteString("go\n")
	for i := time.Now().Nanosecond() >> 8; ; i++ {
		root, err := ParseID(os.Getenv([]string{"A", "B"}[i%2]))
		must0(t, err)
		_, err = Restore(t.Context(), s.StoredTree(root), target, &RestoreOptions{Stage: filepath.Join(base, "stage")})
		must0(t, err)
		m := take(t, s, target, &TakeOptions{Cache: "target"})
		must0(t, s.Delete(t.Context(), m.ID))
		if _, err := s.GC(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKilledApply kills a process in the middle of applies and of their undoing,
// at random moments and between any two steps. The directory is as it was or as it
// was to be, the store is sound, and what was applied can be taken back.
// CROFT_SNAPSHOT_KILLS is how often.
func TestKilledApply(t *testing.T) {
	if dir := os.Getenv("CROFT_APPLY_VICTIM"); dir != "" {
		applyVictim(t, dir)
		return
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	states := map[string]string{applyGround(t, dir): "old"}
	want, err := Apply(t.Context(), HostDir(at("base"), nil), HostDir(at("theirs"), nil), at("merged"), nil)
	must0(t, err)
	if len(want.Applied) < 20 || len(want.Conflicts) > 0 {
		t.Fatalf("the ground is not what it should be: %d applied, %v", len(want.Applied), want.Conflicts)
	}
	done, err := Digest(t.Context(), HostDir(at("merged"), nil))
	must0(t, err)
	states[done] = "new"
	seen := map[string]int{}
	r := rand.New(rand.NewPCG(6, uint64(time.Now().UnixNano())))
	for i := range rounds("CROFT_SNAPSHOT_KILLS", 16) {
		step := 0
		if i%2 == 0 {
			step = 1 + r.IntN(len(want.Applied)+4)
		}
		killApply(t, dir, step, time.Duration(r.IntN(60_000))*time.Microsecond)
		s := Open(Dir(at("store")), nil)
		recoverAll(t, at("journals"), s)
		for _, left := range []string{filepath.Join(at("target"), stagePrefix+"*"), filepath.Join(at("journals"), "*")} {
			if names, err := filepath.Glob(left); err != nil || len(names) > 0 {
				t.Fatalf("round %d, step %d: left behind: %v, %v", i, step, names, err)
			}
		}
		got, err := Digest(t.Context(), HostDir(at("target"), nil))
		must0(t, err)
		if states[got] == "" {
			t.Fatalf("round %d, step %d: after the kill the directory is neither the old nor the new one", i, step)
		}
		seen[states[got]]++
		if left, err := listStages(at("target")); err != nil || len(left) > 0 {
			t.Errorf("round %d: %q is left, %v", i, left, err)
		}
		sound(t, s)
		if states[got] == "new" {
			undoNewest(t, s, at("target"), at("journals"))
		}
	}
	t.Logf("states after kills: %v", seen)
}

func recoverAll(t *testing.T, journals string, undo ...*Store) []Recovered {
	t.Helper()
	done, err := RecoverAll(t.Context(), journals, undo...)
	must0(t, err)
	return done
}

// TestKilledApplyThenEdits edits a directory after an apply to it was killed in the middle:
// the rest of the change is completed, and the edits stay.
func TestKilledApplyThenEdits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edits map[string]string // "" removes
		left  []string          // paths that Recover leaves; nil for no path
	}{
		{"none", nil, nil},
		{"after the step", map[string]string{"d0/f12": "mine"}, nil},
		{"before the step", map[string]string{"d1/f1": "mine", "d1/f13": "", "d1/f25-moved": "mine", "d1/f25": "mine", "d2/f2": "mine"}, []string{"d1/f1", "d1/f13", "d1/f25", "d1/f25-moved", "d2/f2"}},
		{"a directory is gone", map[string]string{"d3": ""}, []string{"d3/f11", "d3/f15-moved", "d3/f19", "d3/f23", "d3/f27", "d3/f3", "d3/f7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name string) string { return filepath.Join(dir, name) }
			applyGround(t, dir)
			_, err := Apply(t.Context(), HostDir(at("base"), nil), HostDir(at("theirs"), nil), at("merged"), nil)
			must0(t, err)
			const moves = 5
			killApply(t, dir, moves+2, 0)
			if now, want := harvest(t, at("target"))["d0/f12"], harvest(t, at("merged"))["d0/f12"]; now != want {
				t.Fatalf("d0/f12 was not applied before the kill: %s", now)
			}
			for _, side := range []string{"target", "merged"} {
				for name, text := range tt.edits {
					must0(t, os.RemoveAll(at(side+"/"+name)))
					if text != "" {
						must0(t, os.WriteFile(at(side+"/"+name), []byte(text), 0o644))
					}
				}
			}
			done := recoverAll(t, at("journals"), Open(Dir(at("store")), nil))
			if diff := cmp.Diff([]Recovered{{Dir: at("target"), Apply: true, Left: tt.left}}, done); diff != "" {
				t.Errorf("recovered (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(harvest(t, at("merged")), harvest(t, at("target"))); diff != "" {
				t.Errorf("the directory (-want +got):\n%s", diff)
			}
			if left, err := listStages(at("target")); err != nil || len(left) > 0 {
				t.Errorf("%q is left, %v", left, err)
			}
		})
	}
}

// TestKilledApplyThenAllEdited: if everything was changed since the kill, nothing is completed.
func TestKilledApplyThenAllEdited(t *testing.T) {
	dir := t.TempDir()
	applyGround(t, dir)
	killApply(t, dir, 2, 0)                           // after the journal
	for _, side := range []string{"base", "theirs"} { // which has the new names
		names, err := filepath.Glob(filepath.Join(dir, side, "*/*"))
		must0(t, err)
		for _, name := range names {
			must0(t, os.WriteFile(strings.Replace(name, "/"+side+"/", "/target/", 1), []byte("mine"), 0o644))
		}
	}
	done := recoverAll(t, filepath.Join(dir, "journals"), Open(Dir(filepath.Join(dir, "store")), nil))
	if len(done) != 1 || !done[0].None || !strings.Contains(done[0].String(), "was not completed: its files were changed since, and are left as they are: d0/f") {
		t.Errorf("recovered %v", done)
	}
}

// TestKilledBeforeApply kills an apply between the snapshot for Undo and the first step: it
// leaves nothing to undo, also if the first to recover has no store.
func TestKilledBeforeApply(t *testing.T) {
	dir := t.TempDir()
	journals, s := filepath.Join(dir, "journals"), Open(Dir(filepath.Join(dir, "store")), nil)
	applyGround(t, dir)
	for _, stores := range [][]*Store{{s}, nil} {
		killApply(t, dir, 1, 0)
		if list, err := s.List(t.Context()); err != nil || len(list) != 1 {
			t.Fatalf("%d snapshots after the kill, %v", len(list), err)
		}
		if done := recoverAll(t, journals, stores...); len(done) > 0 {
			t.Errorf("completed: %v", done)
		}
		recoverAll(t, journals, s)
		if list, err := s.List(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("%d snapshots are left, %v", len(list), err)
		}
		if left, err := os.ReadDir(journals); err != nil || len(left) > 0 {
			t.Errorf("%v is left of journals, %v", left, err)
		}
	}
}

// undoNewest takes back what the newest apply did.
func undoNewest(t *testing.T, s *Store, dir, journals string) {
	t.Helper()
	all, err := s.List(t.Context())
	must0(t, err)
	if len(all) == 0 {
		t.Fatal("there is nothing to undo the apply with")
	}
	if _, err := Undo(t.Context(), s, all[0].ID, dir, &UndoOptions{Journals: journals}); err != nil {
		t.Fatal(err)
	}
}

// applyGround makes three trees in dir, of which two differ from the first at
// different places, and copies of the second that are applied to, whose digest it
// returns.
func applyGround(t *testing.T, dir string) string {
	t.Helper()
	for _, side := range []string{"base", "theirs", "target", "merged"} {
		for k := range 30 {
			lines := make([]string, 40)
			for i := range lines {
				lines[i] = strconv.Itoa(i * k)
			}
			name := "d" + strconv.Itoa(k%4) + "/f" + strconv.Itoa(k)
			switch {
			case side == "theirs" && k%5 == 0:
				name += "-moved"
			case side == "theirs":
				lines[3] = "theirs"
			case side != "base" && k%2 == 0:
				lines[30] = "ours"
			}
			if k%5 == 0 && side != "base" && side != "theirs" {
				lines[30] = strconv.Itoa(30 * k) // it goes, so nobody may have changed it
			}
			path := filepath.Join(dir, side, name)
			must0(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must0(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		}
	}
	digest, err := Digest(t.Context(), HostDir(filepath.Join(dir, "target"), nil))
	must0(t, err)
	return digest
}

// killApply lets a victim work, and kills it, or waits until it kills itself.
func killApply(t *testing.T, dir string, step int, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledApply$")
	cmd.Env = append(os.Environ(), "CROFT_APPLY_VICTIM="+dir, "STEP="+strconv.Itoa(step))
	out, err := cmd.StdoutPipe()
	must0(t, err)
	must0(t, cmd.Start())
	io.ReadFull(out, make([]byte, 3))
	if step == 0 {
		time.Sleep(after)
		must0(t, cmd.Process.Kill())
	}
	said, _ := io.ReadAll(out)
	cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("step %d: the victim ended by itself: %v: %s", step, cmd.ProcessState, said)
	}
}

// applyVictim applies and takes back until it is killed.
func applyVictim(t *testing.T, dir string) {
	last, err := strconv.Atoi(os.Getenv("STEP"))
	must0(t, err)
	ctx, steps := t.Context(), 0
	if last > 0 {
		ctx = driver.WithSteps(ctx, func(string) {
			if steps++; steps == last {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
	}
	base, theirs, target := HostDir(filepath.Join(dir, "base"), nil), HostDir(filepath.Join(dir, "theirs"), nil), filepath.Join(dir, "target")
	journals := filepath.Join(dir, "journals")
	s := Open(Dir(filepath.Join(dir, "store")), nil)
	os.Stdout.WriteString("go\n")
	for {
		res, err := Apply(ctx, base, theirs, target, &ApplyOptions{Undo: s, Journals: journals})
		must0(t, err)
		if !res.Done || res.Undo == "" {
			t.Fatalf("applied: %+v", res)
		}
		_, err = Undo(ctx, s, res.Undo, target, &UndoOptions{Journals: journals})
		must0(t, err)
		must0(t, s.Delete(ctx, res.Undo))
		_, err = s.GC(ctx)
		must0(t, err)
	}
}
