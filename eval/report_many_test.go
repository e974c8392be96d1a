package eval

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"
	"golang.org/x/net/html"

	"github.com/croft-run/croft/eval/session"
)

// TestPageOfManyCases: a page of 500 cases with two runners is small, is made at once, and
// its own script filters it.
func TestPageOfManyCases(t *testing.T) {
	const cases = 500
	runners := []session.Runner{session.NewRunner("fast", session.Agent{Type: "command", Model: "m"}), session.NewRunner("slow", session.Agent{Type: "command", Model: "n"})}
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
	p := openPage(t, string(page))
	for _, tt := range []struct{ search, verdict, want string }{
		{"", "", "500 of 500 cases"},
		{"", "FAIL", "50 of 500 cases"},
		{"", "ok", "450 of 500 cases"},
		{"CASE-12", "", "10 of 500 cases"},
		{"case-120", "FAIL", "1 of 500 cases"},
		{"expected 120 widgets", "", "1 of 500 cases"},
		{"no such case", "", "0 of 500 cases"},
	} {
		if got := p.filter(tt.search, tt.verdict); got != tt.want {
			t.Errorf("search %q, verdict %q: %q, want %q", tt.search, tt.verdict, got, tt.want)
		}
	}
}

// An openedPage runs the script of a page over its parsed elements, without a browser.
type openedPage struct {
	t  *testing.T
	js *goja.Runtime
}

var pageScript = regexp.MustCompile(`(?s)<script>(.*)</script>`)

func openPage(t *testing.T, text string) *openedPage {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	p := &openedPage{t, goja.New()}
	byID := map[string]map[string]any{}
	var rows []map[string]any
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		e := map[string]any{"tagName": strings.ToUpper(n.Data), "textContent": textContent(n), "value": "", "hidden": false}
		classes := map[string]bool{}
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				byID[a.Val] = e
			case "data-case":
				e["dataset"] = map[string]any{"case": a.Val}
			case "class":
				for _, c := range strings.Fields(a.Val) {
					classes[c] = true
				}
			}
		}
		e["classList"] = map[string]any{"contains": func(c string) bool { return classes[c] }}
		e["addEventListener"] = func(string, goja.Value) {}
		if classes["case"] {
			rows = append(rows, e)
		}
	}
	p.set("document", map[string]any{
		"getElementById":   func(id string) any { return p.js.ToValue(byID[id]) },
		"querySelectorAll": func(string) any { return rows },
	})
	p.set("addEventListener", func(string, goja.Value) {})
	p.set("location", map[string]any{"hash": ""})
	p.run(pageScript.FindStringSubmatch(text)[1])
	return p
}

func (p *openedPage) set(name string, value any) {
	if err := p.js.Set(name, value); err != nil {
		p.t.Fatal(err)
	}
}

func (p *openedPage) run(script string) string {
	p.t.Helper()
	v, err := p.js.RunString(script)
	if err != nil {
		p.t.Fatal(err)
	}
	return v.String()
}

// filter types into the page's controls and returns how many cases it says are shown.
func (p *openedPage) filter(search, verdict string) string {
	p.t.Helper()
	return p.run(fmt.Sprintf(`search.value = %q; verdict.value = %q; filter(); document.getElementById("shown").textContent`, search, verdict))
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
