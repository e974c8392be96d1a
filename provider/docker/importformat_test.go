package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

// aTar is a tar with one file, in the format that Go's reader finds without a magic.
func aTar(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "manifest.json", Size: 2, Mode: 0o600})
	if _, werr := w.Write([]byte("[]")); errors.Join(err, werr, w.Close()) != nil {
		t.Fatal(err, werr)
	}
	return b.Bytes()
}

// TestFormIsToldByContent: what a file is called, or ends in, says nothing.
func TestFormIsToldByContent(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		want sourceFormat
		says string // of the error; "" is none
	}{
		"tar": {string(aTar(t)), formatTar, ""}, "gzip": {"\x1f\x8b\x08\x00", formatTar, ""}, "zstd": {"\x28\xb5\x2f\xfd\x04", formatTar, ""},
		"from": {"FROM scratch\n", formatDockerfile, ""}, "small letters": {"from scratch", formatDockerfile, ""}, "argument": {"ARG V=1\nFROM x:$V\n", formatDockerfile, ""},
		"comments": {"\xef\xbb\xbf# syntax=docker/dockerfile:1\r\n\r\n  # a remark\r\nFROM x\r\n", formatDockerfile, ""},
		"readme":   {"# A title\n\nSome words.\n", 0, `it begins with "Some", and a Dockerfile with FROM or ARG`},
		"run":      {"RUN true\n", 0, `it begins with "RUN"`}, "json": {`{"a": 1}`, 0, `it begins with "{\"a\":"`},
		"empty": {"", 0, "it has no instruction"}, "remarks": {"# only\n", 0, "it has no instruction"},
		"program": {"\x7fELF\x02\x01\x01\x00", 0, "it is no text"}, "zeros": {strings.Repeat("\x00", 1024), 0, "it is no text"},
		"xz": {"\xfd7zXZ\x00\x00", 0, "it has the format xz"}, "zip": {"PK\x03\x04", 0, "it has the format zip"}, "long": {strings.Repeat("x", maxDockerfile), 0, "it begins with"},
	} {
		got, err := detectFormatOf([]byte(test.data))
		switch {
		case test.says == "" && (err != nil || got != test.want):
			t.Errorf("%s: %v, %v, want %v", name, got, err, test.want)
		case test.says != "" && (fault.Of(err) != fault.InvalidArgument || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "neither a tarball")):
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

// TestImportTellsWhatAFileIs: nothing is sent to an engine that is no image.
func TestImportTellsWhatAFileIs(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	notes, archive, tarred := put("notes.txt", "hello\n"), put("image.tar", "FROM scratch\n"), put("project/Dockerfile", string(aTar(t)))
	put("other/Dockerfile", "COPY . .\n")
	put("nothing/file", "x")
	engine := &asked{}
	images := Images{engine}
	for source, want := range map[string]string{
		notes: `it begins with "hello"`, filepath.Dir(tarred): "the file Dockerfile in it is a tarball", filepath.Join(dir, "other"): `it begins with "COPY"`,
		filepath.Join(dir, "nothing"): "it is no OCI layout, and has no Dockerfile", filepath.Join(dir, "none"): "not found",
	} {
		if err := images.Import(t.Context(), source, "x:1"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), source) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
	if engine.built != nil {
		t.Errorf("the engine was asked to build %v", engine.built)
	}
	if err := images.Import(t.Context(), archive, "x:1"); err != nil || len(engine.built) != 1 || engine.built[0] != "image.tar" {
		t.Errorf("a Dockerfile under another name: %v, built %v", err, engine.built)
	}
}

func FuzzForm(f *testing.F) {
	f.Add([]byte("FROM x\n"))
	f.Add(aTar(f))
	f.Add([]byte("#\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := detectFormatOf(data); err != nil && fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%v, want invalid argument", err)
		}
	})
}

// asked is an engine that builds, and does nothing else.
type asked struct {
	Engine
	built []string
}

func (a *asked) Build(_ context.Context, files io.Reader, dockerfile, _ string, _ map[string]string) error {
	a.built = append(a.built, dockerfile)
	_, err := io.Copy(io.Discard, files)
	return err
}
