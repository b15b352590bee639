package sqlite

import (
	"log/slog"
	"time"

	"agentkernel"
)

// Bounds that a Config may change.
const (
	// DefaultImageCache bounds the raw images kept in memory, in bytes: some 600 of a usual size. 20,000
	// parked processes are to cost at most 2 kB of memory each, this cache included.
	DefaultImageCache = 8 << 20
	// DefaultMaxImage bounds one raw image, in bytes.
	DefaultMaxImage = 256 << 20
	// DefaultMaxQueue bounds the payload that waits for the disk, in bytes; beyond it Append waits.
	DefaultMaxQueue = 64 << 20
)

// maxBatch bounds one batch in bytes: SQLite refuses values of a gigabyte, and a refusal in the middle of a
// commit would fail the store for everyone.
const maxBatch = 512 << 20

// BlobThreshold is the size in bytes from which a payload becomes a file below Config.Blobs.
const BlobThreshold = 32 << 10

// sharedThreshold is BlobThreshold for what many processes have in common.
const sharedThreshold = 2 << 10

// Config says where a database is and how to open it.
type Config struct {
	Path  string // the database file; its directory exists
	Blobs string // directory for the large payloads; made when first needed
	// Key authenticates images: 32 secret bytes of the data directory. A reader may go without; it
	// then refuses to read images.
	Key    []byte
	Clock  func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: discard

	ImageCache int64 // 0: DefaultImageCache; negative: no cache
	MaxImage   int64 // 0: DefaultMaxImage
	MaxQueue   int64 // 0: DefaultMaxQueue

	// NoCopy leaves out the copy of a database that is brought to a newer schema: the caller has another one.
	NoCopy bool
	// Idle says whether no kernel has the database open. Then a reader reads its files as they are, and changes none. Nil: one may
	// have, and a reader leaves it to SQLite to agree with it, which writes the index of the log.
	Idle func() bool
	// Lossy takes the database as it is, without a look for what is lost of it: for whoever deals with the loss before Close.
	// See AcceptLoss.
	Lossy bool
}

// idle says whether it is known that no kernel has the database open.
func (c Config) idle() bool { return c.Idle != nil && c.Idle() }

// alone is the configuration for a caller that holds the data directory, or is about to open the database.
func (c Config) alone() Config {
	c.Idle = func() bool { return true }
	return c
}

const keySize = 32

// withDefaults checks a Config and fills what it leaves out.
func (c Config) withDefaults(needKey bool) (Config, error) {
	switch {
	case c.Path == "":
		return c, agentkernel.Errorf(agentkernel.CodeInvalid, "store", "the configuration names no database file")
	case c.Blobs == "":
		return c, agentkernel.Errorf(agentkernel.CodeInvalid, "store", "the configuration names no directory for blobs")
	case len(c.Key) != keySize && (needKey || len(c.Key) != 0):
		return c, agentkernel.Errorf(agentkernel.CodeInvalid, "store",
			"the key that authenticates images must have %d bytes; this one has %d", keySize, len(c.Key))
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.ImageCache = orDefault(c.ImageCache, DefaultImageCache)
	c.MaxImage = orDefault(c.MaxImage, DefaultMaxImage)
	c.MaxQueue = orDefault(c.MaxQueue, DefaultMaxQueue)
	return c, nil
}

func orDefault(v, d int64) int64 {
	if v == 0 {
		return d
	}
	return v
}
