package egress

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
)

// authorities are the certificate authorities of a workspace, for hosts with a credential. The
// name constraints of each allow only the hosts that had a credential when it was created, so
// programs that trust it do not trust it for other hosts.
type authorities struct {
	file      string
	workspace string

	mu     sync.Mutex
	all    []*authority
	leaves map[string]*tls.Certificate
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

const (
	authorityLife = 2 * 365 * 24 * time.Hour
	leafLife      = 7 * 24 * time.Hour
	renewBefore   = 24 * time.Hour
)

// openAuthorities reads the authorities that an earlier proxy stored.
func openAuthorities(file, workspace string) (*authorities, error) {
	as := &authorities{file: file, workspace: workspace, leaves: map[string]*tls.Certificate{}}
	if file == "" {
		return as, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return as, nil
	}
	if err != nil {
		return nil, fmt.Errorf("egress: read authorities: %w", err)
	}
	for len(bytes.TrimSpace(data)) > 0 {
		var cert, key *pem.Block
		if cert, data = pem.Decode(data); cert != nil {
			key, data = pem.Decode(data)
		}
		if key == nil {
			return nil, fmt.Errorf("egress: read authorities: %w: %s is damaged", fault.Failed, file)
		}
		a := &authority{}
		var cerr, kerr error
		a.cert, cerr = x509.ParseCertificate(cert.Bytes)
		a.key, kerr = x509.ParseECPrivateKey(key.Bytes)
		if cerr != nil || kerr != nil {
			return nil, fmt.Errorf("egress: read authorities: %w: %s is damaged", fault.Failed, file)
		}
		as.all = append(as.all, a)
	}
	return as, nil
}

// ensureAuthority creates an authority for the hosts with a credential for which no authority
// may sign.
func (as *authorities) ensureAuthority(rs *rules) error {
	as.mu.Lock()
	defer as.mu.Unlock()
	var names []string
	var nets []*net.IPNet
	for _, r := range rs.allow {
		if r.spec.Credential == "" {
			continue
		}
		name := r.name + strings.TrimPrefix(r.suffix, ".")
		t := target{name: name, addr: r.prefix.Addr()}
		if as.findLocked(t) != nil {
			continue
		}
		if name == "" {
			nets = append(nets, &net.IPNet{IP: t.addr.AsSlice(), Mask: net.CIDRMask(t.addr.BitLen(), t.addr.BitLen())})
		} else if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names)+len(nets) == 0 {
		return nil
	}
	a, err := newAuthority(as.workspace, names, nets)
	if err != nil {
		return err
	}
	if err := as.saveLocked(append(slices.Clone(as.all), a)); err != nil {
		return err
	}
	as.all = append(as.all, a)
	return nil
}

func newAuthority(workspace string, names []string, nets []*net.IPNet) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("egress: make authority: %w: %w", fault.Internal, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("egress: make authority: %w: %w", fault.Internal, err)
	}
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife),
		// The serial in the name keeps two authorities of one workspace apart.
		Subject:               pkix.Name{Organization: []string{"Croft"}, CommonName: fmt.Sprintf("Croft workspace %s %x", workspace, serial)},
		IsCA:                  true,
		BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},

		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         names,
		PermittedIPRanges:           nets,
	}
	// Without a constraint, every name of that kind would be allowed.
	if len(names) == 0 {
		tmpl.PermittedDNSDomains = []string{"invalid"}
	}
	if len(nets) == 0 {
		tmpl.ExcludedIPRanges = []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("egress: make authority: %w: %w", fault.Internal, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("egress: make authority: %w: %w", fault.Internal, err)
	}
	return &authority{cert: cert, key: key}, nil
}

// saveLocked writes the authorities with their keys, atomically, readable for the owner only.
func (as *authorities) saveLocked(all []*authority) error {
	if as.file == "" {
		return nil
	}
	var out bytes.Buffer
	for _, a := range all {
		key, err := x509.MarshalECPrivateKey(a.key)
		if err != nil {
			return fmt.Errorf("egress: save authorities: %w: %w", fault.Internal, err)
		}
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
		_ = pem.Encode(&out, &pem.Block{Type: "EC PRIVATE KEY", Bytes: key})
	}
	if err := atomicfile.Write(as.file, out.Bytes(), atomicfile.Options{}); err != nil {
		return fmt.Errorf("egress: save authorities: %w", err)
	}
	return nil
}

// findLocked returns an authority that may sign for a host and does not expire soon.
func (as *authorities) findLocked(t target) *authority {
	for _, a := range as.all {
		if time.Until(a.cert.NotAfter) > leafLife && a.permitsTarget(t) {
			return a
		}
	}
	return nil
}

func (a *authority) permitsTarget(t target) bool {
	if t.name != "" {
		return slices.ContainsFunc(a.cert.PermittedDNSDomains, func(d string) bool {
			return t.name == d || strings.HasSuffix(t.name, "."+d)
		})
	}
	return slices.ContainsFunc(a.cert.PermittedIPRanges, func(n *net.IPNet) bool { return n.Contains(t.addr.AsSlice()) })
}

// certsPEM returns the certificates of the authorities.
func (as *authorities) certsPEM() []byte {
	as.mu.Lock()
	defer as.mu.Unlock()
	var out bytes.Buffer
	for _, a := range as.all {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	}
	return out.Bytes()
}

// tlsConfig returns the configuration to intercept the TLS of a host.
func (as *authorities) tlsConfig(t target) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return as.leafCert(t)
		},
		SessionTicketsDisabled: true,
	}
}

// leafCert returns a certificate for a host, created at first use.
func (as *authorities) leafCert(t target) (*tls.Certificate, error) {
	as.mu.Lock()
	defer as.mu.Unlock()
	host := t.host()
	if c := as.leaves[host]; c != nil && time.Until(c.Leaf.NotAfter) > renewBefore {
		return c, nil
	}
	a := as.findLocked(t)
	if a == nil {
		return nil, fmt.Errorf("egress: sign for %s: %w: no authority may", host, fault.Internal)
	}
	c, err := a.signLeaf(t)
	if err != nil {
		return nil, fmt.Errorf("egress: sign for %s: %w: %w", host, fault.Internal, err)
	}
	if len(as.leaves) >= 256 { // a wildcard rule has any number of hosts
		clear(as.leaves)
	}
	as.leaves[host] = c
	return c, nil
}

func (a *authority) signLeaf(t target) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(leafLife),
		Subject:     pkix.Name{Organization: []string{"Croft"}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if t.name != "" {
		tmpl.DNSNames = []string{t.name}
	} else {
		tmpl.IPAddresses = []net.IP{net.IP(netip.Addr.AsSlice(t.addr))}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
