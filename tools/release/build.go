package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// A build makes the files of a release.
type build struct {
	repo, version, dist string
	platforms           []string // such as linux/amd64
	packages, image     bool

	source *source
	time   time.Time // of every file
}

func (b *build) run(ctx context.Context) error {
	if err := os.RemoveAll(b.dist); err != nil {
		return err
	}
	if err := os.MkdirAll(b.dist, 0o755); err != nil {
		return err
	}
	dist, err := filepath.Abs(b.dist)
	if err != nil {
		return err
	}
	b.dist = dist
	temp, err := os.MkdirTemp("", "croft-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	tree := filepath.Join(temp, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	if b.source, err = checkout(ctx, b.repo, b.version, tree); err != nil {
		return err
	}
	if b.time, err = time.Parse(time.RFC3339, b.source.date); err != nil {
		return err
	}
	manuals := filepath.Join(temp, "manuals")
	if _, err := command(ctx, tree, goEnv(), "go", "run", "-C", "tools", "./release/manuals", manuals, b.version, b.source.date); err != nil {
		return err
	}
	for _, platform := range b.platforms {
		fmt.Fprintln(os.Stderr, "release: building for", platform)
		if err := b.platform(ctx, temp, platform); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
	}
	if err := copyFile(filepath.Join(b.dist, "install.sh"), filepath.Join(b.source.dir, "install.sh")); err != nil {
		return err
	}
	return b.sums()
}

// name is the name of a file of the release, without its suffix.
func (b *build) name(platform string) string {
	return "croft_" + strings.TrimPrefix(b.version, "v") + "_" + strings.ReplaceAll(platform, "/", "_")
}

// platform makes the files for one platform, such as linux/amd64.
func (b *build) platform(ctx context.Context, temp, platform string) error {
	goos, goarch, _ := strings.Cut(platform, "/")
	stage := filepath.Join(temp, b.name(platform))
	if err := os.CopyFS(stage, os.DirFS(filepath.Join(temp, "manuals"))); err != nil {
		return err
	}
	program := filepath.Join(stage, "croft")
	env := goEnv("GOOS="+goos, "GOARCH="+goarch)
	if _, err := command(ctx, b.source.dir, env, "go", "build", "-ldflags", "-s -w", "-o", program, "./cmd/croft"); err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		if err := copyFile(filepath.Join(stage, name), filepath.Join(b.source.dir, name)); err != nil {
			return err
		}
	}
	parts, err := components(ctx, b.source.dir, program)
	if err != nil {
		return err
	}
	if err := writeLicenses(filepath.Join(stage, "licenses"), b.source.dir, parts); err != nil {
		return err
	}
	if err := writeSBOM(filepath.Join(b.dist, b.name(platform)+".cdx.json"), b, platform, parts); err != nil {
		return err
	}
	if err := b.archive(stage); err != nil {
		return err
	}
	if goos != "linux" {
		return nil
	}
	if b.packages {
		if err := b.linuxPackages(ctx, stage, goarch); err != nil {
			return err
		}
	}
	if b.image && goarch == runtime.GOARCH {
		out := filepath.Join(b.dist, b.name(platform)+"_image.tar")
		_, err := command(ctx, b.source.dir, []string{"CROFT=" + program}, "deploy/image/build", "-o", out, "croft:"+strings.TrimPrefix(b.version, "v"))
		return err
	}
	return nil
}

// archive writes the tar.gz of a directory: files in order, of root, at the time of the
// commit, so that the same source gives the same bytes.
func (b *build) archive(stage string) error {
	names, err := readDir(stage)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(b.dist, filepath.Base(stage)+".tar.gz"))
	if err != nil {
		return err
	}
	defer f.Close()
	gz, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(gz)
	for _, name := range names {
		if err := b.addFile(w, stage, name); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), gz.Close(), f.Close())
}

func (b *build) addFile(w *tar.Writer, stage, name string) error {
	data, err := os.ReadFile(filepath.Join(stage, name))
	if err != nil {
		return err
	}
	h := &tar.Header{Name: filepath.Base(stage) + "/" + name, Mode: 0o644, Size: int64(len(data)), ModTime: b.time, Format: tar.FormatPAX}
	if name == "croft" {
		h.Mode = 0o755
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// nfpm is the program that writes .deb and .rpm. It is no dependency of the module.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0"

// linuxPackages makes .deb and .rpm from the directory of an archive.
func (b *build) linuxPackages(ctx context.Context, stage, goarch string) error {
	type info struct {
		Mode  int       `yaml:"mode"`
		MTime time.Time `yaml:"mtime"`
	}
	type content struct {
		Src      string `yaml:"src,omitempty"`
		Dst      string `yaml:"dst"`
		Type     string `yaml:"type,omitempty"`
		Packager string `yaml:"packager,omitempty"` // deb or rpm; empty is both
		Info     info   `yaml:"file_info"`
	}
	var contents []content
	dirs := map[string]bool{} // of the package alone; rpm removes only what a package lists
	names, err := readDir(stage)
	if err != nil {
		return err
	}
	for _, name := range names {
		c := content{Src: filepath.Join(stage, name), Dst: packagePath(name), Info: info{0o644, b.time}}
		if name == "croft" {
			c.Info.Mode = 0o755
		}
		if path.Base(name) == "_croft" { // zsh of Debian does not look in site-functions
			deb := c
			deb.Dst, deb.Packager, c.Packager = debZshPath, "deb", "rpm"
			contents = append(contents, deb)
		}
		contents = append(contents, c)
		for dir := path.Dir(c.Dst); strings.HasPrefix(dir, docDir) && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
			contents = append(contents, content{Dst: dir, Type: "dir", Info: info{0o755, b.time}})
		}
	}
	contents = append(contents, content{Src: filepath.Join(b.source.dir, "deploy/systemd/croft.service"), Dst: docDir + "/croft.service", Info: info{0o644, b.time}})
	config, err := yaml.Marshal(map[string]any{
		"name": "croft", "arch": goarch, "platform": "linux", "version": b.version, "section": "devel", "mtime": b.time,
		"maintainer": "Croft <https://github.com/croft-run/croft>", "homepage": "https://github.com/croft-run/croft", "license": "Apache-2.0",
		"description": "Sandboxed workspaces for AI agents\nCroft gives an AI agent an isolated directory with files, a shell and snapshots.",
		"contents":    contents,
		"overrides": map[string]any{
			"deb": map[string]any{"recommends": []string{"git", "uidmap"}},
			"rpm": map[string]any{"recommends": []string{"git", "shadow-utils"}},
		},
		"rpm": map[string]any{"buildhost": "localhost"},
	})
	if err != nil {
		return err
	}
	file := stage + ".nfpm.yaml"
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	env := []string{"GOFLAGS=", "SOURCE_DATE_EPOCH=" + strconv.FormatInt(b.time.Unix(), 10)}
	for _, format := range []string{"deb", "rpm"} {
		out := filepath.Join(b.dist, filepath.Base(stage)+"."+format)
		if _, err := command(ctx, filepath.Dir(stage), env, "go", "run", nfpm, "package", "-f", file, "-p", format, "-t", out); err != nil {
			return err
		}
	}
	return nil
}

// docDir is the directory of a package for all that has no other place.
const docDir = "/usr/share/doc/croft"

// debZshPath is where zsh of Debian finds the completions of packages.
const debZshPath = "/usr/share/zsh/vendor-completions/_croft"

// packagePath is where a package installs a file of the archive.
func packagePath(name string) string {
	switch dir, base := filepath.Split(name); {
	case name == "croft":
		return "/usr/bin/croft"
	case strings.HasPrefix(dir, "man/"):
		return "/usr/share/" + name
	case base == "croft.bash":
		return "/usr/share/bash-completion/completions/croft"
	case base == "_croft":
		return "/usr/share/zsh/site-functions/_croft"
	case base == "croft.fish":
		return "/usr/share/fish/vendor_completions.d/croft.fish"
	default:
		return docDir + "/" + name
	}
}

// sums writes SHA256SUMS of the files in dist, as sha256sum --check reads it.
func (b *build) sums() error {
	names, err := readDir(b.dist)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range names {
		f, err := os.Open(filepath.Join(b.dist, name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
	}
	return os.WriteFile(filepath.Join(b.dist, "SHA256SUMS"), []byte(text.String()), 0o644)
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
