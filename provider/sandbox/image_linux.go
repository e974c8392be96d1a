package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/toolchain"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// A workspace with the option rootfs has the files of an image in place of the programs of
// the host: the directories of the image are mounted read-only. They are extracted once, into
// a directory beside the layers, with an /etc that knows the user of the workload.

// rootfsPrefix starts the names of extracted images: rootfs-DIGEST-USER.
const rootfsPrefix = "rootfs-"

// rootfsDigest returns the digest in the name of an extracted image.
func rootfsDigest(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, rootfsPrefix)
	digest, _, named := strings.Cut(rest, "-")
	return digest, ok && named
}

// ownDirs are directories of an image that the sandbox has of its own.
var ownDirs = []string{"proc", "dev", "sys", "tmp", "run", "home", "root"}

// checkRootfs finds the image of a workspace, and extracts it the first time. An existing
// workspace keeps its own.
func (p *Provider) checkRootfs(ctx context.Context, spec driver.Spec, opts *Options, l *level) error {
	if opts.Rootfs == "" {
		return nil
	}
	if l.name != driver.IsolationNamespaces || p.cfg.Snapshots == nil {
		return fmt.Errorf("image: %w: it needs isolation %s", fault.Unsupported, driver.IsolationNamespaces)
	}
	if m, err := p.store.Read(spec.ID); err == nil {
		var was Options
		if err := driver.DecodeStrict(m.Own, &was); err == nil && was.Rootfs == opts.Rootfs {
			opts.RootfsDir = was.RootfsDir
			return nil
		}
	}
	m, err := p.cfg.Snapshots.Get(ctx, opts.Rootfs)
	if err == nil && m.Base.Name != "" {
		err = fmt.Errorf("image: %w: the snapshot is not complete", fault.InvalidArgument)
	}
	if err == nil {
		opts.RootfsDir, err = p.layers.extractImage(ctx, m, opts.userName())
	}
	return err
}

// extractImage returns the directory with the files of an image.
func (s *layerStore) extractImage(ctx context.Context, m *snapshot.Manifest, user string) (string, error) {
	dir := filepath.Join(s.dir, rootfsPrefix+strings.TrimPrefix(m.Root.String(), driver.DigestPrefix)+"-"+user)
	if _, err := os.Lstat(dir); err == nil {
		return dir, nil
	}
	fresh := filepath.Join(s.dir, newLayerPrefix+driver.NewID())
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return "", fmt.Errorf("image: %w: %w", fault.Of(err), err)
	}
	err := snapshot.Extract(ctx, s.snapshots.StoredTree(m.Root), fresh, nil)
	if err == nil {
		err = completeImage(fresh, user)
	}
	if err == nil {
		err = os.Rename(fresh, dir)
	}
	if err == nil {
		return dir, nil
	}
	err = errors.Join(err, files.RemoveTree(fresh))
	if _, there := os.Lstat(dir); there == nil {
		return dir, nil // another process extracted the same image meanwhile
	}
	return "", fmt.Errorf("image: %w", err)
}

// completeImage adds what the sandbox needs to the files of an image: the user, names of
// this host, and mount points. Symlinks of the image are not followed out of it.
func completeImage(dir, user string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // closing a directory can lose nothing
	for _, name := range []string{"etc", "var"} {
		if err := root.MkdirAll(name, 0o755); err != nil {
			return err
		}
	}
	if err := root.RemoveAll("var/tmp"); err != nil {
		return err
	}
	if err := errors.Join(root.Mkdir("var/tmp", 0o755), root.RemoveAll("var/run")); err != nil {
		return err
	}
	if err := root.Symlink("/run", "var/run"); err != nil {
		return err
	}
	for name, line := range map[string]string{"passwd": passwdLine(user), "group": user + ":x:1000:\n"} {
		if err := addAccount(root, "etc/"+name, line); err != nil {
			return err
		}
	}
	if info, err := root.Stat(filepath.Dir(toolchain.LoginFile)[1:]); err == nil && info.IsDir() { // else no shell of the image reads it
		if err := replaceFile(root, toolchain.LoginFile[1:], ""); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"hosts": hostsFile, "hostname": hostname + "\n", "resolv.conf": resolvConf} {
		if err := replaceFile(root, "etc/"+name, text); err != nil {
			return err
		}
	}
	return nil
}

// addAccount adds a line to a list of accounts, in place of others of the same id.
func addAccount(root *os.Root, name, line string) error {
	data, err := root.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text := line
	for old := range strings.Lines(string(data)) {
		if f := strings.Split(old, ":"); len(f) > 2 && f[2] != "1000" && !strings.HasPrefix(line, f[0]+":") {
			text += strings.TrimSuffix(old, "\n") + "\n"
		}
	}
	return replaceFile(root, name, text)
}

// replaceFile writes a file, in place of a symlink, too.
func replaceFile(root *os.Root, name, text string) error {
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	return root.WriteFile(name, []byte(text), 0o644)
}

// imageMounts returns the mounts of an image's files: each entry of its root, read-only.
func imageMounts(dir string) ([]guestproto.Mount, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("image: %w: %w", fault.Of(err), err)
	}
	var mounts []guestproto.Mount
	for _, e := range entries {
		if slices.Contains(ownDirs, e.Name()) {
			continue
		}
		source, target := filepath.Join(dir, e.Name()), "/"+e.Name()
		switch {
		case e.IsDir():
			mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountBind, Source: source, Target: target, ReadOnly: true})
		case e.Type()&os.ModeSymlink != 0:
			link, err := os.Readlink(source)
			if err != nil {
				return nil, fmt.Errorf("image: %w: %w", fault.Of(err), err)
			}
			mounts = append(mounts, guestproto.Mount{Kind: guestproto.MountSymlink, Target: target, Source: link})
		}
	}
	return mounts, nil
}
