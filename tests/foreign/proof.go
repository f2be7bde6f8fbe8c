package main

import (
	"fmt"
	"os"

	"github.com/transparency-dev/formats/proof"
	verify "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// checkProof checks a .tlog-proof of the record in leafFile.
func checkProof(proofFile, leafFile, vkeyFile, origin string) error {
	text, err := os.ReadFile(proofFile)
	if err != nil {
		return err
	}
	leaf, err := os.ReadFile(leafFile)
	if err != nil {
		return err
	}
	var parsed proof.TLogProof
	if err := parsed.Unmarshal(text); err != nil {
		return err
	}
	if string(parsed.Marshal()) != string(text) {
		return fmt.Errorf("the proof is not in its canonical form")
	}
	tree, err := openSigned(parsed.Checkpoint, vkeyFile, origin)
	if err != nil {
		return err
	}
	var path [][]byte
	for _, hash := range parsed.Hashes {
		path = append(path, hash[:])
	}
	hasher := rfc6962.DefaultHasher
	err = verify.VerifyInclusion(hasher, parsed.Index, uint64(tree.N), hasher.HashLeaf(leaf), path, tree.Hash[:])
	if err != nil {
		return err
	}
	fmt.Printf("accepted: record %d of %d\n", parsed.Index, tree.N)
	return nil
}
