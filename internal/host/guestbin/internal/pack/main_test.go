package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestPack(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	want := bytes.Repeat([]byte("program "), 10_000)
	if err := os.WriteFile(from, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pack(from, to); err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	if got, err := dec.DecodeAll(packed, nil); err != nil || !bytes.Equal(got, want) || len(packed) >= len(want) {
		t.Errorf("%d bytes were packed into %d and read as %d, %v", len(want), len(packed), len(got), err)
	}
	if err := pack(from+"-none", to); err == nil {
		t.Error("a file that does not exist was packed")
	}
}
