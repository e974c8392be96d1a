package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// fold parts a text into lines, as programs do that encode.
func fold(text string, width int) []string {
	var lines []string
	for len(text) > width {
		lines = append(lines, text[:width])
		text = text[width:]
	}
	return append(lines, text)
}

// leaks returns a part of a secret that is left in a text, whatever stands between
// its characters.
func leaks(text string, forms []string) string {
	keep := func(r rune) rune {
		if r < 128 && foldable[r] {
			return r
		}
		return -1
	}
	dense := strings.Map(keep, strings.ReplaceAll(text, "[REDACTED:tok]", "\x00"))
	for _, f := range forms {
		for i := 0; i+10 <= len(f); i += 5 {
			if strings.Contains(dense, f[i:i+10]) {
				return f[i : i+10]
			}
		}
	}
	return ""
}

//croft:slow-race
func TestScrubFolded(t *testing.T) {
	const value = "s3cret-of-40-bytes/that+nobody=may-see-00"
	s := NewScrubber([]Value{NewValue("tok", value)}, nil)
	layouts := map[string]func([]string) string{
		"plain":    func(l []string) string { return strings.Join(l, "\n") },
		"crlf":     func(l []string) string { return strings.Join(l, "\r\n") },
		"indented": func(l []string) string { return "  key: |\n    " + strings.Join(l, "\n    ") + "\n  other: x\n" },
		"escaped":  func(l []string) string { return `{"key":"` + strings.Join(l, `\n`) + `","other":"x"}` },
		"quoted":   func(l []string) string { return `key = "` + strings.Join(l, "\n") + `" # that is all` },
		"numbered": func(l []string) string { return numbered(l, func(i int) string { return fmt.Sprintf("%d\t", i+9) }) },
		"grep": func(l []string) string {
			return numbered(l, func(i int) string { return fmt.Sprintf("a/key.txt:%d:", i+9) })
		},
		"added":   func(l []string) string { return numbered(l, func(int) string { return "+" }) },
		"removed": func(l []string) string { return numbered(l, func(int) string { return "-" }) },
	}
	forms := append(base64Forms(value), hex.EncodeToString([]byte(value)))
	for name, layout := range layouts {
		step := 7
		if name == "plain" {
			step = 1 // at every place of a line
		}
		for _, width := range []int{48, 60, 64, 76} {
			for before := 0; before < 90; before += step {
				data := strings.Repeat("x", before) + value + strings.Repeat("yz", 70)
				for _, text := range []string{base64.StdEncoding.EncodeToString([]byte(data)), hex.EncodeToString([]byte(data))} {
					in := "some words\n" + layout(fold(text, width)) + "\nmore words"
					got := s.String(in)
					if left := leaks(got, forms); left != "" || !strings.Contains(got, "[REDACTED:tok]") {
						t.Fatalf("%s, lines of %d, %d before: %q is left of\n%s\nin\n%s", name, width, before, left, in, got)
					}
					if strings.Count(got, "\n") != strings.Count(in, "\n") || !strings.HasPrefix(got, "some words\n") || !strings.HasSuffix(got, "\nmore words") {
						t.Fatalf("%s, lines of %d, %d before: the lines of\n%s\nbecame\n%s", name, width, before, in, got)
					}
				}
			}
		}
	}
}

// foldedIn returns what goes on in another line.
func foldedIn(s *Scrubber, text string) []redaction {
	f := foldedSearch{s: s, p: []byte(text)}
	f.searchUpTo(len(text))
	return f.spans
}

func numbered(lines []string, before func(int) string) string {
	var b strings.Builder
	for i, l := range lines {
		b.WriteString(before(i) + l + "\n")
	}
	return b.String()
}

// TestScrubDumps: what the usual programs show of a secret is none of it.
//
//croft:slow-race
func TestScrubDumps(t *testing.T) {
	const value = "s3cret-of-40-bytes/that+nobody=may-see-00"
	s := NewScrubber([]Value{NewValue("tok", value)}, nil)
	for _, program := range [][]string{{"od", "-An", "-tx1"}, {"od", "-tx1"}, {"od", "-tx1", "-w32"}, {"base64"}, {"base64", "-w", "64"}} {
		for before := 0; before < 40; before += 3 {
			cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
			cmd.Stdin = strings.NewReader(strings.Repeat("x", before) + value + strings.Repeat("yz", 20))
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			checkDump(t, s, fmt.Sprint(program, before), string(out))
			checkDump(t, s, fmt.Sprint(program, before, "numbered"), numbered(strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"), func(i int) string { return fmt.Sprintf("%d\t", i+1) }))
		}
	}
	for before := range 40 {
		data := []byte(strings.Repeat("x", before) + value + strings.Repeat("yz", 20))
		checkDump(t, s, fmt.Sprint("hexdump -C ", before), hex.Dump(data))
		checkDump(t, s, fmt.Sprint("xxd ", before), likeXXD(data))
	}
}

func checkDump(t *testing.T, s *Scrubber, name, in string) {
	t.Helper()
	const value = "s3cret-of-40-bytes/that+nobody=may-see-00"
	got := s.String(in)
	left := leaks(got, append(base64Forms(value), hex.EncodeToString([]byte(value))))
	if left != "" || !strings.Contains(got, "[REDACTED:tok]") || strings.Contains(got, "that+nobody") || strings.Count(got, "\n") != strings.Count(in, "\n") {
		t.Fatalf("%s: %q is left of\n%s\nin\n%s", name, left, in, got)
	}
}

// likeXXD is a dump as xxd writes it, which not every host has.
func likeXXD(data []byte) string {
	var b strings.Builder
	for at := 0; at < len(data); at += 16 {
		line := data[at:min(at+16, len(data))]
		var groups bytes.Buffer
		for i, c := range line {
			fmt.Fprintf(&groups, "%02x", c)
			if i%2 == 1 {
				groups.WriteByte(' ')
			}
		}
		fmt.Fprintf(&b, "%08x: %-40s %s\n", at, groups.String(), line)
	}
	return b.String()
}

// TestFoldedLeavesOthersAlone: lines that are no secret stay as they are, also where
// a part of one is.
func TestFoldedLeavesOthersAlone(t *testing.T) {
	s := NewScrubber([]Value{NewValue("tok", "correct-horse-battery"), NewValue("pin", "1234")}, nil)
	long := strings.Repeat("abcdefgh", 8)
	for _, in := range []string{
		long + "\n" + long + "\n",
		long + "correct-\nhorse-battery",
		long + "12\n34" + long,
		"00000000: 3132 3334\n",
		"00 11 22 33 44 55 66 77  88 99 aa bb cc dd ee ff\n31 32\n33 34 35\n",
		strings.Repeat("0,", 3000),
		strings.Repeat(" ", 100) + "\n" + strings.Repeat("\t", 100),
	} {
		if want := strings.ReplaceAll(in, "3132 3334", "[REDACTED:pin]"); s.String(in) != want {
			t.Errorf("%q became %q", in, s.String(in))
		}
	}
}

// FuzzFolded: whatever a text is, what is marked in it is where it was, and lines
// stay lines.
func FuzzFolded(f *testing.F) {
	const value = "correct-horse-battery-staple"
	s := NewScrubber([]Value{NewValue("a", value)}, nil)
	encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 40) + value + value))
	f.Add(strings.Join(fold(encoded, 64), "\n"))
	f.Add("+" + strings.Join(fold(encoded, 64), "\n+"))
	f.Add(hex.Dump([]byte(value + value)))
	f.Add("12\t00000000: " + strings.Repeat("6162 ", 8) + " abababab\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, sp := range foldedIn(s, text) {
			if sp.start < 0 || sp.start >= sp.end || sp.end > len(text) {
				t.Fatalf("%+v of %q", sp, text)
			}
		}
		if strings.Count(s.String(text), "\n") != strings.Count(text, "\n") {
			t.Fatalf("%q became %q", text, s.String(text))
		}
	})
}

// TestScrubShortLines: a secret in base64 or hexadecimal digits is found in lines of any
// width.
//
//croft:slow-race
func TestScrubShortLines(t *testing.T) {
	const value = "s3cret-of-40-bytes/that+nobody=may-see-00"
	s := NewScrubber([]Value{NewValue("tok", value)}, nil)
	forms := append(base64Forms(value), hex.EncodeToString([]byte(value)))
	for width := 4; width <= 50; width++ {
		for before := range 12 {
			data := strings.Repeat("x", before) + value + "yz"
			for _, text := range []string{base64.StdEncoding.EncodeToString([]byte(data)), hex.EncodeToString([]byte(data))} {
				lines := fold(text, width)
				for name, in := range map[string]string{
					"plain":    strings.Join(lines, "\n") + "\n",
					"crlf":     strings.Join(lines, "\r\n"),
					"escaped":  `{"key":"` + strings.Join(lines, `\n`) + `","other":"x"}`,
					"indented": "key: |\n    " + strings.Join(lines, "\n    ") + "\nother: x\n",
					"numbered": numbered(lines, func(i int) string { return fmt.Sprintf("%6d\t", i+1) }),
					"added":    numbered(lines, func(int) string { return "+" }),
				} {
					got := s.String(in)
					if left := leaks(got, forms); left != "" || !strings.Contains(got, "[REDACTED:tok]") || strings.Count(got, "\n") != strings.Count(in, "\n") {
						t.Fatalf("%s, lines of %d, %d before: %q is left of\n%s\nin\n%s", name, width, before, left, in, got)
					}
				}
			}
		}
	}
}
