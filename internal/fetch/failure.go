package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"agentkernel"
)

// timedOut is the failure of a request: that of its time, if that was over, or what happened to it.
func timedOut(ctx context.Context, h *hop, r *agentkernel.FetchRequest, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return agentkernel.Errorf(agentkernel.CodeTimeout, op, "%s did not answer within %s", h.to.host, r.Timeout).
			WithHint("timeout=SECONDS sets the time; limits.call_wait bounds it")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*agentkernel.Error](err); ok {
		return e
	}
	return agentkernel.Errorf(agentkernel.CodeUnavailable, op, "%s %s", h.to, happened(err))
}

// happened says in words what went wrong. Texts of net/http are passed on only where they hold nothing of the request
// and nothing of this machine.
func happened(err error) string {
	var (
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		record   tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return "has a certificate of an unknown authority"
	case errors.As(err, &hostname):
		return "has a certificate for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "has a certificate that has expired or is not valid yet"
	case errors.As(err, &invalid):
		return "has a certificate that is not valid"
	case errors.As(err, &record):
		return "does not speak TLS"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "does not speak TLS"
	case strings.Contains(err.Error(), "tls: "):
		return "ended the TLS handshake"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused the connection"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "closed the connection"
	case strings.Contains(err.Error(), "server response headers exceeded"):
		return "sent headers that are too large"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "closed the connection before its answer was complete"
	case strings.Contains(err.Error(), "malformed HTTP"), strings.Contains(err.Error(), "gzip"), strings.Contains(err.Error(), "chunk"):
		return "sent an answer that is not HTTP"
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return "did not answer"
	}
	return "could not be reached"
}
