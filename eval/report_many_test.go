package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/internal/testenv"
)

// TestPageOfManyCases: a page of 500 cases with two runners is small, is made at once, and
// its own script filters it.
func TestPageOfManyCases(t *testing.T) {
	const cases = 500
	runners := []session.Runner{session.NewRunner("fast", session.Agent{Type: "command", Model: "m"}), session.NewRunner("slow",
		session.Agent{Type: "command", Model: "n"})}
	res := &Result{SuitePath: "/repo/s.ts", StartedAt: "2026-11-15T09:00:00.000Z", ArtifactDir: t.TempDir()}
	for i := range cases {
		c := CaseResult{CaseID: fmt.Sprintf("case-%03d", i), Passed: i%10 != 0}
		for _, r := range runners {
			e := &ExecutionResult{Runner: r, Passed: c.Passed, Status: StatusPassed, DurationMs: 12, Report: session.Empty(r, "do it")}
			if !c.Passed {
				e.Status, e.FailureOrigin, e.FailureClass = StatusFailed, OriginAssertion, defaultClass(OriginAssertion, false)
				e.Error = &ErrorInfo{Name: "AssertionError", Message: fmt.Sprintf("expected %d widgets", i)}
			}
			one := *e
			e.Repetitions = []*ExecutionResult{{Sessions: []*ExecutionResult{&one}}}
			c.RunnerResults = append(c.RunnerResults, e)
		}
		res.Cases = append(res.Cases, c)
	}
	res.Runners = summarizeRunners(res.Cases, runners)
	start := time.Now()
	page, err := Page(res)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("%d cases: %d KB in %v", cases, len(page)>>10, took.Round(time.Millisecond))
	if len(page) > 2<<20 || took > 5*time.Second {
		t.Errorf("the page has %d bytes and took %v", len(page), took)
	}
	tests := []struct{ search, verdict, want string }{
		{"", "", "500 of 500 cases"},
		{"", "FAIL", "50 of 500 cases"},
		{"", "ok", "450 of 500 cases"},
		{"CASE-12", "", "10 of 500 cases"},
		{"case-120", "FAIL", "1 of 500 cases"},
		{"expected 120 widgets", "", "1 of 500 cases"},
		{"no such case", "", "0 of 500 cases"},
	}
	got := filterPage(t, string(page), tests)
	for i, tt := range tests {
		if got[i] != tt.want {
			t.Errorf("search %q, verdict %q: %q, want %q", tt.search, tt.verdict, got[i], tt.want)
		}
	}
}

// pageRunner is a program that runs the script of a page over its elements, without a browser,
// and prints how many cases the page says are shown by each search.
const pageRunner = `const { elements, script, searches } = JSON.parse(require("fs").readFileSync(0, "utf8"));
for (const e of elements) Object.assign(e, { value: "", addEventListener() {},
	classList: { contains: (name) => e.classes.includes(name) } });
globalThis.document = { getElementById: (id) => elements.find((e) => e.id === id),
	querySelectorAll: () => elements.filter((e) => e.classes.includes("case")) };
Object.assign(globalThis, { addEventListener() {}, location: { hash: "" } });
const filter = new Function(script + "; return (text, kind) => { search.value = text; verdict.value = kind; filter(); return document.getElementById('shown').textContent; }")();
console.log(JSON.stringify(searches.map(([text, kind]) => filter(text, kind))));`

var pageScript = regexp.MustCompile(`(?s)<script>(.*)</script>`)

// filterPage puts searches into the page's controls, and returns how many cases it says are shown.
func filterPage(t *testing.T, text string, searches []struct{ search, verdict, want string }) []string {
	t.Helper()
	node := testenv.NeedsProgram(t, "node")
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var elements []map[string]any
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		e := map[string]any{"tagName": strings.ToUpper(n.Data), "textContent": textContent(n), "hidden": false, "classes": []string{}}
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				e["id"] = a.Val
			case "data-case":
				e["dataset"] = map[string]any{"case": a.Val}
			case "class":
				e["classes"] = strings.Fields(a.Val)
			}
		}
		elements = append(elements, e)
	}
	asked := make([][2]string, len(searches))
	for i, tt := range searches {
		asked[i] = [2]string{tt.search, tt.verdict}
	}
	input, err := json.Marshal(map[string]any{"elements": elements, "script": pageScript.FindStringSubmatch(text)[1], "searches": asked})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "-e", pageRunner)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func textContent(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}
