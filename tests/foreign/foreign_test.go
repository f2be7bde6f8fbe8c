// Package foreign runs verifiers that are not ours, unmodified, over stream directories that are.
package foreign

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// fsck is Tessera's checker, pinned in go.mod.
const fsck = "github.com/transparency-dev/tessera/cmd/fsck"

func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "fsck")
	out, err := exec.Command("go", "build", "-o", binary, fsck).CombinedOutput()
	if err != nil {
		t.Fatalf("fsck does not build: %v\n%s", err, out)
	}
	return binary
}

func check(binary, folder, key, origin string) error {
	url := "file://" + folder + "/"
	out, err := exec.Command(binary, "--storage_url="+url, "--public_key="+key,
		"--origin="+origin, "--ui=false", "--N=2").CombinedOutput()
	// Without its screen the checker reports a broken log and still exits with 0.
	if err != nil || !strings.Contains(string(out), "Successfully fsck'd log") {
		return fmt.Errorf("%v: %s", err, out)
	}
	return nil
}

// streams are the directories to check: synthetic ones at many sizes, and those of a log that the
// program itself wrote.
func streams(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(os.Getenv("PROBITY_STREAMS"), "*"))
	if err != nil || len(folders) == 0 {
		t.Fatal("PROBITY_STREAMS names no folder of stream directories")
	}
	log := filepath.Join(t.TempDir(), "log")
	run(t, "", "init", log, "--origin", "foreign.example")
	var lines strings.Builder
	for number := 0; number < 1000; number++ {
		fmt.Fprintf(&lines, "{\"action\":\"read\",\"key\":\"user:%d\"}\n", number)
	}
	for round := 0; round < 5; round++ {
		run(t, lines.String(), "append", log, "-")
	}
	return append(folders, filepath.Join(log, "streams/default"), filepath.Join(log, "streams/journal"))
}

func run(t *testing.T, input string, arguments ...string) {
	t.Helper()
	command := exec.Command(os.Getenv("PROBITY"), arguments...)
	command.Stdin = strings.NewReader(input)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("probity %v: %v\n%s", arguments, err, out)
	}
}

func origin(t *testing.T, folder string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitN(string(text), "\n", 2)[0]
}

func TestTesseraFsckAcceptsEveryStream(t *testing.T) {
	binary := build(t)
	for _, folder := range streams(t) {
		key := filepath.Join(folder, "log.vkey")
		if err := check(binary, folder, key, origin(t, folder)); err != nil {
			t.Errorf("%s is refused: %v", folder, err)
		}
	}
}

func TestTesseraFsckRefusesWhatWasTamperedWith(t *testing.T) {
	binary := build(t)
	folder := filepath.Join(os.Getenv("PROBITY_STREAMS"), "257")
	key := filepath.Join(folder, "log.vkey")
	for _, name := range []string{"checkpoint", "tile/0/000", "tile/0/001.p/1", "tile/1/000.p/1",
		"tile/entries/000", "tile/entries/001.p/1"} {
		path := filepath.Join(folder, name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := append([]byte(nil), content...)
		bad[len(bad)/2] ^= 1
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if check(binary, folder, key, origin(t, folder)) == nil {
			t.Errorf("a flipped bit in %s is accepted", name)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if check(binary, folder, key, "another.example/log") == nil {
		t.Error("another origin is accepted")
	}
}

// reader maps the tiles of golang.org/x/mod to our paths: they differ in the height and the word for data.
type reader struct{ folder string }

func (r reader) Height() int { return 8 }

func (r reader) SaveTiles([]tlog.Tile, [][]byte) {}

func (r reader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, tile := range tiles {
		path := strings.TrimPrefix(tile.Path(), "tile/8/")
		path = filepath.Join(r.folder, "tile", path)
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, content)
	}
	return all, nil
}

func TestGoChecksumDatabaseCodeProvesRecordsAndGrowth(t *testing.T) {
	for _, folder := range streams(t) {
		key, err := os.ReadFile(filepath.Join(folder, "log.vkey"))
		if err != nil {
			t.Fatal(err)
		}
		verifier, err := note.NewVerifier(strings.TrimSpace(string(key)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
		if err != nil {
			t.Fatal(err)
		}
		opened, err := note.Open(text, note.VerifierList(verifier))
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}
		lines := strings.Split(opened.Text, "\n")
		size, err := strconv.ParseInt(lines[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		root, err := tlog.ParseHash(lines[2])
		if err != nil {
			t.Fatal(err)
		}
		if size == 0 {
			continue
		}
		hashes := tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, reader{folder})
		for _, index := range []int64{0, size / 3, size - 1} {
			proof, err := tlog.ProveRecord(size, index, hashes)
			if err != nil {
				t.Errorf("%s, record %d: %v", folder, index, err)
				continue
			}
			leaf, err := hashes.ReadHashes([]int64{tlog.StoredHashIndex(0, index)})
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckRecord(proof, size, root, index, leaf[0]); err != nil {
				t.Errorf("%s, record %d: %v", folder, index, err)
			}
		}
		for _, old := range []int64{1, size/2 + 1, size} {
			before, err := tlog.TreeHash(old, hashes)
			if err != nil {
				t.Fatal(err)
			}
			proof, err := tlog.ProveTree(size, old, hashes)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckTree(proof, size, root, old, before); err != nil {
				t.Errorf("%s does not grow from %d: %v", folder, old, err)
			}
		}
	}
}
