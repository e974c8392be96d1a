package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	forkMost   = int64(30 * time.Millisecond) // at 10,000 files with 10 changed
	forkBound  = 1.0 / 30                     // of cp -a
	forksBound = 1.7                          // the disk of 100 forks, of that of one
)

// benchSnapshot compares snapshots, forks and restores with common tools, on trees of
// text in which ten files change.
func benchSnapshot(ctx context.Context, b *bench) error {
	sizes := []int{1_000, 10_000}
	if b.large {
		sizes = append(sizes, 100_000)
	}
	for _, n := range sizes {
		b.limitRepetitions(n)
		g, err := newSnapshotTree(ctx, b, n)
		if err != nil {
			return err
		}
		for _, part := range []func(context.Context, *bench) error{g.benchFirst, g.benchSecond, g.benchRestore, g.benchFork} {
			err := part(ctx, b)
			g.removeTrash()
			b.between = nil
			if err != nil {
				return err
			}
		}
		b.runCleanups()
	}
	return benchForks(ctx, b)
}

// limitRepetitions lowers the minimum of runs for large trees.
func (b *bench) limitRepetitions(files int) {
	b.minRuns = 0
	if files >= 100_000 {
		b.minRuns = 2
	}
}

// A snapshotTree is a tree of files, and a directory for copies of it.
type snapshotTree struct {
	n     int
	dir   string
	tree  string
	count int
	trash []string
}

func newSnapshotTree(_ context.Context, b *bench, n int) (*snapshotTree, error) {
	dir, err := b.tempDir()
	if err != nil {
		return nil, err
	}
	g := &snapshotTree{n: n, dir: dir, tree: filepath.Join(dir, "tree")}
	return g, textTree(g.tree, n)
}

// newPath is a path that removeTrash removes.
func (g *snapshotTree) newPath(name string) string {
	g.count++
	path := filepath.Join(g.dir, fmt.Sprintf("%s%d", name, g.count))
	g.trash = append(g.trash, path)
	return path
}

func (g *snapshotTree) removeTrash() {
	for _, path := range g.trash {
		os.RemoveAll(path)
	}
	g.trash = nil
}

func (g *snapshotTree) rowName(what string) string { return fmt.Sprintf("%s, %d files", what, g.n) }

func openStore(dir string) *snapshot.Store {
	return snapshot.Open(snapshot.Dir(dir), &snapshot.Options{CacheDir: filepath.Join(dir, "cache")})
}

// benchFirst compares the first snapshot of a tree, into an empty store.
func (g *snapshotTree) benchFirst(ctx context.Context, b *bench) error {
	b.between = g.removeTrash
	b.before = syncDisk // so that ours does not wait for dirty pages of tar and git
	defer func() { b.before = nil }()
	ours := repeatSide(func() error {
		_, err := openStore(g.newPath("store")).Take(ctx, snapshot.HostDir(g.tree, nil), &snapshot.TakeOptions{Cache: "tree"})
		return err
	})
	tar := repeatSide(func() error {
		return runShell(ctx, g.tree, `tar cf - . | zstd -1 -q -o "$1"`, g.newPath("tar"))
	})
	if err := b.compareSides(ctx, g.rowName("first snapshot"), "tar | zstd -1", 1.45, ours, tar); err != nil {
		return err
	}
	git := repeatSide(func() error {
		return runShell(ctx, g.tree, `export GIT_DIR="$1" GIT_WORK_TREE=.; git init -q && git add -A && `+commit, g.newPath("git"))
	})
	return b.compareSides(ctx, g.rowName("first snapshot"), "git add -A && git commit", 1, ours, git)
}

const commit = `git -c gc.auto=0 -c user.name=b -c user.email=b@example.com commit -q --no-verify -m x`

// benchSecond compares a snapshot after ten files changed.
func (g *snapshotTree) benchSecond(ctx context.Context, b *bench) error {
	time.Sleep(100 * time.Millisecond) // files that were written just now are not cached
	s, repo := openStore(g.newPath("store")), g.newPath("git")
	if _, err := s.Take(ctx, snapshot.HostDir(g.tree, nil), &snapshot.TakeOptions{Cache: "tree"}); err != nil {
		return err
	}
	if err := runShell(ctx, g.tree, `export GIT_DIR="$1" GIT_WORK_TREE=.; git init -q && git add -A && `+commit, repo); err != nil {
		return err
	}
	ours := func() error {
		_, err := s.Take(ctx, snapshot.HostDir(g.tree, nil), &snapshot.TakeOptions{Cache: "tree"})
		return err
	}
	git := func() error {
		return runShell(ctx, g.tree, `export GIT_DIR="$1" GIT_WORK_TREE=.; git add -A && `+commit, repo)
	}
	changed := func(f func() error) side {
		return repeatSide(func() error {
			g.count++
			if err := changeSome(g.tree, g.n, g.count); err != nil {
				return err
			}
			return f()
		})
	}
	return b.compareSides(ctx, g.rowName("snapshot, 10 changed"), "git add -A && git commit", 1, changed(ours), changed(git))
}

// benchRestore compares extracting a snapshot into a new directory with a copy of the
// tree.
func (g *snapshotTree) benchRestore(ctx context.Context, b *bench) error {
	store := filepath.Join(g.dir, "kept")
	m, err := openStore(store).Take(ctx, snapshot.HostDir(g.tree, nil), nil)
	if err != nil {
		return err
	}
	b.between = g.removeTrash
	ours := repeatSide(func() error {
		to := g.newPath("restored")
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
		return snapshot.Extract(ctx, openStore(store).StoredTree(m.Root), to, nil)
	})
	cp := repeatSide(func() error { return exec.CommandContext(ctx, "cp", "-a", g.tree, g.newPath("copy")).Run() })
	return b.compareSides(ctx, g.rowName("restore into a new directory"), "cp -a", 1.2, ours, cp)
}

// benchFork compares a snapshot of a sandbox in which ten files changed, and a new
// sandbox from it, with a copy of the tree.
func (g *snapshotTree) benchFork(ctx context.Context, b *bench) error {
	p, err := snapshotSandbox(ctx, b)
	if err != nil {
		return err
	}
	ws, err := p.openTree(ctx, g.tree)
	if err != nil {
		return err
	}
	if err := p.changeFiles(ctx, ws, g.n, 1); err != nil {
		return err
	}
	var opened []*driver.Workspace
	b.between = func() {
		g.removeTrash()
		destroyAll(ctx, opened)
		opened = nil
	}
	b.addCleanup(func() { destroyAll(ctx, append(opened, ws)) })
	ours := repeatSide(func() error {
		info, err := ws.Life.Snapshot.Snapshot(ctx, &driver.SnapshotOptions{})
		if err != nil {
			return err
		}
		fork, err := p.openSnapshot(ctx, info.ID)
		if err == nil {
			opened = append(opened, fork)
		}
		return err
	})
	cp := repeatSide(func() error { return exec.CommandContext(ctx, "cp", "-a", g.tree, g.newPath("copy")).Run() })
	bound := forkBound
	if g.n < 10_000 {
		bound = 1 // a small tree is soon copied
	}
	err = b.compareSides(ctx, g.rowName("fork of a sandbox, 10 changed"), "cp -a", bound, ours, cp)
	if err == nil && g.n == 10_000 {
		b.atMost(forkMost)
	}
	return err
}

// benchForks compares sealing and forking sandboxes of different sizes with a small one,
// and the disk use of a hundred forks with that of one.
func benchForks(ctx context.Context, b *bench) error {
	small, err := newSealed(ctx, b, 1_000)
	if err != nil {
		return err
	}
	sizes := []int{10_000}
	if b.large {
		sizes = append(sizes, 100_000)
	}
	for _, n := range sizes {
		large, err := newSealed(ctx, b, n)
		if err != nil {
			return err
		}
		b.between = func() { small.destroyForks(ctx); large.destroyForks(ctx) }
		b.addCleanup(b.between)
		ours := repeatSide(func() error { return large.forkSandbox(ctx) })
		theirs := repeatSide(func() error { return small.forkSandbox(ctx) })
		if err := b.compareSides(ctx, fmt.Sprintf("fork from a sealed layer of %d files", n), "from one of 1000", 1.5, ours, theirs); err != nil {
			return err
		}
		ours = repeatSide(func() error { return large.sealFork(ctx) })
		theirs = repeatSide(func() error { return small.sealFork(ctx) })
		if err := b.compareSides(ctx, fmt.Sprintf("seal a sandbox of %d files, 10 changed", n), "one of 1000", 1.5, ours, theirs); err != nil {
			return err
		}
		b.between()
		b.between = nil
		if n == 10_000 {
			if err := large.addDiskRow(ctx, b); err != nil {
				return err
			}
			large.destroyForks(ctx)
		}
	}
	return nil
}

// sealedSandbox is a sandbox that was sealed.
type sealedSandbox struct {
	p     *snapshotProvider
	n     int
	id    string
	forks []*driver.Workspace
}

func newSealed(ctx context.Context, b *bench, n int) (*sealedSandbox, error) {
	g, err := newSnapshotTree(ctx, b, n)
	if err != nil {
		return nil, err
	}
	p, err := snapshotSandbox(ctx, b)
	if err != nil {
		return nil, err
	}
	ws, err := p.openTree(ctx, g.tree)
	if err != nil {
		return nil, err
	}
	defer destroyAll(ctx, []*driver.Workspace{ws})
	info, err := ws.Life.Snapshot.Seal(ctx, &driver.SnapshotOptions{})
	return &sealedSandbox{p: p, n: n, id: info.ID}, err
}

func (s *sealedSandbox) forkSandbox(ctx context.Context) error {
	ws, err := s.p.openSnapshot(ctx, s.id)
	if err == nil {
		s.forks = append(s.forks, ws)
	}
	return err
}

// sealFork makes a fork, changes ten files, and seals the fork.
func (s *sealedSandbox) sealFork(ctx context.Context) error {
	if err := s.forkSandbox(ctx); err != nil {
		return err
	}
	ws := s.forks[len(s.forks)-1]
	if err := s.p.changeFiles(ctx, ws, s.n, 1); err != nil {
		return err
	}
	_, err := ws.Life.Snapshot.Seal(ctx, &driver.SnapshotOptions{})
	return err
}

func (s *sealedSandbox) destroyForks(ctx context.Context) {
	destroyAll(ctx, s.forks)
	s.forks = nil
}

// addDiskRow compares the disk use of the sealed layer with 100 forks, in each of which
// ten files changed, with that of one fork.
func (s *sealedSandbox) addDiskRow(ctx context.Context, b *bench) error {
	var one int64
	for i := range 100 {
		if err := s.forkSandbox(ctx); err != nil {
			return err
		}
		if err := s.p.changeFiles(ctx, s.forks[i], s.n, i); err != nil {
			return err
		}
		if i == 0 {
			var err error
			if one, err = diskUse(s.p.dir); err != nil {
				return err
			}
		}
	}
	all, err := diskUse(s.p.dir)
	if err != nil {
		return err
	}
	b.addRow(Row{Family: b.family, Name: "disk of 100 forks of 10000 files, 10 changed in each", Ref: "of one", OursNS: all, RefNS: one,
		Ratio: float64(all) / float64(one), N: 1, Bound: forksBound, Unit: bytesUnit})
	return nil
}

// snapshotProvider is a provider of sandboxes with a store of snapshots.
type snapshotProvider struct {
	*sandbox.Provider
	dir string
}

func snapshotSandbox(ctx context.Context, b *bench) (*snapshotProvider, error) {
	bin, err := b.tempDir()
	if err != nil {
		return nil, err
	}
	dir, err := b.tempDir()
	if err != nil {
		return nil, err
	}
	guest, err := buildGuest(ctx, bin)
	if err != nil {
		return nil, err
	}
	p, err := sandbox.New(&sandbox.Config{Root: filepath.Join(dir, "ws"), Guest: guest, Snapshots: openStore(filepath.Join(dir, "store"))})
	if err != nil {
		return nil, err
	}
	b.addCleanup(func() { p.Close() })
	return &snapshotProvider{p, dir}, nil
}

// openTree opens a sandbox from a snapshot of a tree.
func (p *snapshotProvider) openTree(ctx context.Context, tree string) (*driver.Workspace, error) {
	m, err := openStore(filepath.Join(p.dir, "store")).Take(ctx, snapshot.HostDir(tree, nil), nil)
	if err != nil {
		return nil, err
	}
	return p.openSnapshot(ctx, m.ID)
}

func (p *snapshotProvider) openSnapshot(ctx context.Context, id string) (*driver.Workspace, error) {
	return p.Open(ctx, driver.Spec{ID: driver.NewID(), Kind: sandbox.Kind, From: driver.Source{Snapshot: id}})
}

// changeFiles changes ten files in a sandbox.
func (p *snapshotProvider) changeFiles(ctx context.Context, ws *driver.Workspace, n, turn int) error {
	for k := range 10 {
		i := (k*n/10 + turn) % n
		name := fmt.Sprintf("mod%02d/pkg%02d/file%06d.txt", i/2000, i/40%50, i)
		if _, err := ws.FS.Write(ctx, name, strings.NewReader(strings.Repeat("a changed line\n", 100)), &driver.WriteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func destroyAll(ctx context.Context, list []*driver.Workspace) {
	for _, ws := range list {
		ws.Life.Destroy(context.WithoutCancel(ctx)) // the directory goes with the family
	}
}

func runShell(ctx context.Context, dir, script string, args ...string) error {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return nil
}

// diskUse is the disk use of a directory, with each inode counted once.
func diskUse(dir string) (int64, error) {
	var total int64
	seen := map[uint64]bool{}
	err := filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		if !seen[st.Ino] {
			seen[st.Ino] = true
			total += st.Blocks * 512
		}
		return nil
	})
	return total, err
}
