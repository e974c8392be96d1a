package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// stateVersion changes with the form of state.
const stateVersion = 1

// stateKey is the key of the state in its Secret.
const stateKey = "state.json"

// state is what the Secret of a workspace holds.
type state struct {
	Version  int           `json:"version"`
	ID       string        `json:"id"`
	Revision int64         `json:"revision"`
	Policy   driver.Policy `json:"policy"`
	Session  string        `json:"session,omitempty"` // that opened it
	Options  options       `json:"options"`
	Token    string        `json:"token"` // of connections to the guest

	// Filled is set when Open has created the volume, with the files of the snapshot that
	// the workspace starts from.
	Filled bool `json:"filled,omitempty"`

	// Pod is the pod whose emptyDir has the files; "" if they are in a claim.
	Pod types.UID `json:"pod,omitempty"`

	// Destroying is set before anything is deleted.
	Destroying bool `json:"destroying,omitempty"`

	// Rollback is set while the files are rolled back to a snapshot.
	Rollback *rollback `json:"rollback,omitempty"`

	secret *corev1.Secret // that it was read from
}

// readState reads the state of a workspace of this instance.
func (p *Provider) readState(ctx context.Context, id string) (*state, error) {
	secret, err := p.getSecret(ctx, id)
	if err != nil {
		return nil, err
	}
	if !p.isOwn(secret) {
		return nil, fmt.Errorf("kubernetes: read the state: %w: the Secret is of another instance", fault.NotFound)
	}
	return decodeState(secret)
}

func decodeState(secret *corev1.Secret) (*state, error) {
	st := &state{secret: secret}
	if err := driver.DecodeStrict(secret.Data[stateKey], st); err != nil || st.Version != stateVersion || objectName(st.ID) != secret.Name {
		return nil, fmt.Errorf("kubernetes: the state of the workspace is not valid: %w", fault.Failed)
	}
	return st, nil
}

// createState creates the state of a new workspace.
func (p *Provider) createState(ctx context.Context, spec driver.Spec, opts options) (*state, error) {
	st := &state{Version: stateVersion, ID: spec.ID, Revision: 1, Policy: spec.Policy, Session: spec.Session.ID, Options: opts, Token: rand.Text()}
	data, err := json.Marshal(st)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: encode the state: %w: %w", fault.Internal, err)
	}
	st.secret, err = p.createSecret(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: objectName(spec.ID), Labels: p.ownLabels(spec.ID)},
		Data:       map[string][]byte{stateKey: data},
	})
	if err != nil {
		return nil, err
	}
	driver.Step(ctx, "state created")
	return st, nil
}

// changeState changes the state of a workspace, and repeats change on a newer state if another
// process has changed it meanwhile.
func (p *Provider) changeState(ctx context.Context, id string, change func(*state) error) (*state, error) {
	for {
		st, err := p.readState(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := change(st); err != nil {
			return nil, err
		}
		data, err := json.Marshal(st)
		if err != nil {
			return nil, fmt.Errorf("kubernetes: encode the state: %w: %w", fault.Internal, err)
		}
		secret := st.secret.DeepCopy()
		secret.Data = map[string][]byte{stateKey: data}
		secret, err = p.updateSecret(ctx, secret)
		if fault.Of(err) == fault.Conflict {
			continue
		}
		if err != nil {
			return nil, err
		}
		st.secret = secret
		driver.Step(ctx, "state changed")
		return st, nil
	}
}

// setPolicy changes the policy under a higher revision. It refuses one that needs another pod if
// that would not have the files.
func (p *Provider) setPolicy(ctx context.Context, id string, policy driver.Policy, level driver.Isolation) (*state, error) {
	return p.changeState(ctx, id, func(st *state) error {
		if st.Destroying {
			return wsdir.Gone(Kind)
		}
		was, err := p.podKey(st, level)
		if err != nil {
			return err
		}
		st.Policy = policy
		key, err := p.podKey(st, level)
		if err != nil {
			return err
		}
		if st.Pod != "" && key != was {
			return fmt.Errorf("kubernetes: change the policy: %w: it needs another pod, and the files are in an emptyDir of this one", fault.Unsupported)
		}
		st.Revision++
		return nil
	})
}

// owner returns the reference of the objects of a workspace to its state, with which the
// cluster deletes them.
func (st *state) owner() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: st.secret.Name, UID: st.secret.UID}}
}

// ensureClaim creates the claim of a workspace, unless it exists.
func (p *Provider) ensureClaim(ctx context.Context, st *state) error {
	size, err := resource.ParseQuantity(st.Options.Size)
	if err != nil {
		return fmt.Errorf("kubernetes: size %q: %w: %w", st.Options.Size, fault.InvalidArgument, err)
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: objectName(st.ID), Labels: p.ownLabels(st.ID), OwnerReferences: st.owner()},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	if st.Options.StorageClass != "" {
		claim.Spec.StorageClassName = &st.Options.StorageClass
	}
	if err := p.createClaim(ctx, claim); err != nil && fault.Of(err) != fault.AlreadyExists {
		return err
	}
	driver.Step(ctx, "claim created")
	return nil
}

// checkClaim returns an error with the cause gone if the claim of a workspace does not exist
// or is being deleted.
func (p *Provider) checkClaim(ctx context.Context, id string) error {
	claim, err := p.getClaim(ctx, id)
	if fault.Of(err) == fault.NotFound || err == nil && claim.DeletionTimestamp != nil {
		return wsdir.Gone(Kind)
	}
	return err
}

// checkFiles returns an error with the cause gone if the files of a workspace do not exist.
func (p *Provider) checkFiles(ctx context.Context, st *state) error {
	if st.Pod == "" {
		return p.checkClaim(ctx, st.ID)
	}
	_, err := p.getEmptyDirPod(ctx, objectName(st.ID), st.Pod)
	return err
}

// getEmptyDirPod returns the pod whose emptyDir has the files of a workspace, or an error with the
// cause gone if it has ended.
func (p *Provider) getEmptyDirPod(ctx context.Context, name string, uid types.UID) (*corev1.Pod, error) {
	pod, err := p.getPod(ctx, name)
	if fault.Of(err) == fault.NotFound || err == nil && (pod.UID != uid || hasEnded(pod)) {
		return nil, wsdir.Gone(Kind)
	}
	return pod, err
}

// removeWorkspace removes the objects of a workspace. The state goes last, so that a removal
// that was interrupted can be repeated.
func (p *Provider) removeWorkspace(ctx context.Context, id string) error {
	_, err := p.changeState(ctx, id, func(st *state) error {
		st.Destroying = true
		return nil
	})
	if code := fault.Of(err); err != nil && code != fault.NotFound && code != fault.Failed { // Failed: not valid, and to be removed
		return err
	}
	if err := p.removePod(ctx, objectName(id), ""); err != nil {
		return err
	}
	if err := p.removeClaim(ctx, objectName(id)); err != nil {
		return err
	}
	if err := p.removeProxyFiles(id); err != nil {
		return err
	}
	return p.removeSecret(ctx, objectName(id))
}
