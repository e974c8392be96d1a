package rest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

const importPath = onePath + "/import"

func (s fileRoutes) archive() {
	op := s.op(http.MethodPost, importPath, "import-archive", "Import a directory from a tar stream, all or nothing")
	op.Description = "Path must not exist. Names in the stream are relative to the directory. " +
		"Symlinks that would leave the workspace, and entries that are neither a file, a directory nor a symlink, are left out and listed."
	op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/x-tar": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}}
	op.MaxBodyBytes = 0 // it is a stream; parameter maxBytes bounds what is kept
	handle(s, op, s.importArchive)
}

type importInput struct {
	Target
	Path     string `query:"path" required:"true"`
	ReadOnly bool   `query:"readonly" doc:"remove all write permissions"`
	MaxFiles int    `query:"maxFiles" minimum:"0" doc:"refuse more entries than this; 0 is no limit"`
	MaxBytes int64  `query:"maxBytes" minimum:"0" doc:"refuse more bytes of files than this; 0 is no limit"`

	streamBody
}

func (s fileRoutes) importArchive(ctx context.Context, in *importInput) (*body[driver.ImportResult], error) {
	ws, err := s.liveWorkspace(ctx, in.Target)
	var res driver.ImportResult
	if err == nil {
		opts := &workspace.ImportOptions{ReadOnly: in.ReadOnly, MaxFiles: in.MaxFiles, MaxBytes: in.MaxBytes}
		res, err = ws.ImportArchive(ctx, clientBody{in.stream}, in.Path, opts)
	}
	if b, ok := in.stream.(*watchedBody); ok && err != nil && b.isExpired() {
		err = fmt.Errorf("import to %s: %w: the body of the request paused for more than %v", in.Path, fault.DeadlineExceeded, b.timeout)
	}
	if err != nil {
		in.end()
		return nil, err
	}
	return &body[driver.ImportResult]{res}, nil
}
