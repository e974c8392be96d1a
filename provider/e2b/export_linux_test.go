package e2b

import (
	"context"
	"net/http"
)

// SandboxesOf lists the sandboxes of a data directory.
func SandboxesOf(ctx context.Context, base, key, root string) (ids []string, err error) {
	s := &server{base: base, client: http.DefaultClient, key: func(context.Context) (string, error) { return key, nil }}
	var list []sandbox
	err = s.call(ctx, http.MethodGet, "/v2/sandboxes?metadata="+rootKey+"%3D"+rootName(root), nil, &list)
	for _, box := range list {
		ids = append(ids, box.ID)
	}
	return ids, err
}

// RootName is the name of a data directory in the metadata of its sandboxes.
func RootName(root string) string { return rootName(root) }
