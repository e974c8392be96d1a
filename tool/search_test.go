package tool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
)

func TestGlob(t *testing.T) {
	env := coding(t, "w")
	w, _ := env.Workspaces.Get(t.Context(), "w")
	for i, name := range []string{"old.go", "sub/new.go", ".github/x.yml", "-dash/a.go", "ignored/b.go"} {
		put(t, env, "w", name, "")
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(filepath.Join(w.Traits().Root, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	put(t, env, "w", ".gitignore", "ignored\n")
	for args, want := range map[string]string{
		`{"pattern":"*.go"}`:                  "-dash/a.go\nsub/new.go\nold.go",
		`{"pattern":"**/*.go","limit":1}`:     "-dash/a.go\n... (2 more; raise limit or narrow the pattern)",
		`{"pattern":"*.yml"}`:                 ".github/x.yml",
		`{"pattern":"*.{yml,none}"}`:          ".github/x.yml",
		`{"pattern":"*.none"}`:                "no file matches",
		`{"pattern":"*.go","path":"sub"}`:     "sub/new.go",
		`{"pattern":"sub/*.go","path":"sub"}`: "sub/new.go",
		`{"pattern":"*.go","path":"-dash"}`:   "-dash/a.go",
		`{"pattern":"*.go","path":"old.go"}`:  "path is not a directory: old.go",
		`{"pattern":"*.go","path":"none"}`:    "stat none: no such file or directory",
		`{"pattern":""}`:                      "pattern is required",
		`{"pattern":"*.go","path":"../.."}`:   "resolve path: path is outside workspace root",
	} {
		if got, _ := call(t, env, "Glob", args); got != want {
			t.Errorf("Glob(%s) = %q, want %q", args, got, want)
		}
	}
}

// TestNamesAreOneLine: a name with a line break is listed so that it is one.
func TestNamesAreOneLine(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "a\nb", "")
	put(t, env, "w", "plain ä", "")
	if got := ok(t, env, "Glob", `{"pattern":"a*"}`); got != `"a\nb"` {
		t.Errorf("Glob = %q", got)
	}
	if got := ok(t, env, "list", `{}`); got != "\"a\\nb\"\nplain ä\n" {
		t.Errorf("list = %q", got)
	}
}

// TestHugeArguments are refused with what is wrong, and not told in full.
func TestHugeArguments(t *testing.T) {
	env := newEnv(t, tool.Config{Tools: slices.Concat(tool.Coding(), tool.Workspace()), Workspaces: newSet(t, "w")})
	many := make([]string, 2000)
	for i := range many {
		many[i] = strings.Repeat("x", 1000)
	}
	if got := refused(t, env, "workspace_run", args(t, "cmd", "echo", "args", many), fault.InvalidArgument); !strings.HasPrefix(got, "args and env have 2002000 bytes; at most 1048576") {
		t.Errorf("got %q", got)
	}
	refused(t, env, "workspace_run", `{"cmd":"true","timeout_ms":9223372036854775807}`, fault.InvalidArgument)
	if got := refused(t, env, "Grep", args(t, "pattern", strings.Repeat("(", 1<<20)), fault.InvalidArgument); len(got) > 20<<10 {
		t.Errorf("the error has %d bytes", len(got))
	}
}

// TestGrepSaysWhatItDidNotSearch: without a match, a text in UTF-16 or with a zero byte is named.
func TestGrepSaysWhatItDidNotSearch(t *testing.T) {
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w")})
	ok(t, env, "Bash", args(t, "command", `printf '\377\376h\0i\0' > wide.txt; for i in 1 2 3 4 5 6; do printf 'hi\0' > zero$i; done; echo other > text`))
	for _, mode := range []string{"content", "files_with_matches", "count"} {
		got := ok(t, env, "Grep", args(t, "pattern", "hi", "output_mode", mode))
		if !strings.HasPrefix(got, "no match\nnot searched:\n  wide.txt: binary or UTF-16\n") || !strings.Contains(got, "\n  2 more files: binary or UTF-16\n") {
			t.Errorf("%s: %s", mode, got)
		}
	}
	if got := ok(t, env, "Grep", args(t, "pattern", "other")); got != "text:1:other\n" {
		t.Errorf("with a match: %s", got)
	}
}

func TestGrep(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "a.go", "package a\n\nfunc A() {\n}\n\nfunc B() {}\n")
	put(t, env, "w", "b.py", "def a():\n    pass\n")
	put(t, env, "w", ".github/w.yml", "func: x\n")
	put(t, env, "w", "bin", "func\x00")
	for args, want := range map[string]string{
		`{"pattern":"^func [AB]"}`:                                       "a.go:3:func A() {\na.go:6:func B() {}\n",
		`{"pattern":"func","path":"a.go","head_limit":1}`:                "a.go:3:func A() {\n... (there are more; offset=1 shows them)\n",
		`{"pattern":"func","path":"a.go","head_limit":1,"offset":1}`:     "a.go:6:func B() {}\n",
		`{"pattern":"func","output_mode":"files_with_matches"}`:          ".github/w.yml\na.go\n",
		`{"pattern":"func","output_mode":"count"}`:                       ".github/w.yml:1\na.go:2\n",
		`{"pattern":"DEF","case_insensitive":true}`:                      "b.py:1:def a():\n",
		`{"pattern":"a","glob":"*.py","output_mode":"count"}`:            "b.py:2\n",
		`{"pattern":"a","type":"py","output_mode":"count"}`:              "b.py:2\n",
		`{"pattern":"func B","context":1}`:                               "a.go-5-\na.go:6:func B() {}\n",
		`{"pattern":"func","type":"go","after":1}`:                       "a.go:3:func A() {\na.go-4-}\n--\na.go:6:func B() {}\n",
		`{"pattern":"func A.*\\}\\n\\n","multiline":true,"glob":"*.go"}`: "",
		`{"pattern":"zzz"}`:                                              "no match\nnot searched:\n  bin: binary or UTF-16\n",
		`{"pattern":"a","output_mode":"x"}`:                              "unknown output_mode: x (valid: content, files_with_matches, count)",
		`{"pattern":"a","path":"none"}`:                                  "stat none: no such file or directory",
	} {
		got, _ := call(t, env, "Grep", args)
		if strings.Contains(args, "multiline") {
			if !strings.HasPrefix(got, "a.go:3:func A() {\n") {
				t.Errorf("Grep(%s) = %q", args, got)
			}
			continue
		}
		if got != want {
			t.Errorf("Grep(%s) = %q, want %q", args, got, want)
		}
	}
	if got := refused(t, env, "Grep", `{"pattern":"("}`, fault.InvalidArgument); !strings.HasPrefix(got, "grep: ") {
		t.Errorf("got %q", got)
	}
	if got := refused(t, env, "Grep", `{"pattern":"a","type":"cobol"}`, fault.InvalidArgument); !strings.HasPrefix(got, `unknown type "cobol"; known: c, cpp,`) {
		t.Errorf("got %q", got)
	}
}

func TestFanOut(t *testing.T) {
	env := coding(t, "b", "a")
	put(t, env, "a", "f", "needle\n")
	got := ok(t, env, "Grep", `{"pattern":"needle","workspace":"all"}`)
	if want := "=== a ===\nf:1:needle\n\n=== b ===\nno match\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got = ok(t, env, "Grep", `{"pattern":"needle","path":"f","workspace":"all"}`)
	if want := "=== a ===\nf:1:needle\n\n=== b ===\nerror: stat f: no such file or directory\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	refused(t, env, "Grep", `{"pattern":"(","workspace":"all"}`, fault.InvalidArgument)
}

// TestLongListsGoOn: an answer that is too long ends at a line and says with which offset
// the next one goes on, until everything was shown.
func TestLongListsGoOn(t *testing.T) {
	env := newEnv(t, tool.Config{Tools: append(tool.Coding(), tool.Workspace()...), Workspaces: newSet(t, "w"), MaxText: 2000})
	var want strings.Builder
	for i := range 200 {
		fmt.Fprintf(&want, "match number %d\n", i)
	}
	put(t, env, "w", "a.txt", want.String())
	for _, name := range []string{"Grep", "workspace_grep"} {
		var got strings.Builder
		for offset, calls := 0, 0; ; calls++ {
			text := ok(t, env, name, args(t, "pattern", "match", "offset", offset))
			if len(text) > 2000 || calls > 20 {
				t.Fatalf("after %d calls an answer has %d bytes", calls, len(text))
			}
			shown, note, more := strings.Cut(text, "... (there are more; offset=")
			for line := range strings.Lines(shown) {
				got.WriteString(line[strings.LastIndexByte(line, ':')+1:])
			}
			if !more {
				break
			}
			if _, err := fmt.Sscanf(note, "%d shows them)", &offset); err != nil {
				t.Fatalf("%q: %v", note, err)
			}
		}
		if got.String() != want.String() {
			t.Errorf("the answers of %s together are %q", name, got.String())
		}
	}

	// What has no offset of its own goes on by that of BashOutput.
	for i := range 300 {
		put(t, env, "w", fmt.Sprintf("files/%03d.txt", i), "")
	}
	text := ok(t, env, "list", `{"path":"files"}`)
	note := regexp.MustCompile(`\n\.\.\. \(output truncated, \d+ more bytes; BashOutput with shell_id "(\S+)" and offset (\d+) reads them\)\n$`).FindStringSubmatchIndex(text)
	if note == nil {
		t.Fatalf("a long list ends with %q", text[max(0, len(text)-300):])
	}
	next := ok(t, env, "BashOutput", fmt.Sprintf(`{"shell_id":%q,"offset":%s}`, text[note[2]:note[3]], text[note[4]:note[5]]))
	if got := strings.Count(text[:note[0]]+"\n"+next, ".txt"); got < 200 || !strings.HasPrefix(next, "files/") && !strings.Contains(strings.SplitN(next, "\n", 2)[0], ".txt") {
		t.Errorf("both answers have %d files, and the second begins with %.60q", got, next)
	}
}
