package index

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScan(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string // line symbol [kind] doc
	}{
		{"a.go", "// Package p.\npackage p\n\n// Serve serves\n// requests.\nfunc (s *Server[T]) Serve(x int) error {\n\tfunc() {}()\n\treturn `\nfunc no() {}\n`\n}\n\nfunc Plain() {}\n\ntype (\n\t// A is one.\n\tA struct {\n\t\tField int\n\t}\n\tB int\n)\n\nvar x, y = 1, 2\n\nconst (\n\tC = iota\n\tD\n)\n", []string{
			"6 Server.Serve [method] Serve serves requests.", "13 Plain [func] ", "17 A [type] A is one.", "20 B [type] ", "23 x [var] ", "26 C [const] ", "27 D [const] ",
		}},
		{"a.py", "# Adds.\ndef add(a,\n        b):\n    \"\"\"Adds two.\"\"\"\n    return a\n\nLIMIT = 3\n\n@cached\nclass A(B):\n    '''Doc of A.'''\n    async def go(self): pass\n\n    x = \"\"\"\ndef no(): pass\n\"\"\"\n\ndef last(): pass\n", []string{
			"2 add [func] Adds. Adds two.", "7 LIMIT [var] ", "10 A [class] Doc of A.", "12 A.go [method] ", "18 last [func] ",
		}},
		{"a.ts", "/**\n * Makes a thing.\n */\nexport async function make<T>(a: T): Promise<T> {\n  call(a);\n  if (a) {\n  }\n}\nexport default class Box extends Base {\n  private n = 1;\n  constructor(x: number) {\n    super(x);\n  }\n  async get(id: string): Promise<void> {\n  }\n}\nexport const handler = async (e) => {\n  const inner = 1;\n};\ninterface Shape {\n}\ntype Id = string;\nexport enum Color { Red }\n", []string{
			"4 make [func] Makes a thing.", "9 Box [class] ", "11 Box.constructor [method] ", "14 Box.get [method] ", "17 handler [func] ", "20 Shape [interface] ", "22 Id [type] ", "23 Color [enum] ",
		}},
		{"a.rs", "/// A stack.\npub struct Stack<'a, T> {\n    v: Vec<T>,\n}\n\nimpl<'a, T: Clone> Stack<'a, T> {\n    pub(crate) const fn new(x: &'a T) -> Self {\n        let c = '{';\n    }\n    async fn push(&mut self, x: &'a T) {}\n}\nimpl fmt::Display for Stack<'_, u8> {\n    fn fmt(&self) {}\n}\nmacro_rules! m {\n}\nfn main() {}\n", []string{
			"2 Stack [struct] A stack.", "7 Stack.new [method] ", "10 Stack.push [method] ", "12 Stack [impl] ", "13 Stack.fmt [method] ", "15 m [macro] ", "17 main [func] ",
		}},
		{"A.java", "package a;\n\n/** Doc. */\npublic final class A<T> implements B {\n    private int x = f(1);\n    @Override\n    public List<String> names(int a,\n            int b) {\n        if (a) {\n        }\n        return foo(a);\n    }\n    A() {}\n    abstract void no(int x);\n}\ninterface I {\n    void m();\n}\n", []string{
			"4 A [class] Doc.", "7 A.names [method] ", "13 A.A [method] ", "14 A.no [method] ", "16 I [interface] ", "17 I.m [method] ",
		}},
		{"a.cpp", "#define MAX(a) (a)\n// Runs.\nstatic int run(const char *s) {\n  call(s);\n}\nstruct point {\n  int x;\n};\nnamespace n {\nclass A : public B {\n public:\n  int get() const { return 1; }\n};\n}\nint A::size(void)\n{\n}\nextern int proto(void);\nstruct foo *make(void) {\n}\n", []string{
			"1 MAX [macro] ", "3 run [func] Runs.", "6 point [struct] ", "9 n [namespace] ", "10 n.A [class] ", "12 n.A.get [method] ", "15 A.size [func] ", "19 make [func] ",
		}},
		{"b.js", "var dep = require('dep');\nvar part = require('dep').part;\n\n/**\n * Looks up.\n */\nView.prototype.lookup = function lookup(name) {\n  this.x = function () {};\n  a.b = function () {};\n};\n/** Sets. */\nres.set =\nres.header = function header(field, val) {\n};\nexports.Route = Route;\nexports.etag = makeTag({ weak: false })\nexports.arrow = async (a) => a;\nmodule.exports = function query(options) {\n};\nexports = module.exports = createApplication;\nexports.Box = class extends Base {\n  get(id) {\n  }\n};\n(function () {\n  A.prototype.inner = function () {};\n})();\na.b == function () {};\n", []string{
			"7 View.lookup [func] Looks up.", "13 res.header [func] Sets.", "16 etag [var] ", "17 arrow [func] ", "18 query [func] ", "21 Box [class] ", "22 Box.get [method] ", "26 A.inner [func] ",
		}},
		{"b.py", "def f():\n    \"\"\"\n    On the next line,\n    and on.\n    \"\"\"\n\n    s = \"\"\"\n    no doc\n    \"\"\"\n\nclass A:\n    r\"\"\"Raw\n    doc.\"\"\"\n", []string{
			"1 f [func] On the next line, and on.", "11 A [class] Raw doc.",
		}},
		{"b.rs", "impl<T> Log for Logger<T>\nwhere\n    T: Write,\n{\n    fn log(&self) {}\n}\nstruct Unit;\nfn after() {}\nmod tests {\n    fn t() {}\n}\n", []string{
			"1 Logger [impl] ", "5 Logger.log [method] ", "7 Unit [struct] ", "8 after [func] ", "9 tests [mod] ", "10 tests.t [method] ",
		}},
		{"b.h", "#if defined (__cplusplus)\nextern \"C\" {\n#endif\n/* Opens. */\nSTATIC int\nopen_it(const char *name,\n        int mode)\n{\n  call(name);\n}\nint proto(int a,\n          int b);\n#define LOOP(x) do { \\\n  x; {\\\n} while (0)\nint f(void)\n{\n#if A\n  if (a) {\n#else\n  if (b) {\n#endif\n  }\n}\nint g(void) { return 1; }\nstruct point\n{\n  int x;\n};\nCALL(x)\nint h(void) {\n}\n}\n", []string{
			"6 open_it [func] Opens.", "11 proto [prototype] ", "13 LOOP [macro] ", "16 f [func] ", "25 g [func] ", "26 point [struct] ", "31 h [func] ",
		}},
		{"c.h", "/* Closes a thing. */\nextern int close_it(struct thing *t, int now);\nJV_PRINTF_LIKE(1)\nstruct thing *make(void);\nchar *\nname_of (int n);\nint (*callback)(int);\nextern int count;\nstatic inline int f(void) {\n  g(1);\n  int x = h(2);\n}\ntypedef int (*fn)(void);\nCALL(x);\n", []string{
			"2 close_it [prototype] Closes a thing.", "4 make [prototype] ", "6 name_of [prototype] ", "9 f [func] ",
		}},
		{"c.c", "extern int close_it(int now);\nint two(int a,\n  int b);\n", nil},
		{"a.txt", "func F() {}\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, u := range scanFile(tt.name, tt.text) {
				got = append(got, fmt.Sprintf("%d %s [%s] %s", u.Line, u.Symbol, u.Kind, u.Doc))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("units (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSignatureOfSeveralLines(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"a.go": {"func F(\n\ta int,\n\tb string, // why\n) error {\n\tcall(x)\n", "func F(a int, b string, // why) error"},
		"a.py": {"def f(\n    a: int,\n    b: str = \"\",\n) -> int:\n    g(a)\n", "def f(a: int, b: str = \"\",) -> int"},
		"a.rs": {"pub fn f<T>(\n    &self,\n    x: T,\n) -> Result<()> {\n    g(\n", "pub fn f<T>(&self, x: T,) -> Result<()>"},
		"a.c":  {"static int\nf(int a,\n  int b)\n{\n", "static int f(int a, int b)"},
		"b.go": {"func F(\n" + strings.Repeat("\targument int,\n", 50) + ") {\n", "func F(" + strings.Repeat("argument int, ", 50)[:maxSignature-len("func F(")]},
	} {
		got := scanFile(name, tt.text)
		if len(got) != 1 || got[0].Signature != tt.want {
			t.Errorf("%s: units = %+v, want the signature %q", name, got, tt.want)
		}
	}
}

func TestStem(t *testing.T) {
	for _, same := range []string{
		"parse parses parsed parsing parser parsers", "log logs logging logger logged", "compress compressed compression compressor",
		"directory directories", "match matches matched matcher", "iterate iterator iteration iterating", "normalize normalization normalizer",
		"safe safely", "configure configuration", "create creation creator", "error err errors",
	} {
		words := strings.Fields(same)
		for _, w := range words[1:] {
			if got, want := stem(w), stem(words[0]); got != want {
				t.Errorf("stem(%s) = %s, want %s as of %s", w, got, want, words[0])
			}
		}
	}
	for _, word := range []string{"class", "status", "axis", "user", "need", "speed", "is", "a", "file_names"} {
		if got := stem(word); got != word {
			t.Errorf("stem(%s) = %s, want it unchanged", word, got)
		}
	}
}

func TestTestsRankBelowCode(t *testing.T) {
	s, c := newStore(), newCounter()
	for _, name := range []string{"a_test.go", "tests/a.py", "test_a.py", "a.spec.ts", "src/ATest.java", "examples/a.c", "src/latest.go", "src/tests.py"} {
		s.add(name, []counted{c.countTerms(Unit{Path: name, Line: 1, Symbol: "load", Kind: "func"})}, c)
	}
	s.add("lib.rs", []counted{c.countTerms(Unit{Path: "lib.rs", Line: 9, Symbol: "tests.load", Kind: "func"})}, c)
	var got []string
	for _, h := range s.search("load", 3) {
		got = append(got, h.Path)
	}
	slices.Sort(got[:min(2, len(got))])
	if diff := cmp.Diff([]string{"src/latest.go", "src/tests.py"}, got[:min(2, len(got))]); diff != "" {
		t.Errorf("first hits (-want +got):\n%s", diff)
	}
	if got := s.search("test that loads", 1)[0].Path; !isTest(Unit{Path: got}) {
		t.Errorf("a query for tests finds %s first", got)
	}
}

func TestTerms(t *testing.T) {
	for text, want := range map[string]string{
		"parseHTTPRequest": "parse http request parsehttprequest",
		"snake_case_name":  "snake case name snake_case_name",
		"v2Alpha":          "v 2 alpha v2alpha",
		"the of plain":     "the of plain",
		"_private":         "private",
		"größeÄnderung":    "größe änderung größeänderung",
		"A":                "a",
		"ID":               "id",
		"!?":               "",
		"__init__":         "init",
	} {
		var got []string
		var buf []byte
		eachTerm(text, &buf, func(b []byte) { got = append(got, string(b)) })
		if g := strings.Join(got, " "); g != want {
			t.Errorf("terms of %q = %q, want %q", text, g, want)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add("a.go", "func F() {}\ntype (\n\tA int\n)\n")
	f.Add("a.py", "class A:\n  def f(self):\n    '''x'''\n")
	f.Add("a.rs", "impl<T> A<T> for B {")
	f.Add("a.cpp", "int A::f(")
	f.Add("a.ts", "const f = `\n`;")
	f.Fuzz(func(t *testing.T, name, text string) {
		lines := strings.Count(text, "\n") + 1
		s := newStore()
		c := newCounter()
		var units []counted
		for _, u := range scanFile(name, text) {
			if u.Line < 1 || u.Line > lines || u.Symbol == "" || len(u.Signature) > maxSignature || len(u.Doc) > maxDoc {
				t.Fatalf("unit out of bounds: %+v", u)
			}
			units = append(units, c.countTerms(u))
		}
		s.add(name, units, c)
		for _, h := range s.search(text, 10) {
			if h.Score <= 0 {
				t.Fatalf("score = %v", h.Score)
			}
		}
		s.remove(name)
		if hits := s.search(text, 10); len(hits) > 0 || s.total != 0 {
			t.Fatalf("after it was removed: %d hits, total %d", len(hits), s.total)
		}
	})
}
