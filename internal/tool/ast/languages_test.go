package ast

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// languages are one file each, what is edited in it, and the whole result.
var languages = []struct {
	name, src string
	outline   []string
	body      [3]string // function, new body, what replaces the function's text
	oldBody   string
	signature [2]string // function, new signature
	oldSig    string
	newSig    string
	insert    [3]string // class, method, new method
	before    string    // the text before the insertion
	inserted  string
}{
	{
		name: "a.py",
		src: `import os   # odd   spacing

@decorated
def top(a,  b=1) -> int:  # noqa
    # first
    x = a
    return x  # trailing


class A:
    """Doc."""

    async def go(self):
        def inner(): return 1
        return inner()

    def stop(self): pass

x = top(1)
`,
		outline:   []string{"top", "A.go", "A.go.inner", "A.stop"},
		body:      [3]string{"top", "s = '''keep\n  me'''\nif s:\n    return 2", "  # noqa\n    s = '''keep\n  me'''\n    if s:\n        return 2"},
		oldBody:   "  # noqa\n    # first\n    x = a\n    return x  # trailing",
		signature: [2]string{"A.go", "async def go(self, n: int = 3) -> None:"}, oldSig: "async def go(self)", newSig: "async def go(self, n: int = 3) -> None",
		insert: [3]string{"A", "stop", "def more(self):\n  return {\n    1: 2}"}, before: "def stop(self): pass", inserted: "\n\n    def more(self):\n      return {\n        1: 2}",
	},
	{
		name: "a.ts",
		src: "export class A<T> {\n  private n   = 1;\n  async go(x: T): Promise<T> {\n    return x; // }\n  }\n  stop = () => { this.n = /[}]/.test('}') ? 1 : 2 };\n}\n" +
			"export const twice = (n: number) => n * 2;\nexport default function main() { return `${'}'}` }\n",
		outline:   []string{"A.go", "A.stop", "twice", "main"},
		body:      [3]string{"A.go", "const y = `a\nb`;\nreturn x;", "{\n    const y = `a\nb`;\n    return x;\n  }"},
		oldBody:   "{\n    return x; // }\n  }",
		signature: [2]string{"main", "export default function main(argv: string[]) {"}, oldSig: "function main()", newSig: "function main(argv: string[])",
		insert: [3]string{"A", "go", "wait() {\n  return 1;\n}"}, before: "return x; // }\n  }", inserted: "\n\n  wait() {\n    return 1;\n  }",
	},
	{
		name: "a.js", src: "const api = {\n\tget(id) { return id },\n\tput: async (id) => id,\n};\nfunction* gen() { yield 1 }\nmodule.exports.run = function () { return 1 };\n",
		outline:   []string{"api.get", "api.put", "gen", "run"},
		body:      [3]string{"api.put", "return id + 1", "{\n\t\treturn id + 1\n\t}"},
		oldBody:   "id,\n}",
		signature: [2]string{"gen", "function* gen(n)"}, oldSig: "function* gen()", newSig: "function* gen(n)",
		insert: [3]string{"api", "get", "del(id) { return 0 },"}, before: "get(id) { return id },", inserted: "\n\n\tdel(id) { return 0 },",
	},
	{
		name: "a.tsx", src: "export function View({ a }: P) {\n  return <div>{a ? '}' : <b/>}</div>;\n}\nclass C { m() { return 1 } }\n",
		outline:   []string{"View", "C.m"},
		body:      [3]string{"View", "return <p/>;", "{\n  return <p/>;\n}"},
		oldBody:   "{\n  return <div>{a ? '}' : <b/>}</div>;\n}",
		signature: [2]string{"View", "function View(p: P)"}, oldSig: "function View({ a }: P)", newSig: "function View(p: P)",
		insert: [3]string{"C", "m", "n() {}"}, before: "m() { return 1 }", inserted: "\n\nn() {}",
	},
	{
		name: "a.rs", src: "impl<T> Stack<T> {\n    /// Doc.\n    pub fn push(&mut self, x: T) { self.v.push(x) }\n}\n\nfn main() {\n    let c = '}'; let l: &'static str = \"}\";\n}\n",
		outline:   []string{"Stack.push", "main"},
		body:      [3]string{"Stack::push", "self.v.insert(0, x);", "{\n        self.v.insert(0, x);\n    }"},
		oldBody:   "{ self.v.push(x) }",
		signature: [2]string{"main", "fn main() -> Result<(), E>"}, oldSig: "fn main()", newSig: "fn main() -> Result<(), E>",
		insert: [3]string{"Stack", "push", "fn pop(&mut self) -> Option<T> {\n    self.v.pop()\n}"}, before: "{ self.v.push(x) }", inserted: "\n\n    fn pop(&mut self) -> Option<T> {\n        self.v.pop()\n    }",
	},
	{
		name: "A.java", src: "class A {\n    A(int x) { this.x = x; }\n    @Override\n    public String toString() {\n        return \"}\";\n    }\n    abstract void no();\n}\n",
		outline:   []string{"A.A", "A.toString", "A.no"},
		body:      [3]string{"A.toString", "return \"\";", "{\n        return \"\";\n    }"},
		oldBody:   "{\n        return \"}\";\n    }",
		signature: [2]string{"A.no", "abstract void no(int x);"}, oldSig: "abstract void no()", newSig: "abstract void no(int x)",
		insert: [3]string{"A", "A", "int get() { return x; }"}, before: "{ this.x = x; }", inserted: "\n\n    int get() { return x; }",
	},
	{
		name: "a.c", src: "#define X }\nstatic int *f(int a[]) /* c */ {\n\treturn a; /* } */\n}\nint main(void) { return 0; }\n",
		outline:   []string{"f", "main"},
		body:      [3]string{"f", "return 0;", "{\n\treturn 0;\n}"},
		oldBody:   "{\n\treturn a; /* } */\n}",
		signature: [2]string{"main", "int main(int argc, char **argv)"}, oldSig: "int main(void)", newSig: "int main(int argc, char **argv)",
	},
	{
		name: "a.cpp", src: "namespace n {\nclass A { public: int f() { return 1; } };\nint B::g(int x) const { return x; }\n}\n",
		outline:   []string{"n.A.f", "n.B.g"},
		body:      [3]string{"B::g", "return 2;", "{\n    return 2;\n}"},
		oldBody:   "{ return x; }",
		signature: [2]string{"A.f", "int f(int y)"}, oldSig: "int f()", newSig: "int f(int y)",
		insert: [3]string{"A", "f", "int h() { return 2; }"}, before: "int f() { return 1; }", inserted: "\n\nint h() { return 2; }",
	},
}

func TestLanguages(t *testing.T) {
	for _, tt := range languages {
		t.Run(tt.name, func(t *testing.T) {
			funcs, err := editor.Outline(t.Context(), tt.name, []byte(tt.src))
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, f := range funcs {
				paths = append(paths, f.Path)
			}
			if diff := cmp.Diff(tt.outline, paths); diff != "" {
				t.Errorf("outline (-want +got):\n%s", diff)
			}
			got, err := editor.FunctionBody(t.Context(), tt.name, []byte(tt.src), tt.body[0], tt.body[1])
			old, replacement := tt.oldBody, tt.body[2]
			if tt.name == "a.js" {
				replacement += ",\n}"
			}
			check(t, "body", tt.src, old, replacement, got, err)
			got, err = editor.Signature(t.Context(), tt.name, []byte(tt.src), tt.signature[0], tt.signature[1])
			check(t, "signature", tt.src, tt.oldSig, tt.newSig, got, err)
			if tt.insert[0] != "" {
				got, err = editor.InsertAfter(t.Context(), tt.name, []byte(tt.src), tt.insert[0], tt.insert[1], tt.insert[2])
				check(t, "insert", tt.src, tt.before, tt.before+tt.inserted, got, err)
			}
			crlf := strings.ReplaceAll(tt.src, "\n", "\r\n")
			got, err = editor.FunctionBody(t.Context(), tt.name, []byte(crlf), tt.body[0], tt.body[1])
			check(t, "body with CRLF", crlf, strings.ReplaceAll(old, "\n", "\r\n"), strings.ReplaceAll(replacement, "\n", "\r\n"), got, err)
		})
	}
}

func check(t *testing.T, what, src, old, replacement string, got Change, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if strings.Count(src, old) != 1 {
		t.Fatalf("%s: the test's old text %q is there %d times", what, old, strings.Count(src, old))
	}
	if diff := cmp.Diff(strings.Replace(src, old, replacement, 1), string(got.Content)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
