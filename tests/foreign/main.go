// Checks a stream's folder, or a proof, with the packages of other people: golang.org/x/mod and
// transparency-dev. Nothing of what is checked is computed by code of this repository.
package main

import (
	"fmt"
	"os"
)

const usage = `usage:
  tlog tree DIR VKEY-FILE ORIGIN SIZE,SIZE,...   inclusion of every record, consistency of the sizes
  tlog proof PROOF-FILE LEAF-FILE VKEY-FILE ORIGIN
  tlog entry PROOF-FILE VKEY-FILE                an entry proof that shows its entry alone
  tlog vectors DIR                               writes the test vectors of crates/format/testdata
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "refused: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 5 && args[0] == "tree":
		return checkTree(args[1], args[2], args[3], args[4])
	case len(args) == 5 && args[0] == "proof":
		return checkProof(args[1], args[2], args[3], args[4])
	case len(args) == 3 && args[0] == "entry":
		return checkEntryFile(args[1], args[2])
	case len(args) == 2 && args[0] == "vectors":
		return writeVectors(args[1])
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
	return nil
}
