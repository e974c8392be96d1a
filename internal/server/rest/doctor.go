package rest

import (
	"context"
)

// A Diagnosis is the answer of /v1/doctor.
type Diagnosis struct {
	Version   string     `json:"version"`
	Levels    []Level    `json:"levels"`
	Providers []Provider `json:"providers"`
}

func (s *Server) diagnose(ctx context.Context, _ *none) (*body[Diagnosis], error) {
	out := Diagnosis{Version: s.cfg.Version, Levels: []Level{}}
	if s.cfg.Levels != nil {
		out.Levels = append(out.Levels, s.cfg.Levels(ctx)...)
	}
	list, err := s.listProviders(ctx, nil)
	if err != nil {
		return nil, err
	}
	out.Providers = list.Body.Providers
	return &body[Diagnosis]{out}, nil
}
