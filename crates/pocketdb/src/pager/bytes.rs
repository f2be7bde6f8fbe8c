//! Little-endian fields in byte slices. A read out of bounds gives zeros, and a write out of bounds
//! does nothing.
//!
//! Every page is authenticated before its fields are read. So a field out of bounds can only be a
//! defect of this engine, never an attack.

/// Copies `value` to offset `at`, as far as it fits.
pub(crate) fn put(out: &mut [u8], at: usize, value: &[u8]) {
    let target = out.get_mut(at..at.saturating_add(value.len()));
    debug_assert!(target.is_some(), "a field of {} bytes at {at}", value.len());
    if let Some(target) = target {
        target.copy_from_slice(value);
    }
}

/// Returns the `N` bytes at `at`.
pub(crate) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
    debug_assert!(
        field.is_some(),
        "a field of {N} bytes at {at} of {}",
        bytes.len()
    );
    field.copied().unwrap_or([0; N])
}

/// Returns the unsigned 16-bit number at `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(take(bytes, at))
}

/// Returns the unsigned 32-bit number at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(take(bytes, at))
}

/// Returns the unsigned 64-bit number at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(take(bytes, at))
}

/// Returns `count` bytes from offset `at`; empty if out of bounds.
pub(crate) fn part(bytes: &[u8], at: usize, count: usize) -> &[u8] {
    bytes.get(at..at.saturating_add(count)).unwrap_or(&[])
}

/// Converts a length to the 32-bit number stored on flash.
pub(crate) fn narrow(value: usize) -> u32 {
    debug_assert!(
        u32::try_from(value).is_ok(),
        "lengths are bounded by the device"
    );
    u32::try_from(value).unwrap_or(u32::MAX)
}
