package session

import (
	"path/filepath"
	"strings"
)

// A Builder collects the events of a session and makes a Report, so that the reports of
// all agents follow the same rules. The zero value is ready to use.
type Builder struct {
	Events   []Event
	Reads    []string // absolute
	Commands []Command
	Tokens   Tokens
	Output   *string // the final output; nil takes the last message of the assistant
	Fallback []byte  // the final output where there is no such message
	Cost     *Cost

	skills   []string        // loaded explicitly, in their order
	loaded   map[string]bool // those in skills
	evidence string

	texts        int     // bytes of texts in Events
	lastMessage  *string // the last message of the assistant, uncut; nil for none
	thoughtChars int     // characters of its thoughts
	leftOut      int     // number of dropped events
}

// Tokens are the counts of a provider; nil is unknown.
type Tokens struct {
	Input     *float64 // including tokens read from a cache
	Output    *float64
	Reasoning *float64
	Cache     *float64
	Total     *float64 // if it can't be computed from the others
	Partial   bool     // Total can be computed without Reasoning
}

// Add appends an event. A long text is cut, and after many texts shorter ones, too.
func (b *Builder) Add(e Event) {
	if e.Type == Message && e.Role == Assistant {
		text := e.Text
		b.lastMessage = &text
	}
	if e.Type == Message && e.Phase == Thinking {
		b.thoughtChars += Length(e.Text)
	}
	e.Text, e.Output = b.truncate(e.Text), b.truncate(e.Output)
	b.Events = append(b.Events, e)
}

// Say adds a message of the assistant.
func (b *Builder) Say(phase Phase, text, at string) {
	b.Add(Event{Type: Message, Role: Assistant, Phase: phase, Text: text, At: at})
}

// Run adds a command. The returned Command may be completed until the next Run.
func (b *Builder) Run(command, dir, at string) *Command {
	b.Add(Event{Type: CommandRun, Command: command, At: at})
	b.Commands = append(b.Commands, Command{Command: command, Dir: dir, At: at})
	return &b.Commands[len(b.Commands)-1]
}

// Read adds a file that was read. A blank path is ignored.
func (b *Builder) Read(path, base, at string) {
	if p, ok := Resolve(path, base); ok {
		b.Reads = append(b.Reads, p)
		b.Add(Event{Type: FileRead, Path: p, At: at})
	}
}

// Skill adds a skill that was loaded with a tool. evidence describes how.
func (b *Builder) Skill(name, evidence, at string) {
	b.evidence = evidence
	if !b.loaded[name] {
		if b.loaded == nil {
			b.loaded = map[string]bool{}
		}
		b.loaded[name] = true
		b.skills = append(b.skills, name)
	}
	b.Add(Event{Type: SkillSignal, Skill: name, Signal: "tool:skill", At: at})
}

// Report makes the report. Final output, usage, files and skills are computed from the
// events.
func (b *Builder) Report(runner Runner, prompt string) *Report {
	r := Empty(runner, prompt)
	b.truncateReport()
	if b.Events != nil {
		r.Events = b.Events
	}
	r.LeftOut = b.leftOut
	output := b.finalOutput()
	r.FinalOutput = truncateText(output, maxText)
	r.Usage = b.makeUsage(prompt, output)
	for _, p := range b.Reads {
		r.Files.ObservedReads = append(r.Files.ObservedReads, p)
		if strings.HasSuffix(p, skillFile) {
			r.Files.ObservedSkillReads = append(r.Files.ObservedSkillReads, p)
		}
	}
	r.DetectedSkills = mergeSkills(InferSkills(b.Reads), b.skills, b.evidence)
	r.Commands, r.Cost = b.Commands, b.Cost
	return r
}

func (b *Builder) finalOutput() string {
	switch {
	case b.Output != nil:
		return *b.Output
	case b.lastMessage != nil:
		return *b.lastMessage
	}
	return string(b.Fallback)
}

func (b *Builder) makeUsage(prompt, output string) Usage {
	t := b.Tokens
	u := Usage{
		InputTokens: t.Input, OutputTokens: t.Output, ReasoningTokens: t.Reasoning, CacheTokens: t.Cache, TotalTokens: t.Total,
		InputChars: Length(prompt), OutputChars: Length(output),
		Source: UsageSource{Input: usageSource(t.Input), Output: usageSource(t.Output), Reasoning: usageSource(t.Reasoning)},
	}
	if t.Input != nil && t.Output != nil && (t.Reasoning != nil || t.Partial) {
		u.TotalTokens = new(*t.Input + *t.Output + valueOrZero(t.Reasoning) - valueOrZero(t.Cache))
	}
	u.ReasoningChars = b.thoughtChars
	return u
}

func usageSource(n *float64) Source {
	if n == nil {
		return Chars
	}
	return Provider
}

func valueOrZero(n *float64) float64 {
	if n == nil {
		return 0
	}
	return *n
}

// Resolve makes a path that an agent reported absolute. It returns false for a blank
// path.
func Resolve(path, base string) (string, bool) {
	path = strings.TrimSpace(path)
	if path == "" {
		return "", false
	}
	if !filepath.IsAbs(path) {
		return filepath.Join(base, path), true
	}
	clean := filepath.Clean(path)
	if strings.HasSuffix(path, "/") && clean != "/" {
		clean += "/" // as Node normalises
	}
	return clean, true
}

const skillFile = "SKILL.md"

// InferSkills returns the skills whose SKILL.md is among the paths that were read.
func InferSkills(paths []string) []DetectedSkill {
	var found []DetectedSkill
	place := map[string]int{}
	for _, p := range paths {
		if !strings.HasSuffix(p, skillFile) {
			continue
		}
		parts := strings.FieldsFunc(p, func(r rune) bool { return r == filepath.Separator })
		if len(parts) < 2 {
			continue
		}
		name := parts[len(parts)-2]
		i, ok := place[name]
		if !ok {
			i = len(found)
			found, place[name] = append(found, DetectedSkill{Skill: name, Confidence: Strong}), i
		}
		found[i].Evidence = append(found[i].Evidence, "Read "+p)
	}
	return found
}

// mergeSkills adds the explicitly loaded skills to the inferred ones.
func mergeSkills(found []DetectedSkill, explicit []string, evidence string) []DetectedSkill {
	if found == nil {
		found = []DetectedSkill{}
	}
	place := map[string]int{}
	for i, d := range found {
		place[d.Skill] = i
	}
	for _, name := range explicit {
		i, ok := place[name]
		if !ok {
			i = len(found)
			found, place[name] = append(found, DetectedSkill{Skill: name}), i
		}
		found[i].Confidence = Explicit
		found[i].Evidence = append(found[i].Evidence, evidence)
	}
	return found
}
