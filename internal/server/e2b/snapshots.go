package e2b

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// snapshotAnswer is a snapshot of a sandbox.
type snapshotAnswer struct {
	SnapshotID string   `json:"snapshotID"`
	Names      []string `json:"names"`
}

// createSnapshot stores the files of a sandbox. A snapshot is a template: sandboxes are
// created from its id or name.
func (s *Server) createSnapshot(r *http.Request) (answer, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	name, tag := splitTag(in.Name)
	if in.Name != "" {
		if err := checkName("snapshot", name); err != nil {
			return answer{}, err
		}
		if err := checkName("tag", tag); err != nil {
			return answer{}, err
		}
	}
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	// A snapshot with a name is kept until it is deleted.
	info, err := s.snapshotOf(r.Context(), box, &driver.SnapshotOptions{
		Name: "e2b-" + newBuildID(), Labels: map[string]string{snapshot.CauseLabel: "e2b"}, Complete: true,
	})
	if err != nil {
		return answer{}, err
	}
	now := time.Now().UTC()
	b := &build{
		ID: newBuildID(), Status: ready, Created: now, Updated: now, Finished: now,
		result: result{Snapshot: info.ID, Env: box.Spec.Policy.Env, Workdir: box.Workdir, StartCmd: box.StartCmd, ReadyCmd: box.ReadyCmd},
	}
	one, err := s.storeSnapshot(r.Context(), box, name, tag, b)
	if err != nil {
		ctx, cancel := cleanup(r.Context())
		defer cancel()
		s.deleteBuild(ctx, name, b) // nothing names it
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: one, target: one.SnapshotID}, nil
}

// storeSnapshot stores a snapshot of a sandbox under a name, or without one if it is "".
func (s *Server) storeSnapshot(ctx context.Context, box sandbox, name, tag string, b *build) (snapshotAnswer, error) {
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	var one *storedTemplate
	if name != "" {
		one = s.templates.locate(ctx, name)
	}
	if one != nil && one.Tenant == box.Tenant && one.Sandbox == "" {
		return snapshotAnswer{}, fmt.Errorf("snapshot %s: %w: a template has this name", name, fault.AlreadyExists)
	}
	if one == nil || one.Tenant != box.Tenant {
		one = &storedTemplate{ID: driver.NewID(), Tenant: box.Tenant, Name: name, Created: b.Created}
	} else { // the present one stays if it can't be stored
		next := *one
		next.Builds, next.Tags = slices.Clone(one.Builds), maps.Clone(one.Tags)
		one = &next
	}
	if err := s.makeRoom(ctx, one); err != nil {
		return snapshotAnswer{}, err
	}
	one.Sandbox = box.ID
	one.Builds = append(one.Builds, b)
	one.setTags(b.ID, []string{tag})
	return snapshotAnswer{one.ID, one.names()}, s.templates.save(one)
}

func (s *Server) listSnapshots(r *http.Request) (answer, error) {
	query := r.URL.Query()
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	var list []*storedTemplate
	for _, one := range s.templates.visible(r.Context(), true) {
		name, _ := splitTag(query.Get("name"))
		if of := query.Get("sandboxID"); (of == "" || of == one.Sandbox) && (name == "" || name == one.Name) {
			list = append(list, one)
		}
	}
	page, next, err := pageOf(query, list, false, func(one *storedTemplate) string { return one.ID })
	if err != nil {
		return answer{}, err
	}
	out := []snapshotAnswer{}
	for _, one := range page {
		out = append(out, snapshotAnswer{one.ID, one.names()})
	}
	return answer{body: out, next: next}, nil
}
