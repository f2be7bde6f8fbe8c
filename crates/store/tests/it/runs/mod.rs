//! Files of older stores in the test data, as runs of bytes that are not zero.

/// Returns the file: its length comes first, and each run behind its place and length.
pub(crate) fn bytes_of(runs: &[u8]) -> Vec<u8> {
    let (length, mut runs) = runs.split_first_chunk::<4>().unwrap();
    let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(*length)).unwrap()];
    while let Some((head, rest)) = runs.split_first_chunk::<6>() {
        let place = usize::try_from(u32::from_be_bytes(head[..4].try_into().unwrap())).unwrap();
        let length = usize::from(u16::from_be_bytes(head[4..].try_into().unwrap()));
        let (run, after) = rest.split_at(length);
        let part = bytes.get_mut(place..place + length);
        part.unwrap().copy_from_slice(run);
        runs = after;
    }
    bytes
}
