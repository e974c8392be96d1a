// Package session is what is known about one session of an agent: what it was
// asked, what it said, which tools, commands, files and skills it used, and what
// that took.
//
// A [Report] is the same whoever the agent was; package agent makes one from the
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
	"regexp"
	"strings"
	"time"
	"unicode/utf16"
)

// A Report tells what happened in one session.
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
	Commands        []Command `json:"commands,omitempty"`        // with how they ended, in the order in which they began
	Network         []Request `json:"network,omitempty"`         // to the outside, in the order in which they ended
	Steps           int       `json:"steps,omitempty"`           // rounds with the model, as maxSteps counts them
	Cost            *Cost     `json:"cost,omitempty"`            // nil where it is not known
	LeftOut         int       `json:"eventsLeftOut,omitempty"`   // events that are only in the log of the agent, after those that are in Events
	PeakMemoryBytes int64     `json:"peakMemoryBytes,omitempty"` // of the agent and all that it started; 0 is not known
}

// A Runner is an agent with a model, under the name that a configuration gives
// them.
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

var noSlug = regexp.MustCompile(`[^a-z0-9]+`)

// PathKey returns an id as part of a path: readable, and different for different
// ids.
func PathKey(id string) string {
	slug := strings.Trim(noSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(id)), "-"), "-")
	if slug == "" {
		slug = "runner"
	}
	sum := sha256.Sum256([]byte(id))
	return slug + "--" + hex.EncodeToString(sum[:4])
}

// Usage is what a session took of the model. A count that the provider did not
// tell is nil.
type Usage struct {
	InputTokens     *float64    `json:"inputTokens,omitempty"` // with those read from a cache
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
	Provider Source = "provider" // tokens, told by the provider of the model
	Chars    Source = "chars"    // only the characters are known
)

// Files are the files that a session had to do with.
type Files struct {
	ObservedReads      []string `json:"observedReads"` // absolute paths
	ObservedSkillReads []string `json:"observedSkillReads"`
	Changed            []Change `json:"changed,omitempty"` // what differs in the workspace afterwards, by path
}

// A Change is one file that differs after the session.
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

// A DetectedSkill is a skill that the agent used, and why that is believed.
type DetectedSkill struct {
	Skill      string     `json:"skill"`
	Confidence Confidence `json:"confidence"`
	Evidence   []string   `json:"evidence"`
}

// Confidence says how sure a detection is.
type Confidence string

// Confidences, from sure to guessed.
const (
	Explicit Confidence = "explicit" // loaded with a tool for skills
	Strong   Confidence = "strong"   // its SKILL.md was read
	Medium   Confidence = "medium"
	Weak     Confidence = "weak"
)

// A Command is a command that the agent ran, and how it ended as far as the agent
// tells.
type Command struct {
	Command    string   `json:"command"`
	Dir        string   `json:"dir,omitempty"`
	ExitCode   *int     `json:"exitCode,omitempty"` // nil is not known
	DurationMs *float64 `json:"durationMs,omitempty"`
	At         string   `json:"at,omitempty"`
}

// A Request is a request to the outside and what became of it.
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

// A Cost is what the session cost, as the agent tells it.
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
}

// Empty returns the report of a session of which nothing is known but the prompt.
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

// Length returns the length of a text as JavaScript counts it.
func Length(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
