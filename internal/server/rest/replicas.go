package rest

import (
	"context"
	"net/http"

	"github.com/croft-run/croft/registry"
)

func replicaRoutes(s *Server) {
	const all = "/v1/replicas"
	handle(s, operatorOnly(s.op(http.MethodGet, all, "list-replicas", "The replicas of the cluster, those that are gone included; none without a cluster")), s.listReplicas)
	handle(s, operatorOnly(s.op(http.MethodDelete, all+"/{node}", "forget-replica", "Give up a replica that is gone for good, with the workspaces on its host")), s.forgetReplica)
}

// Replicas is the answer of GET /v1/replicas.
type Replicas struct {
	Replicas []registry.Replica `json:"replicas"`
}

func (s *Server) listReplicas(ctx context.Context, _ *none) (*body[Replicas], error) {
	list, err := s.cfg.Registry.Replicas(ctx)
	return reply(Replicas{Replicas: list}, err)
}

type nodeInput struct {
	Node string `path:"node" doc:"name of the node"`
}

// Forgotten is the answer of DELETE /v1/replicas/{node}.
type Forgotten struct {
	Workspaces int `json:"workspaces" doc:"how many workspaces were on its host, and are lost"`
}

func (s *Server) forgetReplica(ctx context.Context, in *nodeInput) (*body[Forgotten], error) {
	n, err := s.cfg.Registry.ForgetReplica(ctx, in.Node)
	return reply(Forgotten{Workspaces: n}, err)
}
