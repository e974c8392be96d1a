package profile

import (
	"encoding/json"
	"testing"
)

func TestStripJSONC(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"https://x/y"}`:                      `{"a":"https://x/y"}`,
		"{// c\n\"a\":1}":                          `{"a":1}`,
		`{/* c */"a":/* // */1}`:                   `{"a":1}`,
		`{"a":[1,2,],}`:                            `{"a":[1,2]}`,
		`{"a":"/* no */ // no ,}"}`:                `{"a":"/* no */ // no ,}"}`,
		`{"a":"\"// no","b":"\\"/* c */,/* d */ }`: `{"a":"\"// no","b":"\\"}`,
		"{\"src\":\"**/*\"} // end":                `{"src":"**/*"}`,
	} {
		var got, expect any
		if err := json.Unmarshal(stripJSONC([]byte(in)), &got); err != nil {
			t.Errorf("stripJSONC(%s) = %s: %v", in, stripJSONC([]byte(in)), err)
			continue
		}
		if err := json.Unmarshal([]byte(want), &expect); err != nil {
			t.Fatal(err)
		}
		g, _ := json.Marshal(got)
		e, _ := json.Marshal(expect)
		if string(g) != string(e) {
			t.Errorf("stripJSONC(%s) is %s, want %s", in, g, e)
		}
	}
	if _, err := parseJSONC([]byte(`{,}`)); err == nil {
		t.Error("a comma alone passed for JSON")
	}
}

func FuzzStripJSONC(f *testing.F) {
	for _, s := range []string{`{"a":1,}`, "// x", `"\`, "/*", `{"$schema":"https://x"}`, "[1,/*,*/]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out := stripJSONC(data)
		if len(out) != len(data) {
			t.Fatalf("length %d became %d", len(data), len(out))
		}
		if json.Valid(data) && string(out) != string(data) {
			t.Fatalf("valid JSON %q became %q", data, out)
		}
	})
}

// fuzzManifest feeds arbitrary text in place of a manifest. Whatever it is, the
// project is found, and no command lacks a program or a proof.
func fuzzManifest(f *testing.F, name string, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Detect(tree(name, text, "sub/"+name, text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Projects) == 0 {
			t.Fatal("no project")
		}
		for _, q := range p.Projects {
			for _, c := range q.commands() {
				if !c.IsZero() && (c.Argv[0] == "" || c.Proof == "" || c.Dir == "") {
					t.Fatalf("command %+v", *c)
				}
				c.Expand([]string{"a.ts", "sub/a_test.go"})
			}
		}
		if _, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzPackageJSON(f *testing.F) {
	fuzzManifest(f, "package.json", pkg, script("npx vitest --watch"), script("a=b yarn jest && c"), `{"workspaces":["*"],"packageManager":"yarn@"}`,
		`{"scripts":{"test":"pnpm"}}`, `{"workspaces":{"packages":["../..","/","**","{a,b}","[","!"]}}`)
}

func FuzzPyproject(f *testing.F) {
	fuzzManifest(f, "pyproject.toml", "[project]\nname='a'\ndependencies=['pytest']\n", "[tool.uv.workspace]\nmembers=['*']\n", "[tool]\nruff=1\n")
}

func FuzzCargo(f *testing.F) {
	fuzzManifest(f, "Cargo.toml", "[workspace]\nmembers=['*','**']\n[package]\nname='a'\n", "package=1\n")
}

func FuzzGoWork(f *testing.F) {
	fuzzManifest(f, "go.work", "use ./sub\n", "use (\n.\n)\n", "use(\n", ")\n")
}

func FuzzMakefile(f *testing.F) {
	fuzzManifest(f, "Makefile", "all: x\n\ty\n", "a := b\n", ":\n", "\n\n#")
}

func FuzzGradleSettings(f *testing.F) {
	fuzzManifest(f, "settings.gradle", "include ':a', 'b'\n", "include(\":::\")\n", "rootProject.name = 'x'\n")
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{"packages:\n  - a\n", "a: &x [*x]\n", "<<: *a\n", "- ? :\n", "a: !!binary x\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := parseYAML(data); err == nil {
			m.stringsAt("packages")
			m.stringAt("nodeLinker")
		}
	})
}
