package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// textTree makes n files of text, 40 to a directory, the same ones every time.
// Their sizes are spread as those of source trees are: half below 3 KiB, a few
// above 100 KiB. Their words are frequent and rare ones, so that they compress
// about as text does.
func textTree(dir string, n int) error {
	rnd := rand.New(rand.NewPCG(3, 4))
	words := make([]string, 4000)
	for i := range words {
		w := make([]byte, 2+rnd.IntN(9))
		for j := range w {
			w[j] = "etaoinshrdlucmfwypvbgkjqxz"[min(rnd.IntN(26), rnd.IntN(26))]
		}
		words[i] = string(w)
	}
	zipf := rand.NewZipf(rnd, 1.15, 4, uint64(len(words)-1))
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprintf("mod%02d", i/2000), fmt.Sprintf("pkg%02d", i/40%50))
		if i%40 == 0 {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				return err
			}
		}
		size := min(int(math.Exp(rnd.NormFloat64()*1.3+8)), 2<<20)
		var b strings.Builder
		for column := 0; b.Len() < size; {
			w := words[zipf.Uint64()]
			b.WriteString(w)
			if column += len(w) + 1; column < 70 {
				b.WriteByte(' ')
				continue
			}
			b.WriteByte('\n')
			column = 0
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%06d.txt", i)), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// changeSome changes ten of the files that textTree made, spread over the tree.
func changeSome(dir string, n, turn int) error {
	for k := range 10 {
		i := (k*n/10 + turn) % n
		name := filepath.Join(dir, fmt.Sprintf("mod%02d", i/2000), fmt.Sprintf("pkg%02d", i/40%50), fmt.Sprintf("file%06d.txt", i))
		if err := os.WriteFile(name, fmt.Appendf(nil, "changed in turn %d\n%s", turn, strings.Repeat("a line of text\n", 100)), 0o644); err != nil {
			return err
		}
	}
	return nil
}
