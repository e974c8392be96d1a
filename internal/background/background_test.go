package background

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		tracker := New(ctx, slog.New(slog.DiscardHandler))
		began := time.Now()
		var done atomic.Int64
		work := func(ctx context.Context, id string) error {
			switch id {
			case "slow":
				time.Sleep(2 * slotTime)
			case "hangs":
				<-ctx.Done()
				return ctx.Err()
			case "fails":
				return errors.New("no")
			}
			done.Add(1)
			return nil
		}
		ids := []string{"hangs", "slow", "fails", "good"}
		if err := tracker.Each(t.Context(), "task", ids, work); err == nil || err.Error() != "no" {
			t.Errorf("got %v, want the error of the work that ended", err)
		}
		if took := time.Since(began); took != slotTime || done.Load() != 1 {
			t.Errorf("after %v %d are done, want one after %v", took, done.Load(), slotTime)
		}
		time.Sleep(slotTime)
		synctest.Wait()
		if done.Load() != 2 {
			t.Error("slow work was ended")
		}
		time.Sleep(WorkTime)
		synctest.Wait()
		want := []Stall{{"task", "hangs", began}}
		if diff := cmp.Diff(want, tracker.Stalls()); diff != "" {
			t.Errorf("stalls (-want +got):\n%s", diff)
		}
		// It is not tried at once, and forgotten when it succeeds.
		work = func(context.Context, string) error { done.Add(1); return nil }
		for range 2 {
			if err := tracker.Each(t.Context(), "task", []string{"hangs"}, work); err != nil {
				t.Error(err)
			}
			time.Sleep(WorkTime)
		}
		if len(tracker.Stalls()) != 0 || done.Load() != 3 {
			t.Errorf("stalls %v after %d calls", tracker.Stalls(), done.Load())
		}
		stop()
		if err := tracker.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := New(t.Context(), slog.New(slog.DiscardHandler))
		free := make(chan struct{})
		go tracker.Do(t.Context(), "task", time.Minute, func(context.Context) error { <-free; return nil })
		time.Sleep(2 * time.Minute)
		if got := tracker.Stalls(); len(got) != 1 || got[0].Task != "task" || got[0].Workspace != "" {
			t.Errorf("stalls %v, want the task", got)
		}
		close(free)
		synctest.Wait()
		if got := tracker.Stalls(); len(got) != 0 {
			t.Errorf("stalls %v after its end", got)
		}
	})
}
