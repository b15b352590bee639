package e2e_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"agentkernel"
	"agentkernel/internal/mcpserver"
)

const audience = "agentkernel-test"

// claims are those of a good token, changed.
func claims(sub string, change ...func(jwt.MapClaims)) jwt.MapClaims {
	c := jwt.MapClaims{"sub": sub, "aud": []string{"other", audience}, "iss": "https://id.example", "exp": time.Now().Add(time.Hour).Unix()}
	for _, f := range change {
		f(c)
	}
	return c
}

func sign(t *testing.T, method jwt.SigningMethod, key any, c jwt.Claims, kid string) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serveJWT serves a kernel over HTTP to the bearers of signed tokens.
func serveJWT(t *testing.T, k agentkernel.Kernel, keys []byte) string {
	t.Helper()
	return serveHandler(t, mcpConfig(k, ""), mcpserver.HTTPConfig{Tokens: map[string]string{annToken: "ann"},
		JWT: &mcpserver.JWTConfig{Keys: keys, Audience: audience, Issuer: "https://id.example"}})
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// keyPairs are one key of each kind, and the JWKS document that has them all.
type keyPairs struct {
	rsa    *rsa.PrivateKey
	ec     *ecdsa.PrivateKey
	ed     ed25519.PrivateKey
	secret []byte
	jwks   []byte
}

func newKeys(t *testing.T) *keyPairs {
	t.Helper()
	var k keyPairs
	var err1, err2, err3 error
	k.rsa, err1 = rsa.GenerateKey(rand.Reader, 2048)
	k.ec, err2 = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, k.ed, err3 = ed25519.GenerateKey(rand.Reader)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	k.secret = []byte("a/shared+secret,of:thirty-two.bytes_or?more")
	point, err := k.ec.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	k.jwks, err = json.Marshal(map[string]any{"keys": []map[string]string{
		{"kty": "RSA", "kid": "r", "use": "sig", "alg": "RS256", "n": b64(k.rsa.N.Bytes()), "e": b64(big.NewInt(int64(k.rsa.E)).Bytes())},
		{"kty": "EC", "kid": "e", "crv": "P-256", "x": b64(point[1:33]), "y": b64(point[33:])},
		{"kty": "OKP", "kid": "d", "crv": "Ed25519", "x": b64(k.ed.Public().(ed25519.PublicKey))},
		{"kty": "oct", "kid": "s", "alg": "HS256", "k": b64(k.secret)},
		{"kty": "RSA", "kid": "enc", "use": "enc", "n": "AQAB", "e": "AQAB"},
		{"kty": "LMS", "kid": "of another time"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &k
}

func knock(t *testing.T, url, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// A signed token opens the door if its key, algorithm, audience, issuer and time are right, and nothing else does.
func TestMCPSignedTokens(t *testing.T) {
	k := newKeys(t)
	url := serveJWT(t, openEmbedded(t, home(t)), k.jwks)
	set := func(name string, v any) func(jwt.MapClaims) { return func(c jwt.MapClaims) { c[name] = v } }
	drop := func(name string) func(jwt.MapClaims) { return func(c jwt.MapClaims) { delete(c, name) } }
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&k.rsa.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	good := sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl"), "r")
	parts := strings.Split(good, ".")
	forged := b64([]byte(`{"sub":"ann","aud":"` + audience + `","iss":"https://id.example","exp":9999999999}`))
	for name, c := range map[string]struct {
		token string
		want  int
	}{
		"RS256":             {good, 200},
		"RS256, no kid":     {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl"), ""), 200},
		"ES256":             {sign(t, jwt.SigningMethodES256, k.ec, claims("carl"), "e"), 200},
		"EdDSA":             {sign(t, jwt.SigningMethodEdDSA, k.ed, claims("carl"), "d"), 200},
		"HS256":             {sign(t, jwt.SigningMethodHS256, k.secret, claims("carl"), "s"), 200},
		"a listed token":    {annToken, 200},
		"one audience":      {sign(t, jwt.SigningMethodHS256, k.secret, claims("carl", set("aud", audience)), "s"), 200},
		"none":              {sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims("carl"), ""), 401},
		"other algorithm":   {sign(t, jwt.SigningMethodRS512, k.rsa, claims("carl"), "r"), 401},
		"confused":          {sign(t, jwt.SigningMethodHS256, public, claims("carl"), "r"), 401},
		"confused, raw":     {sign(t, jwt.SigningMethodHS256, k.rsa.N.Bytes(), claims("carl"), ""), 401},
		"other key":         {sign(t, jwt.SigningMethodRS256, other, claims("carl"), "r"), 401},
		"other key's id":    {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl"), "e"), 401},
		"unknown id":        {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl"), "zzz"), 401},
		"expired":           {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", set("exp", time.Now().Add(-time.Hour).Unix())), "r"), 401},
		"for ever":          {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", drop("exp")), "r"), 401},
		"not in this world": {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", set("nbf", 1e300)), "r"), 401},
		"never made":        {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", set("iat", -1e300)), "r"), 401},
		"for aeons":         {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", set("exp", 1e300)), "r"), 401},
		"from the start":    {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", set("nbf", 0), set("exp", 253402300799)), "r"), 200},
		"not yet":           {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", set("nbf", time.Now().Add(time.Hour).Unix())), "r"), 401},
		"for another":       {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", set("aud", "other")), "r"), 401},
		"for nobody":        {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", drop("aud")), "r"), 401},
		"by another":        {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", set("iss", "https://evil.example")), "r"), 401},
		"by nobody":         {sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", drop("iss")), "r"), 401},
		"of nobody":         {sign(t, jwt.SigningMethodRS256, k.rsa, claims(""), "r"), 401},
		"no subject":        {sign(t, jwt.SigningMethodRS256, k.rsa, claims("x", drop("sub")), "r"), 401},
		"long subject":      {sign(t, jwt.SigningMethodRS256, k.rsa, claims(strings.Repeat("x", 256)), "r"), 401},
		"subject no text":   {sign(t, jwt.SigningMethodRS256, k.rsa, claims("x", set("sub", []int{1})), "r"), 401},
		"changed":           {parts[0] + "." + forged + "." + parts[2], 401},
		"without signature": {parts[0] + "." + parts[1] + ".", 401},
		"cut":               {good[:len(good)-5], 401},
		"longer":            {good + "=", 401},
		"dots":              {"..", 401},
		"large":             {strings.Repeat("a", 30_000) + "." + strings.Repeat("b", 10_000) + ".c", 401},
	} {
		if got := knock(t, url, c.token); got != c.want {
			t.Errorf("%s: HTTP %d, not %d", name, got, c.want)
		}
	}
	for why, change := range map[string]func(jwt.MapClaims){
		"expired": set("exp", time.Now().Add(-time.Hour).Unix()), "audience": set("aud", "other"), "issuer": set("iss", "https://evil.example"), "exp ": drop("exp"),
	} {
		res := rawMCP{t, url, sign(t, jwt.SigningMethodRS256, k.rsa, claims("carl", change), "r")}.do("POST", "", rawHello)
		if text := said(t, res); !strings.Contains(text, "HTTP 401") || !strings.Contains(text, why) {
			t.Errorf("the body does not say why: %s", text)
		}
	}
}

// The subject is the user: of state, sessions, tasks and skills. No two subjects are one user.
func TestMCPSubjectsAreUsers(t *testing.T) {
	k, kernel := newKeys(t), openEmbedded(t, home(t))
	url := serveJWT(t, kernel, k.jwks)
	sum := sha256.Sum256([]byte("auth0|carl"))
	hashed := fmt.Sprintf("sub-%x", sum[:16]) // as that one is called inside
	subjects := []string{"carl", "Carl", "carl ", "auth0|carl", "../carl", "default/carl", "", hashed, "sub-", strings.Repeat("x", 255), "ü"}
	ask := func(sub, name string, a args, want string) {
		t.Helper()
		tool(t, dialHTTP(t, url, sign(t, jwt.SigningMethodES256, k.ec, claims(sub), "e"), nil), name, a, want)
	}
	for _, sub := range subjects {
		if sub == "" {
			continue
		}
		ask(sub, "get_state", nil, `"exists":false`)
		ask(sub, "list_skills", nil, "no skills")
		ask(sub, "save_state", args{"state_data": sub}, `"version":1`)
		ask(sub, "save_skill", args{"name": "own", "code": fmt.Sprintf("def f():\n    return %q\n", sub)}, "version 1")
		ask(sub, "list_background_tasks", nil, "no background tasks")
		ask(sub, "dispatch_background_task", args{"code": "1"}, "task")
	}
	for _, sub := range subjects {
		if sub != "" { // a new connection each time: a token of the same subject is the same user
			ask(sub, "execute_code", args{"code": "from skills.own import f\nf()"}, fmt.Sprintf("result: %q", sub))
		}
	}
	tool(t, dialHTTP(t, url, annToken, nil), "list_skills", nil, "no skills")
	ask("ann", "get_state", nil, `"exists":false`)
	tool(t, dialHTTP(t, url, annToken, nil), "save_state", args{"state_data": "of either token"}, `"version":1`)
	ask("ann", "get_state", nil, "of either token")
	tool(t, dialHTTP(t, url, annToken, nil), "dispatch_background_task", args{"code": "1"}, "task")
	for _, ns := range []string{"default/ann", "default/carl", "default/" + hashed} {
		if of, err := kernel.List(t.Context(), agentkernel.Filter{Namespace: ns}); err != nil || len(of) == 0 {
			t.Errorf("no process in the namespace %s: %v", ns, err)
		}
	}
}

// Names in a token are compared exactly, each may be there once, and a header that demands what this server does not know is refused.
func TestMCPNamesInSignedTokens(t *testing.T) {
	k, kernel := newKeys(t), openEmbedded(t, home(t))
	url := serveJWT(t, kernel, k.jwks)
	raw := func(header, claims string) string {
		text := b64([]byte(header)) + "." + b64([]byte(claims))
		signature, err := jwt.SigningMethodHS256.Sign(text, k.secret)
		if err != nil {
			t.Fatal(err)
		}
		return text + "." + b64(signature)
	}
	const header, iss = `{"alg":"HS256","kid":"s"}`, `"iss":"https://id.example"`
	later := fmt.Sprintf(`"exp":%d`, time.Now().Add(time.Hour).Unix())
	good := `{"sub":"mallory","aud":"` + audience + `",` + iss + `,` + later
	for name, c := range map[string]struct {
		header, claims string
		want           int
	}{
		"good":                      {header, good + `}`, 200},
		"other claims, any case":    {header, good + `,"Sub":"ann","AUD":5,"x":{"a":1,"a":2}}`, 200},
		"no lower-case sub":         {header, `{"Sub":"ann","aud":"` + audience + `",` + iss + `,` + later + `}`, 401},
		"audience in another case":  {header, `{"sub":"mallory","aud":"other","Aud":"` + audience + `",` + iss + `,` + later + `}`, 401},
		"time in another case":      {header, `{"sub":"mallory","aud":"` + audience + `",` + iss + `,"exp":1,"Exp":9999999999}`, 401},
		"issuer in another case":    {header, `{"sub":"mallory","aud":"` + audience + `","ISS":"https://id.example",` + later + `}`, 401},
		"subject twice":             {header, good + `,"sub":"ann"}`, 401},
		"subject twice, escaped":    {header, good + `,"s\u0075b":"ann"}`, 401},
		"another claim twice":       {header, good + `,"role":"a","role":"b"}`, 401},
		"subject with half a rune":  {header, `{"sub":"\ud800","aud":"` + audience + `",` + iss + `,` + later + `}`, 401},
		"subject that is no UTF-8":  {header, "{\"sub\":\"\xff\",\"aud\":\"" + audience + `",` + iss + `,` + later + `}`, 401},
		"claims are null":           {header, `null`, 401},
		"claims are a list":         {header, `[]`, 401},
		"crit":                      {`{"alg":"HS256","kid":"s","crit":["b64"],"b64":true}`, good + `}`, 401},
		"crit, empty":               {`{"alg":"HS256","kid":"s","crit":[]}`, good + `}`, 401},
		"crit, null":                {`{"alg":"HS256","kid":"s","crit":null}`, good + `}`, 401},
		"algorithm in another case": {`{"Alg":"HS256","kid":"s"}`, good + `}`, 401},
		"key in another case":       {`{"alg":"HS256","kid":"zzz","Kid":"s"}`, good + `}`, 401},
		"key twice":                 {`{"alg":"HS256","kid":"zzz","kid":"s"}`, good + `}`, 401},
		"algorithm twice":           {`{"alg":"none","alg":"HS256","kid":"s"}`, good + `}`, 401},
		"key is no text":            {`{"alg":"HS256","kid":5}`, good + `}`, 401},
	} {
		if got := knock(t, url, raw(c.header, c.claims)); got != c.want {
			t.Errorf("%s: HTTP %d, not %d", name, got, c.want)
		}
	}
	tool(t, dialHTTP(t, url, annToken, nil), "save_state", args{"state_data": "ann's"}, `"version":1`)
	tool(t, dialHTTP(t, url, raw(header, good+`,"Sub":"ann"}`), nil), "get_state", nil, `"exists":false`)
}

func TestMCPKeyFiles(t *testing.T) {
	k := newKeys(t)
	der, err := x509.MarshalPKIXPublicKey(&k.ec.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k.ec)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, k.ec.Public(), k.ec)
	if err != nil {
		t.Fatal(err)
	}
	token := sign(t, jwt.SigningMethodES256, k.ec, claims("carl"), "any")
	kernel := openEmbedded(t, home(t))
	if got := knock(t, serveJWT(t, kernel, public), token); got != 200 {
		t.Errorf("PEM: HTTP %d", got)
	}
	if got := knock(t, serveJWT(t, kernel, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})), token); got != 200 {
		t.Errorf("a certificate: HTTP %d", got)
	}
	if got := knock(t, serveJWT(t, kernel, append(k.secret, '\n')), sign(t, jwt.SigningMethodHS256, k.secret, claims("carl"), "")); got != 200 {
		t.Errorf("a secret: HTTP %d", got)
	}
	if got := knock(t, serveJWT(t, kernel, append([]byte("\ufeff"), k.jwks...)), token); got != 401 { // no key of that id
		t.Errorf("JWKS with a byte order mark, another key: HTTP %d", got)
	}
	if got := knock(t, serveJWT(t, kernel, append([]byte("\ufeff"), k.jwks...)), sign(t, jwt.SigningMethodES256, k.ec, claims("carl"), "e")); got != 200 {
		t.Errorf("JWKS with a byte order mark: HTTP %d", got)
	}
	for _, secret := range []string{hex.EncodeToString(der[:32]), base64.StdEncoding.EncodeToString(der[3:40]), b64(der[5:45]), "Correct.Horse-Battery/Staple!Is#Long&Enough"} {
		if got := knock(t, serveJWT(t, kernel, []byte(secret)), sign(t, jwt.SigningMethodHS256, []byte(secret), claims("carl"), "")); got != 200 {
			t.Errorf("the secret %s: HTTP %d", secret, got)
		}
	}
	s, err := mcpserver.New(mcpConfig(kernel, ""))
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]mcpserver.JWTConfig{
		"empty":        {Keys: []byte(" \n"), Audience: audience},
		"short":        {Keys: []byte("too-short"), Audience: audience},
		"a list":       {Keys: []byte(`[{"kty":"oct","k":"` + b64(k.secret) + `"}]`), Audience: audience},
		"ssh":          {Keys: []byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHcvgWTqSmJ0z0Yl3nq2cV7wX1mUqkTt6Rr4FfXo9xYz me@host\n"), Audience: audience},
		"ssh, a word":  {Keys: []byte("AAAAC3NzaC1lZDI1NTE5AAAAIHcvgWTqSmJ0z0Yl3nq2cV7wX1mUqkTt6Rr4FfXo9xYz"), Audience: audience},
		"a page":       {Keys: []byte("<!DOCTYPE html><html><body>404 Not Found</body></html>\n"), Audience: audience},
		"words":        {Keys: []byte("a shared secret of thirty-two bytes, or more"), Audience: audience},
		"lines":        {Keys: []byte(b64(k.secret) + "\n" + b64(k.secret) + "\n"), Audience: audience},
		"an address":   {Keys: []byte("https://id.example/.well-known/jwks.json"), Audience: audience},
		"UTF-16":       {Keys: []byte("\xff\xfe{\x00\"\x00k\x00e\x00y\x00s\x00\"\x00:\x00[\x00]\x00}\x00........"), Audience: audience},
		"a BOM inside": {Keys: append([]byte("\ufeff\ufeff"), k.jwks...), Audience: audience},
		"DER, base64":  {Keys: []byte(base64.StdEncoding.EncodeToString(der)), Audience: audience},
		"DER, hex":     {Keys: []byte(hex.EncodeToString(der)), Audience: audience},
		"JWKS, base64": {Keys: []byte(b64(k.jwks)), Audience: audience},
		"a token":      {Keys: []byte(token), Audience: audience},
		"private key":  {Keys: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), Audience: audience},
		"damaged":      {Keys: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der[4:]}), Audience: audience},
		"no JWKS":      {Keys: []byte(`{"keys": 5}`), Audience: audience},
		"other case":   {Keys: []byte(`{"keys": [{"kty":"oct","K":"` + b64(k.secret) + `"}]}`), Audience: audience},
		"twice":        {Keys: []byte(`{"keys": [{"kty":"oct","k":"c2hvcnQ","k":"` + b64(k.secret) + `"}]}`), Audience: audience},
		"no keys":      {Keys: []byte(`{"keys": []}`), Audience: audience},
		"weak RSA":     {Keys: []byte(`{"keys": [{"kty":"RSA","n":"` + strings.Repeat("A", 100) + `B","e":"AQAB"}]}`), Audience: audience},
		"weak secret":  {Keys: []byte(`{"keys": [{"kty":"oct","k":"c2hvcnQ"}]}`), Audience: audience},
		"off curve":    {Keys: []byte(`{"keys": [{"kty":"EC","crv":"P-256","x":"` + b64(make([]byte, 32)) + `","y":"` + b64(make([]byte, 32)) + `"}]}`), Audience: audience},
		"none":         {Keys: []byte(`{"keys": [{"kty":"oct","alg":"none","k":"` + b64(k.secret) + `"}]}`), Audience: audience},
		"no audience":  {Keys: public},
		"only to hide": {Keys: []byte(`{"keys": [{"kty":"RSA","use":"enc","n":"AQAB","e":"AQAB"}]}`), Audience: audience},
	} {
		if _, err := s.Handler(mcpserver.HTTPConfig{JWT: &bad}); agentkernel.CodeOf(err) != agentkernel.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), string(bad.Keys)) {
			t.Errorf("%s: the error shows the keys: %v", name, err)
		}
	}
}
