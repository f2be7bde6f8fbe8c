package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// What the program under test wrote is checked here by programs and packages of other people.

const (
	origin = "example.com/foreign"
	// Every run of the program opens the log anew, which the journal records in several frames:
	// after this many the journal has more than one full tile.
	runs      = 130
	mutations = 60
)

// probity runs the program under test, which the environment names.
func probity(t *testing.T, stdin string, args ...string) (string, int) {
	t.Helper()
	path := os.Getenv("PROBITY")
	if path == "" {
		t.Fatal("PROBITY must name the program under test; ./test foreign sets it")
	}
	command := exec.Command(path, args...)
	command.Stdin = strings.NewReader(stdin)
	output, err := command.CombinedOutput()
	if err != nil && command.ProcessState == nil {
		t.Fatalf("probity %s: %v", strings.Join(args, " "), err)
	}
	return string(output), command.ProcessState.ExitCode()
}

func mustProbity(t *testing.T, stdin string, args ...string) {
	t.Helper()
	if output, status := probity(t, stdin, args...); status != 0 {
		t.Fatalf("probity %s: status %d\n%s", strings.Join(args, " "), status, output)
	}
}

func buildFsck(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fsck")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/transparency-dev/tessera/cmd/fsck")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build fsck: %v\n%s", err, output)
	}
	return path
}

// fsckAccepts gives Tessera's verdict. The exit status is 0 after a failed check too.
func fsckAccepts(t *testing.T, fsck, folder, origin string) (bool, string) {
	t.Helper()
	command := exec.Command(fsck, "--storage_url=file://"+folder, "--origin="+origin,
		"--public_key="+filepath.Join(folder, "log.vkey"), "--N=2", "--ui=false")
	output, err := command.CombinedOutput()
	said := string(output)
	return err == nil && strings.Contains(said, "Successfully fsck'd log") && !strings.Contains(said, "fsck failed"), said
}

type stream struct {
	folder, origin string
	sizes          []string
}

func (s *stream) size(t *testing.T) string {
	t.Helper()
	checkpoint, err := os.ReadFile(filepath.Join(s.folder, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(checkpoint), "\n")[1]
}

func streams(t *testing.T, dir string) []*stream {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "streams"))
	if err != nil {
		t.Fatal(err)
	}
	var found []*stream
	for _, entry := range entries {
		found = append(found, &stream{
			folder: filepath.Join(dir, "streams", entry.Name()),
			origin: origin + "/streams/" + entry.Name(),
		})
	}
	return found
}

// makeLog writes a log of several streams in many runs and notes the sizes each stream had.
func makeLog(t *testing.T) (string, []*stream) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	mustProbity(t, "", "init", dir, "--origin", origin)
	mustProbity(t, "", "stream", "create", dir, "provable", "--proofs", "entry")
	mustProbity(t, "", "stream", "create", dir, "erasable", "--erasable")
	names := []string{"default", "provable", "erasable"}
	var known []*stream
	for run := range runs {
		var lines strings.Builder
		for i := range 1 + run%17 {
			fmt.Fprintf(&lines, `{"action":"read","key":"user:%d","subject":"%d","actor":"billing","payload":"run %d"}`+"\n", i, i, run)
		}
		mustProbity(t, lines.String(), "append", dir, "--stream", names[run%len(names)])
		if run == len(names) {
			known = streams(t, dir)
		}
		for _, stream := range known {
			stream.sizes = append(stream.sizes, stream.size(t))
		}
	}
	if len(known) != len(names)+2 {
		t.Fatalf("%d streams found, not %d, journal and heads", len(known), len(names))
	}
	return dir, known
}

func TestForeignVerifiersAcceptEveryStream(t *testing.T) {
	fsck := buildFsck(t)
	_, streams := makeLog(t)
	for _, stream := range streams {
		t.Logf("%s: size %s", stream.origin, stream.size(t))
		if accepted, said := fsckAccepts(t, fsck, stream.folder, stream.origin); !accepted {
			t.Errorf("fsck rejects %s:\n%s", stream.origin, said)
		}
		vkey := filepath.Join(stream.folder, "log.vkey")
		if err := checkTree(stream.folder, vkey, stream.origin, strings.Join(stream.sizes, ",")); err != nil {
			t.Errorf("the Go packages reject %s: %v", stream.origin, err)
		}
	}
}

// published gives the files of a stream that its checkpoint covers, without partial files that
// later ones stand for and without the segments, which foreign verifiers do not know.
func published(t *testing.T, folder string, size int64) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		current := fmt.Sprintf("/%03d.p/%d", size/tileWidth, size%tileWidth)
		isTile := strings.HasPrefix(name, "tile/0/") || strings.HasPrefix(name, "tile/entries/")
		if name == "checkpoint" || isTile && (!strings.Contains(name, ".p/") || strings.HasSuffix(name, current)) {
			files = append(files, name)
		}
		return err
	})
	if err != nil || len(files) < 3 {
		t.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	return files
}

func TestChangedLogsAreRejectedByForeignVerifiersAndByOurs(t *testing.T) {
	fsck := buildFsck(t)
	dir, streams := makeLog(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range mutations {
		stream := streams[random.IntN(len(streams))]
		var size int64
		if _, err := fmt.Sscan(stream.size(t), &size); err != nil {
			t.Fatal(err)
		}
		files := published(t, stream.folder, size)
		name := files[random.IntN(len(files))]
		path := filepath.Join(stream.folder, name)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Clone(content)
		// The last letter of a signature carries two bits that Go's base64 ignores, and the journal's second line is of a key
		// that they are not given.
		seen := len(changed)
		if name == "checkpoint" {
			seen = bytes.Index(changed, []byte("\n\n")) + 2
			seen += bytes.IndexByte(changed[seen:], '\n') + 1
		}
		at := random.IntN(seen - 4)
		changed[at] ^= 1 << random.IntN(8)
		place := fmt.Sprintf("%s/%s, byte %d", stream.origin, name, at)
		write(t, path, changed)
		if accepted, _ := fsckAccepts(t, fsck, stream.folder, stream.origin); accepted {
			t.Errorf("fsck accepts a changed bit: %s", place)
		}
		vkey := filepath.Join(stream.folder, "log.vkey")
		if checkTree(stream.folder, vkey, stream.origin, "1") == nil {
			t.Errorf("the Go packages accept a changed bit: %s", place)
		}
		if output, status := probity(t, "", "verify", dir); status != 3 {
			t.Errorf("probity verify ends with %d, not 3, after a changed bit: %s\n%s", status, place, output)
		}
		write(t, path, content)
	}
	mustProbity(t, "", "verify", dir)
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// newestKey gives the key that signed the journal last, under the name of the log.
func newestKey(t *testing.T, dir string) string {
	t.Helper()
	vkey, err := os.ReadFile(filepath.Join(dir, "streams", "journal", "log.vkey"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := publicKey(strings.TrimSpace(string(vkey)))
	if err != nil {
		t.Fatal(err)
	}
	named, err := note.NewEd25519VerifierKey(origin, key)
	if err != nil {
		t.Fatal(err)
	}
	return named
}

// proofsMade is how many entries of the log are proved and checked.
const proofsMade = 12

func TestForeignPackagesAcceptEntryProofsAndNoChangedOnes(t *testing.T) {
	dir, _ := makeLog(t)
	newest := newestKey(t, dir)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for made := range proofsMade {
		index := made * 17
		file := filepath.Join(t.TempDir(), "entry.tlog-proof")
		mustProbity(t, "", "prove", dir, "--stream", "provable", "--index", fmt.Sprint(index), "-o", file, "--alone")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		row, err := checkEntry(text, newest)
		if err != nil {
			t.Fatalf("entry %d is refused: %v", index, err)
		}
		if !bytes.Contains(row, []byte("billing")) || !bytes.Contains(row, []byte("user:")) {
			t.Errorf("entry %d is not shown: %q", index, row)
		}
		for range mutations {
			at := random.IntN(len(text))
			changed := bytes.Clone(text)
			changed[at] ^= 1 << random.IntN(8)
			if _, err := checkEntry(changed, newest); err == nil && !blind(text, at) {
				t.Errorf("the Go packages accept a changed bit of the proof of entry %d, byte %d", index, at)
			}
			write(t, file, changed)
			vkey := filepath.Join(dir, "streams", "provable", "log.vkey")
			if output, status := probity(t, "", "check-proof", file, "--key", vkey); status != 3 {
				t.Errorf("check-proof ends with %d, not 3, after a changed bit of byte %d\n%s", status, at, output)
			}
		}
	}
}

// blind says whether the Go side cannot see a change at a byte of a proof: it takes the last letter of base64 as it comes.
func blind(text []byte, at int) bool {
	return at+1 < len(text) && (text[at+1] == '\n' || text[at+1] == '=')
}
