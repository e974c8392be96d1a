package quote

import (
	"testing"

	"github.com/croft-run/croft/internal/testenv"
)

func TestLinesStayInTheirBuffers(t *testing.T) {
	text, room := testenv.BeforeTheEnd(t, 200), testenv.BeforeTheEnd(t, 300)
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
