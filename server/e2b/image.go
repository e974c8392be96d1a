package e2b

import (
	"context"
	"encoding/json"
	"strings"
)

// buildSource returns what a build starts from.
func (s *Server) buildSource(ctx context.Context, in buildSpec, _ *buildLog) (startingPoint, error) {
	if in.FromTemplate != "" {
		return s.templates.resolve(ctx, in.FromTemplate, s.cfg.Templates)
	}
	name, _, _ := strings.Cut(in.FromImage, ":")
	if name == "" || name == "e2bdev/base" { // the SDK's default
		return startingPoint{ID: baseTemplate}, nil
	}
	return startingPoint{}, unsupported("fromImage", "not yet")
}

func (p startingPoint) config() json.RawMessage { return nil }
