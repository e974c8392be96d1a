package console

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// A program that was killed counts as dead before its parent has waited for it.
func TestKilledCountsZombies(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	defer cmd.Wait()
	mark := processIdentity(pid)
	if mark == "" || isKilled(mark) {
		t.Errorf("a process that lives has the mark %q and counts as killed: %v", mark, isKilled(mark))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(stat, []byte(") Z ")) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it is no zombie: %s", stat)
		}
	}
	if !isKilled(mark) {
		t.Error("a zombie counts as a program that lives")
	}
}
