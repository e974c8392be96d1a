package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/keylock"
	"github.com/croft-run/croft/workspace/driver"
)

// Metadata is what is remembered about a workspace: what was staged into it,
// collected from it, and prepared in it.
type Metadata struct {
	Version    int                       `json:"version"`
	CreatedAt  time.Time                 `json:"created_at"`
	UpdatedAt  time.Time                 `json:"updated_at"`
	LastAccess time.Time                 `json:"last_access"`
	Skills     map[string]SkillMeta      `json:"skills"`
	Inputs     []InputRecord             `json:"inputs,omitempty"`
	Outputs    []OutputRecord            `json:"outputs,omitempty"`
	Prepared   map[string]PreparedRecord `json:"prepared,omitempty"`

	// Pending is the journal of a transaction: what it has put aside.
	Pending []Aside `json:"pending,omitempty"`

	// Copied is set where metadata.json in the workspace is our copy, and not a
	// file of somebody else's.
	Copied bool `json:"copied,omitempty"`
}

// metadataVersion is the version of the form of Metadata.
const metadataVersion = 1

// SkillMeta describes a staged skill.
type SkillMeta struct {
	Name     string    `json:"name"`
	RelPath  string    `json:"rel_path"`
	Digest   string    `json:"digest"`
	Mounted  bool      `json:"mounted"`
	StagedAt time.Time `json:"staged_at"`
}

// An InputRecord tells how an input was staged.
type InputRecord struct {
	From      string    `json:"from"`
	To        string    `json:"to"`
	Resolved  string    `json:"resolved,omitempty"`
	Version   *int      `json:"version,omitempty"`
	Mode      string    `json:"mode,omitempty"` // that was used
	Timestamp time.Time `json:"ts"`
}

// An OutputRecord tells of one collection.
type OutputRecord struct {
	Globs     []string  `json:"globs"`
	SavedAs   []string  `json:"saved_as,omitempty"`
	Versions  []int     `json:"versions,omitempty"`
	LimitsHit bool      `json:"limits_hit"`
	Timestamp time.Time `json:"ts"`
}

// A PreparedRecord tells what package bootstrap brought about.
type PreparedRecord struct {
	Key         string    `json:"key"`
	Kind        string    `json:"kind"`
	Fingerprint string    `json:"fingerprint"`
	Target      string    `json:"target,omitempty"`
	PreparedAt  time.Time `json:"prepared_at"`

	// Seen is how what was made looked, so that it need not be read again while
	// it looks the same.
	Seen string `json:"seen,omitempty"`

	// Source is how the source looked, likewise, and Digest of what it was then.
	Source string `json:"source,omitempty"`
	Digest string `json:"digest,omitempty"`

	// Made lists what was made, where that is more than Target, in a form of
	// package bootstrap.
	Made string `json:"made,omitempty"`

	// Warning is why an optional entry could not be prepared.
	Warning string `json:"warning,omitempty"`
}

// An Aside is a path that a transaction uses beside a target.
type Aside struct {
	Path   string `json:"path"`
	Target string `json:"target"`
	Old    bool   `json:"old,omitempty"`  // it is what was at Target
	Done   bool   `json:"done,omitempty"` // what replaced it is recorded, so it is to go
}

// A State remembers the metadata of workspaces, by their ids, outside of them.
type State interface {
	// Lock waits until nobody else, in this process or in another, holds the
	// workspace.
	Lock(ctx context.Context, id string) (unlock func(), err error)

	// Load returns the metadata of a workspace, nil where there is none.
	Load(ctx context.Context, id string) (*Metadata, error)

	// Save keeps the metadata, but for Outputs, once Record was called. What it
	// acknowledged survives a crash as far as the state survives one at all.
	Save(ctx context.Context, id string, m *Metadata) error

	// Record adds a collection to Outputs, of which it keeps the last so many. It is
	// apart from Save so that it needs no lock: who collects waits for nobody.
	Record(ctx context.Context, id string, rec OutputRecord, keep int) error

	// Delete forgets a workspace.
	Delete(ctx context.Context, id string) error
}

// MemoryState is a State that lives as long as the process. It is safe for
// concurrent use.
type MemoryState struct {
	locks keylock.Locks[string]
	mu    sync.Mutex
	known map[string][]byte         // guarded by mu
	outs  map[string][]OutputRecord // guarded by mu
}

// NewMemoryState returns an empty state.
func NewMemoryState() *MemoryState {
	return &MemoryState{known: map[string][]byte{}, outs: map[string][]OutputRecord{}}
}

// Lock waits until no other call holds the workspace.
func (s *MemoryState) Lock(ctx context.Context, id string) (func(), error) {
	unlock, err := s.locks.Lock(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("stage: wait for workspace %s: %w: %w", id, ctx.Err(), err)
	}
	return unlock, nil
}

// Load returns the metadata of a workspace.
func (s *MemoryState) Load(_ context.Context, id string) (*Metadata, error) {
	s.mu.Lock()
	data, ok := s.known[id]
	outs := slices.Clone(s.outs[id])
	s.mu.Unlock()
	if !ok {
		return withOutputs(nil, outs), nil
	}
	m, err := decodeMetadata(data)
	if err != nil {
		return nil, err
	}
	return withOutputs(m, outs), nil
}

// withOutputs returns metadata with the collections that were recorded; nil for
// neither.
func withOutputs(m *Metadata, outs []OutputRecord) *Metadata {
	if len(outs) == 0 {
		return m
	}
	if m == nil {
		at := outs[0].Timestamp
		m = &Metadata{Version: metadataVersion, CreatedAt: at, UpdatedAt: at, LastAccess: at}
	}
	m.Outputs = outs
	if at := outs[len(outs)-1].Timestamp; at.After(m.UpdatedAt) {
		m.UpdatedAt, m.LastAccess = at, at
	}
	return m
}

// Record adds a collection.
func (s *MemoryState) Record(_ context.Context, id string, rec OutputRecord, keep int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outs[id] = last(append(s.outs[id], rec), keep)
	return nil
}

// Save keeps the metadata of a workspace.
func (s *MemoryState) Save(_ context.Context, id string, m *Metadata) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("stage: encode metadata: %w: %w", fault.Internal, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[id] = data
	return nil
}

// Delete forgets a workspace.
func (s *MemoryState) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
	delete(s.outs, id)
	return nil
}

// decodeMetadata reads metadata. What can't be read is an error, never taken for
// nothing: to forget what was prepared is to do it again.
func decodeMetadata(data []byte) (*Metadata, error) {
	m := new(Metadata)
	if err := driver.DecodeStrict(data, m); err != nil {
		return nil, fmt.Errorf("metadata: %w: %v", fault.Failed, err) //nolint:errorlint // it is not the caller's argument that is invalid
	}
	if m.Version != metadataVersion {
		return nil, fmt.Errorf("metadata: version %d: %w: this program reads version %d", m.Version, fault.Failed, metadataVersion)
	}
	return m, nil
}

// Metadata returns what is remembered about the workspace.
func (s *Stage) Metadata(ctx context.Context) (Metadata, error) {
	m, err := s.load(ctx)
	if err != nil {
		return Metadata{}, err
	}
	return *m, nil
}

func (s *Stage) load(ctx context.Context) (*Metadata, error) {
	m, err := s.opts.State.Load(ctx, s.ws.ID())
	if err != nil {
		return nil, err
	}
	if m == nil {
		now := s.opts.Now().UTC()
		m = &Metadata{Version: metadataVersion, CreatedAt: now, UpdatedAt: now, LastAccess: now}
	}
	if m.Skills == nil {
		m.Skills = map[string]SkillMeta{}
	}
	if m.Prepared == nil {
		m.Prepared = map[string]PreparedRecord{}
	}
	return m, nil
}

// A Session is a hold on the memory of a workspace: nobody else changes it
// meanwhile, in this process or in another.
type Session struct {
	*Metadata
	s      *Stage
	unlock func()
}

// Begin waits for the memory of the workspace, and puts right what a call that was
// cut short left. End must follow.
func (s *Stage) Begin(ctx context.Context) (*Session, error) {
	unlock, err := s.opts.State.Lock(ctx, s.ws.ID())
	if err != nil {
		return nil, err
	}
	return s.resume(ctx, unlock)
}

// resume is Begin, after the wait.
func (s *Stage) resume(ctx context.Context, unlock func()) (*Session, error) {
	m, err := s.load(ctx)
	if err != nil {
		unlock()
		return nil, err
	}
	h := &Session{Metadata: m, s: s, unlock: unlock}
	if err := h.recover(ctx); err != nil {
		unlock()
		return nil, fmt.Errorf("stage: roll back what was cut short: %w", err)
	}
	return h, nil
}

// End lets go.
func (h *Session) End() { h.unlock() }

// Save keeps what was changed, and copies it into the workspace.
func (h *Session) Save(ctx context.Context) error {
	now := h.s.opts.Now().UTC()
	h.UpdatedAt, h.LastAccess = now, now
	keep := h.s.opts.History
	h.Inputs = last(h.Inputs, keep)
	h.Outputs = last(h.Outputs, keep)
	h.claimCopy(ctx)
	if err := h.s.opts.State.Save(ctx, h.s.ws.ID(), h.Metadata); err != nil {
		return err
	}
	h.copyInside(ctx)
	return nil
}

func last[T any](list []T, n int) []T {
	if len(list) > n {
		return append([]T(nil), list[len(list)-n:]...)
	}
	return list
}

// claimCopy takes the name of the copy for us, where nothing is there.
func (h *Session) claimCopy(ctx context.Context) {
	if h.Copied || len(h.Pending) > 0 || h.s.opts.NoCopy {
		return
	}
	_, err := h.s.ws.Stat(ctx, MetaFile, &driver.StatOptions{NoFollow: true})
	h.Copied = errors.Is(err, fault.NotFound)
}

// copyInside writes the copy that programs may read. Nothing depends on it, so
// what goes wrong is only told.
func (h *Session) copyInside(ctx context.Context) {
	if len(h.Pending) > 0 || h.s.opts.NoCopy || !h.Copied {
		return
	}
	shown := *h.Metadata
	if now, err := h.s.opts.State.Load(ctx, h.s.ws.ID()); err == nil && now != nil {
		shown.Outputs = now.Outputs // of those who collected meanwhile
	}
	shown.Prepared = maps.Clone(shown.Prepared)
	for key, rec := range shown.Prepared {
		rec.Made = "" // which nobody reads
		shown.Prepared[key] = rec
	}
	data, err := json.MarshalIndent(shown, "", "  ")
	if err == nil {
		err = h.s.replaceFile(ctx, MetaFile, append(data, '\n'))
	}
	if err != nil {
		h.s.opts.Log.Warn("stage: copy the metadata into the workspace", "workspace", h.s.ws.ID(), "error", err)
	}
}

// replaceFile writes a file of Croft's own, also where a program has put
// something else in its place.
func (s *Stage) replaceFile(ctx context.Context, name string, data []byte) error {
	info, err := s.ws.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
	if err == nil && info.Type != driver.TypeFile {
		if err := s.removeAll(ctx, name); err != nil {
			return err
		}
	}
	_, err = s.ws.WriteFile(ctx, name, data, &driver.WriteOptions{Mode: 0o644})
	return err
}
