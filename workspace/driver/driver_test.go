package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
)

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	for range 10_000 {
		id := NewID()
		if !ValidID(id) {
			t.Fatalf("NewID() = %q, which ValidID refuses", id)
		}
		if seen[id] {
			t.Fatalf("%q came twice", id)
		}
		seen[id] = true
	}
	for _, bad := range []string{"", "short", strings.Repeat("a", 21), strings.Repeat("A", 20), "../../../etc/passwd.", strings.Repeat("a", 19) + "/"} {
		if ValidID(bad) {
			t.Errorf("ValidID(%q) = true", bad)
		}
	}
}

func TestValidWorkspaceName(t *testing.T) {
	tests := map[string]bool{
		"a": true, "web-1": true, "0": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "A": false, "a_b": false, "a.b": false, "a/b": false, "ä": false,
		strings.Repeat("a", 64): false,
		strings.Repeat("a", 20): false, // would be taken for an id
	}
	for name, want := range tests {
		if got := ValidWorkspaceName(name); got != want {
			t.Errorf("ValidWorkspaceName(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestValidSnapshotName(t *testing.T) {
	tests := map[string]bool{
		"a": true, "before-apply": true, "v1.2": true, "A_b": true, strings.Repeat("a", 128): true,
		"": false, ".a": false, "..": false, "a/b": false, "./docs": false, "@now": false, "template:x": false, "a b": false, "a\n": false, "ä": false,
		strings.Repeat("a", 129): false,
		strings.Repeat("a", 20):  false, // would be taken for an id
	}
	for name, want := range tests {
		if got := ValidSnapshotName(name); got != want {
			t.Errorf("ValidSnapshotName(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestValidName(t *testing.T) {
	tests := map[string]bool{
		".": true, "a": true, "a/b": true, "..foo": true, "a/..b": true, ".hidden": true, "\xff": true, "a b\n": true,
		"": false, "/": false, "/a": false, "a/": false, "a//b": false, "..": false, "a/..": false, "./a": false, "a/./b": false, "a\x00b": false,
	}
	for name, want := range tests {
		if got := ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v, want %v", name, got, want)
		}
	}
}

const goodRef = `{"providerId":"p","ref":{"id":"x"},"capabilities":{"fs":true},"schemaVersion":2,"revision":3}`

func TestRefIsStrict(t *testing.T) {
	var ref Ref
	if err := json.Unmarshal([]byte(goodRef), &ref); err != nil {
		t.Fatal(err)
	}
	if ref.Provider != "p" || ref.Revision != 3 || ref.SchemaVersion != 2 || !ref.Capabilities.Has(CapFS) {
		t.Errorf("decoded %+v", ref)
	}
	data, err := json.Marshal(ref)
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != goodRef {
		t.Errorf("round trip gives\n%s, want\n%s", data, goodRef)
	}
	bad := map[string]string{
		"unknown key":       `{"providerId":"p","ref":{},"capabilities":{},"extra":1}`,
		"repeated key":      `{"providerId":"p","providerId":"q","ref":{},"capabilities":{}}`,
		"other case":        `{"providerID":"p","ref":{},"capabilities":{}}`,
		"version 0":         `{"providerId":"p","ref":{},"capabilities":{},"schemaVersion":0}`,
		"version negative":  `{"providerId":"p","ref":{},"capabilities":{},"schemaVersion":-1}`,
		"version text":      `{"providerId":"p","ref":{},"capabilities":{},"schemaVersion":"2"}`,
		"no provider":       `{"ref":{},"capabilities":{}}`,
		"payload no object": `{"providerId":"p","ref":"x","capabilities":{}}`,
		"no payload":        `{"providerId":"p","capabilities":{}}`,
		"capability text":   `{"providerId":"p","ref":{},"capabilities":{"fs":"yes"}}`,
		"revision":          `{"providerId":"p","ref":{},"capabilities":{},"revision":-1}`,
		"array":             `[]`,
	}
	for name, in := range bad {
		t.Run(name, func(t *testing.T) {
			var ref Ref
			err := json.Unmarshal([]byte(in), &ref)
			if got := fault.Of(err); got != fault.InvalidArgument {
				t.Errorf("got %v (%s), want InvalidArgument", err, got)
			}
		})
	}
}

func TestDecodeStrictNested(t *testing.T) {
	type inner struct {
		A int `json:"a"`
	}
	var v struct {
		In   inner            `json:"in"`
		List []inner          `json:"list"`
		Map  map[string]inner `json:"map"`
		Raw  json.RawMessage  `json:"raw"`
	}
	good := `{"in":{"a":1},"list":[{"a":2}],"map":{"any":{"a":3}},"raw":{"free":{"form":1}}}`
	if err := DecodeStrict([]byte(good), &v); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{
		`{"in":{"b":1}}`, `{"list":[{"b":1}]}`, `{"map":{"x":{"b":1}}}`, `{"in":{"a":1,"a":2}}`, `{"in":{"A":1}}`,
		good + `x`, good + good, ``, `{`, `nope`, strings.Repeat("[", 100_000),
	} {
		if err := DecodeStrict([]byte(in), &v); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("DecodeStrict(%.40q) = %v, want InvalidArgument", in, err)
		}
	}
	err := DecodeStrict([]byte(`{"in":{"b":1}}`), &v)
	if err == nil || !strings.Contains(err.Error(), `"in.b"`) || !strings.Contains(err.Error(), "allowed are a") {
		t.Errorf("the error names neither the key nor the allowed ones: %v", err)
	}
}

func TestVersionWindow(t *testing.T) {
	for v, ok := range map[int]bool{0: true, 6: true, 7: true, 5: false, 8: false, 1: false, -1: false} {
		var buf bytes.Buffer
		err := CheckVersion(Ref{Provider: "p", SchemaVersion: v}, 7, slog.New(slog.NewTextHandler(&buf, nil)))
		if (err == nil) != ok {
			t.Errorf("version %d: %v", v, err)
		}
		if !ok {
			if fault.Of(err) != fault.Failed || fault.IsTransient(err) {
				t.Errorf("version %d: %v, want a permanent Failed", v, err)
			}
			if !strings.Contains(err.Error(), "6, 7 and missing") {
				t.Errorf("the error does not name the supported set: %v", err)
			}
		}
		if migrated := strings.Contains(buf.String(), "workspace ref: migrating ref from v6 to v7"); migrated != (v == 6) {
			t.Errorf("version %d logged %q", v, buf.String())
		}
	}
	if err := CheckVersion(Ref{SchemaVersion: 1}, 1, nil); err != nil {
		t.Error(err)
	}
}

func TestDecodeRefNeverEchoes(t *testing.T) {
	type payload struct {
		ID string `json:"id"`
	}
	const secret = "hunter2"
	refs := []Ref{
		{Provider: secret, Payload: json.RawMessage(`{}`)},
		{Provider: "p", Payload: json.RawMessage(`{"hunter2":1}`)},
		{Provider: "p", Payload: json.RawMessage(`{"id":{"x":"hunter2"}}`)},
		{Provider: "p", Payload: json.RawMessage(`hunter2`)},
	}
	for _, ref := range refs {
		var p payload
		err := DecodeRef(ref, "p", &p, nil)
		if fault.Of(err) != fault.Failed {
			t.Errorf("%s: got %v, want Failed", ref.Payload, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the ref: %v", err)
		}
	}
}

func TestCheckRevision(t *testing.T) {
	err := CheckRevision(Ref{Revision: 1}, 2)
	if fault.Of(err) != fault.Failed || fault.CauseOf(err) != fault.CauseStale {
		t.Errorf("an old revision gives %v", err)
	}
	if err := CheckRevision(Ref{Revision: 3}, 2); fault.Of(err) != fault.Failed || fault.CauseOf(err) == fault.CauseStale {
		t.Errorf("a ref that is newer than the workspace: got %v, want Failed", err)
	}
	if err := CheckRevision(Ref{Revision: 2}, 2); err != nil {
		t.Error(err)
	}
}

type nopFiles struct{ Files }

func TestValidate(t *testing.T) {
	nop := func(context.Context) error { return nil }
	good := func() *Workspace {
		return &Workspace{
			Ref:  Ref{Provider: "p", Capabilities: NewCapabilities(CapFS)},
			Life: Life{Close: nop, Destroy: nop},
			FS:   &FS{Files: nopFiles{}},
		}
	}
	if err := good().Validate(NewCapabilities(CapFS)); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func() (*Workspace, Capabilities){
		"nil workspace": func() (*Workspace, Capabilities) { return nil, nil },
		"no destroy":    func() (*Workspace, Capabilities) { w := good(); w.Life.Destroy = nil; return w, nil },
		"no core":       func() (*Workspace, Capabilities) { w := good(); w.FS = &FS{}; return w, nil },
		"typed nil core": func() (*Workspace, Capabilities) {
			w := good()
			var none *nopFiles
			w.FS = &FS{Files: none}
			return w, nil
		},
		"ref says more": func() (*Workspace, Capabilities) { w := good(); w.Ref.Capabilities[CapShell] = true; return w, nil },
		"ref says less": func() (*Workspace, Capabilities) { w := good(); w.Ref.Capabilities = nil; return w, nil },
		"declared more": func() (*Workspace, Capabilities) { return good(), NewCapabilities(CapFS, CapShell) },
		"nil extra": func() (*Workspace, Capabilities) {
			w := good()
			w.Extra = map[string]any{"git": (*nopFiles)(nil)}
			return w, nil
		},
		"extra named as a module": func() (*Workspace, Capabilities) {
			w := good()
			w.Extra = map[string]any{"fs": 1}
			return w, nil
		},
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			w, want := build()
			if err := w.Validate(want); fault.Of(err) != fault.Failed {
				t.Errorf("got %v, want Failed", err)
			}
		})
	}
}

func TestPolicyCheck(t *testing.T) {
	traits := Traits{
		Isolation: IsolationNamespaces, Network: NetworkPolicy, Durability: DurableProcess,
		Limits: LimitTraits{ResourceMemory: {By: "cgroup"}, ResourcePIDs: {Reason: "no pids controller"}},
	}
	tests := []struct {
		name   string
		policy Policy
		want   fault.Code
	}{
		{"zero", Policy{}, ""},
		{"same rank", Policy{Isolation: IsolationBubblewrap}, ""},
		{"higher", Policy{Isolation: IsolationGVisor}, fault.Unsupported},
		{"unknown", Policy{Isolation: "magic"}, fault.InvalidArgument},
		{"enforced", Policy{Limits: Limits{ResourceMemory: {Max: 1}}}, ""},
		{"not enforced", Policy{Limits: Limits{ResourcePIDs: {Max: 1}}}, fault.Unsupported},
		{"best effort", Policy{Limits: Limits{ResourcePIDs: {Max: 1, BestEffort: true}}}, ""},
		{"negative", Policy{Limits: Limits{ResourceMemory: {Max: -1}}}, fault.InvalidArgument},
		{"rules", Policy{Network: Network{Allow: []NetRule{{Host: "x"}}}}, ""},
		{"durable", Policy{Durable: true}, fault.Unsupported},
		{"read-only", Policy{ReadOnly: true}, fault.Unsupported},
		{"idle", Policy{Idle: -1}, fault.InvalidArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.policy.Check(traits); fault.Of(err) != tt.want {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	err := Policy{Limits: Limits{ResourcePIDs: {Max: 1}}}.Check(traits)
	if err == nil || !strings.Contains(err.Error(), "no pids controller") {
		t.Errorf("the reason is missing: %v", err)
	}
}

func TestApplyEdits(t *testing.T) {
	content := []byte("one two two three")
	tests := []struct {
		name  string
		edits []Edit
		want  string
		code  fault.Code
	}{
		{"once", []Edit{{Old: "one", New: "1"}}, "1 two two three", ""},
		{"all", []Edit{{Old: "two", New: "2", All: true}}, "one 2 2 three", ""},
		{"in order", []Edit{{Old: "one", New: "1"}, {Old: "1 two", New: "x"}}, "x two three", ""},
		{"ambiguous", []Edit{{Old: "one", New: "1"}, {Old: "two", New: "2"}}, "", fault.Conflict},
		{"missing", []Edit{{Old: "four", New: "4"}}, "", fault.NotFound},
		{"empty", []Edit{{Old: "", New: "4"}}, "", fault.InvalidArgument},
		{"same", []Edit{{Old: "one", New: "one"}}, "", fault.InvalidArgument},
		{"none", nil, "", fault.InvalidArgument},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := ApplyEdits(content, tt.edits)
			if fault.Of(err) != tt.code || string(got) != tt.want {
				t.Errorf("got %q, %v; want %q, %q", got, err, tt.want, tt.code)
			}
		})
	}
	if string(content) != "one two two three" {
		t.Errorf("the input was changed to %q", content)
	}
}

func TestTreeDigestTellsTreesApart(t *testing.T) {
	sum := func(add func(d *TreeDigest)) string {
		d := NewTreeDigest()
		add(d)
		return d.Sum()
	}
	trees := []string{
		sum(func(*TreeDigest) {}),
		sum(func(d *TreeDigest) { d.Add("a", Info{Type: TypeDir, Mode: 0o755}, "") }),
		sum(func(d *TreeDigest) { d.Add("a", Info{Type: TypeDir, Mode: 0o700}, "") }),
		sum(func(d *TreeDigest) { d.Add("a", Info{Type: TypeFile, Mode: 0o755}, "x") }),
		sum(func(d *TreeDigest) { d.Add("ax", Info{Type: TypeFile, Mode: 0o755}, "") }),
		sum(func(d *TreeDigest) { d.Add("a", Info{Type: TypeSymlink, Target: "x"}, "") }),
	}
	seen := map[string]int{}
	for i, s := range trees {
		if j, dup := seen[s]; dup {
			t.Errorf("trees %d and %d have the same digest", i, j)
		}
		if !ValidDigest(s) {
			t.Errorf("%q is not a valid digest", s)
		}
		seen[s] = i
	}
}

func TestStepsAreFreeUnlessAskedFor(t *testing.T) {
	Step(t.Context(), "nothing happens")
	var got []string
	ctx := WithSteps(t.Context(), func(s string) { got = append(got, s) })
	Step(ctx, "a")
	Step(ctx, "b")
	if strings.Join(got, " ") != "a b" {
		t.Errorf("got %v", got)
	}
}

func FuzzRef(f *testing.F) {
	f.Add([]byte(goodRef))
	f.Add([]byte(`{"providerId":"p","ref":{},"capabilities":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var ref Ref
		err := json.Unmarshal(data, &ref)
		if err != nil {
			var syntax *json.SyntaxError
			if fault.Of(err) == fault.Internal && !errors.As(err, &syntax) {
				t.Errorf("unclassified error: %v", err)
			}
			return
		}
		out, err := json.Marshal(ref)
		if err != nil {
			t.Fatalf("a decoded ref does not encode: %v", err)
		}
		var again Ref
		if err := json.Unmarshal(out, &again); err != nil {
			t.Fatalf("an encoded ref does not decode: %v\n%s", err, out)
		}
	})
}
