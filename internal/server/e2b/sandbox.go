package e2b

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/e2b/envd"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace/driver"
)

// clientID is the id of the node of a sandbox, of which there is one.
const clientID = "croft"

// details is the content of the annotation: what Croft does not know of a sandbox itself.
type details struct {
	Template   string            `json:"template"` // id
	Alias      string            `json:"alias,omitempty"`
	Build      string            `json:"build,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Timeout    int               `json:"timeout"` // seconds, for the next time it is resumed by traffic
	AutoResume bool              `json:"autoResume,omitempty"`
	Private    bool              `json:"private,omitempty"` // ports need the traffic access token
	Internet   *bool             `json:"internet,omitempty"`
	Network    *networkConfig    `json:"network,omitempty"`
	Mounts     []volumeMount     `json:"mounts,omitempty"`
	Workdir    string            `json:"workdir,omitempty"`
	MaskHost   string            `json:"maskHost,omitempty"` // Host of requests to ports

	StartCmd string `json:"startCmd,omitempty"`
	ReadyCmd string `json:"readyCmd,omitempty"`
}

// A sandbox is a workspace with its details.
type sandbox struct {
	registry.Record
	details
}

// Annotation is the annotation of a workspace that was created by this API: its details as JSON.
const Annotation = "e2b"

// sandboxOf returns the sandbox of a record; false for a workspace that was not created by this API.
func sandboxOf(rec registry.Record) (sandbox, bool) {
	text, ok := rec.Annotations[Annotation]
	box := sandbox{Record: rec}
	if !ok || json.Unmarshal([]byte(text), &box.details) != nil {
		return sandbox{}, false
	}
	return box, true
}

func (d details) annotations() (map[string]string, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("e2b: %w: %w", fault.InvalidArgument, err)
	}
	return map[string]string{Annotation: string(data)}, nil
}

// find returns a sandbox of the principal by its id.
func (s *Server) find(ctx context.Context, id string) (sandbox, error) {
	missing := fmt.Errorf("sandbox %.60q: %w: it was killed, its time-out has passed, or it never existed", id, fault.NotFound)
	if !driver.ValidID(id) {
		return sandbox{}, missing
	}
	rec, err := s.cfg.Registry.Lookup(ctx, "", id)
	if fault.Of(err) == fault.NotFound {
		return sandbox{}, missing
	}
	if err != nil {
		return sandbox{}, err
	}
	box, ok := sandboxOf(rec)
	if !ok || !rec.EndAt.IsZero() && rec.OnEnd == registry.DestroyOnEnd && !rec.EndAt.After(time.Now()) {
		return sandbox{}, missing // the registry destroys it within a second
	}
	return box, nil
}

func (s *Server) findRequested(r *http.Request) (sandbox, error) {
	return s.find(r.Context(), r.PathValue("sandbox"))
}

// token derives a token of a sandbox or volume from the server's key.
func (s *Server) token(purpose, id string) string {
	mac := hmac.New(sha256.New, s.cfg.Key)
	mac.Write([]byte(purpose + ":" + id))
	return hex.EncodeToString(mac.Sum(nil))
}

// Purposes of tokens.
const (
	envdPurpose    = "envd"
	trafficPurpose = "traffic"
	volumePurpose  = "volume"
	uploadPurpose  = "upload"
)

// sandboxAnswer is what create, connect, resume and fork answer.
type sandboxAnswer struct {
	TemplateID         string `json:"templateID"`
	SandboxID          string `json:"sandboxID"`
	ClientID           string `json:"clientID"`
	Alias              string `json:"alias,omitempty"`
	EnvdVersion        string `json:"envdVersion"`
	EnvdAccessToken    string `json:"envdAccessToken"`
	TrafficAccessToken string `json:"trafficAccessToken"`
	Domain             string `json:"domain,omitempty"`
}

func (s *Server) describe(box sandbox) sandboxAnswer {
	return sandboxAnswer{
		TemplateID: box.Template, SandboxID: box.ID, ClientID: clientID, Alias: box.Alias, EnvdVersion: envd.Version,
		EnvdAccessToken: s.token(envdPurpose, box.ID), TrafficAccessToken: s.token(trafficPurpose, box.ID), Domain: s.sandboxDomain(),
	}
}

// listedSandbox is an element of a list.
type listedSandbox struct {
	TemplateID   string            `json:"templateID"`
	SandboxID    string            `json:"sandboxID"`
	ClientID     string            `json:"clientID"`
	Alias        string            `json:"alias,omitempty"`
	StartedAt    time.Time         `json:"startedAt"`
	EndAt        time.Time         `json:"endAt"`
	CPUCount     int64             `json:"cpuCount"`
	MemoryMB     int64             `json:"memoryMB"`
	DiskSizeMB   int64             `json:"diskSizeMB"`
	State        string            `json:"state"`
	EnvdVersion  string            `json:"envdVersion"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	VolumeMounts []volumeMount     `json:"volumeMounts,omitempty"`
}

// States of a sandbox.
const (
	running = "running"
	paused  = "paused"
)

func (box sandbox) state() string {
	if box.State == registry.Paused {
		return paused
	}
	return running
}

// endsAt returns when the sandbox ends; a paused one has ended its time already.
func (box sandbox) endsAt() time.Time {
	if box.EndAt.IsZero() {
		return box.UpdatedAt
	}
	return box.EndAt
}

func listed(box sandbox) listedSandbox {
	cpu, memory, disk := sizes(box.Spec.Policy.Limits)
	return listedSandbox{
		TemplateID: box.Template, SandboxID: box.ID, ClientID: clientID, Alias: box.Alias, StartedAt: box.CreatedAt, EndAt: box.endsAt(),
		CPUCount: cpu, MemoryMB: memory, DiskSizeMB: disk, State: box.state(), EnvdVersion: envd.Version, Metadata: box.Metadata, VolumeMounts: box.Mounts,
	}
}

// sizes returns the limits of a sandbox: cores, MiB of memory and MiB of disk. Without a
// limit of cores it has those of the host; a size without a limit is 0.
func sizes(l driver.Limits) (cpu, memory, disk int64) {
	const mib = 1 << 20
	cpu = int64(runtime.NumCPU())
	if most := l[driver.ResourceCPU].Max; most > 0 {
		cpu = (most + 999) / 1000
	}
	return cpu, l[driver.ResourceMemory].Max / mib, l[driver.ResourceDisk].Max / mib
}

// sandboxDetail is the answer of GET /sandboxes/{id}.
type sandboxDetail struct {
	listedSandbox
	EnvdAccessToken     string         `json:"envdAccessToken"`
	Domain              string         `json:"domain,omitempty"`
	Network             *networkConfig `json:"network,omitempty"`
	Lifecycle           lifecycle      `json:"lifecycle"`
	AllowInternetAccess *bool          `json:"allowInternetAccess,omitempty"`
}

type lifecycle struct {
	AutoResume bool   `json:"autoResume"`
	OnTimeout  string `json:"onTimeout"`
}

func (s *Server) getSandbox(r *http.Request) (answer, error) {
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	onTimeout := "kill"
	if box.OnEnd == registry.PauseOnEnd {
		onTimeout = "pause"
	}
	out := sandboxDetail{
		listedSandbox: listed(box), Domain: s.sandboxDomain(), Network: box.Network,
		Lifecycle: lifecycle{AutoResume: box.AutoResume, OnTimeout: onTimeout}, AllowInternetAccess: box.Internet,
	}
	// A key that may only read must not get a token that runs commands.
	if p, ok := auth.From(r.Context()); !ok || p.Has(auth.Run) {
		out.EnvdAccessToken = s.token(envdPurpose, box.ID)
	}
	return answer{body: out}, nil
}

func (s *Server) killSandbox(r *http.Request) (answer, error) {
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	if err := s.kill(r.Context(), box.ID); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, nil
}

// kill destroys a sandbox, also if the client goes away meanwhile.
func (s *Server) kill(ctx context.Context, id string) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	defer s.cfg.Envd.Forget(id)
	return s.cfg.Registry.Destroy(ctx, id)
}
