package quote

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// beforeTheEnd returns n bytes behind which nothing can be read or written: who does
// so ends the test.
func beforeTheEnd(t *testing.T, n int) []byte {
	t.Helper()
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mprotect(mem[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return mem[size-n : size : size]
}

func TestLinesStayInTheirBuffers(t *testing.T) {
	text, room := beforeTheEnd(t, 200), beforeTheEnd(t, 300)
	for i := range text {
		text[i] = 'a'
	}
	for from := range len(text) {
		want := `7\t` + string(text[from:]) + `\n`
		for _, buf := range [][]byte{room[:0], room[200:200], room[len(room)-len(want):][:0]} {
			if got, _, _ := Lines(buf, text[from:], 7, 1); string(got) != want {
				t.Errorf("the line of %d bytes is %q, want %q", len(text)-from, got, want)
			}
			if got := Body(buf, text[from:]); string(got) != string(text[from:]) {
				t.Errorf("%d bytes are quoted as %q", len(text)-from, got)
			}
		}
	}
}
