// Package web is an extra capability of workspaces that may reach something: its
// tool fetches a page.
//
// The request is made inside the fence of the workspace, by curl, through the
// proxy that its policy gives it. So what can be fetched is what the workspace may
// reach and nothing else, and the audit stream has it. A name that stands for a
// private address is refused by the proxy, which resolves names itself.
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

// Source gives a workspace whose processes may reach something the tool.
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
		Description: "Fetch a page over HTTP or HTTPS, as far as the network policy of the workspace lets it be reached. At most 1 MiB is shown.",
		Arguments:   map[string]driver.ArgumentKind{"url": driver.ArgName},
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["url"],"properties":{
			"url":{"type":"string","description":"http or https"},
			"timeout":{"type":"integer","minimum":1,"maximum":120,"description":"seconds; default 30"}}}`),
		Output: json.RawMessage(`{"type":"object","required":["status","body"],"properties":{"status":{"type":"integer"},"content_type":{"type":"string"},"truncated":{"type":"boolean"},"body":{"type":"string"}}}`),
		Call:   f.fetch,
	}}
}

// page is what was fetched.
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
		// -q comes first: no file of the workspace configures curl.
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

// newPage takes apart what curl wrote: the body, and a last line of our own.
func newPage(res workspace.Result) (driver.ToolResult, error) {
	last := lastLine(res.Stdout)
	if last == nil {
		return driver.ToolResult{}, tool.Errorf(fault.Unavailable, "web_fetch: curl answered nothing")
	}
	status, media, _ := strings.Cut(string(last), " ")
	code, err := strconv.Atoi(status)
	if err != nil {
		return driver.ToolResult{}, tool.Errorf(fault.Unavailable, "web_fetch: curl answered no status")
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

// lastLine is what comes after the last newline; nil is that there is none.
func lastLine(out []byte) []byte {
	i := bytes.LastIndexByte(out, '\n')
	if i < 0 {
		return nil
	}
	return out[i+1:]
}
