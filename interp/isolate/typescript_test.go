package isolate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/workspace/driver"
)

// TestHostileTypeScript: whatever is nested as deeply as one likes, and whatever makes
// a parser try one reading after the other, is a result when the time or the memory of
// the run is up, and never the end of the process.
func TestHostileTypeScript(t *testing.T) {
	m := engine.Module(files(t), unhurried)
	for name, unit := range map[string]string{
		"lists": "[", "blocks": "{", "generics": "A<", "generic calls": "f<(a: ", "templates": "`${", "choices": "a?b:", "signs": "!", "functions": "()=>",
		"types": "let a:(", "elements": "<a>", "parentheses": "(", "parameters": "(a=", "choices of functions": "a?(b):", "async": "async(a=", "casts": "<T>(a=",
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{30, 100_000} {
				source := strings.Repeat(unit, n)
				res := scriptRun(t, m, driver.Code{Language: "typescript", Source: source, Timeout: 300 * time.Millisecond})
				if res.Error == nil || res.ExitCode == 0 {
					t.Errorf("%d times: got %+v", n, res)
				}
			}
		})
	}
}

// endless takes any reader of TypeScript years: each level is read twice.
var endless = strings.Repeat("a ? (b = ", 60) + "c" + strings.Repeat(")", 60)

func TestTypeScriptHeedsCancel(t *testing.T) {
	m := engine.Module(files(t), unhurried)
	scriptRun(t, m, driver.Code{Language: "typescript", Source: "1"}) // what is made at the first run is not what is meant
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	res, err := m.RunCode(ctx, driver.Code{Language: "typescript", Source: endless, Timeout: time.Hour})
	// One that was given up before it had a place to run in has no result.
	if err == nil && res.Cause != driver.CauseCanceled || err != nil && fault.Of(err) != fault.DeadlineExceeded {
		t.Errorf("got %+v, %v", res, err)
	}
}

// TestImportedTypeScriptHasTheBoundsOfTheRun: a file of the workspace is no better
// than the script.
func TestImportedTypeScriptHasTheBoundsOfTheRun(t *testing.T) {
	fs := files(t)
	m := engine.Module(fs, &isolate.Options{Timeout: 300 * time.Millisecond})
	if _, err := fs.Write(t.Context(), "bad.ts", strings.NewReader(endless), new(driver.WriteOptions)); err != nil {
		t.Fatal(err)
	}
	res := scriptRun(t, m, driver.Code{Source: "import './bad.ts'"})
	if res.Cause != driver.CauseTimeout {
		t.Errorf("got %+v %+v", res, res.Error)
	}
}

func TestTypeScript(t *testing.T) {
	m := engine.Module(files(t), unhurried)
	for _, tt := range []struct{ name, source, want string }{
		{"types", "type A<T> = { [K in keyof T]?: T[K] }; interface B extends A<C> {}; const f = <T,>(x: T): x is T => true; f<string>('a') as unknown as boolean satisfies any", "true"},
		{"classes", "abstract class A<in out T> { constructor(private readonly x: number, public y = 2) {} abstract m?(): void; declare z: T; get sum(): number { return this.x + this.y! } }\nclass B extends A<string> { override m(): void {} }\nnew B(40).sum", "42"},
		{"enums", "enum E { A, B = 'x'.length << 2, C = A | B }\nconst enum F { G = 'g' }\n[E.B, E[0], E.C, F.G].join()", "'4,A,4,g'"},
		{"overloads", "function f(a: string): void;\nfunction f(a: number): void;\nfunction f(this: any, a: unknown): asserts a is any { return a as any }\nf(1)", "1"},
		{"choices", "const b = (x: number) => x, d = 1, c = true; [c ? (d) : (e: number): number => e, c ? (d): number => d : 2].map(x => typeof x).join()", "'number,function'"},
		{"a choice of a function without a type", "const c = true, d = 7, r = c ? (d) : e => e; r", "7"},
		{"less than", "const a = 1, b = 2, c = 3; (a < b && c > (a as number)) + ''", "'true'"},
		{"declared namespaces", "declare namespace N { namespace M { const x: number } }\ndeclare module 'x' {}\ndeclare global { interface X {} }\n1", "1"},
		{"nested as people nest", strings.Repeat("[(", 60) + "1" + strings.Repeat(")]", 60) + ".length", "1"},
		{"long", "let x: number = 1;\n" + strings.Repeat("x = x + (1 as number);\n", 1000) + "x", "1001"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := scriptRun(t, m, driver.Code{Language: "typescript", Source: tt.source})
			got := ""
			for _, o := range res.Outputs {
				if o.Kind == driver.OutputResult {
					got = string(o.Data["text/plain"])
				}
			}
			if got != tt.want || res.Error != nil {
				t.Errorf("got %q, %+v, want %q", got, res.Error, tt.want)
			}
		})
	}
	t.Run("lines are where they were", func(t *testing.T) {
		res := scriptRun(t, m, driver.Code{Language: "typescript", Source: "interface A {\n  x: number\n}\n\nenum E {\n A,\n}\nthrow new Error('here')"})
		if res.Error == nil || !strings.Contains(strings.Join(res.Error.Traceback, "\n"), "script.ts:8") {
			t.Errorf("got %+v", res.Error)
		}
	})
	t.Run("what is wrong is told with its place", func(t *testing.T) {
		for source, want := range map[string]string{
			"let a: number = 1\nlet b: = 2":      "script.ts:2:8: Unexpected token",
			"namespace N { export const x = 1 }": "script.ts:1:11: a namespace is more than types",
		} {
			res := scriptRun(t, m, driver.Code{Language: "typescript", Source: source})
			if res.Error == nil || res.Error.Name != "SyntaxError" || !strings.Contains(strings.Join(res.Error.Traceback, "\n"), want) {
				t.Errorf("%q: got %+v, want %q", source, res.Error, want)
			}
		}
	})
}
