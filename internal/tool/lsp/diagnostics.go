package lsp

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// A Diagnostic is a finding of a language server in a file.
type Diagnostic struct {
	Line     int    `json:"line"`
	Col      int    `json:"col"`
	Severity string `json:"severity"` // error, warning, information, hint
	Source   string `json:"source,omitempty"`
	Code     string `json:"code,omitempty"`
	Message  string `json:"message"`
}

var severities = []string{"error", "error", "warning", "information", "hint"}

// Diagnostics returns the findings for the present content of a file. It waits until the
// server has analysed this version, at most until ctx ends.
func (s *Set) Diagnostics(ctx context.Context, name string) (list []Diagnostic, err error) {
	sp, err := serverFor(name)
	if err != nil {
		return nil, err
	}
	err = s.askServer(ctx, name, sp, func(ctx context.Context, c *client, doc *document) error {
		found, err := c.collectDiagnostics(ctx, name, doc)
		if err != nil {
			return err
		}
		list = make([]Diagnostic, 0, len(found))
		for _, w := range found {
			list = append(list, convertDiagnostic(doc.text, w))
		}
		return nil
	})
	return list, err
}

func convertDiagnostic(text []byte, w wireDiagnostic) Diagnostic {
	d := Diagnostic{Source: w.Source, Message: strings.TrimSpace(w.Message), Severity: "error"}
	d.Line, d.Col = fromWire(text, w.Range.Start)
	if w.Severity > 0 && w.Severity < len(severities) {
		d.Severity = severities[w.Severity]
	}
	var code string
	if json.Unmarshal(w.Code, &code) != nil {
		code = string(w.Code) // a number
	}
	if code != "null" {
		d.Code = code
	}
	return d
}

// collectDiagnostics pulls diagnostics if the server supports that, else it waits for a
// publication.
func (c *client) collectDiagnostics(ctx context.Context, name string, doc *document) ([]wireDiagnostic, error) {
	uri := uriOf(c.root, name)
	if len(c.caps.Diagnostic) > 0 && string(c.caps.Diagnostic) != "null" && string(c.caps.Diagnostic) != "false" {
		var report struct {
			Items []wireDiagnostic `json:"items"`
		}
		err := c.call(ctx, "textDocument/diagnostic", map[string]any{"textDocument": map[string]any{"uri": uri}}, &report)
		return report.Items, err
	}
	for {
		c.stateMu.Lock()
		set, changed := c.found[uri], c.stateChanged
		c.stateMu.Unlock()
		var quiet <-chan time.Time // time since the last publication that may be for this version
		switch {
		case set == nil:
		case set.version >= doc.version:
			quiet = time.After(versionTime - time.Since(set.at))
		case set.version < 0 && set.serial > doc.at:
			quiet = time.After(quietTime - time.Since(set.at))
		}
		select {
		case <-quiet:
			return set.list, nil
		case <-changed:
		case <-c.done:
			return nil, c.diedError("textDocument/publishDiagnostics", c.endReason())
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
