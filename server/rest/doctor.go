package rest

import (
	"context"
	"net/http"

	"github.com/croft-run/croft/workspace/driver"
)

func (s *Server) doctorRoutes() {
	handle(s, s.op(http.MethodGet, "/v1/doctor", "doctor", "What this host gives, proven by trying: levels of isolation, limits, network, copy-on-write"), s.doctor)
}

// A Level says whether a level of isolation works on this host.
type Level struct {
	Provider string           `json:"provider"`
	Level    driver.Isolation `json:"level"`
	Works    bool             `json:"works"`
	Proof    string           `json:"proof,omitempty" doc:"what was tried, where it works"`
	Reason   string           `json:"reason,omitempty" doc:"why not, where it does not"`
	Lacks    []string         `json:"lacks,omitempty" doc:"what it does not prevent"`
}

// A Diagnosis is the answer of /v1/doctor.
type Diagnosis struct {
	Version   string     `json:"version"`
	Levels    []Level    `json:"levels"`
	Providers []Provider `json:"providers"`
}

func (s *Server) doctor(ctx context.Context, _ *none) (*body[Diagnosis], error) {
	out := Diagnosis{Version: s.cfg.Version, Levels: []Level{}}
	if s.cfg.Levels != nil {
		out.Levels = append(out.Levels, s.cfg.Levels(ctx)...)
	}
	list, err := s.providers(ctx, nil)
	if err != nil {
		return nil, err
	}
	out.Providers = list.Body.Providers
	return &body[Diagnosis]{out}, nil
}
