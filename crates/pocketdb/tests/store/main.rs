//! The store against its model: crashes, tampering, bounds and lookups.

#[cfg(test)]
mod attack;
#[cfg(test)]
mod bounds;
#[cfg(test)]
#[path = "../sql/choice.rs"]
mod choice;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod directory;
#[cfg(test)]
mod format;
#[cfg(test)]
mod lookup;
#[cfg(test)]
mod mixes;
#[cfg(test)]
mod older;
#[cfg(test)]
mod ring;
#[cfg(test)]
mod script;
#[cfg(test)]
mod spill;
#[cfg(test)]
mod splices;
#[cfg(test)]
mod stopped;
#[cfg(test)]
mod tamper;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod wear;
