package codeblock_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/internal/wrap/interpreters"
	"github.com/croft-run/croft/interp/codeblock"
	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

func TestExtract(t *testing.T) {
	type block = codeblock.Block
	for _, tt := range []struct {
		name, text string
		marks      []codeblock.Delimiter
		want       []block
	}{
		{"none", "no code", nil, nil},
		{"one", "a\n```python\nx = 1\n```\nb", nil, []block{{Language: "python", Info: "python", Code: "x = 1\n", Line: 2}}},
		{"inline ticks", "use ```inline``` x\n```sh\nls\n```\n", nil, []block{{Language: "sh", Info: "sh", Code: "ls\n", Line: 2}}},
		{"a line of inline ticks", "```inline``` x\n\n```sh\nls\n```", nil, []block{{Language: "sh", Info: "sh", Code: "ls\n", Line: 3}}},
		{"longer fence", "````md\n```sh\nls\n```\n````\n", nil, []block{{Language: "md", Info: "md", Code: "```sh\nls\n```\n", Line: 1}}},
		{"closing may be longer", "```sh\nls\n`````\n", nil, []block{{Language: "sh", Info: "sh", Code: "ls\n", Line: 1}}},
		{"tildes", "~~~ruby\nputs `ls`\n```\n~~~\n", nil, []block{{Language: "ruby", Info: "ruby", Code: "puts `ls`\n```\n", Line: 1}}},
		{"info string", "```Python title=\"x y\"\n1\n```", nil, []block{{Language: "python", Info: "Python title=\"x y\"", Code: "1\n", Line: 1}}},
		{"attributes", "```{.r .numberLines}\n1\n```\n```python:a.py\n2\n```\n```go,ignore\n3\n```", nil, []block{
			{Language: "r", Info: "{.r .numberLines}", Code: "1\n", Line: 1}, {Language: "python", Info: "python:a.py", Code: "2\n", Line: 4}, {Language: "go", Info: "go,ignore", Code: "3\n", Line: 7}}},
		{"no language", "```\nx\n```", nil, []block{{Code: "x\n", Line: 1}}},
		{"indented", "  ```sh\n  ls\n    -l\n  ```\n", nil, []block{{Language: "sh", Info: "sh", Code: "ls\n  -l\n", Line: 1}}},
		{"indented too far", "    ```sh\n    ls\n    ```\n", nil, nil},
		{"a tab in the info string", "```python\ttitle=x\n1\n```", nil, []block{{Language: "python", Info: "python\ttitle=x", Code: "1\n", Line: 1}}},
		{"in an item", "1.  First:\n\n    ```sh\n    ls\n      -l\n    ```\n\n2.  then\n", nil, []block{{Language: "sh", Info: "sh", Code: "ls\n  -l\n", Line: 3}}},
		{"in an item of an item", "- a\n  10) b\n\n       ~~~py\n       1\n       ~~~\n", nil, []block{{Language: "py", Info: "py", Code: "1\n", Line: 4}}},
		{"behind a marker", "- ```sh\n  ls\n  ```\n* ```sh\n  pwd\n  ```\n", nil, []block{{Language: "sh", Info: "sh", Code: "ls\n", Line: 1}, {Language: "sh", Info: "sh", Code: "pwd\n", Line: 4}}},
		{"in an item, with tabs", "-\tdo\n\n\t```sh\n\tls\n\t\t-l\n\t```\n", nil, []block{{Language: "sh", Info: "sh", Code: "ls\n\t-l\n", Line: 3}}},
		{"behind an item", "- a\n\nb\n\n    ```sh\n    ls\n    ```\n", nil, nil},
		{"items without end", strings.Repeat("- ", 1<<19) + "```sh\n```\n", nil, []block{{Line: 2, Cut: true}}},
		{"too far in an item", "- a\n\n      ```sh\n      ls\n      ```\n", nil, nil},
		{"code with less indent than its fence", "1. a\n   ```py\nx = 1\n   ```\n", nil, []block{{Language: "py", Info: "py", Code: "x = 1\n", Line: 2}}},
		{"empty", "```sh\n```", nil, []block{{Language: "sh", Info: "sh", Line: 1}}},
		{"unterminated", "```sh\nls\n", nil, []block{{Language: "sh", Info: "sh", Code: "ls\n", Line: 1, Cut: true}}},
		{"carriage returns", "```sh\r\nls\r\n```\r\n", nil, []block{{Language: "sh", Info: "sh", Code: "ls\r\n", Line: 1}}},
		{"own marks", "a <code>python\nx\n</code> b <code>y</code>\n<code>sh\nz", []codeblock.Delimiter{{Start: "<code>", End: "</code>"}}, []block{
			{Language: "python", Info: "python", Code: "x\n", Line: 1}, {Code: "y", Line: 3}, {Language: "sh", Info: "sh", Code: "z", Line: 4, Cut: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := codeblock.Extract(tt.text, &codeblock.ExtractOptions{Delimiters: tt.marks})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := codeblock.Extract("x", &codeblock.ExtractOptions{Delimiters: []codeblock.Delimiter{{Start: "a"}}}); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("an empty mark: %v", err)
	}
}

var engine isolate.Engine

func open(t *testing.T, p driver.Provider) *workspace.Workspace {
	t.Helper()
	p = interpreters.Wrap(p, interpreters.Config{Engine: &engine})
	ws, err := workspace.NewMux(p).Open(t.Context(), workspace.Spec{ID: workspace.NewID(), Kind: p.Kind()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Destroy(context.WithoutCancel(t.Context())) })
	return ws
}

func shell(t *testing.T) *workspace.Workspace {
	t.Helper()
	p, err := testshell.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return open(t, p)
}

func TestRunLanguages(t *testing.T) {
	ws := shell(t)
	for _, tt := range []struct{ program, language, code string }{
		{"python3", "py", "print('hi')"},
		{"bash", "bash", "[[ -d src ]] && echo hi"},
		{"sh", "sh", "echo hi"},
		{"node", "js", "import fs from 'fs'; if (fs.existsSync('src')) console.log('hi')"},
		{"node", "typescript", "const x: string = 'hi'; console.log(x)"},
		{"perl", "perl", "print \"hi\\n\""},
		{"ruby", "ruby", "puts 'hi'"},
		{"Rscript", "r", "cat('hi\\n')"},
	} {
		t.Run(tt.language, func(t *testing.T) {
			if _, err := exec.LookPath(tt.program); err != nil {
				t.Skipf("skipped: host: it lacks %s", tt.program)
			}
			res, err := codeblock.Run(t.Context(), ws, []codeblock.Block{{Language: tt.language, Code: tt.code + "\n"}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Blocks[0]; string(got.Result.Stdout) != "hi\n" || !res.Succeeded() || !strings.HasPrefix(got.File, "src/code_0.") {
				t.Errorf("got %+v %s", got, got.Result.Stderr)
			}
		})
	}
}

func TestRunInOrderWithOutputs(t *testing.T) {
	ws := shell(t)
	if _, err := ws.WriteFile(t.Context(), "out/old.txt", []byte("old"), &driver.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
	blocks, err := codeblock.Extract("```sh\nmkdir $OUTPUT_DIR/d; echo $A >out/d/a.txt\n```\nthen\n```sh\ncat out/d/a.txt; exit 3\n```\n```sh\ntouch out/never\n```\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := codeblock.Run(t.Context(), ws, blocks, &codeblock.RunOptions{Env: map[string]string{"A": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Blocks) != 2 || res.Blocks[1].Result.ExitCode != 3 || string(res.Blocks[1].Result.Stdout) != "b\n" || res.Succeeded() {
		t.Errorf("got %+v", res)
	}
	if len(res.Outputs) != 1 || res.Outputs[0].Path != "out/d/a.txt" {
		t.Errorf("outputs %+v", res.Outputs)
	}
	if res, err = codeblock.Run(t.Context(), ws, blocks, &codeblock.RunOptions{KeepGoing: true}); err != nil || len(res.Blocks) != 3 {
		t.Errorf("with KeepGoing: %+v, %v", res, err)
	}
}

func TestRunWithoutAShell(t *testing.T) {
	ws := open(t, &memory.Provider{})
	res, err := codeblock.Run(t.Context(), ws, []codeblock.Block{{Language: "ts", Code: "const s: string = 'hi'; console.log(s); fs.writeFileSync('out/x', s)"}}, nil)
	if err != nil || string(res.Blocks[0].Result.Stdout) != "hi\n" || len(res.Outputs) != 1 {
		t.Errorf("got %+v, %v", res, err)
	}
	if _, err = codeblock.Run(t.Context(), ws, []codeblock.Block{{Language: "python", Code: "1"}}, nil); fault.Of(err) != fault.Unsupported {
		t.Errorf("python without a shell: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	ws := shell(t)
	for want, b := range map[fault.Code]codeblock.Block{
		fault.Unsupported:     {Language: "cobol"},
		fault.InvalidArgument: {Language: "sh", Cut: true},
	} {
		_, err := codeblock.Run(t.Context(), ws, []codeblock.Block{{Language: "sh", Code: "touch ran"}, b}, nil)
		if fault.Of(err) != want {
			t.Errorf("%+v: got %v, want %s", b, err, want)
		}
		if _, err := ws.Stat(t.Context(), "ran", nil); fault.Of(err) != fault.NotFound {
			t.Errorf("something was run before the refusal")
		}
	}
}

func FuzzExtract(f *testing.F) {
	f.Add("```sh\nls\n```", "<<", ">>")
	f.Add("~~~~\n~~~\n<<a\nb>>", "<<", ">>")
	f.Fuzz(func(t *testing.T, text, start, end string) {
		marks := []codeblock.ExtractOptions{{}, {Delimiters: []codeblock.Delimiter{{Start: start, End: end}}}}
		for _, opts := range marks {
			blocks, err := codeblock.Extract(text, &opts)
			if err != nil {
				continue
			}
			lines, size := strings.Count(text, "\n")+2, 0
			for i, b := range blocks {
				size += len(b.Code)
				if b.Line < 1 || b.Line > lines || b.Cut && i != len(blocks)-1 || strings.ContainsAny(b.Language, " \t\n") {
					t.Errorf("%q: block %d is %+v", text, i, b)
				}
			}
			if size > 4*len(text) { // a tab is four blanks at most
				t.Errorf("%q: %d bytes of code", text, size)
			}
		}
	})
}

func TestRunnable(t *testing.T) {
	for _, test := range []struct {
		info, fallback string
		want           bool
	}{
		{"python", "", true}, {"py title=x", "", true}, {"json", "python", false}, {"", "", false}, {"", "Python", true}, {"text", "", false},
	} {
		if got := codeblock.NewBlock(test.info, "x").Runnable(test.fallback); got != test.want {
			t.Errorf("%q with %q: got %v, want %v", test.info, test.fallback, got, test.want)
		}
	}
}
