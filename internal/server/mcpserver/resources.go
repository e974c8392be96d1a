package mcpserver

import (
	"context"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
)

const (
	workspaceScheme = "workspace://"
	resultScheme    = "croft-result:///"
)

// addTemplates adds resource templates for files of workspaces and truncated answers.
func (s *Server) addTemplates(m *mcp.Server, v view) {
	m.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: workspaceScheme + "{name}/{+path}", Name: "file", // matches both forms of workspaceURI
		Description: "A file of a workspace, or a listing of a directory.",
	}, s.readFile(v))
	m.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: resultScheme + "{handle}", Name: "result", MIMEType: "text/plain",
		Description: "The whole text of an answer that was too long.",
	}, s.readResult(v))
}

// refreshResources updates the resources of a view: the top directory of each workspace.
func (s *Server) refreshResources(ctx context.Context, v view, m *viewServer) error {
	list, err := s.opts.Env.Scope(v.only).List(ctx)
	if err != nil {
		return err
	}
	var uris []string
	for _, e := range list {
		uri := workspaceURI(e.Name)
		uris = append(uris, uri)
		if !slices.Contains(m.resources, uri) {
			m.AddResource(&mcp.Resource{URI: uri, Name: e.Name, MIMEType: "text/plain", Description: "What is in workspace " + e.Name + "."}, s.readFile(v))
		}
	}
	if gone := removedNames(m.resources, uris); len(gone) > 0 {
		m.RemoveResources(gone...)
	}
	m.resources = uris
	return nil
}

// plainName matches the names that a URI may have as host. Others are in its path.
var plainName = lazyregexp.New(`^[A-Za-z0-9._~-]+$`)

// workspaceURI returns the URI of a workspace's top directory: workspace://NAME/, or
// workspace:///NAME/ with an escaped name that can't be a host. The SDK panics on a URI
// that net/url can't parse.
func workspaceURI(name string) string {
	if plainName.MatchString(name) {
		return workspaceScheme + name + "/"
	}
	return workspaceScheme + "/" + url.PathEscape(name) + "/"
}

// readFile reads workspace://NAME/PATH and workspace:///NAME/PATH.
func (s *Server) readFile(v view) mcp.ResourceHandler {
	return func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		uri := req.Params.URI
		name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(uri, workspaceScheme), "/"), "/")
		name, nerr := url.PathUnescape(name)
		file, ferr := url.PathUnescape(rest)
		if !ok || nerr != nil || ferr != nil {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		data, err := s.opts.Env.Resource(ctx, v.only, name, file)
		switch fault.Of(err) {
		case "":
		case fault.NotFound, fault.SandboxViolation:
			return nil, mcp.ResourceNotFoundError(uri)
		default:
			return nil, err
		}
		return resourceContents(uri, mediaType(file), data), nil
	}
}

// readResult reads the whole text of a truncated answer.
func (s *Server) readResult(v view) mcp.ResourceHandler {
	return func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		text, err := s.opts.Env.Kept(ctx, v.only, strings.TrimPrefix(req.Params.URI, resultScheme))
		if err != nil {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		return resourceContents(req.Params.URI, "text/plain", []byte(text)), nil
	}
}

// resourceContents is text if data is UTF-8, and else a blob.
func resourceContents(uri, media string, data []byte) *mcp.ReadResourceResult {
	c := &mcp.ResourceContents{URI: uri, MIMEType: media}
	if utf8.Valid(data) {
		c.Text = string(data)
	} else {
		c.Blob = data
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}
}

func mediaType(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "text/plain"
}
