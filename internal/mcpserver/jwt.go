package mcpserver

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
	"github.com/modelcontextprotocol/go-sdk/auth"

	"agentkernel"
	"agentkernel/internal/strictjson"
)

// JWTConfig says which JSON Web Tokens (RFC 7519) are let in beside listed tokens. Nothing is asked over the network.
type JWTConfig struct {
	// Keys is the content of a key file: a JWKS document (RFC 7517), PEM blocks of public keys or certificates, or a
	// shared secret of at least 32 bytes, in one word of printable ASCII. Each key serves one family of algorithms only, whatever a token says.
	Keys []byte
	// Audience must be among a token's `aud`: a token that was made for another service opens nothing here.
	Audience string
	// Issuer must be a token's `iss`; "": any whose key is known.
	Issuer string
}

// What a key must have at least, and how far clocks may differ.
const (
	minSecret = 32 // bytes
	minRSA    = 2048
	clockSkew = 30 * time.Second
	maxClaim  = 255 // bytes of a subject
	// maxSeconds bounds the times of a token: each second up to it is a number of its own in JSON.
	maxSeconds = 1 << 53
)

// verifyKey is a key with the algorithms that it may be used with.
type verifyKey struct {
	id   string // "": any token may mean it
	algs []string
	key  any
}

// jwtVerifier tells users by their tokens.
type jwtVerifier struct {
	keys   []verifyKey
	parser *jwt.Parser
}

func newJWTVerifier(cfg *JWTConfig, now func() time.Time) (*jwtVerifier, error) {
	if cfg.Audience == "" {
		return nil, badKeys("no audience: a token that was made for another service would be let in").
			WithHint("say what tokens for this server have as `aud`: --jwt-audience")
	}
	keys, err := parseKeys(cfg.Keys)
	if err != nil {
		return nil, err
	}
	var algs []string
	for _, k := range keys {
		algs = append(algs, k.algs...)
	}
	opts := []jwt.ParserOption{jwt.WithValidMethods(algs), jwt.WithExpirationRequired(), jwt.WithAudience(cfg.Audience),
		jwt.WithLeeway(clockSkew), jwt.WithTimeFunc(now), jwt.WithStrictDecoding()}
	if cfg.Issuer != "" {
		opts = append(opts, jwt.WithIssuer(cfg.Issuer))
	}
	return &jwtVerifier{keys: keys, parser: jwt.NewParser(opts...)}, nil
}

func badKeys(format string, args ...any) *agentkernel.Error {
	return agentkernel.Errorf(agentkernel.CodeInvalid, "mcp", format, args...)
}

// verify checks a token and names its user.
func (v *jwtVerifier) verify(token string) (*auth.TokenInfo, error) {
	var claims exactClaims
	_, err := v.parser.ParseWithClaims(token, &claims, v.keysFor)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %s", auth.ErrInvalidToken, strings.ToValidUTF8(err.Error(), "?"))
	case claims.Subject == "" || len(claims.Subject) > maxClaim:
		return nil, fmt.Errorf("%w: its subject (sub) is missing or too long", auth.ErrInvalidToken)
	}
	return &auth.TokenInfo{UserID: userOf(claims.Subject), Expiration: claims.ExpiresAt.Add(clockSkew),
		Extra: principal("jwt", claims.Issuer, claims.Subject)}, nil
}

// exactClaims are the claims of a token whose names are just so: they are case-sensitive (RFC 7519, section 10.1.1), and
// encoding/json takes "Sub" for "sub".
type exactClaims struct{ jwt.RegisteredClaims }

// UnmarshalJSON implements json.Unmarshaler.
func (c *exactClaims) UnmarshalJSON(raw []byte) error {
	all, err := exactObject(raw)
	if err != nil {
		return err
	}
	for name, into := range map[string]any{"iss": &c.Issuer, "sub": &c.Subject, "aud": &c.Audience, "exp": &c.ExpiresAt,
		"nbf": &c.NotBefore, "iat": &c.IssuedAt, "jti": &c.ID} {
		if v, ok := all[name]; ok {
			if err := json.Unmarshal(v, into); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if _, time := into.(**jwt.NumericDate); time && !possibleTime(v) {
				return fmt.Errorf("%s: it is no time that can be", name)
			}
		}
	}
	return nil
}

// possibleTime says whether the seconds of a claim are as many as jwt can tell: it takes more for a time long ago.
func possibleTime(raw []byte) bool {
	var n json.Number
	if json.Unmarshal(raw, &n) != nil || n == "" { // null
		return true
	}
	seconds, err := n.Float64()
	return err == nil && math.Abs(seconds) <= maxSeconds
}

// exactObject is an object of JSON in which no name is there twice and every text is Unicode: two that are none decode to the same.
func exactObject(raw []byte) (all map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	if !utf8.Valid(raw) || strictjson.LoneSurrogate(raw) >= 0 {
		return nil, errors.New("a text in it is no Unicode")
	}
	return all, strictjson.Check(raw, all)
}

// keysFor gives the keys that may have signed a token: those of its algorithm and, if it names one, of its key id.
func (v *jwtVerifier) keysFor(t *jwt.Token) (any, error) {
	encoded, _, _ := strings.Cut(t.Raw, ".")
	header, err := base64.RawURLEncoding.DecodeString(encoded)
	if err == nil {
		_, err = exactObject(header)
	}
	if err != nil {
		return nil, fmt.Errorf("its header: %w", err)
	}
	if _, ok := t.Header["crit"]; ok { // RFC 7515, section 4.1.11
		return nil, errors.New("its header demands extensions (crit), and none is known")
	}
	id, isText := t.Header["kid"].(string)
	if _, ok := t.Header["kid"]; ok && !isText {
		return nil, errors.New("its key id (kid) is no text")
	}
	var set jwt.VerificationKeySet
	for _, k := range v.keys {
		if slices.Contains(k.algs, t.Method.Alg()) && (id == "" || k.id == "" || k.id == id) {
			set.Keys = append(set.Keys, k.key)
		}
	}
	if len(set.Keys) == 0 {
		return nil, errors.New("no key of that id and algorithm is known")
	}
	return set, nil
}

// hashedUser begins the name of a user whose subject cannot be a name.
const hashedUser = "sub-"

// userOf makes a user's name of a subject: itself if it is a plain name, else a hash that no other subject has.
func userOf(subject string) string {
	if plainUser(subject) && !strings.HasPrefix(subject, hashedUser) {
		return subject
	}
	sum := sha256.Sum256([]byte(subject))
	return hashedUser + hex.EncodeToString(sum[:16])
}

// parseKeys reads a key file.
func parseKeys(content []byte) ([]verifyKey, error) {
	text := strings.TrimSpace(strings.TrimPrefix(string(content), "\ufeff"))
	switch {
	case text == "":
		return nil, badKeys("the key file is empty")
	case strings.HasPrefix(text, "{"):
		return parseJWKS([]byte(text))
	case strings.Contains(text, "-----BEGIN "):
		return parsePEM([]byte(text))
	}
	if what := noSecret(text); what != "" {
		return nil, badKeys("the key file is none: it holds %s; a JWKS document, PEM blocks of public keys or certificates, or a shared secret in one word is needed", what).
			WithHint("openssl rand -hex 32 makes a shared secret; ssh-keygen -e -m pkcs8 -f KEY.pub writes a key of ssh as PEM")
	}
	if len(text) < minSecret {
		return nil, badKeys("the shared secret has %d bytes; at least %d are needed", len(text), minSecret).WithHint("openssl rand -hex 32")
	}
	return []verifyKey{{algs: []string{"HS256"}, key: []byte(text)}}, nil
}

// noSecret says what a text is that nobody should take for a shared secret: something public, which anybody could sign tokens
// with. "": it may be one.
func noSecret(text string) string {
	decoded := decodedWord(text)
	switch {
	case ofSSH(text, decoded):
		return "a key of ssh"
	case strings.Contains(text, "://"):
		return "an address"
	case strings.ContainsAny(text, "<[{"):
		return "a page, a list or another document"
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "more than one word, or what is no printable ASCII"
	case strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2:
		return "a token"
	case json.Valid(decoded), bytes.Contains(decoded, []byte("-----BEGIN ")), isPublicDER(decoded):
		return "a public key or a document in base64 or hex"
	}
	return ""
}

// ofSSH says whether a text is a public key as ssh writes it, or begins so; decoded is what it stands for.
func ofSSH(text string, decoded []byte) bool {
	return strings.HasPrefix(text, "ssh-") || strings.HasPrefix(text, "ecdsa-") || strings.HasPrefix(text, "sk-ssh-") || strings.HasPrefix(text, "sk-ecdsa-") ||
		bytes.HasPrefix(decoded, []byte("\x00\x00\x00\x07ssh-")) || bytes.HasPrefix(decoded, []byte("\x00\x00\x00\x0bssh-")) || bytes.HasPrefix(decoded, []byte("\x00\x00\x00\x13ecdsa-"))
}

// public says that a word of a file of tokens is one that others know.
func public(token string) bool {
	decoded := decodedWord(token)
	return ofSSH(token, decoded) || isPublicDER(decoded) || strings.ContainsAny(token[:1], "{[<")
}

// decodedWord is what a word stands for that is hex or base64 of either alphabet; empty: it is neither.
func decodedWord(text string) []byte {
	if b, err := hex.DecodeString(text); err == nil {
		return b
	}
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return b
}

func isPublicDER(b []byte) bool {
	_, err1 := x509.ParsePKIXPublicKey(b)
	_, err2 := x509.ParsePKCS1PublicKey(b)
	_, err3 := x509.ParseCertificate(b)
	return err1 == nil || err2 == nil || err3 == nil
}

func parsePEM(rest []byte) ([]verifyKey, error) {
	var keys []verifyKey
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		key, err := publicKey(block)
		if err != nil {
			return nil, err
		}
		k := verifyKey{key: key}
		if k.algs, err = algsOf(key); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, badKeys("the key file has no PEM block that can be read")
	}
	return keys, nil
}

func publicKey(block *pem.Block) (any, error) {
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	default:
		return nil, badKeys("the key file has a %.40q; public keys and certificates are needed", block.Type).
			WithHint("openssl pkey -in private.pem -pubout")
	}
	if err != nil {
		return nil, badKeys("a key of the key file cannot be read: %w", err)
	}
	return key, nil
}

// algsOf says what a public key verifies.
func algsOf(key any) ([]string, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return nil, badKeys("an RSA key of %d bits is too short; at least %d are needed", k.N.BitLen(), minRSA)
		}
		return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, nil
	case *ecdsa.PublicKey:
		if alg := map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"}[k.Curve]; alg != "" {
			return []string{alg}, nil
		}
	case ed25519.PublicKey:
		return []string{"EdDSA"}, nil
	}
	return nil, badKeys("a key of the type %T verifies no tokens; RSA, ECDSA (P-256, P-384, P-521) and Ed25519 do", key)
}

// jwk is a JSON Web Key, as far as it is of use here.
type jwk struct {
	Type  string `json:"kty"`
	ID    string `json:"kid"`
	Use   string `json:"use"`
	Alg   string `json:"alg"`
	Curve string `json:"crv"`
	N     string `json:"n"`
	E     string `json:"e"`
	X     string `json:"x"`
	Y     string `json:"y"`
	K     string `json:"k"`
}

func parseJWKS(content []byte) ([]verifyKey, error) {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, badKeys("the key file is no JWKS document: %w", err)
	}
	if err := strictjson.CheckKnown(content, &set); err != nil {
		return nil, badKeys("the key file cannot be used: %w", err)
	}
	var keys []verifyKey
	var problems error
	for i, j := range set.Keys {
		if j.Use != "" && j.Use != "sig" {
			continue
		}
		k, err := j.verifyKey()
		if err != nil { // a set may hold keys for others (RFC 7517, section 5)
			problems = errors.Join(problems, fmt.Errorf("key %d: %w", i+1, err))
			continue
		}
		keys = append(keys, k)
	}
	switch {
	case len(keys) > 0:
		return keys, nil
	case problems != nil:
		return nil, badKeys("no key of the key file can be used: %w", problems)
	}
	return nil, badKeys(`the key file has no "keys" that verify signatures`)
}

func (j *jwk) verifyKey() (verifyKey, error) {
	out := verifyKey{id: j.ID}
	var err error
	switch {
	case j.Type == "oct":
		var secret []byte
		if secret, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(j.K, "=")); err == nil && len(secret) < minSecret {
			err = fmt.Errorf("a secret of %d bytes is too short; at least %d are needed", len(secret), minSecret)
		}
		out.key, out.algs = secret, []string{"HS256", "HS384", "HS512"}
	default:
		if out.key, err = j.publicKey(); err == nil {
			out.algs, err = algsOf(out.key)
		}
	}
	if err != nil {
		return out, err
	}
	if j.Alg != "" {
		if !slices.Contains(out.algs, j.Alg) {
			return out, fmt.Errorf("its algorithm %.20q does not fit its type", j.Alg)
		}
		out.algs = []string{j.Alg}
	}
	return out, nil
}

func (j *jwk) publicKey() (crypto.PublicKey, error) {
	number := func(s string) (*big.Int, error) {
		b, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil || len(b) == 0 {
			return nil, errors.New("a member is missing or no base64url")
		}
		return new(big.Int).SetBytes(b), nil
	}
	switch {
	case j.Type == "RSA":
		n, err1 := number(j.N)
		e, err2 := number(j.E)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if !e.IsInt64() || e.Int64() < 3 || e.Int64() >= 1<<31 {
			return nil, errors.New("its exponent cannot be")
		}
		return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
	case j.Type == "EC":
		curve := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}[j.Curve]
		x, err1 := base64.RawURLEncoding.DecodeString(j.X)
		y, err2 := base64.RawURLEncoding.DecodeString(j.Y)
		if err := errors.Join(err1, err2); err != nil || curve == nil {
			return nil, errors.New("its curve is not known, or a member is no base64url")
		}
		return ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y)) // refuses points off the curve
	case j.Type == "OKP" && j.Curve == "Ed25519":
		x, err := base64.RawURLEncoding.DecodeString(j.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, errors.New("it is no Ed25519 key")
		}
		return ed25519.PublicKey(x), nil
	}
	return nil, fmt.Errorf("its type %.20q is not known: RSA, EC, OKP (Ed25519) or oct", j.Type)
}
