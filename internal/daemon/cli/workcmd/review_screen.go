package workcmd

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/changecmd"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

const screenHelp = `  j, k, arrows   next and previous file, or hunk
  enter, tab     to the hunks of the file, and back
  space          take or leave the file or hunk
  a, r           take or leave it, and go to the next
  A, R           take or leave all
  pgup, pgdn     scroll the changes
  t              run the tests on what is taken
  q              apply what is taken, or leave
  ctrl-c         leave, and apply nothing
  ?              show the keys`

// screenHints is the last line of the screen.
const screenHints = "? keys  j/k move  enter hunks  space toggle  a/r take/leave  t test  q finish"

// A reviewScreen is the dialog of a review on the whole terminal: a list of files, and the
// changes of the chosen one.
type reviewScreen struct {
	*review
	name, dir string // of the work, and where it is applied
	colour    bool
	autorun   bool // autorun files are applied, too
	runTests  func(ctx context.Context, out *testOutput)

	file    int  // that is chosen
	part    int  // of the file
	inHunks bool // keys are about the hunks, not the files
	top     int  // first line of the changes that is shown
	moved   bool // the chosen hunk must be visible
	bottom  int  // greatest useful top, of the last frame
	page    int  // lines of the changes that were shown

	mode   reviewMode
	status string // message instead of the hints
	tests  *testOutput
	apply  bool // what is taken, after the dialog

	lines    []changeLine // of linesOf
	linesFor [2]int       // file and width of lines
}

type reviewMode int

const (
	reviewing reviewMode = iota
	showingHelp
	showingTests
	askingApply
)

// A changeLine is a line of the changes of a file.
type changeLine struct {
	text, style string
	part        int  // of the file, -1 before the first
	first       bool // of the part
}

// askOnScreen is askInLines on the whole terminal.
func (r *reviewer) askOnScreen(ctx context.Context) (apply bool, err error) {
	wake := make(chan struct{}, 1)
	s := &reviewScreen{review: r.review, name: r.w.Name, dir: r.opts.Dir, colour: console.UseColour(r.a.Out), autorun: r.opts.Apply.Autorun}
	var notes bytes.Buffer // would disturb the screen
	stderr := r.a.Err
	r.a.Err = &notes
	var running sync.WaitGroup
	s.runTests = func(ctx context.Context, out *testOutput) {
		running.Go(func() {
			defer func() {
				if p := recover(); p != nil { // else the screen would stay
					out.end("", fmt.Errorf("%w: panic: %v", fault.Internal, p))
				}
			}()
			outcome, err := r.runTests(ctx, out)
			out.end(outcome, err)
		})
	}
	ctx, cancel := context.WithCancel(ctx)
	s.tests = &testOutput{wake: wake, ctx: ctx, done: true}
	err = r.a.showScreen(ctx, s, wake)
	cancel()
	running.Wait()
	r.a.Err = stderr
	_, werr := notes.WriteTo(stderr)
	if err == nil {
		err = werr
	}
	if err != nil {
		return false, fmt.Errorf("review: %w", err)
	}
	return s.apply, nil
}

func (s *reviewScreen) key(name string) (leave bool) {
	s.status = ""
	switch {
	case name == "ctrl-c" && s.mode == showingTests && s.tests.running():
		s.tests.cancel()
	case name == "ctrl-c":
		return true
	case s.mode == showingHelp:
		s.mode = reviewing
	case s.mode == askingApply:
		s.apply = name == "y"
		s.mode = reviewing
		return name == "y" || name == "n"
	case s.mode == showingTests:
		s.testKey(name)
	default:
		return s.reviewKey(name)
	}
	return false
}

func (s *reviewScreen) reviewKey(name string) (leave bool) {
	switch name {
	case "j", "down":
		s.move(1)
	case "k", "up":
		s.move(-1)
	case "enter", "tab":
		s.inHunks, s.moved = !s.inHunks, true
	case "right", "l":
		s.inHunks, s.moved = true, true
	case "left", "h", "esc":
		s.inHunks = false
	case "pgdn":
		s.top = min(s.top+max(1, s.page-1), s.bottom)
	case "pgup":
		s.top = max(s.top-max(1, s.page-1), 0)
	case "home", "g":
		s.jump(-len(s.parts))
	case "end", "G":
		s.jump(len(s.parts))
	case " ":
		chosen := s.chosen()
		s.take(countTaken(chosen) < len(chosen), chosen)
	case "a", "r":
		s.take(name == "a", s.chosen())
		s.move(1)
	case "A", "R":
		s.take(name == "A", s.parts)
	case "t":
		s.startTests()
	case "?":
		s.mode = showingHelp
	case "q":
		if countTaken(s.parts) == 0 {
			return true
		}
		s.mode = askingApply
	default:
		s.status = "? shows the keys"
	}
	return false
}

// chosen returns the parts that keys are about: a hunk, or those of a file.
func (s *reviewScreen) chosen() []reviewPart {
	parts := s.partsOf(s.file)
	if s.inHunks {
		return parts[s.part : s.part+1]
	}
	return parts
}

func (s *reviewScreen) take(taken bool, parts []reviewPart) {
	take(taken, parts)
	s.tests.forget() // they were about another selection
}

// move goes to the next or previous file, or hunk: after the last hunk of a file comes the
// first one of the next file.
func (s *reviewScreen) move(by int) {
	if s.inHunks {
		at := s.first[s.file] + s.part + by
		if at >= 0 && at < len(s.parts) {
			s.choose(s.parts[at].file, at-s.first[s.parts[at].file])
		}
		return
	}
	s.jump(by)
}

// jump moves by any number of files, or of the hunks of the file, as far as there are some.
func (s *reviewScreen) jump(by int) {
	if s.inHunks {
		s.choose(s.file, min(max(s.part+by, 0), len(s.partsOf(s.file))-1))
		return
	}
	s.choose(min(max(s.file+by, 0), len(s.files)-1), 0)
}

func (s *reviewScreen) choose(file, part int) {
	if file != s.file {
		s.top = 0
	}
	s.file, s.part, s.moved = file, part, true
}

func (s *reviewScreen) startTests() {
	if countTaken(s.parts) == 0 {
		s.status = "nothing is taken: there is nothing to test"
		return
	}
	s.mode, s.top = showingTests, 0
	s.runTests(s.tests.begin(), s.tests)
}

func (s *reviewScreen) testKey(name string) {
	switch name {
	case "pgup", "k", "up":
		s.top = min(s.top+max(1, s.page-1), s.bottom) // counts from the end
	case "pgdn", "j", "down":
		s.top = max(s.top-max(1, s.page-1), 0)
	default:
		if s.tests.running() {
			s.status = "the tests run; ctrl-c stops them"
			return
		}
		s.mode, s.top, s.moved = reviewing, 0, true
	}
}

// narrow is the width below which the files are above the changes, not beside them.
const narrow = 80

func (s *reviewScreen) frame(size driver.Size) []string {
	title := fmt.Sprintf(" %s  %s", s.name, s.summary())
	if text := s.tests.outcome(); text != "" {
		title += "; tests: " + text
	}
	hint := screenHints
	height := max(0, size.Rows-2)
	var body []string
	switch s.mode {
	case showingHelp:
		hint = "any key returns"
		for line := range strings.Lines(screenHelp) {
			body = append(body, wrapColumns(strings.TrimSuffix(line, "\n"), size.Cols)...)
		}
	case showingTests:
		hint = "the tests run; ctrl-c stops them"
		if !s.tests.running() {
			hint = "tests: " + s.tests.outcome() + "; pgup and pgdn scroll, any other key returns"
		}
		body = s.testLines(size.Cols, height)
	case askingApply:
		leftOut, how := "", ""
		if n := s.takenAutorun(); n > 0 && !s.autorun {
			leftOut, how = fmt.Sprintf(" (%s left out)", console.CountText(n, "autorun file")),
				"; autorun files: croft work apply --allow-autorun PATH"
		}
		hint = fmt.Sprintf("Apply %s of %s%s? y: yes  n: leave, apply nothing  esc: back  (to %s%s)",
			console.CountText(countTaken(s.parts), "change"), console.CountText(len(s.takenFiles()), "file"), leftOut, console.Printable(s.dir), how)
		body = s.reviewLines(size.Cols, height)
	default:
		body = s.reviewLines(size.Cols, height)
	}
	if s.status != "" {
		hint = s.status
	}
	for len(body) < height {
		body = append(body, "")
	}
	lines := append([]string{styled(styleReverse, fitColumns(title, size.Cols))}, body[:height]...)
	lines = append(lines, styled(styleBold, fitColumns(hint, size.Cols)))
	return lines[:min(len(lines), size.Rows)]
}

// reviewLines returns the list of files, and the changes of the chosen one.
func (s *reviewScreen) reviewLines(cols, height int) []string {
	if cols < narrow {
		count := min(len(s.files), max(1, height/3))
		lines := s.fileLines(cols, count)
		lines = append(lines, strings.Repeat("─", cols))
		return append(lines, s.changeLines(cols, max(0, height-len(lines)))...)
	}
	const least = 24
	left := least
	for _, ch := range s.files {
		left = max(left, len(console.Printable(ch.Path))+len("> [x] M  +9999 -9999")+len(autorunMark(ch)))
	}
	left = min(left, cols*2/5)
	files, changes := s.fileLines(left, height), s.changeLines(cols-left-1, height)
	lines := make([]string, height)
	for i := range lines {
		name, change := strings.Repeat(" ", left), ""
		if i < len(files) {
			name = files[i]
		}
		if i < len(changes) {
			change = changes[i]
		}
		lines[i] = name + "│" + change
	}
	return lines
}

// kindLetters are the letters of kinds of changes, as git has them.
var kindLetters = map[snapshot.ChangeKind]string{
	snapshot.Added: "A", snapshot.Removed: "D", snapshot.Modified: "M", snapshot.Renamed: "R", snapshot.ModeOnly: "M", snapshot.Retyped: "T",
}

func mark(parts []reviewPart) string {
	switch countTaken(parts) {
	case 0:
		return "[ ]"
	case len(parts):
		return "[x]"
	}
	return "[-]"
}

// fileLines returns the part of the list of files that has the chosen one.
func (s *reviewScreen) fileLines(cols, count int) []string {
	from := min(max(0, s.file-count/2), max(0, len(s.files)-count))
	var lines []string
	for i := from; i < min(len(s.files), from+count); i++ {
		ch := s.files[i]
		counts := fmt.Sprintf(" +%d -%d", ch.LinesAdded, ch.LinesRemoved)
		if ch.Binary || ch.TooBig {
			counts = " binary"
		}
		if ch.IsAutorun() { // without its lines, for which there may be no room
			counts = autorunMark(ch)
		}
		cursor := " "
		if i == s.file {
			cursor = ">"
		}
		head := fmt.Sprintf("%s %s %s ", cursor, mark(s.partsOf(i)), kindLetters[ch.Kind])
		room := cols - len(head) - len(counts)
		if room < len("a.txt") {
			counts, room = "", cols-len(head)
		}
		line := fitColumns(head+fitColumns(cutStart(console.Printable(ch.Path), room), room)+counts, cols)
		switch {
		case i == s.file && !s.inHunks:
			line = styled(styleReverse, line)
		case i == s.file:
			line = styled(styleBold, line)
		}
		lines = append(lines, line)
	}
	return lines
}

// cutStart cuts the start of a path that takes more than n columns: the end says more.
func cutStart(path string, n int) string {
	r := []rune(path)
	total := 0
	for i := len(r) - 1; i >= 0; i-- {
		if total += runeColumns(r[i]); total > n-1 && i > 0 || total > n {
			return "…" + string(r[i+1:])
		}
	}
	return path
}

// changeLines returns the part of the changes of the chosen file that is visible.
func (s *reviewScreen) changeLines(cols, count int) []string {
	all := s.linesOf(cols)
	s.page, s.bottom = count, max(0, len(all)-count)
	if s.moved && s.inHunks {
		s.moved = false
		s.showPart(all, count)
	}
	s.top = min(s.top, s.bottom)
	parts := s.partsOf(s.file)
	var lines []string
	for _, l := range all[s.top:min(len(all), s.top+count)] {
		gutter := " "
		if s.inHunks && l.part == s.part {
			gutter = "▌"
			if l.first {
				gutter = ">"
			}
		}
		text, style := l.text, l.style
		if l.first {
			text = mark(parts[l.part:l.part+1]) + " " + text
			if gutter == ">" {
				style = styleReverse
			}
		}
		if !s.colour && style != styleReverse && style != styleBold {
			style = ""
		}
		lines = append(lines, gutter+styled(style, text))
	}
	return lines
}

// showPart scrolls so that the chosen part is visible, or at least its start.
func (s *reviewScreen) showPart(all []changeLine, count int) {
	from, to := -1, 0
	for i, l := range all {
		if l.part == s.part {
			if from < 0 {
				from = i
			}
			to = i + 1
		}
	}
	if from < s.top || to > s.top+count {
		s.top = max(0, min(from, max(to-count, from)))
	}
}

// linesOf returns the changes of the chosen file in lines of at most cols columns.
func (s *reviewScreen) linesOf(cols int) []changeLine {
	if s.lines != nil && s.linesFor == [2]int{s.file, cols} {
		return s.lines
	}
	const gutter, marks = 1, 4
	ch := *s.files[s.file]
	var b bytes.Buffer
	_ = (&snapshot.Comparison{Changes: []snapshot.FileChange{ch}}).WriteUnified(&b) // a buffer takes all
	var lines []changeLine
	part := -1
	if s.partsOf(s.file)[0].hunk == 0 {
		part = 0
		for i, text := range wrapColumns(string(ch.Kind)+": "+console.Printable(ch.Path), cols-gutter-marks) {
			lines = append(lines, changeLine{text, styleBold, part, i == 0})
		}
	}
	for line := range strings.Lines(console.PrintableText(b.String())) {
		line = strings.TrimSuffix(line, "\n")
		room, style := cols-gutter, changecmd.PatchColour(line)
		first := strings.HasPrefix(line, "@@") && part+1 < len(s.partsOf(s.file))
		if first {
			room -= marks
			part++
		}
		for i, text := range wrapColumns(line, room) {
			lines = append(lines, changeLine{text, style, part, first && i == 0})
		}
	}
	s.lines, s.linesFor = lines, [2]int{s.file, cols}
	return lines
}

// testLines returns the last lines of the output of the tests.
func (s *reviewScreen) testLines(cols, count int) []string {
	var all []string
	for line := range strings.Lines(console.PrintableText(s.tests.text())) {
		all = append(all, wrapColumns(strings.TrimSuffix(line, "\n"), cols)...)
	}
	s.page, s.bottom = count, max(0, len(all)-count)
	end := len(all) - min(s.top, s.bottom)
	return all[max(0, end-count):end]
}

func styled(style, text string) string {
	if style == "" {
		return text
	}
	return style + text + styleEnd
}

// A testOutput is the output of tests that may run, and their outcome.
type testOutput struct {
	wake chan<- struct{} // gets a value after each change
	ctx  context.Context // of all tests

	mu     sync.Mutex
	out    []byte // guarded by mu
	cut    bool   // out has lost its start; guarded by mu
	done   bool   // guarded by mu
	result string // "" before the first tests; guarded by mu
	stop   func() // guarded by mu
}

// maxTestOutput bounds the output of tests that is kept.
const maxTestOutput = 256 << 10

// begin starts new tests, and returns their context.
func (o *testOutput) begin() context.Context {
	ctx, stop := context.WithCancel(o.ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.out, o.cut, o.done, o.result, o.stop = nil, false, false, "", stop
	return ctx
}

func (o *testOutput) Write(data []byte) (int, error) {
	o.mu.Lock()
	o.out = append(o.out, data...)
	if drop := len(o.out) - maxTestOutput; drop > 0 {
		o.out, o.cut = append([]byte{}, o.out[drop:]...), true
	}
	o.mu.Unlock()
	o.changed()
	return len(data), nil
}

func (o *testOutput) end(outcome string, err error) {
	o.mu.Lock()
	o.stop()
	switch o.done = true; {
	case fault.Of(err) == fault.Canceled:
		o.result = "stopped"
	case err != nil:
		o.result = "not run: " + console.Printable(console.OneLine(err.Error()))
	default:
		o.result = outcome
	}
	o.mu.Unlock()
	o.changed()
}

func (o *testOutput) changed() {
	select {
	case o.wake <- struct{}{}:
	default: // a value waits already
	}
}

func (o *testOutput) cancel() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stop()
}

func (o *testOutput) running() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.done
}

func (o *testOutput) outcome() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.result
}

// forget removes the outcome.
func (o *testOutput) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.result = ""
}

func (o *testOutput) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cut {
		return "... the start of the output is left out\n" + string(o.out)
	}
	return string(o.out)
}
