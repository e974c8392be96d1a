package lsp

import (
	"encoding/json"
	"net/url"
	"path"
	"strings"
)

// The types of the protocol that are used.

type wirePosition struct {
	Line      int `json:"line"`
	Character int `json:"character"` // UTF-16 code units
}

type wireRange struct {
	Start wirePosition `json:"start"`
	End   wirePosition `json:"end"`
}

type wireLocation struct {
	URI   string    `json:"uri"`
	Range wireRange `json:"range"`

	// Of a LocationLink.
	TargetURI   string    `json:"targetUri"`
	TargetRange wireRange `json:"targetSelectionRange"`
}

// wireLocations decodes null, a location, or a list of locations.
type wireLocations []wireLocation

func (l *wireLocations) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		var one *wireLocation
		if err := json.Unmarshal(data, &one); err != nil || one == nil {
			return err
		}
		*l = wireLocations{*one}
		return nil
	}
	return json.Unmarshal(data, (*[]wireLocation)(l))
}

type textEdit struct {
	Range   wireRange `json:"range"`
	NewText string    `json:"newText"`
}

type workspaceEdit struct {
	Changes         map[string][]textEdit `json:"changes"`
	DocumentChanges []struct {
		Kind         string `json:"kind"` // of a file operation
		TextDocument struct {
			URI string `json:"uri"`
		} `json:"textDocument"`
		Edits []textEdit `json:"edits"`
	} `json:"documentChanges"`
}

type wireDiagnostic struct {
	Range    wireRange       `json:"range"`
	Severity int             `json:"severity"`
	Code     json.RawMessage `json:"code"`
	Source   string          `json:"source"`
	Message  string          `json:"message"`
}

type publishParams struct {
	URI         string           `json:"uri"`
	Version     *int             `json:"version"`
	Diagnostics []wireDiagnostic `json:"diagnostics"`
}

type wireSymbol struct {
	Name           string       `json:"name"`
	Kind           int          `json:"kind"`
	Detail         string       `json:"detail"`
	ContainerName  string       `json:"containerName"`
	SelectionRange wireRange    `json:"selectionRange"`
	Location       wireLocation `json:"location"`
	Children       []wireSymbol `json:"children"`
}

var symbolKinds = strings.Fields("file module namespace package class method property field constructor enum interface function " +
	"variable constant string number boolean array object key null enumMember struct event operator typeParameter")

func symbolKind(kind int) string {
	if kind < 1 || kind > len(symbolKinds) {
		return "symbol"
	}
	return symbolKinds[kind-1]
}

// uriOf returns the URI of a file in a workspace with the given root.
func uriOf(root, name string) string {
	u := url.URL{Scheme: "file", Path: path.Join("/", root, name)}
	return u.String()
}

// nameOf returns the workspace path of a URI and true, or the path outside the workspace
// and false.
func nameOf(root, uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri, false
	}
	p := path.Clean(u.Path)
	prefix := strings.TrimSuffix(path.Clean("/"+root), "/") + "/"
	if rest, ok := strings.CutPrefix(p, prefix); ok && rest != "" {
		return rest, true
	}
	return p, false
}
