//! How a key-value store lives inside the process.
