//! Little-endian fields in byte slices; what is out of bounds reads as zero and is not written.
//!
//! Every page is authenticated before a field of it is read, so a field out of bounds can only be
//! a defect of this engine, never an attack.

/// Copies as much of `value` as fits to `at`.
pub(crate) fn put(out: &mut [u8], at: usize, value: &[u8]) {
    let target = out.get_mut(at..at.saturating_add(value.len()));
    debug_assert!(target.is_some(), "a field of {} bytes at {at}", value.len());
    if let Some(target) = target {
        target.copy_from_slice(value);
    }
}

/// The `N` bytes at `at`.
pub(crate) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
    debug_assert!(
        field.is_some(),
        "a field of {N} bytes at {at} of {}",
        bytes.len()
    );
    field.copied().unwrap_or([0; N])
}

/// The unsigned 16-bit number at `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(take(bytes, at))
}

/// The unsigned 32-bit number at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(take(bytes, at))
}

/// The unsigned 64-bit number at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(take(bytes, at))
}

/// The part of `bytes` from `at`, `count` long, or nothing when out of bounds.
pub(crate) fn part(bytes: &[u8], at: usize, count: usize) -> &[u8] {
    bytes.get(at..at.saturating_add(count)).unwrap_or(&[])
}

/// A length as the 32-bit number it is on flash.
pub(crate) fn narrow(value: usize) -> u32 {
    debug_assert!(
        u32::try_from(value).is_ok(),
        "lengths are bounded by the device"
    );
    u32::try_from(value).unwrap_or(u32::MAX)
}
