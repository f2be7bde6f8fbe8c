package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	formats "github.com/transparency-dev/formats/note"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A witness of other people, litewitness as its module ships it, follows the journal over changes of the signing key.

const (
	openings    = 10
	witnessWait = 20 * time.Second
)

// The tables as litewitness creates them have a row for each log that it follows.
const addLog = `import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=10)
db.execute("INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, '')", (sys.argv[2],))
db.execute("INSERT INTO key (origin, key) VALUES (?, ?)", (sys.argv[2], sys.argv[3]))
db.commit()`

type witness struct {
	url      string
	database string
	vkey     string
	verifier note.Verifier
}

// serveKey keeps a key for the witness, which asks for signatures over the protocol of ssh-agent.
func serveKey(t *testing.T, socket string) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := agent.NewKeyring()
	if err := keys.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(keys, connection)
		}
	}()
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return ssh.FingerprintSHA256(key)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// startWitness starts litewitness, which the environment names, and reads the key that it signs with from its log.
func startWitness(t *testing.T) *witness {
	t.Helper()
	path := os.Getenv("LITEWITNESS")
	if path == "" {
		t.Fatal("LITEWITNESS must name the foreign witness; ./test foreign sets it")
	}
	// Not in the test's own folder: the name of a socket has few letters.
	folder, err := os.MkdirTemp("", "witness")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket, database, address := filepath.Join(folder, "agent"), filepath.Join(folder, "db"), freeAddress(t)
	fingerprint := serveKey(t, socket)
	said, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	command := exec.Command(path, "-db", database, "-name", "witness.example/w", "-key", fingerprint,
		"-ssh-agent", socket, "-listen", address)
	command.Stdout, command.Stderr = said, said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	vkey := regexp.MustCompile(`vkey=(\S+)`)
	for limit := time.Now().Add(witnessWait); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(said.Name())
		if err != nil {
			t.Fatal(err)
		}
		connection, err := net.Dial("tcp", address)
		if found := vkey.FindSubmatch(text); found != nil && err == nil {
			connection.Close()
			verifier, err := formats.NewVerifierForCosignatureV1(string(found[1]))
			if err != nil {
				t.Fatal(err)
			}
			return &witness{url: "http://" + address, database: database, vkey: string(found[1]), verifier: verifier}
		}
	}
	text, _ := os.ReadFile(said.Name())
	t.Fatalf("litewitness does not start:\n%s", text)
	return nil
}

// follow makes the witness follow the log `origin` by one key.
func (w *witness) follow(t *testing.T, origin, vkey string) {
	t.Helper()
	command := exec.Command("python3", "-c", addLog, w.database, origin, vkey)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("the log cannot be added: %v\n%s", err, output)
	}
}

// add offers a checkpoint that grew from a tree of `old` leaves; it gives status and answer.
func (w *witness) add(t *testing.T, old int64, proof tlog.TreeProof, checkpoint []byte) (int, string) {
	t.Helper()
	var body bytes.Buffer
	fmt.Fprintf(&body, "old %d\n", old)
	for _, hash := range proof {
		fmt.Fprintf(&body, "%s\n", hash)
	}
	body.WriteByte('\n')
	body.Write(checkpoint)
	client := http.Client{Timeout: witnessWait}
	answer, err := client.Post(w.url+"/add-checkpoint", "text/plain", &body)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// journal is the journal of a log as it was when it was read.
type journal struct {
	checkpoint []byte
	tree       tlog.Tree
	folder     string
}

func readJournal(t *testing.T, dir, vkey string) *journal {
	t.Helper()
	folder := filepath.Join(dir, "streams", "journal")
	checkpoint, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "witness.vkey")
	write(t, file, []byte(vkey))
	tree, err := openSigned(checkpoint, file, origin+"/streams/journal")
	if err != nil {
		t.Fatalf("the journal's checkpoint does not open by the witness key: %v\n%s", err, checkpoint)
	}
	return &journal{checkpoint: checkpoint, tree: tree, folder: folder}
}

// grownFrom proves from the log's own tiles that the journal grew from a tree of `old` leaves.
func (j *journal) grownFrom(t *testing.T, old int64) tlog.TreeProof {
	t.Helper()
	if old == 0 || old >= j.tree.N {
		return nil
	}
	tiles := &tileFiles{dir: j.folder, kept: map[tlog.Tile][]byte{}}
	proof, err := tlog.ProveTree(j.tree.N, old, tlog.TileHashReader(j.tree, tiles))
	if err != nil {
		t.Fatal(err)
	}
	return proof
}

func witnessKey(t *testing.T, dir string) string {
	t.Helper()
	output, status := probity(t, "", "keys", "status", dir, "--json")
	var keys struct {
		Witness string `json:"witness_key"`
	}
	if err := json.Unmarshal([]byte(output), &keys); status != 0 || err != nil || keys.Witness == "" {
		t.Fatalf("keys status: %d, %v\n%s", status, err, output)
	}
	return keys.Witness
}

func appendOne(t *testing.T, dir, key string) {
	t.Helper()
	mustProbity(t, fmt.Sprintf(`{"action":"read","key":%q}`+"\n", key), "append", dir)
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func TestAForeignWitnessFollowsTheJournalOverChangesOfTheKey(t *testing.T) {
	witness := startWitness(t)
	folder := t.TempDir()
	dir, fork := filepath.Join(folder, "log"), filepath.Join(folder, "fork")
	mustProbity(t, "", "init", dir, "--origin", origin)
	vkey := witnessKey(t, dir)
	witness.follow(t, origin+"/streams/journal", vkey)
	var last, before *journal
	signers := map[string]bool{}
	size := int64(0)
	var head []byte
	for opening := range openings {
		if opening == openings/2 {
			copyFolder(t, dir, fork)
			copyFolder(t, dir+".heads", fork+".heads")
			key, err := os.ReadFile(dir + ".key")
			if err != nil {
				t.Fatal(err)
			}
			write(t, fork+".key", key)
		}
		appendOne(t, dir, fmt.Sprintf("user:%d", opening))
		before, last = last, readJournal(t, dir, vkey)
		lines := strings.Split(strings.TrimSpace(string(last.checkpoint)), "\n")
		signers[lines[len(lines)-2]] = true
		status, cosignature := witness.add(t, size, last.grownFrom(t, size), last.checkpoint)
		if status != http.StatusOK {
			t.Fatalf("opening %d: the witness answers %d: %s", opening, status, cosignature)
		}
		cosigned := append(bytes.Clone(last.checkpoint), cosignature...)
		if _, err := note.Open(cosigned, note.VerifierList(witness.verifier)); err != nil {
			t.Fatalf("opening %d: the cosignature does not verify: %v", opening, err)
		}
		size = last.tree.N
		head = cosigned
	}
	if len(signers) != openings {
		t.Fatalf("%d openings have %d signatures of the first key", openings, len(signers))
	}
	t.Run("a rollback", func(t *testing.T) {
		for _, old := range []int64{0, before.tree.N, size} {
			if status, answer := witness.add(t, old, nil, before.checkpoint); status == http.StatusOK {
				t.Errorf("from %d on, the witness cosigns an older head: %s", old, answer)
			}
		}
	})
	t.Run("a fork", func(t *testing.T) {
		for readJournal(t, fork, vkey).tree.N <= size {
			appendOne(t, fork, "somebody else")
		}
		forked := readJournal(t, fork, vkey)
		status, answer := witness.add(t, size, forked.grownFrom(t, size), forked.checkpoint)
		if status != http.StatusUnprocessableEntity {
			t.Errorf("the witness answers a fork with %d: %s", status, answer)
		}
	})
	t.Run("a head without the line of the witness key", func(t *testing.T) {
		lines := strings.SplitAfter(string(last.checkpoint), "\n")
		stripped := strings.Join(lines[:len(lines)-2], "")
		status, answer := witness.add(t, size, nil, []byte(stripped))
		if status != http.StatusForbidden {
			t.Errorf("the witness answers %d: %s", status, answer)
		}
	})
	mustProbity(t, "", "verify", dir)
	proveUnder(t, dir, vkey, witness.vkey, head)
}

// proveUnder proves an entry by the witness key, which counts with the witness's line on the journal's head and not without.
func proveUnder(t *testing.T, dir, vkey, witnessKey string, head []byte) {
	t.Helper()
	file := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		write(t, path, []byte(content))
		return path
	}
	key, witness, cosigned := file("key", vkey), file("witness", witnessKey), file("head", string(head))
	proof := filepath.Join(t.TempDir(), "entry.tlog-proof")
	mustProbity(t, "", "prove", dir, "--index", "3", "-o", proof, "--checkpoint", cosigned)
	mustProbity(t, "", "check-proof", proof, "--key", key, "--witness", witness)
	mustProbity(t, "", "check-proof", proof, "--key", key, "--checkpoint", cosigned)
	if output, status := probity(t, "", "check-proof", proof, "--key", key); status != 1 {
		t.Errorf("the witness key alone: status %d\n%s", status, output)
	}
}
