package rest_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/workspace/driver"
)

// routes is every route that there is.
var routes = []string{
	"DELETE /v1/keys/{key}",
	"DELETE /v1/replicas/{node}",
	"DELETE /v1/snapshots/{snapshot}",
	"DELETE /v1/templates/{template}",
	"DELETE /v1/workspaces/{id}",
	"DELETE /v1/workspaces/{id}/artifacts/content",
	"DELETE /v1/workspaces/{id}/contexts/{context}",
	"DELETE /v1/workspaces/{id}/files",
	"DELETE /v1/workspaces/{id}/sessions/{sid}",
	"DELETE /v1/workspaces/{id}/shares/{share}",
	"DELETE /v1/workspaces/{id}/snapshots/{snapshot}",
	"GET /events",
	"GET /healthz",
	"GET /readyz",
	"GET /v1/artifacts",
	"GET /v1/doctor",
	"GET /v1/evals",
	"GET /v1/evals/compare",
	"GET /v1/evals/{run}",
	"GET /v1/evals/{run}/execution",
	"GET /v1/host-roots",
	"GET /v1/keys",
	"GET /v1/me",
	"GET /v1/providers",
	"GET /v1/replicas",
	"GET /v1/snapshots",
	"GET /v1/templates",
	"GET /v1/templates/{template}",
	"GET /v1/tenants",
	"GET /v1/version",
	"GET /v1/workspaces",
	"GET /v1/workspaces/{id}",
	"GET /v1/workspaces/{id}/artifacts",
	"GET /v1/workspaces/{id}/artifacts/content",
	"GET /v1/workspaces/{id}/contexts",
	"GET /v1/workspaces/{id}/describe",
	"GET /v1/workspaces/{id}/diff",
	"GET /v1/workspaces/{id}/digest",
	"GET /v1/workspaces/{id}/exec",
	"GET /v1/workspaces/{id}/files",
	"GET /v1/workspaces/{id}/glob",
	"GET /v1/workspaces/{id}/grep",
	"GET /v1/workspaces/{id}/list",
	"GET /v1/workspaces/{id}/metrics",
	"GET /v1/workspaces/{id}/patch",
	"GET /v1/workspaces/{id}/ports/{port}",
	"GET /v1/workspaces/{id}/profile",
	"GET /v1/workspaces/{id}/readdir",
	"GET /v1/workspaces/{id}/sessions",
	"GET /v1/workspaces/{id}/sessions/{sid}",
	"GET /v1/workspaces/{id}/sessions/{sid}/attach",
	"GET /v1/workspaces/{id}/sessions/{sid}/follow",
	"GET /v1/workspaces/{id}/sessions/{sid}/log",
	"GET /v1/workspaces/{id}/sessions/{sid}/wait",
	"GET /v1/workspaces/{id}/shares",
	"GET /v1/workspaces/{id}/snapshots",
	"GET /v1/workspaces/{id}/snapshots/{snapshot}/files",
	"GET /v1/workspaces/{id}/snapshots/{snapshot}/readdir",
	"GET /v1/workspaces/{id}/snapshots/{snapshot}/stat",
	"GET /v1/workspaces/{id}/staging",
	"GET /v1/workspaces/{id}/stat",
	"GET /v1/workspaces/{id}/watch",
	"PATCH /v1/workspaces/{id}",
	"POST /v1/evals",
	"POST /v1/evals/{run}/stop",
	"POST /v1/keys",
	"POST /v1/keys/{key}/rotate",
	"POST /v1/snapshots/check",
	"POST /v1/snapshots/gc",
	"POST /v1/snapshots/import",
	"POST /v1/snapshots/prune",
	"POST /v1/snapshots/{snapshot}/export",
	"POST /v1/templates",
	"POST /v1/workspaces",
	"POST /v1/workspaces/{id}/acquire",
	"POST /v1/workspaces/{id}/apply",
	"POST /v1/workspaces/{id}/apply-to-host",
	"POST /v1/workspaces/{id}/chmod",
	"POST /v1/workspaces/{id}/code",
	"POST /v1/workspaces/{id}/contexts",
	"POST /v1/workspaces/{id}/contexts/{context}/interrupt",
	"POST /v1/workspaces/{id}/contexts/{context}/restart",
	"POST /v1/workspaces/{id}/copy",
	"POST /v1/workspaces/{id}/edit",
	"POST /v1/workspaces/{id}/exec",
	"POST /v1/workspaces/{id}/fork",
	"POST /v1/workspaces/{id}/import",
	"POST /v1/workspaces/{id}/mkdir",
	"POST /v1/workspaces/{id}/network",
	"POST /v1/workspaces/{id}/pause",
	"POST /v1/workspaces/{id}/rename",
	"POST /v1/workspaces/{id}/reset",
	"POST /v1/workspaces/{id}/resume",
	"POST /v1/workspaces/{id}/revert",
	"POST /v1/workspaces/{id}/script",
	"POST /v1/workspaces/{id}/seal",
	"POST /v1/workspaces/{id}/sessions",
	"POST /v1/workspaces/{id}/sessions/{sid}/kill",
	"POST /v1/workspaces/{id}/sessions/{sid}/poll",
	"POST /v1/workspaces/{id}/sessions/{sid}/resize",
	"POST /v1/workspaces/{id}/sessions/{sid}/signal",
	"POST /v1/workspaces/{id}/sessions/{sid}/stdin",
	"POST /v1/workspaces/{id}/sessions/{sid}/stdin/close",
	"POST /v1/workspaces/{id}/shares",
	"POST /v1/workspaces/{id}/snapshots",
	"POST /v1/workspaces/{id}/snapshots/{snapshot}/pin",
	"POST /v1/workspaces/{id}/snapshots/{snapshot}/rollback",
	"POST /v1/workspaces/{id}/staging/lock",
	"POST /v1/workspaces/{id}/staging/outputs",
	"POST /v1/workspaces/{id}/symlink",
	"PUT /v1/workspaces/{id}/artifacts/content",
	"PUT /v1/workspaces/{id}/files",
	"PUT /v1/workspaces/{id}/staging",
}

func TestOpenAPI(t *testing.T) {
	h := newHost(t)
	r := h.do("GET", "/v1/openapi.json", "")
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	compareCommitted(t, r.body)
	var doc struct {
		OpenAPI    string
		Components struct {
			Schemas         map[string]json.RawMessage
			SecuritySchemes map[string]any
		}
		Paths map[string]map[string]struct {
			OperationID string
			Summary     string
			Responses   map[string]struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
	}
	h.decode(r, &doc)
	if doc.OpenAPI != "3.1.0" || doc.Components.SecuritySchemes["token"] == nil {
		t.Errorf("openapi %q, security %v", doc.OpenAPI, doc.Components.SecuritySchemes)
	}
	var got []string
	ids := map[string]bool{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			route := strings.ToUpper(method) + " " + path
			got = append(got, route)
			if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" {
				t.Errorf("%s: operation %q is a duplicate or says too little", route, op.OperationID)
			}
			ids[op.OperationID] = true
			if ref := op.Responses["default"].Content["application/json"].Schema.Ref; ref != "#/components/schemas/Problem" {
				t.Errorf("%s: its errors are %q", route, ref)
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, routes) {
		t.Errorf("the document has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(routes, "\n"))
	}
	// Every reference leads somewhere.
	for _, part := range strings.Split(r.body, `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if doc.Components.Schemas[name] == nil {
			t.Errorf("schema %q is referred to and not there", name)
		}
	}
	// So do the keys that appear only where something is not UTF-8.
	odd := "\xff"
	for _, v := range []any{
		driver.Info{Path: odd, Target: odd}, driver.Listing{Next: odd}, driver.Skip{Path: odd}, driver.Edit{Old: odd, New: odd},
		driver.Match{Path: odd, Text: odd, Before: []string{odd}, After: []string{odd}},
	} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var keys map[string]any
		if err := json.Unmarshal(data, &keys); err != nil {
			t.Fatal(err)
		}
		schema := string(doc.Components.Schemas[reflect.TypeOf(v).Name()])
		for key := range keys {
			if !strings.Contains(schema, `"`+key+`":{`) {
				t.Errorf("schema %T lacks %s", v, key)
			}
		}
	}
	if doc.Components.Schemas["ErrorModel"] != nil {
		t.Error("the document has an error that no answer has")
	}
}

// compareCommitted compares the document with docs/openapi.json, from which clients are
// generated, and rewrites that file with -update.
func compareCommitted(t *testing.T, document string) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(document), "", "  "); err != nil {
		t.Fatal(err)
	}
	const path = "../../../docs/openapi.json"
	if *update {
		if err := os.WriteFile(path, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), indented.String()); diff != "" {
		t.Errorf("%s is not current; run go test ./server/rest -update (-want +got):\n%s", path, diff)
	}
}
