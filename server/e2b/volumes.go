package e2b

import (
	"context"
	"encoding/json"
	"net/http"
)

// volumeMount is a volume in a sandbox.
type volumeMount struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

type volumeStore struct{}

func openVolumes(string) (*volumeStore, error) { return new(volumeStore), nil }

func noVolumes() error { return unsupported("volumes", "this server has none") }

func (v *volumeStore) resolve(_ context.Context, mounts []volumeMount) (json.RawMessage, error) {
	if len(mounts) > 0 {
		return nil, noVolumes()
	}
	return nil, nil
}

func (s *Server) createVolume(*http.Request) (answer, error) { return answer{}, noVolumes() }
func (s *Server) listVolumes(*http.Request) (answer, error)  { return answer{}, noVolumes() }
func (s *Server) getVolume(*http.Request) (answer, error)    { return answer{}, noVolumes() }
func (s *Server) deleteVolume(*http.Request) (answer, error) { return answer{}, noVolumes() }

// serveWithToken answers requests that have a token of their own instead of an API key.
func (s *Server) serveWithToken(w http.ResponseWriter, r *http.Request) bool {
	return s.serveUpload(w, r)
}
