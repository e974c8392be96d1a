package admission

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/croft-run/croft/workspace/driver"
)

// Labels of a workspace with what was left out of the directory that it started from.
const (
	LeftOutLabel    = "croft.leftOut"    // credential files
	UnreadableLabel = "croft.unreadable" // what the user may not read
)

// resolveTemplate replaces a template by its snapshot. A directory is captured, unless
// it is to be used live.
func (r *Rules) resolveTemplate(ctx context.Context, spec *driver.Spec) error {
	from := spec.From
	switch {
	case from.Template == "" || from.Live:
		return nil
	case filepath.IsAbs(from.Template):
		m, err := r.Templates.Capture(ctx, from.Template, from.Credentials)
		if err != nil {
			return err
		}
		spec.From = driver.Source{Snapshot: m.ID, CrossSession: true}
		var unreadable []string
		for _, skip := range m.Missing {
			if skip.Reason == driver.SkipUnreadable {
				unreadable = append(unreadable, skip.Path)
			}
		}
		labels := maps.Clone(spec.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		if len(m.LeftOut) > 0 {
			labels[LeftOutLabel] = leftOutText(len(m.LeftOut), "credential file", "credential files", m.LeftOut)
		}
		if len(unreadable) > 0 {
			// Missing has the first of them; what vanished meanwhile is counted, too.
			labels[UnreadableLabel] = leftOutText(max(int(m.MissingTotal), len(unreadable)), "file or directory that you may not read", "files or directories that you may not read", unreadable)
		}
		spec.Labels = labels
		return nil
	}
	t, err := r.Templates.Get(ctx, from.Template)
	if err != nil {
		return err
	}
	spec.From = driver.Source{Snapshot: t.Snapshot, CrossSession: true}
	return nil
}

// leftOutText counts and names files, within the limits of a label.
func leftOutText(total int, one, many string, names []string) string {
	const most = 200
	text := fmt.Sprintf("%d %s:", total, many)
	if total == 1 {
		text = "1 " + one + ":"
	}
	for i, name := range names {
		if name = printableName(name); len(text)+len(name) > most {
			return text + fmt.Sprintf(" and %d more", total-i)
		}
		if i > 0 {
			text += ","
		}
		text += " " + name
	}
	return text
}

// printableName replaces what a label can't hold.
func printableName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, name)
}
