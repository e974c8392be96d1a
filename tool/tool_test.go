package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os/exec"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// newSet opens one local workspace for each name.
func newSet(t testing.TB, names ...string) *tool.Set {
	t.Helper()
	mux := workspace.NewMux(newLocal(t))
	set := new(tool.Set)
	for _, name := range names {
		ws, err := mux.Open(t.Context(), workspace.Spec{Kind: "local", ID: workspace.NewID()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.Destroy(context.WithoutCancel(t.Context())) })
		if err := set.Add(name, ws); err != nil {
			t.Fatal(err)
		}
	}
	return set
}

func newLocal(t testing.TB) *local.Provider {
	t.Helper()
	p, err := local.New(&local.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newEnv(t testing.TB, cfg tool.Config) *tool.Env {
	t.Helper()
	env, err := tool.NewEnv(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return env
}

// coding is an Env with the coding tools over workspaces of the given names.
func coding(t testing.TB, names ...string) *tool.Env {
	return newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, names...)})
}

// call runs a tool and returns its text, or its error's.
func call(t testing.TB, env *tool.Env, name, args string) (string, error) {
	t.Helper()
	res, err := env.Run(t.Context(), tool.Request{Tool: name, Args: json.RawMessage(args)})
	if err != nil {
		return tool.ErrorText(err), err
	}
	return res.Text, nil
}

// ok is call for one that must succeed.
func ok(t testing.TB, env *tool.Env, name, args string) string {
	t.Helper()
	text, err := call(t, env, name, args)
	if err != nil {
		t.Fatalf("%s(%s): %v", name, args, err)
	}
	return text
}

// refused is call for one that must fail with a code.
func refused(t testing.TB, env *tool.Env, name, args string, code fault.Code) string {
	t.Helper()
	text, err := call(t, env, name, args)
	if fault.Of(err) != code {
		t.Fatalf("%s(%s) = %q, %v; want %s", name, args, text, err, code)
	}
	return text
}

func put(t testing.TB, env *tool.Env, ws, name, content string) {
	t.Helper()
	w, err := env.Workspaces.Get(t.Context(), ws)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteFile(t.Context(), name, []byte(content), &driver.WriteOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
}

func TestWorkspaceArgument(t *testing.T) {
	one, two := coding(t, "only"), coding(t, "primary", "extension")
	put(t, one, "only", "a", "1\n")
	put(t, two, "primary", "a", "1\n")
	tests := []struct {
		name string
		env  *tool.Env
		args string
		want string
	}{
		{"omitted with one", one, `{"file_path":"a"}`, "1\t1\n"},
		{"blank with one", one, `{"file_path":"a","workspace":"  "}`, "1\t1\n"},
		{"null with one", one, `{"file_path":"a","workspace":null}`, "1\t1\n"},
		{"omitted with many", two, `{"file_path":"a"}`, "multi-workspace sandbox: 2 workspaces configured (extension, primary) — pass `workspace` to pick one"},
		{"matched", two, `{"file_path":"a","workspace":"primary"}`, "1\t1\n"},
		{"trimmed", two, `{"file_path":"a","workspace":" primary\n"}`, "1\t1\n"},
		{"unmatched", two, `{"file_path":"a","workspace":"frontend"}`, `unknown workspace "frontend"; configured: extension, primary`},
		{"case-sensitive", two, `{"file_path":"a","workspace":"Primary"}`, `unknown workspace "Primary"; configured: extension, primary`},
		{"unmatched with one", one, `{"file_path":"a","workspace":"x"}`, `unknown workspace "x"; configured: only`},
		{"all where it is not taken", two, `{"file_path":"a","workspace":"all"}`, `unknown workspace "all"; configured: extension, primary`},
		{"wrong type", two, `{"file_path":"a","workspace":7}`, "workspace must be a string, not the number 7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := call(t, tt.env, "Read", tt.args); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestArgumentsAreNamed(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "a", "1\n2\n")
	for args, want := range map[string]string{
		`{}`:                             "file_path is required",
		`{"file_path":null}`:             "file_path is required",
		`{"file_path":"a","offset":"2"}`: "offset must be an integer, not a string",
		`{"file_path":"a","offset":2.5}`: "offset must be an integer, not the number 2.5",
		`{"file_path":["a"]}`:            "file_path must be a string, not an array",
		`{"file_path":"a","ofset":1}`:    `unknown argument "ofset"; known: file_path, limit, offset, raw, workspace`,
		`{"File_path":"a"}`:              `unknown argument "File_path"; known: file_path, limit, offset, raw, workspace`,
		`[]`:                             "arguments must be a JSON object",
		`{"file_path":"a","offset":9}`:   "read: offset 9 exceeds line count 2",
		`{"file_path":"a","limit":-1}`:   "limit must not be negative",
	} {
		if got := refused(t, env, "Read", args, fault.InvalidArgument); got != want {
			t.Errorf("Read(%s) = %q, want %q", args, got, want)
		}
	}
	if got, want := refused(t, env, "MultiEdit", `{"file_path":"a","edits":[{"old":"1","new_string":"3"}]}`, fault.InvalidArgument),
		`unknown key "edits[0].old"; allowed are new_string, old_string, replace_all`; got != want {
		t.Errorf("a field of a list is refused with %q, want %q", got, want)
	}
	if got := refused(t, env, "Raed", `{}`, fault.NotFound); got != `unknown tool "Raed"` {
		t.Errorf("got %q", got)
	}
}

func TestRead(t *testing.T) {
	env := coding(t, "w")
	put(t, env, "w", "three", "a\r\nb\n\nlast")
	put(t, env, "w", "empty", "")
	put(t, env, "w", "dir/x", "")
	put(t, env, "w", "bin", "a\x00b")
	put(t, env, "w", "long", strings.Repeat("x", 3<<20)+"\nend\n")
	for args, want := range map[string]string{
		`{"file_path":"three"}`:                      "1\ta\n2\tb\n3\t\n4\tlast\n",
		`{"file_path":"three","offset":4}`:           "4\tlast\n",
		`{"file_path":"three","offset":2,"limit":2}`: "2\tb\n3\t\n... (1 more lines; Read with offset=4 shows them)\n",
		`{"file_path":"three","offset":0}`:           "1\ta\n2\tb\n3\t\n4\tlast\n",
		`{"file_path":"empty"}`:                      "",
		`{"file_path":"long","offset":2}`:            "2\tend\n",
		`{"file_path":"dir"}`:                        "path is a directory: dir",
		`{"file_path":"none"}`:                       "stat none: no such file or directory",
		`{"file_path":"../x"}`:                       "resolve path: path is outside workspace root",
		`{"file_path":"bin"}`:                        "read: bin is a binary file (3 bytes)",
		`{"file_path":""}`:                           "file_path is required",
	} {
		if got, _ := call(t, env, "Read", args); got != want {
			t.Errorf("Read(%s) = %q, want %q", args, got, want)
		}
	}
}

// TestReadOfOtherFiles: images are content of the answer, notebooks are their cells, and a
// PDF is its text, or the error names the program that is missing.
func TestReadOfOtherFiles(t *testing.T) {
	env := coding(t, "w")
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	put(t, env, "w", "a.png", picture.String())
	res, err := env.Run(t.Context(), tool.Request{Tool: "Read", Args: []byte(`{"file_path":"a.png"}`)})
	if err != nil || res.Image == nil || res.Image.MIMEType != "image/png" || !bytes.Equal(res.Image.Data, picture.Bytes()) {
		t.Fatalf("Read of an image: %+v, %v", res, err)
	}
	if want := fmt.Sprintf("a.png: image/png, 3 x 2 pixels, %d bytes\n", picture.Len()); res.Text != want {
		t.Errorf("Read of an image: %q, want %q", res.Text, want)
	}
	put(t, env, "w", "large.png", picture.String()+strings.Repeat("x", 4<<20))
	if got := refused(t, env, "Read", `{"file_path":"large.png"}`, fault.ResourceExhausted); !strings.Contains(got, "at most 3145728 are shown") {
		t.Errorf("a large image is refused with %q", got)
	}

	put(t, env, "w", "n.ipynb", `{"nbformat":4,"cells":[{"cell_type":"markdown","source":["# Title\n","text"]},
 {"cell_type":"code","source":"print(1)","outputs":[{"output_type":"stream","text":["1\n"]},
 {"output_type":"display_data","data":{"image/png":"aGk=","text/plain":"<Figure>"}},{"output_type":"error","ename":"E","evalue":"bad","traceback":["\u001b[31mbad"]},
 {"output_type":"stream","text":"`+strings.Repeat("long ", 1000)+`"}]}]}`)
	got := ok(t, env, "Read", `{"file_path":"n.ipynb"}`)
	for _, want := range []string{"1\t# cell 1 (markdown)\n2\t# Title\n3\ttext\n", "\t# cell 2 (code)\n", "\tprint(1)\n", "\t1\n", "<Figure>\n", "(image/png, 4 bytes)", "E: bad", "raw=true"} {
		if !strings.Contains(got, want) {
			t.Errorf("a notebook is shown as %q, want %q in it", got, want)
		}
	}
	if len(got) > 4000 || strings.Contains(got, "aGk=") {
		t.Errorf("a notebook is shown with %d bytes: %.300q", len(got), got)
	}
	if got := ok(t, env, "Read", `{"file_path":"n.ipynb","raw":true,"limit":1}`); !strings.HasPrefix(got, "1\t{\"nbformat\":4") {
		t.Errorf("the JSON of a notebook is %q", got)
	}

	put(t, env, "w", "d.pdf", smallPDF)
	_, err = exec.LookPath("pdftotext")
	got, rerr := call(t, env, "Read", `{"file_path":"d.pdf"}`)
	if err == nil && !strings.Contains(got, "Hello PDF") {
		t.Errorf("a PDF is shown as %q", got)
	}
	if err != nil && (fault.Of(rerr) != fault.Unavailable || !strings.Contains(got, "pdftotext")) {
		t.Errorf("without pdftotext a PDF is refused with %q, %v", got, rerr)
	}
}

// smallPDF is a PDF of one page without NUL bytes. Readers rebuild its table of objects.
const smallPDF = `%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 300 100]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>> endobj
4 0 obj <</Length 43>> stream
BT /F 18 Tf 20 40 Td (Hello PDF) Tj ET     
endstream endobj
5 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica>> endobj
trailer <</Root 1 0 R/Size 6>>
%%EOF
`

func TestBash(t *testing.T) {
	env := coding(t, "w")
	for args, want := range map[string]string{
		`{"command":"echo out; echo err >&2; printf end"}`: "out\nerr\nend\n",
		`{"command":"exit 3"}`:                             "exit: 3\n",
		`{"command":"true"}`:                               "",
		`{"command":"sleep 60","timeout":1}`:               "bash: timed out after 1s\nexit: 124\n",
		`{"command":"kill -9 $$"}`:                         "exit: 137\n",
		`{"command":"(sleep 60 & ) ; echo hi"}`:            "hi\n",
	} {
		if got := ok(t, env, "Bash", args); got != want {
			t.Errorf("Bash(%s) = %q, want %q", args, got, want)
		}
	}
	if got := refused(t, env, "Bash", `{"command":"true","timeout":601}`, fault.InvalidArgument); got != "timeout must be between 1 and 600 seconds" {
		t.Errorf("got %q", got)
	}
}
