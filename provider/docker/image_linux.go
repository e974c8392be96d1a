package docker

import (
	"context"
	"fmt"

	"github.com/croft-run/croft/fault"
)

// ensureImage returns an image, and pulls it if the engine does not have it.
func (p *Provider) ensureImage(ctx context.Context, name string) (Image, error) {
	soon, cancel := context.WithTimeout(ctx, p.cfg.AnswerTimeout)
	img, err := p.engine.Image(soon, name)
	cancel()
	if err == nil || fault.Of(err) != fault.NotFound {
		return img, p.engineTimeout(ctx, err)
	}
	long, cancel := context.WithTimeout(ctx, p.cfg.PullTimeout)
	defer cancel()
	if err := p.engine.Pull(long, name); err != nil {
		return Image{}, p.engineTimeout(ctx, pullError(ctx, name, err))
	}
	img, err = p.engine.Image(long, name)
	return img, p.engineTimeout(ctx, err)
}

// pullError returns the error of an image that the engine neither has nor can pull.
func pullError(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("docker: pull %s: %w", name, ctx.Err())
	}
	switch fault.Of(err) {
	case fault.DeadlineExceeded, fault.Unavailable, fault.ResourceExhausted:
		err = fmt.Errorf("docker: image %s is not in the engine, and pulling it failed or timed out: %w: %w", name, fault.Unavailable, err)
		return fault.WithHint(err, fault.HintImage)
	}
	err = fmt.Errorf("docker: image %s is not in the engine, and can't be pulled: %w: %w", name, fault.Failed, err)
	return fault.WithHint(err, fault.HintImage)
}
