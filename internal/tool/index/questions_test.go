package index

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/testenv"
)

// wantAnswered is the least number of the 60 questions that are answered.
const wantAnswered = 50

// A question is answered if the declaration is among the first three hits.
type question struct{ project, text, file, declaration string }

func readQuestions(t *testing.T) []question {
	t.Helper()
	data, err := os.ReadFile("testdata/questions.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []question
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			t.Fatalf("%q has %d fields, want 4", line, len(f))
		}
		list = append(list, question{f[0], f[1], f[2], f[3]})
	}
	return list
}

// TestQuestions asks about real projects in five languages.
func TestQuestions(t *testing.T) {
	questions := readQuestions(t)
	indexes := map[string]*Index{}
	dirs := map[string]string{}
	answered := 0
	for _, q := range questions {
		x := indexes[q.project]
		if x == nil {
			ws, dir := open(t, "local")
			if err := os.CopyFS(dir, os.DirFS(testenv.NeedsSource(t, q.project))); err != nil {
				t.Fatal(err)
			}
			x = New(ws)
			defer x.Close(t.Context())
			indexes[q.project], dirs[q.project] = x, dir
			measureBuild(t, x, q)
		}
		res, err := x.Search(t.Context(), q.text, 10)
		if err != nil {
			t.Fatal(err)
		}
		rank := 0
		for i, h := range res.Hits {
			if h.Path == q.file && strings.HasPrefix(lineOf(t, filepath.Join(dirs[q.project], h.Path), h.Line), q.declaration) {
				rank = i + 1
				break
			}
		}
		if 0 < rank && rank <= 3 {
			answered++
			continue
		}
		t.Logf("%s: %q: %s %s is hit %d (0: none of 10)", q.project, q.text, q.file, q.declaration, rank)
		for _, h := range res.Hits[:min(3, len(res.Hits))] {
			t.Logf("    %s:%d %s %.2f", h.Path, h.Line, h.Symbol, h.Score)
		}
	}
	t.Logf("%d of %d questions are answered", answered, len(questions))
	if answered < wantAnswered || len(questions) != 60 {
		t.Errorf("%d of %d questions are answered, want %d of 60", answered, len(questions), wantAnswered)
	}
}

// maxBuild bounds the time of building an index, which reads the whole project.
const maxBuild = 2 * time.Second

func measureBuild(t *testing.T, x *Index, q question) {
	t.Helper()
	res, err := x.Search(t.Context(), q.text, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%-16s %4d files in %v", q.project, res.Files, res.Built.Round(time.Millisecond))
	if res.Built > maxBuild {
		t.Errorf("%s: the index took %v, want at most %v", q.project, res.Built, maxBuild)
	}
}

// lineOf returns a line of a file, without the space around it.
func lineOf(t *testing.T, name string, n int) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if n--; n == 0 {
			return strings.TrimSpace(lines.Text())
		}
	}
	return ""
}
