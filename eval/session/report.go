// Package session defines the report of one session of an agent: the prompt,
// the messages, the tools, commands, files and skills that it used, and the
// tokens.
//
// A [Report] has the same form for every agent; package agent makes one from the
// streams and files that each program leaves behind. Its JSON is the session
// report of skillgym, field by field, so that assertions and programs written for
// that read Croft's: what is not known is left out, and lists are never null. What
// Croft knows besides (files changed, commands with their exit codes, requests to
// the outside, cost, memory) are further fields of the same document, left out
// where they are empty.
//
// Numbers are float64, because a report of several sessions has means in it.
package session

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// A Report describes one session.
type Report struct {
	Runner         Runner          `json:"runner"`
	SessionID      string          `json:"sessionId,omitempty"`
	Prompt         string          `json:"prompt"`
	Usage          Usage           `json:"usage"`
	Files          Files           `json:"files"`
	DetectedSkills []DetectedSkill `json:"detectedSkills"`
	Events         []Event         `json:"events"`
	FinalOutput    string          `json:"finalOutput"`
	StartedAt      string          `json:"startedAt,omitempty"` // as Time writes it
	EndedAt        string          `json:"endedAt,omitempty"`
	DurationMs     *float64        `json:"durationMs,omitempty"`
	RawArtifacts   RawArtifacts    `json:"rawArtifacts"`

	// What Croft adds.
	Commands        []Command `json:"commands,omitempty"`        // with their results, in the order of their start
	Network         []Request `json:"network,omitempty"`         // network requests, in the order of their end
	Steps           int       `json:"steps,omitempty"`           // rounds with the model, as maxSteps counts them
	Cost            *Cost     `json:"cost,omitempty"`            // nil if it is not known
	LeftOut         int       `json:"eventsLeftOut,omitempty"`   // number of events after Events that are only in the log of the agent
	PeakMemoryBytes int64     `json:"peakMemoryBytes,omitempty"` // of the agent and its children; 0 is not known
}

// A Runner is an agent with a model, under its configured id.
type Runner struct {
	ID      string `json:"id"`
	PathKey string `json:"pathKey"` // the id as part of a path
	Agent   Agent  `json:"agent"`
}

// An Agent is a kind of program and the model that it works with.
type Agent struct {
	Type  string `json:"type"`
	Model string `json:"model"`
}

// NewRunner returns the runner with the given id.
func NewRunner(id string, agent Agent) Runner {
	return Runner{ID: id, PathKey: PathKey(id), Agent: agent}
}

var noSlug = lazyregexp.New(`[^a-z0-9]+`)

// PathKey returns an id as part of a path: readable, and distinct for different ids.
func PathKey(id string) string {
	slug := strings.Trim(noSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(id)), "-"), "-")
	if slug == "" {
		slug = "runner"
	}
	const most = 200 // with the digest it is a name that a file system takes
	slug = slug[:min(len(slug), most)]
	sum := sha256.Sum256([]byte(id))
	return slug + "--" + hex.EncodeToString(sum[:4])
}

// Usage is the use of the model. An unknown count is nil.
type Usage struct {
	InputTokens     *float64    `json:"inputTokens,omitempty"` // including tokens read from a cache
	OutputTokens    *float64    `json:"outputTokens,omitempty"`
	ReasoningTokens *float64    `json:"reasoningTokens,omitempty"`
	CacheTokens     *float64    `json:"cacheTokens,omitempty"` // input that was read from a cache
	TotalTokens     *float64    `json:"totalTokens,omitempty"` // billable: input + output + reasoning - cache
	InputChars      int         `json:"inputChars"`            // UTF-16 units, as JavaScript counts
	OutputChars     int         `json:"outputChars"`
	ReasoningChars  int         `json:"reasoningChars"`
	Source          UsageSource `json:"source"`
}

// UsageSource says where the numbers come from.
type UsageSource struct {
	Input     Source `json:"input"`
	Output    Source `json:"output"`
	Reasoning Source `json:"reasoning"`
}

// Source says where a number comes from.
type Source string

// Sources of numbers.
const (
	Provider Source = "provider" // tokens, counted by the provider of the model
	Chars    Source = "chars"    // only the characters are known
)

// Files are the files of a session.
type Files struct {
	ObservedReads      []string `json:"observedReads"` // absolute paths
	ObservedSkillReads []string `json:"observedSkillReads"`
	Changed            []Change `json:"changed,omitzero"` // files that the session changed, by path; nil is not known
}

// A Change is one file that the session changed.
type Change struct {
	Path    string     `json:"path"` // slash path in the workspace
	Kind    ChangeKind `json:"kind"`
	Added   int        `json:"added"`   // lines
	Removed int        `json:"removed"` // lines
	Binary  bool       `json:"binary,omitempty"`
}

// ChangeKind says how a file differs.
type ChangeKind string

// Kinds of changes.
const (
	Added    ChangeKind = "added"
	Modified ChangeKind = "modified"
	Removed  ChangeKind = "removed"
)

// A DetectedSkill is a skill that the agent used, with the evidence.
type DetectedSkill struct {
	Skill      string     `json:"skill"`
	Confidence Confidence `json:"confidence"`
	Evidence   []string   `json:"evidence"`
}

// Confidence is the certainty of a detection.
type Confidence string

// Confidences, from certain to weak.
const (
	Explicit Confidence = "explicit" // loaded with a tool for skills
	Strong   Confidence = "strong"   // its SKILL.md was read
	Medium   Confidence = "medium"
	Weak     Confidence = "weak"
)

// A Command is a command that the agent ran, with its result as far as the agent reports
// it.
type Command struct {
	Command    string   `json:"command"`
	Dir        string   `json:"dir,omitempty"`
	ExitCode   *int     `json:"exitCode,omitempty"` // nil is not known
	DurationMs *float64 `json:"durationMs,omitempty"`
	At         string   `json:"at,omitempty"`
}

// A Request is a network request and its verdict.
type Request struct {
	Host     string `json:"host"`
	Port     int    `json:"port,omitempty"`
	Method   string `json:"method,omitempty"`
	Verdict  string `json:"verdict"` // allow or deny
	Reason   string `json:"reason,omitempty"`
	Status   int    `json:"status,omitempty"`
	BytesIn  int64  `json:"bytesIn"`  // to the workspace
	BytesOut int64  `json:"bytesOut"` // from it
	At       string `json:"at,omitempty"`
}

// A Cost is the cost of the session, as the agent reports it.
type Cost struct {
	USD float64 `json:"usd"`
}

// RawArtifacts are the files that the report was made from.
type RawArtifacts struct {
	StdoutPath    string `json:"stdoutPath,omitempty"`
	StderrPath    string `json:"stderrPath,omitempty"`
	SessionPath   string `json:"sessionPath,omitempty"`
	ExportPath    string `json:"exportPath,omitempty"`
	TelemetryPath string `json:"telemetryPath,omitempty"`

	// Bytes beyond the size limit of a log, which neither the log nor the report has.
	StdoutDropped int64 `json:"stdoutDropped,omitempty"`
	StderrDropped int64 `json:"stderrDropped,omitempty"`
}

// Empty returns the report of a session with only the prompt.
func Empty(runner Runner, prompt string) *Report {
	return &Report{
		Runner: runner, Prompt: prompt,
		Usage: Usage{InputChars: Length(prompt), Source: UsageSource{Input: Chars, Output: Chars, Reasoning: Chars}},
		Files: Files{ObservedReads: []string{}, ObservedSkillReads: []string{}}, DetectedSkills: []DetectedSkill{}, Events: []Event{},
	}
}

// Time writes a time as reports do: UTC, with milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Millis writes a duration as reports do: whole milliseconds.
func Millis(d time.Duration) *float64 { return new(float64(d.Milliseconds())) }

// Length returns the length of a text in UTF-16 units, as JavaScript counts.
func Length(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
