//! The store against its model: crashes, tampering, bounds and lookups.

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod lookup;
#[cfg(test)]
mod ring;
#[cfg(test)]
mod script;
#[cfg(test)]
mod tamper;
#[cfg(test)]
mod wear;
