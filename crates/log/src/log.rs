//! A log open for writing.

use std::path::Path;

use crate::appender::Appender;
use crate::config::{Options, StreamConfig, StreamName};
use crate::error::LogError;

/// The 32 bytes everything else is derived from or wrapped under. It must never be stored with the log.
pub struct RootKey(pub(crate) [u8; 32]);

/// A log open for writing. Clones share it; [`Log::close`] ends it for all.
#[derive(Debug, Clone)]
pub struct Log;

impl Log {
    /// Creates an empty log at `path` with the streams `journal` and `default`.
    ///
    /// `origin` is the log's name in its checkpoints, like `example.com/audit`.
    ///
    /// # Errors
    /// [`LogError::Exists`], [`LogError::Storage`].
    pub fn create(
        _path: &Path,
        _origin: &str,
        _root: &RootKey,
        _config: StreamConfig,
    ) -> Result<(), LogError> {
        todo!()
    }

    /// Opens the log at `path` for writing, repairing what a crash left.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open(_path: &Path, _root: &RootKey, _options: Options) -> Result<Self, LogError> {
        todo!()
    }

    /// Creates a stream; nothing happens when it exists with the same configuration.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn create_stream(&self, _name: &StreamName, _config: StreamConfig) -> Result<(), LogError> {
        todo!()
    }

    /// The names of all streams, sorted.
    pub fn streams(&self) -> Vec<StreamName> {
        todo!()
    }

    /// A new producer of `stream`.
    ///
    /// # Errors
    /// [`LogError::NoStream`], [`LogError::Poisoned`].
    pub fn appender(&self, _stream: &StreamName) -> Result<Appender, LogError> {
        todo!()
    }

    /// Calls `callback` after every commit, from the committing thread; it must return quickly.
    ///
    /// For doors that wait for receipts without blocking a thread.
    pub fn on_commit(&self, _callback: Box<dyn Fn() + Send + Sync>) {
        todo!()
    }

    /// Waits until everything handed to the sealers so far is durable.
    ///
    /// # Errors
    /// [`LogError::Poisoned`].
    pub fn flush(&self) -> Result<(), LogError> {
        todo!()
    }

    /// Signs and publishes checkpoints over everything durable.
    ///
    /// # Errors
    /// [`LogError::Poisoned`].
    pub fn publish(&self) -> Result<(), LogError> {
        todo!()
    }

    /// Seals, syncs and publishes everything appended, then ends the log's threads.
    ///
    /// Appends after it fail with `Closed`.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when not everything could be made durable.
    pub fn close(&self) -> Result<(), LogError> {
        todo!()
    }
}
