package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	formats "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
	// Trees up to this size are checked record by record; of larger ones, this many are drawn.
	everyRecordMax = 200_000
	recordsDrawn   = 20_000
)

// checkTree checks the checkpoint, the tiles, the inclusion of the records and the consistency of
// every pair of the sizes given that do not exceed the tree.
func checkTree(dir, vkeyFile, origin, sizes string) error {
	tree, err := openCheckpoint(dir, vkeyFile, origin)
	if err != nil {
		return err
	}
	tiles := &tileFiles{dir: dir, kept: map[tlog.Tile][]byte{}}
	var hashes tlog.HashReader = tlog.TileHashReader(tree, tiles)
	indices := drawn(tree.N)
	if tree.N <= everyRecordMax {
		if hashes, err = readAll(tree.N, hashes); err != nil {
			return fmt.Errorf("tiles: %w", err)
		}
	}
	if err := checkRecords(dir, tree, hashes, indices); err != nil {
		return err
	}
	pairs, err := checkPairs(tree, hashes, sizes)
	if err != nil {
		return err
	}
	fmt.Printf("accepted: size %d, %d records included, %d pairs consistent\n", tree.N, len(indices), pairs)
	return nil
}

// openCheckpoint opens the checkpoint with both libraries and compares what they read.
func openCheckpoint(dir, vkeyFile, origin string) (tlog.Tree, error) {
	none := tlog.Tree{}
	signed, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil {
		return none, err
	}
	return openSigned(signed, vkeyFile, origin)
}

func openSigned(signed []byte, vkeyFile, origin string) (tlog.Tree, error) {
	none := tlog.Tree{}
	vkey, err := os.ReadFile(vkeyFile)
	if err != nil {
		return none, err
	}
	verifier, err := note.NewVerifier(strings.TrimSpace(string(vkey)))
	if err != nil {
		return none, fmt.Errorf("verifier key: %w", err)
	}
	opened, err := note.Open(signed, note.VerifierList(verifier))
	if err != nil {
		return none, fmt.Errorf("note: %w", err)
	}
	lines := strings.Split(opened.Text, "\n")
	if len(lines) < 4 || lines[0] != origin {
		return none, fmt.Errorf("checkpoint: of origin %q, not %q", lines[0], origin)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return none, fmt.Errorf("checkpoint: %w", err)
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return none, errors.New("checkpoint: the root is no hash")
	}
	other, _, _, err := formats.ParseCheckpoint(signed, origin, verifier)
	if err != nil {
		return none, fmt.Errorf("checkpoint: %w", err)
	}
	if other.Size != uint64(size) || !bytes.Equal(other.Hash, root) {
		return none, errors.New("checkpoint: two readers read different things")
	}
	tree := tlog.Tree{N: size, Hash: tlog.Hash(root)}
	if empty, _ := tlog.TreeHash(0, nil); size == 0 && tree.Hash != empty {
		return none, errors.New("checkpoint: the root of the empty tree is another")
	}
	return tree, nil
}

// readAll reads every stored hash of the tree, authenticated by reader, at once.
func readAll(size int64, reader tlog.HashReader) (tlog.HashReader, error) {
	indices := make([]int64, tlog.StoredHashCount(size))
	for i := range indices {
		indices[i] = int64(i)
	}
	all := []tlog.Hash{}
	if size > 0 {
		var err error
		if all, err = reader.ReadHashes(indices); err != nil {
			return nil, err
		}
	}
	return tlog.HashReaderFunc(func(wanted []int64) ([]tlog.Hash, error) {
		found := make([]tlog.Hash, len(wanted))
		for i, index := range wanted {
			if index >= int64(len(all)) {
				return nil, fmt.Errorf("stored hash %d is not in the tree", index)
			}
			found[i] = all[index]
		}
		return found, nil
	}), nil
}

// drawn gives every index of a small tree, or edges and evenly spread random ones of a large one.
func drawn(size int64) []int64 {
	var indices []int64
	if size <= everyRecordMax {
		for index := int64(0); index < size; index++ {
			indices = append(indices, index)
		}
		return indices
	}
	random := rand.New(rand.NewPCG(uint64(size), 1))
	step := size / recordsDrawn
	for start := int64(0); start+step <= size; start += step {
		indices = append(indices, start+random.Int64N(step))
	}
	return append(indices, size-1)
}

func checkRecords(dir string, tree tlog.Tree, hashes tlog.HashReader, indices []int64) error {
	var leaves [][]byte
	bundle := int64(-1)
	for _, index := range indices {
		if index/tileWidth != bundle {
			bundle = index / tileWidth
			var err error
			if leaves, err = readBundle(dir, bundle, int(min(tileWidth, tree.N-bundle*tileWidth))); err != nil {
				return fmt.Errorf("bundle %d: %w", bundle, err)
			}
		}
		proof, err := tlog.ProveRecord(tree.N, index, hashes)
		if err != nil {
			return fmt.Errorf("record %d: %w", index, err)
		}
		leaf := tlog.RecordHash(leaves[index%tileWidth])
		if err := tlog.CheckRecord(proof, tree.N, tree.Hash, index, leaf); err != nil {
			return fmt.Errorf("record %d: %w", index, err)
		}
	}
	return nil
}

func checkPairs(tree tlog.Tree, hashes tlog.HashReader, sizes string) (int, error) {
	roots := []tlog.Tree{tree}
	for _, text := range strings.Split(sizes, ",") {
		size, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		if size > 0 && size < tree.N {
			root, err := tlog.TreeHash(size, hashes)
			if err != nil {
				return 0, fmt.Errorf("root at %d: %w", size, err)
			}
			roots = append(roots, tlog.Tree{N: size, Hash: root})
		}
	}
	pairs := 0
	for _, newer := range roots {
		for _, older := range roots {
			if older.N >= newer.N {
				continue
			}
			proof, err := tlog.ProveTree(newer.N, older.N, hashes)
			if err != nil {
				return 0, fmt.Errorf("from %d to %d: %w", older.N, newer.N, err)
			}
			if err := tlog.CheckTree(proof, newer.N, newer.Hash, older.N, older.Hash); err != nil {
				return 0, fmt.Errorf("from %d to %d: %w", older.N, newer.N, err)
			}
			pairs++
		}
	}
	return pairs, nil
}

// tileFiles reads tiles from our paths, which lack the height that x/mod writes into its own.
type tileFiles struct {
	dir  string
	kept map[tlog.Tile][]byte
}

func (t *tileFiles) Height() int { return tileHeight }

func (t *tileFiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (t *tileFiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	found := make([][]byte, len(tiles))
	for i, tile := range tiles {
		content, ok := t.kept[tile]
		if !ok {
			var err error
			if content, err = readGrown(t.dir, ourPath(tile), ourPath(filled(tile)), tile.W*tlog.HashSize); err != nil {
				return nil, err
			}
			t.kept[tile] = content
		}
		found[i] = content
	}
	return found, nil
}

func filled(tile tlog.Tile) tlog.Tile {
	tile.W = tileWidth
	return tile
}

func ourPath(tile tlog.Tile) string {
	return strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/", tileHeight), "tile/", 1)
}

// readGrown reads a partial tile, or the beginning of the full one where only that exists any more.
func readGrown(dir, partial, full string, length int) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(dir, partial))
	if errors.Is(err, fs.ErrNotExist) && partial != full {
		content, err = os.ReadFile(filepath.Join(dir, full))
		if err == nil && len(content) == tileWidth*tlog.HashSize {
			content = content[:length]
		}
	}
	return content, err
}

func readBundle(dir string, index int64, width int) ([][]byte, error) {
	// x/mod knows bundles as the tiles of level -1, under another name.
	path := func(width int) string {
		tile := tlog.Tile{H: tileHeight, L: -1, N: index, W: width}
		return strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/data/", tileHeight), "tile/entries/", 1)
	}
	content, err := os.ReadFile(filepath.Join(dir, path(width)))
	whole := true
	if errors.Is(err, fs.ErrNotExist) {
		whole = width == tileWidth
		content, err = os.ReadFile(filepath.Join(dir, path(tileWidth)))
	}
	if err != nil {
		return nil, err
	}
	var leaves [][]byte
	for len(leaves) < width {
		if len(content) < 2 {
			return nil, errors.New("ends too early")
		}
		length := int(binary.BigEndian.Uint16(content))
		if len(content) < 2+length {
			return nil, errors.New("ends within a record")
		}
		leaves = append(leaves, content[2:2+length])
		content = content[2+length:]
	}
	if whole && len(content) > 0 {
		return nil, errors.New("has bytes left over")
	}
	return leaves, nil
}
