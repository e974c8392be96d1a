package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// All calls of the API server are in this file and in stream.go; see Role.

// namePrefix begins the names of all objects.
const namePrefix = "croft-"

// objectName returns the name of the objects of a workspace.
func objectName(id string) string { return namePrefix + id }

// apiError gives an error of the API server a code.
func apiError(what string, err error) error {
	if err == nil {
		return nil
	}
	code := fault.Unavailable // also errors of the connection
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("kubernetes: %s: %w", what, err)
	case apierrors.IsNotFound(err):
		code = fault.NotFound
	case apierrors.IsAlreadyExists(err):
		code = fault.AlreadyExists
	case apierrors.IsConflict(err):
		code = fault.Conflict
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		code = fault.ResourceExhausted
	case apierrors.IsForbidden(err):
		code = fault.PermissionDenied
	case apierrors.IsUnauthorized(err):
		code = fault.Unauthenticated
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		code = fault.InvalidArgument
	}
	return fmt.Errorf("kubernetes: %s: %w: %w", what, code, err)
}

// call makes one call of the API server, within Config.AnswerTimeout.
func call[T any](ctx context.Context, p *Provider, what string, do func(ctx context.Context) (T, error)) (T, error) {
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	got, err := do(soon)
	if err != nil && ctx.Err() == nil && soon.Err() != nil {
		return got, fmt.Errorf("kubernetes: %s: %w: the API server does not answer in time", what, fault.Unavailable)
	}
	return got, apiError(what, err)
}

// ownLabels returns the labels of the objects of a workspace.
func (p *Provider) ownLabels(id string) map[string]string {
	return map[string]string{LabelManager: "croft", LabelInstance: p.cfg.Instance, LabelWorkspace: id}
}

// isOwn reports whether an object is of this instance and has the name that belongs to its
// labels.
func (p *Provider) isOwn(o metav1.Object) bool {
	l := o.GetLabels()
	if l[LabelManager] != "croft" || l[LabelInstance] != p.cfg.Instance {
		return false
	}
	id := l[LabelWorkspace]
	if id == probeID {
		return strings.HasPrefix(o.GetName(), namePrefix+probeID+"-")
	}
	return driver.ValidID(id) && o.GetName() == objectName(id)
}

// instanceSelector selects all objects of this instance.
func (p *Provider) instanceSelector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{LabelManager: "croft", LabelInstance: p.cfg.Instance}).String()}
}

func (p *Provider) getSecret(ctx context.Context, id string) (*corev1.Secret, error) {
	return call(ctx, p, "read the state", func(ctx context.Context) (*corev1.Secret, error) {
		return p.api.Secrets(p.cfg.Namespace).Get(ctx, objectName(id), metav1.GetOptions{})
	})
}

func (p *Provider) createSecret(ctx context.Context, s *corev1.Secret) (*corev1.Secret, error) {
	return call(ctx, p, "create the state", func(ctx context.Context) (*corev1.Secret, error) {
		return p.api.Secrets(p.cfg.Namespace).Create(ctx, s, metav1.CreateOptions{})
	})
}

func (p *Provider) updateSecret(ctx context.Context, s *corev1.Secret) (*corev1.Secret, error) {
	return call(ctx, p, "change the state", func(ctx context.Context) (*corev1.Secret, error) {
		return p.api.Secrets(p.cfg.Namespace).Update(ctx, s, metav1.UpdateOptions{})
	})
}

func (p *Provider) listSecrets(ctx context.Context) ([]corev1.Secret, error) {
	list, err := call(ctx, p, "list states", func(ctx context.Context) (*corev1.SecretList, error) {
		return p.api.Secrets(p.cfg.Namespace).List(ctx, p.instanceSelector())
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (p *Provider) getClaim(ctx context.Context, id string) (*corev1.PersistentVolumeClaim, error) {
	return call(ctx, p, "read the claim", func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return p.api.PersistentVolumeClaims(p.cfg.Namespace).Get(ctx, objectName(id), metav1.GetOptions{})
	})
}

func (p *Provider) createClaim(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	_, err := call(ctx, p, "create the claim", func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return p.api.PersistentVolumeClaims(p.cfg.Namespace).Create(ctx, c, metav1.CreateOptions{})
	})
	return err
}

func (p *Provider) listClaims(ctx context.Context) ([]corev1.PersistentVolumeClaim, error) {
	list, err := call(ctx, p, "list claims", func(ctx context.Context) (*corev1.PersistentVolumeClaimList, error) {
		return p.api.PersistentVolumeClaims(p.cfg.Namespace).List(ctx, p.instanceSelector())
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (p *Provider) getPod(ctx context.Context, name string) (*corev1.Pod, error) {
	return call(ctx, p, "read the pod", func(ctx context.Context) (*corev1.Pod, error) {
		return p.api.Pods(p.cfg.Namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

func (p *Provider) createPod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return call(ctx, p, "create the pod", func(ctx context.Context) (*corev1.Pod, error) {
		return p.api.Pods(p.cfg.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	})
}

func (p *Provider) listPods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := call(ctx, p, "list pods", func(ctx context.Context) (*corev1.PodList, error) {
		return p.api.Pods(p.cfg.Namespace).List(ctx, p.instanceSelector())
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// awaitPod calls done with each state of a pod, beginning with the present one, until done
// returns true or an error. done gets nil for a pod that does not exist.
func (p *Provider) awaitPod(ctx context.Context, name string, done func(*corev1.Pod) (bool, error)) error {
	for {
		pod, err := p.getPod(ctx, name)
		if err != nil && fault.Of(err) != fault.NotFound {
			return err
		}
		version := ""
		if err != nil {
			pod = nil
		} else {
			version = pod.ResourceVersion
		}
		if ok, err := done(pod); ok || err != nil {
			return err
		}
		if pod == nil { // nothing to watch from
			if err := sleepContext(ctx, watchPause); err != nil {
				return err
			}
			continue
		}
		if ok, err := p.watchPod(ctx, name, version, done); ok || err != nil {
			return err
		}
	}
}

// watchPause is the pause after a watch that ended without an event, such as one that the API
// server refused.
const watchPause = 100 * time.Millisecond

// watchPod watches a pod until done returns true or an error, or the watch ends.
func (p *Provider) watchPod(ctx context.Context, name, version string, done func(*corev1.Pod) (bool, error)) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := p.api.Pods(p.cfg.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: version,
	})
	if err != nil {
		if err := sleepContext(ctx, watchPause); err != nil {
			return false, err
		}
		return false, nil
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("kubernetes: wait for the pod: %w", ctx.Err())
		case e, open := <-w.ResultChan():
			pod, ok := e.Object.(*corev1.Pod)
			if !open || !ok { // it ended, or reports an error: the caller reads the pod again
				return false, sleepContext(ctx, watchPause)
			}
			if e.Type == "DELETED" {
				pod = nil
			}
			if ok, err := done(pod); ok || err != nil {
				return ok, err
			}
			if pod == nil {
				return false, nil
			}
		}
	}
}

func sleepContext(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("kubernetes: %w", ctx.Err())
	case <-time.After(d):
		return nil
	}
}

// endGrace is how long the kubelet waits between SIGTERM, which a guest ignores, and SIGKILL.
const endGrace = int64(1)

// removePod deletes a pod, and waits until it is gone: until the kubelet has ended its
// processes, which must not write to the volume any more. uid, unless empty, is the pod that is
// meant: another one of the same name stays.
func (p *Provider) removePod(ctx context.Context, name string, uid types.UID) error {
	grace := endGrace
	opts := metav1.DeleteOptions{GracePeriodSeconds: &grace}
	if uid != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	_, err := call(ctx, p, "delete the pod", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.api.Pods(p.cfg.Namespace).Delete(ctx, name, opts)
	})
	if code := fault.Of(err); code == fault.NotFound || code == fault.Conflict && uid != "" { // Conflict: it is another pod
		return nil
	}
	if err != nil {
		return err
	}
	driver.Step(ctx, "pod deleted")
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	node := ""
	err = p.awaitPod(soon, name, func(pod *corev1.Pod) (bool, error) {
		if pod == nil || uid != "" && pod.UID != uid {
			return true, nil
		}
		node, uid = pod.Spec.NodeName, pod.UID
		return false, nil
	})
	if soon.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("kubernetes: delete the pod %s: %w: the node %s does not end it", name, fault.Unavailable, node)
	}
	return err
}

// removeClaim deletes the claim of a workspace, and waits until it is gone.
func (p *Provider) removeClaim(ctx context.Context, name string) error {
	_, err := call(ctx, p, "delete the claim", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.api.PersistentVolumeClaims(p.cfg.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
	if fault.Of(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	driver.Step(ctx, "claim deleted")
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	defer cancel()
	for {
		_, err := call(soon, p, "read the claim", func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
			return p.api.PersistentVolumeClaims(p.cfg.Namespace).Get(ctx, name, metav1.GetOptions{})
		})
		if fault.Of(err) == fault.NotFound {
			return nil
		}
		if err == nil {
			err = sleepContext(soon, watchPause/2)
		}
		switch {
		case err == nil:
		case soon.Err() != nil && ctx.Err() == nil:
			return fmt.Errorf("kubernetes: delete the claim %s: %w: it is still in use", name, fault.Unavailable)
		default:
			return err
		}
	}
}

// removeSecret deletes the state of a workspace, the last of its objects.
func (p *Provider) removeSecret(ctx context.Context, name string) error {
	_, err := call(ctx, p, "delete the state", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.api.Secrets(p.cfg.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
	if fault.Of(err) == fault.NotFound {
		return nil
	}
	if err == nil {
		driver.Step(ctx, "state deleted")
	}
	return err
}
