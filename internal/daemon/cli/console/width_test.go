//go:build unix

package console

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// TestTerminalWidthAndColour: on a terminal a list is cut to its width, and colours and
// progress follow NO_COLOR and TERM; a pipe gets whole lines.
func TestTerminalWidthAndColour(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 20}); err != nil {
		t.Fatal(err)
	}
	rows := [][]string{{"NAME", "LABELS"}, {"demo", strings.Repeat("k=v,", 10)}}
	if err := WriteTable(tty, rows); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(master)
	for _, want := range []string{"NAME  LABELS", "demo  k=v,k=v,k=v,k…"} {
		if got, err := in.ReadString('\n'); err != nil || strings.TrimRight(got, "\r\n") != want {
			t.Errorf("the terminal shows %q, %v; want %q", got, err, want)
		}
	}
	var pipe strings.Builder
	if err := WriteTable(&pipe, rows); err != nil || !strings.Contains(pipe.String(), rows[1][1]) {
		t.Errorf("a pipe gets %q, %v", pipe.String(), err)
	}
	for _, tt := range []struct {
		term, noColour   string
		colour, progress bool
	}{
		{"xterm", "", true, true}, {"xterm", "1", false, true}, {"dumb", "", false, false},
	} {
		t.Setenv("TERM", tt.term)
		t.Setenv("NO_COLOR", tt.noColour)
		a := &Console{Streams: Streams{Out: tty, Err: tty}}
		if UseColour(tty) != tt.colour || a.showsProgress() != tt.progress {
			t.Errorf("TERM=%s NO_COLOR=%s: colour %t, progress %t", tt.term, tt.noColour, UseColour(tty), a.showsProgress())
		}
		a.Err, a.JSON = &pipe, false
		if UseColour(&pipe) || a.showsProgress() {
			t.Errorf("TERM=%s: colour or progress in a pipe", tt.term)
		}
	}
}

// TestNarrowLists: a list that is too wide for a terminal keeps the columns that matter, and
// only the last of them is cut, unless a name is very long.
func TestNarrowLists(t *testing.T) {
	const id, at = "0123456789abcdefghij", "2026-11-18T04:00:00Z"
	workspaces := [][]string{
		{"ID", "NAME", "PROVIDER", "STATE", "CREATED", "LABELS"},
		{id, "web", "sandbox", "ready", at, "team=core,stage=test"}, {id, "-", "sandbox", "paused", at, "-"},
	}
	longName := [][]string{workspaces[0], {id, strings.Repeat("n", 63), "sandbox", "ready", at, "-"}}
	wsDrop := []string{"CREATED", "PROVIDER", "ID", "LABELS", "TENANT"}
	for _, tt := range []struct {
		name  string
		width int
		rows  [][]string
		drop  []string
		want  []string
	}{
		{"workspaces", 100, workspaces, wsDrop, []string{
			"ID                    NAME  PROVIDER  STATE   CREATED               LABELS",
			"0123456789abcdefghij  web   sandbox   ready   2026-11-18T04:00:00Z  team=core,stage=test",
			"0123456789abcdefghij  -     sandbox   paused  2026-11-18T04:00:00Z  -"}},
		{"workspaces", 60, workspaces, wsDrop, []string{
			"ID                    NAME  PROVIDER  STATE   LABELS",
			"0123456789abcdefghij  web   sandbox   ready   team=core,sta…",
			"0123456789abcdefghij  -     sandbox   paused  -"}},
		{"workspaces", 40, workspaces, wsDrop, []string{
			"NAME                  STATE   LABELS",
			"web                   ready   team=core…",
			"0123456789abcdefghij  paused  -"}},
		{"a long name", 40, longName, wsDrop, []string{
			"NAME                               STATE", "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn…  ready"}},
		{"sessions", 40, [][]string{{"SESSION", "PID", "STATE", "STARTED", "TTY", "COMMAND"}, {"s-12345678", "1234", "running", at, "false", "sh -c 'sleep 1000'"}},
			[]string{"TTY", "STARTED", "PID"}, []string{"SESSION     PID   STATE    COMMAND", "s-12345678  1234  running  sh -c 'sleep…"}},
	} {
		t.Run(fmt.Sprintf("%s in %d columns", tt.name, tt.width), func(t *testing.T) {
			master, tty, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer master.Close()
			defer tty.Close()
			if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: uint16(tt.width)}); err != nil {
				t.Fatal(err)
			}
			if err := WriteTable(tty, tt.rows, tt.drop...); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(master)
			for _, want := range tt.want {
				if got, err := in.ReadString('\n'); err != nil || strings.TrimRight(got, "\r\n") != want {
					t.Errorf("got %q, %v\nwant %q", got, err, want)
				}
			}
		})
	}
}
