//! The encodings of format version 2 that differ from version 3: read, verified and proved, never
//! written.
//!
//! `docs/format.md`, "Versions".

mod config;
mod frame;
mod record;
mod segment;

pub use config::Compression;
pub(crate) use config::{config, config_text};
pub(crate) use frame::{
    DIRECTORY_ENTRY_BYTES, FRAME_MAGIC, decode_directory_entry, decode_header, encode_header,
};
pub use frame::{FRAME_HEADER_BYTES, Sealing};
pub use record::{RECORD_BYTES, RecordRest};
pub(crate) use record::{decode_record, encode_record};
pub use segment::{
    SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, encode_footer, segment_file_name,
    segment_number,
};
