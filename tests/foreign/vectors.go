package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	vectorOrigin = "example.com/probity/vectors"
	emDash       = "\u2014"
)

var vectorSizes = []int64{0, 1, 2, 3, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000}

// A vectorSet is a folder of cases: what is accepted, and what is refused for the reason that its
// name says.
type vectorSet struct {
	dir string
	err error
}

func (v *vectorSet) put(kind, verdict, name string, content []byte) {
	if v.err != nil {
		return
	}
	path := filepath.Join(v.dir, kind, verdict, name)
	if v.err = os.MkdirAll(filepath.Dir(path), 0o755); v.err == nil {
		v.err = os.WriteFile(path, content, 0o644)
	}
}

func (v *vectorSet) accept(kind, name, content string) {
	v.put(kind, "accepted", name, []byte(content))
}
func (v *vectorSet) refuse(kind, name, content string) { v.put(kind, "refused", name, []byte(content)) }

// A vectorKey signs: its texts as x/mod reads them, and the parts that forgeries are made of.
type vectorKey struct {
	signer  note.Signer
	vkey    string
	id      uint32
	private ed25519.PrivateKey
}

func newVectorKey(name string, fill byte) (vectorKey, error) {
	seed := bytes.Repeat([]byte{fill}, ed25519.SeedSize)
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	digest := sha256.Sum256(append([]byte(name+"\n\x01"), public...))
	id := binary.BigEndian.Uint32(digest[:4])
	skey := fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, id, base64.StdEncoding.EncodeToString(append([]byte{1}, seed...)))
	signer, err := note.NewSigner(skey)
	if err != nil {
		return vectorKey{}, err
	}
	vkey, err := note.NewEd25519VerifierKey(name, public)
	return vectorKey{signer, vkey, id, private}, err
}

// line is a signature line with anything in the places of name, id and signature.
func line(name string, id uint32, signature []byte) string {
	whole := append(binary.BigEndian.AppendUint32(nil, id), signature...)
	return fmt.Sprintf("%s %s %s\n", emDash, name, base64.StdEncoding.EncodeToString(whole))
}

func writeVectors(dir string) error {
	log, err := newVectorKey(vectorOrigin, 7)
	if err != nil {
		return err
	}
	witness, err := newVectorKey("witness.example/w1", 8)
	if err != nil {
		return err
	}
	set := &vectorSet{dir: dir}
	set.put(".", ".", "log.vkey", []byte(log.vkey+"\n"))
	hashes, err := vectorTree(set)
	if err != nil {
		return err
	}
	root, err := tlog.TreeHash(257, hashes)
	if err != nil {
		return err
	}
	body := fmt.Sprintf("%s\n257\n%s\n", vectorOrigin, root)
	checkpoint, err := note.Sign(&note.Note{Text: body}, log.signer)
	if err != nil {
		return err
	}
	noteVectors(set, log, witness)
	checkpointVectors(set, log, body)
	keyVectors(set, log)
	if err := proofVectors(set, hashes, string(checkpoint)); err != nil {
		return err
	}
	return set.err
}

// vectorTree stores a tree of the leaves "leaf 0", "leaf 1", ... and lists its roots.
func vectorTree(set *vectorSet) (tlog.HashReader, error) {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indices []int64) ([]tlog.Hash, error) {
		var found []tlog.Hash
		for _, index := range indices {
			found = append(found, stored[index])
		}
		return found, nil
	})
	var roots strings.Builder
	next := int64(0)
	for _, size := range vectorSizes {
		for ; next < size; next++ {
			added, err := tlog.StoredHashes(next, fmt.Appendf(nil, "leaf %d", next), reader)
			if err != nil {
				return nil, err
			}
			stored = append(stored, added...)
		}
		root, err := tlog.TreeHash(size, reader)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&roots, "%d %s\n", size, root)
	}
	set.put(".", ".", "roots.txt", []byte(roots.String()))
	return reader, nil
}

func noteVectors(set *vectorSet, log, witness vectorKey) {
	const kind = "note"
	sign := func(text string, keys ...vectorKey) string {
		var signers []note.Signer
		for _, key := range keys {
			signers = append(signers, key.signer)
		}
		signed, err := note.Sign(&note.Note{Text: text}, signers...)
		if err != nil {
			set.err = err
		}
		return string(signed)
	}
	raw := func(text string) string { return line(vectorOrigin, log.id, ed25519.Sign(log.private, []byte(text))) }
	plain := sign("hello\n", log)
	unknown := func(count int) string {
		var lines strings.Builder
		for i := range count {
			lines.WriteString(line(fmt.Sprintf("w%d.example", i), uint32(i), make([]byte, 72)))
		}
		return lines.String()
	}
	set.accept(kind, "plain", plain)
	set.accept(kind, "two_signers", sign("hello\n", log, witness))
	set.accept(kind, "unknown_signer_first", sign("hello\n", witness, log))
	set.accept(kind, "empty_lines_in_text", sign("one\n\n\ntwo\n\n", log))
	set.accept(kind, "text_like_a_signature", sign(raw("x\n")+"\nmore\n", log))
	set.accept(kind, "sixteen_signatures", plain+unknown(15))
	set.accept(kind, "sixty_four_signatures", plain+unknown(63))
	set.accept(kind, "same_signature_twice", plain+raw("hello\n"))
	set.accept(kind, "known_name_with_unknown_id", plain+line(vectorOrigin, log.id+1, make([]byte, 64)))
	set.accept(kind, "known_id_with_unknown_name", plain+line("other.example", log.id, make([]byte, 64)))
	set.accept(kind, "letters_beyond_ascii", sign("gr\u00fc\u00dfe \u2014 \U0001f600\n", log))

	set.refuse(kind, "empty", "")
	set.refuse(kind, "no_signature", "hello\n\n")
	set.refuse(kind, "no_empty_line", "hello\n"+raw("hello\n"))
	set.refuse(kind, "last_line_unfinished", strings.TrimSuffix(plain, "\n"))
	set.refuse(kind, "line_feed_too_many", plain+"\n")
	set.refuse(kind, "text_after_signatures", plain+"more\n")
	set.refuse(kind, "carriage_returns", strings.ReplaceAll(plain, "\n", "\r\n"))
	set.refuse(kind, "tab_in_text", "a\tb\n\n"+raw("a\tb\n"))
	set.refuse(kind, "nul_in_text", "a\x00b\n\n"+raw("a\x00b\n"))
	set.refuse(kind, "invalid_utf8", "a\xffb\n\n"+raw("a\xffb\n"))
	set.refuse(kind, "hyphen_for_em_dash", strings.Replace(plain, emDash, "-", 1))
	set.refuse(kind, "name_missing", strings.Replace(plain, vectorOrigin+" ", " ", 1))
	set.refuse(kind, "name_with_plus", plain+line("a+b", 1, make([]byte, 64)))
	set.refuse(kind, "name_with_no_break_space", plain+line("a\u00a0b", 1, make([]byte, 64)))
	set.refuse(kind, "signature_missing", "hello\n\n"+emDash+" "+vectorOrigin+" \n")
	set.refuse(kind, "key_id_alone", plain+line("w.example", 1, nil))
	set.refuse(kind, "base64_without_padding", strings.Replace(plain, "=", "", 1))
	set.refuse(kind, "base64_with_stray_bits", strayBits(plain))
	set.refuse(kind, "base64_of_urls", "hello\n\n"+emDash+" w.example AAAAAA-_AAAA\n"+raw("hello\n"))
	set.refuse(kind, "sixty_five_signatures", plain+unknown(64))
	set.refuse(kind, "text_changed", strings.Replace(plain, "hello", "hallo", 1))
	set.refuse(kind, "unknown_signer_only", sign("hello\n", witness))
	set.refuse(kind, "known_key_with_wrong_signature", "hello\n\n"+line(vectorOrigin, log.id, make([]byte, 64)))
	set.refuse(kind, "known_key_with_short_signature", "hello\n\n"+line(vectorOrigin, log.id, make([]byte, 63)))
	set.refuse(kind, "right_and_wrong_signature_of_one_key", plain+line(vectorOrigin, log.id, make([]byte, 64)))
	set.refuse(kind, "signature_over_text_without_line_feed", "hello\n\n"+raw("hello"))
}

// strayBits sets a bit of the last base64 letter that carries none.
func strayBits(text string) string {
	at := strings.LastIndex(text, "=") - 1
	for text[at] == '=' {
		at--
	}
	return text[:at] + string(text[at]+1) + text[at+1:]
}

func checkpointVectors(set *vectorSet, log vectorKey, body string) {
	const kind = "checkpoint"
	sign := func(text string) string {
		signed, err := note.Sign(&note.Note{Text: text}, log.signer)
		if err != nil {
			set.err = err
		}
		return string(signed)
	}
	lines := strings.SplitAfter(body, "\n")
	origin, size, root := lines[0], lines[1], lines[2]
	emptyRoot := base64.StdEncoding.EncodeToString(sha256.New().Sum(nil)) + "\n"
	set.accept(kind, "size_257", sign(body))
	set.accept(kind, "size_0", sign(origin+"0\n"+emptyRoot))
	set.accept(kind, "size_largest", sign(origin+"18446744073709551615\n"+root))
	set.accept(kind, "extension_lines", sign(body+"one\ntwo\n"))

	set.refuse(kind, "size_with_leading_zero", sign(origin+"0257\n"+root))
	set.refuse(kind, "size_with_plus", sign(origin+"+257\n"+root))
	set.refuse(kind, "size_negative", sign(origin+"-1\n"+root))
	set.refuse(kind, "size_hexadecimal", sign(origin+"0x101\n"+root))
	set.refuse(kind, "size_with_space", sign(origin+"257 \n"+root))
	set.refuse(kind, "size_empty", sign(origin+"\n"+root))
	set.refuse(kind, "size_beyond_64_bits", sign(origin+"18446744073709551616\n"+root))
	set.refuse(kind, "size_0_with_other_root", sign(origin+"0\n"+root))
	set.refuse(kind, "root_missing", sign(origin+size))
	set.refuse(kind, "root_short", sign(origin+size+"AAAA\n"))
	set.refuse(kind, "root_without_padding", sign(origin+size+strings.Replace(root, "=", "", 1)))
	set.refuse(kind, "root_with_stray_bits", sign(origin+size+strayBits(root)))
	set.refuse(kind, "root_hexadecimal", sign(origin+size+strings.Repeat("ab", 32)+"\n"))
	set.refuse(kind, "origin_empty", sign("\n"+size+root))
	set.refuse(kind, "origin_changed", sign("example.com/probity/other\n"+size+root))
	set.refuse(kind, "extension_line_empty", sign(body+"\nmore\n"))
	set.refuse(kind, "extension_line_empty_at_end", sign(body+"\n"))
	set.refuse(kind, "size_changed_after_signing", strings.Replace(sign(body), "\n257\n", "\n256\n", 1))
}

func keyVectors(set *vectorSet, log vectorKey) {
	const kind = "vkey"
	parts := strings.SplitN(log.vkey, "+", 3)
	name, id, key := parts[0], parts[1], parts[2]
	join := func(parts ...string) string { return strings.Join(parts, "+") }
	public := log.private.Public().(ed25519.PublicKey)
	typed := func(kind byte, key []byte) string {
		return base64.StdEncoding.EncodeToString(append([]byte{kind}, key...))
	}
	set.accept(kind, "ed25519", log.vkey)
	set.refuse(kind, "empty", "")
	set.refuse(kind, "name_alone", name)
	set.refuse(kind, "name_empty", join("", id, key))
	set.refuse(kind, "name_with_space", join("a b", id, key))
	set.refuse(kind, "id_of_another_name", join("example.com/other", id, key))
	set.refuse(kind, "id_wrong", join(name, "00000000", key))
	set.refuse(kind, "id_short", join(name, id[:7], key))
	set.refuse(kind, "id_in_capitals", join(name, strings.ToUpper(id), key))
	set.refuse(kind, "key_short", join(name, id, typed(1, public[:31])))
	set.refuse(kind, "key_long", join(name, id, typed(1, append(public[:32:32], 0))))
	set.refuse(kind, "key_of_unknown_type", join(name, id, typed(9, public)))
	set.refuse(kind, "line_feed_at_end", log.vkey+"\n")
}

func proofVectors(set *vectorSet, hashes tlog.HashReader, checkpoint string) error {
	const kind = "proof"
	text := func(index int64, extra []byte) (string, error) {
		path, err := tlog.ProveRecord(257, index, hashes)
		if err != nil {
			return "", err
		}
		made := proof.TLogProof{Index: uint64(index), Checkpoint: []byte(checkpoint), ExtraData: extra}
		for _, hash := range path {
			made.Hashes = append(made.Hashes, hash)
		}
		return string(made.Marshal()), nil
	}
	plain, err := text(100, nil)
	if err != nil {
		return err
	}
	for index, name := range map[int64]string{0: "first_record", 100: "middle_record", 256: "last_record"} {
		made, err := text(index, nil)
		if err != nil {
			return err
		}
		set.accept(kind, name, made)
	}
	extra, err := text(100, []byte("more about it"))
	if err != nil {
		return err
	}
	set.accept(kind, "extra_data", extra)
	head, tail, _ := strings.Cut(plain, "\n\n")
	rows := strings.Split(head, "\n")
	set.refuse(kind, "empty", "")
	set.refuse(kind, "version_2", strings.Replace(plain, "@v1", "@v2", 1))
	set.refuse(kind, "index_missing", strings.Replace(plain, "index 100\n", "", 1))
	set.refuse(kind, "index_with_leading_zero", strings.Replace(plain, "index 100", "index 0100", 1))
	set.refuse(kind, "index_beyond_the_tree", strings.Replace(plain, "index 100", "index 257", 1))
	set.refuse(kind, "index_of_another_record", strings.Replace(plain, "index 100", "index 101", 1))
	set.refuse(kind, "index_beyond_64_bits", strings.Replace(plain, "index 100", "index 18446744073709551616", 1))
	set.refuse(kind, "extra_after_index", strings.Replace(plain, "index 100\n", "index 100\nextra AAAA\n", 1))
	set.refuse(kind, "extra_twice", strings.Replace(extra, "extra ", "extra AAAA\nextra ", 1))
	set.refuse(kind, "extra_not_base64", strings.Replace(plain, "index", "extra !\nindex", 1))
	set.refuse(kind, "hash_too_few", strings.Join(rows[:len(rows)-1], "\n")+"\n\n"+tail)
	set.refuse(kind, "hash_too_many", head+"\n"+rows[len(rows)-1]+"\n\n"+tail)
	set.refuse(kind, "hashes_in_reverse", strings.Join(append(rows[:2:2], reversed(rows[2:])...), "\n")+"\n\n"+tail)
	set.refuse(kind, "hash_short", head+"\nAAAA\n\n"+tail)
	set.refuse(kind, "hash_without_padding", strings.Replace(plain, "=\n", "\n", 1))
	set.refuse(kind, "carriage_returns", strings.ReplaceAll(plain, "\n", "\r\n"))
	set.refuse(kind, "checkpoint_missing", head+"\n\n")
	set.refuse(kind, "checkpoint_cut", plain[:len(plain)-10])
	set.refuse(kind, "empty_line_missing", head+"\n"+tail)
	return nil
}

func reversed(rows []string) []string {
	var out []string
	for i := len(rows) - 1; i >= 0; i-- {
		out = append(out, rows[i])
	}
	return out
}
