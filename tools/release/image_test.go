package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestImage(t *testing.T) {
	var rootfs bytes.Buffer
	w := tar.NewWriter(&rootfs)
	if err := w.WriteHeader(&tar.Header{Name: "./usr/bin/croft", Mode: 0o755, Size: 5}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "croft"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	from, out := filepath.Join(t.TempDir(), "rootfs.tar"), filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(from, rootfs.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"image", "-rootfs", from, "-o", out, "-tag", "croft:0.1.0"}); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(append(config.Config.Entrypoint, config.Config.Cmd...), " "); got != "/usr/bin/croft up --addr 127.0.0.1:7070" || len(config.RootFS.DiffIDs) != 1 {
		t.Errorf("it runs %q, with %d layers", got, len(config.RootFS.DiffIDs))
	}
	files := tar.NewReader(mutate.Extract(img))
	if h, err := files.Next(); err != nil || filepath.Clean(h.Name) != "usr/bin/croft" || h.Mode != 0o755 {
		t.Errorf("got %+v, %v", h, err)
	}
	if err := run(t.Context(), []string{"image", "-o", out}); err == nil {
		t.Error("an image without a file system was made")
	}
}
