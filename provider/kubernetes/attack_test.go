package kubernetes

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

// memoryRace opens the memory of every process of the guest's program that it finds, again and
// again, and writes those that it could open to the file "opened".
const memoryRace = `
import os
own, opened = str(os.getpid()), set()
open('ready', 'w').close()
while not os.path.exists('stop'):
    for pid in os.listdir('/proc'):
        if not pid.isdigit() or pid == own or pid in opened:
            continue
        try:
            os.close(os.open('/proc/' + pid + '/mem', os.O_RDWR))
            with open('/proc/' + pid + '/cmdline') as f:
                argv = f.read().split('\0')
        except OSError:
            continue
        if argv[0] == '` + program + `':
            opened.add(pid)
            with open('opened', 'a') as f:
                print(pid, argv, file=f)
open('stopped', 'w').close()
`

// TestProcessesOfTheGuestAreOutOfReach: "croft-guest connect" is started beside the workload, by the
// same user and without the filter that refuses sockets. A workload that changes its memory would
// have a network. It must not even get the moment before the program protects itself.
func TestProcessesOfTheGuestAreOutOfReach(t *testing.T) {
	p := newProvider(t, t.TempDir())
	ws := open(t, p)
	if res := run(t, ws, "cat "+program); res.ExitCode == 0 {
		t.Error("the program of the guest can be read, so that its processes can be traced when they start")
	}
	write(t, ws, "race.py", memoryRace)
	for range 2 { // one for each processor
		if _, err := ws.Shell.Start(t.Context(), driver.Command{Argv: []string{"python3", "race.py"}, Detached: true}); err != nil {
			t.Fatal(err)
		}
	}
	run(t, ws, "until [ -e ready ]; do sleep 0.1; done")
	for range 20 { // each connects to the guest anew
		again, err := p.Resolve(t.Context(), ws.Ref)
		if err != nil {
			t.Fatal(err)
		}
		run(t, again, "true")
		if err := again.Life.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := run(t, ws, "touch stop; until [ -e stopped ]; do sleep 0.1; done; cat opened 2>/dev/null")
	if n := strings.Count(string(got.Stdout), "\n"); n > 0 {
		t.Errorf("the workload opened the memory of %d processes of the guest's program:\n%s", n, got.Stdout)
	}
}
