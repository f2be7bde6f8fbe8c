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
	recordBytes  = 192
	placeAt      = 200
	firstKeyAt   = 252
	linksAt      = 284
	linkBytes    = 136
	entriesAt    = 24
	entryRootAt  = 112
	evidenceLone = 0
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
	if len(extra) < linksAt+4 || !bytes.Equal(extra[:8], []byte{'P', 'B', 'E', 'P', 1, 0, evidenceLone, 0}) {
		return nil, errors.New("no entry proof of version 1 that shows an entry alone")
	}
	links := int(binary.LittleEndian.Uint32(extra[linksAt:]))
	rest := extra[linksAt+4:]
	if links > len(rest)/linkBytes {
		return nil, errors.New("the certificates are cut off")
	}
	origin, _, _ := strings.Cut(string(parsed.Checkpoint), "\n")
	log := origin[:max(0, strings.LastIndex(origin, "/streams/"))]
	signer, err := follow(vkey, log, extra[firstKeyAt:linksAt], rest[:links*linkBytes])
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
	rest = rest[links*linkBytes:]
	if len(rest) < 1 || len(rest) < 1+int(rest[0]) {
		return nil, errors.New("the configuration is cut off")
	}
	return entryOf(record, binary.LittleEndian.Uint32(extra[placeAt:]), rest[1+int(rest[0]):])
}

// follow goes from the key known to the one at the end of the certificates.
func follow(vkey, log string, first, links []byte) (ed25519.PublicKey, error) {
	key := ed25519.PublicKey(first)
	if encoded, err := note.NewEd25519VerifierKey(log, key); err != nil || encoded != vkey {
		return nil, fmt.Errorf("the proof begins with another key than the one given (%v)", err)
	}
	for ; len(links) > 0; links = links[linkBytes:] {
		encoded, err := note.NewEd25519VerifierKey(log, key)
		if err != nil {
			return nil, err
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
		size := binary.LittleEndian.Uint64(links[32:])
		root := base64.StdEncoding.EncodeToString(links[40:72])
		text := fmt.Sprintf("probity key certificate v1\n%s\n%d\n%s\n", certified, size, root)
		if !verifier.Verify([]byte(text), links[72:136]) {
			return nil, errors.New("a certificate is not signed by the key before")
		}
		key = successor
	}
	return key, nil
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
