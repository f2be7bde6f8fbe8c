//! The openings and the signed part of a log, for readers without keys.

use probity_format::stream::StreamName;

use super::subject::Subject;
use super::unchecked::Names;
use super::{Faults, Verifier, VerifyOptions};
use crate::epochs::Openings;
use crate::error::LogError;
use crate::log_location::LogLocation;

impl Verifier<'_> {
    /// The openings of the log at `places`, for a reader without keys: they show which frames
    /// behind a signed head may be its own.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn openings(places: &LogLocation) -> Result<Openings, LogError> {
        let options = VerifyOptions::default();
        let fixed =
            Verifier::new(places, &options)?.fix(&mut Faults::default(), &mut Names::default())?;
        let of_stream = |subject: Subject| Some((subject.name.clone(), subject.floor()?));
        Ok(Openings {
            epochs: fixed.epochs,
            floors: fixed.subjects.into_iter().filter_map(of_stream).collect(),
        })
    }

    /// Frames of the stream `name` of the log at `places` that a head covers, by any signer;
    /// verification reports its faults.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn covered(places: &LogLocation, name: &StreamName) -> Result<u64, LogError> {
        Verifier::new(places, &VerifyOptions::default())?.claimed_most(name)
    }
}
