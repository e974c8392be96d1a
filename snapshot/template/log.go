package template

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/croft-run/croft/snapshot"
)

// A LogLine is a step in the making of a template.
type LogLine struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}

// maxLog bounds the lines of a log: an image has a line for each layer.
const maxLog = 200

// A buildLog collects the steps in the making of a template.
type buildLog struct{ lines []LogLine }

func (l *buildLog) add(format string, args ...any) {
	if len(l.lines) < maxLog {
		l.lines = append(l.lines, LogLine{time.Now().UTC().Truncate(time.Millisecond), fmt.Sprintf(format, args...)})
	}
}

// label returns the log as the value of a label.
func (l *buildLog) label() string {
	data, err := json.Marshal(l.lines)
	if err != nil {
		return ""
	}
	return string(data)
}

// logOf returns the log in the labels of a template, with what its manifest says of the last step.
func logOf(m *snapshot.Manifest) []LogLine {
	var lines []LogLine
	if text := m.Labels[logLabel]; text == "" || json.Unmarshal([]byte(text), &lines) != nil {
		return nil // of another version
	}
	if n := len(m.LeftOut); n > 0 {
		lines = append(lines, LogLine{m.Created, fmt.Sprintf("left out %d credential files", n)})
	}
	return append(lines, LogLine{m.Created, fmt.Sprintf("stored %d files of %d bytes", m.Files, m.Bytes)})
}
