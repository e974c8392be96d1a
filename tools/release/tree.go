package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

const (
	releaseFile = "internal/version/release.txt"
	guestsDir   = "internal/host/guestbin/bin"
	modulePath  = "github.com/croft-run/croft"
)

// nested are the directories of other modules that are released with Croft's, under tags of
// their own.
var nested = []string{"contrib/trpcagent", "provider/kubernetes"}

// command runs a program in a directory and returns what it printed to standard output.
func command(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// goEnv makes builds independent of the settings of the machine and of the repository.
func goEnv(env ...string) []string {
	return append([]string{"GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0"}, env...)
}

// A source is the tree of a release in a directory.
type source struct {
	dir    string
	commit string // from which the release was made
	date   string // of that commit, in RFC 3339
}

// makeCommit makes the commit of a release from base and returns its id. It changes no
// branch, no tag and no file of the work tree.
func makeCommit(ctx context.Context, repo, base, version string) (string, error) {
	dir, err := os.MkdirTemp("", "croft-release-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := export(ctx, repo, base, dir); err != nil {
		return "", err
	}
	guests, err := makeGuests(ctx, dir)
	if err != nil {
		return "", err
	}
	described, err := command(ctx, repo, []string{"TZ=UTC"}, "git", "log", "-1", "--format=%H %cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", base)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, releaseFile), []byte(version+" "+described+"\n"), 0o644); err != nil {
		return "", err
	}
	_, date, _ := strings.Cut(described, " ")
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, ".release-index"), "GIT_AUTHOR_DATE=" + date, "GIT_COMMITTER_DATE=" + date}
	if _, err := command(ctx, repo, env, "git", "read-tree", base); err != nil {
		return "", err
	}
	tree, err := addFiles(ctx, repo, dir, env, append(guests, releaseFile))
	if err != nil {
		return "", err
	}
	files, err := requireRelease(ctx, repo, dir, tree, version)
	if err != nil {
		return "", err
	}
	if tree, err = addFiles(ctx, repo, dir, env, files); err != nil {
		return "", err
	}
	return command(ctx, repo, env, "git", "commit-tree", tree, "-p", base, "-m", "Release "+version)
}

// addFiles adds files of a directory to the index that env names, and returns its tree.
func addFiles(ctx context.Context, repo, dir string, env, names []string) (string, error) {
	for _, name := range names {
		blob, err := command(ctx, repo, nil, "git", "hash-object", "-w", filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		if _, err := command(ctx, repo, env, "git", "update-index", "--add", "--cacheinfo", "100644,"+blob+","+name); err != nil {
			return "", err
		}
	}
	return command(ctx, repo, env, "git", "write-tree")
}

// requireRelease makes the nested modules in dir require Croft's module at a version, whose
// tree is given, and returns the files that it changed. In the repository a replace directive
// names the directory of that module; "go install" refuses a module with one.
func requireRelease(ctx context.Context, repo, dir, tree, version string) ([]string, error) {
	sums, err := moduleSums(ctx, repo, tree, version)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, name := range nested {
		folder := filepath.Join(dir, name)
		if _, err := command(ctx, folder, goEnv(), "go", "mod", "edit", "-dropreplace="+modulePath, "-require="+modulePath+"@"+version); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(filepath.Join(folder, "go.sum"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		_, err = f.WriteString(sums)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		files = append(files, name+"/go.mod", name+"/go.sum")
	}
	return files, nil
}

// moduleSums returns the lines of go.sum for Croft's module in a tree. No file of a nested
// module counts in it.
func moduleSums(ctx context.Context, repo, tree, version string) (string, error) {
	dir, err := os.MkdirTemp("", "croft-module-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o700); err != nil {
		return "", err
	}
	if err := export(ctx, repo, tree, files); err != nil {
		return "", err
	}
	archive, err := os.Create(filepath.Join(dir, "module.zip"))
	if err != nil {
		return "", err
	}
	err = zip.CreateFromDir(archive, module.Version{Path: modulePath, Version: version}, files)
	if err := errors.Join(err, archive.Close()); err != nil {
		return "", err
	}
	all, err := dirhash.HashZip(archive.Name(), dirhash.Hash1)
	if err != nil {
		return "", err
	}
	mod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(filepath.Join(files, "go.mod")) })
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", modulePath, version, all, mod), nil
}

// makeGuests runs make guests in a tree and returns the names of the files.
func makeGuests(ctx context.Context, dir string) ([]string, error) {
	if _, err := command(ctx, dir, goEnv(), "make", "-s", "guests"); err != nil {
		return nil, err
	}
	var names []string
	for _, arch := range []string{"amd64", "arm64"} {
		names = append(names, guestsDir+"/linux-"+arch+".zst")
	}
	return names, nil
}

// export writes the tree of a commit, or a tree, to a directory.
func export(ctx context.Context, repo, commit, dir string) error {
	file := filepath.Join(dir, ".release.tar")
	if _, err := command(ctx, repo, nil, "git", "archive", "--format=tar", "-o", file, commit); err != nil {
		return err
	}
	if _, err := command(ctx, dir, nil, "tar", "-xf", file); err != nil {
		return err
	}
	return os.Remove(file)
}

// tag makes the commit of a release and its tag.
func tag(ctx context.Context, repo, version string) error {
	if changes, err := command(ctx, repo, nil, "git", "status", "--porcelain", "--untracked-files=no"); err != nil {
		return err
	} else if changes != "" {
		return fmt.Errorf("the work tree has changes that HEAD has not:\n%s", changes)
	}
	commit, err := makeCommit(ctx, repo, "HEAD", version)
	if err != nil {
		return err
	}
	tags := []string{version}
	for _, name := range nested {
		tags = append(tags, name+"/"+version)
	}
	for _, name := range tags {
		if _, err := command(ctx, repo, nil, "git", "tag", "-a", "-m", "Croft "+version, name, commit); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%s is %s; publish it with: git push origin %s\n", version, commit, strings.Join(tags, " "))
	return nil
}

// checkout writes the tree of a version to dir: that of its tag, whose guests must be
// those that its source gives, or else of a release of HEAD.
func checkout(ctx context.Context, repo, version, dir string) (*source, error) {
	commit, err := command(ctx, repo, nil, "git", "rev-parse", "--quiet", "--verify", "refs/tags/"+version+"^{commit}")
	tagged := err == nil
	if !tagged {
		if commit, err = makeCommit(ctx, repo, "HEAD", version); err != nil {
			return nil, err
		}
	}
	if err := export(ctx, repo, commit, dir); err != nil {
		return nil, err
	}
	if tagged {
		if err := verifyGuests(ctx, dir); err != nil {
			return nil, fmt.Errorf("tag %s: %w", version, err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, releaseFile))
	if err != nil {
		return nil, err
	}
	f := strings.Fields(string(data))
	if len(f) != 3 || f[0] != version {
		return nil, fmt.Errorf("%s of %s has %q, which is not of %s; make the tag with: release tag %s", releaseFile, commit, data, version, version)
	}
	return &source{dir: dir, commit: f[1], date: f[2]}, nil
}

// verifyGuests builds the guests of a tree again and compares them with those inside.
func verifyGuests(ctx context.Context, dir string) error {
	before := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(dir, guestsDir, "linux-*.zst"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("it has no guests; make the tag with release tag")
	}
	for _, name := range files {
		if before[name], err = os.ReadFile(name); err != nil {
			return err
		}
	}
	if _, err := makeGuests(ctx, dir); err != nil {
		return err
	}
	for name, data := range before {
		if again, err := os.ReadFile(name); err != nil || !bytes.Equal(data, again) {
			return errors.Join(fmt.Errorf("%s is not what its source gives with this version of Go", filepath.Base(name)), err)
		}
	}
	return nil
}
