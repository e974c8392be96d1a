// Package web is an extra capability with a tool that fetches a page from inside a
// workspace.
//
// The request is made inside the workspace by curl, through the egress proxy of its policy.
// So only hosts that the policy allows can be fetched, and requests are audited. The proxy
// resolves names itself and refuses names of private addresses.
package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits of web_fetch.
const (
	defaultSeconds = 30
	maxSeconds     = 120
	maxBody        = 1 << 20
	maxRedirects   = 10
)

// Source returns the tool for a workspace with a shell and network access.
func Source(ws *workspace.Workspace) driver.ToolSource {
	if !ws.Capabilities().Has(driver.CapShell) || ws.Traits().Network == driver.NetworkNone {
		return nil
	}
	return fetcher{ws}
}

type fetcher struct{ ws *workspace.Workspace }

// Tools lists the tools.
func (f fetcher) Tools() []driver.Tool {
	return []driver.Tool{{
		Name: "web_fetch", ReadOnly: true, OpenWorld: true,
		Description: "Fetch a page over HTTP or HTTPS, if the network policy of the workspace allows the host. At most 1 MiB is shown.",
		Arguments:   map[string]driver.ArgumentKind{"url": driver.ArgName},
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["url"],"properties":{
			"url":{"type":"string","description":"http or https"},
			"timeout":{"type":"integer","minimum":1,"maximum":120,"description":"seconds; default 30"}}}`),
		Output: json.RawMessage(`{"type":"object","required":["status","body"],"properties":{"status":{"type":"integer"},"content_type":{"type":"string"},"truncated":{"type":"boolean"},"body":{"type":"string"}}}`),
		Call:   f.fetch,
	}}
}

// page is a fetched page.
type page struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Truncated   bool   `json:"truncated"`
	Body        string `json:"body"`
}

func (f fetcher) fetch(ctx context.Context, args json.RawMessage) (driver.ToolResult, error) {
	var in struct {
		URL     string
		Timeout int
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return driver.ToolResult{}, err
	}
	u, err := url.Parse(in.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return driver.ToolResult{}, tool.Errorf(fault.InvalidArgument, "url must be http or https, with a host")
	}
	seconds, err := tool.Seconds("timeout", in.Timeout, defaultSeconds, maxSeconds)
	if err != nil {
		return driver.ToolResult{}, err
	}
	res, err := f.ws.Run(ctx, driver.Command{
		// -q must be first: it disables .curlrc of the workspace.
		Argv: []string{
			"curl", "-q", "--silent", "--show-error", "--location", "--max-redirs", strconv.Itoa(maxRedirects), "--globoff",
			"--proto", "=http,https", "--proto-redir", "=http,https", "--max-time", strconv.Itoa(seconds),
			"--write-out", "\n%{http_code} %{content_type}", "--url", u.String(),
		},
		Timeout: time.Duration(seconds+5) * time.Second, MaxOutput: 2 * maxBody,
	})
	switch {
	case fault.Of(err) == fault.NotFound:
		return driver.ToolResult{}, tool.Errorf(fault.Unavailable, "web_fetch: curl not found on PATH")
	case err != nil:
		return driver.ToolResult{}, err
	case res.Cause == driver.CauseCanceled:
		return driver.ToolResult{}, fmt.Errorf("web_fetch: %w", fault.Canceled)
	case len(res.Refused) > 0 && (res.ExitCode != 0 || bytes.HasPrefix(lastLine(res.Stdout), []byte("403 "))):
		no := res.Refused[0]
		return driver.ToolResult{}, tool.Errorf(fault.PermissionDenied, "web_fetch: the network policy of the workspace refuses %s: %s", no.Host, no.Reason)
	case res.ExitCode != 0:
		return driver.ToolResult{}, tool.Errorf(fault.Unavailable, "web_fetch: %s", strings.TrimSpace(string(res.Stderr)))
	}
	return newPage(res)
}

// newPage parses curl's output: the body, and the last line from --write-out.
func newPage(res workspace.Result) (driver.ToolResult, error) {
	last := lastLine(res.Stdout)
	if last == nil {
		return driver.ToolResult{}, tool.Errorf(fault.Unavailable, "web_fetch: curl printed nothing")
	}
	status, media, _ := strings.Cut(string(last), " ")
	code, err := strconv.Atoi(status)
	if err != nil {
		return driver.ToolResult{}, tool.Errorf(fault.Unavailable, "web_fetch: curl printed no status")
	}
	body := res.Stdout[:len(res.Stdout)-len(last)-1]
	p := page{Status: code, ContentType: media, Truncated: res.StdoutDropped > 0 || len(body) > maxBody}
	if p.Truncated {
		body = body[:min(maxBody, len(body))]
		for len(body) > 0 && !utf8.RuneStart(body[len(body)-1]) {
			body = body[:len(body)-1]
		}
	}
	p.Body = strings.ToValidUTF8(string(body), "\uFFFD")
	data, err := json.Marshal(p)
	text := fmt.Sprintf("Status: %d\nContent-Type: %s\nTruncated: %t\n\n%s", p.Status, p.ContentType, p.Truncated, p.Body)
	return driver.ToolResult{Text: text, Structured: data}, err
}

// lastLine returns what follows the last newline; nil if there is no newline.
func lastLine(out []byte) []byte {
	i := bytes.LastIndexByte(out, '\n')
	if i < 0 {
		return nil
	}
	return out[i+1:]
}
