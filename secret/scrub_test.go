package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

const token = `s3cr=t/"<Tök&n>+ ~' end`

//croft:slow-race
func TestScrubEncodings(t *testing.T) {
	s := NewScrubber([]Value{NewValue("tok", token)}, nil)
	j, err := json.Marshal(map[string]string{"a": token})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"raw":          token,
		"hex":          hex.EncodeToString([]byte(token)),
		"HEX":          strings.ToUpper(hex.EncodeToString([]byte("x" + token + "y"))),
		"hex apart":    spaced(token, " "),
		"hex colons":   strings.ToUpper(spaced("x"+token, ":")),
		"hex escaped":  `\x` + spaced(token, `\x`),
		"hex pairs":    "7833 " + pairs(token),
		"query":        url.Values{"a": {token}}.Encode(),
		"path":         url.PathEscape(token),
		"lower":        percentEscape.ReplaceAllStringFunc(url.QueryEscape(token), strings.ToLower),
		"json":         string(j),
		"json ascii":   `{"a": "s3cr=t/\"<T\u00f6k&n>+ ~' end"}`,
		"json slashes": `{"a": "s3cr=t\/\"<T\u00f6k&n>+ ~' end"}`,
		"html":         "<p>" + html.EscapeString(token) + "</p>",
		"utf-16":       utf16Forms(token)[0],
		"utf-16-be":    utf16Forms("x" + token)[1],
	}
	for _, before := range []string{"", "u", "u:", "us:", "user:"} {
		for _, after := range []string{"", "x", "xy", "xyz"} {
			text := []byte(before + token + after)
			for name, enc := range map[string]*base64.Encoding{"std": base64.StdEncoding, "rawstd": base64.RawStdEncoding,
				"url": base64.URLEncoding, "rawurl": base64.RawURLEncoding} {
				tests[name+" "+before+"|"+after] = "Basic " + enc.EncodeToString(text)
			}
		}
	}
	for name, text := range tests {
		got := s.String("before " + text + " after")
		if n := strings.Count(got, "[REDACTED:tok]"); n != 1 {
			t.Errorf("%s: %q became %q", name, text, got)
		}
		// Whatever is left must not hold the middle of the encoded secret.
		if mid := text[len(text)/2-4 : len(text)/2+4]; strings.Contains(got, mid) {
			t.Errorf("%s: %q is left in %q", name, mid, got)
		}
		if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: the neighbours changed: %q", name, got)
		}
	}
}

// spaced is hex with something between the bytes.
func spaced(text, between string) string {
	var list []string
	for _, b := range []byte(text) {
		list = append(list, hex.EncodeToString([]byte{b}))
	}
	return strings.Join(list, between)
}

// pairs is hex in groups of two bytes.
func pairs(text string) string {
	var list []string
	for p := []byte(text); len(p) > 0; p = p[min(2, len(p)):] {
		list = append(list, hex.EncodeToString(p[:min(2, len(p))]))
	}
	return strings.Join(list, " ")
}

//croft:slow-race
func TestScrubOverlaps(t *testing.T) {
	s := NewScrubber([]Value{NewValue("a", "abcdef"), NewValue("b", "defghi"), NewValue("c", "cdef"), NewValue("r", "zzzz"), NewValue("short", "xy")}, nil)
	for in, want := range map[string]string{
		"":                  "",
		"abcde":             "abcde",
		"1abcdef2":          "1[REDACTED:a]2",
		"1abcdefghi2":       "1[REDACTED:a]2",
		"1xcdef2":           "1x[REDACTED:c]2",
		"abcdefabcdef":      "[REDACTED:a]",
		"abcdefdefghi":      "[REDACTED:a][REDACTED:b]",
		"zzzzzzzzzzz":       "[REDACTED:r]",
		"zzz zzzz zzz":      "zzz [REDACTED:r] zzz",
		"xy":                "xy",
		"abcdabcdefabcdeab": "abcd[REDACTED:a]abcdeab",
	} {
		if got := s.String(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
		for size := 1; size < 5; size++ {
			if got := chunked(s, []byte(in), size); string(got) != want {
				t.Errorf("%q in chunks of %d became %q, want %q", in, size, got, want)
			}
		}
	}
	if got := s.Skipped(); len(got) != 1 || got[0] != "short" {
		t.Errorf("Skipped = %v", got)
	}
}

func chunked(s *Scrubber, p []byte, size int) []byte {
	var out bytes.Buffer
	w := s.Writer(&out)
	for len(p) > 0 {
		n := min(size, len(p))
		_, _ = w.Write(p[:n])
		p = p[n:]
	}
	_ = w.Close()
	return out.Bytes()
}

//croft:slow-race
func TestScrubReader(t *testing.T) {
	s := NewScrubber([]Value{NewValue("tok", token)}, nil)
	in := strings.Repeat("line "+token+" and "+base64.StdEncoding.EncodeToString([]byte(token))+"\n", 3000)
	want := s.String(in)
	for name, r := range map[string]io.Reader{
		"plain": strings.NewReader(in), "byte": iotest.OneByteReader(strings.NewReader(in)),
		"half": iotest.HalfReader(strings.NewReader(in)), "dataerr": iotest.DataErrReader(strings.NewReader(in)),
	} {
		got, err := io.ReadAll(s.Reader(r))
		if err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
	broken := errors.New("broken")
	got, err := io.ReadAll(s.Reader(io.MultiReader(strings.NewReader("s3cr"), iotest.ErrReader(broken))))
	if string(got) != "s3cr" || !errors.Is(err, broken) {
		t.Errorf("got %q, %v; want what was held back, and the error", got, err)
	}
	var none *Scrubber
	if none.String("x") != "x" || none.Skipped() != nil {
		t.Error("a nil scrubber changed something")
	}
}

type finder struct{}

func (finder) Find(p []byte) []Span {
	if i := bytes.Index(p, []byte("AKIA")); i >= 0 {
		return []Span{{i, i + 8, "aws"}}
	}
	return nil
}

func TestFinders(t *testing.T) {
	s := NewScrubber([]Value{NewValue("tok", "tokentoken")}, &ScrubOptions{Finders: []Finder{finder{}}})
	if got, want := s.String("a AKIA1234 b tokentoken"), "a [REDACTED:aws] b [REDACTED:tok]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzScrub compares the automaton with a search for one secret at every place.
func FuzzScrub(f *testing.F) {
	f.Add("abab", "bcbc", "abababcbcbab", uint8(3))
	f.Add("aaaa", "aaab", "aaaaaaabaaa", uint8(1))
	f.Fuzz(func(t *testing.T, a, b, text string, size uint8) {
		if len(a) < MinLength || len(b) < MinLength || len(a) > 64 || len(b) > 64 {
			return
		}
		s := NewScrubber([]Value{NewValue("a", a), NewValue("b", b)}, nil)
		if len(foldedIn(s, text)) > 0 {
			return // what goes on in another line is found in whole texts alone
		}
		covered := make([]bool, len(text))
		for _, v := range []string{a, b} {
			for _, form := range encodings(v) {
				if len(form) < MinLength {
					continue
				}
				for i := 0; i+len(form) <= len(text); i++ {
					if text[i:i+len(form)] == form {
						for j := i; j < i+len(form); j++ {
							covered[j] = true
						}
					}
				}
			}
		}
		var keep []byte
		for i := range len(text) {
			if !covered[i] {
				keep = append(keep, text[i])
			}
		}
		whole := s.String(text)
		unmark := strings.NewReplacer("[REDACTED:a]", "", "[REDACTED:b]", "")
		if !strings.Contains(text, "[REDACTED") && unmark.Replace(whole) != string(keep) {
			t.Errorf("secrets %q, %q in %q: got %q, want the rest %q", a, b, text, whole, keep)
		}
		if got := chunked(s, []byte(text), int(size%17)+1); string(got) != whole {
			t.Errorf("in chunks %q, whole %q", got, whole)
		}
	})
}

//croft:slow-race
func TestScrubRandomChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := NewScrubber([]Value{NewValue("a", "abaaba"), NewValue("b", "baab"), NewValue("c", "aabbaabb")}, nil)
	for range 3000 {
		text := make([]byte, rng.IntN(60))
		for i := range text {
			text[i] = 'a' + byte(rng.IntN(2))
		}
		want := s.Bytes(text)
		if got := chunked(s, text, 1+rng.IntN(7)); !bytes.Equal(got, want) {
			t.Fatalf("%q: chunks gave %q, whole %q", text, got, want)
		}
	}
}

func BenchmarkScrub(b *testing.B) {
	var values []Value
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 20 {
		text := make([]byte, 40)
		for j := range text {
			text[j] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[rng.IntN(62)]
		}
		values = append(values, NewValue("s"+string(rune('a'+i)), string(text)))
	}
	line := `{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"GET /api/v1/things 200","id":"b5bb9d8014a0f9b1d61e21e796d78dcc"}` + "\n"
	text := bytes.Repeat([]byte(line), 10000)
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	b64 := []byte(base64.StdEncoding.EncodeToString(noise))
	for _, bb := range []struct {
		name string
		n    int
		in   []byte
	}{{"1/text", 1, text}, {"20/text", 20, text}, {"20/binary", 20, noise}, {"20/base64", 20, b64}} {
		b.Run(bb.name, func(b *testing.B) {
			s := NewScrubber(values[:bb.n], nil)
			b.SetBytes(int64(len(bb.in)))
			for b.Loop() {
				w := s.Writer(io.Discard)
				for p := bb.in; len(p) > 0; {
					n := min(32<<10, len(p))
					_, _ = w.Write(p[:n])
					p = p[n:]
				}
				_ = w.Close()
			}
		})
	}
}

// TestFilterMissesNothing holds the filter against looking at every place.
func TestFilterMissesNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var f filter
		for range 1 + rnd.IntN(3) {
			f.add([]byte{'a' + byte(rnd.IntN(3)), 'a' + byte(rnd.IntN(3)), 'a' + byte(rnd.IntN(3)), 'a' + byte(rnd.IntN(3))})
		}
		p := make([]byte, rnd.IntN(60))
		for i := range p {
			p[i] = 'a' + byte(rnd.IntN(4))
		}
		from := rnd.IntN(len(p) + 1)
		want := f.findExact(p, from, len(p)-3)
		if want < 0 {
			want = max(from, len(p)-3)
		}
		if got := f.next(p, from); got != want {
			t.Fatalf("in %q from %d on it is %d, want %d", p, from, got, want)
		}
	}
}
