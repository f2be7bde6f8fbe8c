package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/transparency-dev/formats/proof"
	verify "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Offsets in the extra data of an entry proof and in a frame record, as docs/format.md has them.
const (
	recordAt     = 8
	recordBytes  = 104
	frameAt      = 0
	placeAt      = recordAt + recordBytes
	journalAt    = placeAt + 4
	linkBytes    = 176
	entriesAt    = 16
	sealedRootAt = 40
	entryRootAt  = 72
	evidenceLone = 0
	certificate  = "probity key certificate v"
)

// checkEntryFile checks an entry proof and prints the row it shows.
func checkEntryFile(proofFile, vkeyFile string) error {
	text, err := os.ReadFile(proofFile)
	if err != nil {
		return err
	}
	vkey, err := os.ReadFile(vkeyFile)
	if err != nil {
		return err
	}
	row, err := checkEntry(text, strings.TrimSpace(string(vkey)))
	if err != nil {
		return err
	}
	fmt.Printf("accepted: %q\n", row)
	return nil
}

// checkEntry checks an entry proof whose evidence is the entry alone, from the verifier key of the log to the entry, and
// gives the entry's row. Hashes, paths, notes and signatures are other people's; only where fields stand is written here.
func checkEntry(text []byte, vkey string) ([]byte, error) {
	var parsed proof.TLogProof
	if err := parsed.Unmarshal(text); err != nil {
		return nil, err
	}
	extra := parsed.ExtraData
	if len(extra) < journalAt || !bytes.Equal(extra[:8], []byte{'P', 'B', 'E', 'P', 2, 0, evidenceLone, 0}) {
		return nil, errors.New("no entry proof of version 2 that shows an entry alone")
	}
	origin, _, _ := strings.Cut(string(parsed.Checkpoint), "\n")
	log := origin[:max(0, strings.LastIndex(origin, "/streams/"))]
	rest := &fields{bytes: extra[journalAt:]}
	signer, err := certified(rest, log, vkey)
	if err != nil {
		return nil, err
	}
	tree, err := openWith(parsed.Checkpoint, origin, signer)
	if err != nil {
		return nil, err
	}
	record := extra[recordAt : recordAt+recordBytes]
	if err := included(parsed, record, tree); err != nil {
		return nil, err
	}
	return entryOf(record, binary.LittleEndian.Uint32(extra[placeAt:]), rest.bytes)
}

// fields takes bytes apart; once they are cut off everything is empty.
type fields struct {
	bytes []byte
	cut   bool
}

func (f *fields) take(count int) []byte {
	if f.cut || count < 0 || count > len(f.bytes) {
		f.cut = true
		return make([]byte, min(max(count, 0), 64))
	}
	taken := f.bytes[:count]
	f.bytes = f.bytes[count:]
	return taken
}

func (f *fields) count() int   { return int(f.take(1)[0]) }
func (f *fields) size() uint64 { return binary.LittleEndian.Uint64(f.take(8)) }
func (f *fields) long() []byte { return f.take(int(binary.LittleEndian.Uint32(f.take(4)))) }

func (f *fields) path() [][]byte {
	var path [][]byte
	for range f.count() {
		path = append(path, f.take(tlog.HashSize))
	}
	return path
}

// certified gives the key that the journal in the proof certifies, where the key known leads to the one that signed the journal.
func certified(rest *fields, log, vkey string) (ed25519.PublicKey, error) {
	origin := log + "/streams/journal"
	size := rest.size()
	var lines strings.Builder
	for range rest.count() {
		name := string(rest.take(rest.count()))
		if name == "" {
			name = origin
		}
		signature := append(bytes.Clone(rest.take(4)), rest.long()...)
		fmt.Fprintf(&lines, "\u2014 %s %s\n", name, base64.StdEncoding.EncodeToString(signature))
	}
	witness, certifying := rest.take(32), rest.frame()
	last, shown := certifying, rest.count()
	if shown > 0 {
		last = rest.frame()
	}
	first := rest.take(32)
	links := rest.take(rest.count() * linkBytes)
	if rest.size() != 0 {
		rest.take(tlog.HashSize)
		rest.path()
	}
	if rest.cut || shown > 1 {
		return nil, errors.New("the proof is cut off, or of another form")
	}
	signer, err := follow(vkey, log, first, links)
	if err != nil {
		return nil, err
	}
	root, err := certifying.root(size)
	if err != nil {
		return nil, err
	}
	if err := newest(certifying, last, shown > 0, size, root); err != nil {
		return nil, err
	}
	signed := fmt.Sprintf("%s\n%d\n%s\n\n%s", origin, size, base64.StdEncoding.EncodeToString(root), lines.String())
	for _, key := range []ed25519.PublicKey{signer, witness} {
		if _, err := openWith([]byte(signed), origin, key); err != nil {
			return nil, fmt.Errorf("the journal: %w", err)
		}
	}
	key, err := successor(certifying.section, log)
	if err == nil && !bytes.Equal(key, signer) {
		err = errors.New("the journal is not signed by its newest key")
	}
	return key, err
}

// journalFrame is a frame of the journal and its path to the root.
type journalFrame struct {
	record          []byte
	path            [][]byte
	header, section []byte
}

func (f *fields) frame() journalFrame {
	return journalFrame{f.take(recordBytes), f.path(), f.take(tlog.HashSize), f.long()}
}

func (f journalFrame) index() uint64 { return binary.LittleEndian.Uint64(f.record[frameAt:]) }

// root gives the root of the journal of that size which has the frame in its place.
func (f journalFrame) root(size uint64) ([]byte, error) {
	hasher := rfc6962.DefaultHasher
	sealed := hasher.HashChildren(f.header, hasher.HashLeaf(f.section))
	if !bytes.Equal(sealed, f.record[sealedRootAt:sealedRootAt+tlog.HashSize]) {
		return nil, errors.New("the section is not the one of the journal's frame")
	}
	if f.index() >= size {
		return nil, errors.New("the journal is too short for the frame")
	}
	return verify.RootFromInclusionProof(hasher, f.index(), size, hasher.HashLeaf(f.record), f.path)
}

// newest checks that no later key is certified: the certificate stands in the last frame, or that one names it.
func newest(frame, last journalFrame, shown bool, size uint64, root []byte) error {
	if last.index()+1 != size || shown && last.index() == frame.index() {
		return errors.New("the proof shows another frame than the journal's last")
	}
	if !shown {
		return nil
	}
	other, err := last.root(size)
	if err != nil || !bytes.Equal(other, root) {
		return fmt.Errorf("the last frame is of another journal (%v)", err)
	}
	names := bytes.Contains(last.section, []byte("key.newest")) && bytes.Contains(last.section, fmt.Append(nil, frame.index()))
	if !names || bytes.Contains(last.section, []byte(certificate)) {
		return errors.New("the last frame does not name the certificate as the newest")
	}
	return nil
}

// successor gives the key that the one certificate in a section is for.
func successor(section []byte, log string) (ed25519.PublicKey, error) {
	if bytes.Count(section, []byte(certificate)) != 1 {
		return nil, errors.New("the frame has not one certificate")
	}
	_, rest, _ := strings.Cut(string(section[bytes.Index(section, []byte(certificate)):]), "\n")
	vkey, _, _ := strings.Cut(rest, "\n")
	key, err := publicKey(vkey)
	if err != nil {
		return nil, err
	}
	if encoded, err := note.NewEd25519VerifierKey(log, key); err != nil || encoded != vkey {
		return nil, fmt.Errorf("the certificate is for a key of another log (%v)", err)
	}
	return key, nil
}

// publicKey takes a verifier key apart: name, id, and base64 of type and key, in which there may be more plus signs.
func publicKey(vkey string) (ed25519.PublicKey, error) {
	parts := strings.SplitN(vkey, "+", 3)
	typed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(typed) != 1+ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is no verifier key", vkey)
	}
	return typed[1:], nil
}

// follow goes over the certificates to the key at their end; the key known must be one of them.
func follow(vkey, log string, first, links []byte) (ed25519.PublicKey, error) {
	key := ed25519.PublicKey(first)
	for isKnown := false; ; links = links[linkBytes:] {
		encoded, err := note.NewEd25519VerifierKey(log, key)
		if err != nil {
			return nil, err
		}
		isKnown = isKnown || encoded == vkey
		if len(links) == 0 {
			if !isKnown {
				return nil, errors.New("the proof leads from other keys than the one given")
			}
			return key, nil
		}
		verifier, err := note.NewVerifier(encoded)
		if err != nil {
			return nil, err
		}
		successor := ed25519.PublicKey(links[:32])
		certified, err := note.NewEd25519VerifierKey(log, successor)
		if err != nil {
			return nil, err
		}
		text := "probity key certificate v2\n" + certified + "\n" + tree(links[32:72]) + tree(links[72:112])
		if !verifier.Verify([]byte(text), links[112:linkBytes]) {
			return nil, errors.New("a certificate is not signed by the key before")
		}
		key = successor
	}
}

// tree gives the lines of a certificate about a stream, its size and root.
func tree(bound []byte) string {
	root := base64.StdEncoding.EncodeToString(bound[8:])
	return fmt.Sprintf("%d\n%s\n", binary.LittleEndian.Uint64(bound), root)
}

func openWith(checkpoint []byte, origin string, key ed25519.PublicKey) (tlog.Tree, error) {
	encoded, err := note.NewEd25519VerifierKey(origin, key)
	if err != nil {
		return tlog.Tree{}, err
	}
	file, err := os.CreateTemp("", "*.vkey")
	if err != nil {
		return tlog.Tree{}, err
	}
	defer os.Remove(file.Name())
	if _, err := file.WriteString(encoded); err != nil {
		return tlog.Tree{}, err
	}
	if err := file.Close(); err != nil {
		return tlog.Tree{}, err
	}
	return openSigned(checkpoint, file.Name(), origin)
}

// included checks the record's path with both libraries.
func included(parsed proof.TLogProof, record []byte, tree tlog.Tree) error {
	var path [][]byte
	var same tlog.RecordProof
	for _, hash := range parsed.Hashes {
		path = append(path, hash[:])
		same = append(same, tlog.Hash(hash))
	}
	hasher := rfc6962.DefaultHasher
	leaf := hasher.HashLeaf(record)
	if err := verify.VerifyInclusion(hasher, parsed.Index, uint64(tree.N), leaf, path, tree.Hash[:]); err != nil {
		return err
	}
	return tlog.CheckRecord(same, tree.N, tree.Hash, int64(parsed.Index), tlog.Hash(leaf))
}

// entryOf checks that the row in the evidence is an entry of the frame that the record stands for.
func entryOf(record []byte, place uint32, evidence []byte) ([]byte, error) {
	cut := errors.New("the evidence is cut off")
	if len(evidence) < 20 {
		return nil, cut
	}
	salt, length := evidence[:16], int(binary.LittleEndian.Uint32(evidence[16:]))
	evidence = evidence[20:]
	if length < 0 || len(evidence) < length+1 {
		return nil, cut
	}
	row, count := evidence[:length], int(evidence[length])
	evidence = evidence[length+1:]
	if len(evidence) != count*tlog.HashSize {
		return nil, cut
	}
	var path [][]byte
	for ; len(evidence) > 0; evidence = evidence[tlog.HashSize:] {
		path = append(path, evidence[:tlog.HashSize])
	}
	hasher := rfc6962.DefaultHasher
	leaf := hasher.HashLeaf(append(bytes.Clone(salt), row...))
	entries := uint64(binary.LittleEndian.Uint32(record[entriesAt:]))
	root := record[entryRootAt : entryRootAt+tlog.HashSize]
	return row, verify.VerifyInclusion(hasher, uint64(place), entries, leaf, path, root)
}
