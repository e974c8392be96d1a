package tool

import (
	"bytes"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

func TestDigestBeside(t *testing.T) {
	for _, size := range []int{0, 100, largeText - 1, largeText, 3 * largeText} {
		var e Env
		data := bytes.Repeat([]byte("x"), size)
		want := driver.DigestBytes(data)
		for range 20 {
			s := e.digestBeside(int64(size))
			s.give(data)
			if got := s.get(); got != want {
				t.Errorf("the digest of %d bytes is %q, want %q", size, got, want)
			}
			if again := s.get(); again != want {
				t.Errorf("the digest of %d bytes is %q the second time, want %q", size, again, want)
			}
			s.end()
		}
		e.beside.Wait()
	}
}

// TestDigestBesideIsLeft has nobody look at a text after the end, as the race
// detector would see, and nobody wait for one that is not given.
func TestDigestBesideIsLeft(t *testing.T) {
	var e Env
	data := make([]byte, largeText)
	for range 50 {
		s := e.digestBeside(largeText)
		s.give(data)
		s.end()
		data[0]++
		e.digestBeside(largeText).end()
		e.digestBeside(0).end()
	}
	e.beside.Wait()
}
