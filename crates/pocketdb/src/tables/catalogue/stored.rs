//! The catalogue on flash: pages of their own, in one block.

use alloc::vec::Vec;

use crate::error::{Error, Result};
use crate::pager::Pager;
use crate::pager::bytes::{narrow, part, put};
use crate::pager::error::Error as PagerError;
use crate::pager::flash::{BLOCK_PAGES, FlashError, Nand};
use crate::pager::root::{CatalogueState, SecureStore};
use crate::pager::seal::{PAYLOAD_BYTES, PageIdentity, ROLE_CATALOGUE};
use crate::tables::catalogue::Catalogue;

/// Reads the committed catalogue.
pub(crate) fn read<F: Nand, S: SecureStore>(pager: &mut Pager<F, S>) -> Result<Catalogue> {
    let state = pager.root.committed.catalogue;
    let mut bytes = Vec::with_capacity(state.bytes as usize);
    for number in 0..pages_of(state.bytes as usize) {
        let frame = pager.load(&catalogue_identity(&state, number))?;
        let rest = state.bytes as usize - bytes.len();
        let page = pager.arena.page(frame);
        bytes.extend_from_slice(part(page, 0, rest.min(PAYLOAD_BYTES)));
    }
    Catalogue::decode(&bytes)
}

/// Writes a new catalogue to a block of its own and commits it. The block before it, and those of
/// the window, are free then.
pub(crate) fn commit<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    catalogue: &Catalogue,
) -> Result<()> {
    let bytes = catalogue.encode();
    let state = loop {
        match program(pager, &bytes) {
            Err(Error::Flash(FlashError::BadBlock)) => {
                pager.root.committed.epoch += 1;
            }
            result => break result?,
        }
    };
    let old = pager.root.committed.catalogue;
    let mut record = pager.next_record()?;
    record.epoch += 1;
    record.catalogue = state;
    pager.root.finish(&record)?;
    if old.bytes > 0 {
        pager.blocks.free(old.page / BLOCK_PAGES);
    }
    for block in pager.window.blocks() {
        pager.blocks.free(block);
    }
    Ok(())
}

/// Copies the catalogue to another block, so that its block wears like all others. It stays if
/// the device is full.
pub(crate) fn move_away<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
) -> Result<CatalogueState> {
    let old = pager.root.committed.catalogue;
    if old.bytes == 0 {
        return Ok(old);
    }
    loop {
        let block = match pager.take_blocks(1) {
            Err(PagerError::DeviceFull) => return Ok(old),
            block => block?,
        };
        let new = CatalogueState {
            page: block * BLOCK_PAGES,
            epoch: pager.root.next_epoch(),
            ..old
        };
        match copy(pager, &old, &new) {
            Err(Error::Flash(FlashError::BadBlock)) => {}
            result => return result.map(|()| new),
        }
    }
}

/// Reads every page of the catalogue.
pub(crate) fn verify<F: Nand, S: SecureStore>(pager: &mut Pager<F, S>) -> Result<u64> {
    let state = pager.root.committed.catalogue;
    let pages = pages_of(state.bytes as usize);
    for number in 0..pages {
        pager.load(&catalogue_identity(&state, number))?;
    }
    Ok(u64::from(pages))
}

/// Writes a catalogue to a block of its own; it is valid once a record names it.
fn program<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    bytes: &[u8],
) -> Result<CatalogueState> {
    pager.arena.reset();
    let state = CatalogueState {
        page: pager.take_blocks(1)? * BLOCK_PAGES,
        bytes: narrow(bytes.len()),
        epoch: pager.root.committed.epoch,
    };
    let area = pager.arena.lease(1)?;
    for (number, chunk) in (0..).zip(bytes.chunks(PAYLOAD_BYTES)) {
        let page = pager.arena.area_page(area, 0);
        page.fill(0);
        put(page, 0, chunk);
        let identity = catalogue_identity(&state, number);
        pager.root.seal.close(&identity, page);
        pager.program(identity.page, area, 0)?;
    }
    pager.arena.release(area);
    Ok(state)
}

fn copy<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    old: &CatalogueState,
    new: &CatalogueState,
) -> Result<()> {
    pager.arena.reset();
    let area = pager.arena.lease(1)?;
    for number in 0..pages_of(old.bytes as usize) {
        let frame = pager.load(&catalogue_identity(old, number))?;
        pager.arena.copy_page(frame, area);
        let identity = catalogue_identity(new, number);
        pager
            .root
            .seal
            .close(&identity, pager.arena.area_page(area, 0));
        pager.program(identity.page, area, 0)?;
    }
    pager.arena.release(area);
    Ok(())
}

fn pages_of(bytes: usize) -> u32 {
    narrow(bytes.div_ceil(PAYLOAD_BYTES))
}

fn catalogue_identity(state: &CatalogueState, number: u32) -> PageIdentity {
    PageIdentity {
        page: state.page + number,
        epoch: state.epoch,
        role: ROLE_CATALOGUE,
        owner: 0,
        number,
    }
}
