// Command pack compresses a file with zstd, for package guestbin to embed:
//
//	pack FROM TO
package main

import (
	"fmt"
	"os"

	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/klauspost/compress/zstd"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pack FROM TO")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	// One goroutine, so that the same program gives the same bytes.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	return atomicfile.Write(to, enc.EncodeAll(data, nil), atomicfile.Options{Mode: 0o644})
}
