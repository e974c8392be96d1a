package lsp

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPositions(t *testing.T) {
	text := []byte("one\r\na😀é z\n\nlast")
	tests := []struct {
		line, col int
		want      wirePosition
	}{
		{1, 1, wirePosition{0, 0}}, {1, 4, wirePosition{0, 3}}, {2, 2, wirePosition{1, 1}}, {2, 3, wirePosition{1, 3}},
		{2, 4, wirePosition{1, 4}}, {2, 6, wirePosition{1, 6}}, {3, 1, wirePosition{2, 0}}, {4, 5, wirePosition{3, 4}},
	}
	for _, tt := range tests {
		got, err := toWire(text, tt.line, tt.col)
		if err != nil || got != tt.want {
			t.Errorf("toWire(%d, %d) = %v, %v, want %v", tt.line, tt.col, got, err, tt.want)
		}
		if line, col := fromWire(text, tt.want); line != tt.line || col != tt.col {
			t.Errorf("fromWire(%v) = %d, %d, want %d, %d", tt.want, line, col, tt.line, tt.col)
		}
	}
	for _, p := range [][2]int{{5, 1}, {1, 5}, {0, 1}} {
		if got, err := toWire(text, p[0], p[1]); err == nil && p[0] > 0 {
			t.Errorf("toWire(%d, %d) = %v, want an error", p[0], p[1], got)
		}
	}
}

func TestApplyEdits(t *testing.T) {
	text := []byte("a😀b\nc")
	at := func(l, c, l2, c2 int) wireRange { return wireRange{wirePosition{l, c}, wirePosition{l2, c2}} }
	got, err := applyEdits(text, []textEdit{
		{at(0, 3, 0, 4), "B"}, {at(0, 3, 0, 4), "B"}, {at(1, 1, 1, 1), "!"}, {at(0, 0, 0, 0), "1"}, {at(0, 0, 0, 0), "2"}, {at(2, 0, 2, 0), "\nend"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "12a😀B\nc!\nend"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := applyEdits(text, []textEdit{{at(0, 0, 0, 3), ""}, {at(0, 1, 0, 4), ""}}); err == nil {
		t.Error("edits that overlap were applied")
	}
}

func FuzzReadMessage(f *testing.F) {
	f.Add("Content-Length: 2\r\n\r\n{}")
	f.Add("Content-Length: 99999999999\r\n\r\n")
	f.Add("content-length:0\r\nContent-Type: x\r\n\r\n")
	f.Fuzz(func(t *testing.T, data string) {
		body, err := readMessage(bufio.NewReaderSize(strings.NewReader(data), maxHeader))
		if err == nil && !strings.Contains(data, string(body)) {
			t.Fatalf("%q was read from %q", body, data)
		}
	})
}

func FuzzPositions(f *testing.F) {
	f.Add("a😀é\r\nb\n", 0, 2)
	f.Fuzz(func(t *testing.T, text string, line, char int) {
		if line < 0 || char < 0 || line > 1000 || !utf8.ValidString(text) {
			return
		}
		p := wirePosition{line, char}
		at, err := byteOffset([]byte(text), p)
		if err != nil {
			return
		}
		if at < 0 || at > len(text) {
			t.Fatalf("offset %d of %d", at, len(text))
		}
		l, c := fromWire([]byte(text), p)
		back, err := toWire([]byte(text), l, c)
		if err != nil {
			return // the line behind the last
		}
		again, err := byteOffset([]byte(text), back)
		if err != nil || again != at {
			t.Fatalf("%v is byte %d, and %v, by way of %d:%d, is %d (%v)", p, at, back, l, c, again, err)
		}
		out, err := applyEdits([]byte(text), []textEdit{{wireRange{p, p}, "x"}})
		if err != nil || !bytes.Equal(out, []byte(text[:at]+"x"+text[at:])) {
			t.Fatalf("insertion at %v: %q, %v", p, out, err)
		}
	})
}
