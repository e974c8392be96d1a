package process

import (
	"os"
	"testing"
)

func FuzzParseStat(f *testing.F) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add([]byte("12 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21\n"))
	f.Add([]byte("1 ("))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, ok := parseStat(data); ok && p.pid <= 0 {
			t.Errorf("got %+v", p)
		}
	})
}

func TestParseStat(t *testing.T) {
	got, ok := parseStat([]byte("12 (a) R (x y) S 1 2 3 4 5 2097152 7 8 9 10 11 12 13 14 15 16 17 18 999 20 21\n"))
	want := proc{pid: 12, ppid: 1, pgrp: 2, sid: 3, state: 'S', threads: 17, start: 999, kernelThread: true}
	if !ok || got != want {
		t.Errorf("got %+v, %v; want %+v", got, ok, want)
	}
	self, ok := readProc(os.Getpid())
	if !ok || self.ppid != os.Getppid() || !self.isAlive() || self.kernelThread {
		t.Errorf("this process is %+v, %v", self, ok)
	}
}
