package secret

import (
	"bytes"
	"fmt"
	"html"
	"os/exec"
	"strings"
	"testing"
)

// quoted are programs that write their argument in some form; a NUL separates two forms.
var quoted = [][]string{
	{"bash", "-c", `printf '%q\0' "$1"; x=$1; declare -p x; printf '\0'; printf 'x%s' "$1" | base64 -w0; printf '\0'
		printf '%s\n' "$1" | grep --color=always end; printf '\0'; printf '%s\n' "$1" | sed -n l; /usr/bin/printf '\0%q' "$1"`, "-"},
	{"bash", "-c", `printf 'x%s' "$1" | od -c
		printf '\0'; printf 'before %s after' "$1" | od -An -c; printf '\0'; printf 'bef %s' "$1" | od -c -w10 | nl -ba`, "-"},
	{"bash", "-xc", `: "$1"`, "-"},
	{"python3", "-c", `import sys, shlex, json, html, urllib.parse as u
s = sys.argv[1]
print(shlex.quote(s), repr(s), json.dumps(s), json.dumps(s, ensure_ascii=False), u.quote(s), u.quote(s, safe=""), u.quote_plus(s),
	html.escape(s), s.encode("ascii", "xmlcharrefreplace").decode(), sep="\0")`},
}

// TestScrubQuoted: what programs write of a secret is hidden, also where they escape some
// of its characters.
//
//croft:slow-race
func TestScrubQuoted(t *testing.T) {
	for _, program := range quoted {
		if _, err := exec.LookPath(program[0]); err != nil {
			t.Skipf("skipped: host: it lacks %s: %v", program[0], err)
		}
		for _, value := range []string{"plain-T0ken-end.of/it", `s3cr=t/"<T&n>+ ~' end`, `a$b(c) d[e]{f}%g\h|end`, "Tök€n 'x' end"} {
			s := NewScrubber([]Value{NewValue("tok", value)}, nil)
			cmd := exec.CommandContext(t.Context(), program[0], append(program[1:len(program):len(program)], value)...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "PYTHONIOENCODING=utf-8"}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, form := range strings.Split(strings.Trim(string(out), "\x00"), "\x00") {
				checkHidden(t, s, program[0], form)
			}
		}
	}
}

func checkHidden(t *testing.T, s *Scrubber, name, text string) {
	t.Helper()
	got := s.String("before " + text + " after")
	if !strings.Contains(got, "[REDACTED:tok]") || strings.Contains(got, "3cr") || strings.Contains(got, "T0k") || strings.Contains(got, "end") {
		t.Errorf("%s: %q became %q", name, text, got)
	}
	if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
		t.Errorf("%s: the neighbours changed: %q", name, got)
	}
}

//croft:slow-race
func TestScrubEscaped(t *testing.T) {
	const value = `s3cr=t/"<T0k&n>+ ~' end`
	s := NewScrubber([]Value{NewValue("tok", value)}, nil)
	var all, colours, entities, octal, array bytes.Buffer
	for i, c := range []byte(value) {
		fmt.Fprintf(&array, "%s0x%02x", []string{", ", ",\n  "}[min(1, (i+11)%12/11)], c) // as xxd -i
		fmt.Fprintf(&all, "%%%02x", c)
		colours.WriteString([]string{"\x1b[31m", "\x1b[0m", "\x1b[38;5;12m", "\x1b(B\x1b[m", "\x1b]8;;http://x\x1b\\", "\x1b[K"}[i%6] + string(c))
		entities.WriteString([]string{"&#" + "115;", html.EscapeString(string(c))}[min(i, 1)])
		octal.WriteString(`\` + string([]byte{'0' + c>>6, '0' + c>>3&7, '0' + c&7}))
	}
	for name, text := range map[string]string{
		"colours": colours.String(), "percent": all.String(), "entities": entities.String(), "octal": octal.String(), "array": strings.TrimLeft(array.String(), ",\n "),
		"mixed case":        `s3cr%3dt%2F"%3CT0k&n%3e+%20~'%20end`,
		"colour in JSON":    "s3cr=t/\\\"<T0\x1b[1mk\\u0026n>+ ~'\x1b[0m end",
		"quote closed":      `s3cr=t/"<T0k&n>+ ~'"'"' end`,
		"quote escaped":     `s3cr=t/"<T0k&n>+ ~'\'' end`,
		"line continuation": "s3cr=t/\"<T0k\\\n&n>+ ~' end",
		"overstruck":        "s\bs3\b3cr=t/\"<xx\b\bT0k&n>+ ~' enn\bd",
		"underlined":        "_\bs_\b3_\bc_\br_\b=_\bt/\"<T0k&n>+ ~' _\be_\bn_\bd",
		"many":              strings.Repeat(`\n`, 300) + `s3cr=t\/\"<T0k&n>+ ~' end` + strings.Repeat(`\n`, 300),
	} {
		checkHidden(t, s, name, text)
	}
}

// TestPatternsBelowColours: a token that a program coloured in parts is hidden.
func TestPatternsBelowColours(t *testing.T) {
	got := byForm(t).String("use ghp_" + noise(10) + "\x1b[01;31m\x1b[K" + noise(5) + "\x1b[m\x1b[K" + noise(21) + " now")
	if want := "use [REDACTED:github-pat] now"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzEscaped(f *testing.F) {
	s := NewScrubber([]Value{NewValue("a", "correct-horse")}, &ScrubOptions{Finders: []Finder{Known()}})
	for _, seed := range []string{"\x1b[", "\x1b]8;;", "%4", "%41", "&#x", "&amp;", `\u00`, `\ud83d\ude00`, `\777`, `'\''`, "\x1b"} {
		f.Add([]byte(seed + "correct-horse" + seed))
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if bytes.Contains(s.Bytes(p), []byte("correct-horse")) {
			t.Errorf("%q is left", p)
		}
	})
}
