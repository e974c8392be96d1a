package quote

import (
	"fmt"
	"strings"
	"testing"
)

// checkNumbered holds numbered lines against lines that are made one by one, in
// buffers with and without room.
func checkNumbered(t *testing.T, text string, first, count int) {
	t.Helper()
	want, lines, length := "x", 0, 0
	for line := range strings.Lines(text) {
		if lines == count {
			break
		}
		plain, ended := strings.CutSuffix(line, "\n")
		if ended {
			plain = strings.TrimSuffix(plain, "\r")
		}
		want += fmt.Sprintf(`%d\t%s\n`, first+lines, Body(nil, []byte(plain)))
		lines, length = lines+1, length+len(line)
	}
	for _, room := range []int{1, 9, 40, len(want) - 1, len(want), 2 * len(want)} {
		got, l, n := Lines(append(make([]byte, 0, max(room, 1)), 'x'), []byte(text), first, count)
		if string(got) != want || l != lines || n != length {
			t.Fatalf("%d lines of %q from %d, with room for %d: %q, %d of them in %d bytes; want %q, %d in %d", count, text, first, room, got, l, n, want, lines, length)
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("a line of more than one block, ", 3)
	text := strings.Repeat(long+"\nshort\n\n"+long+"\"quoted\"\t"+long+"\r\n"+long+"ä\n", 4) + long
	for _, first := range []int{1, 8, 9, 95, 999_985, 9_999_999} {
		checkNumbered(t, text, first, 1000)
		checkNumbered(t, text, first, 7)
	}
	checkNumbered(t, text, 1, 0)
	checkNumbered(t, "", 1, 5)
	checkNumbered(t, "\n", 1, 5)
	for n := range 70 { // the end of a line in every place
		checkNumbered(t, strings.Repeat("a", n)+"\r\nb\n"+strings.Repeat("c", 40), 1, 5)
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\nb\r\n\"c\"\xff\n\nd", uint32(9), uint8(3))
	f.Fuzz(func(t *testing.T, text string, first uint32, count uint8) {
		checkNumbered(t, text, int(first), int(count))
	})
}
