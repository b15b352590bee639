package setup

import (
	"context"
	"fmt"
	"strings"

	"agentkernel/internal/datadir"

	"agentkernel/internal/bytesize"
)

// checkStorage shows what takes how much room, and how near the quota is.
func checkStorage(ctx context.Context, o DoctorOptions) []Finding {
	dir := datadir.At(o.Home)
	if !dir.Begun() || o.Reader == nil {
		return ok("nothing yet")
	}
	k, err := o.Reader(ctx, o.Home)
	if err != nil {
		return ok("not known: the database cannot be read") // checkDatabase says why
	}
	defer k.Close()
	s, err := k.Storage(ctx)
	if err != nil {
		return failed(Warn, err)
	}
	parts, err := dir.Sizes(ctx)
	if err != nil {
		return failed(Warn, err)
	}
	s.Quota = o.Quota
	words := []string{"database " + bytesize.Rounded(s.Database), fmt.Sprintf("its log %s", bytesize.Rounded(s.Log)),
		fmt.Sprintf("%s %s", count(int(s.BlobFiles), "blob", "blobs"), bytesize.Rounded(s.Blobs))}
	if s.Unused > 0 {
		words[0] += " (" + bytesize.Rounded(s.Unused) + " of it free)"
	}
	for _, p := range parts {
		if p.Bytes > 0 {
			words = append(words, p.Name+" "+bytesize.Rounded(p.Bytes))
		}
	}
	text := strings.Join(words, ", ")
	if s.Quota > 0 {
		text = fmt.Sprintf("%s used of the quota of %s: %s", bytesize.Rounded(s.Used()), bytesize.Rounded(s.Quota), text)
	}
	if w := s.Warning(); w != "" {
		return warn("agentkernel prune --older 30d; or raise storage.quota", "%s; %s", w, text)
	}
	return ok("%s", text)
}
