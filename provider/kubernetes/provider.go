package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/egress"
	"github.com/croft-run/croft/internal/egress/proxies"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/keylock"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Provider opens workspaces in pods.
type Provider struct {
	cfg    Config
	api    corev1client.CoreV1Interface
	ctx    context.Context // until Close
	cancel context.CancelFunc
	locks  keylock.Locks[string] // by id: who creates, changes or connects to a workspace

	egress  egress.Options // of the proxies; set before the first use of them
	proxies func() *proxies.Set

	background sync.WaitGroup // tests of the cluster

	mu     sync.Mutex
	open   map[string]*openState   // guarded by mu; of the workspaces with handles, by id
	proofs map[string]*proof       // guarded by mu; by RuntimeClass
	tests  map[string]*clusterTest // guarded by mu; by RuntimeClass
}

// openState is what all handles of a workspace in this process know at once: another handle has
// changed the policy, or destroyed the workspace.
type openState struct {
	handles   int
	revision  int64
	destroyed bool
}

var _ driver.Provider = (*Provider)(nil)

// New returns a provider. It does not call the API server yet.
func New(cfg *Config) (*Provider, error) {
	c := Config{}
	if cfg != nil {
		c = *cfg
	}
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	c.REST = rest.CopyConfig(c.REST)
	if c.REST.QPS == 0 { // the default of five calls per second is one workspace per second
		c.REST.QPS, c.REST.Burst = 200, 400
	}
	api, err := corev1client.NewForConfig(c.REST)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: config: %w: %w", fault.InvalidArgument, err)
	}
	p := &Provider{cfg: c, api: api, open: map[string]*openState{}, proofs: map[string]*proof{}, tests: map[string]*clusterTest{}}
	p.ctx, p.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // it ends with Close
	p.proxies = sync.OnceValue(func() *proxies.Set { return proxies.New(p.ctx, p.egress, c.Log) })
	return p, nil
}

// Close ends what the provider runs in this process. Pods live on.
func (p *Provider) Close() error {
	p.cancel()
	p.background.Wait()
	return nil
}

// Kind returns "kubernetes".
func (p *Provider) Kind() string { return Kind }

// Features returns what the provider has besides its workspaces. Every process with the same
// namespace and instance reaches these.
func (p *Provider) Features() driver.Features {
	return driver.Features{Capabilities: p.capabilities(), Portable: true, HasWorkspaces: p.hasWorkspaces}
}

// capabilities returns the capabilities of a workspace.
func (p *Provider) capabilities() driver.Capabilities {
	return capabilities.With(driver.CapSnapshot, p.cfg.Snapshots != nil)
}

// Open creates the workspace spec.ID or returns it if it exists. Its pod is created by the
// first call that needs it.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("kubernetes: open: %w", err)
	}
	opts, err := p.checkSpec(spec)
	if err != nil {
		return nil, err
	}
	f, err := p.checkPolicy(ctx, spec.Policy, opts)
	if err != nil {
		return nil, wsdir.OpenFailed(ctx, Kind, "open", err)
	}
	unlock, err := p.locks.Lock(ctx, spec.ID)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: open: %w", err)
	}
	defer unlock()
	st, err := p.ensureWorkspace(ctx, spec, opts, f)
	if err != nil {
		return nil, wsdir.OpenFailed(ctx, Kind, "open", err)
	}
	ws, err := p.attachWorkspace(st, f)
	return ws.Only(spec.Want), err
}

// checkSpec refuses a spec that the provider can't fulfil, before anything is created. It
// returns the options to record.
func (p *Provider) checkSpec(spec driver.Spec) (opts options, err error) {
	if err := driver.CheckOpen(spec, Kind, p.capabilities()); err != nil {
		return opts, err
	}
	if err := driver.DecodeConfig(spec, &opts); err != nil {
		return opts, err
	}
	switch {
	case opts.From != "":
		return opts, fmt.Errorf("kubernetes: open: config: %w: \"from\" can't be configured; name the snapshot in Spec.From", fault.InvalidArgument)
	case spec.Dir != "":
		return opts, fmt.Errorf("kubernetes: open: a directory in place: %w: a pod has files of its own", fault.Unsupported)
	case spec.From.Template != "":
		return opts, fmt.Errorf("kubernetes: open: template %q: %w: it is not a snapshot", spec.From.Template, fault.Unsupported)
	case spec.From.Snapshot != "" && p.cfg.Snapshots == nil:
		return opts, fmt.Errorf("kubernetes: open: a snapshot to start from: %w: there is no snapshot store", fault.Unsupported)
	}
	for field, otherwise := range map[*string]string{
		&opts.Image: p.cfg.Image, &opts.RuntimeClass: p.cfg.RuntimeClass, &opts.StorageClass: p.cfg.StorageClass, &opts.Size: p.cfg.Size, &opts.Volume: p.cfg.Volume,
	} {
		if *field == "" {
			*field = otherwise
		}
	}
	if err := checkSize(opts.Size); err != nil {
		return opts, fmt.Errorf("kubernetes: open: config: %w", err)
	}
	if err := checkVolume(opts.Volume); err != nil {
		return opts, fmt.Errorf("kubernetes: open: config: %w", err)
	}
	if opts.Volume == VolumeClaim {
		opts.Volume = ""
	}
	opts.From = spec.From.Snapshot
	return opts, nil
}

// checkPolicy checks that pods with the options can enforce a policy.
func (p *Provider) checkPolicy(ctx context.Context, policy driver.Policy, opts options) (*proof, error) {
	if policy.Isolation.Rank() < 0 {
		return nil, policy.Check(driver.Traits{}) // names the levels
	}
	f, err := p.checkCluster(ctx, opts.RuntimeClass, !policy.Network.None())
	if err != nil {
		return nil, err
	}
	if err := p.checkNetwork(policy.Network, f); err != nil {
		return nil, err
	}
	return f, policy.Check(f.traits(opts.Volume))
}

// ensureWorkspace creates what a workspace needs but its pod, or changes its policy. It
// requires the lock of the id.
func (p *Provider) ensureWorkspace(ctx context.Context, spec driver.Spec, opts options, f *proof) (*state, error) {
	st, err := p.readState(ctx, spec.ID)
	if err == nil && st.Destroying {
		if err = p.removeWorkspace(ctx, spec.ID); err == nil {
			err = fault.NotFound
		}
	}
	if err != nil && fault.Of(err) != fault.NotFound {
		return nil, err
	}
	var from snapshot.Tree
	if (err != nil || !st.Filled) && spec.From.Snapshot != "" {
		var ferr error
		if from, ferr = p.cfg.Snapshots.StartFrom(ctx, spec); ferr != nil {
			return nil, ferr
		}
	}
	if err != nil {
		if st, err = p.createState(ctx, spec, opts); fault.Of(err) == fault.AlreadyExists { // by another process
			st, err = p.readState(ctx, spec.ID)
		}
		if err != nil {
			return nil, err
		}
	}
	if st.Options != opts {
		return nil, fmt.Errorf("the configuration of the workspace: %w: it was opened with another one; use a new id", fault.InvalidArgument)
	}
	if !st.Filled {
		if st, err = p.fillWorkspace(ctx, st, from, f); err != nil {
			return nil, err
		}
	} else if err := p.checkFiles(ctx, st); err != nil {
		return nil, err
	}
	if st.Policy.Equal(spec.Policy) {
		return st, nil
	}
	return p.applyPolicy(ctx, st.ID, spec.Policy, f)
}

// fillWorkspace creates the volume of a new workspace, and writes the files that it starts with.
func (p *Provider) fillWorkspace(ctx context.Context, st *state, from snapshot.Tree, f *proof) (*state, error) {
	var pod types.UID
	var err error
	if st.Options.Volume != VolumeEmptyDir {
		err = p.ensureClaim(ctx, st)
	} else {
		pod, err = p.startEmptyDir(ctx, st, f)
	}
	if err == nil && from != nil {
		err = p.writeOrigin(ctx, st, from, f)
	}
	if err != nil {
		return nil, err
	}
	return p.changeState(ctx, st.ID, func(st *state) error {
		if st.Destroying {
			return fmt.Errorf("the workspace was destroyed meanwhile: %w", fault.Conflict)
		}
		st.Filled, st.Pod = true, pod
		return nil
	})
}

// startEmptyDir starts the pod of a new workspace whose files are in an emptyDir, and returns the
// pod, with which the files end.
func (p *Provider) startEmptyDir(ctx context.Context, st *state, f *proof) (types.UID, error) {
	l, err := p.newLaunch(st, f.Level)
	if err != nil {
		return "", err
	}
	c, err := p.connectGuest(ctx, l)
	if err != nil {
		return "", err
	}
	c.Close() //nolint:errcheck // nothing is lost with it
	pod, err := p.getPod(ctx, l.name)
	if err != nil {
		return "", err
	}
	return pod.UID, nil
}

// applyPolicy changes the policy, and ends a pod that can't apply the new one. It requires the
// lock of the id.
func (p *Provider) applyPolicy(ctx context.Context, id string, policy driver.Policy, f *proof) (*state, error) {
	st, err := p.setPolicy(ctx, id, policy, f.Level)
	if err != nil {
		return nil, err
	}
	p.setOpenState(id, func(o *openState) { o.revision = max(o.revision, st.Revision) })
	if err := p.proxies().Update(id, policy.Network); err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	if st.Pod != "" { // setPolicy has checked that the pod can stay
		return st, nil
	}
	l, err := p.newLaunch(st, f.Level)
	if err != nil {
		return nil, err
	}
	// From here on the change must be complete, even if the context is cancelled.
	clean := context.WithoutCancel(ctx)
	pod, err := p.getPod(clean, l.name)
	if fault.Of(err) == fault.NotFound || err == nil && pod.Annotations[annotationKey] == l.key {
		return st, nil
	}
	if err != nil {
		return nil, err
	}
	return st, p.removePod(clean, l.name, pod.UID)
}

func (p *Provider) setOpenState(id string, change func(*openState)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.open[id]; o != nil {
		change(o)
	}
}

// Resolve attaches to the workspace that ref names.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("kubernetes: resolve: %w", err)
	}
	id, err := driver.DecodeRefID(ref, Kind, p.cfg.Log)
	if err != nil {
		return nil, err
	}
	st, err := p.readState(ctx, id)
	switch {
	case fault.Of(err) == fault.NotFound || err == nil && (st.Destroying || !st.Filled):
		return nil, wsdir.Gone(Kind)
	case err != nil:
		return nil, resolveFailed(ctx, err)
	}
	if err := driver.CheckRevision(ref, st.Revision); err != nil {
		return nil, err
	}
	if err := driver.CheckCapabilities(ref, p.capabilities()); err != nil {
		return nil, err
	}
	if err := p.checkFiles(ctx, st); err != nil {
		return nil, resolveFailed(ctx, err)
	}
	f, err := p.checkPolicy(ctx, st.Policy, st.Options)
	if err != nil {
		return nil, resolveFailed(ctx, err)
	}
	ws, err := p.attachWorkspace(st, f)
	return ws.Only(ref.Capabilities), err
}

// resolveFailed gives an error of Resolve its code. Rights that are missing are transient here, other
// than in Open: an API server that has just started refuses everything until it has read the roles,
// and the workspace is there.
func resolveFailed(ctx context.Context, err error) error {
	if code := fault.Of(err); code == fault.PermissionDenied || code == fault.Unauthenticated {
		return fault.Transient(fmt.Errorf("kubernetes: resolve: %w: %w", fault.Failed, err))
	}
	return wsdir.OpenFailed(ctx, Kind, "resolve", err)
}

// attachWorkspace returns a handle of an existing workspace, for Open and Resolve.
func (p *Provider) attachWorkspace(st *state, f *proof) (*driver.Workspace, error) {
	ref, err := p.newRef(st)
	if err != nil {
		return nil, err
	}
	h := p.newHandle(st, f)
	life := driver.Life{
		Close: h.close, Destroy: h.destroy, Update: h.update,
		NoPause: "a pod can't be paused",
	}
	if st.Options.Volume == VolumeEmptyDir {
		life.Update = nil // most changes need another pod
	}
	if p.cfg.Snapshots != nil {
		life.Snapshot = h.snapshotAdapter(st).Module()
	}
	shell := driver.ForwardShell(driver.Ask(h.shell))
	if st.Policy.Network.None() {
		shell.Dial = nil // processes can't listen on ports
	}
	return &driver.Workspace{Ref: ref, Traits: f.traits(st.Options.Volume), Life: life, FS: driver.ForwardFS(driver.Ask(h.files), "Xattrs", "SetXattrs", "Import", "Protect", "ChangedPaths", "GitDirs"), Shell: shell}, nil
}

func (p *Provider) newRef(st *state) (driver.Ref, error) {
	return driver.NewRef(Kind, driver.RefID{ID: st.ID}, p.capabilities(), st.Revision)
}

// hasWorkspaces reports whether the instance has a workspace.
func (p *Provider) hasWorkspaces(ctx context.Context) (bool, error) {
	secrets, err := p.listSecrets(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(secrets, func(s corev1.Secret) bool { return p.isOwn(&s) }), nil
}

// Sweep removes the objects of workspaces of this instance that are not in live, and pods that
// a probe left.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	ids, err := p.objectIDs(ctx)
	if err != nil {
		return fmt.Errorf("kubernetes: sweep: %w", err)
	}
	var errs []error
	for _, id := range ids {
		if slices.Contains(live, id) {
			continue
		}
		p.setOpenState(id, func(o *openState) { o.destroyed = true })
		errs = append(errs, p.removeWorkspace(ctx, id))
	}
	errs = append(errs, p.removeOldProbes(ctx), p.sweepProxyFiles(live))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("kubernetes: sweep: %w", err)
	}
	return nil
}

// objectIDs lists the ids of workspaces that have an object.
func (p *Provider) objectIDs(ctx context.Context) ([]string, error) {
	secrets, err := p.listSecrets(ctx)
	if err != nil {
		return nil, err
	}
	claims, err := p.listClaims(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := p.listPods(ctx)
	if err != nil {
		return nil, err
	}
	var objects []metav1.Object
	for i := range secrets {
		objects = append(objects, &secrets[i])
	}
	for i := range claims {
		objects = append(objects, &claims[i])
	}
	for i := range pods {
		objects = append(objects, &pods[i])
	}
	var ids []string
	for _, o := range objects {
		if id := o.GetLabels()[LabelWorkspace]; p.isOwn(o) && id != probeID {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// probeLifetime is longer than any probe takes.
const probeLifetime = 15 * time.Minute

// removeOldProbes removes the pods of probes whose process has died.
func (p *Provider) removeOldProbes(ctx context.Context) error {
	pods, err := p.listPods(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for i := range pods {
		pod := &pods[i]
		if p.isOwn(pod) && pod.Labels[LabelWorkspace] == probeID && time.Since(pod.CreationTimestamp.Time) > probeLifetime+p.cfg.StartTimeout {
			errs = append(errs, p.removePod(ctx, pod.Name, pod.UID))
		}
	}
	return errors.Join(errs...)
}
