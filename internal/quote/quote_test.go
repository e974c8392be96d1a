package quote

import (
	"encoding/json"
	"strings"
	"testing"
)

// check holds a quoted string against encoding/json.
func check(t *testing.T, s string) {
	t.Helper()
	var got, want string
	quoted := Append([]byte("x"), s)
	if err := json.Unmarshal(quoted[1:], &got); err != nil || quoted[0] != 'x' {
		t.Fatalf("%q is quoted as %q: %v", s, quoted, err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%q is quoted as %q, which reads %q; want %q", s, quoted, got, want)
	}
}

func TestEveryByteInEveryPlace(t *testing.T) {
	for c := range 256 {
		for n := range 70 {
			check(t, strings.Repeat("a", n)+string([]byte{byte(c)})+strings.Repeat("b", 9))
		}
	}
	for _, s := range []string{"", "ä", "\xff\xfe", "a\u2028b", "\U0001f600", "\xf0\x9f\x98", "<&>"} {
		check(t, s)
	}
}

func FuzzAppend(f *testing.F) {
	f.Add("a line\twith \"quotes\" \\ and\x00 more\r\n")
	f.Fuzz(check)
}

// checkLines holds the lines of a text against its lines as they are.
func checkLines(t *testing.T, text string) {
	t.Helper()
	rest := []byte(text)
	for one := range strings.Lines(text) {
		plain := one
		if strings.HasSuffix(one, "\n") {
			plain = strings.TrimSuffix(strings.TrimSuffix(one, "\n"), "\r")
		}
		got, n := line([]byte("x"), rest, 0)
		if want := "x" + string(Body(nil, []byte(plain))); n != len(one) || string(got) != want {
			t.Fatalf("the first line of %q is %q and has %d bytes, want %q and %d", rest, got, n, want, len(one))
		}
		rest = rest[n:]
	}
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{"", "a", "a\nb", "a\r\n\r\r\nb\r", "\n\n", "\x00\"\\\xff\nä\t"} {
		f.Add(s)
	}
	f.Fuzz(checkLines)
}
