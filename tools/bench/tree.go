package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// needle stands in one file of a hundred of a generated tree.
const needle = "quarterlyReconciliation"

// sourceTree makes n files that look like source, 50 to a directory, three
// levels deep, the same ones every time.
func sourceTree(dir string, n int) error {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields(`func return if err nil string int range package import struct type const value result
		index buffer reader writer context handler request response server client config option default error
		the for with switch case break continue defer select channel map slice interface method field test`)
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprintf("mod%02d", i/1000), fmt.Sprintf("pkg%02d", i/50%20))
		if i%50 == 0 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
		}
		var b strings.Builder
		for range 20 + rnd.IntN(120) {
			for range 3 + rnd.IntN(9) {
				b.WriteString(words[rnd.IntN(len(words))])
				b.WriteByte(' ')
			}
			b.WriteByte('\n')
		}
		if i%100 == 7 {
			fmt.Fprintf(&b, "\tcall %s(%d)\n", needle, i)
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%05d.go", i)), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
