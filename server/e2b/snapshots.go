package e2b

import (
	"fmt"
	"net/http"
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
	s.templates.mu.Lock()
	defer s.templates.mu.Unlock()
	var one *storedTemplate
	if in.Name != "" {
		one = s.templates.locate(r.Context(), name)
	}
	if one != nil && one.Tenant == box.Tenant && one.Sandbox == "" {
		return answer{}, fmt.Errorf("snapshot %s: %w: a template has this name", name, fault.AlreadyExists)
	}
	if one == nil || one.Tenant != box.Tenant {
		one = &storedTemplate{ID: driver.NewID(), Tenant: box.Tenant, Name: name, Created: now}
	}
	if err := s.makeRoom(r.Context(), one); err != nil {
		return answer{}, err
	}
	one.Sandbox = box.ID
	one.Builds = append(one.Builds, b)
	one.setTags(b.ID, []string{tag})
	if err := s.templates.save(one); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusCreated, body: snapshotAnswer{one.ID, one.names()}}, nil
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
