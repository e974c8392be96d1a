package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/answer"
	"github.com/croft-run/croft/internal/keylock"
	"github.com/croft-run/croft/workspace/driver"
)

// The metadata of a workspace, as package client has it too.
//
//nolint:revive // one comment for all
type (
	Metadata       = answer.Metadata
	SkillMeta      = answer.SkillMeta
	InputRecord    = answer.InputRecord
	OutputRecord   = answer.OutputRecord
	PreparedRecord = answer.PreparedRecord
	TempPath       = answer.TempPath
)

// metadataVersion is the version of the format of Metadata.
const metadataVersion = 1

// A State stores the metadata of workspaces by their ids, outside the workspaces.
type State interface {
	// Lock takes the lock of the workspace, across goroutines and processes.
	Lock(ctx context.Context, id string) (unlock func(), err error)

	// Load returns the metadata of a workspace, or nil.
	Load(ctx context.Context, id string) (*Metadata, error)

	// Save stores the metadata, without Outputs once Record was called. It is as
	// durable as the state itself.
	Save(ctx context.Context, id string, m *Metadata) error

	// Record adds a collection to Outputs and keeps the last keep records. It needs
	// no lock, so that collecting never waits for a call that prepares the workspace.
	Record(ctx context.Context, id string, rec OutputRecord, keep int) error

	// Delete removes the metadata of a workspace.
	Delete(ctx context.Context, id string) error
}

// MemoryState is a State in memory. It is safe for concurrent use.
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

// Lock takes the lock of the workspace.
func (s *MemoryState) Lock(ctx context.Context, id string) (func(), error) {
	unlock, err := s.locks.Lock(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("stage: lock workspace %s: %w: %w", id, ctx.Err(), err)
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

// withOutputs returns metadata with the recorded collections; nil if there is
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
	s.outs[id] = lastN(append(s.outs[id], rec), keep)
	return nil
}

// Save stores the metadata of a workspace.
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

// Delete removes the metadata of a workspace.
func (s *MemoryState) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
	delete(s.outs, id)
	return nil
}

// decodeMetadata decodes metadata. Invalid data is an error and never treated as
// absent, because then everything would be prepared again.
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

// Metadata returns the metadata of the workspace.
func (s *Stage) Metadata(ctx context.Context) (Metadata, error) {
	m, err := s.loadMetadata(ctx)
	if err != nil {
		return Metadata{}, err
	}
	return *m, nil
}

func (s *Stage) loadMetadata(ctx context.Context) (*Metadata, error) {
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

// A Session holds the lock of a workspace's metadata: no other goroutine or process
// changes it meanwhile.
type Session struct {
	*Metadata
	s      *Stage
	unlock func()
}

// Begin takes the lock of the workspace's metadata, and rolls back an interrupted
// transaction. The caller must call End.
func (s *Stage) Begin(ctx context.Context) (*Session, error) {
	unlock, err := s.opts.State.Lock(ctx, s.ws.ID())
	if err != nil {
		return nil, err
	}
	return s.beginLocked(ctx, unlock)
}

// beginLocked continues Begin after the lock is taken.
func (s *Stage) beginLocked(ctx context.Context, unlock func()) (*Session, error) {
	m, err := s.loadMetadata(ctx)
	if err != nil {
		unlock()
		return nil, err
	}
	h := &Session{Metadata: m, s: s, unlock: unlock}
	if err := h.rollbackJournal(ctx); err != nil {
		unlock()
		return nil, fmt.Errorf("stage: roll back an interrupted transaction: %w", err)
	}
	return h, nil
}

// End releases the lock.
func (h *Session) End() { h.unlock() }

// Save stores the changed metadata, and copies it into the workspace.
func (h *Session) Save(ctx context.Context) error {
	now := h.s.opts.Now().UTC()
	h.UpdatedAt, h.LastAccess = now, now
	keep := h.s.opts.History
	h.Inputs = lastN(h.Inputs, keep)
	h.Outputs = lastN(h.Outputs, keep)
	h.claimCopy(ctx)
	if err := h.s.opts.State.Save(ctx, h.s.ws.ID(), h.Metadata); err != nil {
		return err
	}
	h.copyInside(ctx)
	return nil
}

func lastN[T any](list []T, n int) []T {
	if len(list) > n {
		return append([]T(nil), list[len(list)-n:]...)
	}
	return list
}

// claimCopy reserves the name of the copy if no file exists there.
func (h *Session) claimCopy(ctx context.Context) {
	if h.Copied || len(h.Pending) > 0 || h.s.opts.NoCopy {
		return
	}
	_, err := h.s.ws.Stat(ctx, MetaFile, &driver.StatOptions{NoFollow: true})
	h.Copied = errors.Is(err, fault.NotFound)
}

// copyInside writes the copy that programs may read. Nothing depends on the copy, so
// an error is only logged.
func (h *Session) copyInside(ctx context.Context) {
	if len(h.Pending) > 0 || h.s.opts.NoCopy || !h.Copied {
		return
	}
	shown := *h.Metadata
	if now, err := h.s.opts.State.Load(ctx, h.s.ws.ID()); err == nil && now != nil {
		shown.Outputs = now.Outputs // collections that ran meanwhile
	}
	shown.Prepared = maps.Clone(shown.Prepared)
	for key, rec := range shown.Prepared {
		rec.Made = "" // internal format
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

// replaceFile writes a file of Croft, also if a program has replaced it by another
// type of entry.
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
