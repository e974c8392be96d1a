package blobs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gocloud.dev/blob/memblob"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/blobs"
)

func TestCode(t *testing.T) {
	b := memblob.OpenBucket(nil)
	defer b.Close()
	_, missing := b.ReadAll(t.Context(), "nothing")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, canceled := b.ReadAll(ctx, "nothing")
	for want, err := range map[fault.Code]error{
		fault.NotFound: missing, fault.Unavailable: errors.New("gone"), fault.Failed: fmt.Errorf("a: %w", fault.Failed), fault.DeadlineExceeded: context.DeadlineExceeded,
	} {
		if got := blobs.Code(err); got != want {
			t.Errorf("%v has the code %s, want %s", err, got, want)
		}
	}
	if canceled != nil && blobs.Code(canceled) != fault.Canceled && blobs.Code(canceled) != fault.NotFound {
		t.Errorf("%v has the code %s", canceled, blobs.Code(canceled))
	}
}
