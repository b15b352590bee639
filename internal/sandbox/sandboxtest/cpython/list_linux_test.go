package cpython

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// modules are those of every run, more those that take minutes beside them.
var modules = strings.Fields(`test_json test_re test_collections test_datetime test_sqlite3 test_csv test_time
	test_asyncio.test_futures test_asyncio.test_locks test_asyncio.test_queues test_asyncio.test_timeouts
	test_uuid test_secrets test_tempfile test_os test_pathlib test_shutil test_bisect test_calendar test_contextlib
	test_copy test_dataclasses test_enum test_functools test_heapq test_math test_string test_struct test_textwrap
	test_typing test_zlib`)

var more = strings.Fields(`test_threading test_decimal test_random test_asyncio.test_taskgroups test_queue test_statistics test_itertools`)

// difference is what ends in another way inside.
type difference struct {
	prefix string // of the name of a case
	reason string
}

const (
	sockets = "no sockets"
	clock   = "the clock of the processor is the kernel's clock"
	turns   = "the loop takes one result a turn, and timers that are due together are several results"
	nodes   = "no network card is asked for its address"
	groups  = "group 0 has no name"
	pinned  = "no `splice` and `sendfile` where no memory cgroup is"
)

var differences = []difference{
	{"test_os.TestSendfile.", sockets},
	{"test_pathlib.PathTest.test_is_socket_true", sockets},
	{"test_pathlib.PosixPathTest.test_is_socket_true", sockets},
	{"test_os.FDInheritanceTests.test_openpty", "no pseudo-terminals"},
	{"test_os.MemfdCreateTests.", "no files in memory (`memfd_create`) where no memory cgroup is"},
	{"test_os.FileTests.test_splice", pinned},
	{"test_os.ExtendedAttributeTests.", "no extended attributes: they are not counted"},
	{"test_shutil.TestZeroCopySendfile.", pinned},
	{"test_os.MakedirTests.test_exist_ok_s_isgid_directory", "no set-group-id bits"},
	{"test_shutil.TestArchives.test_make_archive_owner_group", groups},
	{"test_shutil.TestArchives.test_tarfile_root_owner", groups},
	{"test_time.TimeTestCase.test_process_time", clock},
	{"test_time.TimeTestCase.test_thread_time", clock},
	{"test_asyncio.test_locks.BarrierTests.test_repr", turns},
	{"test_asyncio.test_timeouts.TimeoutTests.test_nested_timeouts", turns},
	{"test_uuid.TestInternalsWithExtModule.test_", nodes},
	{"test_uuid.TestInternalsWithoutExtModule.test_", nodes},
}

// The page has the list, no more and no less.
func TestListIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/python.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `test_") {
			rows++
		}
	}
	for _, d := range differences {
		if row := fmt.Sprintf("| `%s` | %s |\n", d.prefix, d.reason); !strings.Contains(string(page), row) {
			t.Errorf("docs/python.md lacks the row\n%s", row)
		}
	}
	if rows != len(differences) {
		t.Errorf("docs/python.md has %d rows of tests, the list %d", rows, len(differences))
	}
}
