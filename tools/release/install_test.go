package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// smallRelease makes the files of a release in a new directory, with a script as program.
func smallRelease(t *testing.T) (dist, archive string) {
	t.Helper()
	b := build{version: "v0.1.0", dist: t.TempDir(), time: time.Unix(1, 0)}
	stage := filepath.Join(t.TempDir(), b.name("linux/"+runtime.GOARCH))
	for name, text := range map[string]string{
		"croft":                  "#!/bin/sh\necho croft v0.1.0\n",
		"man/man1/croft.1":       "page",
		"man/man1/croft-run.1":   "page",
		"completions/croft.bash": "bash", "completions/_croft": "zsh", "completions/croft.fish": "fish",
	} {
		file := filepath.Join(stage, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.archive(stage); err != nil {
		t.Fatal(err)
	}
	if err := b.sums(); err != nil {
		t.Fatal(err)
	}
	return b.dist, filepath.Base(stage) + ".tar.gz"
}

func TestInstall(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the test is written for Linux")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("skipped: host: it has no curl")
	}
	for _, tt := range []struct {
		name    string
		args    string
		damage  func(dist, archive string) error
		tools   string // the only programs on PATH; "" is all
		failure string // in the message; "" is success
	}{
		{name: "a release"},
		{name: "of a version", args: "--version v0.1.0"},
		{name: "another version", args: "--version v0.2.0", failure: "lists no archive for linux/" + runtime.GOARCH + " of v0.2.0"},
		{name: "a changed archive", failure: "nothing was installed", damage: func(dist, archive string) error {
			return os.WriteFile(filepath.Join(dist, archive), []byte("changed"), 0o600)
		}},
		{name: "a missing archive", failure: "can't download", damage: func(dist, archive string) error {
			return os.Remove(filepath.Join(dist, archive))
		}},
		{name: "missing checksums", failure: "can't download", damage: func(dist, _ string) error {
			return os.Remove(filepath.Join(dist, "SHA256SUMS"))
		}},
		{name: "a name that leaves the directory", failure: "lists no archive", damage: func(dist, archive string) error {
			return os.WriteFile(filepath.Join(dist, "SHA256SUMS"), []byte(strings.Repeat("0", 64)+"  croft_../../x_linux_"+runtime.GOARCH+".tar.gz\n"), 0o600)
		}},
		{name: "a program for another system", failure: "does not run on this machine", damage: func(dist, archive string) error {
			b := build{version: "v0.1.0", dist: dist}
			stage := filepath.Join(t.TempDir(), strings.TrimSuffix(archive, ".tar.gz"))
			if err := os.Mkdir(stage, 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(stage, "croft"), []byte("\x7fELF"), 0o600); err != nil {
				return err
			}
			if err := b.archive(stage); err != nil {
				return err
			}
			if err := os.Remove(filepath.Join(dist, "SHA256SUMS")); err != nil {
				return err
			}
			return b.sums()
		}},
		{name: "no sha256sum", tools: "uname mktemp tar gzip awk curl rm", failure: "sha256sum or shasum is missing"},
		{name: "no curl", tools: "uname mktemp tar gzip awk sha256sum rm", failure: "curl or wget is missing"},
		{name: "an unknown flag", args: "--prefx x", failure: "unknown argument --prefx"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dist, archive := smallRelease(t)
			if tt.damage != nil {
				if err := tt.damage(dist, archive); err != nil {
					t.Fatal(err)
				}
			}
			server := httptest.NewServer(http.FileServer(http.Dir(dist)))
			defer server.Close()
			home, path := t.TempDir(), os.Getenv("PATH")
			if tt.tools != "" {
				path = t.TempDir()
				for tool := range strings.FieldsSeq(tt.tools) {
					found, err := exec.LookPath(tool)
					if err != nil {
						t.Skipf("skipped: host: it has no %s", tool)
					}
					if err := os.Symlink(found, filepath.Join(path, tool)); err != nil {
						t.Fatal(err)
					}
				}
			}
			cmd := exec.Command("/bin/sh", append([]string{"../../install.sh"}, strings.Fields(tt.args)...)...)
			cmd.Env = []string{"HOME=" + home, "PATH=" + path, "CROFT_INSTALL_URL=" + server.URL}
			out, err := cmd.CombinedOutput()
			installed, rerr := readDir(home)
			if rerr != nil {
				t.Fatal(rerr)
			}
			if tt.failure != "" {
				if err == nil || !strings.Contains(string(out), tt.failure) || len(installed) != 0 {
					t.Errorf("got %v, %s, and the files %v; want %q and no files", err, out, installed, tt.failure)
				}
				return
			}
			want := ".local/bin/croft .local/share/bash-completion/completions/croft .local/share/fish/vendor_completions.d/croft.fish " +
				".local/share/man/man1/croft-run.1 .local/share/man/man1/croft.1 .local/share/zsh/site-functions/_croft"
			if got := strings.Join(installed, " "); err != nil || got != want {
				t.Errorf("got %v, %s, and the files %v, want %s", err, out, got, want)
			}
			if out, err := exec.Command(filepath.Join(home, ".local/bin/croft"), "--version").Output(); err != nil || string(out) != "croft v0.1.0\n" {
				t.Errorf("it prints %q, %v", out, err)
			}
		})
	}
}

func TestLicenseID(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\nVersion 2.0":                                        "Apache-2.0",
		"Permission is hereby granted, free\nof charge, to any person":       "MIT",
		"Redistribution and use in source\nand binary forms":                 "BSD-2-Clause",
		"Redistribution and use in source and binary. Neither the name of x": "BSD-3-Clause",
		"All rights reserved.":                                               "",
	} {
		if got := licenseID(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
