package index

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
)

// TestStoreRanksAsBM25 holds the inverted index against the formula, computed
// for every unit, after random changes that make it compact.
func TestStoreRanksAsBM25(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	vocabulary := strings.Fields("parse parser http request req open file close user name server handle where index token write read")
	sentence := func() string {
		var out []string
		for range 1 + rnd.IntN(6) {
			out = append(out, vocabulary[rnd.IntN(len(vocabulary))])
		}
		return strings.Join(out, " ")
	}
	s, c := newStore(), newCounter()
	now := map[string][]counted{}
	for range 3000 {
		name := fmt.Sprintf("f%d%s.go", rnd.IntN(200), []string{"", "_test"}[rnd.IntN(2)])
		if rnd.IntN(5) == 0 {
			s.remove(name)
			delete(now, name)
			continue
		}
		var units []counted
		for n := range 1 + rnd.IntN(4) {
			units = append(units, c.countTerms(Unit{Path: name, Line: n + 1, Symbol: sentence(), Signature: sentence(), Doc: sentence()}))
		}
		s.add(name, units, c)
		now[name] = units
	}
	for range 20 {
		query := sentence()
		want := naive(c, now, query)
		got := s.search(query, 10)
		for i := range want[:min(10, len(want))] {
			if i >= len(got) || math.Abs(got[i].Score-want[i].Score) > 1e-3 {
				t.Fatalf("query %q: hit %d has score %v, want %v", query, i, got[i].Score, want[i].Score)
			}
		}
	}
}

func naive(c *counter, files map[string][]counted, query string) []Hit {
	var all []counted
	total := 0
	for _, units := range files {
		all = append(all, units...)
	}
	df := map[string]int{}
	for _, u := range all {
		total += int(u.size)
		for _, tc := range u.terms {
			df[c.names[tc.term]]++
		}
	}
	asked := map[string]float64{} // weights
	var buf []byte
	eachTerm(query, &buf, func(b []byte) {
		word := string(b)
		for term := range df {
			switch {
			case term == stem(word) && commonWords[word]:
				asked[term] = max(asked[term], commonFactor)
			case term == stem(word):
				asked[term] = 1
			case len(term) >= minShort && strings.HasPrefix(stem(word), term) && !commonWords[word]:
				asked[term] = max(asked[term], shortFactor)
			}
		}
	})
	var hits []Hit
	for _, u := range all {
		score := 0.0
		for _, tc := range u.terms {
			if weight := asked[c.names[tc.term]]; weight > 0 {
				if strings.HasSuffix(u.Path, "_test.go") {
					weight *= testFactor
				}
				idf := weight * math.Log(1+(float64(len(all))-float64(df[c.names[tc.term]])+0.5)/(float64(df[c.names[tc.term]])+0.5))
				tf := float64(tc.count)
				score += idf * tf * 2.5 / (tf + 1.5*(0.25+0.75*float64(u.size)*float64(len(all))/float64(total)))
			}
		}
		if score > 0 {
			hits = append(hits, Hit{u.Unit, score})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int { return int(math.Copysign(1, b.Score-a.Score)) })
	return hits
}

func open(t *testing.T, kind string) (*workspace.Workspace, string) {
	t.Helper()
	p, err := local.New(&local.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	mux := workspace.NewMux(p, new(memory.Provider))
	spec := workspace.Spec{Kind: kind, ID: workspace.NewID()}
	dir := ""
	if kind == "local" {
		dir = t.TempDir()
		spec.Dir = dir
	}
	ws, err := mux.Open(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
	return ws, dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func places(t *testing.T, x *Index, query string) []string {
	t.Helper()
	res, err := x.Search(t.Context(), query, 10)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, h := range res.Hits {
		list = append(list, fmt.Sprintf("%s:%d %s", h.Path, h.Line, h.Symbol))
	}
	slices.Sort(list)
	return list
}

// patience is how long is waited for what is sure to come, on a machine that is busy
// otherwise.
const patience = 2 * time.Minute

// eventually waits for what a watch brings about; how long is for bench to say.
func eventually(t *testing.T, x *Index, query string, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		got := places(t, x, query)
		diff := cmp.Diff(append([]string{}, want...), got)
		if diff == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s (-want +got):\n%s", query, diff)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestSearchStaysFresh is the hole of a watcher that ended with the request that
// started it: what changes after the first search is found by the next ones.
func TestSearchStaysFresh(t *testing.T) {
	ws, dir := open(t, "local")
	write(t, dir, "a.go", "package a\n\n// ParseRequest parses.\nfunc ParseRequest() {}\n")
	write(t, dir, "out/gen.go", "package out\n\nfunc ParseGenerated() {}\n")
	write(t, dir, ".gitignore", "out/\n")
	x := New(ws)
	defer x.Close(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := x.Search(ctx, "parse", 10); err != nil {
		t.Fatal(err)
	}
	cancel() // as the request's is when it ends
	eventually(t, x, "parse", "a.go:4 ParseRequest")
	write(t, dir, "de[e]p/er/b.py", "def parse_reply(): pass\n")
	eventually(t, x, "parse", "a.go:4 ParseRequest", "de[e]p/er/b.py:1 parse_reply")
	write(t, dir, "a.go", "package a\n\nfunc FormatRequest() {}\n")
	eventually(t, x, "parse", "de[e]p/er/b.py:1 parse_reply")
	eventually(t, x, "format", "a.go:3 FormatRequest")
	if err := os.Rename(filepath.Join(dir, "de[e]p"), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	eventually(t, x, "parse", "moved/er/b.py:1 parse_reply")
	write(t, dir, "out/more.go", "package out\n\nfunc ParseMore() {}\n")
	write(t, dir, "c.go", "package a\n\nfunc ParseLast() {}\n")
	eventually(t, x, "parse", "c.go:3 ParseLast", "moved/er/b.py:1 parse_reply")
	write(t, dir, ".gitignore", "moved/\n")
	eventually(t, x, "parse", "c.go:3 ParseLast", "out/gen.go:3 ParseGenerated", "out/more.go:3 ParseMore")
	if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	eventually(t, x, "parse", "c.go:3 ParseLast")
}

// TestTouch is that what a tool changed is known to the very next search.
func TestTouch(t *testing.T) {
	ws, dir := open(t, "local")
	write(t, dir, "a.go", "package a\n\nfunc First() {}\n")
	x := New(ws)
	defer x.Close(t.Context())
	places(t, x, "first")
	for i := range 20 {
		name := fmt.Sprintf("n%d.go", i)
		write(t, dir, name, fmt.Sprintf("package a\n\nfunc Number%dth() {}\n", i))
		if err := x.Refresh(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if got := places(t, x, fmt.Sprintf("number%dth", i)); !slices.Contains(got, fmt.Sprintf("%s:3 Number%dth", name, i)) {
			t.Fatalf("after touching %s: %v", name, got)
		}
	}
}

func TestWithoutWatch(t *testing.T) {
	ws, _ := open(t, "memory")
	put := func(name, text string) {
		if _, err := ws.WriteFile(t.Context(), name, []byte(text), nil); err != nil {
			t.Fatal(err)
		}
	}
	put("a.go", "package a\n\nfunc First() {}\n")
	x := New(ws)
	defer x.Close(t.Context())
	eventually(t, x, "first", "a.go:3 First")
	put("b.go", "package a\n\nfunc FirstOther() {}\n")
	eventually(t, x, "first", "a.go:3 First", "b.go:3 FirstOther")
}

func TestSearchCode(t *testing.T) {
	ws, dir := open(t, "local")
	set := new(tool.Set)
	if err := set.Add("main", ws); err != nil {
		t.Fatal(err)
	}
	env, err := tool.NewEnv(tool.Config{Tools: Tools(), Workspaces: set, Effects: []tool.Effect{Effect}})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close(context.WithoutCancel(t.Context()))
	call := func(args string) string {
		res, err := env.Run(t.Context(), tool.Request{Tool: "search_code", Args: []byte(args)})
		if err != nil {
			return "error: " + tool.ErrorText(err)
		}
		return res.Text
	}
	if got, want := call(`{"query":"x"}`), "no source files found"; got != want {
		t.Errorf("in an empty workspace: %q, want %q", got, want)
	}
	write(t, dir, "srv/http.go", "package srv\n\n// Serve handles requests.\nfunc (s *Server) Serve(addr string) error {\n}\n")
	end := time.Now().Add(patience)
	for got := ""; !strings.HasPrefix(got, "1 results"); got = call(`{"query":"serve requests"}`) {
		if time.Now().After(end) {
			t.Fatalf("answer = %q", got)
		}
		time.Sleep(10 * time.Millisecond)
	}
	got := call(`{"query":"serve requests"}`)
	if want := "1 results for \"serve requests\":\n\n1. srv/http.go:4   Server.Serve  [method]\n   func (s *Server) Serve(addr string) error\n   Serve handles requests.\n   score "; !strings.HasPrefix(got, want) {
		t.Errorf("answer = %q, want it to begin with %q", got, want)
	}
	for args, want := range map[string]string{
		`{"query":" "}`:               "error: query is required",
		`{"query":"nothing"}`:         `no results for "nothing"`,
		`{"query":"x","limit":101}`:   "error: limit must be between 1 and 100",
		`{"query":"x","limit":"two"}`: "error: ",
	} {
		if got := call(args); !strings.HasPrefix(got, want) {
			t.Errorf("search_code(%s) = %q, want %q", args, got, want)
		}
	}
}
