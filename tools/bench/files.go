package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// benchFiles compares file operations through files.Root with those of package os.
func benchFiles(ctx context.Context, b *bench) error {
	dir, err := b.tempDir()
	if err != nil {
		return err
	}
	const name = "a/b/c/file.txt"
	data := bytes.Repeat([]byte("0123456789abcde\n"), 256) // 4 KiB
	plain := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(plain), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(plain, data, 0o644); err != nil {
		return err
	}
	root, err := files.Open(dir, nil)
	if err != nil {
		return err
	}
	b.addCleanup(func() { root.Close() })

	read := func() error {
		body, _, err := root.Read(ctx, name, &driver.ReadOptions{})
		if err != nil {
			return err
		}
		defer body.Close()
		_, err = io.ReadAll(body)
		return err
	}
	plainRead := func() error {
		f, err := os.Open(plain)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.ReadAll(f)
		return err
	}
	if err := b.compareSides(ctx, "read 4 KiB at depth 3", "os.Open, io.ReadAll", 1.5, repeatSide(read), repeatSide(plainRead)); err != nil {
		return err
	}
	write := func() error {
		_, err := root.Write(ctx, name, bytes.NewReader(data), &driver.WriteOptions{})
		return err
	}
	plainWrite := func() error { return atomicWrite(plain, data) }
	return b.compareSides(ctx, "atomic write 4 KiB at depth 3", "os.CreateTemp, os.Rename", 1.5, repeatSide(write), repeatSide(plainWrite))
}

// atomicWrite writes a file by atomic rename with package os.
func atomicWrite(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".tmp-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
