package app

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// A Certificate is a certificate and key in files, read again when one of them changes.
type Certificate struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate // guarded by mu
	stamp   [2]time.Time     // guarded by mu; times of change of the files
	checked time.Time        // guarded by mu
}

// LoadCertificate reads a certificate.
func LoadCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log}
	return c, c.Reload()
}

// Reload reads the files. After an error the certificate is the one of before.
func (c *Certificate) Reload() error {
	stamp, err := c.readStamp()
	if err != nil {
		return fmt.Errorf("app: TLS certificate: %w: %w", fault.InvalidArgument, err)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("app: TLS certificate %s with key %s: %w: %w", c.cert, c.key, fault.InvalidArgument, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, c.stamp, c.checked = &pair, stamp, time.Now()
	return nil
}

func (c *Certificate) readStamp() (stamp [2]time.Time, err error) {
	for i, path := range []string{c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil {
			return stamp, err
		}
		stamp[i] = info.ModTime()
	}
	return stamp, nil
}

// certificateCheck is how often a handshake looks for changed files.
const certificateCheck = time.Second

// get returns the certificate for a handshake.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	due := time.Since(c.checked) >= certificateCheck
	if due {
		c.checked = time.Now()
	}
	before := c.stamp
	c.mu.Unlock()
	if due {
		if stamp, err := c.readStamp(); err == nil && stamp != before {
			// Both files are written one after the other: until they match, the next
			// handshake tries again.
			if err := c.Reload(); err != nil {
				c.log.Warn("the certificate can't be read again; the one of before stays", "error", err)
			} else {
				c.log.Info("the certificate was read again", "file", c.cert)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current, nil
}

// Listener returns a listener of TLS connections over l.
func (c *Certificate) Listener(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: c.get})
}
