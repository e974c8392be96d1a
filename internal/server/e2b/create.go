package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// newSandbox is the body of POST /sandboxes and /v2/sandboxes. Every sandbox is secure: its
// envd needs the access token, also where Secure is false.
type newSandbox struct {
	TemplateID      string            `json:"templateID"`
	Timeout         *int              `json:"timeout"`
	AutoPause       bool              `json:"autoPause"`
	AutoPauseMemory *bool             `json:"autoPauseMemory"`
	AutoResume      *autoResume       `json:"autoResume"`
	Secure          *bool             `json:"secure"`
	AllowInternet   *bool             `json:"allow_internet_access"`
	Network         *networkConfig    `json:"network"`
	Metadata        map[string]string `json:"metadata"`
	EnvVars         map[string]string `json:"envVars"`
	MCP             json.RawMessage   `json:"mcp"`
	IAM             json.RawMessage   `json:"iam"`
	VolumeMounts    []volumeMount     `json:"volumeMounts"`
}

type autoResume struct {
	Enabled bool   `json:"enabled"`
	Policy  string `json:"policy"` // of older SDKs: any or off
}

// Time-outs of sandboxes, in seconds.
const (
	defaultTimeout   = 300 // of version 2 of the API
	defaultTimeoutV1 = 15
	maxTimeout       = 30 * 24 * 3600
)

// checkTimeout returns a time-out of a request, or the default.
func checkTimeout(seconds *int, or int) (int, error) {
	if seconds == nil {
		return or, nil
	}
	if *seconds < 0 || *seconds > maxTimeout {
		return 0, fmt.Errorf("timeout of %d seconds: %w: a sandbox lives from 0 to %d seconds (30 days); a longer life needs setTimeout from time to time",
			*seconds, fault.InvalidArgument, maxTimeout)
	}
	return *seconds, nil
}

// endAfter returns the time that many seconds from now.
func endAfter(seconds int) time.Time {
	return time.Now().Add(time.Duration(seconds) * time.Second).UTC()
}

func (s *Server) createSandbox(timeout int) handler {
	return func(r *http.Request) (answer, error) {
		var in newSandbox
		if err := decode(r, &in); err != nil {
			return answer{}, err
		}
		box, err := s.create(r.Context(), in, timeout)
		if err != nil {
			return answer{}, err
		}
		return answer{status: http.StatusCreated, body: s.describe(box)}, nil
	}
}

func (s *Server) create(ctx context.Context, in newSandbox, or int) (sandbox, error) {
	spec, d, err := s.plan(ctx, in, or)
	if err != nil {
		return sandbox{}, err
	}
	return s.open(ctx, spec, d, in.AutoPause)
}

// Spec returns the spec of a sandbox from a template, created without options.
func (s *Server) Spec(ctx context.Context, template string) (driver.Spec, error) {
	spec, _, err := s.plan(ctx, newSandbox{TemplateID: template}, defaultTimeout)
	return spec, err
}

// plan checks a request, and returns the spec and the details of the sandbox.
func (s *Server) plan(ctx context.Context, in newSandbox, or int) (driver.Spec, details, error) {
	refuse := func(err error) (driver.Spec, details, error) { return driver.Spec{}, details{}, err }
	timeout, err := checkTimeout(in.Timeout, or)
	if err != nil {
		return refuse(err)
	}
	if err := checkUnsupported(in); err != nil {
		return refuse(err)
	}
	from, err := s.templates.resolve(ctx, in.TemplateID, s.cfg.Templates)
	if err != nil {
		return refuse(err)
	}
	network, err := in.Network.policy(in.AllowInternet)
	if err != nil {
		return refuse(err)
	}
	volumes, err := s.volumes.resolve(ctx, in.VolumeMounts)
	if err != nil {
		return refuse(err)
	}
	config, err := from.config(volumes)
	if err != nil {
		return refuse(err)
	}
	env := maps.Clone(from.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, in.EnvVars)
	d := details{
		Template: from.ID, Alias: from.Alias, Build: from.Build, Metadata: in.Metadata, Timeout: timeout, AutoResume: in.resumes(),
		Internet: in.AllowInternet, Network: in.Network, Mounts: in.VolumeMounts, Workdir: from.Workdir, StartCmd: from.StartCmd, ReadyCmd: from.ReadyCmd,
	}
	if in.Network != nil {
		d.Private = in.Network.AllowPublicTraffic != nil && !*in.Network.AllowPublicTraffic
		d.MaskHost = in.Network.MaskRequestHost
	}
	spec := driver.Spec{
		From: from.Source, Config: config,
		Policy: driver.Policy{Env: env, Network: network, Limits: from.Limits, Persist: true},
	}
	if err := s.cfg.Admit(ctx, &spec); err != nil {
		return refuse(err)
	}
	if in.AllowInternet != nil && !*in.AllowInternet {
		spec.Policy.Network = driver.Network{}
	}
	return spec, d, nil
}

func (in newSandbox) resumes() bool {
	return in.AutoResume != nil && (in.AutoResume.Enabled || in.AutoResume.Policy == "any")
}

// checkUnsupported refuses options that Croft does not have.
func checkUnsupported(in newSandbox) error {
	switch {
	case in.TemplateID == "":
		return fmt.Errorf("templateID: %w: name a template, such as base", fault.InvalidArgument)
	case given(in.MCP):
		return unsupported("mcp", "this server has no MCP gateway inside sandboxes; it serves its own MCP tools at /mcp")
	case given(in.IAM):
		return unsupported("iam", "this server issues no workload identity tokens; give the sandbox a secret by a network rule")
	}
	return nil
}

// given reports whether a key of a body has a value.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// open records and opens a sandbox, and runs its start command.
func (s *Server) open(ctx context.Context, spec driver.Spec, d details, autoPause bool) (sandbox, error) {
	notes, err := d.annotations()
	if err != nil {
		return sandbox{}, err
	}
	attrs := registry.Attributes{EndAt: endAfter(d.Timeout), Annotations: notes}
	if autoPause {
		attrs.OnEnd = registry.PauseOnEnd
	}
	rec, err := s.cfg.Registry.CreateWith(ctx, spec, attrs)
	if err != nil {
		return sandbox{}, err
	}
	ws, err := s.cfg.Registry.Acquire(ctx, rec.ID)
	if err == nil {
		err = s.start(ctx, ws, d)
	}
	if err != nil {
		return sandbox{}, errors.Join(err, s.kill(ctx, rec.ID))
	}
	return sandbox{Record: rec, details: d}, nil
}

// readyTimeout bounds how long a sandbox waits for its ready command.
const readyTimeout = 50 * time.Second

// start runs the start command of a template in the background, and then the ready command
// until it succeeds.
func (s *Server) start(ctx context.Context, ws *workspace.Workspace, d details) error {
	r := result{Workdir: d.Workdir, StartCmd: d.StartCmd, ReadyCmd: d.ReadyCmd}
	if d.StartCmd != "" {
		if _, err := ws.Start(ctx, startCommand(r, nil)); err != nil {
			return fmt.Errorf("start command of template %s: %w", d.Template, err)
		}
	}
	if d.ReadyCmd == "" {
		return nil
	}
	return waitReady(ctx, ws, r, nil, readyTimeout)
}
