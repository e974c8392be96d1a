package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/internal/daemon/datadir"
	"github.com/croft-run/croft/internal/server/mcpserver"
	"github.com/croft-run/croft/internal/server/replica"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
)

// replicaLease is the lease of a replica. Another one serves its portable workspaces within that
// time after it has died.
const replicaLease = 10 * time.Second

// nodeFile has the id of the data directory in a cluster.
const nodeFile = "node-id"

// cluster is what a replica has beyond other servers, which have nil.
type cluster struct {
	node      string
	secret    []byte
	forwarder *replica.Forwarder
	registry  *registry.Registry // set before the first request
}

// clusterNode returns the name of the node in a cluster, "" without one.
func clusterNode(c config.Cluster) (string, error) {
	if c.Advertise == "" {
		return "", nil
	}
	if c.Node != "" {
		return strings.ToLower(c.Node), nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("app: name of the node: %w: %w: set cluster.node", fault.InvalidArgument, err)
	}
	return strings.ToLower(host), nil
}

// openCluster returns the part of this system in the cluster of the configuration. The zero value
// is no cluster.
func (s *System) openCluster(ctx context.Context, cfg Config) (registry.Cluster, error) {
	c := s.settings().Cluster
	if c.Advertise == "" {
		return registry.Cluster{}, nil
	}
	member := registry.Cluster{Node: s.node}
	if !cfg.Replica {
		return member, nil
	}
	if !strings.HasPrefix(s.storeURL(cfg.StoreURL), "postgres") {
		return registry.Cluster{}, fmt.Errorf("app: cluster: %w: the replicas share their store, so it must be postgres://HOST/DATABASE", fault.InvalidArgument)
	}
	if cfg.Token == "" {
		return registry.Cluster{}, fmt.Errorf("app: cluster: %w: all replicas need the same token; give it with --token or CROFT_TOKEN", fault.InvalidArgument)
	}
	if !s.hasBucket() {
		s.log.Warn("the cluster has no bucket (store.bucket): snapshots, templates and artifacts are in the data directory of each replica, and the others do not have them")
	}
	text, err := os.ReadFile(c.SecretFile)
	if err != nil {
		return registry.Cluster{}, fmt.Errorf("app: cluster.secretFile: %w: %w", fault.InvalidArgument, err)
	}
	secret, err := replica.ReadSecret(text)
	if err != nil {
		return registry.Cluster{}, fmt.Errorf("app: cluster.secretFile %s: %w", c.SecretFile, err)
	}
	if member.Data, err = datadir.SecretFile(s.Dir, nodeFile); err != nil {
		return registry.Cluster{}, err
	}
	forwarder, err := replica.New(ctx, member.Node, replica.Derive(secret, "forward"), s.log)
	if err != nil {
		return registry.Cluster{}, err
	}
	member.Address = strings.TrimSuffix(c.Advertise, "/")
	s.cluster = &cluster{node: member.Node, secret: secret, forwarder: forwarder}
	return member, nil
}

func clusterLease(member registry.Cluster) time.Duration {
	if member.Node == "" {
		return 0 // the default
	}
	return replicaLease
}

// InCluster reports whether this system is a replica of a cluster.
func (s *System) InCluster() bool { return s.cluster != nil }

// poolEnabled returns the function that says whether this process keeps workspaces of a provider
// warm. Of those that every replica reaches, the leader of the cluster does: it sweeps for all.
func (s *System) poolEnabled(p driver.Provider) func() bool {
	if s.settings().Cluster.Advertise == "" || !p.Features().Portable {
		return nil
	}
	return func() bool { return s.Registry != nil && s.Registry.Leads() }
}

// nodeName returns the name of this replica, "" without a cluster.
func (c *cluster) nodeName() string {
	if c == nil {
		return ""
	}
	return c.node
}

// protocols returns the protocols of the server. Replicas speak HTTP/2 with each other, also
// without TLS.
func (c *cluster) protocols() *http.Protocols {
	if c == nil {
		return nil
	}
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// acceptForwarded checks the requests that other replicas forward.
func (c *cluster) acceptForwarded(next http.Handler) http.Handler {
	if c == nil {
		return next
	}
	return c.forwarder.Accept(next)
}

// endForwarding ends the connections that were upgraded and forwarded.
func (c *cluster) endForwarding() {
	if c != nil {
		c.forwarder.Close()
	}
}

// forwardSandbox returns the function that forwards requests for sandboxes of other replicas, nil
// without a cluster.
func (c *cluster) forwardSandbox() func(http.ResponseWriter, *http.Request, string) (bool, error) {
	if c == nil {
		return nil
	}
	return c.forwardWorkspace
}

// forwardWorkspace forwards a request for the workspace with an id, if another replica owns it. If
// none does, this one answers: it takes the workspace over, or says that its node is lost.
func (c *cluster) forwardWorkspace(w http.ResponseWriter, r *http.Request, id string) (bool, error) {
	owner, elsewhere, err := c.registry.Owner(r.Context(), id)
	if fault.Of(err) == fault.NotFound || err == nil && !elsewhere {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return c.forwardTo(w, r, owner)
}

func (c *cluster) forwardTo(w http.ResponseWriter, r *http.Request, owner registry.Replica) (bool, error) {
	err := c.forwarder.Forward(w, r, replica.Target{Node: owner.Node, Address: owner.Address})
	return err == nil, err
}

// Routes that are forwarded by something else than the workspace in their path.
const (
	routeShow = "GET /v1/workspaces/{id}" // the record is in the store
	routeOpen = "POST /v1/workspaces"     // the id is in the body
)

// forwardRoute returns the function that forwards requests of the REST API and of MCP, nil
// without a cluster.
func (c *cluster) forwardRoute() func(http.ResponseWriter, *http.Request, string) (bool, error) {
	if c == nil {
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request, route string) (bool, error) {
		switch {
		case route == routeShow:
			return false, nil
		case route == routeOpen:
			id, err := peekID(r)
			if err != nil || id == "" {
				return false, err
			}
			return c.forwardWorkspace(w, r, id)
		case route == mcpserver.Path || route == mcpserver.SSEPath:
			return c.forwardMCP(w, r)
		case !strings.Contains(route, "/v1/workspaces/{id}"):
			return false, nil
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/workspaces/"), "/")
		return c.forwardNamed(w, r, r.URL.Query().Get("owner"), name)
	}
}

// forwardNamed is forwardWorkspace for a name or an id.
func (c *cluster) forwardNamed(w http.ResponseWriter, r *http.Request, owner, name string) (bool, error) {
	if driver.ValidID(name) {
		return c.forwardWorkspace(w, r, name)
	}
	rec, err := c.registry.Lookup(r.Context(), owner, name)
	if err != nil {
		return false, nil //nolint:nilerr // the route answers with the error
	}
	return c.forwardWorkspace(w, r, rec.ID)
}

// forwardMCP forwards a client that chose one workspace to its owner, and others to the replica
// that has their session.
func (c *cluster) forwardMCP(w http.ResponseWriter, r *http.Request) (bool, error) {
	if name := r.URL.Query().Get("workspace"); name != "" {
		return c.forwardNamed(w, r, "", name)
	}
	node := mcpserver.SessionNode(r)
	if node == "" || node == c.node {
		return false, nil
	}
	list, err := c.registry.Replicas(r.Context())
	if err != nil {
		return false, err
	}
	for _, one := range list {
		if one.Node == node && one.Live {
			return c.forwardTo(w, r, one)
		}
	}
	return false, nil // the session is lost, and the client begins another
}

// maxPeek bounds the body of a request that opens a workspace, as the REST API does.
const maxPeek = 16 << 20

// peekID returns the id in the body of a request that opens a workspace, and leaves the body
// unread.
func peekID(r *http.Request) (string, error) {
	body := r.Body
	data, err := io.ReadAll(io.LimitReader(body, maxPeek+1))
	r.Body = readCloser{io.MultiReader(bytes.NewReader(data), body), body}
	if err != nil {
		return "", fmt.Errorf("request: read the body: %w", fault.Default(err, fault.InvalidArgument))
	}
	var spec struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(data, &spec) != nil || !driver.ValidID(spec.ID) {
		return "", nil // the route says what is wrong
	}
	return spec.ID, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}
